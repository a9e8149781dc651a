//! A SQLite database: a file, one in memory, or the text of a schema.

use std::{path::Path, sync::Arc};

use palisade::{catalog::Catalog, guard::Backend};
use palisade_sqlite::{IntrospectError, OpenError, SqliteBackend, catalog_from_ddl};

use crate::{
    database::{Access, not_understood, read},
    database_name::stem,
    exit::Failure,
};

/// Refuses a build without it.
pub(crate) fn require() -> Result<(), Failure> {
    Ok(())
}

/// The engine and its version.
pub(crate) fn engine() -> String {
    palisade_sqlite::engine()
}

/// A backend over a file.
pub(crate) fn open(path: &Path, access: Access) -> Result<Arc<dyn Backend>, Failure> {
    let opened = SqliteBackend::open_file(path, &stem(path)).map_err(|error| {
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
            _ => "",
        };
        Failure::Unavailable(format!("{error}{hint}"))
    })?;
    Ok(with_access(opened, access))
}

/// A backend over a database in memory, filled by the statements of a file or empty.
pub(crate) fn memory(
    script: Option<&Path>,
    name: &str,
    access: Access,
) -> Result<Arc<dyn Backend>, Failure> {
    let text = script.map(read).transpose()?.unwrap_or_default();
    let shown = script.unwrap_or(Path::new("memory"));
    let opened = SqliteBackend::in_memory(&text, name).map_err(|error| match error {
        OpenError::Introspect(error) => not_loaded(shown, &error),
        other => Failure::Unavailable(other.to_string()),
    })?;
    Ok(with_access(opened, access))
}

fn with_access(backend: SqliteBackend, access: Access) -> Arc<dyn Backend> {
    Arc::new(match access {
        Access::Read => backend,
        Access::Write => backend.writable(),
    })
}

/// The catalog that `text`, the file at `path`, describes.
pub(crate) fn catalog_of_schema(path: &Path, text: &str, name: &str) -> Result<Catalog, Failure> {
    catalog_from_ddl(text, name).map_err(|error| not_loaded(path, &error))
}

/// Makes a file of the statements of `script`.
pub(crate) fn create(path: &Path, script: &str) -> Result<(), String> {
    palisade_sqlite::create_database(path, script).map_err(|error| error.to_string())
}

/// That SQLite does not take the statements of a file.
fn not_loaded(path: &Path, error: &IntrospectError) -> Failure {
    match error {
        IntrospectError::Load(why) => not_understood(path, why, "sqlite3 FILE .schema"),
        other => Failure::Usage(format!("`{}`: {other}", path.display())),
    }
}
