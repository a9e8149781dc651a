//! Resolves conditions that an engine may run before a row filter, and notes whether they need a fence.

use sqlparser::ast::Expr;

use crate::{
    access::Usage,
    catalog::ColumnId,
    rejection::Rejection,
    resolve::{Resolver, query::Ctes, scope::Scope},
};

impl<'a> Resolver<'a> {
    /// Resolves a condition that the engine may run before our filter, and gives the columns in it.
    pub(in crate::resolve) fn resolve_condition(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        usage: Usage,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let (columns, is_total) =
            self.within_condition(|resolver| resolver.expr(expr, scope, ctes, usage))?;
        self.needs_fence |= self.runs_subquery_late(expr);
        if !self.needs_fence && !self.is_leakproof(expr, scope) {
            self.note_condition(is_total && self.are_plain(&columns));
        }
        Ok(columns)
    }

    /// Resolves a condition over groups. SQLite moves its terms without aggregates into WHERE, where
    /// they run before our filter.
    pub(in crate::resolve) fn resolve_having(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        self.needs_fence |= self.runs_subquery_late_below_groups(expr, scope);
        if self.needs_fence && self.failures.planned {
            self.expr(expr, scope, ctes, Usage::Filter)?;
        } else if self.stays_or_leakproof(expr, scope) && self.failures.is_outermost() {
            // It stays above the groups, which are the same by every plan.
            self.on_answered_rows(|resolver| resolver.expr(expr, scope, ctes, Usage::Filter))?;
        } else {
            let (columns, is_total) =
                self.within_condition(|resolver| resolver.expr(expr, scope, ctes, Usage::Filter))?;
            if !self.stays_or_leakproof(expr, scope) {
                self.note_condition(is_total && self.are_plain(&columns));
            }
        }
        Ok(())
    }

    /// Notes a condition that is more than comparisons: it needs a fence, or stands in the open where it never fails.
    fn note_condition(&mut self, never_fails: bool) {
        self.needs_fence |= !never_fails;
        self.has_open_conditions |= never_fails;
    }

    fn are_plain(&self, columns: &[ColumnId]) -> bool {
        columns.iter().all(|column| self.is_stored_plainly(*column))
    }
}
