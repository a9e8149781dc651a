//! The database that all servers are asked for.

use std::{fmt::Write as _, path::Path};

use palisade_testkit::servers::PostgresServer;

/// Rows of the longest answer.
pub(crate) const ROWS: usize = 1_000;

/// Rows of the table: so many keys that each is asked for once.
const ALL: usize = 100_000;

/// Tables of a large schema.
pub(crate) const WIDE: usize = 10_000;

/// The account of all servers: it can read.
pub(crate) const READER: &str = "bench_reader";

/// Where the table is.
pub(crate) enum Database {
    Sqlite { path: String },
    Postgres { port: u16, name: String },
}

impl Database {
    /// A table of a hundred thousand rows.
    pub(crate) fn create(engine: &str, folder: &Path) -> Self {
        if engine == "sqlite" {
            let path = folder.join("bench.db");
            let database = rusqlite::Connection::open(&path).unwrap();
            let script = format!("BEGIN; {} COMMIT;", script());
            database.execute_batch(&script).unwrap();
            return Self::Sqlite {
                path: path.to_str().unwrap().to_owned(),
            };
        }
        let server = PostgresServer::start_shared().unwrap();
        let name = server.fresh_database("peers").unwrap();
        let script = format!(
            "{} CREATE ROLE {READER} LOGIN PASSWORD 'bench'; GRANT SELECT ON items TO {READER}; VACUUM ANALYZE items;",
            script()
        );
        server.load(&name, &script).unwrap().clean().unwrap();
        let url = server.url(&name);
        let place = url.split_once('@').unwrap().1;
        let port = place.split_once(':').unwrap().1;
        let port = port.split(['/', '?']).next().unwrap().parse().unwrap();
        Self::Postgres { port, name }
    }

    /// So many tables of six columns, for what a start costs.
    pub(crate) fn wide(folder: &Path) -> Self {
        let path = folder.join("wide.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        let mut script = "BEGIN;".to_owned();
        for table in 0..WIDE {
            writeln!(
                script,
                "CREATE TABLE t{table} (id integer PRIMARY KEY, tenant_id integer, name text, mail text, note text, place text);"
            )
            .unwrap();
        }
        script.push_str("COMMIT;");
        database.execute_batch(&script).unwrap();
        Self::Sqlite {
            path: path.to_str().unwrap().to_owned(),
        }
    }

    /// Statements by a key that was not asked for before, each with a text of its answer.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (String, String)> + use<> {
        (ROWS + 1..=ALL).map(|id| {
            let sql = format!("SELECT id, label, quantity, price, made FROM items WHERE id = {id}");
            (sql, label(id))
        })
    }

    /// Texts of the last of all rows.
    pub(crate) fn last_of_all(&self) -> Vec<&'static str> {
        vec!["label-001000"]
    }
}

fn label(id: usize) -> String {
    format!("label-{id:06}")
}

fn script() -> String {
    let mut out = "CREATE TABLE items (id integer PRIMARY KEY, label varchar(40) NOT NULL, quantity integer, \
                   price numeric(10, 2), made date);\n"
        .to_owned();
    for first in (1..=ALL).step_by(1_000) {
        out.push_str("INSERT INTO items VALUES ");
        for id in first..first + 1_000 {
            let comma = if id == first { "" } else { ", " };
            write!(
                out,
                "{comma}({id}, '{}', {}, {}.{:02}, '2026-{:02}-{:02}')",
                label(id),
                id % 50,
                id % 900,
                id % 100,
                id % 12 + 1,
                id % 28 + 1
            )
            .unwrap();
        }
        out.push_str(";\n");
    }
    out
}
