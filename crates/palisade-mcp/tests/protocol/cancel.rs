//! Calls that are given up, and calls that take long.

use std::time::{Duration, Instant};

use palisade::code::Code;
use serde_json::json;

use crate::{Client, Records, sqlite};

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
