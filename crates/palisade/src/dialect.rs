//! The engines Palisade speaks, and what differs between them.
//!
//! A dialect is an enum without a catch-all: adding an engine makes every place that decides
//! something about it fail to compile until it is answered there.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The SQL dialect of one database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// SQLite 3, as compiled into `rusqlite`.
    Sqlite,
    /// PostgreSQL 15 and later.
    Postgres,
    /// MySQL 8 and later, and MariaDB 10.11 and later.
    Mysql,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Mysql];

    /// Whether this build knows the engine's functions and system tables: the crate has a feature for each dialect. Without
    /// them no catalog of the dialect can be built.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::Sqlite => cfg!(feature = "sqlite"),
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
        }
    }

    /// The name used on the command line, in cases and in audit lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }

    /// The dialect called `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .or(match name {
                "postgresql" => Some(Self::Postgres),
                "mariadb" => Some(Self::Mysql),
                _ => None,
            })
    }

    /// The key of a name as a catalog holds it: two names mean the same object if their keys are
    /// equal. For MySQL this is the rule of columns and functions; relations have
    /// [`Catalog::fold_relation`](crate::catalog::Catalog::fold_relation).
    ///
    /// SQLite folds ASCII letters only, quoted or not
    /// (<https://www.sqlite.org/lang_keywords.html>, `sqlite3StrICmp`). PostgreSQL's catalog holds
    /// names as they are compared. MySQL compares column names without regard to case
    /// (<https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html>).
    #[must_use]
    pub fn fold(self, name: &str) -> String {
        match self {
            Self::Sqlite => name.to_ascii_lowercase(),
            Self::Postgres => name.to_owned(),
            Self::Mysql => name.to_lowercase(),
        }
    }

    /// Whether [`fold`](Self::fold) gives `name` itself. Of some names that it does not change, this says no.
    #[must_use]
    pub fn is_folded(self, name: &str) -> bool {
        let has_capital = name.bytes().any(|b| b.is_ascii_uppercase());
        match self {
            Self::Sqlite => !has_capital,
            Self::Postgres => true,
            Self::Mysql => !has_capital && name.is_ascii(),
        }
    }

    /// The key of a name as a statement spells it, quotes undone.
    ///
    /// PostgreSQL folds the ASCII letters of names without quotes (`downcase_identifier` in a
    /// multi-byte encoding) and cuts every name to 63 bytes
    /// (<https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-IDENTIFIERS>).
    #[must_use]
    pub fn fold_written(self, name: &str, quoted: bool) -> Cow<'_, str> {
        match self {
            Self::Sqlite | Self::Mysql if self.is_folded(name) => Cow::Borrowed(name),
            Self::Sqlite | Self::Mysql => Cow::Owned(self.fold(name)),
            Self::Postgres => {
                let end = name.floor_char_boundary(POSTGRES_NAME_BYTES);
                let name = name.get(..end).unwrap_or(name);
                if quoted || !name.bytes().any(|b| b.is_ascii_uppercase()) {
                    Cow::Borrowed(name)
                } else {
                    Cow::Owned(name.to_ascii_lowercase())
                }
            }
        }
    }

    /// The schema that a catalog's unqualified relations belong to, where the catalog says nothing else.
    /// MySQL has none: its schema is the database.
    #[must_use]
    pub fn default_schema(self) -> &'static str {
        match self {
            Self::Sqlite => "main",
            Self::Postgres => "public",
            Self::Mysql => "mysql",
        }
    }

    /// The character around a name that must be read exactly.
    #[must_use]
    pub fn quote(self) -> char {
        match self {
            Self::Sqlite | Self::Postgres => '"',
            Self::Mysql => '`',
        }
    }

    /// `name` as an identifier in the text of a statement: in quotes, with inner ones doubled.
    #[must_use]
    pub fn identifier(self, name: &str) -> String {
        let quote = self.quote();
        format!(
            "{quote}{}{quote}",
            name.replace(quote, &format!("{quote}{quote}"))
        )
    }

    /// How the parameter with this number is spelt in the text that is run.
    #[must_use]
    pub fn placeholder(self, number: u32) -> String {
        match self {
            Self::Sqlite => format!("?{number}"),
            Self::Postgres => format!("${number}"),
            Self::Mysql => "?".to_owned(),
        }
    }
}

/// `NAMEDATALEN - 1`.
const POSTGRES_NAME_BYTES: usize = 63;

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_as_each_engine_folds_them() {
        for (dialect, written, quoted, key) in [
            (Dialect::Sqlite, "Users", true, "users"),
            (Dialect::Sqlite, "ÄB", false, "Äb"),
            (Dialect::Postgres, "Users", false, "users"),
            (Dialect::Postgres, "Users", true, "Users"),
            (Dialect::Postgres, "ÄB", false, "Äb"),
            (Dialect::Mysql, "Users", true, "users"),
        ] {
            assert_eq!(dialect.fold_written(written, quoted), key);
        }
        let long = "é".repeat(40);
        assert_eq!(Dialect::Postgres.fold_written(&long, true), "é".repeat(31));
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
        }
    }

    #[test]
    fn an_identifier_stays_one_whatever_is_in_its_name() {
        for (dialect, name, written) in [
            (Dialect::Sqlite, "Users", "\"Users\""),
            (Dialect::Sqlite, "a\"b`c", "\"a\"\"b`c\""),
            (Dialect::Postgres, "a\"\"", "\"a\"\"\"\"\""),
            (Dialect::Mysql, "Users", "`Users`"),
            (Dialect::Mysql, "a\"b`c", "`a\"b``c`"),
        ] {
            assert_eq!(dialect.identifier(name), written, "{dialect} {name}");
        }
    }
}
