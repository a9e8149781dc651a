//! A database that changes while it is served: what must hold on every engine.

#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a check that does not hold stops the test"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::fixture::policy_sources;
use crate::host::Still;
use palisade::{
    audit::{AuditSink, NoAudit},
    code::Code,
    firewall::{Firewall, FirewallBuilder},
    guard::{Backend, Guard, Outcome},
    host::Host,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use serde_json::{Value, json};

/// What the database holds at first, in the schema of unqualified names.
pub const SCRIPT: &str = "
CREATE TABLE people (id int PRIMARY KEY, name varchar(20), secret varchar(20));
INSERT INTO people VALUES (1, 'ann', 'canary-1'), (2, 'bob', 'canary-2');
CREATE VIEW shown AS SELECT id, name FROM people;
";

/// What must never be answered.
const CANARY: &str = "canary";

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action in Action::"read", resource == Column::"SCHEMA.people.secret");
"#;

/// Time for a statement or two.
const BETWEEN_CHANGES: Duration = Duration::from_millis(3);

/// Runs statements that change the schema, as whoever owns it.
pub type Ddl = Arc<dyn Fn(&str) + Send + Sync>;

/// A clock on which more than a second passes between two looks, so that a gate may always look at its database.
#[derive(Debug, Default)]
struct Passing(AtomicU64);

impl Host for Passing {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1100, Ordering::Relaxed))
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

/// A gate over `backend`, whose unqualified names are of `schema`.
pub fn gate<B: Backend>(backend: B, schema: &str) -> Guard {
    let firewall = Firewall::builder(backend.catalog().clone(), policies(schema, ""));
    guard(firewall, backend, Passing::default())
}

/// As [`gate`], with a clock that stands still, and through which policies may permit changes.
pub fn still_gate<B: Backend>(backend: B, schema: &str) -> Guard {
    changing_gate(backend, policies(schema, ""))
}

/// A gate through which `policies` may permit changes, with a clock that stands still.
pub fn changing_gate<B: Backend>(backend: B, policies: PolicySources) -> Guard {
    changing_gate_on(backend, policies, Still)
}

/// As [`changing_gate`], on a host of its own.
pub fn changing_gate_on<B: Backend>(
    backend: B,
    policies: PolicySources,
    host: impl Host + 'static,
) -> Guard {
    let firewall = Firewall::builder(backend.catalog().clone(), policies);
    guard(firewall.allow_changes(), backend, host)
}

/// As [`changing_gate_on`], which records to `audit`.
pub fn recording_gate_on<B: Backend>(
    backend: B,
    policies: PolicySources,
    host: impl Host + 'static,
    audit: Arc<dyn AuditSink>,
) -> Guard {
    let firewall = Firewall::builder(backend.catalog().clone(), policies);
    recording_guard(firewall.allow_changes(), backend, host, audit)
}

fn guard<B: Backend>(firewall: FirewallBuilder, backend: B, host: impl Host + 'static) -> Guard {
    recording_guard(firewall, backend, host, Arc::new(NoAudit))
}

fn recording_guard<B: Backend>(
    firewall: FirewallBuilder,
    backend: B,
    host: impl Host + 'static,
    audit: Arc<dyn AuditSink>,
) -> Guard {
    let firewall = firewall.build().unwrap_or_else(|error| panic!("{error}"));
    Guard::new(Arc::new(firewall), backend, Arc::new(host), audit)
}

fn policies(schema: &str, more: &str) -> PolicySources {
    let text = format!("{POLICIES}{more}").replace("SCHEMA", schema);
    policy_sources(text)
}

/// The rows, or the code of the refusal.
async fn ask(guard: &Guard, sql: &str) -> Value {
    describe_outcome(guard.query(sql, &Params::None, &session()).await)
}

/// As [`ask`], of a statement that may change something.
async fn change(guard: &Guard, sql: &str) -> Value {
    describe_outcome(guard.execute(sql, &Params::None, &session()).await)
}

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

fn describe_outcome(outcome: Outcome) -> Value {
    match outcome.into_result() {
        Ok(envelope) => serde_json::to_value(&envelope)
            .map(|answer| answer.get("rows").cloned().unwrap_or_default())
            .unwrap_or_default(),
        Err(refusal) => match (
            refusal.rejection.code(),
            refusal.rejection.operator_detail(),
        ) {
            // Never expected; the test's output should say why.
            (Code::Internal, Some(detail)) => json!(format!("internal: {detail}")),
            (code, _) => json!(code.slug()),
        },
    }
}

/// Tables, columns and views that come and go are there and gone without a restart, and what was decided
/// over a schema that is no more is refused as something to be tried again.
pub async fn follows_the_schema(guard: &Guard, ddl: &Ddl) {
    let check = async |sql: &str, expected: Value| {
        let answer = ask(guard, sql).await;
        assert_eq!(answer, expected, "{sql}");
    };
    check("SELECT a FROM later", json!("name.unknown-relation")).await;
    ddl("CREATE TABLE later (a int PRIMARY KEY); INSERT INTO later VALUES (1)");
    check("SELECT a FROM later", json!([{"a": 1}])).await;
    ddl("ALTER TABLE later ADD COLUMN b int");
    check("SELECT b FROM later", json!([{"b": null}])).await;
    check("SELECT c FROM later", json!("name.unknown-column")).await;
    // A name that is there gives no reason to look; the database itself says that it has changed.
    ddl("ALTER TABLE later ADD COLUMN c int");
    check("SELECT * FROM later", json!("database.schema-changed")).await;
    let whole = json!([{"a": 1, "b": null, "c": null}]);
    check("SELECT * FROM later", whole).await;
    ddl("DROP TABLE later");
    check("SELECT a FROM later", json!("database.schema-changed")).await;
    check("SELECT a FROM later", json!("name.unknown-relation")).await;
    check("SELECT secret FROM people", json!("name.unknown-column")).await;
}

/// What a statement of the gate's own defines, the next one finds so, however short a time ago the gate looked
/// at its database. `guard` is a [`still_gate`] over a backend that may write.
pub async fn follows_its_own_definitions(guard: &Guard) {
    // The one look that the clock grants.
    let unknown = json!("name.unknown-relation");
    assert_eq!(ask(guard, "SELECT a FROM own").await, unknown);
    for (sql, then, expected) in [
        (
            "CREATE TABLE own (a int PRIMARY KEY)",
            "SELECT a FROM own",
            json!([]),
        ),
        (
            "INSERT INTO own (a) VALUES (1)",
            "SELECT a FROM own",
            json!([{"a": 1}]),
        ),
        (
            "ALTER TABLE own ADD COLUMN b int",
            "SELECT * FROM own",
            json!([{"a": 1, "b": null}]),
        ),
        ("DROP TABLE own", "SELECT a FROM own", unknown),
    ] {
        assert_eq!(change(guard, sql).await, json!([]), "{sql}");
        assert_eq!(ask(guard, then).await, expected, "{then} after {sql}");
    }
}

/// A reload replaces the policies as a whole. A wrong set changes nothing. A set that names a table which came meanwhile is
/// read over the current schema.
pub async fn follows_the_policies(guard: &Guard, schema: &str, ddl: &Ddl) {
    let sql = "SELECT count(*) AS n FROM people";
    assert_eq!(ask(guard, sql).await, json!([{"n": 2}]));
    let before = guard.firewall().policies().version().to_owned();
    let none =
        "forbid(principal, action == Action::\"select\", resource == Table::\"SCHEMA.people\");";
    let loaded = guard.reload(&policies(schema, none)).await;
    assert!(loaded.is_ok(), "{loaded:?}");
    assert_ne!(guard.firewall().policies().version(), before);
    assert_eq!(ask(guard, sql).await, json!("policy.forbidden"));
    let wrong = guard
        .reload(&policies(schema, "forbid(principal, action, resorce);"))
        .await;
    assert!(wrong.is_err());
    assert_eq!(ask(guard, sql).await, json!("policy.forbidden"));
    ddl("CREATE TABLE fresh (a int PRIMARY KEY)");
    let named =
        "forbid(principal, action == Action::\"select\", resource == Table::\"SCHEMA.fresh\");";
    let loaded = guard.reload(&policies(schema, named)).await;
    assert!(loaded.is_ok(), "{loaded:?}");
    assert_eq!(
        ask(guard, "SELECT a FROM fresh").await,
        json!("policy.forbidden")
    );
    assert_eq!(ask(guard, sql).await, json!([{"n": 2}]));
    ddl("DROP TABLE fresh");
    // The policies do not fit any more: nothing is decided over the new schema, and nothing runs on it.
    assert!(guard.refresh().await.is_err());
    let answer = ask(guard, "SELECT a FROM fresh").await;
    assert_eq!(answer, json!("policy.forbidden"));
    // An engine that knows only that its schema is another runs nothing, and to ask again would not help.
    let answer = ask(guard, sql).await;
    let runs = answer == json!([{"n": 2}]);
    assert!(
        runs || answer == json!("policy.evaluation-failed"),
        "{answer}"
    );
    let loaded = guard.reload(&policies(schema, "")).await;
    assert!(loaded.is_ok(), "{loaded:?}");
    // They fit the schema that was known. The first statement that notices another one has it read.
    let first = ask(guard, sql).await;
    if first == json!("database.schema-changed") {
        assert_eq!(ask(guard, sql).await, json!([{"n": 2}]));
    } else {
        assert_eq!(first, json!([{"n": 2}]));
    }
}

/// While a view is replaced again and again, now over what may be seen, now over what may not, no answer
/// holds what may not; and there are answers.
pub async fn ddl_widens_nothing(guard: &Guard, ddl: &Ddl, replace_view: fn(&str) -> String) {
    let (enough, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let changing = {
        let (enough, rounds, ddl) = (Arc::clone(&enough), Arc::clone(&rounds), Arc::clone(ddl));
        thread::spawn(move || {
            // Of all lengths: a slow server is changed again before what was read of it could be used, and yet answers.
            let pause = || BETWEEN_CHANGES * (1 << (rounds.load(Ordering::Acquire) % 6));
            while !enough.load(Ordering::Acquire) {
                ddl(&replace_view("SELECT id, secret AS name FROM people"));
                thread::sleep(pause());
                ddl(&replace_view("SELECT id, name FROM people"));
                thread::sleep(pause());
                rounds.fetch_add(1, Ordering::AcqRel);
            }
        })
    };
    let mut answered = 0_u32;
    while !changing.is_finished() && (answered < 20 || rounds.load(Ordering::Acquire) < 20) {
        for sql in [
            "SELECT name FROM shown",
            "SELECT * FROM shown WHERE name LIKE '%a%'",
        ] {
            let answer = ask(guard, sql).await;
            assert!(!answer.to_string().contains(CANARY), "{sql}: {answer}");
            answered += u32::from(answer.is_array());
        }
    }
    enough.store(true, Ordering::Release);
    assert!(changing.join().is_ok(), "the schema could not be changed");
    // The last decision may be one over the view as it was.
    let _ = ask(guard, "SELECT name FROM shown").await;
    let mut last = ask(guard, "SELECT name FROM shown").await;
    if let Some(rows) = last.as_array_mut() {
        rows.sort_by_key(ToString::to_string);
    }
    assert_eq!(last, json!([{"name": "ann"}, {"name": "bob"}]));
}
