//! What statements are decided over: a database, or the text of its schema.

use std::{path::PathBuf, str::FromStr};

use palisade::{catalog::Catalog, dialect::Dialect};
use palisade_sqlite::{IntrospectError, OpenError, SqliteBackend, catalog_from_ddl};

use crate::exit::Failure;

/// A database, as `sqlite:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    path: PathBuf,
}

/// A text that names no database.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` does not name a database; write `sqlite:FILE`, for example `sqlite:demo.db`")]
pub(crate) struct SourceSyntaxError(String);

impl FromStr for Source {
    type Err = SourceSyntaxError;

    fn from_str(text: &str) -> Result<Self, SourceSyntaxError> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Self {
                path: PathBuf::from(path),
            }),
            Some(_) | None => Err(SourceSyntaxError(text.to_owned())),
        }
    }
}

impl Source {
    /// The database in the file `path`.
    pub(crate) fn file(path: PathBuf) -> Self {
        Self { path }
    }

    /// Opens it, for reading only.
    pub(crate) fn open(&self) -> Result<SqliteBackend, Failure> {
        SqliteBackend::open_file(&self.path, &self.name()).map_err(|error| {
            let hint = match &error {
                OpenError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                    "\n  help: `palisade demo` makes a database to try things on"
                }
                OpenError::NotADatabase { .. } => {
                    "\n  help: the schema as text goes to `--catalog` of `check` and `explain`"
                }
                OpenError::Corrupt { .. } => {
                    "\n  help: restore it from a copy, or try `sqlite3 FILE .recover`"
                }
                OpenError::File { .. }
                | OpenError::NotAFile { .. }
                | OpenError::Unreadable { .. }
                | OpenError::Introspect(_) => "",
            };
            Failure::Unavailable(format!("{error}{hint}"))
        })
    }

    /// The database as it is written on the command line, with an absolute path.
    pub(crate) fn absolute(&self) -> String {
        let path = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        format!("sqlite:{}", path.display())
    }

    /// The name of the file without folders and extension: the database's name in policies.
    pub(crate) fn name(&self) -> String {
        stem(&self.path)
    }
}

/// What `--catalog` takes: a file of `CREATE` statements, or a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CatalogSource {
    /// The schema as text.
    Schema(PathBuf),
    /// A database to read it from.
    Database(Source),
}

impl FromStr for CatalogSource {
    type Err = SourceSyntaxError;

    fn from_str(text: &str) -> Result<Self, SourceSyntaxError> {
        if text.starts_with("sqlite:") {
            Ok(Self::Database(text.parse()?))
        } else {
            Ok(Self::Schema(PathBuf::from(text)))
        }
    }
}

impl CatalogSource {
    /// Reads the catalog.
    pub(crate) fn catalog(&self, dialect: Dialect) -> Result<Catalog, Failure> {
        match (self, dialect) {
            (Self::Database(source), Dialect::Sqlite) => Ok(source.open()?.catalog().clone()),
            (Self::Schema(path), Dialect::Sqlite) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Failure::Usage(format!("cannot read the schema `{shown}`: {error}"))
                })?;
                catalog_from_ddl(&text, &stem(path)).map_err(|error| match error {
                    IntrospectError::Load(why) => Failure::Usage(format!(
                        "`{shown}`: {why}\n  help: give `CREATE` statements, as `sqlite3 FILE .schema` prints them"
                    )),
                    other => Failure::Usage(format!("`{shown}`: {other}")),
                })
            }
            (Self::Database(_) | Self::Schema(_), Dialect::Postgres | Dialect::Mysql) => {
                Err(Failure::Usage(format!(
                    "catalogs of {dialect} cannot be read from here yet"
                )))
            }
        }
    }
}

fn stem(path: &std::path::Path) -> String {
    path.file_stem().map_or_else(
        || "main".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_named_with_their_engine() {
        assert_eq!(
            "sqlite:a.db".parse::<Source>().ok(),
            Some(Source::file("a.db".into()))
        );
        for bad in ["a.db", "sqlite:", "postgres://x", ""] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
