//! A million rows of five columns through the backend: rows a second, and memory before and after.
//!
//! Run by hand: `cargo run --release -p palisade-postgres --example stream`. It starts a server of its own.

use std::{
    error::Error,
    fs,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use palisade::{
    firewall::{Decision, Firewall},
    guard::{Backend as _, RowSink},
    limits::Limits,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    value::{Params, Value},
};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::PostgresServer;

const ROWS: u64 = 1_000_000;

struct Count {
    rows: u64,
    bytes: usize,
}

impl RowSink for Count {
    fn columns(&mut self, _: &[&str]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        self.rows += 1;
        for cell in cells {
            self.bytes += match cell {
                Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
                Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) => 8,
            };
        }
        ControlFlow::Continue(())
    }
}

/// The most memory that this process has had, in kilobytes (Linux only).
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.unwrap_or("VmHWM: unknown").to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = PostgresServer::start()?;
    server.query(
        "postgres",
        &format!(
            "CREATE TABLE t AS SELECT i AS id, i::int8 * 1000 AS big, md5(i::text) AS name, now() AS at, i / 7.0 AS ratio
             FROM generate_series(1, {ROWS}) AS i; ANALYZE t"
        ),
    )?;
    let config = PostgresConfig::from_url(&server.url("postgres"))?.accept_superuser();
    let backend = PostgresBackend::connect(config).await?;
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: "permit(principal, action, resource);".to_owned(),
        }],
        ..PolicySources::default()
    };
    let limits = Limits {
        max_rows: ROWS,
        statement_timeout_ms: 60_000,
        ..Limits::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(limits)
        .build()?;
    let session = Session::new(Principal::new("Agent", "a"));
    println!("before: {}", peak());
    for sql in ["SELECT id, big, name, at, ratio FROM t", "SELECT 1"] {
        let Decision::Allow(statement) = firewall.check(sql, &Params::None, &session)? else {
            return Err("refused".into());
        };
        for _ in 0..3 {
            let mut count = Count { rows: 0, bytes: 0 };
            let start = Instant::now();
            backend.execute(&statement, &mut count).await?;
            let time = start.elapsed();
            println!(
                "{sql}: {} rows, {} bytes, {}, after: {}",
                count.rows,
                count.bytes,
                rate(count.rows, time),
                peak()
            );
        }
    }
    Ok(())
}

fn rate(rows: u64, time: Duration) -> String {
    let micros = time.as_micros().max(1);
    format!("{time:?}, {} rows/s", u128::from(rows) * 1_000_000 / micros)
}
