//! Statements run on threads of the crate's own.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use palisade::{guard::Backend as _, rewrite::RewrittenStatement};
use palisade_testkit::fixture::require_permitted;

use super::*;

/// A statement that runs until it is stopped.
const ENDLESS: &str =
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) AS m FROM r";

fn permitted(backend: &SqliteBackend, sql: &str) -> Arc<RewrittenStatement> {
    require_permitted(backend.catalog(), sql)
}

#[test]
fn a_statement_blocks_nobody_who_waits() {
    let backend = SqliteBackend::in_memory(SHOP, "shop").unwrap();
    let statement = permitted(&backend, ENDLESS);
    let mut rows = Rows::all();
    let start = Instant::now();
    let mut future = backend.execute(palisade::danger::ticket(&statement), &mut rows);
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(future);
    // The only connection is free at once: the statement ended with the future that waited for it.
    let next = permitted(&backend, "SELECT 7 AS n");
    let mut rows = Rows::all();
    let start = Instant::now();
    pollster::block_on(backend.execute(palisade::danger::ticket(&next), &mut rows)).unwrap();
    assert_eq!(rows.rows, [[Value::Integer(7)]]);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn many_rows_arrive_in_order_and_end_where_the_sink_does() {
    let backend = SqliteBackend::in_memory(SHOP, "shop").unwrap();
    let many = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 900) SELECT n FROM r";
    let statement = permitted(&backend, many);
    let mut rows = Rows::all();
    pollster::block_on(backend.execute(palisade::danger::ticket(&statement), &mut rows)).unwrap();
    let expected: Vec<Vec<Value>> = (1..=900).map(|n| vec![Value::Integer(n)]).collect();
    assert_eq!(rows.rows, expected);
    let mut some = Rows::until(300);
    pollster::block_on(backend.execute(palisade::danger::ticket(&statement), &mut some)).unwrap();
    assert_eq!(some.rows, expected[..some.rows.len()]);
    assert!(some.rows.len() <= 301, "{}", some.rows.len());
}

/// A sink that panics ends its own statement and no other.
#[test]
fn a_panic_reaches_who_waits() {
    struct Panics;
    impl palisade::guard::RowSink for Panics {
        fn columns(&mut self, _: &[&str]) -> std::ops::ControlFlow<()> {
            panic!("kaboom")
        }
        fn row(&mut self, _: Vec<Value>) -> std::ops::ControlFlow<()> {
            std::ops::ControlFlow::Continue(())
        }
    }
    let backend = SqliteBackend::in_memory(SHOP, "shop").unwrap();
    let statement = permitted(&backend, "SELECT 1 AS n");
    let fell = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pollster::block_on(backend.execute(palisade::danger::ticket(&statement), &mut Panics))
    }));
    assert!(fell.is_err());
    let mut rows = Rows::all();
    pollster::block_on(backend.execute(palisade::danger::ticket(&statement), &mut rows)).unwrap();
    assert_eq!(rows.rows, [[Value::Integer(1)]]);
}
