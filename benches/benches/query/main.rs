//! The query path beside the bare driver, on each engine: one row, a thousand, a million of five columns.
//!
//! The baseline reads *the same way*: the text that the firewall printed, over the same protocol, in a read-only
//! transaction, its rows turned into the same JSON. Beside it stands the driver's *fastest* way to that JSON. Ours
//! is taken twice: *whole* (decide, run, scan, envelope) and *unscanned* (decide, run, the same JSON). What is
//! compared is taken in turn, so that a machine whose speed drifts does not show in the ratios.
//!
//! `filtered` measures what fences cost. Named as an argument, as engines can be, it is measured alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

mod filtered;
mod json;
mod mysql;
mod postgres;
mod sqlite;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::{Decision, Firewall},
    guard::{Backend, Guard},
    host::Host,
    limits::Limits,
    policy::{PolicyFile, PolicySources},
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};

use crate::json::JsonSink;

/// Rows of the table.
const ROWS: u64 = 1_000_000;

/// What is asked: what it is called, the text, its rows, how often each way is taken.
type Case = (&'static str, &'static str, u64, usize);

const CASES: [Case; 3] = [
    ("SELECT 1", "SELECT 1 AS one", 1, 201),
    (
        "1,000 rows",
        "SELECT id, big, name, at, ratio FROM t LIMIT 1000",
        1000,
        101,
    ),
    (
        "1,000,000 rows",
        "SELECT id, big, name, at, ratio FROM t",
        ROWS,
        5,
    ),
];

/// A bare driver.
trait Driver {
    /// The rows of `sql` as JSON, read as the backend reads them.
    async fn same_way(&mut self, sql: &str) -> Vec<u8>;

    /// The same, as fast as the driver can.
    async fn fastest(&mut self, sql: &str) -> Vec<u8>;
}

fn main() {
    // `cargo bench` passes its own arguments; the engines that others name are the ones that run.
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let (parts, engines): (Vec<String>, Vec<String>) =
        named.into_iter().partition(|name| name == "filtered");
    let wanted = |name: &str| engines.is_empty() || engines.iter().any(|n| n == name);
    let cases: &[_] = match parts.is_empty() {
        true => &CASES,
        false => &[],
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!(
        "Milliseconds, medians. Ratios are to the same way, the last to the fastest.\n\
         {:<9} {:<14} {:>9} {:>10} {:>6} {:>9} {:>6} {:>9} {:>9} {:>6}",
        "engine",
        "",
        "same way",
        "unscanned",
        "ratio",
        "whole",
        "ratio",
        "scan",
        "fastest",
        "ratio"
    );
    if wanted("sqlite") {
        runtime.block_on(sqlite::bench(cases));
    }
    if wanted("postgres") {
        runtime.block_on(postgres::bench(cases));
    }
    if wanted("mariadb") {
        runtime.block_on(mysql::bench(cases));
    }
}

/// Prints a line for each case.
async fn bench<B: Backend + Clone>(
    engine: &str,
    cases: &[Case],
    catalog: Catalog,
    backend: B,
    driver: &mut impl Driver,
) {
    let firewall = Arc::new(firewall(catalog));
    let guard = Guard::new(
        Arc::clone(&firewall),
        backend.clone(),
        Arc::new(Machine(Instant::now())),
        Arc::new(NoAudit),
    );
    let session = Session::new(Principal::new("Agent", "bench"));
    for &(name, sql, rows, runs) in cases {
        let statement = decide(&firewall, sql, &session);
        let text = palisade::danger::parts(&statement).sql.to_owned();
        let ours = run_unscanned(&backend, &statement).await;
        assert_eq!(
            ours.windows(2).filter(|two| two == b"},").count() as u64 + 1,
            rows
        );
        assert!(ours == driver.same_way(&text).await, "{engine}: {name}");
        assert!(ours == driver.fastest(&text).await, "{engine}: {name}");
        let envelope = String::from_utf8(query_json(&guard, sql, &session).await).unwrap();
        assert!(envelope.contains(std::str::from_utf8(&ours).unwrap()));
        drop((ours, envelope));

        let mut times: [Vec<f64>; 5] = Default::default();
        for _ in 0..runs {
            let start = Instant::now();
            let _ = decide(&firewall, sql, &session);
            times[0].push(ms(start));

            let start = Instant::now();
            let _ = driver.same_way(&text).await;
            times[1].push(ms(start));

            let start = Instant::now();
            let _ = query_json(&guard, sql, &session).await;
            times[2].push(ms(start));

            let start = Instant::now();
            let statement = decide(&firewall, sql, &session);
            let _ = run_unscanned(&backend, &statement).await;
            times[3].push(ms(start));

            let start = Instant::now();
            let _ = driver.fastest(&text).await;
            times[4].push(ms(start));
        }
        let [decided, same_way, whole, unscanned, fastest] = times.map(median);
        println!(
            "{engine:<9} {name:<14} {same_way:>9.3} {unscanned:>10.3} {:>6.2} {whole:>9.3} {:>6.2} {:>9.3} {fastest:>9.3} {:>6.2}",
            unscanned / same_way,
            whole / same_way,
            whole - unscanned,
            whole / fastest,
        );
        // Where the time of ours goes beside the rows.
        println!(
            "{:<24} deciding {decided:.3}, running {:.3}",
            "",
            unscanned - decided
        );
    }
}

fn decide(firewall: &Firewall, sql: &str, session: &Session) -> Arc<RewrittenStatement> {
    match firewall.check(sql, &Params::None, session).unwrap() {
        Decision::Allow(statement) => Arc::from(statement),
        Decision::Reject(why) => panic!("{sql}: {why}"),
    }
}

async fn query_json(guard: &Guard, sql: &str, session: &Session) -> Vec<u8> {
    match guard.query(sql, &Params::None, session).await.into_result() {
        Ok(envelope) => serde_json::to_vec(&envelope).unwrap(),
        Err(why) => panic!("{sql}: {why:?}"),
    }
}

async fn run_unscanned<B: Backend>(backend: &B, statement: &Arc<RewrittenStatement>) -> Vec<u8> {
    let mut sink = JsonSink::default();
    backend
        .execute(palisade::danger::ticket(statement), &mut sink)
        .await
        .unwrap();
    sink.finish()
}

fn firewall(catalog: Catalog) -> Firewall {
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "bench.cedar".to_owned(),
            text: "permit(principal, action, resource);".to_owned(),
        }],
        ..PolicySources::default()
    };
    Firewall::builder(catalog, sources)
        .limits(limits())
        .build()
        .unwrap()
}

fn limits() -> Limits {
    Limits {
        max_rows: ROWS,
        max_result_bytes: usize::MAX / 2,
        statement_timeout_ms: 120_000,
        max_failures: u32::MAX,
        ..Limits::default()
    }
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Machine(Instant);

impl Host for Machine {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}
