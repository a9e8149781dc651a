//! Obligations of statements that change rows: which rows they reach, and which rows they leave behind.
//!
//! A derived table cannot replace a target. Its filter becomes a write filter around the statement's own condition. That stands
//! beside a leak-proof condition; any other is tried in a `CASE`, only on rows that the write filter lets through.
//!
//! New rows must satisfy `add` (SQL's WITH CHECK), in one of three ways:
//!
//! * Literals and parameters are folded before anything runs.
//! * A condition on the row as it was becomes part of the write filter.
//! * The rows of a query are filtered.
//!
//! Where the last two could leave a row out, a precheck looks for one first.

mod delete;
pub(in crate::rewrite) mod determinism;
pub(in crate::rewrite) mod disclosure;
pub(in crate::rewrite) mod dispatch;
pub(in crate::rewrite) mod insert;
pub(in crate::rewrite) mod insert_select;
pub(in crate::rewrite) mod merge;
pub(in crate::rewrite) mod new_row;
pub(in crate::rewrite) mod precheck;
pub(in crate::rewrite) mod refusal;
pub(in crate::rewrite) mod update;
pub(in crate::rewrite) mod upsert;
pub(in crate::rewrite) mod walk;
pub(in crate::rewrite) mod write_filter;
pub(in crate::rewrite) mod write_filter_cache;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlparser::{
    ast::{Expr, ObjectName, ObjectNamePart, Value as SqlValue},
    tokenizer::Location,
};

use crate::rewrite::{
    change::{
        new_row::{
            column_storage,
            converted::{StoredValue, stored_value},
            fold::{Constant, constant},
        },
        precheck::{ProbedRows, ViolationQuery},
        write_filter_cache::PrintedFilters,
    },
    output::parameter_values::ParameterValues,
    relation_source::cache::SourceCache,
    relation_source::row_filter::ColumnSet,
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, Column, Relation},
    dialect::Dialect,
    limits::Limits,
    policy::{Permit, obligation::ColumnLevel},
    resolve::{Reference, Target, Visible, WriteObligations, is_default},
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
    /// What stands for the conditions of write filters.
    pub(in crate::rewrite) conditions: &'j PrintedFilters,
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

/// What a change needs.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct RewrittenChange {
    pub(in crate::rewrite) obligations: WriteObligations,
    pub(in crate::rewrite) reads: ColumnSet,
    /// What is looked for of what foreign keys change.
    pub(in crate::rewrite) looked: ProbedRows,
    /// Rows that may have to refuse it.
    pub(in crate::rewrite) violations: Vec<ViolationQuery>,
    /// Conditions of the rows with which an INSERT conflicts, where they are known.
    pub(in crate::rewrite) conflicts: Option<Vec<Expr>>,
}

impl ChangeRewriter<'_> {
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
        let column = column_storage::storage_column(column, self.catalog);
        constant(value, &column, dialect, &|expr| self.parameter(expr))
    }

    /// What `column` holds once it is given `value`.
    pub(in crate::rewrite) fn stored_value(&self, value: &Expr, column: &Column) -> StoredValue {
        let dialect = self.catalog.dialect();
        let column = column_storage::storage_column(column, self.catalog);
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
