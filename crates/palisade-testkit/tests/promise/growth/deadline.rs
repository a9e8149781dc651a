//! Deciding, waiting and running have one time together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use palisade::{
    audit::NoAudit,
    code::Code,
    firewall::Firewall,
    guard::{Guard, Outcome},
    host::Host,
    limits::Limits,
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::SqliteBackend;
use palisade_testkit::fixture::policy_sources;

/// A clock on which so much time passes between two looks.
struct Passing {
    milliseconds: u64,
    now: AtomicU64,
}

impl Host for Passing {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now.fetch_add(self.milliseconds, Ordering::Relaxed))
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

/// What becomes of a statement that never ends, where deciding takes so long, and how long the engine had.
fn endless(deciding: u64) -> (Code, Duration) {
    let backend = SqliteBackend::in_memory("CREATE TABLE t (k integer)", "main").unwrap();
    let sources = policy_sources("permit(principal, action, resource);");
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(Limits {
            statement_timeout_ms: 3000,
            ..Limits::default()
        })
        .build()
        .unwrap();
    let host = Passing {
        milliseconds: deciding,
        now: AtomicU64::new(0),
    };
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(host),
        Arc::new(NoAudit),
    );
    let sql =
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) AS m FROM r";
    let session = Session::new(Principal::new("Agent", "a"));
    let start = Instant::now();
    match pollster::block_on(guard.query(sql, &Params::None, &session)) {
        Outcome::Rejected(refusal) => (refusal.rejection.code(), start.elapsed()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_deciding_took_is_not_the_engines_any_more() {
    let (code, whole) = endless(0);
    assert_eq!(code, Code::LimitTime);
    assert!(whole >= Duration::from_secs(3), "{whole:?}");
    let (code, rest) = endless(2900);
    assert_eq!(code, Code::LimitTime);
    assert!(rest < whole / 2, "{rest:?} of {whole:?}");
    let (code, none) = endless(3000);
    assert_eq!(code, Code::LimitTime);
    assert!(none < whole / 2, "{none:?} of {whole:?}");
}
