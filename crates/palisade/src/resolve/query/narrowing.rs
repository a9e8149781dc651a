//! Terms of a WHERE clause that say which keys a table's rows have, and may stand in its source subquery as well.
//!
//! Behind a fence no index serves the terms outside of it. A row of which such a term is not true is not in the query's result, so
//! the source subquery need not give it. The term stands in its old place too.
//!
//! Terms of keys alone: how many rows have a key, the planner knows without a look at values. Of other columns it has statistics, by
//! which a plan, and whether it fails, would tell values that the filter hides. MySQL and MariaDB look for the row of a key while they plan.

use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinOperator, TableFactor, TableWithJoins, UnaryOperator, Value,
};

use crate::resolve::{Resolver, from::reference_index, scope::Scope};
use crate::{dialect::Dialect, policy::obligation::RowFilter};

/// The most keys in one term: a long list is worth no index.
const MOST_KEYS: usize = 256;

/// A table of a FROM clause. Its rows are in the result only where the WHERE clause is true of them.
struct NarrowedTable {
    /// Its position among the sources.
    source: usize,
    /// Its position among the statement's references.
    reference: usize,
}

impl<'a> Resolver<'a> {
    /// Notes for the tables of a query which terms of its WHERE clause say what keys their rows have.
    pub(in crate::resolve) fn note_narrowing(
        &mut self,
        selection: &Expr,
        from: &[TableWithJoins],
        scope: &Scope<'a, '_>,
    ) {
        if !self.is_statement() || self.catalog.dialect() == Dialect::Mysql {
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
        let mut terms = vec![selection];
        while let Some(term) = terms.pop()
            && !tables.is_empty()
        {
            match term {
                Expr::Nested(inner) => terms.push(inner),
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } => terms.extend([&**right, &**left]),
                term => {
                    let Some((source, copied)) = self.copy_key_term(term, scope) else {
                        continue;
                    };
                    let found = tables.iter().position(|table| table.source == source);
                    if let Some(found) = found
                        && let Some(reference) =
                            self.references.get_mut(tables.swap_remove(found).reference)
                    {
                        reference.narrowed_by = Some(copied);
                    }
                }
            }
        }
    }

    /// `key = constant` or `key IN (constants)`, with the bare name of the column, and the position of the source that it is of.
    fn copy_key_term(&self, term: &Expr, scope: &Scope<'a, '_>) -> Option<(usize, Expr)> {
        let mut copied = term.clone();
        let (name, constants) = match &mut copied {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            } => match is_constant(right) {
                true => (&mut **left, std::slice::from_ref(&**right)),
                false => (&mut **right, std::slice::from_ref(&**left)),
            },
            Expr::InList {
                expr,
                list,
                negated: false,
            } => (&mut **expr, list.as_slice()),
            _ => return None,
        };
        let source = self.find_source_of_key(name, scope)?;
        let column = self.plain_column(name, scope)?;
        let is_copied = constants.len() <= MOST_KEYS
            && constants.iter().all(is_constant)
            && self.never_fails(term, scope);
        *name = Expr::Identifier(self.encode(&column.name));
        is_copied.then_some((source, copied))
    }

    /// The position of the source of this query whose primary key `name` is, all of it and unmasked.
    fn find_source_of_key(&self, name: &Expr, scope: &Scope<'a, '_>) -> Option<usize> {
        let source = match name {
            Expr::Identifier(name) => scope.source_of(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => {
                    scope.source_of(Some(&self.table_key(qualifier)), &self.key(name))
                }
                _ => None,
            },
            _ => None,
        }?;
        let relation = scope.sources.get(source)?.columns.relation()?;
        let column = self.plain_column(name, scope)?;
        let is_key = match relation.primary_key.as_slice() {
            [key] => relation
                .column(*key)
                .is_some_and(|key| key.uid == column.uid),
            [] | [_, _, ..] => false,
        };
        is_key.then_some(source)
    }
}

/// Whether `expr` is a constant of the statement.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => {
            matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::Number(_, _)))
        }
        Expr::Value(_) => true,
        _ => false,
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
