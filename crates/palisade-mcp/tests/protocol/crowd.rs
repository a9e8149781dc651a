//! Many at once: no caller takes every place, and quick calls do not wait behind slow ones.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use palisade::{
    firewall::Firewall,
    guard::{Backend, Guard},
    limits::Limits,
    policy::PolicySources,
    session::Principal,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::servers::PostgresServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Client, Records, TestHost};

/// Runs to its time-out, five seconds.
const SLOW: &str = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000000000) SELECT count(*) FROM s";

/// What a quick statement may take beside a crowd, with slack for builds without optimisation on a machine that is shared.
const QUICK: Duration = Duration::from_secs(2);

/// A crowd in one test is none of another's.
static ALONE: Mutex<()> = Mutex::new(());

fn server<B: Backend + 'static>(backend: B, statement_timeout_ms: u64) -> PalisadeServer {
    let sources = PolicySources::from_cedar("p.cedar", "permit (principal, action, resource);");
    let limits = Limits {
        statement_timeout_ms,
        ..Limits::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(limits)
        .build()
        .unwrap();
    let records = Arc::new(Records::default());
    let host = Arc::new(TestHost::default());
    let options = ServeOptions::new(Principal::new("Agent", "default"), "test");
    let guard = Guard::new(Arc::new(firewall), backend, host, records);
    PalisadeServer::new(Arc::new(guard), options)
}

/// A file, so that statements run side by side.
fn file(statement_timeout_ms: u64) -> (TempDir, PalisadeServer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.db");
    create_database(
        &path,
        "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1);",
    )
    .unwrap();
    let server = server(
        SqliteBackend::open_file(&path, "crowd").unwrap(),
        statement_timeout_ms,
    );
    (folder, server)
}

async fn ready(server: &PalisadeServer) -> Client {
    let mut client = Client::connect(server.clone());
    client.initialize().await;
    client
}

/// Sends `sql` without waiting for the answer; its id.
async fn send(client: &mut Client, sql: &str) -> u64 {
    let call = json!({"name": "query", "arguments": {"sql": sql}});
    client.send_request("tools/call", call).await
}

/// How long `SELECT 1` takes.
async fn quick(client: &mut Client) -> Duration {
    let start = Instant::now();
    let result = client
        .call("query", json!({"sql": "SELECT 1 AS one"}))
        .await;
    assert_eq!(
        result["structuredContent"]["rows"],
        json!([{"one": 1}]),
        "{result}"
    );
    start.elapsed()
}

/// Runs a test on a runtime that ends without waiting for what is still at work in it.
fn within_a_runtime(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(16 << 20)
        .build()
        .unwrap();
    runtime.block_on(test);
    runtime.shutdown_background();
}

#[test]
fn slow_statements_of_one_client_delay_no_other_and_not_even_its_own() {
    within_a_runtime(async {
        let (_folder, server) = file(5000);
        let (mut busy, mut other) = (ready(&server).await, ready(&server).await);
        let mut ids = Vec::new();
        for _ in 0..40 {
            ids.push(send(&mut busy, SLOW).await);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (others, own) = (quick(&mut other).await, quick(&mut busy).await);
        println!("behind 40 slow statements: another client {others:?}, the same {own:?}");
        assert!(others < QUICK, "another client waited {others:?}");
        assert!(own < QUICK, "the same client waited {own:?}");
    });
}

#[test]
fn many_quick_statements_at_once_are_all_answered() {
    within_a_runtime(async {
        let (_folder, server) = file(20_000);
        let mut client = ready(&server).await;
        let start = Instant::now();
        let mut ids = Vec::new();
        for number in 0..200 {
            ids.push(send(&mut client, &format!("SELECT {number} AS n FROM t")).await);
        }
        let mut left: std::collections::BTreeSet<_> = ids.iter().copied().collect();
        while !left.is_empty() {
            let line = client.read.next_line().await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["result"]["isError"], false, "{line}");
            left.remove(&message["id"].as_u64().unwrap());
        }
        println!("200 quick statements: {:?}", start.elapsed());
        client.stop().await;
    });
}

#[test]
fn whoever_finds_no_room_is_told_when_to_come_again() {
    within_a_runtime(async {
        let (_folder, server) = file(5000);
        let mut client = ready(&server).await;
        let mut last = 0;
        for _ in 0..300 {
            last = send(&mut client, SLOW).await;
        }
        let result = client.receive(last).await;
        let refusal = &result["result"]["structuredContent"];
        assert_eq!(refusal["code"], "limit.busy", "{refusal}");
        assert_eq!(refusal["retryable"], true);
        let after = refusal["retry_after_ms"].as_u64().unwrap();
        assert!((250..=30_000).contains(&after), "{refusal}");
        assert!(
            refusal["message"]
                .as_str()
                .unwrap()
                .contains(&format!("{after} ms"))
        );
        assert!(refusal.get("incident").is_none(), "{refusal}");
        // No other caller is refused for that.
        let mut other = ready(&server).await;
        assert!(quick(&mut other).await < QUICK);
    });
}

/// The statements that took longest to decide by their length.
#[test]
fn deciding_delays_nobody_else() {
    within_a_runtime(async {
        let cluster = PostgresServer::start_shared().unwrap();
        let database = cluster.fresh_database("crowd").unwrap();
        cluster.query(&database, "CREATE TABLE t (k int)").unwrap();
        let config = PostgresConfig::from_url(&cluster.url(&database)).unwrap();
        let backend = PostgresBackend::connect(config.accept_superuser())
            .await
            .unwrap();
        let server = server(backend, 5000);
        let mut fifth = ready(&server).await;
        // A connection to the database takes time that is none of ours.
        quick(&mut fifth).await;
        let worst = format!(
            "SELECT 1 AS one FROM t WHERE k IN ({}k)",
            "k, ".repeat(10_000)
        );
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut client = ready(&server).await;
            send(&mut client, &worst).await;
            clients.push(client);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut took = Vec::new();
        for _ in 0..5 {
            took.push(quick(&mut fifth).await);
        }
        println!("beside four of the worst statements: {took:?}");
        assert!(took.iter().all(|took| *took < QUICK), "{took:?}");
        // All four of one client are no more.
        let mut client = ready(&server).await;
        for _ in 0..4 {
            send(&mut client, &worst).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let took = quick(&mut fifth).await;
        println!("beside eight: {took:?}");
        assert!(took < QUICK, "{took:?}");
    });
}
