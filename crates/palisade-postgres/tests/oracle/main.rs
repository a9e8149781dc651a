//! What a statement reads, by the server's own record and by ours: for a query Q, `CREATE VIEW v AS Q` writes to
//! `pg_depend` every column that Q mentions. Ours must hold all of it.
//!
//! What the server records (PostgreSQL 15 and 18, by experiment; `recordDependencyOnExpr` in
//! `src/backend/catalog/dependency.c`):
//!
//! * a column wherever it is mentioned in what is left after parsing: outputs, conditions, groups, order, windows,
//!   a window or a common table expression that nothing uses included;
//! * of a view its own columns, never what stands below; of an inheriting or partitioned table
//!   the table named, not its children;
//! * for USING and NATURAL the columns of both sides, whether or not the merged one is used;
//! * for a whole row (`u`, `u.*` as one value, `count(u)`) the relation alone, `refobjsubid` 0, which is
//!   recorded for every relation in FROM too: so whole rows say nothing of columns;
//! * for `u.*` in a select list each column; for system columns (`ctid`, `tableoid`) nothing but the relation;
//! * for a field of a composite type the type's column, as that of a relation of kind `c`: not compared;
//! * for a function whose result is a row of a table, the columns of that table, although they are not read: left out
//!   where ours has no such relation;
//! * for a constant of type `regclass` the relation it names;
//! * functions, and operators instead of the functions behind them, unless they are the system's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod folder;
mod record;

use record::{Desk, Tally};

const SCHEMA: &str = include_str!("schema.sql");
const QUERIES: &str = include_str!("queries.sql");

/// The statements of a file, one a line.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with("--"))
}

#[tokio::test]
async fn what_the_server_records_is_what_we_decide_over() {
    let desk = Desk::new("oracle", SCHEMA).await.unwrap();
    let mut tally = Tally::default();
    for sql in statements(QUERIES) {
        desk.compare(sql, &mut tally).await;
    }
    tally.print("queries.sql");
    assert!(tally.missed.is_empty(), "{}", tally.missed.join("\n"));
    let functions = &tally.missed_functions;
    assert!(functions.is_empty(), "{}", functions.join("\n"));
    // Most must be in the domain, or nothing is shown.
    assert!(
        tally.compared >= 160,
        "only {} were compared",
        tally.compared
    );
}

/// Functions of the database behind casts and operators are called, so that a permit must name them.
#[tokio::test]
async fn functions_behind_casts_need_a_permit() {
    let blanket = |_: &_| "permit(principal, action, resource);".to_owned();
    let strict = Desk::with("strict", SCHEMA, blanket).await.unwrap();
    for sql in [
        "SELECT best = best FROM users",
        "SELECT id::app.pair FROM users",
        "SELECT best = id FROM users",
        "SELECT COALESCE(best, id) FROM users",
        "SELECT best FROM users UNION ALL SELECT id FROM users",
        "SELECT CASE WHEN true THEN best ELSE 1 END FROM users",
        "SELECT ARRAY[best, id] FROM users",
        "SELECT mood::int FROM users",
    ] {
        assert_eq!(
            strict.ours(sql).unwrap_err(),
            "function.not-allowed",
            "{sql}"
        );
    }
    // What no value of the casts' types takes part in calls none.
    for sql in [
        "SELECT best, mood FROM users WHERE id > 1 AND name LIKE 'a%'",
        "SELECT count(best), max(id::text), COALESCE(best, best) FROM users GROUP BY team",
        "SELECT id FROM users UNION ALL SELECT 1",
        "SELECT mood::text FROM users",
    ] {
        assert!(strict.ours(sql).is_ok(), "{sql}");
    }
}

/// If ours were empty, it would show.
#[tokio::test]
async fn an_empty_set_would_be_found_out() {
    let desk = Desk::new("blind", SCHEMA).await.unwrap();
    let recorded = desk
        .recorded("SELECT name, app.twice(id) FROM users WHERE email IS NULL")
        .await;
    let recorded = recorded.unwrap();
    assert_eq!(recorded.columns.len(), 3);
    assert_eq!(recorded.relations.len(), 1);
    assert_eq!(recorded.functions.len(), 1);
    let nothing = record::Reads::default();
    assert_eq!(recorded.missing_in(&nothing).len(), 4);
    assert_eq!(recorded.functions_missing_in(&nothing).len(), 1);
}
