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
use palisade_sqlite::{SqliteBackend, create_database};

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

/// Cases that the engine does not read as they are printed, with the words of its refusal.
const EXCUSED: &[(&str, &str)] = &[("d-create-reference", "REFERENCES \"main\".\"rates\"")];

/// Runs a future that is ready at once, as SQLite's are.
fn now<T>(future: impl Future<Output = T>) -> T {
    let future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("SQLite does not wait"),
    }
}

#[test]
fn what_policy_permits_runs() {
    let corpus = corpus();
    let mut failed = Vec::new();
    let (mut ran, mut changed) = (0, 0);
    for case in corpus.accepted("ledger") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        create_database(&path, &corpus.catalogs["ledger"]).unwrap();
        let reader = SqliteBackend::open_file(&path, "ledger").unwrap();
        let backend = reader.clone().writable();
        let catalog = backend.catalog().clone();
        match now(corpus.run_on(case, backend, catalog.clone())) {
            Ok(affected) => {
                ran += 1;
                changed += u32::from(affected.is_some_and(|rows| rows > 0));
                if affected.is_some() {
                    let refused = now(corpus.run_on(case, reader, catalog)).unwrap_err();
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
