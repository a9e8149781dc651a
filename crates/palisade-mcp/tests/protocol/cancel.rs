//! Calls that are given up, and calls that take long.

use std::time::{Duration, Instant};

use palisade::code::Code;
use palisade_sqlite::SqliteBackend;
use serde_json::{Value, json};

use crate::{Client, Records, changes, server_over, sqlite};

/// Takes minutes.
const SLOW: &str = "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, numbers d, numbers e WHERE a.n + b.n = c.n + d.n + e.n - 900";

/// The records of statements that were cancelled, once there are so many.
async fn cancelled(records: &Records, count: usize) {
    let began = Instant::now();
    loop {
        let codes: Vec<_> = records
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|record| record.code)
            .collect();
        if codes
            .iter()
            .filter(|code| **code == Some(Code::LimitCancelled))
            .count()
            >= count
        {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{codes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A cancelled statement ends in the engine, and gives its place to others long before its time is up.
#[tokio::test]
async fn a_cancelled_statement_ends() {
    let records = Records::default();
    let mut client = Client::with(sqlite(), std::sync::Arc::new(records.clone()));
    client.initialize().await;
    let id = client
        .send_request(
            "tools/call",
            json!({"name": "query", "arguments": {"sql": SLOW}}),
        )
        .await;
    // It is past its trial, and so runs with all of its time.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancel.to_string()).await;
    cancelled(&records, 1).await;
    let answer = client.call("query", json!({"sql": "SELECT 1 AS n"})).await;
    assert_eq!(answer["structuredContent"]["rows"], json!([{"n": 1}]));
    assert!(!client.seen.contains(&id));
    // So does that of a client that goes away.
    client
        .send_request(
            "tools/call",
            json!({"name": "query", "arguments": {"sql": SLOW}}),
        )
        .await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.stop().await;
    cancelled(&records, 2).await;
}

/// A change that waits for another's lock ends when it is cancelled, and gives its place to others, while the lock is held.
#[tokio::test]
async fn a_change_that_waits_for_a_lock_ends() {
    const POLICY: &str = "permit (principal, action, resource);";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("desk.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    let made =
        "CREATE TABLE tickets (id INTEGER PRIMARY KEY); INSERT INTO tickets VALUES (1), (2);";
    other.execute_batch(made).unwrap();
    let backend = SqliteBackend::open_file(&path, "desk").unwrap().writable();
    let records = Records::default();
    let mut client = Client::connect(changes::serving(backend, POLICY, &records));
    client.initialize().await;
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut begun = Vec::new();
    for id in 0..6 {
        let sql = format!("DELETE FROM tickets WHERE id = {id}");
        let call = json!({"name": "execute", "arguments": {"sql": sql}});
        begun.push(client.send_request("tools/call", call).await);
    }
    // All places of a session are taken by changes that wait.
    tokio::time::sleep(Duration::from_millis(600)).await;
    for id in &begun {
        let params = json!({"requestId": id});
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        client.send(&cancel.to_string()).await;
    }
    let began = Instant::now();
    let sql = json!({"sql": "SELECT count(*) AS n FROM tickets"});
    let answer = client.call("query", sql).await;
    assert_eq!(answer["structuredContent"]["rows"], json!([{"n": 2}]));
    // Those that had no place are recorded too.
    cancelled(&records, 6).await;
    // A wait would have gone on for 30 seconds.
    assert!(began.elapsed() < Duration::from_secs(10));
    other.execute_batch("ROLLBACK").unwrap();
    let sql = json!({"sql": "DELETE FROM tickets WHERE id = 2"});
    let answer = client.call("execute", sql).await;
    assert_eq!(answer["structuredContent"]["affected_rows"], 1, "{answer}");
    client.stop().await;
}

/// A client that asks for it is told that its statement still runs, one line at a time, and no longer than that.
#[tokio::test]
async fn a_long_statement_tells_its_progress() {
    let server = server_over(sqlite(), std::sync::Arc::new(Records::default()));
    let interval = Duration::from_millis(600);
    let mut client = Client::connect(server.with_progress_interval(interval));
    client.initialize().await;
    let call = json!({
        "name": "query",
        "arguments": {"sql": SLOW, "timeout_ms": 2000},
        "_meta": {"progressToken": "t-1"},
    });
    let id = client.send_request("tools/call", call).await;
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..3 {
        told.push(client.notified("notifications/progress").await["params"].clone());
    }
    for (step, params) in (1..).zip(&told) {
        assert_eq!(params["progressToken"], "t-1", "{params}");
        assert_eq!(params["progress"], f64::from(step), "{params}");
        let message = params["message"].as_str().unwrap();
        let seconds = (interval * step).as_secs();
        let expected = format!("The statement runs or waits, for {seconds} s by now.");
        assert_eq!(message, expected);
    }
    let answer = client.receive(id).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // Whoever does not ask is not told: of the lines until the next answer none is of progress.
    let call = json!({"name": "query", "arguments": {"sql": SLOW, "timeout_ms": 1000}});
    let id = client.send_request("tools/call", call).await;
    loop {
        let line = client.read.next_line().await.unwrap().unwrap();
        assert!(!line.contains("notifications/progress"), "{line}");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == id {
            break;
        }
    }
    client.stop().await;
}
