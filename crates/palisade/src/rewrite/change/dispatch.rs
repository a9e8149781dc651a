//! What each kind of change needs around it.

use std::collections::BTreeSet;

use sqlparser::ast::{SetExpr, Statement, Update};

use crate::rewrite::{
    change::{ChangeRewriter, RewrittenChange},
    refusal::not_as_decided,
};
use crate::{policy::obligation::RowFilter, rejection::Rejection, resolve::Conflict};

impl ChangeRewriter<'_> {
    /// What must stand around `change`, and what must be looked for before it.
    ///
    /// # Errors
    /// `write.row-not-admitted` where a row would be outside of what policy admits, or nothing is known of it;
    /// `obligation.inapplicable` where a filter cannot be put around this form of statement.
    pub(in crate::rewrite) fn rewrite_change(
        &self,
        change: &SetExpr,
        functions: &mut BTreeSet<String>,
    ) -> Result<RewrittenChange, Rejection> {
        let unknown = || not_as_decided("a change of another catalog");
        let relation = self
            .catalog
            .relation(self.target.relation)
            .ok_or_else(unknown)?;
        let write = self.permit.writes().get(&relation.id).ok_or_else(unknown)?;
        let seen = match self.permit.relations().get(&relation.id) {
            Some(decision) => decision.rows.clone(),
            // Rows are added, and none is looked at.
            None if self.target.reference.is_none()
                && !self.target.returns
                && self.target.on_conflict == Conflict::DoNothing =>
            {
                RowFilter::Everything
            }
            None => return Err(not_as_decided("rows are reached that were not decided")),
        };
        match change {
            SetExpr::Insert(Statement::Insert(insert)) => {
                self.rewrite_insert(insert, relation, write, &seen, functions)
            }
            SetExpr::Update(Statement::Update(Update {
                update_token: _,
                optimizer_hints: _,
                table: _,
                assignments,
                from: _,
                selection: _,
                returning: _,
                output: _,
                or: _,
                order_by: _,
                limit: _,
            })) => self.rewrite_update(assignments, relation, write, &seen, functions),
            SetExpr::Delete(_) => self.rewrite_delete(relation, write, &seen, functions),
            SetExpr::Merge(_) => {
                self.require_unfiltered_merge(relation, write, &seen)?;
                Ok(RewrittenChange::default())
            }
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left: _,
                right: _,
            }
            | SetExpr::Values(_)
            | SetExpr::Table(_) => Err(not_as_decided("a change of another form")),
        }
    }
}
