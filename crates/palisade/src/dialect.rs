//! The engines Palisade speaks, and what differs between them.
//!
//! A dialect is an enum without a catch-all: adding an engine makes every place that decides
//! something about it fail to compile until it is answered there.

use serde::{Deserialize, Serialize};

/// The SQL dialect of one database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// SQLite 3, as compiled into `rusqlite`.
    Sqlite,
}

impl Dialect {
    /// The name used on the command line, in cases and in audit lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
        }
    }

    /// The dialect called `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }

    /// The key by which the engine compares identifiers: two identifiers mean the same object if
    /// their keys are equal.
    ///
    /// SQLite folds ASCII letters only, quoted or not
    /// (<https://www.sqlite.org/lang_keywords.html>, `sqlite3StrICmp`).
    #[must_use]
    pub fn fold(self, identifier: &str) -> String {
        match self {
            Self::Sqlite => identifier.to_ascii_lowercase(),
        }
    }

    /// The schema that an unqualified relation belongs to.
    #[must_use]
    pub fn default_schema(self) -> &'static str {
        match self {
            Self::Sqlite => "main",
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
