//! The database behind a store: a SQLite file, or a schema of a PostgreSQL database. Both run the same statements.
//!
//! Statements are written as SQLite reads them, with parameters `?1`, `?2`, …, and nothing that PostgreSQL reads otherwise. Whoever writes is
//! alone: SQLite has one writer, and on PostgreSQL a lock makes it so.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{
    Connection, TransactionBehavior, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};

#[cfg(feature = "postgres")]
use crate::postgres_database::PostgresDatabase;

/// How long a process waits for another one's transaction.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a database did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DatabaseFault(pub(crate) String);

impl From<rusqlite::Error> for DatabaseFault {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for DatabaseFault {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<DatabaseFault> for String {
    fn from(fault: DatabaseFault) -> Self {
        fault.0
    }
}

/// A value of a parameter, or of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateValue {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for StateValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for StateValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for StateValue {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<u8>> for StateValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8]> for StateValue {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for StateValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for StateValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A row that a query gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateRow(pub(crate) Vec<StateValue>);

impl StateRow {
    fn value(&self, at: usize) -> Option<&StateValue> {
        self.0.get(at)
    }

    /// A text.
    pub(crate) fn text(&self, at: usize) -> Result<String, DatabaseFault> {
        self.find_text(at)?.ok_or_else(|| unlike(at))
    }

    /// A text, or none.
    pub(crate) fn find_text(&self, at: usize) -> Result<Option<String>, DatabaseFault> {
        match self.value(at) {
            Some(StateValue::Text(text)) => Ok(Some(text.clone())),
            Some(StateValue::Null) => Ok(None),
            Some(StateValue::Integer(_) | StateValue::Bytes(_)) | None => Err(unlike(at)),
        }
    }

    /// A number.
    pub(crate) fn integer(&self, at: usize) -> Result<i64, DatabaseFault> {
        self.find_integer(at)?.ok_or_else(|| unlike(at))
    }

    /// A number, or none.
    pub(crate) fn find_integer(&self, at: usize) -> Result<Option<i64>, DatabaseFault> {
        match self.value(at) {
            Some(StateValue::Integer(number)) => Ok(Some(*number)),
            Some(StateValue::Null) => Ok(None),
            Some(StateValue::Text(_) | StateValue::Bytes(_)) | None => Err(unlike(at)),
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&self, at: usize) -> Result<Vec<u8>, DatabaseFault> {
        self.find_bytes(at)?.ok_or_else(|| unlike(at))
    }

    /// Bytes, or none.
    pub(crate) fn find_bytes(&self, at: usize) -> Result<Option<Vec<u8>>, DatabaseFault> {
        match self.value(at) {
            Some(StateValue::Bytes(bytes)) => Ok(Some(bytes.clone())),
            Some(StateValue::Null) => Ok(None),
            Some(StateValue::Text(_) | StateValue::Integer(_)) | None => Err(unlike(at)),
        }
    }
}

fn unlike(at: usize) -> DatabaseFault {
    DatabaseFault(format!("column {} of the state is of another type", at + 1))
}

/// Where a store's tables are.
pub(crate) enum StateDatabase {
    Sqlite(Mutex<Connection>),
    #[cfg(feature = "postgres")]
    Postgres(Mutex<PostgresDatabase>),
}

/// Statements that happen together, or not at all.
pub(crate) enum StateTransaction<'d> {
    Sqlite(rusqlite::Transaction<'d>),
    #[cfg(feature = "postgres")]
    Postgres(&'d mut PostgresDatabase),
}

impl StateDatabase {
    /// What a connection to a SQLite file leads to.
    pub(crate) fn over(connection: Connection) -> Self {
        Self::Sqlite(Mutex::new(connection))
    }

    /// What a session with a PostgreSQL server leads to.
    #[cfg(feature = "postgres")]
    pub(crate) fn over_postgres(database: PostgresDatabase) -> Self {
        Self::Postgres(Mutex::new(database))
    }

    /// Does `work`, which writes, in one transaction. It is kept unless `work` fails.
    pub(crate) fn write<T, E: From<DatabaseFault>>(
        &self,
        work: impl FnOnce(&mut StateTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(true, work)
    }

    /// Does `work`, which reads, over one state of the database.
    pub(crate) fn read<T, E: From<DatabaseFault>>(
        &self,
        work: impl FnOnce(&mut StateTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(false, work)
    }

    fn run<T, E: From<DatabaseFault>>(
        &self,
        writes: bool,
        work: impl FnOnce(&mut StateTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Sqlite(connection) => {
                let mut connection = lock(connection);
                let behavior = match writes {
                    true => TransactionBehavior::Immediate,
                    false => TransactionBehavior::Deferred,
                };
                let transaction = connection
                    .transaction_with_behavior(behavior)
                    .map_err(DatabaseFault::from)?;
                let mut transaction = StateTransaction::Sqlite(transaction);
                // What fails is rolled back where the transaction is dropped.
                let done = work(&mut transaction)?;
                match transaction {
                    StateTransaction::Sqlite(transaction) if writes => {
                        transaction.commit().map_err(DatabaseFault::from)?;
                    }
                    StateTransaction::Sqlite(_) => {}
                    #[cfg(feature = "postgres")]
                    StateTransaction::Postgres(_) => {}
                }
                Ok(done)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(database) => {
                let mut database = lock(database);
                database.begin(writes)?;
                let done = work(&mut StateTransaction::Postgres(&mut database));
                match done {
                    Ok(done) => {
                        database.end(writes)?;
                        Ok(done)
                    }
                    Err(why) => {
                        // A session in which that fails is not used again.
                        let _ = database.end(false);
                        Err(why)
                    }
                }
            }
        }
    }

    /// A number that is another one once this process or another has written something.
    pub(crate) fn read_writes(&self) -> Result<u64, DatabaseFault> {
        match self {
            // It counts the writes of others (<https://www.sqlite.org/pragma.html#pragma_data_version>) and those of a connection apart.
            Self::Sqlite(connection) => {
                let read = lock(connection).query_row(
                    "SELECT data_version, total_changes() FROM pragma_data_version",
                    [],
                    |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
                );
                let (others, own) = read?;
                Ok(others.cast_unsigned().rotate_left(32) ^ own.cast_unsigned())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(database) => lock(database).read_writes(),
        }
    }
}

impl StateTransaction<'_> {
    /// Runs a statement that changes something; how many rows.
    pub(crate) fn execute(
        &mut self,
        sql: &str,
        values: &[StateValue],
    ) -> Result<u64, DatabaseFault> {
        match self {
            Self::Sqlite(transaction) => {
                let changed = transaction.execute(sql, params_from_iter(values))?;
                Ok(u64::try_from(changed).unwrap_or(u64::MAX))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(database) => database.execute(sql, values),
        }
    }

    /// The rows of a query.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        values: &[StateValue],
    ) -> Result<Vec<StateRow>, DatabaseFault> {
        match self {
            Self::Sqlite(transaction) => {
                let mut query = transaction.prepare(sql)?;
                let columns = query.column_count();
                let rows = query.query_map(params_from_iter(values), |row| {
                    let cells = (0..columns).map(|at| row.get_ref(at).and_then(read_cell));
                    cells.collect::<rusqlite::Result<_>>().map(StateRow)
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(database) => database.query(sql, values),
        }
    }

    /// The first row of a query, if there is one.
    pub(crate) fn find(
        &mut self,
        sql: &str,
        values: &[StateValue],
    ) -> Result<Option<StateRow>, DatabaseFault> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// The number that a query counts.
    pub(crate) fn count(&mut self, sql: &str, values: &[StateValue]) -> Result<u64, DatabaseFault> {
        let row = self.find(sql, values)?;
        let count = row.ok_or_else(|| unlike(0))?.integer(0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

fn read_cell(cell: ValueRef<'_>) -> rusqlite::Result<StateValue> {
    Ok(match cell {
        ValueRef::Null => StateValue::Null,
        ValueRef::Integer(number) => StateValue::Integer(number),
        ValueRef::Text(_) => StateValue::Text(cell.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => StateValue::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => {
            let kind = rusqlite::types::Type::Real;
            return Err(rusqlite::Error::InvalidColumnType(0, String::new(), kind));
        }
    })
}

/// A transaction that a panic left behind was rolled back.
fn lock<T>(database: &Mutex<T>) -> MutexGuard<'_, T> {
    database.lock().unwrap_or_else(PoisonError::into_inner)
}
