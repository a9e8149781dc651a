//! Changes, definitions and plans of the corpus, from the decision to the database.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::path::PathBuf;

use palisade_corpus::Corpus;
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

/// The policies name the database so.
const DATABASE: &str = "main";

async fn check(server: &Server) {
    let corpus = corpus();
    let mut failed = Vec::new();
    let (mut ran, mut changed) = (0, 0);
    for case in corpus.accepted("ledger.mysql") {
        server.create_database(DATABASE).unwrap();
        let script =
            corpus.catalogs["ledger.mysql"].replace("utf8mb4_0900_ai_ci", "utf8mb4_general_ci");
        server.load(DATABASE, &script).unwrap().clean().unwrap();
        let config = MysqlConfig::from_url(&server.url(DATABASE))
            .unwrap()
            .accept_powerful();
        let reader = MysqlBackend::connect(config.clone()).await.unwrap();
        let backend = MysqlBackend::connect(config.writable()).await.unwrap();
        let catalog = backend.catalog().clone();
        match corpus.run_on(case, backend, catalog.clone()).await {
            Ok(affected) => {
                ran += 1;
                changed += u32::from(affected.is_some_and(|rows| rows > 0));
                if affected.is_some() {
                    let refused = corpus.run_on(case, reader, catalog).await.unwrap_err();
                    assert!(refused.contains("opened for reading only"), "{refused}");
                }
            }
            Err(why) => failed.push(format!("{}: {why}", case.id())),
        }
        server
            .query("", "SET lock_wait_timeout = 5; DROP DATABASE main")
            .unwrap();
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(ran > 20 && changed > 10, "{ran} {changed}");
}

#[tokio::test]
async fn what_policy_permits_runs() {
    check(MariaDbServer::shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_policy_permits_runs_on_mysql_9() {
    check(MySqlServer::shared().unwrap()).await;
}
