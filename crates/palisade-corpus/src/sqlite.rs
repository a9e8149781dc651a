//! The databases of cases, on SQLite.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use palisade::{
    answer::{Action, Marker, ScanSession},
    catalog::Catalog,
    guard::Backend,
    rewrite::RewrittenStatement,
    value::{Params, RowSink as _, Value},
};
use palisade_sqlite::{SqliteBackend, create_database};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::Value as Json;

use crate::case::Case;

/// A database in a file, with the rows of its catalog's script.
pub(crate) struct Database {
    backend: SqliteBackend,
    name: String,
    path: PathBuf,
}

impl Database {
    /// Makes the database that `script` describes at `path`.
    pub(crate) fn create(path: &Path, name: &str, script: &str) -> Result<Self, String> {
        create_database(path, script).map_err(|error| error.to_string())?;
        Self::open(path, name)
    }

    fn open(path: &Path, name: &str) -> Result<Self, String> {
        let backend = SqliteBackend::open_file(path, name).map_err(|error| error.to_string())?;
        Ok(Self {
            backend,
            name: name.to_owned(),
            path: path.to_owned(),
        })
    }

    /// What it holds.
    pub(crate) fn catalog(&self) -> &Catalog {
        self.backend.catalog()
    }

    /// A backend that reads it.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.backend.clone())
    }

    /// The same in another file, which is gone with the guard.
    pub(crate) fn copy(&self) -> Result<(Self, tempfile::TempPath), String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let path = file.into_temp_path();
        std::fs::copy(&self.path, &path).map_err(|error| error.to_string())?;
        let mut copied = Self::open(&path, &self.name)?;
        copied.backend = copied.backend.writable();
        Ok((copied, path))
    }

    /// What the engine gives for `sql`, without the firewall.
    pub(crate) fn rows(&self, sql: &str) -> Result<Vec<Vec<Json>>, String> {
        let message = |error: rusqlite::Error| error.to_string();
        let conn = self.connect()?;
        let mut prepared = conn.prepare(sql).map_err(message)?;
        let width = prepared.column_count();
        let mut rows = prepared.raw_query();
        let mut out = Vec::new();
        while let Some(row) = rows.next().map_err(message)? {
            let cells = (0..width).map(|index| row.get_ref(index).map(json).map_err(message));
            out.push(cells.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(out)
    }

    /// What the engine gives for the statement as it was written, put into the form of an answer.
    pub(crate) fn bare(&self, case: &Case, statement: &RewrittenStatement) -> Result<Json, String> {
        bare_rows(&self.connect()?, case, statement)
    }

    fn connect(&self) -> Result<Connection, String> {
        Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| error.to_string())
    }
}

fn json(cell: ValueRef<'_>) -> Json {
    match cell {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(i) => Json::from(i),
        ValueRef::Real(r) => Json::from(r),
        ValueRef::Text(text) => Json::from(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            Json::from(digits.collect::<String>())
        }
    }
}

fn bare_rows(
    conn: &Connection,
    case: &Case,
    statement: &RewrittenStatement,
) -> Result<serde_json::Value, String> {
    let message = |e: rusqlite::Error| e.to_string();
    let mut prepared = conn.prepare(&case.sql).map_err(message)?;
    match &case.params {
        Params::None => {}
        Params::Positional(values) => {
            for (value, number) in values.iter().zip(1..) {
                prepared
                    .raw_bind_parameter(number, print_value(value))
                    .map_err(message)?;
            }
        }
        Params::Named(values) => {
            for (name, value) in values {
                for sigil in [':', '@', '$'] {
                    if let Some(number) = prepared
                        .parameter_index(&format!("{sigil}{name}"))
                        .map_err(message)?
                    {
                        prepared
                            .raw_bind_parameter(number, print_value(value))
                            .map_err(message)?;
                    }
                }
            }
        }
    }
    let names: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scan = ScanSession::new(
        statement.scan_plan(),
        Action::Flag,
        Marker::from_bytes([0; 16]),
    );
    let mut flow = scan.columns(&names);
    let mut rows = prepared.raw_query();
    while flow.is_continue()
        && let Some(row) = rows.next().map_err(message)?
    {
        let cells = (0..names.len())
            .map(|index| row.get_ref(index).map(value).map_err(message))
            .collect::<Result<Vec<_>, _>>()?;
        flow = scan.row(cells);
    }
    let answer = scan.finish().map_err(|rejection| {
        format!(
            "{rejection}: {}; its columns are {names:?}",
            rejection.operator_detail().unwrap_or("")
        )
    })?;
    serde_json::to_value(answer).map_err(|e| e.to_string())
}

fn print_value(value: &Value) -> rusqlite::types::Value {
    use rusqlite::types::Value as Sqlite;
    match value {
        Value::Null => Sqlite::Null,
        Value::Bool(b) => Sqlite::Integer(i64::from(*b)),
        Value::Integer(i) => Sqlite::Integer(*i),
        Value::Real(r) => Sqlite::Real(*r),
        Value::Text(text) => Sqlite::Text(String::from_utf8_lossy(text).into_owned()),
        Value::Blob(bytes) => Sqlite::Blob(bytes.clone()),
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
