//! What is asked of a solver, as texts.

use serde_json::{Value, json};

use crate::session::Principal;

/// How much of a table or column is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// A column that is there, as NULL or as anything more.
    Column,
    /// A column's values under any mask but NULL, or more; tokens aside.
    Masked,
    /// A column's tokens.
    Token,
    /// A column's values.
    Plain,
    /// Any row.
    AnyRow,
    /// Every row.
    EveryRow,
    /// The rows may be selected.
    Select,
    /// Rows may be added.
    Insert,
    /// Rows may be changed.
    Update,
    /// Rows may be removed.
    Delete,
    /// All rows may be removed.
    Truncate,
    /// A column may be assigned.
    Write,
}

/// Which principals are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'w> {
    /// All.
    Everyone,
    /// Those that are none of these and in none of them.
    Outside(&'w [Principal]),
    /// Those that are one of these or in one.
    Within(&'w [Principal]),
}

/// Where a statement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// By itself.
    Outside,
    /// Within a template that the principal may run.
    Template,
}

/// What of a table or column may be wider by some policies than by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// How a column is shown.
    Read,
    /// Whether a column is assigned.
    Write,
    /// Whether a table is known, or selected, and within which caps.
    Select,
    /// Which rows are seen.
    See,
    /// Which rows are changed or removed.
    Change,
    /// Which rows are added.
    Add,
    /// Whether rows are added, and within which caps.
    Insert,
    /// Whether rows are changed.
    Update,
    /// Whether rows are removed.
    Delete,
    /// Whether all rows are removed.
    Truncate,
    /// Whether a template is run.
    Run,
}

impl Aspect {
    /// Those of a table.
    pub const OF_TABLES: [Self; 8] = [
        Self::Select,
        Self::See,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Truncate,
        Self::Change,
        Self::Add,
    ];

    /// Those of a column.
    pub const OF_COLUMNS: [Self; 2] = [Self::Read, Self::Write];

    /// As `access.lock` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Select => "select",
            Self::See => "see",
            Self::Change => "change",
            Self::Add => "add",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Run => "run",
        }
    }
}

/// What is asked: whether any principal of a type, whatever its attributes and whatever it is in, meets any of some conditions,
/// and none of others.
///
/// The catalog is decided already: a condition looks at the principal, at circumstances and, of rows, at a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SymbolicQuestion {
    /// The schema, as Cedar writes it, with the one action that is asked about.
    pub schema: String,
    /// The type of the principals.
    pub principal: String,
    /// Permits in Cedar's JSON form; the question is whether any can apply.
    pub permits: Vec<String>,
    /// Permits where nothing is asked about; empty where nothing is left out. A permit that fails to evaluate leaves nothing out.
    pub within: Vec<String>,
}

impl SymbolicQuestion {
    /// The action's id.
    pub const ACTION: &str = "shown";

    pub(super) fn new(
        schema: String,
        principal: String,
        conditions: Vec<Value>,
        within: Vec<Value>,
    ) -> Self {
        Self {
            schema,
            principal,
            permits: conditions.into_iter().map(permit).collect(),
            within: within.into_iter().map(permit).collect(),
        }
    }
}

fn permit(body: Value) -> String {
    let all = || json!({ "op": "All" });
    let permit = json!({
        "effect": "permit",
        "principal": all(),
        "action": all(),
        "resource": all(),
        "conditions": [{ "kind": "when", "body": body }],
    });
    permit.to_string()
}

/// What a solver says to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum SymbolicAnswer {
    /// No principal meets any of the conditions.
    Never,
    /// This one does, as the solver says.
    Sometimes(SymbolicModel),
    /// It is not known, and why: a time-out, or what the solver does not know.
    Undecided(String),
    /// No question is answered, and why: there is no solver that can be asked.
    Unavailable(String),
}

/// A principal of a solver's making.
#[derive(Debug, Clone, PartialEq)]
pub struct SymbolicModel {
    /// The principal.
    pub principal: Principal,
    /// The entities in which it exists, in Cedar's JSON format. Those of the catalog are the solver's guesses.
    pub entities: Vec<Value>,
}
