//! Which constraint refused a change, for those from whom nothing of the tables is kept that it could be about.

use std::collections::BTreeSet;

use crate::{
    catalog::{Catalog, Relation, RelationKind},
    code::Code,
    guard::{BackendError, Guard},
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
};

/// Of what kind a constraint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// A column that takes no NULL.
    NotNull,
    /// A primary key, or another unique one.
    Unique,
    /// A foreign key, from either side.
    ForeignKey,
    /// A condition on rows.
    Check,
    /// Rows that exclude each other.
    Exclusion,
    /// A row that no partition takes.
    Partition,
}

/// A constraint that refused a change, by the engine's codes and its names: it holds no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViolatedConstraint {
    /// Of what kind it is.
    pub kind: ConstraintKind,
    /// The table that has it, where the engine says so, without its schema.
    pub table: Option<String>,
    /// The constraint's own name, or its columns.
    pub name: Option<String>,
}

impl ViolatedConstraint {
    fn describe(&self) -> String {
        let named = |what: &str| match &self.name {
            Some(name) => format!("{what} `{name}`"),
            None => what.to_owned(),
        };
        let (what, advice) = match self.kind {
            ConstraintKind::NotNull => (
                format!("{} takes no NULL and has no default", named("the column")),
                "give it a value",
            ),
            ConstraintKind::Unique => (
                format!("{} has these values already", named("the unique key")),
                "give others, or change the row that is there",
            ),
            ConstraintKind::ForeignKey => (
                format!("{} would not hold", named("the foreign key")),
                "refer to rows that are there, and change those that refer to a row before it",
            ),
            ConstraintKind::Check => (
                format!("{} does not hold for a row", named("the condition")),
                "give values that it takes",
            ),
            ConstraintKind::Exclusion => (
                format!("{} excludes a row beside another", named("the constraint")),
                "give values that do not overlap",
            ),
            ConstraintKind::Partition => (
                "no partition of the table takes a row".to_owned(),
                "give values of a partition that is there, or have the operator add one",
            ),
        };
        format!("{what}, so nothing was changed; {advice}")
    }
}

impl Guard {
    /// The refusal of a change by a constraint with what the constraint is, where each of `sessions` sees all that it could be about.
    pub(in crate::guard) fn name_constraint(
        &self,
        rejection: Rejection,
        error: &BackendError,
        statement: &RewrittenStatement,
        sessions: &[&Session],
    ) -> Rejection {
        let Some(violated) = &error.violated else {
            return rejection;
        };
        let firewall = self.firewall();
        let tables = list_concerned(statement, violated, firewall.catalog());
        let sees_all = |session: &&Session| {
            let Some(tables) = &tables else {
                return false;
            };
            let whole = self.find_whole_tables(tables.iter().copied(), session);
            whole.len() == tables.len()
        };
        if rejection.code() != Code::DatabaseConstraint || !sessions.iter().all(sees_all) {
            return rejection;
        }
        Rejection::new(Code::DatabaseConstraint, violated.describe())
            .with_operator_detail(error.detail.clone())
    }
}

/// Schema and name of all that a constraint could be about: what the statement reads and changes, and what foreign keys tie to what it
/// changes. Where triggers run, that is every table. None where it is about something else.
fn list_concerned<'c>(
    statement: &RewrittenStatement,
    violated: &ViolatedConstraint,
    catalog: &'c Catalog,
) -> Option<BTreeSet<(&'c str, &'c str)>> {
    let all = || catalog.relations().iter();
    let touches = |relation: &Relation| statement.relations().contains(&relation.uid);
    let writes = |relation: &Relation| {
        let name = relation.database_name();
        let mut written = statement.named_writes().iter();
        written.any(|(_, table, _)| *table == name)
    };
    let refers = |from: &Relation, to: &Relation| {
        let mut keys = from.foreign_keys.iter();
        keys.any(|key| {
            catalog
                .find(&key.schema, &key.table)
                .is_some_and(|one| one.id == to.id)
        })
    };
    let written: Vec<&Relation> = all().filter(|relation| writes(relation)).collect();
    let sets_off = !statement.engine_triggers().is_empty();
    let is_concerned = |relation: &&Relation| {
        let is_tied = |one: &&Relation| refers(relation, one) || refers(one, relation);
        (sets_off && relation.kind == RelationKind::Table)
            || touches(relation)
            || writes(relation)
            || written.iter().any(is_tied)
    };
    let concerned: Vec<&Relation> = all().filter(is_concerned).collect();
    let is_of_one = violated.table.as_ref().is_none_or(|table| {
        let dialect = catalog.dialect();
        let mut named = concerned.iter();
        named.any(|one| dialect.fold(&one.name) == dialect.fold(table))
    });
    // Each key's other end is known.
    let are_known = written.iter().all(|relation| {
        let mut keys = relation.foreign_keys.iter();
        keys.all(|key| catalog.find(&key.schema, &key.table).is_some())
    });
    let names = concerned.iter();
    let names = names.map(|one| (one.schema.as_str(), one.name.as_str()));
    (is_of_one && are_known && !written.is_empty()).then(|| names.collect())
}

/// A name out of an engine's message, if it is one that a person would give: what an engine writes in the place of a name is text of the
/// schema.
#[must_use]
pub fn read_constraint_name(name: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    let is_name = !name.is_empty() && name.len() <= 128 && name.chars().all(is_word);
    is_name.then(|| name.to_owned())
}
