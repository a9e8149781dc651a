//! A database that the operator lets us reach, and how it is opened.

use std::path::{Path, PathBuf};

use palisade::{catalog::Catalog, dialect::Dialect};
use palisade_sqlite::{IntrospectError, OpenError, SqliteBackend, catalog_from_ddl};
use tokio::runtime::Runtime;

use crate::{backend::AnyBackend, exit::Failure, host, postgres::PostgresTarget, source::stem};

/// A database with everything that opening it needs.
pub(crate) enum Database {
    /// A file.
    Sqlite(PathBuf),
    /// A server's.
    Postgres(PostgresTarget),
}

impl Database {
    /// The dialect it speaks.
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// What it is called before agents and in policies: no path, no address.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sqlite(path) => stem(path),
            Self::Postgres(target) => target.database().to_owned(),
        }
    }

    /// Opens it for reading, connections on `runtime`.
    pub(crate) fn open(&self, runtime: &Runtime) -> Result<AnyBackend, Failure> {
        match self {
            Self::Sqlite(path) => open_file(path).map(AnyBackend::Sqlite),
            Self::Postgres(target) => runtime.block_on(target.open()).map(AnyBackend::Postgres),
        }
    }

    /// What it holds. Nothing else is asked of it, so that any account will do.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        match self {
            Self::Sqlite(path) => Ok(open_file(path)?.catalog().clone()),
            Self::Postgres(target) => host::runtime()?.block_on(target.catalog()),
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

/// The catalog that a file of `CREATE` statements describes.
pub(crate) fn catalog_of_schema(path: &Path, dialect: Dialect) -> Result<Catalog, Failure> {
    let shown = path.display();
    match dialect {
        Dialect::Sqlite => {}
        Dialect::Postgres => {
            return Err(Failure::Usage(format!(
                "a schema of PostgreSQL is read from a database, not from text like `{shown}`\n  \
                 help: load it into an empty database, and give `--catalog postgres://USER@HOST/DATABASE`"
            )));
        }
        Dialect::Mysql => return Err(no_mysql()),
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the schema `{shown}`: {error}")))?;
    catalog_from_ddl(&text, &stem(path)).map_err(|error| match error {
        IntrospectError::Load(why) => Failure::Usage(format!(
            "`{shown}`: {why}\n  help: give `CREATE` statements, as `sqlite3 FILE .schema` prints them"
        )),
        other => Failure::Usage(format!("`{shown}`: {other}")),
    })
}

/// The answer to whoever names a database of MySQL's.
pub(crate) fn no_mysql() -> Failure {
    Failure::Usage(NO_MYSQL.to_owned())
}

/// What is said of MySQL, wherever it is named.
pub(crate) const NO_MYSQL: &str = "this version does not read MySQL or MariaDB; it reads `sqlite:FILE` and `postgres://USER@HOST/DATABASE`";
