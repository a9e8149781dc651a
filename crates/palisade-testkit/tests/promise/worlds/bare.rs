//! The engines without a gate: to fill databases, to look at what they hold, and to run what a gate would not.

use std::{fs, path::PathBuf};

use mysql_async::prelude::Queryable as _;
use palisade_sqlite::add_keyed_hash;
use rusqlite::types::Value as Sqlite;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What an engine answered, printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    /// How many rows changed.
    pub(crate) affected: u64,
}

/// A database without a gate.
pub(crate) trait Bare {
    /// Runs one statement.
    async fn run(&mut self, sql: &str) -> Result<Printed, String>;

    /// Runs all statements of a script.
    async fn load(&mut self, script: &str);

    /// Makes the tables hold what they held at first.
    async fn restore(&mut self);

    /// Drops the database on servers whose catalog contains all databases, where it would slow down the others.
    async fn leave(&mut self);
}

/// A SQLite file.
pub(crate) struct SqliteFile {
    path: PathBuf,
    /// What it held at first.
    bytes: Vec<u8>,
}

impl SqliteFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        let bytes = fs::read(&path).unwrap();
        Self { path, bytes }
    }
}

impl Bare for SqliteFile {
    async fn run(&mut self, sql: &str) -> Result<Printed, String> {
        let conn = rusqlite::Connection::open(&self.path).unwrap();
        add_keyed_hash(&conn).unwrap();
        let mut statement = conn.prepare(sql).map_err(|error| error.to_string())?;
        let mut printed = Printed {
            names: statement.column_names().map(str::to_owned).collect(),
            ..Printed::default()
        };
        let is_change = !statement.readonly();
        let width = statement.column_count();
        let mut rows = statement.query([]).map_err(|error| error.to_string())?;
        while let Some(row) = rows.next().map_err(|error| error.to_string())? {
            let cells = (0..width).map(|index| match row.get(index).unwrap() {
                Sqlite::Null => None,
                Sqlite::Integer(value) => Some(value.to_string()),
                Sqlite::Real(value) => Some(value.to_string()),
                Sqlite::Text(text) => Some(text),
                Sqlite::Blob(bytes) => Some(format!("{bytes:?}")),
            });
            printed.rows.push(cells.collect());
        }
        drop(rows);
        drop(statement);
        printed.affected = if is_change { conn.changes() } else { 0 };
        Ok(printed)
    }

    async fn load(&mut self, script: &str) {
        let conn = rusqlite::Connection::open(&self.path).unwrap();
        add_keyed_hash(&conn).unwrap();
        conn.execute_batch(script).unwrap();
    }

    async fn restore(&mut self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }

    async fn leave(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

/// A connection to PostgreSQL, and what fills the tables.
pub(crate) struct PostgresSession {
    pub(crate) client: Client,
    pub(crate) fill: Vec<String>,
}

impl Bare for PostgresSession {
    async fn run(&mut self, sql: &str) -> Result<Printed, String> {
        let messages = self
            .client
            .simple_query(sql)
            .await
            .map_err(|error| error.to_string())?;
        let mut printed = Printed::default();
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|index| row.get(index).map(str::to_owned));
                    printed.rows.push(cells.collect());
                }
                SimpleQueryMessage::CommandComplete(count) => printed.affected = count,
                SimpleQueryMessage::RowDescription(columns) => {
                    printed.names = columns.iter().map(|c| c.name().to_owned()).collect();
                }
                _ => {}
            }
        }
        Ok(printed)
    }

    async fn load(&mut self, script: &str) {
        self.client.batch_execute(script).await.unwrap();
    }

    async fn restore(&mut self) {
        let script = self.fill.join(";\n");
        self.load(&script).await;
    }

    async fn leave(&mut self) {}
}

/// A connection to MySQL or MariaDB, and what fills the tables.
pub(crate) struct MysqlSession {
    pub(crate) conn: mysql_async::Conn,
    pub(crate) fill: Vec<String>,
    pub(crate) database: String,
}

impl Bare for MysqlSession {
    async fn run(&mut self, sql: &str) -> Result<Printed, String> {
        let mut result = self
            .conn
            .query_iter(sql)
            .await
            .map_err(|error| error.to_string())?;
        let mut printed = Printed {
            names: result
                .columns_ref()
                .iter()
                .map(|column| column.name_str().into_owned())
                .collect(),
            ..Printed::default()
        };
        let rows: Vec<mysql_async::Row> =
            result.collect().await.map_err(|error| error.to_string())?;
        // Of what RETURNING gives back, the server does not say how many rows it is.
        printed.affected = if printed.names.is_empty() {
            result.affected_rows()
        } else {
            rows.len().try_into().unwrap()
        };
        drop(result);
        for row in rows {
            let cells = row.unwrap().into_iter().map(|cell| match cell {
                mysql_async::Value::NULL => None,
                mysql_async::Value::Bytes(bytes) => {
                    Some(String::from_utf8_lossy(&bytes).into_owned())
                }
                other => Some(other.as_sql(true)),
            });
            printed.rows.push(cells.collect());
        }
        Ok(printed)
    }

    async fn load(&mut self, script: &str) {
        self.conn.query_drop(script).await.unwrap();
    }

    async fn restore(&mut self) {
        // At once, which is quicker than one after the other.
        self.conn.query_drop("START TRANSACTION").await.unwrap();
        for statement in &self.fill {
            self.conn.query_drop(statement).await.unwrap();
        }
        self.conn.query_drop("COMMIT").await.unwrap();
    }

    async fn leave(&mut self) {
        let drop = format!("DROP DATABASE {}", self.database);
        self.conn.query_drop(drop).await.unwrap();
    }
}
