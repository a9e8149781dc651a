//! Joins: what they bring into scope, and which columns USING and NATURAL merge.

use std::{ops::Range, sync::Arc};

use sqlparser::ast::{Join, JoinConstraint, JoinOperator, ObjectNamePart, TableWithJoins};

use crate::resolve::{
    Resolver,
    expr::operand_class::{OperandClass, Operands},
    names::unknown_column,
    query::Ctes,
    refuse_unsupported,
    scope::{Merged, Origin, Scope},
    token::OtherValues,
};
use crate::{access::Usage, catalog::Column, code::Code, dialect::Dialect, rejection::Rejection};

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn table_with_joins(
        &mut self,
        table: &mut TableWithJoins,
        scope: &mut Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        let TableWithJoins { relation, joins } = table;
        // On SQLite USING and NATURAL reach every table to the left, commas included.
        let start = match self.catalog.dialect() {
            Dialect::Sqlite => 0,
            Dialect::Postgres | Dialect::Mysql => scope.sources.len(),
        };
        self.table_factor(relation, scope, ctes)?;
        for join in joins {
            let Join {
                relation,
                global,
                join_operator,
            } = join;
            if *global {
                return Err(refuse_unsupported("GLOBAL JOIN"));
            }
            self.require_condition(join_operator)?;
            let right = scope.sources.len();
            self.table_factor(relation, scope, ctes)?;
            match join_operator {
                // `FULL` is an alias there: the engine would read an inner join.
                JoinOperator::FullOuter(_) if self.catalog.dialect() == Dialect::Mysql => {
                    return Err(refuse_unsupported(
                        "FULL JOIN, which MySQL and MariaDB do not have (write a LEFT JOIN, UNION ALL, and a RIGHT JOIN whose left side IS NULL),",
                    ));
                }
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::CrossJoin(constraint) => {
                    self.constraint(constraint, scope, start..right, ctes)?;
                }
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                    let before = scope.merged.len();
                    self.constraint(constraint, scope, start..right, ctes)?;
                    for merged in scope.merged.iter_mut().skip(before) {
                        merged.right_first = self.catalog.dialect() == Dialect::Mysql;
                    }
                }
                JoinOperator::StraightJoin(constraint)
                    if self.catalog.dialect() == Dialect::Mysql =>
                {
                    self.constraint(constraint, scope, start..right, ctes)?;
                }
                JoinOperator::Semi(_)
                | JoinOperator::LeftSemi(_)
                | JoinOperator::RightSemi(_)
                | JoinOperator::Anti(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::RightAnti(_) => {
                    return Err(refuse_unsupported("SEMI or ANTI JOIN"));
                }
                JoinOperator::CrossApply | JoinOperator::OuterApply => {
                    return Err(refuse_unsupported("APPLY"));
                }
                JoinOperator::AsOf {
                    match_condition: _,
                    constraint: _,
                } => {
                    return Err(refuse_unsupported("ASOF JOIN"));
                }
                JoinOperator::StraightJoin(_) => return Err(refuse_unsupported("STRAIGHT_JOIN")),
                JoinOperator::ArrayJoin
                | JoinOperator::LeftArrayJoin
                | JoinOperator::InnerArrayJoin => return Err(refuse_unsupported("ARRAY JOIN")),
            }
        }
        Ok(())
    }

    /// Refuses a join without a condition where the engine's grammar demands one.
    fn require_condition(&self, join: &JoinOperator) -> Result<(), Rejection> {
        let is_outer = matches!(
            join,
            JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
        );
        let is_inner = matches!(
            join,
            JoinOperator::Join(JoinConstraint::None) | JoinOperator::Inner(JoinConstraint::None)
        );
        let is_lacking = match self.catalog.dialect() {
            Dialect::Sqlite => false,
            Dialect::Mysql => is_outer,
            Dialect::Postgres => is_outer || is_inner,
        };
        if is_lacking {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                "a JOIN has no condition: write ON or USING behind its table, or CROSS JOIN for every pair of rows",
            ));
        }
        Ok(())
    }

    fn constraint(
        &mut self,
        constraint: &mut JoinConstraint,
        scope: &mut Scope<'a, '_>,
        left: Range<usize>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        match constraint {
            JoinConstraint::None => Ok(()),
            JoinConstraint::On(expr) => {
                self.join_condition(expr, scope, ctes)?;
                self.tie(expr, scope);
                Ok(())
            }
            JoinConstraint::Using(columns) => {
                for column in columns {
                    let [ObjectNamePart::Identifier(ident)] = column.0.as_mut_slice() else {
                        return Err(refuse_unsupported("a qualified name in USING"));
                    };
                    self.normalise(ident);
                    let key = self.key(ident).into();
                    self.merge(scope, left.clone(), &key)?;
                }
                Ok(())
            }
            JoinConstraint::Natural => {
                let new = keys(scope, left.end..scope.sources.len());
                let mut shared: Vec<Arc<str>> = Vec::new();
                for key in list_columns(scope, left.clone()) {
                    if new.contains(&key) && !shared.contains(&key) {
                        shared.push(key);
                    }
                }
                for key in shared {
                    self.merge(scope, left.clone(), &key)?;
                }
                Ok(())
            }
        }
    }

    /// Merges the column `key` of the tables after `left` into the one there.
    fn merge(
        &mut self,
        scope: &mut Scope<'a, '_>,
        left: Range<usize>,
        key: &Arc<str>,
    ) -> Result<(), Rejection> {
        let mut into = None;
        let mut merged = Vec::new();
        let mut used = Vec::new();
        for (index, source) in scope.sources.iter().enumerate().skip(left.start) {
            if let Some((origin, _)) = source.columns.find(key) {
                used.extend_from_slice(origin.columns());
                if index < left.end {
                    into = into.or(Some(index));
                } else {
                    merged.push(index);
                }
            }
        }
        let Some(into) = into.filter(|_| !merged.is_empty()) else {
            return Err(unknown_column(key, &[], self.catalog.dialect()));
        };
        if !self.mode.is_output() {
            let mut links = std::mem::take(&mut scope.links);
            for position in scope.positions(None, key) {
                links.tie(into, position);
            }
            scope.links = links;
        }
        let over = left.start..scope.sources.len();
        scope.merged.extend(merged.into_iter().map(|source| Merged {
            source,
            into,
            over: over.clone(),
            middle: left.end,
            right_first: false,
            key: Arc::clone(key),
        }));
        let origins: Vec<Origin<'_>> = scope
            .sources
            .iter()
            .skip(left.start)
            .filter_map(|source| Some(source.columns.find(key)?.0))
            .collect();
        let is_settled = self.needs_fence && self.failures.planned;
        if !is_settled && !self.merges_safely(&origins) {
            self.needs_fence = true;
            self.failures.planned = true;
        }
        let mut sides = origins.iter().map(|origin| self.origin_operand(origin));
        let first = sides.next().unwrap_or(OperandClass::Unknown);
        let sides: Vec<Operands> = sides.map(|side| Operands::Binary(first, side)).collect();
        for side in &sides {
            self.user_operator("=", side);
        }
        let operands: Vec<_> = origins.iter().map(Origin::columns).collect();
        self.implicit_casts(&operands);
        self.check_merged_tokens(&origins, OtherValues::Refused)?;
        for column in used {
            self.touch(column, Usage::Join);
        }
        Ok(())
    }
}

impl Resolver<'_> {
    /// Whether these may be compared on rows that a filter hides: columns that may be seen, and go together.
    fn merges_safely(&self, origins: &[Origin<'_>]) -> bool {
        let columns: Option<Vec<&Column>> = origins
            .iter()
            .map(|origin| {
                let id = origin.identity().filter(|id| self.is_stored_plainly(*id))?;
                self.catalog.column(id)
            })
            .collect();
        columns.is_some_and(|columns| {
            columns
                .iter()
                .all(|one| columns.iter().all(|other| self.columns_compare(one, other)))
        })
    }
}

/// The columns of these sources, each as it is.
fn keys(scope: &Scope<'_, '_>, sources: Range<usize>) -> Vec<Arc<str>> {
    let all = sources.filter_map(|index| Some((index, scope.sources.get(index)?)));
    all.flat_map(|(index, source)| {
        let columns = source.columns.list().into_iter();
        columns.filter_map(move |column| {
            let is_merged = scope
                .merged
                .iter()
                .any(|merged| merged.source == index && merged.key == column.key);
            (!is_merged).then_some(column.key)
        })
    })
    .collect()
}

/// The columns of these sources as `*` lists them, in which order a NATURAL join merges them: of one side of a join, those
/// that joins within it have merged come first.
fn list_columns(scope: &Scope<'_, '_>, sources: Range<usize>) -> Vec<Arc<str>> {
    let before = keys(scope, 0..sources.start).len();
    let count = keys(scope, sources).len();
    let all = scope.star().unwrap_or_default().into_iter();
    all.skip(before)
        .take(count)
        .map(|column| column.key)
        .collect()
}
