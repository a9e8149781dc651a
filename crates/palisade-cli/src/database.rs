//! A database that the operator lets us reach, and how it is opened.

use std::path::{Path, PathBuf};

use palisade::{catalog::Catalog, dialect::Dialect};
use palisade_sqlite::{IntrospectError, OpenError, SqliteBackend, catalog_from_ddl};
use tokio::runtime::Runtime;

use crate::{backend::AnyBackend, database_name::stem, exit::Failure, host, target::Target};

/// A database with everything that opening it needs.
#[derive(Clone)]
pub(crate) enum Database {
    /// A file.
    Sqlite(PathBuf),
    /// A database in memory, filled by the statements of a file or empty.
    Memory(Option<PathBuf>),
    /// A server's.
    Server(Target),
}

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing can change it.
    Read,
    /// Statements can change what policy permits.
    Write,
}

impl Access {
    /// That for writing, if it is asked for.
    pub(crate) fn asked(writable: bool) -> Self {
        if writable { Self::Write } else { Self::Read }
    }
}

impl Database {
    /// The dialect it speaks.
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) | Self::Memory(_) => Dialect::Sqlite,
            Self::Server(target) => target.engine().dialect(),
        }
    }

    /// What it is called before agents and in policies: no path, no address.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sqlite(path) | Self::Memory(Some(path)) => stem(path),
            Self::Memory(None) => "memory".to_owned(),
            Self::Server(target) => target.database().to_owned(),
        }
    }

    /// Opens it, connections on `runtime`.
    pub(crate) fn open(&self, access: Access, runtime: &Runtime) -> Result<AnyBackend, Failure> {
        let sqlite = |backend: SqliteBackend| {
            AnyBackend::Sqlite(match access {
                Access::Read => backend,
                Access::Write => backend.writable(),
            })
        };
        match self {
            Self::Sqlite(path) => open_file(path).map(sqlite),
            Self::Memory(script) => memory(script.as_deref(), &self.name()).map(sqlite),
            Self::Server(target) => runtime.block_on(target.open(access)),
        }
    }

    /// What it holds. Nothing else is asked of it, so that any account will do.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        match self {
            Self::Sqlite(path) => Ok(open_file(path)?.catalog().clone()),
            Self::Memory(script) => Ok(memory(script.as_deref(), &self.name())?.catalog().clone()),
            Self::Server(target) => host::runtime()?.block_on(target.catalog()),
        }
    }
}

fn open_file(path: &Path) -> Result<SqliteBackend, Failure> {
    SqliteBackend::open_file(path, &stem(path)).map_err(|error| {
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

fn memory(script: Option<&Path>, name: &str) -> Result<SqliteBackend, Failure> {
    let text = script.map(read).transpose()?.unwrap_or_default();
    let shown = script.unwrap_or(Path::new("memory"));
    SqliteBackend::in_memory(&text, name).map_err(|error| match error {
        OpenError::Introspect(error) => not_loaded(shown, &error),
        other => Failure::Unavailable(other.to_string()),
    })
}

/// The catalog that a file of `CREATE` statements describes.
pub(crate) fn catalog_of_schema(path: &Path, dialect: Dialect) -> Result<Catalog, Failure> {
    let (text, name) = (read(path)?, stem(path));
    match dialect {
        Dialect::Sqlite => catalog_from_ddl(&text, &name).map_err(|error| not_loaded(path, &error)),
        Dialect::Postgres => palisade_ddl::postgres(&text, &name)
            .map_err(|error| not_understood(path, &error, "pg_dump --schema-only")),
        Dialect::Mysql => palisade_ddl::mysql(&text, &name)
            .map_err(|error| not_understood(path, &error, "mysqldump --no-data")),
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the schema `{}`: {error}",
            path.display()
        ))
    })
}

/// That SQLite does not take the statements of a file.
fn not_loaded(path: &Path, error: &IntrospectError) -> Failure {
    match error {
        IntrospectError::Load(why) => not_understood(path, why, "sqlite3 FILE .schema"),
        other => Failure::Usage(format!("`{}`: {other}", path.display())),
    }
}

fn not_understood(path: &Path, why: &dyn std::fmt::Display, printer: &str) -> Failure {
    Failure::Usage(format!(
        "`{}`: {why}\n  help: give `CREATE` statements, as `{printer}` prints them",
        path.display()
    ))
}
