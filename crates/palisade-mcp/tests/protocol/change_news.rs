//! Resources of changes and of the past, and what a client is told of them.

use std::{collections::BTreeSet, time::Duration};

use palisade::{
    guard::{ChangeCall, ChangeProposal},
    session::{Principal, Session, Transport},
};
use palisade_testkit::host::Ticking;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    Client,
    everything::{SEEN, served_on},
};

const ROOT: &str = "palisade://databases/desk";

/// Longer than a server takes to look twice.
const QUIET: Duration = Duration::from_secs(5);

async fn read(client: &mut Client, path: &str) -> Value {
    let uri = format!("{ROOT}/{path}");
    let result = client.request("resources/read", json!({"uri": uri})).await;
    let text = result["contents"][0]["text"].as_str().unwrap();
    // Before any name, it is said that names are data.
    assert!(text.starts_with("{\"content_policy\":"), "{text}");
    serde_json::from_str(text).unwrap()
}

async fn subscribe(client: &mut Client, path: &str) {
    let uri = format!("{ROOT}/{path}");
    client
        .request("resources/subscribe", json!({"uri": uri}))
        .await;
}

/// The resource that a client is told of next; none if it is told nothing for so long.
async fn next(client: &mut Client, patience: Duration) -> Option<String> {
    let line = timeout_at(Instant::now() + patience, client.read.next_line()).await;
    let line = line.ok()?.unwrap().unwrap();
    let message: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        message["method"], "notifications/resources/updated",
        "{message}"
    );
    let uri = message["params"]["uri"].as_str().unwrap();
    Some(uri.strip_prefix(ROOT).unwrap().to_owned())
}

/// A client is told of these resources, and of no others meanwhile.
async fn hears(client: &mut Client, expected: &[&str]) {
    let expected = paths(expected);
    let mut missing = expected.clone();
    while !missing.is_empty() {
        // Under load, servers look less often.
        let told = next(client, Duration::from_secs(60)).await;
        let told = told.unwrap_or_else(|| panic!("not told of {missing:?}"));
        assert!(expected.contains(&told), "{told}");
        missing.remove(&told);
    }
}

fn paths(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|path| (*path).to_owned()).collect()
}

/// Each step of a change is told to those who watch it, whoever takes it; and what it wrote to those who watch the table's history.
#[tokio::test]
async fn changes_through_the_firewall_are_told() {
    const HISTORY: &str = "schemas/main/tables/customers/history";
    let (guard, server) = served_on(SEEN, "default", Ticking::default());
    let mut client = Client::connect(server.clone());
    client.initialize().await;
    let snapshot = client
        .call("create_snapshot", json!({"name": "then"}))
        .await;
    assert_eq!(snapshot["structuredContent"]["snapshot"], "then");
    for path in ["changes", "receipts", "snapshots", HISTORY] {
        subscribe(&mut client, path).await;
    }
    assert_eq!(next(&mut client, QUIET).await, None);
    let sql = "INSERT INTO customers VALUES (2, 'Grace Hopper')";
    let proposed = client
        .call("propose_change", json!({"statements": [{"sql": sql}]}))
        .await;
    let id = proposed["structuredContent"]["change"].as_str().unwrap();
    hears(&mut client, &["/changes"]).await;
    let change = format!("changes/{id}");
    subscribe(&mut client, &change).await;
    assert_eq!(read(&mut client, &change).await["state"], "proposed");
    let listed = read(&mut client, "changes").await;
    assert_eq!(listed["changes"][0]["change"], id, "{listed}");
    // Somewhere else, by the same principal.
    let session = Session::new(Principal::new("Agent", "default")).over(Transport::Stdio);
    let call = || ChangeCall::new(&session);
    guard.validate_change(id, call()).await.unwrap();
    let of_change = format!("/{change}");
    hears(&mut client, &["/changes", &of_change]).await;
    guard.commit_change(id, call()).await.unwrap();
    let of_table = format!("/{HISTORY}");
    hears(
        &mut client,
        &["/changes", &of_change, "/receipts", &of_table],
    )
    .await;
    let receipts = read(&mut client, "receipts").await;
    let receipt = receipts["receipts"][0]["id"].as_str().unwrap().to_owned();
    let one = read(&mut client, &format!("receipts/{receipt}")).await;
    assert_eq!(one["change"], id, "{one}");
    let history = read(&mut client, HISTORY).await;
    let row = &history["history"]["rows"][0];
    assert_eq!(row["after"], "Grace Hopper", "{history}");
    assert_eq!(row["change"], "insert");
    client.call("create_snapshot", json!({"name": "now"})).await;
    hears(&mut client, &["/snapshots"]).await;
    let snapshots = read(&mut client, "snapshots").await;
    assert_eq!(snapshots["snapshots"][0]["snapshot"], "now");
    client.stop().await;
}

/// Who may know of none of it hears of none of it, and has no such resources.
#[tokio::test]
async fn changes_of_others_are_not_told() {
    let (guard, server) = served_on(SEEN, "nobody", Ticking::default());
    let mut client = Client::connect(server);
    client.initialize().await;
    let policy = json!({"uri": format!("{ROOT}/policy")});
    client.request("resources/subscribe", policy).await;
    for path in [
        "changes",
        "changes/c",
        "receipts",
        "schemas/main/tables/customers/history",
    ] {
        let uri = json!({"uri": format!("{ROOT}/{path}")});
        let error = client.error("resources/subscribe", uri.clone()).await;
        assert_eq!(error["code"], -32002, "{path}: {error}");
    }
    let session = Session::new(Principal::new("Agent", "default"));
    let sql = "INSERT INTO customers VALUES (2, 'Grace Hopper')";
    let statements = [(sql.to_owned(), palisade::value::Params::None)];
    let call = || ChangeCall::new(&session);
    let proposed = guard
        .propose_change(ChangeProposal::new(&statements), call())
        .await;
    let id = proposed.unwrap().change;
    guard.validate_change(&id, call()).await.unwrap();
    guard.commit_change(&id, call()).await.unwrap();
    assert_eq!(next(&mut client, QUIET).await, None);
    client.stop().await;
}
