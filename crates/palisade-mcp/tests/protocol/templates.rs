//! Templates as tools: listed where there are any, run by name, with every parameter given.

use std::sync::Arc;

use palisade::{
    firewall::Firewall,
    guard::Guard,
    policy::{PolicyFile, PolicySources},
    session::Principal,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use serde_json::{Value, json};

use crate::{Client, Records, TestHost};

const POLICIES: &str = r#"
permit (principal, action == Action::"run", resource == Template::"by-owner");
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource)
when { context has template };
"#;

const TEMPLATES: &str = r#"
[[template]]
name = "by-owner"
description = "The tickets of one owner."
sql = "SELECT id, subject FROM tickets WHERE owner = ?1 AND id > ?2 ORDER BY id"
parameters = [{ name = "owner", type = "text" }, { name = "after", type = "integer" }]

[[template]]
name = "all"
description = "Nobody's."
sql = "SELECT * FROM tickets"
"#;

fn server(records: &Records) -> PalisadeServer {
    let script = "CREATE TABLE tickets (id INTEGER, owner TEXT, subject TEXT);
        INSERT INTO tickets VALUES (1, 'ann', 'one'), (2, 'bob', 'two'), (3, 'ann', 'three');";
    let backend = SqliteBackend::in_memory(script, "desk").unwrap();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: POLICIES.to_owned(),
        }],
        templates: Some(TEMPLATES.to_owned()),
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap()),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let options = ServeOptions {
        transport: palisade::session::Transport::Stdio,
        writable: false,
        principal: Principal::new("Agent", "a").into(),
        connection: "desk".to_owned(),
    };
    PalisadeServer::new(Arc::new(guard), options)
}

#[tokio::test]
async fn templates_are_listed_and_run() {
    let records = Records::default();
    let mut client = Client::connect(server(&records));
    client.initialize().await;
    let tools = client.request("tools/list", json!({})).await;
    let names: Vec<&Value> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert!(names.contains(&&json!("list_templates")) && names.contains(&&json!("run_template")));
    let listed = client.call("list_templates", json!({})).await;
    assert_eq!(
        listed["structuredContent"]["templates"],
        json!([{
            "name": "by-owner", "description": "The tickets of one owner.",
            "parameters": [
                {"name": "owner", "type": "text", "nullable": false, "description": ""},
                {"name": "after", "type": "integer", "nullable": false, "description": ""},
            ],
        }])
    );
    let run = json!({"template": "by-owner", "params": {"owner": "ann", "after": 0}, "limit": 1});
    let answer = client.call("run_template", run).await["structuredContent"].clone();
    assert_eq!(answer["rows"], json!([{"id": 1, "subject": "one"}]));
    assert_eq!(answer["truncated"], true);
    for (arguments, code, told) in [
        (
            json!({"template": "all"}),
            "template.unknown",
            "there is no template `all`",
        ),
        (
            json!({"template": "by-owner"}),
            "parameter.mismatch",
            "`owner` is missing",
        ),
        (
            json!({"template": "by-owner", "params": {"owner": "ann", "after": "0"}}),
            "parameter.mismatch",
            "`after` is integer",
        ),
        (
            json!({"template": "by-owner", "params": {"owner": ["ann"]}}),
            "request.invalid",
            "`params`",
        ),
        (
            json!({"template": "by-owner", "sql": "SELECT 1"}),
            "request.invalid",
            "sql",
        ),
    ] {
        let refusal = client.refused("run_template", arguments).await;
        assert_eq!(refusal["code"], code, "{refusal}");
        assert!(
            refusal["message"].as_str().unwrap().contains(told),
            "{refusal}"
        );
    }
    // What a template may, a statement may not.
    let refusal = client
        .refused("query", json!({"sql": "SELECT subject FROM tickets"}))
        .await;
    assert_eq!(refusal["code"], "name.unknown-relation");
    client.stop().await;
}
