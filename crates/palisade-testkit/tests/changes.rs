//! Statements of the corpus that change data, run through the gate on real databases: what is permitted happens,
//! as many rows as the case says, and what policy keeps apart stays as it was.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::Firewall,
    guard::{Backend, Guard, Outcome},
    host::Host,
    session::Session,
};
use palisade_corpus::{Case, Corpus, Verdict};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::servers::{MariaDbServer, PostgresServer, Server};

/// What no statement of the clerk's or the officer's may change.
const KEPT: &[&str] = &[
    "SELECT id, tenant_id, name, iban, balance, note, state FROM accounts WHERE tenant_id <> 1 ORDER BY id",
    "SELECT id, account_id, tenant_id, amount, memo FROM entries WHERE tenant_id <> 1 ORDER BY id",
    "SELECT id, iban, note FROM accounts WHERE id < 5 ORDER BY id",
    "SELECT id, name, balance FROM accounts WHERE state = 'closed' ORDER BY id",
    "SELECT id, salary FROM payroll ORDER BY id",
    "SELECT code, rate FROM rates ORDER BY code",
];

struct StillHost;

impl Host for StillHost {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([3; 16])
    }
}

fn corpus() -> Corpus {
    Corpus::load(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")).unwrap()
}

fn guard<B: Backend>(corpus: &Corpus, case: &Case, catalog: &Catalog, backend: B) -> Guard<B> {
    let sources = corpus.policies[&case.policies].clone();
    let firewall = Firewall::builder(catalog.clone(), sources)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(StillHost),
        Arc::new(NoAudit),
    )
}

/// What is wrong with the outcome of `case`.
async fn run<B: Backend>(
    guard: &Guard<B>,
    case: &Case,
    kept: &dyn Fn() -> Vec<String>,
) -> Option<String> {
    let before = kept();
    let session = Session::new(case.principal.clone());
    let (outcome, report) = guard
        .execute_within(&case.sql, &case.params, &session, &case.limits)
        .await;
    let after = kept();
    let ran = report.rewritten.unwrap_or_default();
    if before != after {
        return Some(format!("{ran}\n  changed {before:?}\n  to {after:?}"));
    }
    match (&outcome, case.expect.verdict) {
        (Outcome::Rows(envelope), Verdict::Allow) => {
            let answer = serde_json::to_string(envelope).unwrap();
            if let Some(word) = case.expect.never.iter().find(|word| answer.contains(*word)) {
                return Some(format!("{ran}\n  gave {word}: {answer}"));
            }
            let expected = case.expect.affected?;
            (envelope.affected_rows() != Some(expected)).then(|| {
                format!(
                    "{ran}\n  {expected} rows, got {:?}",
                    envelope.affected_rows()
                )
            })
        }
        (Outcome::Rejected(refusal), Verdict::Reject(code)) => (refusal.rejection.code() != code)
            .then(|| format!("{ran}\n  {code}, got {}", refusal.rejection)),
        (Outcome::Rows(_), Verdict::Reject(code)) => Some(format!("{ran}\n  {code}, and it ran")),
        (Outcome::Rejected(refusal), Verdict::Allow) => Some(format!(
            "{ran}\n  {} {:?}",
            refusal.rejection,
            refusal.rejection.operator_detail()
        )),
    }
}

/// The cases that are run. What is refused before anything runs is refused in the corpus's own tests.
fn cases<'c>(corpus: &'c Corpus, catalog: &'c str) -> impl Iterator<Item = &'c Case> {
    corpus
        .cases
        .iter()
        .filter(move |case| case.catalog == catalog && case.expect.verdict == Verdict::Allow)
}

fn report(failures: &[String], count: usize) {
    assert!(count > 40, "{count}");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[tokio::test]
async fn sqlite_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let temp = tempfile::tempdir().unwrap();
    let (mut failures, mut count) = (Vec::new(), 0);
    for (number, case) in cases(&corpus, "ledger").enumerate() {
        let path = temp.path().join(format!("{number}.db"));
        create_database(&path, &corpus.catalogs["ledger"]).unwrap();
        let backend = SqliteBackend::open_file(&path, "main").unwrap().writable();
        let catalog = backend.catalog().clone();
        let kept = || {
            let conn = rusqlite::Connection::open(&path).unwrap();
            KEPT.iter()
                .map(|sql| {
                    let mut statement = conn.prepare(sql).unwrap();
                    let width = statement.column_count();
                    let rows = statement
                        .query_map([], |row| {
                            (0..width)
                                .map(|i| row.get::<_, rusqlite::types::Value>(i))
                                .collect::<Result<Vec<_>, _>>()
                        })
                        .unwrap();
                    format!("{:?}", rows.map(Result::unwrap).collect::<Vec<_>>())
                })
                .collect()
        };
        let guard = guard(&corpus, case, &catalog, backend);
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
    }
    report(&failures, count);
}

fn kept_on(server: &Server, database: &str, schema: &str) -> Vec<String> {
    KEPT.iter()
        .map(|sql| {
            server
                .query(database, &format!("{schema}{sql}"))
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
        })
        .collect()
}

#[tokio::test]
async fn postgres_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let server: &Server = PostgresServer::shared().unwrap();
    let (mut failures, mut count) = (Vec::new(), 0);
    for case in cases(&corpus, "ledger.postgres") {
        let database = server.fresh_database("changes").unwrap();
        let script = corpus.catalogs["ledger.postgres"].replace(
            "ALTER DATABASE ledger",
            &format!("ALTER DATABASE {database}"),
        );
        server.load(&database, &script).unwrap().clean().unwrap();
        let config = PostgresConfig::from_url(&server.url(&database))
            .unwrap()
            .accept_superuser()
            .writable();
        let backend = PostgresBackend::connect(config).await.unwrap();
        let catalog = backend.catalog().clone();
        let kept = || kept_on(server, &database, "");
        let guard = guard(&corpus, case, &catalog, backend);
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
    }
    report(&failures, count);
}

#[tokio::test]
async fn mariadb_changes_what_is_permitted_and_nothing_else() {
    let corpus = corpus();
    let server: &Server = MariaDbServer::shared().unwrap();
    let (mut failures, mut count) = (Vec::new(), 0);
    for case in cases(&corpus, "ledger.mysql") {
        // The database that policies name.
        server.create_database("main").unwrap();
        server
            .load("main", &corpus.catalogs["ledger.mysql"])
            .unwrap()
            .clean()
            .unwrap();
        let config = MysqlConfig::from_url(&server.url("main"))
            .unwrap()
            .accept_powerful()
            .writable();
        let backend = MysqlBackend::connect(config).await.unwrap();
        let catalog = backend.catalog().clone();
        let kept = || kept_on(server, "main", "");
        let guard = guard(&corpus, case, &catalog, backend);
        if let Some(why) = run(&guard, case, &kept).await {
            failures.push(format!("{}\n  {why}", case.id()));
        }
        count += 1;
        server.query("main", "DROP DATABASE main").unwrap();
    }
    report(&failures, count);
}
