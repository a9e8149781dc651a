//! A client that can open an address sends its person to the operator's page. What counts is what is decided there.

use palisade_mcp::{ApprovalPage, PalisadeServer};
use palisade_state::ApprovalOptions;
use serde_json::{Value, json};

use super::{
    Desk, NOW, begin, client, count, count_newest, delete, desk, open, operator_desk, say, waits,
};
use crate::Client;

/// What a client says that approves by itself: everywhere else it is a yes.
fn yes() -> Value {
    json!({"action": "accept", "content": {"approve": true}})
}

fn with_page(desk: &Desk) -> PalisadeServer {
    let page = ApprovalPage::parse("https://approvals.example/r/{id}").unwrap();
    desk.server.clone().with_approval_page(page)
}

#[tokio::test]
async fn a_page_comes_before_the_form_and_its_decision_counts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let both = json!({"elicitation": {"form": {}, "url": {}}});
    let mut client = client(&with_page(&desk), both).await;
    let call = begin(&mut client, &delete(1)).await;
    let question = say(&mut client, yes()).await;
    let id = question["elicitationId"].as_str().unwrap().to_owned();
    assert_eq!(question["mode"], "url");
    assert_eq!(question["url"], format!("https://approvals.example/r/{id}"));
    assert!(question.get("requestedSchema").is_none(), "{question}");
    let told = question["message"].as_str().unwrap();
    assert!(told.contains("DELETE FROM tickets WHERE id = ?"), "{told}");
    // The page is open, and nothing runs for that.
    assert_eq!(count(&mut client).await, 3);
    assert!(!client.seen.contains(&call), "the call did not wait");
    let beside = open(Some(&file), ApprovalOptions::default());
    beside.approve(&id, NOW, "ann", None).unwrap();
    let complete = client.notified("notifications/elicitation/complete").await;
    assert_eq!(complete["params"]["elicitationId"], *id);
    let answer = client.receive(call).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(count(&mut client).await, 2);
    // What is rejected there is refused.
    let call = begin(&mut client, &delete(2)).await;
    let question = say(&mut client, yes()).await;
    let id = question["elicitationId"].as_str().unwrap();
    beside.reject(id, NOW, "ann").unwrap();
    let answer = client.receive(call).await["result"]["structuredContent"].clone();
    assert!(
        answer["message"].as_str().unwrap().contains("rejected"),
        "{answer}"
    );
    assert_eq!(count(&mut client).await, 2);
}

#[tokio::test]
async fn who_does_not_open_the_page_leaves_the_request_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let mut client = client(&with_page(&desk), json!({"elicitation": {"url": {}}})).await;
    for (id, no) in [
        (1, json!({"action": "decline"})),
        (2, json!({"action": "cancel"})),
        (
            3,
            json!({"action": "decline", "content": {"approve": true}}),
        ),
    ] {
        let call = begin(&mut client, &delete(id)).await;
        say(&mut client, no).await;
        let waiting = waits(&client.receive(call).await["result"]);
        // A person is sent there once.
        assert_eq!(waits(&client.call("execute", delete(id)).await), waiting);
    }
    assert_eq!(desk.store.list(NOW).unwrap().len(), 3);
    assert_eq!(count(&mut client).await, 3);
}

/// In memory no page reaches a request: the form is asked where the client has one, and nothing else is.
#[tokio::test]
async fn what_no_page_reaches_is_asked_in_a_form() {
    let desk = desk("required", None, ApprovalOptions::default());
    let server = with_page(&desk);
    let both = json!({"elicitation": {"form": {}, "url": {}}});
    let mut forms = client(&server, both).await;
    let call = begin(&mut forms, &delete(1)).await;
    let question = say(&mut forms, yes()).await;
    assert_eq!(question["mode"], "form", "{question}");
    assert_eq!(forms.receive(call).await["result"]["isError"], false);
    let mut pages = client(&server, json!({"elicitation": {"url": {}}})).await;
    let refused = pages.refused("execute", delete(2)).await;
    assert!(
        refused["message"].as_str().unwrap().contains("cannot ask"),
        "{refused}"
    );
}

/// An operator can be sent there too: what the client says counts as little as ever.
#[tokio::test]
async fn an_operator_decides_on_the_page_by_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let (desk, options, key) = operator_desk(&file);
    let mut client = client(&with_page(&desk), json!({"elicitation": {"url": {}}})).await;
    let call = begin(&mut client, &delete(1)).await;
    let question = say(&mut client, yes()).await;
    let id = question["elicitationId"].as_str().unwrap();
    assert_eq!(count(&mut client).await, 3);
    let beside = open(Some(&file), options);
    beside.approve(id, NOW, "operator", Some(&key)).unwrap();
    let answer = client.receive(call).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[tokio::test]
async fn the_newest_revision_is_sent_there_by_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let desk = desk("required", Some(&file), ApprovalOptions::default());
    let mut client = Client::connect(with_page(&desk));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let call = |state: Option<&str>, answer: Value| {
        let mut call = json!({"name": "execute", "arguments": delete(1), "_meta": meta});
        if let Some(state) = state {
            call["requestState"] = json!(state);
            call["inputResponses"] = json!({"approval": answer});
        }
        call
    };
    let asked = client.request("tools/call", call(None, Value::Null)).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].as_str().unwrap();
    let question = &asked["inputRequests"]["approval"]["params"];
    assert_eq!(
        question["url"],
        format!("https://approvals.example/r/{state}")
    );
    // No answer to another request opens this one, and none that declines waits.
    let made_up = client
        .request("tools/call", call(Some("made-up"), yes()))
        .await;
    waits(&made_up);
    let declined = json!({"action": "decline"});
    waits(
        &client
            .request("tools/call", call(Some(state), declined))
            .await,
    );
    let params = call(Some(state), yes());
    let opened = client.send_request("tools/call", params).await;
    assert_eq!(count_newest(&mut client, &meta).await, 3);
    assert!(!client.seen.contains(&opened), "the call did not wait");
    let beside = open(Some(&file), ApprovalOptions::default());
    beside.approve(state, NOW, "ann", None).unwrap();
    let done = client.receive(opened).await;
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert_eq!(count_newest(&mut client, &meta).await, 2);
}
