//! Calls that wait for a person within a task: the client is asked by `tasks/get` and answers by `tasks/update`, and the call goes on by
//! itself, whoever decided.

use std::time::Duration;

use palisade::audit::ApprovalState;
use palisade_mcp::ApprovalPage;
use palisade_state::ApprovalOptions;
use serde_json::{Value, json};

use super::{Desk, NOW, count_newest, delete, desk, open, operator_desk, waits};
use crate::{
    Client,
    tasks::{asking, call, is_over, knowing, name_task, poll, task_id},
};

/// Begins a change that waits, and gives back its task as it is told then.
async fn begin(client: &mut Client, id: i64, meta: &Value) -> (String, Value) {
    let mut arguments = delete(id);
    arguments["format"] = json!("json");
    let begun = client
        .request("tools/call", call("execute", &arguments, meta))
        .await;
    let task = task_id(&begun);
    let waiting = poll(client, &task, |_| true).await;
    (task, waiting)
}

async fn answer(client: &mut Client, task: &str, responses: Value) {
    let params = json!({"taskId": task, "inputResponses": responses, "_meta": asking()});
    let ack = client.request("tasks/update", params).await;
    assert_eq!(ack, json!({"resultType": "complete"}));
}

/// The id of the request that a task waits for.
fn request_id(desk: &Desk) -> String {
    let waiting = desk.store.list(NOW).unwrap();
    assert_eq!(waiting.len(), 1);
    waiting[0].id.clone()
}

#[tokio::test]
async fn a_person_at_the_client_approves_within_a_task() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = Client::connect(desk.server.clone());
    let (task, waiting) = begin(&mut client, 1, &asking()).await;
    assert_eq!(waiting["status"], "input_required", "{waiting}");
    let asked = waiting["inputRequests"].as_object().unwrap();
    let (key, question) = asked.iter().next().unwrap();
    assert_eq!(
        (asked.len(), &question["method"]),
        (1, &json!("elicitation/create"))
    );
    let shown = question["params"]["message"].as_str().unwrap();
    assert!(
        shown.contains("DELETE FROM tickets WHERE id = ?"),
        "{shown}"
    );
    // What was not asked is no answer.
    let yes = json!({"action": "accept", "content": {"approve": true}});
    answer(&mut client, &task, json!({"made-up": yes})).await;
    let still = poll(&mut client, &task, |_| true).await;
    assert_eq!(still["status"], "input_required", "{still}");
    assert_eq!(count_newest(&mut client, &knowing()).await, 3);
    answer(&mut client, &task, json!({key: yes})).await;
    let done = poll(&mut client, &task, is_over).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(
        done["result"]["structuredContent"]["affected_rows"], 1,
        "{done}"
    );
    assert_eq!(count_newest(&mut client, &knowing()).await, 2);
    // The answer counts once, and for that call.
    answer(&mut client, &task, json!({key: yes})).await;
    for (id, no) in [
        (1, json!({"action": "decline"})),
        (
            2,
            json!({"action": "accept", "content": {"approve": false}}),
        ),
        (3, json!("yes")),
    ] {
        let (next, waiting) = begin(&mut client, id, &asking()).await;
        assert_eq!(waiting["status"], "input_required", "{waiting}");
        assert_ne!(next, task);
        answer(&mut client, &next, json!({key: no})).await;
        let refused = poll(&mut client, &next, is_over).await;
        assert_eq!(refused["status"], "completed", "{refused}");
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        waits(&refused["result"]);
    }
    assert_eq!(count_newest(&mut client, &knowing()).await, 2);
    let answered: Vec<_> = (desk.records.0.lock().unwrap().iter())
        .filter_map(|record| record.approval.as_ref().map(|note| note.state))
        .collect();
    assert!(
        answered.contains(&ApprovalState::Approved) && answered.contains(&ApprovalState::Declined),
        "{answered:?}"
    );
    client.stop().await;
}

/// The person of a client decides for it alone.
#[tokio::test]
async fn nobody_else_answers() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = Client::connect(desk.server.clone());
    let (task, waiting) = begin(&mut client, 1, &asking()).await;
    let key = waiting["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap();
    let mut other = Client::connect(desk.server.clone());
    let yes = json!({"action": "accept", "content": {"approve": true}});
    let params = json!({"taskId": task, "inputResponses": {key: yes}, "_meta": asking()});
    let error = other.error("tasks/update", params).await;
    assert_eq!(error["code"], -32602, "{error}");
    other.stop().await;
    let still = poll(&mut client, &task, |_| true).await;
    assert_eq!(still["status"], "input_required", "{still}");
    // Whoever waits can give up, and nothing runs then.
    client.request("tasks/cancel", name_task(&task)).await;
    let ended = poll(&mut client, &task, is_over).await;
    assert_eq!(ended["status"], "cancelled", "{ended}");
    assert_eq!(count_newest(&mut client, &knowing()).await, 3);
    client.stop().await;
}

/// What is decided beside the server is found by the task that waits, of a client that cannot ask a person.
#[tokio::test]
async fn a_call_goes_on_once_it_is_approved_beside_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let (desk, options, key) = operator_desk(&file);
    let mut client = Client::connect(desk.server.clone());
    // A client that could ask is not asked: an operator is demanded.
    let (task, waiting) = begin(&mut client, 1, &asking()).await;
    assert_eq!(waiting["status"], "working", "{waiting}");
    assert!(waiting.get("inputRequests").is_none(), "{waiting}");
    let id = request_id(&desk);
    let said = waiting["statusMessage"].as_str().unwrap();
    assert!(said.contains(&format!("`palisade approve {id}`")), "{said}");
    let yes = json!({"action": "accept", "content": {"approve": true}});
    answer(&mut client, &task, json!({"approval": yes})).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let still = poll(&mut client, &task, |_| true).await;
    assert_eq!(still["status"], "working", "{still}");
    let beside = open(Some(&file), options);
    beside.approve(&id, NOW, "operator", Some(&key)).unwrap();
    let done = poll(&mut client, &task, is_over).await;
    assert_eq!(
        done["result"]["structuredContent"]["affected_rows"], 1,
        "{done}"
    );
    assert!(done.get("statusMessage").is_none(), "{done}");
    // What is rejected is told as such.
    let (task, _) = begin(&mut client, 2, &knowing()).await;
    beside.reject(&request_id(&desk), NOW, "operator").unwrap();
    let refused = poll(&mut client, &task, is_over).await;
    let message = refused["result"]["structuredContent"]["message"]
        .as_str()
        .unwrap();
    assert!(message.contains("rejected"), "{refused}");
    assert_eq!(count_newest(&mut client, &knowing()).await, 2);
    client.stop().await;
}

/// The operator's page comes by `tasks/get` too, and what the client says of it is no approval.
#[tokio::test]
async fn a_page_is_opened_within_a_task() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let page = ApprovalPage::parse("https://approvals.example/r/{id}").unwrap();
    let mut client = Client::connect(desk.server.clone().with_approval_page(page));
    let mut both = asking();
    both["io.modelcontextprotocol/clientCapabilities"]["elicitation"] =
        json!({"form": {}, "url": {}});
    let (task, waiting) = begin(&mut client, 1, &both).await;
    let question = &waiting["inputRequests"]["approval"]["params"];
    let id = request_id(&desk);
    assert_eq!(
        question["url"],
        format!("https://approvals.example/r/{id}"),
        "{waiting}"
    );
    let yes = json!({"action": "accept", "content": {"approve": true}});
    answer(&mut client, &task, json!({"approval": yes})).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let opened = poll(&mut client, &task, |_| true).await;
    assert_eq!(opened["status"], "working", "{opened}");
    let beside = open(Some(&file), ApprovalOptions::default());
    beside.approve(&id, NOW, "ann", None).unwrap();
    let done = poll(&mut client, &task, is_over).await;
    assert_eq!(
        done["result"]["structuredContent"]["affected_rows"], 1,
        "{done}"
    );
    client.stop().await;
}

/// Where no person could decide, the call is refused at once, as without tasks.
#[tokio::test]
async fn a_task_does_not_wait_for_nobody() {
    let desk = desk("required", None, ApprovalOptions::default());
    let mut client = Client::connect(desk.server.clone());
    let refused = client
        .request("tools/call", call("execute", &delete(1), &knowing()))
        .await;
    waits_for_nobody(&refused);
    client.stop().await;
}

fn waits_for_nobody(refused: &Value) {
    let refusal = &refused["structuredContent"];
    assert_eq!(refusal["code"], "approval.required", "{refused}");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("cannot ask"), "{message}");
}
