//! What each kind of change needs around it.

use std::collections::BTreeSet;

use sqlparser::ast::{SetExpr, Statement, Update};

use crate::rewrite::{
    change::{
        ChangeRewriter, RewrittenChange,
        precheck::{Violation, ViolationQuery},
        update::not_entailed,
    },
    refusal::not_as_decided,
};
use crate::{
    catalog::Change, policy::obligation::RowFilter, rejection::Rejection, resolve::Conflict,
};

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
        let mut rewritten = RewrittenChange::default();
        let RewrittenChange {
            obligations,
            reads,
            looked,
            violations,
            conflicts,
        } = &mut rewritten;
        match change {
            SetExpr::Insert(Statement::Insert(insert)) => {
                *conflicts = self.conflicting_rows(insert, relation);
                let parts = (obligations, reads, looked);
                *violations =
                    self.rewrite_insert(insert, relation, write, &seen, parts, functions)?;
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
            })) => {
                let row = self.assigned_values(assignments, Change::Update, relation);
                let changed = self.residual_check(&write.add, &seen, &row, relation)?;
                let joined = self.target.joined;
                let reached = [&seen, &write.change];
                let within =
                    self.build_write_filter(&reached, relation, joined, reads, functions)?;
                let filters = [&seen, &write.change, &changed];
                obligations.write_filter =
                    self.build_write_filter(&filters, relation, joined, reads, functions)?;
                if let Some(rest) = not_entailed(&changed, &reached) {
                    let admitted = self.qualified_condition(rest, relation, joined, functions)?;
                    violations.push(ViolationQuery::Target {
                        within: within.map(Box::new),
                        admitted: Box::new(admitted),
                        violation: Violation::NotAdmitted,
                    });
                }
                let updated = self.updated_columns(assignments, relation);
                let change = Change::Update;
                if let Some(untouched) =
                    self.no_filtered_dependents(relation, change, &updated, looked, functions)?
                {
                    let write_filter = &mut obligations.write_filter;
                    violations.push(self.filter_dependents(
                        write_filter,
                        untouched,
                        relation,
                        reads,
                        looked,
                    )?);
                }
            }
            SetExpr::Delete(_) => {
                let filters = [&seen, &write.change];
                let joined = self.target.joined;
                obligations.write_filter =
                    self.build_write_filter(&filters, relation, joined, reads, functions)?;
                let change = Change::Delete;
                if let Some(untouched) =
                    self.no_filtered_dependents(relation, change, &[], looked, functions)?
                {
                    let write_filter = &mut obligations.write_filter;
                    violations.push(self.filter_dependents(
                        write_filter,
                        untouched,
                        relation,
                        reads,
                        looked,
                    )?);
                }
            }
            SetExpr::Merge(_) => self.require_unfiltered_merge(relation, write, &seen)?,
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
            | SetExpr::Table(_) => return Err(not_as_decided("a change of another form")),
        }
        Ok(rewritten)
    }
}
