//! Reading a schema of a thousand tables, and asking whether it is still the same, on each engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

use std::{fmt::Write as _, time::Instant};

use palisade::guard::Backend;
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::servers::{MariaDbServer, PostgresServer};
use tokio::runtime::Builder;

const TABLES: usize = 1000;
const VIEWS: usize = 100;
const COLUMNS: usize = 10;

/// How often each is done; the median is told.
const ROUNDS: usize = 9;

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "\n{TABLES} tables, {VIEWS} views, {} columns: milliseconds, goal for reading ≤ 1000",
        (TABLES + VIEWS) * COLUMNS
    );
    println!(
        "{:<12} {:>10} {:>14}",
        "engine", "reading", "still the same"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.db");
    create_database(&path, &script()).unwrap();
    runtime.block_on(line(
        "SQLite",
        &SqliteBackend::open_file(&path, "many").unwrap(),
        async || {
            SqliteBackend::open_file(&path, "many").unwrap();
        },
    ));

    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("many").unwrap();
    server.load(&database, &script()).unwrap().clean().unwrap();
    let config = || {
        let config = PostgresConfig::from_url(&server.url(&database)).unwrap();
        config.accept_superuser()
    };
    runtime.block_on(async {
        let backend = PostgresBackend::connect(config()).await.unwrap();
        let reading = async || {
            let client = palisade_postgres::connect(&server.url(&database)).await;
            palisade_postgres::catalog(&client.unwrap()).await.unwrap();
        };
        line("PostgreSQL", &backend, reading).await;
    });

    let server = MariaDbServer::start_shared().unwrap();
    let database = server.fresh_database("many").unwrap();
    server.load(&database, &script()).unwrap().clean().unwrap();
    let url = server.url(&database);
    runtime.block_on(async {
        let config = MysqlConfig::from_url(&url).unwrap().accept_powerful();
        let backend = MysqlBackend::connect(config).await.unwrap();
        let reading = async || {
            let mut conn =
                palisade_mysql::connect(&palisade_mysql::MysqlConfig::from_url(&url).unwrap())
                    .await
                    .unwrap();
            palisade_mysql::catalog(&mut conn).await.unwrap();
        };
        line("MariaDB", &backend, reading).await;
    });
}

/// Prints what `reading` a catalog costs, and a look at whether it changed.
async fn line<B: Backend>(engine: &str, backend: &B, reading: impl AsyncFn()) {
    let (mut reads, mut looks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        reading().await;
        reads.push(start.elapsed());
        let start = Instant::now();
        assert!(backend.is_current().await.unwrap(), "{engine} changed");
        looks.push(start.elapsed());
    }
    let median = |mut times: Vec<std::time::Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    println!(
        "{engine:<12} {:>10.1} {:>14.1}",
        median(reads),
        median(looks)
    );
}

fn script() -> String {
    let mut script = String::new();
    for table in 0..TABLES {
        let columns: String = (1..COLUMNS).fold(String::new(), |mut columns, n| {
            let _ = write!(columns, ", c{n} varchar(40)");
            columns
        });
        let _ = writeln!(
            script,
            "CREATE TABLE t{table} (id int PRIMARY KEY{columns});"
        );
    }
    for view in 0..VIEWS {
        let _ = writeln!(script, "CREATE VIEW v{view} AS SELECT * FROM t{view};");
    }
    script
}
