//! Comparisons that decide which rows of two tables meet, wherever they stand: what is looked at so is joined by.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{BinaryOperator, Expr, Query};

use crate::resolve::{
    Resolver, expr::ExprContext, query::Ctes, scope::Scope, token::compares as is_comparison,
};
use crate::{
    access::Usage,
    catalog::ColumnId,
    rejection::Rejection,
    syntax::{TreeVisitor, name_parts, visit_tree},
};

impl<'a> Resolver<'a> {
    /// Counts `columns`, which are compared as `left` and `right`, as joined by where these are of different sources.
    pub(in crate::resolve) fn note_comparison(
        &mut self,
        left: &Expr,
        right: &Expr,
        columns: &[ColumnId],
        at: &ExprContext<'a, '_, '_>,
    ) {
        if at.usage == Usage::Filter && columns.len() > 1 && self.is_across(left, right, at.scope) {
            self.note_join(columns, at);
        }
    }

    /// Counts `columns` as joined by.
    pub(in crate::resolve) fn note_join(
        &mut self,
        columns: &[ColumnId],
        at: &ExprContext<'a, '_, '_>,
    ) {
        if at.usage == Usage::Filter {
            for column in columns {
                self.touch(*column, Usage::Join);
            }
        }
    }

    /// The condition of a join: what compares two sources joins them, and what else it says filters too.
    pub(in crate::resolve) fn join_condition(
        &mut self,
        condition: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        match condition {
            Expr::Nested(inner) => self.join_condition(inner, scope, ctes),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => {
                self.join_condition(left, scope, ctes)?;
                self.join_condition(right, scope, ctes)
            }
            other => {
                let columns = self.resolve_condition(other, scope, ctes, Usage::Join)?;
                let joins = matches!(other, Expr::BinaryOp { left, op, right }
                    if is_comparison(op) && self.is_across(left, right, scope));
                if !joins {
                    for column in columns {
                        self.touch(column, Usage::Filter);
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether one side names a column of another source than the other does; what a subquery gives is of its own.
    fn is_across(&self, left: &Expr, right: &Expr, scope: &Scope<'a, '_>) -> bool {
        let [left, right] = [left, right].map(|side| {
            let mut named = Sources {
                resolver: self,
                scope,
                depth: 0,
                found: BTreeSet::new(),
            };
            let _ = visit_tree(side, &mut named);
            named.found
        });
        let other = |one: &JoinedSource| right.iter().any(|other| other != one);
        left.iter().any(other)
    }
}

/// Where a column is from.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum JoinedSource {
    Here(usize),
    Around,
    Below,
}

/// The sources that an expression names columns of.
struct Sources<'r, 'a, 's> {
    resolver: &'r Resolver<'a>,
    scope: &'r Scope<'a, 's>,
    depth: usize,
    found: BTreeSet<JoinedSource>,
}

impl TreeVisitor for Sources<'_, '_, '_> {
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        self.found.insert(JoinedSource::Below);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let (qualifier, name) = match name_parts(expr) {
            [name] => (None, name),
            [qualifier, name] | [_, qualifier, name] => {
                (Some(self.resolver.table_key(qualifier)), name)
            }
            [] | [_, _, _, _, ..] => return ControlFlow::Continue(()),
        };
        let key = self.resolver.key(name);
        let mut here = self.scope.positions(qualifier.as_deref(), &key);
        self.found
            .insert(here.next().map_or(JoinedSource::Around, JoinedSource::Here));
        ControlFlow::Continue(())
    }
}
