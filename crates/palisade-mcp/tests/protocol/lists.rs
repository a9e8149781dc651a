//! Tools that list: every entry can be reached, none that is hidden is told of. And the list of tools itself.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use palisade::{firewall::Firewall, guard::Guard, policy::PolicySources, session::Principal};
use palisade_mcp::{PalisadeServer, ServeOptions, ToolSet};
use palisade_sqlite::SqliteBackend;
use serde_json::{Value, json};

use crate::{Client, Records, TestHost, kinds::tokens, sqlite};

const TEMPLATES: &str =
    "[[template]]\nname = \"t\"\ndescription = \"d\"\nsql = \"SELECT 1\"\nparameters = []\n";

/// A server over a database of `script` that may change what `policies` permit.
fn server(script: &str, policies: &str, templates: bool) -> PalisadeServer {
    let backend = SqliteBackend::in_memory(script, "test").unwrap();
    let sources = PolicySources {
        templates: templates.then(|| TEMPLATES.to_owned()),
        ..PolicySources::from_cedar("p.cedar", policies)
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources).allow_changes();
    let guard = Guard::new(
        Arc::new(firewall.build().unwrap()),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(Records::default()),
    );
    let options = ServeOptions::new(Principal::new("Agent", "default"), "test").writable();
    PalisadeServer::new(Arc::new(guard), options)
}

async fn connect(server: PalisadeServer) -> Client {
    let mut client = Client::connect(server);
    client.initialize().await;
    client
}

/// The entries of all pages, each page within what an answer may cost.
async fn all_pages(client: &mut Client, tool: &str, mut arguments: Value, key: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let result = client.call(tool, arguments.clone()).await;
        let page = &result["structuredContent"];
        for copy in [page.to_string(), result["content"][0]["text"].to_string()] {
            assert!(
                copy.chars().count() <= 40_000 && tokens(&copy) <= 10_000,
                "{tool}"
            );
        }
        all.extend(page[key].as_array().unwrap().iter().cloned());
        assert_eq!(page["truncated"], page.get("next_cursor").is_some());
        match page.get("next_cursor") {
            Some(cursor) => arguments["cursor"] = cursor.clone(),
            None => return all,
        }
    }
}

#[tokio::test]
async fn every_table_is_reached_page_by_page() {
    let mut script = String::new();
    for n in 0..1500 {
        script.push_str(&format!("CREATE TABLE orders_of_region_{n:04} (id INTEGER PRIMARY KEY, amount REAL, note TEXT);\n"));
    }
    script.push_str("CREATE TABLE hidden_orders (id INTEGER);");
    let policies = "permit (principal, action, resource) unless { resource is Table && resource == Table::\"main.hidden_orders\" };";
    let mut client = connect(server(&script, policies, false)).await;
    for (detail, pattern, entries) in [
        ("names", "orders*", 1500),
        ("summary", "ORDERS", 1500),
        ("full", "*_01??", 100),
    ] {
        let arguments = json!({"detail": detail, "pattern": pattern});
        let all = all_pages(&mut client, "list_tables", arguments, "tables").await;
        let names: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!((all.len(), names.len()), (entries, entries), "{detail}");
        assert!(!names.iter().any(|name| name.contains("hidden")));
    }
    let search = json!({"pattern": "amount"});
    let found = client.call("search_objects", search).await["structuredContent"].clone();
    assert_eq!(found["object_count"], 1500);
    let told = client.call("policy_explain", json!({})).await["structuredContent"].clone();
    assert_eq!(told["table_count"], 1500);
    let first = &told["tables"][0];
    assert_eq!(first["assigned"], json!(["id", "amount", "note"]));
    assert_eq!(
        first["changes"],
        json!(["insert", "update", "delete", "truncate"])
    );

    // A cursor is of its own list.
    let page = client
        .call("list_tables", json!({"pattern": "orders"}))
        .await;
    let page = &page["structuredContent"];
    assert_eq!(page["table_count"], 1500);
    assert_eq!(page["scope"], json!({"pattern": "orders"}));
    let cursor = page["next_cursor"].as_str().unwrap();
    for arguments in [
        json!({"cursor": cursor}),
        json!({"pattern": "orders", "detail": "names", "cursor": cursor}),
        json!({"pattern": "orders", "cursor": "0.00"}),
        json!({"pattern": "orders", "cursor": format!("1{cursor}")}),
    ] {
        let refusal = client.refused("list_tables", arguments).await;
        assert_eq!(refusal["code"], "request.invalid");
    }
    client.stop().await;
}

/// Each tool that tells of names says the same of a database in which what is hidden is not there.
#[tokio::test]
async fn hidden_and_absent_give_the_same_lists() {
    let visible = "CREATE TABLE tickets (id INTEGER PRIMARY KEY, subject TEXT";
    let hidden = "CREATE TABLE vault (id INTEGER PRIMARY KEY, secret TEXT); CREATE VIEW vault_view AS SELECT secret FROM vault;";
    let policies = "permit (principal, action, resource);\n\
                    forbid (principal, action, resource in Table::\"main.vault\");\n\
                    forbid (principal, action in Action::\"read\", resource == Column::\"main.tickets.secret_note\");";
    let with = format!("{visible}, secret_note TEXT); {hidden}");
    let without = format!("{visible});");
    let lenient = "permit (principal, action, resource);";
    let mut with = connect(server(&with, policies, false)).await;
    let mut without = connect(server(&without, lenient, false)).await;
    for (tool, arguments) in [
        ("list_databases", json!({})),
        ("list_schemas", json!({})),
        ("list_tables", json!({})),
        ("list_tables", json!({"detail": "full"})),
        ("list_tables", json!({"pattern": "vault"})),
        (
            "list_tables",
            json!({"pattern": "v?ult*", "detail": "names"}),
        ),
        ("list_views", json!({})),
        ("search_objects", json!({"pattern": "secret"})),
        ("search_objects", json!({"pattern": "*", "kind": "column"})),
        ("search_objects", json!({"pattern": "vault"})),
        ("policy_explain", json!({})),
        ("describe_table", json!({"table": "vault"})),
        ("describe_table", json!({"table": "tickets"})),
    ] {
        let told = with.call(tool, arguments.clone()).await;
        let other = without.call(tool, arguments.clone()).await;
        assert_eq!(told, other, "{tool} {arguments}");
        assert!(
            !told.to_string().contains("secret_note"),
            "{tool} {arguments}: {told}"
        );
    }
    with.stop().await;
    without.stop().await;
}

/// What the policies say of a principal is told whole: each mask's kind, and what waits for a person.
#[tokio::test]
async fn masks_and_approvals_are_explained() {
    let script = "CREATE TABLE people (id INTEGER PRIMARY KEY, mail TEXT, phone TEXT, pay INTEGER); CREATE VIEW mails AS SELECT mail FROM people;";
    let policies = "permit (principal, action, resource) unless { resource is Column && [Column::\"main.people.mail\", Column::\"main.people.phone\", Column::\"main.people.pay\"].contains(resource) };
        @mask(\"email\") permit (principal, action == Action::\"read_masked\", resource == Column::\"main.people.mail\");
        @mask(\"last(2)\") permit (principal, action == Action::\"read_masked\", resource == Column::\"main.people.phone\");
        permit (principal, action == Action::\"read_masked\", resource == Column::\"main.people.pay\");";
    let mut client = connect(server(script, policies, false)).await;
    let told = client.call("policy_explain", json!({})).await["structuredContent"].clone();
    client.stop().await;
    let masked = |table: &str| {
        let mut tables = told["tables"].as_array().unwrap().iter();
        tables.find(|one| one["table"] == table).unwrap()["masked"].clone()
    };
    assert_eq!(
        masked("people"),
        json!({"mail": "email", "pay": "null", "phone": "last"})
    );
    assert_eq!(masked("mails"), json!({"mail": "masked"}));
    assert_eq!(told.get("may_wait_for_approval"), None);
    for (level, action, expected) in [
        ("required", "change", json!(["change"])),
        ("operator", "see", json!(["read", "change"])),
    ] {
        let policies = format!(
            "permit (principal, action, resource) unless {{ action == Action::\"{action}\" }};
             @approval(\"{level}\") permit (principal, action == Action::\"{action}\", resource);"
        );
        let mut client = connect(server(script, &policies, false)).await;
        let told = client.call("policy_explain", json!({})).await["structuredContent"].clone();
        client.stop().await;
        assert_eq!(told["may_wait_for_approval"], expected, "{action}");
    }
}

/// What an operator switches off is neither listed nor called, nor named by a hint.
#[tokio::test]
async fn tools_are_those_of_the_set() {
    let permit = "permit (principal, action, resource);";
    let names = |list: Value| -> Vec<String> {
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let served = server("CREATE TABLE t (a);", permit, true).with_tools(ToolSet::core());
    let mut client = connect(served).await;
    let list = client.request("tools/list", json!({})).await;
    assert_eq!(
        names(list),
        [
            "describe_table",
            "execute",
            "policy_explain",
            "query",
            "search_objects"
        ]
    );
    for tool in ["list_tables", "run_template", "list_databases"] {
        let call = json!({"name": tool, "arguments": {}});
        let error = client.error("tools/call", call).await;
        assert_eq!(error["code"], -32602, "{tool}");
        // A model reads of the tools that there are.
        let told = error["message"].as_str().unwrap();
        for offered in ["`query`", "`search_objects`", "`describe_table`"] {
            assert!(told.contains(offered), "{told}");
        }
        assert!(!told.contains("list"), "{told}");
    }
    // Without `list_tables` it is this tool that lists.
    for (arguments, count) in [(json!({}), 2), (json!({"kind": "table"}), 1)] {
        let listed = client.call("search_objects", arguments).await;
        assert_eq!(listed["structuredContent"]["object_count"], count);
    }
    let refusal = client
        .refused("query", json!({"sql": "SELECT 1 FROM nowhere"}))
        .await;
    assert_eq!(
        refusal["remediation_hint"],
        "List the tables you can use with search_objects."
    );
    assert_eq!(
        refusal["next_valid_actions"],
        json!(["search_objects", "query"])
    );
    client.stop().await;
    let set = ToolSet::full().exclude("execute").unwrap();
    let mut client = connect(server("CREATE TABLE t (a);", permit, false).with_tools(set)).await;
    let list = client.request("tools/list", json!({})).await;
    assert!(!names(list).contains(&"execute".to_owned()));
    let refusal = client
        .refused("execute", json!({"sql": "DELETE FROM t"}))
        .await;
    assert_eq!(refusal["code"], "statement.not-allowed");
    let refusal = client
        .refused("query", json!({"sql": "DELETE FROM t"}))
        .await;
    assert_eq!(refusal["next_valid_actions"], json!(["query"]));
    client.stop().await;
    // Whoever may see nothing is told of nothing.
    let mut client = connect(server(
        "CREATE TABLE t (a);",
        "forbid (principal, action, resource);",
        false,
    ))
    .await;
    for (tool, arguments, key) in [
        ("list_schemas", json!({}), "schemas"),
        ("list_tables", json!({}), "tables"),
        ("list_views", json!({}), "tables"),
        ("search_objects", json!({"pattern": "*"}), "objects"),
        ("policy_explain", json!({}), "tables"),
        ("schema_dump", json!({}), "statements"),
    ] {
        let told = client.call(tool, arguments).await;
        assert_eq!(told["structuredContent"][key], json!([]), "{tool}");
    }
    client.stop().await;
}

/// What a model reads of the tools, to the letter. `PALISADE_WRITE_DOCS=1` writes it anew.
#[tokio::test]
async fn tools_cost_a_model_little() {
    let served = server(
        "CREATE TABLE t (a);",
        "permit (principal, action, resource);",
        true,
    );
    let mut client = connect(served.clone()).await;
    let all = client.request("tools/list", json!({})).await;
    client.stop().await;
    let mut client = connect(served.with_tools(ToolSet::core())).await;
    let core = client.request("tools/list", json!({})).await;
    client.stop().await;
    // As clients hand them to a model.
    let cost = |list: &Value, keys: &[&str]| -> usize {
        let tools = list["tools"].as_array().unwrap().iter();
        let parts = tools.flat_map(|tool| keys.iter().filter_map(|key| tool.get(*key)));
        let texts = parts.map(|part| match part {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        texts.map(|text| tokens(&text)).sum()
    };
    let inputs = ["name", "description", "inputSchema"];
    let both = ["name", "description", "inputSchema", "outputSchema"];
    let costs = [cost(&all, &inputs), cost(&all, &both), cost(&core, &inputs)];
    println!(
        "all {}, with output schemas {}, core {} tokens",
        costs[0], costs[1], costs[2]
    );
    assert!(
        costs[0] < 2_000 && costs[1] < 4_000 && costs[2] <= 600,
        "{costs:?}"
    );

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol/tools.json");
    let now = serde_json::to_string_pretty(&all["tools"]).unwrap() + "\n";
    if std::env::var_os("PALISADE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(
        kept == now,
        "the tools are others than in {}",
        path.display()
    );
    for tool in all["tools"].as_array().unwrap() {
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 40_000);
        let is_loaded = tool["name"] == "query" || tool["name"] == "search_objects";
        assert_eq!(
            tool["_meta"].get("anthropic/alwaysLoad").is_some(),
            is_loaded
        );
    }
}

/// The dialect stands where a model reads it before its first statement.
#[tokio::test]
async fn the_engine_is_told() {
    let mut client = Client::start(sqlite());
    let info = client.initialize().await;
    assert!(
        info["instructions"]
            .as_str()
            .unwrap()
            .contains("the SQL of sqlite")
    );
    let listed = client.call("list_databases", json!({})).await;
    assert_eq!(
        listed["structuredContent"]["databases"],
        json!([{
            "connection": "test", "dialect": "sqlite", "changeable": false,
            "engine": listed["structuredContent"]["databases"][0]["engine"],
        }])
    );
    let version = format!("SQLite {}", palisade_sqlite::rusqlite::version());
    assert_eq!(
        listed["structuredContent"]["databases"][0]["engine"],
        version
    );
    assert!(info["instructions"].as_str().unwrap().contains(&version));
    let schemas = client.call("list_schemas", json!({})).await;
    assert_eq!(schemas["structuredContent"]["engine"], version);
    client.stop().await;
}
