//! Running the text of a schema, with or without rows, on a database of our own.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use palisade::{
    catalog::functions::{self, Safety},
    dialect::Dialect,
};
use rusqlite::{
    Connection, OpenFlags,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
};

use crate::{dump::Made, schema_text};

/// Bytes of script looked at.
pub(crate) const MAX_SCRIPT_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one value in a script.
const MAX_VALUE_BYTES: i32 = 16 * 1024 * 1024;

/// How long a script may run.
const TIME: Duration = Duration::from_secs(30);

/// Why a script did not load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The script is longer than 64 MiB.
    #[error("the schema has {bytes} bytes; at most {limit} are read")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most bytes read.
        limit: usize,
    },
    /// The script did not end in time.
    #[error("line {line}: the schema took longer than {seconds} seconds to load")]
    TooSlow {
        /// The line on which the statement that was running begins, from 1.
        line: usize,
        /// The time allowed, in seconds.
        seconds: u64,
    },
    /// A statement that a schema has no use for: it reaches files, other databases or code.
    #[error("line {line}: `{action}` is not allowed in a schema")]
    Refused {
        /// The line on which the statement begins, from 1.
        line: usize,
        /// What was refused.
        action: String,
    },
    /// The engine refused a statement.
    #[error("line {line}: {message}")]
    Statement {
        /// The line on which the statement begins, from 1.
        line: usize,
        /// The engine's message.
        message: String,
    },
    /// The connection could not be prepared.
    #[error("cannot prepare a database: {0}")]
    Connection(String),
}

/// Why a database file was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The file cannot be created; most often it exists.
    #[error("cannot create `{path}`: {source}")]
    File {
        /// The path given.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// SQLite cannot open the new file.
    #[error("cannot open `{path}`: {message}")]
    Open {
        /// The path given.
        path: String,
        /// The engine's message.
        message: String,
    },
    /// The script failed; the file is gone again.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Makes a database file at `path` from the statements of `script`, for demonstrations and tests.
///
/// The script runs under the same rules as [`catalog_from_ddl`](crate::catalog_from_ddl).
///
/// # Errors
/// If there is a file at `path`, which is never overwritten, or the script fails; then no file stays.
pub fn create_database(path: impl AsRef<Path>, script: &str) -> Result<(), CreateError> {
    let path = path.as_ref();
    let shown = || path.display().to_string();
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|source| CreateError::File {
            path: shown(),
            source,
        })?;
    let result = fill(path, script);
    if result.is_err() {
        // The error that matters is the script's; a file that stays is empty or half filled and refused
        // by the next attempt.
        let _ = fs::remove_file(path);
    }
    result
}

fn fill(path: &Path, script: &str) -> Result<(), CreateError> {
    let open = |message: String| CreateError::Open {
        path: path.display().to_string(),
        message,
    };
    // An absolute path is never a URI and never one of SQLite's special names.
    let absolute = path.canonicalize().map_err(|e| open(e.to_string()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(absolute, flags).map_err(|e| open(e.to_string()))?;
    load(&mut conn, script)?;
    conn.close().map_err(|(_, e)| open(e.to_string()))
}

/// A database in memory, filled by `script`.
pub(crate) fn memory(script: &str) -> Result<Connection, LoadError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_in_memory_with_flags(flags).map_err(connection)?;
    load(&mut conn, script)?;
    Ok(conn)
}

/// Runs `script` on `conn` under an authorizer and a deadline, and takes both off again.
pub(crate) fn load(conn: &mut Connection, script: &str) -> Result<(), LoadError> {
    if script.len() > MAX_SCRIPT_BYTES {
        return Err(LoadError::TooLarge {
            bytes: script.len(),
            limit: MAX_SCRIPT_BYTES,
        });
    }
    let refused = Arc::new(Mutex::new(None));
    prepare(conn, Arc::clone(&refused)).map_err(connection)?;
    let statements = schema_text::statements(script);
    let made = Made::by(&statements);
    let fail = |line: usize, error: &rusqlite::Error| {
        // A poisoned lock still holds what was recorded.
        let action = refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match action {
            Some(action) => LoadError::Refused { line, action },
            None if is_interrupt(error) => LoadError::TooSlow {
                line,
                seconds: TIME.as_secs(),
            },
            None => LoadError::Statement {
                line,
                message: message(error),
            },
        }
    };
    for (line, statement) in statements {
        made.recast(conn, statement)
            .and_then(|run| run.map_or(Ok(()), |sql| conn.execute_batch(&sql)))
            .map_err(|error| fail(line, &error))?;
    }
    for (line, statement) in made.refills() {
        conn.execute_batch(statement)
            .map_err(|error| fail(line, &error))?;
    }
    if !conn.is_autocommit() {
        conn.execute_batch("COMMIT").map_err(connection)?;
    }
    conn.progress_handler(0, None::<fn() -> bool>)
        .map_err(connection)?;
    conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
        .map_err(connection)
}

fn prepare(conn: &mut Connection, refused: Arc<Mutex<Option<String>>>) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    conn.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    // Scripts expect the engine's own default; the bundled build checks foreign keys.
    conn.execute_batch("PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF")?;
    let deadline = Instant::now() + TIME;
    conn.progress_handler(10_000, Some(move || Instant::now() >= deadline))?;
    conn.authorizer(Some(move |context: AuthContext<'_>| {
        match refusal(&context) {
            None => Authorization::Allow,
            Some(action) => {
                refused
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(action);
                Authorization::Deny
            }
        }
    }))
}

/// What of `context` a schema may not do; `None` if it may.
fn refusal(context: &AuthContext<'_>) -> Option<String> {
    match context.action {
        AuthAction::Select
        | AuthAction::Recursive
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::Read { .. }
        | AuthAction::Insert { .. }
        | AuthAction::Update { .. }
        | AuthAction::Delete { .. }
        | AuthAction::CreateTable { .. }
        | AuthAction::CreateIndex { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropView { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::AlterTable { .. }
        | AuthAction::Analyze { .. }
        | AuthAction::Reindex { .. } => None,
        AuthAction::CreateVtable { module_name, .. } => {
            let known = [
                "fts3",
                "fts4",
                "fts5",
                "fts5vocab",
                "fts4aux",
                "rtree",
                "rtree_i32",
            ];
            (!known.iter().any(|m| module_name.eq_ignore_ascii_case(m)))
                .then(|| format!("CREATE VIRTUAL TABLE … USING {module_name}"))
        }
        AuthAction::Function { function_name } => {
            let def = functions::registry(Dialect::Sqlite).get(&function_name.to_ascii_lowercase());
            let harmless = match def.map(|def| def.safety) {
                Some(
                    Safety::Pure
                    | Safety::Volatile
                    | Safety::Account
                    | Safety::Session
                    | Safety::Catalog
                    | Safety::Resource,
                ) => true,
                // ALTER TABLE calls functions of the engine's own, which text cannot reach.
                Some(Safety::Admin) => {
                    function_name.starts_with("sqlite_") && function_name != "sqlite_log"
                }
                Some(
                    Safety::File
                    | Safety::Network
                    | Safety::DynamicSql
                    | Safety::Lock
                    | Safety::Unknown,
                )
                | None => false,
            };
            (!harmless).then(|| format!("{function_name}()"))
        }
        AuthAction::Pragma { pragma_name, .. } => {
            (!PRAGMAS.iter().any(|p| pragma_name.eq_ignore_ascii_case(p)))
                .then(|| format!("PRAGMA {pragma_name}"))
        }
        AuthAction::Attach { .. } => Some("ATTACH or VACUUM".to_owned()),
        AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateTempTrigger { .. } => Some("CREATE TEMP".to_owned()),
        // Foreign and open-ended: what is not listed is refused.
        _ => Some("this statement".to_owned()),
    }
}

/// The pragmas that scripts and dumps set and that stay inside the database.
const PRAGMAS: &[&str] = &[
    "application_id",
    "auto_vacuum",
    "busy_timeout",
    "cache_size",
    "data_version",
    "defer_foreign_keys",
    "encoding",
    "foreign_key_check",
    "foreign_keys",
    "integrity_check",
    "journal_mode",
    "legacy_alter_table",
    "page_size",
    "quick_check",
    "recursive_triggers",
    "synchronous",
    "user_version",
];

fn is_interrupt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

fn message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

fn connection(error: rusqlite::Error) -> LoadError {
    LoadError::Connection(error.to_string())
}
