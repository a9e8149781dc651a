//! What a statement reads, by the engine's own word and by ours: while SQLite prepares a statement, it asks its
//! authorizer about every column read and every function called. Ours must hold all of it.
//!
//! What the engine does not say (the list stands in `src/execute.rs`, kept true by a test there): the columns of
//! USING and NATURAL, what generated columns are made of, EXPLAIN. So this shows that we miss nothing
//! of what it says, and nothing about the rest. Outside of the comparison is what it says of names that are no
//! relation: common table expressions (without a column, and in no database), row ids, and the
//! columns of joins in parentheses, of which it makes `(SELECT * FROM …)`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod folder;
mod record;

use std::path::Path;

use palisade::value::Params;
use palisade_corpus::Corpus;
use record::{Desk, Reads, Tally};

fn corpus() -> Corpus {
    Corpus::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

#[test]
fn what_the_engine_asks_is_what_we_decide_over() {
    let corpus = corpus();
    let mut tally = Tally::default();
    // A name with a suffix is of another dialect.
    for (name, script) in corpus
        .catalogs
        .iter()
        .filter(|(name, _)| !name.contains('.'))
    {
        let desk = Desk::new(script).unwrap();
        for case in corpus.cases.iter().filter(|case| case.catalog == *name) {
            desk.compare(&case.sql, &case.params, &mut tally);
        }
    }
    tally.print("the corpus");
    assert!(tally.missed.is_empty(), "{}", tally.missed.join("\n"));
    assert!(
        tally.compared >= 150,
        "only {} were compared",
        tally.compared
    );
}

/// If ours were empty, it would show.
#[test]
fn an_empty_set_would_be_found_out() {
    let desk = Desk::new("CREATE TABLE t (a, b); CREATE VIEW v AS SELECT a FROM t;").unwrap();
    let asked = desk
        .read_authorizer("SELECT upper(v.a), t.b FROM v JOIN t")
        .unwrap();
    assert_eq!(asked.columns.len(), 3);
    assert_eq!(asked.functions.len(), 1);
    assert_eq!(asked.missing_in(&Reads::default()).len(), 4);
    let counted = desk.read_authorizer("SELECT count(*) FROM main.t").unwrap();
    assert_eq!(counted.missing_in(&Reads::default()).len(), 2);
    let (ours, _) = desk
        .ours("SELECT count(*) FROM main.t", &Params::None)
        .unwrap();
    assert!(counted.missing_in(&ours).is_empty());
}
