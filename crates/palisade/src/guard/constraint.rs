//! Which constraint refused a change, as engines tell it.

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
    /// What it is, and what to do, for whoever may know of it.
    pub(in crate::guard) fn describe(&self) -> String {
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

/// A name out of an engine's message, if a person would give such a name: what an engine writes in its place is text of the schema.
#[must_use]
pub fn read_constraint_name(name: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    let is_name = !name.is_empty() && name.len() <= 128 && name.chars().all(is_word);
    is_name.then(|| name.to_owned())
}
