//! Obligations of statements that change rows: which rows they reach, and which rows they leave behind.
//!
//! A derived table cannot replace a target. Its filter becomes a guard around the statement's own condition. The guard stands
//! beside a leak-proof condition; any other is tried in a `CASE`, only on rows that the guard lets through.
//!
//! New rows must satisfy `add` (SQL's WITH CHECK), in one of three ways:
//!
//! * Literals and parameters are folded before anything runs.
//! * A condition on the row as it was becomes part of the guard.
//! * The rows of a query are filtered.
//!
//! Where the last two could leave a row out, a precheck looks for one first.

pub(in crate::rewrite) mod determinism;
pub(in crate::rewrite) mod disclosure;
pub(in crate::rewrite) mod guard;
pub(in crate::rewrite) mod guard_cache;
pub(in crate::rewrite) mod insert;
pub(in crate::rewrite) mod insert_select;
pub(in crate::rewrite) mod merge;
pub(in crate::rewrite) mod new_row;
pub(in crate::rewrite) mod precheck;
pub(in crate::rewrite) mod refusal;
pub(in crate::rewrite) mod update;
pub(in crate::rewrite) mod upsert;
pub(in crate::rewrite) mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlparser::{
    ast::{Expr, ObjectName, ObjectNamePart, SetExpr, Statement, Update, Value as SqlValue},
    tokenizer::Location,
};

use crate::rewrite::{
    change::{
        guard_cache::PrintedGuards,
        new_row::{
            converted::{StoredValue, stored_value},
            fold::{Constant, constant},
            storage,
        },
        precheck::{Violation, ViolationQuery, foreign_keys::ProbedRows},
        update::not_entailed,
    },
    output::parameter_values::ParameterValues,
    refusal::not_as_decided,
    source::cache::SourceCache,
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, Change, Column, Relation},
    dialect::Dialect,
    limits::Limits,
    policy::{
        Permit,
        obligation::{ColumnLevel, RowFilter},
    },
    rejection::Rejection,
    resolve::{Conflict, Reference, Target, Visible, WriteForm, is_default},
    syntax::key,
    value::{Placeholder, Value},
};

/// What the rewriting of a change looks at.
pub(in crate::rewrite) struct ChangeRewriter<'j> {
    pub(in crate::rewrite) target: &'j Target,
    pub(in crate::rewrite) permit: &'j Permit,
    pub(in crate::rewrite) catalog: &'j Catalog,
    pub(in crate::rewrite) given: &'j ParameterValues<'j>,
    pub(in crate::rewrite) placeholders: &'j BTreeMap<Placeholder, u32>,
    /// Names of the statement's common table expressions, folded.
    pub(in crate::rewrite) ctes: &'j BTreeSet<String>,
    /// The number of each `?` by its place in the statement.
    pub(in crate::rewrite) positions: &'j HashMap<Location, u32>,
    /// How often each placeholder stands in the statement, by its text.
    pub(in crate::rewrite) uses: &'j BTreeMap<String, usize>,
    pub(in crate::rewrite) references: &'j [Reference],
    pub(in crate::rewrite) access: &'j AccessSet,
    pub(in crate::rewrite) visible: &'j dyn Visible,
    pub(in crate::rewrite) known: &'j SourceCache,
    /// What stands for the conditions of guards.
    pub(in crate::rewrite) conditions: &'j PrintedGuards,
    pub(in crate::rewrite) limits: &'j Limits,
    pub(in crate::rewrite) failing: FailureRisk,
}

/// What in the statement may fail.
#[derive(Debug, Clone, Copy)]
pub(in crate::rewrite) struct FailureRisk {
    /// Whether anything may run on rows that a filter hides, and tell.
    pub(in crate::rewrite) needs_fence: bool,
    /// Whether the plan decides whether the statement fails.
    pub(in crate::rewrite) by_plan: bool,
}

/// The columns that the engine reads for what policy demands.
pub(in crate::rewrite) type ColumnSet = BTreeSet<u16>;

/// What a change needs.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct RewrittenChange {
    pub(in crate::rewrite) form: WriteForm,
    pub(in crate::rewrite) reads: ColumnSet,
    /// What is looked for of what foreign keys change.
    pub(in crate::rewrite) looked: ProbedRows,
    /// Rows that may have to refuse it.
    pub(in crate::rewrite) violations: Vec<ViolationQuery>,
    /// PrintedGuards of the rows with which an INSERT conflicts, where they are known.
    pub(in crate::rewrite) met: Option<Vec<Expr>>,
}

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
                && self.target.on_conflict == Conflict::Leaves =>
            {
                RowFilter::Everything
            }
            None => return Err(not_as_decided("rows are reached that were not decided")),
        };
        let mut formed = RewrittenChange::default();
        let RewrittenChange {
            form,
            reads,
            looked,
            violations,
            met,
        } = &mut formed;
        match change {
            SetExpr::Insert(Statement::Insert(insert)) => {
                *met = self.conflicting_rows(insert, relation);
                let parts = (form, reads, looked);
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
                let within = self.build_guard(&reached, relation, joined, reads, functions)?;
                let filters = [&seen, &write.change, &changed];
                form.guard = self.build_guard(&filters, relation, joined, reads, functions)?;
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
                    let guard = &mut form.guard;
                    violations
                        .push(self.guard_dependents(guard, untouched, relation, reads, looked)?);
                }
            }
            SetExpr::Delete(_) => {
                let filters = [&seen, &write.change];
                let joined = self.target.joined;
                form.guard = self.build_guard(&filters, relation, joined, reads, functions)?;
                let change = Change::Delete;
                if let Some(untouched) =
                    self.no_filtered_dependents(relation, change, &[], looked, functions)?
                {
                    let guard = &mut form.guard;
                    violations
                        .push(self.guard_dependents(guard, untouched, relation, reads, looked)?);
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
        Ok(formed)
    }

    /// Whether the session sees the column's values.
    pub(in crate::rewrite) fn is_plain(&self, relation: &Relation, index: u16) -> bool {
        self.permit
            .relations()
            .get(&relation.id)
            .and_then(|decision| decision.columns.get(usize::from(index)))
            .is_some_and(|column| column.level == ColumnLevel::Plain)
    }

    /// A name that neither a relation nor a common table expression of the statement has, nor the target; folded.
    pub(in crate::rewrite) fn unused_name(&self) -> String {
        let mut name = "admitted_rows".to_owned();
        let target = key(&self.target.qualifier, self.catalog.dialect()).to_lowercase();
        while self.catalog.lookup(&name).is_some() || self.ctes.contains(&name) || name == target {
            name.push('_');
        }
        name
    }

    pub(in crate::rewrite) fn column<'r>(
        &self,
        relation: &'r Relation,
        name: &ObjectName,
    ) -> Option<(u16, &'r Column)> {
        let Some(ObjectNamePart::Identifier(ident)) = name.0.last() else {
            return None;
        };
        let index = relation.position(&key(ident, self.catalog.dialect()))?;
        Some((index, relation.column(index)?))
    }

    /// The value that `column` certainly holds as it is written.
    pub(in crate::rewrite) fn constant(&self, value: &Expr, column: &Column) -> Option<Constant> {
        if is_default(value) {
            return None;
        }
        let dialect = self.catalog.dialect();
        let column = storage::storage_column(column, self.catalog);
        constant(value, &column, dialect, &|expr| self.parameter(expr))
    }

    /// What `column` holds once it is given `value`.
    pub(in crate::rewrite) fn stored_value(&self, value: &Expr, column: &Column) -> StoredValue {
        let dialect = self.catalog.dialect();
        let column = storage::storage_column(column, self.catalog);
        stored_value(value, &column, dialect, &|expr| self.parameter(expr))
    }

    /// The value of a parameter.
    pub(in crate::rewrite) fn parameter(&self, expr: &Expr) -> Option<Value> {
        let Expr::Value(value) = expr else {
            return None;
        };
        let SqlValue::Placeholder(text) = &value.value else {
            return None;
        };
        let number = match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Postgres => text.get(1..)?.parse().ok()?,
            Dialect::Mysql => *self.positions.get(&value.span.start)?,
        };
        let mut known = self.placeholders.iter();
        let placeholder = known.find(|(_, n)| **n == number)?.0;
        self.given.value(placeholder).cloned()
    }
}
