//! SQLite: a file for each schema.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use palisade::{
    catalog::Catalog,
    guard::{Backend as _, BackendError},
    rewrite::RewrittenStatement,
    value::Value,
};
use palisade_sqlite::SqliteBackend;
use rusqlite::{Connection, OpenFlags, types::ValueRef};

use crate::{
    answer::Answer,
    engine::{Database, Engine},
    fault::Fault,
};

/// Instructions between two looks at the clock.
const INSTRUCTIONS: i32 = 10_000;

/// Makes databases in a folder of its own.
pub(crate) struct Sqlite {
    folder: tempfile::TempDir,
    made: AtomicUsize,
}

impl Sqlite {
    /// # Errors
    /// If there is no place for the folder.
    pub(crate) fn new() -> Result<Self, Fault> {
        Ok(Self {
            folder: tempfile::tempdir().map_err(Fault::Folder)?,
            made: AtomicUsize::new(0),
        })
    }
}

impl Engine for Sqlite {
    fn load(&self, schema: &str, script: &str) -> Result<Box<dyn Database>, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("{schema}.{number}.db"));
        let message = |error: rusqlite::Error| format!("the schema does not load: {error}");
        let conn = Connection::open(&path).map_err(message)?;
        // The data was dumped table by table, and not every public dump keeps its references.
        conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF;")
            .map_err(message)?;
        conn.execute_batch(script).map_err(message)?;
        drop(conn);
        let backend = SqliteBackend::open_file(&path, "eval")
            .map_err(|error| format!("the schema does not load: {error}"))?;
        Ok(Box::new(SqliteDatabase { path, backend }))
    }
}

struct SqliteDatabase {
    path: PathBuf,
    backend: SqliteBackend,
}

impl Database for SqliteDatabase {
    fn catalog(&self) -> Result<Catalog, String> {
        Ok(self.backend.catalog().clone())
    }

    fn original(&self, sql: &str, timeout: Duration) -> Result<Answer, String> {
        let message = |error: rusqlite::Error| error.to_string();
        let mut conn = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(message)?;
        let start = Instant::now();
        conn.progress_handler(INSTRUCTIONS, Some(move || start.elapsed() > timeout))
            .map_err(message)?;
        let mut statement = conn.prepare(sql).map_err(message)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut answer = Answer {
            columns,
            rows: Vec::new(),
        };
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(message)? {
            let cells = (0..answer.columns.len())
                .map(|index| row.get_ref(index).map(value).map_err(message))
                .collect::<Result<Vec<_>, _>>()?;
            answer.rows.push(cells);
        }
        Ok(answer)
    }

    fn rewritten(&self, statement: &Arc<RewrittenStatement>) -> Result<Answer, BackendError> {
        let mut answer = Answer::default();
        let ticket = palisade::danger::ticket(statement);
        pollster::block_on(self.backend.execute(ticket, &mut answer))?;
        Ok(answer)
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => Value::Integer(n),
        ValueRef::Real(n) => Value::Real(n),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
    }
}
