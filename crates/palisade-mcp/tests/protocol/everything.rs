//! All that a server offers, whatever it is, gives nothing to a principal that may see nothing. What is hidden is answered as what is absent.
//!
//! Each test asks the server what there is. What it does not know how to call fails it: write down the call where it says so.

use std::sync::Arc;

use palisade::{
    change::ChangeStore,
    firewall::Firewall,
    guard::{Backend as _, Guard},
    host::Host,
    past::{HistoryOrder, LabelStore},
    policy::{PolicyFile, PolicySources},
    session::Principal,
    tool_names::TOOLS,
};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use palisade_state::{ApprovalOptions, ApprovalStore};
use serde_json::{Value, json};

use crate::{Client, Records, TestHost};

pub(crate) const SEEN: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, fullname TEXT NOT NULL);
INSERT INTO customers VALUES (1, 'Ada Lovelace');
";

/// What no principal may see. Both servers have it, or one of them.
const HIDDEN: &str = "
CREATE TABLE vault (id INTEGER PRIMARY KEY, combination TEXT);
INSERT INTO vault VALUES (1, '12-34-56');
";

const POLICIES: &str = r#"
permit (principal == Agent::"default", action in [Action::"select", Action::"discover"], resource == Table::"main.customers");
permit (principal == Agent::"default", action in Action::"read", resource in Table::"main.customers");
permit (principal == Agent::"default", action in [Action::"insert", Action::"delete"], resource == Table::"main.customers");
permit (principal == Agent::"default", action == Action::"write", resource in Table::"main.customers");
permit (principal == Agent::"default", action in [Action::"see", Action::"change", Action::"add"], resource);
permit (principal == Agent::"default", action in [Action::"run", Action::"approve"], resource);
"#;

const TEMPLATES: &str = r#"
[[template]]
name = "by-id"
description = "One of them."
sql = "SELECT fullname FROM customers WHERE id = ?1"
parameters = [{ name = "id", type = "integer" }]
tool = true
"#;

/// What a principal that may see nothing reads nowhere.
const MARKERS: [&str; 7] = [
    "customers",
    "fullname",
    "Lovelace",
    "combination",
    "12-34-56",
    "by-id",
    "One of them",
];

fn sources(more: &str) -> PolicySources {
    PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: format!("{POLICIES}{more}"),
        }],
        templates: Some(TEMPLATES.to_owned()),
        ..PolicySources::default()
    }
}

/// `script` with the history of each table that it makes.
fn with_history(script: &str) -> String {
    let backend = SqliteBackend::in_memory(script, "desk").unwrap();
    // None is kept of the engine's own tables.
    let tables = backend.catalog().relations().iter();
    let enable = HistoryOrder::Enable { account: None };
    let scripts = tables.filter_map(|table| backend.write_history_script(table, &enable).ok());
    format!("{script}{}", scripts.collect::<String>())
}

fn served(script: &str, principal: &str) -> (Arc<Guard>, PalisadeServer) {
    served_on(script, principal, TestHost::default())
}

/// A server for a principal, on a host of its own.
pub(crate) fn served_on(
    script: &str,
    principal: &str,
    host: impl Host + 'static,
) -> (Arc<Guard>, PalisadeServer) {
    let script = with_history(script);
    let backend = SqliteBackend::in_memory(&script, "desk")
        .unwrap()
        .writable();
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let firewall = Firewall::builder(backend.catalog().clone(), sources(""))
        .allow_changes()
        .build();
    let guard = Guard::new(
        Arc::new(firewall.unwrap()),
        backend,
        Arc::new(host),
        Arc::new(Records::default()),
    );
    let guard = guard
        .with_labels(Arc::clone(&store) as Arc<dyn LabelStore>)
        .with_changes(store as Arc<dyn ChangeStore>);
    let guard = Arc::new(guard);
    let options = ServeOptions::new(Principal::new("Agent", principal), "desk").writable();
    let server = PalisadeServer::new(Arc::clone(&guard), options);
    (guard, server)
}

/// A call of each tool that there is, about what is hidden.
fn call_of(tool: &str) -> Value {
    let sql = "SELECT id FROM vault";
    match tool {
        "describe_table" | "list_history" => json!({"table": "vault"}),
        "approve_change" => json!({"change": "c", "preview": "p"}),
        "commit_change" | "compensate_change" | "inspect_change" | "reject_change"
        | "validate_change" => json!({"change": "c"}),
        "propose_change" => json!({"statements": [{"sql": "DELETE FROM vault"}]}),
        "list_changes" | "list_receipts" | "list_snapshots" => json!({}),
        "create_snapshot" | "delete_snapshot" => json!({"name": "then"}),
        "diff_table" => json!({"table": "vault", "from": "then"}),
        "revert_table" => json!({"table": "vault", "to": "then"}),
        "trace" => json!({"table": "vault", "key": {"id": 1}}),
        "execute" => json!({"sql": "DELETE FROM vault"}),
        "explain_query" | "policy_test" | "query" => json!({"sql": sql}),
        "list_databases" | "list_schemas" | "policy_explain" | "list_templates" => json!({}),
        "list_tables" | "list_views" => json!({"pattern": "v*"}),
        "run_template" => json!({"template": "hidden", "params": {"id": 1}}),
        "schema_dump" => json!({"pattern": "v*"}),
        "search_objects" => json!({"pattern": "combination"}),
        "by_id" => json!({"params": {"id": 1}}),
        other => panic!("the tool `{other}` is new: write down how it is called about `vault`"),
    }
}

/// The URI of each template that there is, of what is hidden.
fn uri_of(template: &str) -> String {
    match template {
        "palisade://databases/{connection}/schemas{?cursor}"
        | "palisade://databases/{connection}/schemas/{schema}/tables{?cursor}"
        | "palisade://databases/{connection}/schemas/{schema}/tables/{table}{?cursor}"
        | "palisade://databases/{connection}/policy{?cursor}"
        | "palisade://databases/{connection}/schemas/{schema}/tables/{table}/history"
        | "palisade://databases/{connection}/snapshots"
        | "palisade://databases/{connection}/changes"
        | "palisade://databases/{connection}/changes/{change}"
        | "palisade://databases/{connection}/receipts"
        | "palisade://databases/{connection}/receipts/{receipt}" => template
            .replace("{connection}", "desk")
            .replace("{schema}", "main")
            .replace("{table}", "vault")
            .replace("{change}", "c")
            .replace("{receipt}", "r")
            .replace("{?cursor}", ""),
        other => panic!("the resource template `{other}` is new: write down how it is read"),
    }
}

/// What each argument of a prompt may be.
fn argument_of(argument: &str) -> &'static str {
    match argument {
        "question" => "What is in the vault?",
        "table" => "vault",
        "task" => "Empty the vault",
        "code" => "policy.no-permit",
        other => panic!("the argument `{other}` is new: write down what it may be"),
    }
}

fn items(list: &Value, key: &str) -> Vec<Value> {
    list[key].as_array().unwrap().clone()
}

fn text(of: &Value) -> String {
    of.as_str().unwrap().to_owned()
}

/// Every request that there is, by what a server that hides nearly nothing lists.
async fn requests() -> Vec<(&'static str, Value)> {
    let (_, server) = served(&format!("{SEEN}{HIDDEN}"), "default");
    let mut client = Client::connect(server);
    let info = client.initialize().await;
    let kinds: Vec<&String> = info["capabilities"].as_object().unwrap().keys().collect();
    assert_eq!(
        kinds,
        ["completions", "prompts", "resources", "tools"],
        "a capability is new: list what it offers here"
    );
    let mut all = Vec::new();
    for method in [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ] {
        all.push((method, json!({})));
    }
    let tools = items(&client.request("tools/list", json!({})).await, "tools");
    let tools: Vec<String> = tools.iter().map(|tool| text(&tool["name"])).collect();
    let is_missing = |name: &&&str| !tools.iter().any(|tool| tool == *name);
    let missing: Vec<&&str> = TOOLS.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "not tried: {missing:?}");
    for name in tools {
        let arguments = call_of(&name);
        all.push(("tools/call", json!({"name": name, "arguments": arguments})));
    }
    let mut uris = Vec::new();
    let listed = client.request("resources/list", json!({})).await;
    uris.extend(
        items(&listed, "resources")
            .iter()
            .map(|one| text(&one["uri"])),
    );
    // A table that exists stands there, to whom it does.
    assert!(uris.iter().any(|uri| uri.ends_with("/tables/customers")));
    let listed = client.request("resources/templates/list", json!({})).await;
    for template in items(&listed, "resourceTemplates") {
        let template = text(&template["uriTemplate"]);
        uris.push(uri_of(&template));
        for variable in ["connection", "schema", "table", "change", "receipt"] {
            if template.contains(&format!("{{{variable}}}")) {
                for begun in ["", "v", "c"] {
                    all.push((
                        "completion/complete",
                        json!({"ref": {"type": "ref/resource", "uri": template},
                            "argument": {"name": variable, "value": begun},
                            "context": {"arguments": {"connection": "desk", "schema": "main"}}}),
                    ));
                }
            }
        }
    }
    for uri in uris {
        // What the denied principal is not shown by name, it can still ask for.
        all.push(("resources/read", json!({"uri": uri})));
        all.push(("resources/subscribe", json!({"uri": uri})));
    }
    for prompt in items(&client.request("prompts/list", json!({})).await, "prompts") {
        let name = text(&prompt["name"]);
        let mut arguments = json!({});
        for argument in prompt["arguments"].as_array().into_iter().flatten() {
            let argument = text(&argument["name"]);
            arguments[&argument] = json!(argument_of(&argument));
            all.push((
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": name},
                    "argument": {"name": argument, "value": ""}}),
            ));
        }
        all.push(("prompts/get", json!({"name": name, "arguments": arguments})));
    }
    client.stop().await;
    all
}

/// The answers of a server to `requests`, as they stand on the line.
async fn answers(server: PalisadeServer, requests: &[(&str, Value)]) -> Vec<String> {
    let mut client = Client::connect(server);
    client.initialize().await;
    let mut lines = Vec::new();
    for (method, params) in requests {
        let id = client.send_request(method, params.clone()).await;
        lines.push(client.receive_line(id).await);
    }
    client.stop().await;
    lines
}

/// What a principal gets that no policy permits anything.
#[tokio::test]
async fn a_denied_principal_gets_nothing() {
    let requests = requests().await;
    assert!(requests.len() > 50);
    let (_, server) = served(&format!("{SEEN}{HIDDEN}"), "nobody");
    let answers = answers(server, &requests).await;
    for ((method, params), answer) in requests.iter().zip(&answers) {
        // What was asked is said again.
        let asked = params.to_string();
        for marker in MARKERS {
            let is_told = answer.contains(marker) && !asked.contains(marker);
            assert!(!is_told, "{method} {asked} tells `{marker}`: {answer}");
        }
    }
    // It could have failed: to another each of the columns is told by something.
    let (_, server) = served(&format!("{SEEN}{HIDDEN}"), "default");
    let answers = self::answers(server, &requests).await;
    for marker in ["fullname", "Lovelace", "by-id", "One of them"] {
        assert!(
            answers.iter().any(|answer| answer.contains(marker)),
            "{marker}"
        );
    }
}

/// A hidden table and an absent one get the same bytes, by everything that there is.
#[tokio::test]
async fn what_is_hidden_is_answered_as_what_is_absent() {
    let requests = requests().await;
    for principal in ["default", "nobody"] {
        let (_, hidden) = served(&format!("{SEEN}{HIDDEN}"), principal);
        let (_, absent) = served(SEEN, principal);
        let hidden = answers(hidden, &requests).await;
        let absent = answers(absent, &requests).await;
        for ((hidden, absent), (method, params)) in hidden.iter().zip(&absent).zip(&requests) {
            assert_eq!(hidden, absent, "{principal} {method} {params}");
        }
    }
}

/// The lines that come until the client has been quiet for longer than a server takes to look.
async fn heard(client: &mut Client) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let wait = std::time::Duration::from_millis(900);
    while let Ok(line) = tokio::time::timeout(wait, client.read.next_line()).await {
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        all.push((text(&message["method"]), uri.to_owned()));
    }
    all.sort();
    all
}

/// Who may see nothing hears of nothing; who may see something hears of that alone.
#[tokio::test]
async fn notifications_tell_of_what_is_visible() {
    const POLICY: &str = "palisade://databases/desk/policy";
    const CUSTOMERS: &str = "palisade://databases/desk/schemas/main/tables/customers";
    const SCHEMAS: &str = "palisade://databases/desk/schemas";
    let updated = |uri: &str| ("notifications/resources/updated".to_owned(), uri.to_owned());
    let list = |of: &str| (format!("notifications/{of}/list_changed"), String::new());
    let script = format!("{SEEN}{HIDDEN}");
    let mask = r#"@mask("null") forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.fullname");"#;
    let other = r#"forbid (principal == Agent::"other", action, resource);"#;
    let vault = r#"permit (principal == Agent::"default", action == Action::"discover", resource == Table::"main.vault");"#;
    let run = r#"forbid (principal, action == Action::"run", resource);"#;
    let (guard, server) = served(&script, "default");
    let (denied_guard, denied) = served(&script, "nobody");
    let mut newest = Client::connect(server.clone());
    let (mut client, mut denied) = (Client::connect(server), Client::connect(denied));
    for (client, uris) in [
        (&mut client, &[POLICY, CUSTOMERS, SCHEMAS][..]),
        (&mut denied, &[POLICY, SCHEMAS]),
    ] {
        client.initialize().await;
        for uri in uris {
            client
                .request("resources/subscribe", json!({"uri": uri}))
                .await;
        }
        assert_eq!(heard(client).await, []);
    }
    // The newest revision asks once for all.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let hidden = "palisade://databases/desk/schemas/main/tables/vault";
    let read = json!({"uri": hidden, "_meta": meta});
    let error = newest.error("resources/read", read).await;
    assert_eq!(error["code"], -32602, "{error}");
    let wanted =
        json!({"resourceSubscriptions": [CUSTOMERS, hidden], "resourcesListChanged": true});
    let listen = json!({"notifications": wanted, "_meta": meta});
    newest.send_request("subscriptions/listen", listen).await;
    let acknowledged = "notifications/subscriptions/acknowledged".to_owned();
    assert_eq!(heard(&mut newest).await, [(acknowledged, String::new())]);
    for (more, expected) in [
        (mask, vec![updated(POLICY), updated(CUSTOMERS)]),
        // For somebody else.
        (other, vec![updated(POLICY), updated(CUSTOMERS)]),
        (
            vault,
            vec![list("resources"), updated(SCHEMAS), updated(POLICY)],
        ),
        (
            run,
            vec![
                list("resources"),
                list("tools"),
                updated(SCHEMAS),
                updated(POLICY),
            ],
        ),
    ] {
        guard.reload(&sources(more)).await.unwrap();
        denied_guard.reload(&sources(more)).await.unwrap();
        let (heard, nothing, newer) =
            tokio::join!(heard(&mut client), heard(&mut denied), heard(&mut newest));
        let mut expected = expected;
        expected.sort();
        assert_eq!(heard, expected, "{more}");
        // It did not ask for tools, policy and schemas; the other did not for the vault.
        let asked = |told: &(String, String)| *told == list("resources") || told.1 == CUSTOMERS;
        assert!(
            newer
                .iter()
                .filter(|told| told.1 != hidden)
                .eq(expected.iter().filter(|told| asked(told)))
        );
        let comes_or_goes = expected.contains(&list("resources"));
        assert_eq!(newer.contains(&updated(hidden)), comes_or_goes, "{more}");
        assert_eq!(nothing, [], "{more}");
    }
    // What is given up is told no more.
    for uri in [POLICY, SCHEMAS] {
        client
            .request("resources/unsubscribe", json!({"uri": uri}))
            .await;
    }
    guard.reload(&sources(mask)).await.unwrap();
    let mut expected = [list("tools"), updated(CUSTOMERS)];
    expected.sort();
    assert_eq!(heard(&mut client).await, expected);
}
