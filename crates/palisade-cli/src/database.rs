//! A database that the operator lets us reach, and how it is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use palisade::{catalog::Catalog, dialect::Dialect, guard::Backend};

use crate::{
    database_name::stem,
    exit::Failure,
    host::{self, Driver},
    setup_command::SetupCommand,
    sqlite,
    target::Target,
};

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
    /// Is told of with the command that prints an account for it, where it has accounts.
    pub(crate) fn set_up_by(self, command: SetupCommand) -> Self {
        match self {
            Self::Server(target) => Self::Server(target.set_up_by(command)),
            file @ (Self::Sqlite(_) | Self::Memory(_)) => file,
        }
    }

    /// The dialect it speaks.
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) | Self::Memory(_) => Dialect::Sqlite,
            Self::Server(target) => target.engine().dialect(),
        }
    }

    /// The engine and its version, where the program brings it.
    pub(crate) fn engine(&self) -> Option<String> {
        match self {
            Self::Sqlite(_) | Self::Memory(_) => Some(sqlite::engine()),
            Self::Server(_) => None,
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

    /// Opens it, connections on the runtime of `driver`.
    pub(crate) fn open(
        &self,
        access: Access,
        driver: Driver<'_>,
    ) -> Result<Arc<dyn Backend>, Failure> {
        match self {
            Self::Sqlite(path) => sqlite::open(path, access),
            Self::Memory(script) => sqlite::memory(script.as_deref(), &self.name(), access),
            Self::Server(target) => driver.block_on(target.open(access)),
        }
    }

    /// What it holds. Nothing else is asked of it, so that any account will do.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        match self {
            Self::Sqlite(_) | Self::Memory(_) => {
                let opened = self.open(Access::Read, Driver::Own(&host::runtime()?))?;
                Ok(opened.catalog().clone())
            }
            Self::Server(target) => host::runtime()?.block_on(target.catalog()),
        }
    }
}

/// The catalog that a file of `CREATE` statements describes.
pub(crate) fn catalog_of_schema(path: &Path, dialect: Dialect) -> Result<Catalog, Failure> {
    let (text, name) = (read(path)?, stem(path));
    if text.starts_with('{') {
        return Catalog::from_snapshot(&text)
            .map_err(|error| Failure::Usage(format!("`{}`: {error}", path.display())));
    }
    match dialect {
        Dialect::Sqlite => sqlite::catalog_of_schema(path, &text, &name),
        Dialect::Postgres => palisade_ddl::postgres(&text, &name)
            .map_err(|error| not_understood(path, &error, "pg_dump --schema-only")),
        Dialect::Mysql => palisade_ddl::mysql(&text, &name)
            .map_err(|error| not_understood(path, &error, "mysqldump --no-data")),
    }
}

/// The text of a schema.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read the schema `{shown}`: {error}")))?;
    if bytes.starts_with(b"SQLite format 3\0") {
        return Err(Failure::Usage(format!(
            "`{shown}` is a database, and no file of `CREATE` statements\n  help: name it `sqlite:{shown}`"
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("the schema `{shown}` is no text in UTF-8")))
}

/// That the text of a schema is none.
pub(crate) fn not_understood(path: &Path, why: &dyn std::fmt::Display, printer: &str) -> Failure {
    Failure::Usage(format!(
        "`{}`: {why}\n  help: give `CREATE` statements, as `{printer}` prints them",
        path.display()
    ))
}
