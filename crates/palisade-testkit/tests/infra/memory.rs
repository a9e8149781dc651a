//! A million rows pass through each backend, and hardly any memory is held for them.

use std::{env, fs, ops::ControlFlow, process::Command};

use palisade::{
    firewall::{Decision, Firewall},
    guard::Backend,
    limits::Limits,
    session::{Principal, Session},
    value::{Params, RowSink, Value},
};
use palisade_testkit::fixture::policy_sources;

use crate::database::{TestDatabase, TestFile};

const ROWS: u64 = 1_000_000;

/// How much more the process may hold while the rows come, in kilobytes: far less than they have, some hundred
/// bytes each.
const MOST: u64 = 32 * 1024;

/// Rows between two looks at the memory.
const STRIDE: u64 = 10_000;

/// Counts rows, and notes the most memory that the process had.
#[derive(Default)]
struct Passing {
    rows: u64,
    bytes: usize,
    most: u64,
}

impl RowSink for Passing {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        assert_eq!(names, ["id", "big", "name", "at", "ratio"]);
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
        if self.rows.is_multiple_of(STRIDE) {
            self.most = self.most.max(resident());
        }
        ControlFlow::Continue(())
    }
}

/// Memory of this process, in kilobytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// What `backend` answers when everything of its table `t` is asked for.
async fn passes(engine: &str, backend: impl Backend) {
    let sources = policy_sources("permit(principal, action, resource);");
    let limits = Limits {
        max_rows: ROWS,
        statement_timeout_ms: 600_000,
        ..Limits::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(limits)
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "SELECT id, big, name, at, ratio FROM t";
    let Decision::Allow(statement) = firewall.check(sql, &Params::None, &session).unwrap() else {
        panic!("{engine}: refused");
    };
    let before = resident();
    let mut passing = Passing::default();
    backend
        .execute(
            palisade::danger::ticket(&std::sync::Arc::from(statement)),
            &mut passing,
        )
        .await
        .unwrap();
    assert_eq!(passing.rows, ROWS, "{engine}");
    assert!(passing.bytes > 50_000_000, "{engine}: {}", passing.bytes);
    let grown = passing.most.saturating_sub(before);
    println!("{engine}: {grown} kB more");
    assert!(grown < MOST, "{engine}: {grown} kB more");
}

/// The memory is that of the whole process, so the measurement has a process of its own.
#[test]
fn a_million_rows_take_little_memory() {
    let child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "memory::million_rows",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let [said, why] = [&child.stdout, &child.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let has_passed = child.status.success() && said.contains("1 passed");
    assert!(has_passed, "{said}{why}");
}

/// One engine after the other, in one process.
#[tokio::test]
#[ignore = "run by a_million_rows_take_little_memory, in a process of its own"]
async fn million_rows() {
    let script = format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, big INTEGER, name TEXT, at TEXT, ratio REAL);
         INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {ROWS})
         SELECT i, i * 1000, 'customer ' || i || ' of the north', datetime(i, 'unixepoch'), i / 7.0 FROM s;"
    );
    let file = TestFile::new(&script);
    passes("SQLite", file.reader()).await;

    let script = format!(
        "CREATE TABLE t AS SELECT i AS id, i::int8 * 1000 AS big, 'customer ' || i || ' of the north' AS name,
            timestamp '2026-01-01' + i * interval '1 second' AS at, i / 7.0 AS ratio
         FROM generate_series(1, {ROWS}) AS i"
    );
    let database = TestDatabase::postgres("million", &script);
    passes("PostgreSQL", database.postgres_reader().await).await;

    let script = format!(
        "CREATE TABLE t (id int PRIMARY KEY, big bigint, name varchar(40), at datetime, ratio decimal(20, 6));
         INSERT INTO t SELECT seq, seq * 1000, CONCAT('customer ', seq, ' of the north'), '2026-01-01' + INTERVAL seq SECOND, seq / 7
         FROM seq_1_to_{ROWS}"
    );
    let database = TestDatabase::mariadb("million", &script);
    passes("MariaDB", database.mysql_reader().await).await;
}
