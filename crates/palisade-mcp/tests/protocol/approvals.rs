//! What a policy permits with a person's approval: asked of the client's person, approved beside the server, used once.

mod in_task;
mod page;

use std::{path::Path, sync::Arc, time::Duration};

use palisade::{
    audit::{ApprovalState, RecordKind},
    firewall::Firewall,
    guard::Guard,
    policy::{PolicyFile, PolicySources},
    session::Principal,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore, OperatorKey, StateSecret};
use serde_json::{Value, json};

use crate::{Client, INITIALIZED, Records, TestHost};

const SCRIPT: &str = "
CREATE TABLE tickets (id INTEGER PRIMARY KEY, body TEXT);
INSERT INTO tickets VALUES (1, 'printer'), (2, 'screen'), (3, 'desk');
";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
permit (principal, action == Action::"call", resource) when { resource.safety == "pure" };
@id("with-approval") @approval("LEVEL")
permit (principal, action in [Action::"update", Action::"delete"], resource);
"#;

/// The clock of the tests.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// A server over three tickets, and what it is made of.
struct Desk {
    server: PalisadeServer,
    guard: Arc<Guard>,
    store: Arc<ApprovalStore>,
    records: Records,
}

fn sources(level: &str) -> PolicySources {
    PolicySources::from_cedar("test.cedar", POLICIES.replace("LEVEL", level))
}

fn open(file: Option<&Path>, options: ApprovalOptions) -> ApprovalStore {
    match file {
        Some(path) => ApprovalStore::open(path, &StateSecret::new(*b"secret"), options),
        None => ApprovalStore::in_memory(options),
    }
    .unwrap()
}

/// A desk whose requests wait in `file` for an operator, with the options of that store and the operator's key.
fn operator_desk(file: &Path) -> (Desk, ApprovalOptions, OperatorKey) {
    let key = OperatorKey::generate().unwrap();
    let options = ApprovalOptions {
        operator_key: Some(key.public()),
        ..ApprovalOptions::default()
    };
    (desk("operator", Some(file), options.clone()), options, key)
}

/// Requests wait in `file`, or in memory.
fn desk(level: &str, file: Option<&Path>, options: ApprovalOptions) -> Desk {
    let backend = SqliteBackend::in_memory(SCRIPT, "desk").unwrap().writable();
    let firewall = Firewall::builder(backend.catalog().clone(), sources(level))
        .allow_changes()
        .build()
        .unwrap();
    let store = Arc::new(open(file, options));
    let records = Records::default();
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let guard = Arc::new(guard.with_name("desk").with_approvals(store.clone()));
    Desk {
        server: serve_as("default", &guard),
        guard,
        store,
        records,
    }
}

fn serve_as(agent: &str, guard: &Arc<Guard>) -> PalisadeServer {
    let options = ServeOptions::new(Principal::new("Agent", agent), "desk").writable();
    PalisadeServer::new(Arc::clone(guard), options)
}

/// A client of this revision that can ask its person, or cannot.
async fn client(server: &PalisadeServer, capabilities: Value) -> Client {
    let mut client = Client::connect(server.clone());
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "0"}});
    client.request("initialize", params).await;
    client.send(INITIALIZED).await;
    client
}

async fn begin(client: &mut Client, arguments: &Value) -> u64 {
    let call = json!({"name": "execute", "arguments": arguments});
    client.send_request("tools/call", call).await
}

/// Answers the question to the person, and gives back what it was.
async fn say(client: &mut Client, answer: Value) -> Value {
    let question = client.notified("elicitation/create").await;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    client.send(&answer.to_string()).await;
    question["params"].clone()
}

async fn count(client: &mut Client) -> i64 {
    let sql = json!({"sql": "SELECT count(*) AS n FROM tickets"});
    let result = client.call("query", sql).await;
    result["structuredContent"]["rows"][0]["n"]
        .as_i64()
        .unwrap()
}

fn delete(id: i64) -> Value {
    json!({"sql": "DELETE FROM tickets WHERE id = ?", "params": [id]})
}

/// The id of the request that waits, as the refusal tells it.
fn waits(result: &Value) -> String {
    let refusal = &result["structuredContent"];
    assert_eq!(refusal["code"], "approval.required", "{result}");
    let id = refusal["approval"]["id"].as_str().unwrap().to_owned();
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains(&id), "{message}");
    id
}

/// Which of the tools say that a call could wait.
async fn waiting_tools(client: &mut Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await;
    let mut names = Vec::new();
    for tool in listed["tools"].as_array().unwrap() {
        if tool["_meta"]["palisade/requires-approval"]
            .as_bool()
            .unwrap()
        {
            names.push(tool["name"].as_str().unwrap().to_owned());
        }
    }
    names
}

#[tokio::test]
async fn the_list_of_tools_says_which_could_wait() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = client(&desk.server, json!({})).await;
    assert_eq!(waiting_tools(&mut client).await, ["execute"]);
    // Whom a policy does not ask is told so, and of a change of policies everybody is.
    let with = async |policies: &str| {
        let file = PolicyFile {
            name: "test.cedar".to_owned(),
            text: policies.to_owned(),
        };
        let sources = PolicySources {
            policies: vec![file],
            ..PolicySources::default()
        };
        desk.guard.reload(&sources).await.unwrap();
    };
    let asked = POLICIES.replace("LEVEL", "operator");
    let others = asked.replace(
        "permit (principal, action in [Action::\"update\"",
        "permit (principal == Agent::\"other\", action in [Action::\"update\"",
    );
    assert_ne!(asked, others);
    with(&others).await;
    client.notified("notifications/tools/list_changed").await;
    assert_eq!(waiting_tools(&mut client).await, [""; 0]);
    let reads = "@approval(\"required\")\npermit (principal, action, resource);";
    with(reads).await;
    client.notified("notifications/tools/list_changed").await;
    assert_eq!(
        waiting_tools(&mut client).await,
        ["execute", "explain_query", "query"]
    );
}

#[tokio::test]
async fn a_person_at_the_client_approves_one_run() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = client(&desk.server, json!({"elicitation": {}})).await;
    let call = begin(&mut client, &delete(1)).await;
    let question = say(
        &mut client,
        json!({"action": "accept", "content": {"approve": true}}),
    )
    .await;
    let told = question["message"].as_str().unwrap();
    assert!(
        told.contains("DELETE FROM tickets WHERE id = ?")
            && told.contains("Parameters:\n\n| [1]\n"),
        "{told}"
    );
    assert!(
        told.contains("Agent::\"default\"") && told.contains("desk"),
        "{told}"
    );
    assert_eq!(question["requestedSchema"]["required"], json!(["approve"]));
    let answer = client.receive(call).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(count(&mut client).await, 2);
    // It is used up: the same call is asked about again.
    let call = begin(&mut client, &delete(1)).await;
    say(&mut client, json!({"action": "decline"})).await;
    waits(&client.receive(call).await["result"]);
    let records = desk.records.0.lock().unwrap();
    let states: Vec<_> = (records.iter())
        .filter_map(|record| Some((record.kind, record.approval.as_ref()?.state)))
        .collect();
    assert_eq!(
        states,
        [
            (RecordKind::Statement, ApprovalState::Pending),
            (RecordKind::Approval, ApprovalState::Approved),
            (RecordKind::Statement, ApprovalState::Used),
            (RecordKind::Statement, ApprovalState::Pending),
            (RecordKind::Approval, ApprovalState::Declined),
        ]
    );
}

#[tokio::test]
async fn no_is_no_and_the_request_waits() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let mut client = client(&desk.server, json!({"elicitation": {"form": {}}})).await;
    for (id, no) in [
        (1, json!({"action": "decline"})),
        (2, json!({"action": "cancel"})),
        (3, json!({"action": "accept"})),
        (
            4,
            json!({"action": "accept", "content": {"approve": false}}),
        ),
        (
            5,
            json!({"action": "accept", "content": {"approve": "true"}}),
        ),
        (
            6,
            json!({"action": "decline", "content": {"approve": true}}),
        ),
    ] {
        let call = begin(&mut client, &delete(id)).await;
        say(&mut client, no).await;
        let waiting = waits(&client.receive(call).await["result"]);
        // A person is asked once about one request.
        assert_eq!(waits(&client.call("execute", delete(id)).await), waiting);
    }
    assert_eq!(count(&mut client).await, 3);
    // A person approves beside the server, by another process.
    let beside = open(Some(&file), ApprovalOptions::default());
    let listed = beside.list(NOW).unwrap();
    assert_eq!(listed.len(), 6);
    let request = listed[0].request.as_ref().unwrap();
    assert_eq!(request.sql, "DELETE FROM tickets WHERE id = ?");
    let of = |id: i64| {
        let params = format!("[{id}]");
        let waits = |listed: &&palisade_state::WaitingRequest| {
            listed.request.as_ref().unwrap().params == params
        };
        listed.iter().find(waits).unwrap().id.clone()
    };
    beside.approve(&of(1), NOW, "ann", None).unwrap();
    assert!(beside.approve(&of(1), NOW, "ann", None).is_err());
    beside.reject(&of(2), NOW, "ann").unwrap();
    let result = client.call("execute", delete(1)).await;
    assert_eq!(result["isError"], false, "{result}");
    let refused = client.refused("execute", delete(2)).await;
    assert!(refused["message"].as_str().unwrap().contains("rejected"));
    assert_eq!(count(&mut client).await, 2);
    let used = desk.records.0.lock().unwrap();
    let by = |record: &palisade::audit::AuditRecord| record.approval.as_ref()?.by.clone();
    assert!(used.iter().filter_map(by).any(|by| by == "ann"));
    // What waits is nowhere in the clear.
    let bytes = std::fs::read(&file).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("DELETE FROM tickets"));
}

#[tokio::test]
async fn an_approval_is_for_one_call_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let mut client = client(&desk.server, json!({})).await;
    let id = waits(&client.call("execute", delete(1)).await);
    desk.store.approve(&id, NOW, "ann", None).unwrap();
    for (what, other) in [
        ("parameters", delete(2)),
        (
            "parameters' type",
            json!({"sql": "DELETE FROM tickets WHERE id = ?", "params": ["1"]}),
        ),
        (
            "statement",
            json!({"sql": "DELETE FROM tickets WHERE id >= ?", "params": [1]}),
        ),
        (
            "cap",
            json!({"sql": "DELETE FROM tickets WHERE id = ?", "params": [1], "max_affected_rows": 2}),
        ),
    ] {
        assert_ne!(waits(&client.call("execute", other).await), id, "{what}");
    }
    let mut other = Client::connect(serve_as("other", &desk.guard));
    other.initialize().await;
    assert_ne!(
        waits(&other.call("execute", delete(1)).await),
        id,
        "principal"
    );
    // Other policies are another request, and the former ones come back with their approval.
    let changed = PolicySources {
        policies: vec![PolicyFile {
            name: "test.cedar".to_owned(),
            text: format!("{}\n// changed\n", POLICIES.replace("LEVEL", "required")),
        }],
        ..PolicySources::default()
    };
    desk.guard.reload(&changed).await.unwrap();
    assert_ne!(
        waits(&client.call("execute", delete(1)).await),
        id,
        "policies"
    );
    desk.guard.reload(&sources("required")).await.unwrap();
    assert_eq!(count(&mut client).await, 3);
    // Of two at once, one runs.
    let (first, second) = (
        begin(&mut client, &delete(1)).await,
        begin(&mut client, &delete(1)).await,
    );
    let mut answers = [Value::Null, Value::Null];
    for _ in 0..2 {
        let line = client.read.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let at = usize::from(answer["id"] == second);
        assert!(answer["id"] == first || answer["id"] == second, "{answer}");
        answers[at] = answer["result"].clone();
    }
    let ran = answers
        .iter()
        .filter(|answer| answer["isError"] == false)
        .count();
    assert_eq!(ran, 1, "{answers:?}");
    assert_eq!(count(&mut client).await, 2);
    // And it is used up.
    assert_ne!(waits(&client.call("execute", delete(1)).await), id);
}

#[tokio::test]
async fn what_expired_is_asked_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let at_once = ApprovalOptions {
        expire_after: Duration::ZERO,
        ..ApprovalOptions::default()
    };
    let desk = desk("required", Some(&file), at_once);
    let mut client = client(&desk.server, json!({})).await;
    let id = waits(&client.call("execute", delete(1)).await);
    assert!(desk.store.approve(&id, NOW, "ann", None).is_err());
    assert_ne!(waits(&client.call("execute", delete(1)).await), id);
    assert_eq!(count(&mut client).await, 3);
}

#[tokio::test]
async fn a_client_of_the_newest_revision_sends_the_answer_with_the_call() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = Client::connect(desk.server.clone());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let call = |id: i64, answer: Option<(&str, bool)>| {
        let mut call = json!({"name": "execute", "arguments": delete(id), "_meta": meta});
        if let Some((state, approve)) = answer {
            call["requestState"] = json!(state);
            call["inputResponses"] =
                json!({"approval": {"action": "accept", "content": {"approve": approve}}});
        }
        call
    };
    let asked = client.request("tools/call", call(1, None)).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].as_str().unwrap();
    let question = &asked["inputRequests"]["approval"];
    assert_eq!(question["method"], "elicitation/create");
    // The answer to one call is none to another, nor is a made-up one.
    for (id, state) in [(2, state), (1, "made-up")] {
        let refused = client
            .request("tools/call", call(id, Some((state, true))))
            .await;
        waits(&refused);
    }
    assert_eq!(count_newest(&mut client, &meta).await, 3);
    let done = client
        .request("tools/call", call(1, Some((state, true))))
        .await;
    assert_eq!(done["isError"], false, "{done}");
    assert_eq!(count_newest(&mut client, &meta).await, 2);
    // A replay runs nothing.
    let again = client
        .request("tools/call", call(1, Some((state, true))))
        .await;
    assert_ne!(waits(&again), state);
}

async fn count_newest(client: &mut Client, meta: &Value) -> i64 {
    let call = json!({"name": "query", "arguments": {"sql": "SELECT count(*) AS n FROM tickets", "format": "json"}, "_meta": meta});
    let result = client.request("tools/call", call).await;
    result["structuredContent"]["rows"][0]["n"]
        .as_i64()
        .unwrap()
}

#[tokio::test]
async fn without_a_person_there_is_no_approval() {
    // In memory, and the client cannot ask: the tool is there, and says why nothing was run.
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = client(&desk.server, json!({})).await;
    let tools = client.request("tools/list", json!({})).await;
    let names = tools["tools"].as_array().unwrap().iter();
    assert!(
        names
            .map(|tool| &tool["name"])
            .any(|name| name == "execute")
    );
    let refused = client.refused("execute", delete(1)).await;
    assert_eq!(refused["code"], "approval.required");
    assert!(
        refused["message"].as_str().unwrap().contains("cannot ask"),
        "{refused}"
    );
    // No argument gives an approval.
    let mut confirmed = delete(1);
    confirmed["confirm"] = json!(true);
    assert_eq!(
        client.refused("execute", confirmed).await["code"],
        "request.invalid"
    );
}

/// A test makes no request, and says who does.
#[tokio::test]
async fn a_test_says_how_the_request_is_made() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = client(&desk.server, json!({})).await;
    let told = client.call("policy_test", delete(1)).await;
    let refusal = &told["structuredContent"]["refusal"];
    assert_eq!(refusal["code"], "approval.required", "{told}");
    assert!(refusal.get("approval").is_none(), "{refusal}");
    let hint = refusal["remediation_hint"].as_str().unwrap();
    assert!(
        hint.contains("once a person approves it") && hint.contains("to execute"),
        "{hint}"
    );
    assert_eq!(refusal["next_valid_actions"], json!(["execute", "query"]));
}

#[tokio::test]
async fn an_operator_signs_and_no_client_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let (desk, _, key) = operator_desk(&file);
    let mut tester = client(&desk.server, json!({})).await;
    let told = tester.call("policy_test", delete(1)).await;
    assert_eq!(
        told["structuredContent"]["refusal"]["message"],
        "this needs an operator's approval before it runs"
    );
    let mut client = client(&desk.server, json!({"elicitation": {}})).await;
    // The client is not asked: the answer comes at once.
    let id = waits(&client.call("execute", delete(1)).await);
    assert!(desk.store.approve(&id, NOW, "agent", None).is_err());
    let forged = OperatorKey::generate().unwrap();
    assert!(
        desk.store
            .approve(&id, NOW, "agent", Some(&forged))
            .is_err()
    );
    // Whoever can write the file cannot sign: with a key of its own, nothing runs.
    let beside = open(Some(&file), ApprovalOptions::default());
    beside.approve(&id, NOW, "agent", Some(&forged)).unwrap();
    assert_eq!(waits(&client.call("execute", delete(1)).await), id);
    assert_eq!(count(&mut client).await, 3);
    beside.approve(&id, NOW, "operator", Some(&key)).unwrap();
    let result = client.call("execute", delete(1)).await;
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(count(&mut client).await, 2);
}
