//! SQLite: a file, opened for each statement, as the backend opens it.

use std::path::PathBuf;

use palisade_sqlite::SqliteBackend;
use rusqlite::{Connection, OpenFlags, Statement, types::ValueRef};

use crate::{
    Case, Driver, ROWS,
    filtered::{self, ORDERS, ROW, TABLES},
    json::Rows,
};

pub(crate) async fn bench(cases: &[Case]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, big INTEGER, name TEXT, at TEXT, ratio REAL);
             INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {ROWS})
             SELECT i, i * 1000, 'customer ' || i || ' of the north', datetime(i, 'unixepoch'), i / 7.0 FROM s;
             {TABLES}
             INSERT INTO orders WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {ORDERS})
             SELECT {} FROM s;
             INSERT INTO rates WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 100)
             SELECT {} FROM s;
             ANALYZE;",
            ROW[0], ROW[1]
        ))
        .unwrap();
    let backend = SqliteBackend::open_file(&path, "bench").unwrap();
    let mut driver = File {
        open: open(&path),
        path,
    };
    let catalog = backend.catalog().clone();
    crate::bench(
        "sqlite",
        cases,
        catalog.clone(),
        backend.clone(),
        &mut driver,
    )
    .await;
    filtered::bench("sqlite", "main", "abs(r.k)", catalog, backend, &mut driver).await;
}

struct File {
    path: PathBuf,
    open: Connection,
}

fn open(path: &PathBuf) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).unwrap()
}

impl Driver for File {
    async fn same_way(&mut self, sql: &str) -> Vec<u8> {
        let conn = open(&self.path);
        let transaction = conn.unchecked_transaction().unwrap();
        let json = read(&mut transaction.prepare(sql).unwrap());
        transaction.rollback().unwrap();
        json
    }

    async fn fastest(&mut self, sql: &str) -> Vec<u8> {
        read(&mut self.open.prepare_cached(sql).unwrap())
    }
}

fn read(statement: &mut Statement<'_>) -> Vec<u8> {
    let mut json = Rows::with_names(statement.column_names());
    let width = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..width {
            match row.get_ref(column).unwrap() {
                ValueRef::Null => json.null(),
                ValueRef::Integer(number) => json.integer(number),
                ValueRef::Real(number) => json.real(number),
                ValueRef::Text(text) => json.text(std::str::from_utf8(text).unwrap()),
                ValueRef::Blob(_) => panic!("the table has no such cell"),
            }
        }
    }
    json.finish()
}
