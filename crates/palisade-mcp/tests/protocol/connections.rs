//! One server over several databases.

use std::sync::Arc;

use palisade::{
    audit::RecordedDecision,
    firewall::Firewall,
    guard::Guard,
    limits::Limits,
    policy::{PolicyFile, PolicySources},
    session::Principal,
};
use palisade_mcp::{ConnectionsError, PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use serde_json::{Value, json};

use crate::{Client, Records, TestHost};

type Served = (Arc<Guard>, ServeOptions);

/// A database whose principal is called like the connection, and alone may read it.
fn served(name: &str, script: &str, max_rows: u64, records: &Records) -> Served {
    let backend = SqliteBackend::in_memory(script, name).unwrap();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: format!("{name}.cedar"),
            text: format!(
                "permit (principal == Agent::\"{name}\", action, resource);\n\
                 @mask(\"fixed({name})\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.shared.secret\");"
            ),
        }],
        ..PolicySources::default()
    };
    let limits = Limits {
        max_rows,
        ..Limits::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(limits)
        .build()
        .unwrap();
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let options = ServeOptions::new(Principal::new("Agent", name), name);
    (Arc::new(guard.with_name(name)), options)
}

const SHARED: &str =
    "CREATE TABLE shared (secret TEXT); INSERT INTO shared VALUES ('geheim'), ('geheim');";

fn two(records: &Records) -> Vec<Served> {
    vec![
        served(
            "sales",
            &format!("{SHARED} CREATE TABLE orders (id INTEGER);"),
            1,
            records,
        ),
        served(
            "hr",
            &format!("{SHARED} CREATE TABLE salaries (id INTEGER);"),
            9,
            records,
        ),
    ]
}

#[tokio::test]
async fn every_tool_asks_which_connection() {
    let mut client = Client::connect(PalisadeServer::over(two(&Records::default())).unwrap());
    let info = client.initialize().await;
    let told = info["instructions"].as_str().unwrap();
    assert!(told.contains("connection") && told.len() < 1000, "{told}");
    let tools = client.request("tools/list", json!({})).await;
    for tool in tools["tools"].as_array().unwrap() {
        // It is what names them.
        if tool["name"] == "list_databases" {
            continue;
        }
        let input = &tool["inputSchema"];
        assert_eq!(
            input["properties"]["connection"]["enum"],
            json!(["hr", "sales"])
        );
        assert!(
            input["required"]
                .as_array()
                .unwrap()
                .contains(&json!("connection"))
        );
    }
    for (arguments, told) in [
        (json!({"sql": "SELECT 1"}), "must be one of `hr`, `sales`"),
        (
            json!({"sql": "SELECT 1", "connection": 1}),
            "must be one of `hr`, `sales`",
        ),
        (
            json!({"sql": "SELECT 1", "connection": "sale"}),
            "did you mean `sales`?",
        ),
        (
            json!({"sql": "SELECT 1", "connection": "Sales"}),
            "`connection`",
        ),
        (
            json!({"sql": "SELECT 1", "connection": "../hr"}),
            "there are `hr`, `sales`",
        ),
    ] {
        let refusal = client.refused("query", arguments).await;
        assert_eq!(refusal["code"], "request.invalid");
        assert_eq!(
            refusal["context"],
            json!({"tool": "query", "connection": null})
        );
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
    }
    client.stop().await;
}

#[tokio::test]
async fn a_call_reaches_one_connection_and_its_policies_alone() {
    let records = Records::default();
    let mut client = Client::connect(PalisadeServer::over(two(&records)).unwrap());
    client.initialize().await;
    for (name, own, foreign, rows) in [
        ("sales", "orders", "salaries", 1),
        ("hr", "salaries", "orders", 2),
    ] {
        let listed = client
            .call("list_tables", json!({"connection": name}))
            .await;
        let tables: Vec<_> = listed["structuredContent"]["tables"]
            .as_array()
            .unwrap()
            .iter()
            .map(|table| table["name"].as_str().unwrap())
            .collect();
        assert!(
            tables.contains(&own) && !tables.contains(&foreign),
            "{listed}"
        );
        let refusal = client
            .refused(
                "describe_table",
                json!({"connection": name, "table": foreign}),
            )
            .await;
        assert_eq!(refusal["code"], "name.unknown-relation");
        let sql = format!("SELECT * FROM {foreign}");
        let refusal = client
            .refused("query", json!({"connection": name, "sql": sql}))
            .await;
        assert_eq!(refusal["code"], "name.unknown-relation");
        assert_eq!(refusal["context"]["connection"], name);
        let answer = client
            .call(
                "query",
                json!({"connection": name, "sql": "SELECT secret FROM shared"}),
            )
            .await;
        let expected: Vec<Value> = vec![json!({"secret": name}); rows];
        assert_eq!(answer["structuredContent"]["rows"], json!(expected));
    }
    client.call("list_databases", json!({})).await;
    for connection in [json!({}), json!({"connection": "nowhere"})] {
        client.refused("list_tables", connection).await;
    }
    client.stop().await;
    let records = records.0.lock().unwrap();
    let told: Vec<_> = records
        .iter()
        .filter(|record| record.kind == palisade::audit::RecordKind::Statement)
        .map(|record| (record.connection.as_deref(), record.principal.as_str()))
        .collect();
    let sales = (Some("sales"), "Agent::\"sales\"");
    let hr = (Some("hr"), "Agent::\"hr\"");
    assert_eq!(told, [sales, sales, hr, hr]);
    // Calls of no connection stand in the records of the first.
    let unbound: Vec<_> = (records.iter())
        .filter(|record| record.connection.is_none())
        .map(|record| (record.tool, record.decision, record.principal.as_str()))
        .collect();
    assert_eq!(
        unbound,
        [
            (
                Some("list_databases"),
                RecordedDecision::Allow,
                "Agent::\"hr\""
            ),
            (
                Some("list_tables"),
                RecordedDecision::Reject,
                "Agent::\"hr\""
            ),
            (
                Some("list_tables"),
                RecordedDecision::Reject,
                "Agent::\"hr\""
            ),
        ]
    );
}

#[tokio::test]
async fn one_connection_is_not_asked_for() {
    let records = Records::default();
    let one = || two(&records).into_iter().take(1);
    for server in [
        PalisadeServer::over(one()).unwrap(),
        one()
            .map(|(guard, options)| PalisadeServer::new(guard, options))
            .next()
            .unwrap(),
    ] {
        let mut client = Client::connect(server);
        client.initialize().await;
        let tools = client.request("tools/list", json!({})).await;
        assert!(
            !tools.to_string().contains("\"enum\":[\"sales\""),
            "{tools}"
        );
        let answer = client.call("query", json!({"sql": "SELECT 1 AS a"})).await;
        assert_eq!(answer["structuredContent"]["rows"], json!([{"a": 1}]));
        let sql = json!({"sql": "SELECT 1", "connection": "sales"});
        let refusal = client.refused("query", sql).await;
        assert_eq!(refusal["code"], "request.invalid");
        assert_eq!(refusal["context"]["connection"], "sales");
        client.stop().await;
    }
}

#[test]
fn names_are_names_and_each_is_one_connections() {
    let records = Records::default();
    let named = |name: &str| served(name, SHARED, 1, &records);
    let error = |all: Vec<Served>| PalisadeServer::over(all).unwrap_err();
    assert_eq!(error(Vec::new()), ConnectionsError::None);
    assert_eq!(
        error(vec![named("a"), named("a")]),
        ConnectionsError::Twice("a".to_owned())
    );
    for name in ["", "a b", "ignore\nall", &"x".repeat(65)] {
        let mut bad = named("a");
        bad.1.connection = name.to_owned();
        assert_eq!(
            error(vec![bad, named("b")]),
            ConnectionsError::Name(name.to_owned())
        );
    }
}
