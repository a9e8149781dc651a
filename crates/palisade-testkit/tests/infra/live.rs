//! A SQLite file that changes while it is served.

use std::{sync::Arc, time::Duration};

use palisade::guard::Guard;
use palisade_testkit::live::{
    Ddl, SCRIPT, ddl_widens_nothing, follows_its_own_definitions, follows_the_policies,
    follows_the_schema, gate, still_gate,
};

use crate::database::TestFile;

struct File {
    guard: Guard,
    ddl: Ddl,
    // The file goes when it is dropped.
    _file: Arc<TestFile>,
}

fn file() -> File {
    let file = Arc::new(TestFile::new(SCRIPT));
    let backend = file.reader();
    let own = Arc::clone(&file);
    let ddl: Ddl = Arc::new(move |sql| {
        let conn = own.open_bare();
        conn.busy_timeout(Duration::from_secs(30)).unwrap();
        conn.execute_batch(sql).unwrap();
    });
    File {
        guard: gate(backend, "main"),
        ddl,
        _file: file,
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
    let file = TestFile::new(SCRIPT);
    let backend = file.reader();
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
