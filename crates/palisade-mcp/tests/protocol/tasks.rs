//! Calls that take long or wait for a person, and go on as tasks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use palisade::{audit::RecordKind, code::Code};
use palisade_mcp::PalisadeServer;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Client, Records, server_over, sqlite};

/// Takes minutes.
const SLOW: &str = "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, numbers d, numbers e WHERE a.n + b.n = c.n + d.n + e.n - 900";

/// Takes longer than a trial, and far less than a statement may.
const LONG: &str = "SELECT count(*) AS n FROM numbers a, numbers b, numbers c, (SELECT n FROM numbers LIMIT 5) d WHERE a.n + b.n = c.n + d.n";

const SHORT: Duration = Duration::from_millis(50);

/// What a client of the newest revision says of itself with each request.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    })
}

/// Of a client that knows tasks.
pub(crate) fn knowing() -> Value {
    meta(&json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

/// The same, which can ask its person.
pub(crate) fn asking() -> Value {
    meta(&json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

pub(crate) fn call(tool: &str, arguments: &Value, meta: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": meta})
}

fn query(sql: &str, meta: &Value) -> Value {
    call("query", &json!({"sql": sql, "format": "json"}), meta)
}

pub(crate) fn name_task(id: &str) -> Value {
    json!({"taskId": id, "_meta": knowing()})
}

/// The id of the task that a call became.
pub(crate) fn task_id(answer: &Value) -> String {
    assert_eq!(answer["resultType"], "task", "{answer}");
    for absent in [
        "content",
        "result",
        "error",
        "inputRequests",
        "requestState",
    ] {
        assert!(answer.get(absent).is_none(), "{answer}");
    }
    let id = answer["taskId"].as_str().unwrap();
    assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    id.to_owned()
}

/// What a task becomes, once `is_there` holds of it.
pub(crate) async fn poll(client: &mut Client, id: &str, is_there: impl Fn(&str) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let told = client.request("tasks/get", name_task(id)).await;
        assert_eq!(told["resultType"], "complete", "{told}");
        assert_eq!(told["taskId"], id);
        if is_there(told["status"].as_str().unwrap()) {
            return told;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "{told}");
        sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn is_over(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

fn server(records: &Records) -> PalisadeServer {
    server_over(sqlite(), Arc::new(records.clone())).with_task_patience(SHORT)
}

/// Kinds and codes of the records, without those of trials that ran out of their time.
fn told(records: &Records) -> Vec<(RecordKind, Option<Code>)> {
    let records = records.0.lock().unwrap();
    (records.iter())
        .map(|record| (record.kind, record.code))
        .filter(|(_, code)| *code != Some(Code::LimitTime))
        .collect()
}

/// Waits for so many records of cancelled statements.
async fn cancelled(records: &Records, count: usize) {
    let began = Instant::now();
    loop {
        let codes = told(records);
        let ended = codes
            .iter()
            .filter(|(_, code)| *code == Some(Code::LimitCancelled));
        if ended.count() >= count {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{codes:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_long_call_goes_on_as_a_task() {
    let records = Records::default();
    let server = server(&records);
    let mut client = Client::connect(server.clone());
    let discovered = client
        .request("server/discover", json!({"_meta": knowing()}))
        .await;
    assert_eq!(
        discovered["capabilities"]["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
    assert!(discovered["capabilities"].get("tasks").is_none());
    // What is short is answered as ever.
    let short = client
        .request("tools/call", query("SELECT 1 AS n", &knowing()))
        .await;
    assert_eq!(short["structuredContent"]["rows"], json!([{"n": 1}]));
    let begun = client.request("tools/call", query(LONG, &knowing())).await;
    let id = task_id(&begun);
    assert_eq!(begun["status"], "working");
    assert!(begun["ttlMs"].as_u64().unwrap() >= 60_000, "{begun}");
    assert!(begun["pollIntervalMs"].as_u64().unwrap() > 0, "{begun}");
    let done = poll(&mut client, &id, is_over).await;
    assert_eq!(done["status"], "completed", "{done}");
    let result = &done["result"];
    assert_eq!(result["isError"], false, "{done}");
    // The same as without tasks, marks and all; the text says when it was asked.
    let held = client
        .request("tools/call", query(LONG, &meta(&json!({}))))
        .await;
    assert_eq!(
        result["structuredContent"]["rows"],
        held["structuredContent"]["rows"]
    );
    assert_eq!(
        result["_meta"]["palisade/content-policy"],
        "data-not-instructions"
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("<<palisade-data "), "{text}");
    // It is there a while longer, and not for as long as before.
    let again = client.request("tasks/get", name_task(&id)).await;
    assert_eq!(again["result"], *result);
    assert!(again["ttlMs"].as_u64() < begun["ttlMs"].as_u64(), "{again}");
    // What has ended cannot be cancelled, and saying so is no error.
    client.request("tasks/cancel", name_task(&id)).await;
    let again = client.request("tasks/get", name_task(&id)).await;
    assert_eq!(again["status"], "completed");
    client.stop().await;
    // Each call has one record.
    assert_eq!(told(&records), [(RecordKind::Statement, None); 3]);
}

#[tokio::test]
async fn who_does_not_know_tasks_sees_none() {
    let server = server(&Records::default());
    let mut client = Client::connect(server.clone());
    let plain = meta(&json!({}));
    let tools = async |client: &mut Client, meta: &Value| {
        let listed = client.request("tools/list", json!({"_meta": meta})).await;
        listed.to_string()
    };
    let before = tools(&mut client, &plain).await;
    assert_eq!(before, tools(&mut client, &knowing()).await);
    let held = client.request("tools/call", query(LONG, &plain)).await;
    assert_eq!(held["isError"], false, "{held}");
    assert_eq!(held["resultType"], "complete");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "x", "inputResponses": {}, "_meta": plain});
        let error = client.error(method, params).await;
        assert_eq!(error["code"], -32021, "{method}: {error}");
    }
    for method in ["tasks/list", "tasks/result"] {
        let error = client.error(method, name_task("x")).await;
        assert_eq!(error["code"], -32601, "{method}: {error}");
    }
    client.stop().await;
    // A revision with a handshake has none, whatever its client says.
    let mut older = Client::connect(server.clone());
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "0"}});
    let told = older.request("initialize", params).await;
    assert!(told["capabilities"].get("extensions").is_none(), "{told}");
    older.send(crate::INITIALIZED).await;
    let held = older.call("query", json!({"sql": LONG})).await;
    assert_eq!(held["isError"], false, "{held}");
    older.stop().await;
    // An operator can be without them.
    let mut without = Client::connect(server.without_tasks());
    let told = without
        .request("server/discover", json!({"_meta": knowing()}))
        .await;
    assert!(told["capabilities"].get("extensions").is_none(), "{told}");
    let held = without.request("tools/call", query(LONG, &knowing())).await;
    assert_eq!(held["isError"], false, "{held}");
    let error = without.error("tasks/get", name_task("x")).await;
    assert_eq!(error["code"], -32601, "{error}");
    without.stop().await;
}

#[tokio::test]
async fn a_task_is_cancelled_on_the_database() {
    let records = Records::default();
    let mut client = Client::connect(server(&records));
    let id = task_id(&client.request("tools/call", query(SLOW, &knowing())).await);
    sleep(Duration::from_millis(400)).await;
    let ack = client.request("tasks/cancel", name_task(&id)).await;
    assert_eq!(ack, json!({"resultType": "complete"}));
    let ended = poll(&mut client, &id, is_over).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert!(
        ended["statusMessage"]
            .as_str()
            .is_some_and(|said| !said.is_empty()),
        "{ended}"
    );
    assert!(ended.get("result").is_none());
    // It is recorded before its end is told, once.
    let record = (RecordKind::Statement, Some(Code::LimitCancelled));
    assert_eq!(told(&records), [record]);
    // A client that goes away ends the task that it was told of,
    task_id(&client.request("tools/call", query(SLOW, &knowing())).await);
    sleep(Duration::from_millis(400)).await;
    client.stop().await;
    cancelled(&records, 2).await;
    // and one that gives its request up that which it would have become.
    let server = server(&records).with_task_patience(Duration::from_secs(30));
    let mut client = Client::connect(server);
    let request = client
        .send_request("tools/call", query(SLOW, &knowing()))
        .await;
    sleep(Duration::from_millis(400)).await;
    let params = json!({"requestId": request});
    let given_up = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    client.send(&given_up.to_string()).await;
    cancelled(&records, 3).await;
    client.stop().await;
}

/// Beyond what runs at once, a task waits for its turn, and is cancelled while it does.
#[tokio::test]
async fn a_task_that_waits_for_its_turn_is_cancelled() {
    let records = Records::default();
    let mut client = Client::connect(server(&records));
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(task_id(
            &client.request("tools/call", query(SLOW, &knowing())).await,
        ));
    }
    sleep(Duration::from_millis(800)).await;
    let last = ids.pop().unwrap();
    let began = Instant::now();
    client.request("tasks/cancel", name_task(&last)).await;
    let ended = poll(&mut client, &last, is_over).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    let said = ended["statusMessage"].as_str().unwrap();
    assert!(said.contains("nothing of it was run"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(4));
    for id in &ids {
        client.request("tasks/cancel", name_task(id)).await;
    }
    for id in &ids {
        let ended = poll(&mut client, id, is_over).await;
        assert_eq!(ended["status"], "cancelled", "{ended}");
    }
    client.stop().await;
    let codes: Vec<_> = told(&records).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [Some(Code::LimitCancelled); 6]);
}

/// The task of another client is not there.
#[tokio::test]
async fn a_task_is_of_the_client_that_began_it() {
    let records = Records::default();
    let server = server(&records);
    let mut owner = Client::connect(server.clone());
    let mut other = Client::connect(server.clone());
    let id = task_id(&owner.request("tools/call", query(SLOW, &knowing())).await);
    let made_up = "0".repeat(64);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = |id: &str| json!({"taskId": id, "inputResponses": {}, "_meta": knowing()});
        let foreign = other.error(method, params(&id)).await;
        let nowhere = other.error(method, params(&made_up)).await;
        assert_eq!(foreign["code"], -32602, "{method}: {foreign}");
        assert_eq!(foreign, nowhere, "{method}");
    }
    let still = owner.request("tasks/get", name_task(&id)).await;
    assert_eq!(still["status"], "working", "{still}");
    assert!(told(&records).is_empty());
    other.stop().await;
    // That the other has gone ends nothing of this one.
    let still = owner.request("tasks/get", name_task(&id)).await;
    assert_eq!(still["status"], "working", "{still}");
    owner.stop().await;
    cancelled(&records, 1).await;
}

/// A client has so many tasks and no more: what comes then is held as ever, and others have theirs.
#[tokio::test]
async fn tasks_are_bounded() {
    let records = Records::default();
    let server = server(&records);
    let mut client = Client::connect(server.clone());
    let mut ids = Vec::new();
    for _ in 0..32 {
        ids.push(task_id(
            &client.request("tools/call", query(SLOW, &knowing())).await,
        ));
    }
    let held = client
        .send_request("tools/call", query(SLOW, &knowing()))
        .await;
    sleep(SHORT * 10).await;
    // Another client has room.
    let mut other = Client::connect(server.clone());
    task_id(&other.request("tools/call", query(SLOW, &knowing())).await);
    for id in &ids {
        client.request("tasks/cancel", name_task(id)).await;
    }
    assert!(!client.seen.contains(&held), "{:?}", client.seen);
    for id in &ids {
        poll(&mut client, id, is_over).await;
    }
    let params = json!({"requestId": held});
    let given_up = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    client.send(&given_up.to_string()).await;
    client.stop().await;
    other.stop().await;
}

/// A client is told of its task while a backend blocks its thread.
#[tokio::test]
async fn a_task_is_told_of_while_its_backend_blocks() {
    let server = server_over(crate::Broken::Blocks, Arc::new(Records::default()));
    let mut client = Client::connect(server.with_task_patience(SHORT));
    let began = Instant::now();
    let begun = client
        .request("tools/call", query("SELECT 1", &knowing()))
        .await;
    let id = task_id(&begun);
    let working = client.request("tasks/get", name_task(&id)).await;
    assert_eq!(working["status"], "working", "{working}");
    assert!(began.elapsed() < crate::BLOCKED);
    let done = poll(&mut client, &id, is_over).await;
    assert_eq!(done["status"], "completed", "{done}");
    client.stop().await;
}
