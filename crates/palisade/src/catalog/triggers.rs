//! What a change of rows is, and what the database does by itself when one happens.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{dialect::Dialect, ident};

/// A way to change the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// New rows.
    Insert,
    /// Other values in rows that are there.
    Update,
    /// Rows gone.
    Delete,
    /// All rows gone at once.
    Truncate,
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 4] = [Self::Insert, Self::Update, Self::Delete, Self::Truncate];

    /// The SQL word, in small letters; the action's name in policies too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
        }
    }
}

/// What the database runs by itself when rows of a table change: a trigger, or a rule of PostgreSQL.
///
/// Policies know it as a function of class `unknown`, so that a statement that sets it off needs a
/// permit that names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trigger {
    /// The schema of the function.
    pub schema: String,
    /// The function that it calls; the trigger's or rule's own name where its body is its own (SQLite,
    /// MySQL, rules).
    pub function: String,
    /// The changes that set it off.
    pub on: BTreeSet<Change>,
    /// The columns of which an update has to assign one (`UPDATE OF a, b`), as they are spelled; none where any update sets
    /// it off, or where that is not known.
    pub columns: BTreeSet<String>,
}

impl Trigger {
    /// The id of the function in policies.
    #[must_use]
    pub fn uid(&self, dialect: Dialect) -> String {
        ident::qualify([self.schema.as_str(), dialect.fold(&self.function).as_str()])
    }
}

/// What becomes of rows that reference a row that is deleted, or whose key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceAction {
    /// Nothing: the change is refused (`NO ACTION`, `RESTRICT`).
    #[default]
    Refuse,
    /// They are deleted, or their key changes too.
    Cascade,
    /// Their key becomes NULL.
    SetNull,
    /// Their key gets its default.
    SetDefault,
}

impl ReferenceAction {
    /// As engines spell it, in either case; `None` for a word that no engine has.
    #[must_use]
    pub fn from_sql(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "NO ACTION" | "RESTRICT" => Some(Self::Refuse),
            "CASCADE" => Some(Self::Cascade),
            "SET NULL" => Some(Self::SetNull),
            "SET DEFAULT" => Some(Self::SetDefault),
            _ => None,
        }
    }
}
