//! A SQLite file that changes while it is served.

use std::{path::PathBuf, sync::Arc, time::Duration};

use palisade::guard::Guard;
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::live::{
    Ddl, SCRIPT, ddl_widens_nothing, follows_its_own_definitions, follows_the_policies,
    follows_the_schema, gate, still_gate,
};
use rusqlite::Connection;

struct File {
    guard: Guard<SqliteBackend>,
    ddl: Ddl,
    _folder: tempfile::TempDir,
}

fn file() -> File {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("live.db");
    create_database(&path, SCRIPT).unwrap();
    let backend = SqliteBackend::open_file(&path, "live").unwrap();
    let ddl: Ddl = Arc::new(move |sql| {
        let conn = Connection::open(&path).unwrap();
        conn.busy_timeout(Duration::from_secs(30)).unwrap();
        conn.execute_batch(sql).unwrap();
    });
    File {
        guard: gate(backend, "main"),
        ddl,
        _folder: folder,
    }
}

#[tokio::test]
async fn sqlite_follows_the_schema() {
    let file = file();
    follows_the_schema(&file.guard, &file.ddl).await;
}

#[tokio::test]
async fn sqlite_follows_the_policies() {
    let file = file();
    follows_the_policies(&file.guard, "main", &file.ddl).await;
}

#[tokio::test]
async fn sqlite_follows_its_own_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.db");
    create_database(&path, SCRIPT).unwrap();
    let backend = SqliteBackend::open_file(&path, "live").unwrap();
    follows_its_own_definitions(&still_gate(backend.writable(), "main")).await;
}

#[tokio::test]
async fn ddl_widens_nothing_on_sqlite() {
    let file = file();
    ddl_widens_nothing(&file.guard, &file.ddl, |query| {
        format!("BEGIN IMMEDIATE; DROP VIEW shown; CREATE VIEW shown AS {query}; COMMIT")
    })
    .await;
}
