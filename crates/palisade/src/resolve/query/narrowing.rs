//! Terms of a WHERE clause that are of one table alone, and may stand in its source subquery as well.
//!
//! Behind a fence no index serves the terms outside of it. A row of which such a term is not true is not in the query's result, so
//! the source subquery need not give it. The term stands in its old place too.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinOperator, TableFactor, TableWithJoins, Value,
};

use crate::resolve::{Resolver, from::reference_index, scope::Scope};
use crate::{
    dialect::Dialect,
    policy::obligation::RowFilter,
    syntax::{each_expr, each_expr_mut},
};

/// The most expressions that are copied for one table: a long list is worth no index.
const MOST_COPIED: usize = 256;

/// A table of a FROM clause. Its rows are in the result only where the WHERE clause is true of them.
struct NarrowedTable {
    /// Its position among the sources.
    source: usize,
    /// Its position among the statement's references.
    reference: usize,
}

/// A term that can be copied.
struct CopiedTerm {
    /// The position of the source that it is of.
    source: usize,
    /// How many expressions it is made of.
    size: usize,
    /// The term, with the bare names of the table's columns.
    expr: Expr,
}

impl<'a> Resolver<'a> {
    /// Notes for the tables of a query which terms of its WHERE clause are of each alone.
    pub(in crate::resolve) fn note_narrowing(
        &mut self,
        selection: &Expr,
        from: &[TableWithJoins],
        scope: &Scope<'a, '_>,
    ) {
        if !self.is_statement() || self.has_own_truths() {
            return;
        }
        let mut tables = list_narrowed_tables(from);
        tables.retain(|table| {
            let reference = self.references.get(table.reference);
            reference.is_some_and(|reference| match &reference.decision.rows {
                RowFilter::Where(_) => {
                    reference.decision.past.is_none() && reference.body.is_none()
                }
                RowFilter::Everything | RowFilter::Nothing => false,
            })
        });
        if tables.is_empty() {
            return;
        }
        let mut room = MOST_COPIED;
        let mut terms = vec![selection];
        while let Some(term) = terms.pop() {
            match term {
                Expr::Nested(inner) => terms.push(inner),
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } => terms.extend([&**right, &**left]),
                term => {
                    let Some(copied) = self.copy_term(term, scope, room) else {
                        continue;
                    };
                    let table = tables.iter().find(|table| table.source == copied.source);
                    if let Some(table) = table
                        && let Some(reference) = self.references.get_mut(table.reference)
                    {
                        room -= copied.size;
                        reference.narrowed_by.push(copied.expr);
                    }
                }
            }
        }
    }

    /// A term of at most `most` expressions that is of unmasked columns of one source and constants, and fails for no value.
    fn copy_term(&self, term: &Expr, scope: &Scope<'a, '_>, most: usize) -> Option<CopiedTerm> {
        let mut source = None;
        let mut size = 0;
        let is_copied = each_expr(term, &mut |part| {
            size += 1;
            let is_name = matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            let found = self.find_own_column(part, scope);
            let is_of_it =
                !is_name || (found.is_some() && source.is_none_or(|known| Some(known) == found));
            source = source.or(found);
            let is_possible =
                size <= most && is_of_it && self.is_copyable(part) && self.never_fails(part, scope);
            match is_possible {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })
        .is_continue();
        let source = source.filter(|_| is_copied)?;
        let mut expr = term.clone();
        let _ = each_expr_mut(&mut expr, &mut |part| {
            if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = part
                && let Some(column) = self.plain_column(part, scope)
            {
                *part = Expr::Identifier(self.encode(&column.name));
            }
            ControlFlow::Continue(())
        });
        Some(CopiedTerm { source, size, expr })
    }

    /// Whether an expression means the same in the source subquery, if what it is made of does. MySQL's parameters are told by their
    /// places in the text.
    fn is_copyable(&self, expr: &Expr) -> bool {
        let is_query = matches!(
            expr,
            Expr::Subquery(_)
                | Expr::InSubquery {
                    expr: _,
                    subquery: _,
                    negated: _,
                }
                | Expr::Exists {
                    subquery: _,
                    negated: _,
                }
        );
        let is_parameter =
            matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
        !(is_query || is_parameter && self.catalog.dialect() == Dialect::Mysql)
    }

    /// The position of the source of this query of which `name` is an unmasked column.
    fn find_own_column(&self, name: &Expr, scope: &Scope<'a, '_>) -> Option<usize> {
        self.plain_column(name, scope)?;
        match name {
            Expr::Identifier(name) => scope.source_of(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => {
                    scope.source_of(Some(&self.table_key(qualifier)), &self.key(name))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The tables that no outer join fills with NULL; none where the sources are not known one by one.
fn list_narrowed_tables(from: &[TableWithJoins]) -> Vec<NarrowedTable> {
    let mut tables = Vec::new();
    let mut source = 0;
    for TableWithJoins { relation, joins } in from {
        let is_kept = joins
            .iter()
            .all(|join| joins_rows(join) || fills_right(join));
        let right = joins.iter().map(|join| (&join.relation, joins_rows(join)));
        for (factor, is_whole) in std::iter::once((relation, true)).chain(right) {
            // It may have several sources.
            if let TableFactor::NestedJoin {
                table_with_joins: _,
                alias: _,
            } = factor
            {
                return Vec::new();
            }
            if let TableFactor::Table {
                name,
                alias: _,
                args: None,
                with_hints: _,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints: _,
            } = factor
                && let Some(reference) = reference_index(name)
                && is_kept
                && is_whole
                && partitions.is_empty()
            {
                tables.push(NarrowedTable { source, reference });
            }
            source += 1;
        }
    }
    tables
}

/// Whether a join gives no row that is not of both sides.
fn joins_rows(join: &Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
    )
}

/// Whether a join gives every row of what stands before it.
fn fills_right(join: &Join) -> bool {
    matches!(
        join.join_operator,
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_)
    )
}
