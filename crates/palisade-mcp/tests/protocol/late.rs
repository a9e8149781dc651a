//! A server answers before its database is open, and what needs the database waits for it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    time::Duration,
};

use palisade::{dialect::Dialect, guard::Guard, limits::Limits, session::Principal};
use palisade_mcp::{LateConnection, PalisadeServer, ServeOptions};
use serde_json::{Value, json};

use crate::{Client, HasFirewall as _, Records, TestHost, sqlite};

/// Whether the database opens.
#[derive(Clone, Copy)]
enum Opens {
    Well,
    Not,
}

/// A database that takes until it is told how it opens, and how often that was tried.
fn late(records: &Records) -> (LateConnection, Sender<Opens>, Arc<AtomicUsize>) {
    let (opens, told) = channel();
    let (told, records) = (Mutex::new(told), records.clone());
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    let audit = Arc::new(records.clone());
    let late = LateConnection::new("test", Dialect::Sqlite, &Limits::default(), move || {
        count.fetch_add(1, Ordering::Relaxed);
        match told.lock().unwrap().recv().ok()? {
            Opens::Not => None,
            Opens::Well => {
                let backend = sqlite();
                let guard = Guard::new(
                    backend.firewall(),
                    backend,
                    Arc::new(TestHost::default()),
                    Arc::new(records.clone()),
                );
                let options = ServeOptions::new(Principal::new("Agent", "default"), "test");
                Some((Arc::new(guard), options))
            }
        }
    });
    let who = Principal::new("Agent", "default").into();
    let late = late.recording(audit, who, palisade::session::Transport::Stdio);
    (late, opens, tried)
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

const QUERY: &str = r#"{"name": "query", "arguments": {"sql": "SELECT 1 AS n", "format": "json"}}"#;

#[tokio::test]
async fn what_needs_no_database_is_answered_before_one_is_open() {
    let (late, opens, tried) = late(&Records::default());
    let late = late.with_engine("SQLite 3").with_fixed_tools();
    let server = PalisadeServer::over_late(late);
    tokio::spawn({
        let server = server.clone();
        async move { server.warm().await }
    });
    let mut client = Client::connect(server);
    let told = client.initialize().await["instructions"].to_string();
    assert!(
        told.starts_with("\"Read-only") && told.contains("SQLite 3"),
        "{told}"
    );
    let before = client.request("tools/list", json!({})).await;
    assert!(names(&before).contains(&"query"), "{before}");
    client.request("prompts/list", json!({})).await;
    client.request("resources/templates/list", json!({})).await;
    let query: Value = serde_json::from_str(QUERY).unwrap();
    let asked = client.send_request("tools/call", query).await;
    client.request("ping", json!({})).await;
    assert!(!client.seen.contains(&asked), "the call did not wait");
    opens.send(Opens::Well).unwrap();
    let answer = client.receive(asked).await;
    assert_eq!(
        answer["result"]["structuredContent"]["rows"],
        json!([{"n": 1}])
    );
    let after = client.request("tools/list", json!({})).await;
    assert_eq!(before.to_string(), after.to_string());
    // The start and the call share an attempt.
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    client.stop().await;
}

/// Where the database decides which tools there are, their list waits for it, and the wait has an end.
#[tokio::test]
async fn a_list_that_the_database_decides_waits_for_it() {
    let (late, opens, _) = late(&Records::default());
    let mut client = Client::connect(PalisadeServer::over_late(late.writable()));
    let told = client.initialize().await["instructions"].to_string();
    assert!(told.starts_with("\"SQL access"), "{told}");
    let list = client.send_request("tools/list", json!({})).await;
    client.request("ping", json!({})).await;
    assert!(!client.seen.contains(&list), "the list did not wait");
    let listed = client.receive(list).await["result"].clone();
    assert!(!names(&listed).contains(&"execute"), "{listed}");
    opens.send(Opens::Well).unwrap();
    client.call("query", json!({"sql": "SELECT 1"})).await;
    client.stop().await;
}

/// A database that does not open is refused, recorded, and tried again; readiness is told at once.
#[tokio::test]
async fn a_database_that_does_not_open_is_refused_and_tried_again() {
    let records = Records::default();
    let (late, opens, tried) = late(&records);
    let server = PalisadeServer::over_late(late);
    assert!(!server.is_ready().await, "it is not open yet");
    let mut client = Client::connect(server.clone());
    client.initialize().await;
    opens.send(Opens::Not).unwrap();
    for _ in 0..2 {
        let refusal = client.refused("query", json!({"sql": "SELECT 1"})).await;
        assert_eq!(refusal["code"], "database.unavailable");
        assert_eq!(refusal["retryable"], true);
    }
    let refusal = client
        .refused("execute", json!({"sql": "DELETE FROM t"}))
        .await;
    assert_eq!(refusal["code"], "statement.not-allowed");
    client.call("list_databases", json!({})).await;
    let codes: Vec<_> = (records.0.lock().unwrap().iter())
        .map(|record| (record.tool, record.code.map(palisade::code::Code::slug)))
        .collect();
    let unavailable = Some("database.unavailable");
    let told = [
        (Some("query"), unavailable),
        (Some("query"), unavailable),
        (Some("execute"), Some("statement.not-allowed")),
        (Some("list_databases"), None),
    ];
    assert_eq!(codes, told);
    // Not again at once.
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    opens.send(Opens::Well).unwrap();
    let answer = client.call("query", json!({"sql": "SELECT 1 AS n"})).await;
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"n": 1}]),
        "{answer}"
    );
    assert!(server.has_open_database());
    client.stop().await;
}

/// What is not recorded is not told, before a database is open as after.
#[tokio::test]
async fn what_cannot_be_recorded_before_a_database_is_open_is_not_told() {
    struct Full;
    impl palisade::audit::AuditSink for Full {
        fn record(&self, _: &palisade::audit::AuditRecord) -> Result<(), String> {
            Err("no space".to_owned())
        }
    }
    let (late, opens, _) = late(&Records::default());
    let who = Principal::new("Agent", "default").into();
    let late = late.recording(Arc::new(Full), who, palisade::session::Transport::Stdio);
    let mut client = Client::connect(PalisadeServer::over_late(late));
    client.initialize().await;
    opens.send(Opens::Not).unwrap();
    let refusal = client.refused("query", json!({"sql": "SELECT 1"})).await;
    assert_eq!(refusal["code"], "internal");
    client.stop().await;
}
