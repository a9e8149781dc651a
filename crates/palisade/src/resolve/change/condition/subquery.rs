//! Subqueries in a condition: whether their rows depend on those of the target.

use sqlparser::ast::{Expr, Query, Select, SetExpr, SetOperator};

use crate::resolve::change::condition::{
    TargetRows,
    rows::{inner_conditions, is_grouped},
};

impl TargetRows<'_, '_> {
    /// Whether a query has rows, or which, hangs on the target's row.
    pub(super) fn query_narrows(&mut self, query: &Query) -> bool {
        self.body_narrows(&query.body)
    }

    pub(super) fn body_narrows(&mut self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                // One row, whatever there is.
                let is_one = select.having.is_none()
                    && !is_grouped(select)
                    && select.projection.iter().any(|item| self.is_aggregate(item));
                if is_one {
                    return false;
                }
                let depth = self.enter(&select.from);
                let says = self.select_narrows(select);
                self.leave(depth);
                says
            }
            SetExpr::Query(query) => self.query_narrows(query),
            SetExpr::SetOperation {
                op,
                set_quantifier: _,
                left,
                right,
            } => match op {
                SetOperator::Union => self.body_narrows(left) && self.body_narrows(right),
                SetOperator::Intersect | SetOperator::Except | SetOperator::Minus => {
                    self.body_narrows(left) || self.body_narrows(right)
                }
            },
            SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => false,
        }
    }

    /// Whether which rows a SELECT takes hangs on the target's row; its sources are in sight.
    pub(super) fn select_narrows(&mut self, select: &Select) -> bool {
        let before = self.linked_count();
        let mut conjuncts: Vec<&Expr> = select.selection.iter().collect();
        let mut derived = Vec::new();
        inner_conditions(&select.from, &mut conjuncts, &mut derived);
        conjuncts.extend(&select.having);
        if self.any_narrows(&conjuncts) {
            return true;
        }
        // How many of the target's own kind there are.
        let counts = select
            .having
            .as_ref()
            .is_some_and(|having| self.has_aggregate(having));
        (counts && self.linked_count() > before)
            || derived.into_iter().any(|query| self.query_narrows(query))
    }
}
