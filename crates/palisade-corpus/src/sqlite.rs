//! The databases of cases, on SQLite.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use palisade::{
    catalog::Catalog,
    guard::Backend,
    value::{Params, Value},
};
use palisade_sqlite::{SqliteBackend, create_database};
use rusqlite::{Connection, OpenFlags, types::ValueRef};

use crate::fixture::{Bare, Fixture};

/// A database in a file, with the rows of its catalog's script.
pub(crate) struct SqliteFixture {
    backend: SqliteBackend,
    name: String,
    path: PathBuf,
    /// The file of a copy is gone with it.
    _guard: Option<tempfile::TempPath>,
}

impl SqliteFixture {
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
            _guard: None,
        })
    }
}

impl Fixture for SqliteFixture {
    fn catalog(&self) -> &Catalog {
        self.backend.catalog()
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(self.backend.clone())
    }

    fn copy(&self) -> Result<Box<dyn Fixture>, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let path = file.into_temp_path();
        std::fs::copy(&self.path, &path).map_err(|error| error.to_string())?;
        let mut copied = Self::open(&path, &self.name)?;
        copied.backend = copied.backend.writable();
        copied._guard = Some(path);
        Ok(Box::new(copied))
    }

    fn query(&self, sql: &str, params: &Params) -> Result<Bare, String> {
        query(&self.path, sql, params).map_err(|error| error.to_string())
    }

    fn try_each(&self, statements: &[String]) -> Result<Vec<bool>, String> {
        let open = || {
            let connection = Connection::open(&self.path)?;
            connection.execute_batch("PRAGMA foreign_keys = ON")?;
            Ok(connection)
        };
        let connection = open().map_err(|error: rusqlite::Error| error.to_string())?;
        let each = statements.iter();
        Ok(each
            .map(|statement| connection.execute_batch(statement).is_ok())
            .collect())
    }

    fn wait(&self, future: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
        pollster::block_on(future);
    }

    fn own_name(&self) -> Option<&str> {
        None
    }
}

fn query(path: &Path, sql: &str, params: &Params) -> rusqlite::Result<Bare> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut prepared = connection.prepare(sql)?;
    match params {
        Params::None => {}
        Params::Positional(values) => {
            for (value, number) in values.iter().zip(1..) {
                prepared.raw_bind_parameter(number, print_value(value))?;
            }
        }
        Params::Named(values) => {
            for (name, value) in values {
                for sigil in [':', '@', '$'] {
                    if let Some(number) = prepared.parameter_index(&format!("{sigil}{name}"))? {
                        prepared.raw_bind_parameter(number, print_value(value))?;
                    }
                }
            }
        }
    }
    let columns: Vec<String> = prepared
        .column_names()
        .map(|name| (*name).to_owned())
        .collect();
    let width = columns.len();
    let mut read = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = read.next()? {
        let cells = (0..width).map(|index| row.get_ref(index).map(value));
        rows.push(cells.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(Bare { columns, rows })
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
