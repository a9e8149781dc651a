//! Templates as tools: listed where there are any, run by name, with every parameter given.

use std::sync::Arc;

use palisade::{firewall::Firewall, guard::Guard, policy::PolicySources, session::Principal};
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
    serving(POLICIES, TEMPLATES, records)
}

fn serving(policies: &str, templates: &str, records: &Records) -> PalisadeServer {
    let (guard, options) = gate("desk", policies, templates, records);
    PalisadeServer::new(guard, options)
}

fn gate(
    name: &str,
    policies: &str,
    templates: &str,
    records: &Records,
) -> (Arc<Guard>, ServeOptions) {
    let script = "CREATE TABLE tickets (id INTEGER, owner TEXT, subject TEXT);
        INSERT INTO tickets VALUES (1, 'ann', 'one'), (2, 'bob', 'two'), (3, 'ann', 'three');";
    let backend = SqliteBackend::in_memory(script, "desk").unwrap();
    let sources = PolicySources {
        templates: Some(templates.to_owned()),
        ..PolicySources::from_cedar("p.cedar", policies)
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .allow_changes()
        .build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap()),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let options = ServeOptions::new(Principal::new("Agent", "a"), name);
    (Arc::new(guard), options)
}

/// A template whose name another connection's tool has is left out of the tools, and told to the operator.
#[test]
fn a_name_that_is_taken_is_told() {
    let templates = TEMPLATES.replacen("description", "tool = true\ndescription", 1);
    let shorter = templates.replace("by-owner", "owner");
    let policies = POLICIES.replace("by-owner", "owner");
    let records = Records::default();
    let over = |second: &str| {
        let one = gate("desk", POLICIES, &templates, &records);
        let other = gate(second, &policies, &shorter, &records);
        PalisadeServer::over([one, other]).unwrap()
    };
    assert_eq!(
        over("desk-by").list_template_clashes(),
        ["template \"owner\" of \"desk-by\": the tool `desk_by_owner` is there already"]
    );
    assert_eq!(over("other").list_template_clashes(), [""; 0]);
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
            json!({"template": "by-owner", "params": [2, "open"]}),
            "request.invalid",
            "`params` must be an object with each parameter by its name",
        ),
        (
            json!({"template": "by-owner", "sql": "SELECT 1"}),
            "request.invalid",
            "sql",
        ),
    ] {
        let refusal = client.refused("run_template", arguments).await;
        assert_eq!(refusal["code"], code, "{refusal}");
        if code == "parameter.mismatch" {
            assert_eq!(refusal["next_valid_actions"], json!(["run_template"]));
        }
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

/// No tool runs a template that changes data, so that none is told of.
#[tokio::test]
async fn a_template_that_changes_data_is_not_listed() {
    let templates = format!(
        "{TEMPLATES}\n[[template]]\nname = \"close\"\ndescription = \"Closes one.\"\n\
         sql = \"UPDATE tickets SET subject = ?1 WHERE id = ?2\"\n\
         parameters = [{{ name = \"subject\", type = \"text\" }}, {{ name = \"id\", type = \"integer\" }}]\n"
    );
    let runs = "permit (principal, action == Action::\"run\", resource);";
    let changes = "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"write\"], resource);
        permit (principal, action in [Action::\"update\", Action::\"change\"], resource);";
    // Whether policy permits the change or not.
    for policies in [format!("{runs}{changes}"), format!("{runs}{POLICIES}")] {
        let mut client = Client::connect(serving(&policies, &templates, &Records::default()));
        client.initialize().await;
        let listed = client.call("list_templates", json!({})).await;
        let listed = listed["structuredContent"]["templates"].as_array().unwrap();
        let names: Vec<&Value> = listed.iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["all", "by-owner"]);
        let run = json!({"template": "close", "params": {"subject": "x", "id": 1}});
        let refusal = client.refused("run_template", run).await;
        let code = refusal["code"].as_str().unwrap();
        assert!(
            ["statement.not-allowed", "policy.no-permit"].contains(&code),
            "{refusal}"
        );
        assert!(!refusal.to_string().contains("execute"), "{refusal}");
        client.stop().await;
    }
}

const TOOLS: &str = r#"
[[template]]
name = "by-owner"
description = "The tickets of one owner."
tool = true
sql = "SELECT id, subject FROM tickets WHERE owner = ?1 AND id > ?2 ORDER BY id"
parameters = [
    { name = "owner", type = "text", description = "Who has it." },
    { name = "after", type = "integer", nullable = true },
]

[[template]]
name = "all"
description = "Nobody's."
tool = true
sql = "SELECT * FROM tickets"
"#;

/// A template may be a tool of its own, for whoever may run it.
#[tokio::test]
async fn a_template_is_a_tool_where_it_says_so() {
    let records = Records::default();
    let mut client = Client::connect(serving(POLICIES, TOOLS, &records));
    client.initialize().await;
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(
        names.is_sorted() && names.contains(&"by_owner") && !names.contains(&"all"),
        "{names:?}"
    );
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "by_owner")
        .unwrap();
    assert_eq!(
        tool["inputSchema"]["properties"]["params"],
        json!({
            "type": "object", "additionalProperties": false, "required": ["owner", "after"],
            "properties": {
                "owner": {"type": "string", "description": "Who has it."},
                "after": {"type": ["integer", "null"]},
            },
        })
    );
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    let call = json!({"params": {"owner": "ann", "after": 1}, "format": "json"});
    let answer = client.call("by_owner", call).await;
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"id": 3, "subject": "three"}])
    );
    for (arguments, code) in [
        (json!({"params": {"owner": "ann"}}), "parameter.mismatch"),
        (
            json!({"params": {"owner": "ann", "after": 0}, "template": "all"}),
            "request.invalid",
        ),
        (
            json!({"params": {"owner": "ann", "after": 0}, "sql": "SELECT 1"}),
            "request.invalid",
        ),
        (json!({"owner": "ann", "after": 0}), "request.invalid"),
        (json!({"params": ["ann", 0]}), "request.invalid"),
    ] {
        let refusal = client.refused("by_owner", arguments).await;
        assert_eq!(refusal["next_valid_actions"], json!(["by_owner"]));
        let told = refusal["message"].as_str().unwrap();
        let names_parameters = told.contains("`params`, an object with `owner`, `after`");
        assert_eq!(names_parameters, code == "request.invalid", "{told}");
        assert_eq!(
            (&refusal["code"], &refusal["context"]["tool"]),
            (&json!(code), &json!("by_owner")),
            "{refusal}"
        );
    }
    // What may not be run is as what is not there.
    let error = async |client: &mut Client, name: &str| {
        client
            .error("tools/call", json!({"name": name, "arguments": {}}))
            .await
    };
    assert_eq!(
        error(&mut client, "all").await,
        error(&mut client, "none").await
    );
    client.stop().await;
    assert_eq!(
        records.0.lock().unwrap()[0].template.as_deref(),
        Some("by-owner")
    );
    // Who may run none is offered none of the tools for them.
    let mut client = Client::connect(serving(
        "permit (principal, action == Action::\"see\", resource);",
        TOOLS,
        &records,
    ));
    client.initialize().await;
    let listed = client.request("tools/list", json!({})).await.to_string();
    for gone in ["by_owner", "list_templates", "run_template"] {
        assert!(!listed.contains(gone), "{gone}");
    }
    client.stop().await;
}

/// A template that a person approves says so, by itself or by what its statement reads.
#[tokio::test]
async fn a_template_that_waits_says_so() {
    let waiting = async |policies: &str| {
        let records = Records::default();
        let mut client = Client::connect(serving(policies, TOOLS, &records));
        client.initialize().await;
        let listed = client.request("tools/list", json!({})).await;
        client.stop().await;
        let tools = listed["tools"].as_array().unwrap().clone();
        let waits = |tool: &&Value| tool["_meta"]["palisade/requires-approval"] == true;
        let names = tools.iter().filter(waits);
        names
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(waiting(POLICIES).await, [""; 0]);
    let run = format!(
        "@approval(\"required\") permit (principal, action == Action::\"run\", resource == Template::\"by-owner\");{POLICIES}"
    );
    assert_eq!(waiting(&run).await, ["by_owner", "run_template"]);
    let read = format!(
        "@approval(\"required\") permit (principal, action == Action::\"select\", resource) when {{ context has template }};{POLICIES}"
    );
    // That no query runs a template is a circumstance, which counts as met.
    let told = ["by_owner", "explain_query", "query", "run_template"];
    assert_eq!(waiting(&read).await, told);
}

/// No template takes a tool's name.
#[test]
fn names_of_tools_are_taken() {
    for (name, other) in [("query", "q"), ("schema-dump", "q"), ("mine", "mine")] {
        let entry = |name: &str| {
            format!(
                "[[template]]\nname = \"{name}\"\ndescription = \"d\"\ntool = true\nsql = \"SELECT 1\"\n"
            )
        };
        let backend = SqliteBackend::in_memory("CREATE TABLE t (a);", "t").unwrap();
        let sources = PolicySources {
            templates: Some(
                entry(&other.replace("mine", "m-ine").replace("m-ine", "mi_ne"))
                    + &entry(&name.replace("mine", "mi-ne")),
            ),
            ..PolicySources::default()
        };
        let failed = Firewall::builder(backend.catalog().clone(), sources).build();
        let told = failed.unwrap_err().to_string();
        assert!(
            told.contains("cannot be a tool") && told.contains("templates.toml:"),
            "{told}"
        );
    }
}
