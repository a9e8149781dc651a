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
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::PostgresServer;

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

/// Cases that the second lock stops, with its words: what RETURNING reads of the target of an INSERT is not among what
/// the decision says is read.
const EXCUSED: &[(&str, &str)] = &[("pg-upsert", "of `main.entries`, which was not decided")];

#[tokio::test]
async fn what_policy_permits_runs() {
    let corpus = corpus();
    let server = PostgresServer::shared().unwrap();
    let mut failed = Vec::new();
    let (mut ran, mut changed) = (0, 0);
    for case in corpus.accepted("ledger.postgres") {
        let database = server.fresh_database("ledger").unwrap();
        // It sets the search path of the database that it calls so.
        let script = corpus.catalogs["ledger.postgres"]
            .replace("DATABASE ledger", &format!("DATABASE {database}"));
        server.load(&database, &script).unwrap().clean().unwrap();
        let config = PostgresConfig::from_url(&server.url(&database))
            .unwrap()
            .accept_superuser();
        let reader = PostgresBackend::connect(config.clone()).await.unwrap();
        let backend = PostgresBackend::connect(config.writable()).await.unwrap();
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
            Err(why)
                if EXCUSED
                    .iter()
                    .any(|(name, words)| *name == case.name && why.contains(words)) => {}
            Err(why) => failed.push(format!("{}: {why}", case.id())),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(ran > 25 && changed > 10, "{ran} {changed}");
}
