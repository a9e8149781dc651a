//! Common table expressions that read themselves.
//!
//! Which tokens such a query gives depends on those it reads, which it gives. So it is read with those of its first arm, and
//! again with what came out beside them, until nothing is new. Then the assumption holds: for the rows of the first arm, and for all
//! others, which are made of such rows.

use sqlparser::ast::{
    JoinConstraint, JoinOperator, Query, SetExpr, SetOperator, SetQuantifier, TableFactor,
    TableWithJoins,
};

use crate::resolve::{
    Resolver,
    query::cte::{CteEntry, Ctes, relations_named, rename_outputs},
    scope::{Output, Scope},
    state::Position,
};
use crate::{
    code::Code,
    lineage::{Lineage, TokenLineage},
    rejection::Rejection,
};

/// How often such a query is read for its tokens, before it is read as if it read none.
const ROUNDS: usize = 4;

/// A query and its columns, resolved.
type Read = (Query, Vec<Output>);

/// Reads the whole query, where what it reads from itself is these tokens.
type Arms<'t, 'a> =
    dyn FnMut(&mut Resolver<'a>, &[Option<TokenLineage>]) -> Result<Read, Rejection> + 't;

/// What becomes of a value that is compared with tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::resolve) enum Comparisons {
    /// It must be one, and its tag is taken off.
    #[default]
    Checked,
    /// Nothing: which tokens come out is asked, in a tree that is dropped.
    Left,
}

impl<'a> Resolver<'a> {
    /// The columns of `query`, a union whose first arm is `seed` and whose others may read `entry`, which is the query
    /// itself under `names`.
    pub(in crate::resolve) fn recursive(
        &mut self,
        query: &mut Query,
        mut seed: Query,
        entry: &mut CteEntry<'_>,
        names: &[(String, String)],
        parent: Option<&Scope<'a, '_>>,
    ) -> Result<Vec<Output>, Rejection> {
        // Engines bound how often it may read itself, and fail beyond.
        self.failures.planned = true;
        self.shape.recursive = true;
        let (references, parameters) = (self.references.len(), self.tokens.parameters.len());
        let budget = self.work.size_budget;
        let read = |resolver: &mut Self, query: &mut Query, ctes: Ctes<'_>| {
            // What an earlier reading found stands in a tree that was dropped.
            resolver.references.truncate(references);
            resolver.tokens.parameters.truncate(parameters);
            resolver.work.size_budget = budget;
            // One such query inside of another is read many times.
            resolver.count_relation(1)?;
            resolver.changes.position = Position::Inside;
            resolver.query(query, parent, ctes, true)
        };
        let first = read(self, &mut seed, entry.outer)?;
        let first = rename_outputs(first, names, self.catalog.dialect())?;
        let mut arms = |resolver: &mut Self, assumed: &[Option<TokenLineage>]| {
            let seen = first.iter().zip(assumed).map(|(output, tokens)| Output {
                key: output.key.clone(),
                name: output.name.clone(),
                lineage: Lineage::from_columns(output.lineage.columns.clone())
                    .with_tokens(tokens.clone()),
            });
            entry.columns = Some(seen.collect());
            let ctes = Ctes { entry: Some(entry) };
            let mut tree = query.clone();
            let outputs = read(resolver, &mut tree, ctes)?;
            Ok((tree, outputs))
        };
        // Of whatever comes out it holds that it is nothing.
        let nothing = vec![None; first.len()];
        let given = first.iter().map(|output| output.lineage.tokens.clone());
        let mut fixed = None;
        if !self.tokens.are_given {
            // With tokens among the arms the tree is dropped, and without them nothing is compared with any.
            let outer = std::mem::replace(&mut self.tokens.comparisons, Comparisons::Left);
            let read = arms(self, &nothing);
            self.tokens.comparisons = outer;
            fixed = Some(read?);
        }
        // Another arm may be the first thing that has tokens.
        if self.tokens.are_given {
            fixed = self.find_token_fixpoint(given.collect(), &mut arms)?;
        }
        let (tree, outputs) = match fixed {
            Some(found) => found,
            None => arms(self, &nothing)?,
        };
        *query = tree;
        Ok(outputs)
    }

    /// What `arms` gives where it reads the tokens that it gives, beginning with `assumed`; none if that takes too long.
    ///
    /// # Errors
    /// Those of `arms`; `token.foreign` only for what is compared with the tokens that are there in the end.
    fn find_token_fixpoint(
        &mut self,
        mut assumed: Vec<Option<TokenLineage>>,
        arms: &mut Arms<'_, 'a>,
    ) -> Result<Option<Read>, Rejection> {
        for _ in 0..ROUNDS {
            let read = match arms(self, &assumed) {
                Err(why) if why.code() == Code::TokenForeign => {
                    let outer = std::mem::replace(&mut self.tokens.comparisons, Comparisons::Left);
                    let read = arms(self, &assumed);
                    self.tokens.comparisons = outer;
                    (read?, Err(why))
                }
                read => (read?, Ok(())),
            };
            let ((tree, outputs), checked) = read;
            let given = assumed.iter().zip(&outputs).map(|(tokens, output)| {
                TokenLineage::either(tokens.clone(), output.lineage.tokens.clone())
            });
            let given: Vec<_> = given.collect();
            if given == assumed {
                return checked.map(|()| Some((tree, outputs)));
            }
            assumed = given;
        }
        Ok(None)
    }
}

/// The first arm of a query that may read itself: a union.
pub(in crate::resolve) fn recursive_seed(query: &Query) -> Option<Query> {
    let Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let mut arm = body;
    while let SetExpr::SetOperation {
        left,
        op: SetOperator::Union,
        set_quantifier: _,
        right: _,
    } = &**arm
    {
        arm = left;
    }
    if std::ptr::eq(arm, body) {
        return None;
    }
    Some(Query {
        with: with.clone(),
        body: arm.clone(),
        order_by: None,
        limit_clause: None,
        fetch: fetch.clone(),
        locks: locks.clone(),
        for_clause: for_clause.clone(),
        settings: settings.clone(),
        format_clause: format_clause.clone(),
        pipe_operators: pipe_operators.clone(),
    })
}

/// Whether something in a query ends its recursion: a condition of each arm that reads the rows of the round before, or that
/// equal rows are taken once. MySQL and MariaDB stop a query without an end after a number of rounds, and answer with what there is.
pub(in crate::resolve) fn may_end(query: &Query, key: &str, resolver: &Resolver<'_>) -> bool {
    query.limit_clause.is_some() || body_may_end(&query.body, key, resolver)
}

fn body_may_end(body: &SetExpr, key: &str, resolver: &Resolver<'_>) -> bool {
    match body {
        SetExpr::SetOperation {
            left,
            op: _,
            set_quantifier: SetQuantifier::All | SetQuantifier::ByName | SetQuantifier::AllByName,
            right,
        } => body_may_end(left, key, resolver) && body_may_end(right, key, resolver),
        SetExpr::SetOperation {
            left: _,
            op: _,
            set_quantifier:
                SetQuantifier::None | SetQuantifier::Distinct | SetQuantifier::DistinctByName,
            right: _,
        } => true,
        SetExpr::Query(query) => may_end(query, key, resolver),
        SetExpr::Select(arm) => {
            let reads_itself =
                |table: &TableWithJoins| relations_named(table, resolver).contains(key);
            arm.selection.is_some()
                || arm.having.is_some()
                || !arm.from.iter().any(reads_itself)
                || arm.from.iter().any(joins_some)
        }
        SetExpr::Values(_) => true,
        // Refused where they are read.
        SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => true,
    }
}

/// Whether one of the joins, in parentheses or not, leaves rows out.
fn joins_some(TableWithJoins { relation, joins }: &TableWithJoins) -> bool {
    let is_inside = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin {
            table_with_joins,
            alias: _,
        } => joins_some(table_with_joins),
        _ => false,
    };
    let mut beside = joins.iter();
    is_inside(relation)
        || beside.any(|join| {
            may_leave_rows_out(&join.join_operator)
                || (is_inner(&join.join_operator) && is_inside(&join.relation))
        })
}

/// Whether a join keeps no row that has none beside it.
fn is_inner(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::CrossJoin(_)
            | JoinOperator::StraightJoin(_)
    )
}

/// Whether a join leaves rows of both sides out that do not meet its condition.
fn may_leave_rows_out(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::Join(condition)
        | JoinOperator::Inner(condition)
        | JoinOperator::CrossJoin(condition)
        | JoinOperator::StraightJoin(condition) => *condition != JoinConstraint::None,
        _ => false,
    }
}
