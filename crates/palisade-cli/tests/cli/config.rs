//! `palisade config`, and how `serve` is told of its database.

use std::{collections::BTreeSet, process::Stdio};

use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

const FILE: &str = r#"
policies = "demo-policies"

[limits]
max_rows = 50

[connections.desk]
url = "sqlite:demo.db"
writable = true
"#;

#[test]
fn a_configuration_is_checked_where_it_is_wrong() {
    let desk = Desk::new();
    desk.write("palisade.toml", FILE);
    let told = desk.run(&["config", "check"]).expect_exit(0).out;
    assert_eq!(told, "`palisade.toml` is sound: one connection, `desk`\n");
    for (from, to, place, help) in [
        (
            "max_rows",
            "max_row",
            "palisade.toml:5:1",
            "did you mean `max_rows`?",
        ),
        (
            "50",
            "\"many\"",
            "palisade.toml:5:12",
            "of the kind that is expected",
        ),
        (
            "[limits]",
            "[limit]",
            "palisade.toml:4:2",
            "did you mean `limits`?",
        ),
        (
            "writable = true",
            "writable = yes",
            "palisade.toml:9:12",
            "TOML",
        ),
    ] {
        desk.write("palisade.toml", FILE.replacen(from, to, 1));
        let told = desk.run(&["config", "check"]).expect_exit(3).err;
        assert!(told.contains(place) && told.contains(help), "{to}: {told}");
        let told = desk
            .run(&["config", "check", "--format", "json"])
            .expect_exit(3)
            .out;
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["valid"], false);
        let position = format!(
            "{}:{}:{}",
            told["file"].as_str().unwrap(),
            told["line"],
            told["column"]
        );
        assert_eq!(position, place, "{told}");
        assert!(told["help"].as_str().unwrap().contains(help), "{told}");
        assert!(
            !told["message"].as_str().unwrap().contains("palisade.toml"),
            "{told}"
        );
    }
    desk.write(
        "palisade.toml",
        FILE.replace("demo-policies", "no-such-folder"),
    );
    let told = desk.run(&["config", "check"]).expect_exit(3).err;
    assert!(told.contains("no-such-folder"), "{told}");
    let told = desk
        .run(&["config", "check", "--format", "json"])
        .expect_exit(3)
        .out;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["line"], Value::Null, "{told}");
    assert!(
        told["message"].as_str().unwrap().contains("no-such-folder"),
        "{told}"
    );
    desk.run(&["config", "check", "no-such-file.toml"])
        .expect_exit(3);
}

/// What a start needs is looked for, and what is missing has its place.
#[test]
fn files_that_are_missing_are_pointed_at() {
    let desk = Desk::new();
    let write = |state: &str, database: &str| {
        desk.write(
            "palisade.toml",
            format!(
                "[approvals]\nstate = \"{state}\"\n[connections.desk]\nurl = \"sqlite:{database}\"\n"
            ),
        );
    };
    let check = ["config", "check"];
    write("state.db", "demo.db");
    desk.run(&check).expect_exit(0);
    assert!(!desk.path("state.db").exists());
    write("state.db", "nope.db");
    desk.run(&check)
        .fails(3, &["palisade.toml:4:7", "there is no file `nope.db`"]);
    write("nope/state.db", "demo.db");
    desk.run(&check)
        .fails(3, &["palisade.toml:2:9", "there is no folder `nope`"]);
    desk.run(&["serve", "--config", "palisade.toml"]).fails(
        2,
        &[
            "cannot write the state file `nope/state.db`",
            "there is no folder `nope`",
        ],
    );
    // The slashes of a URL are none of a path.
    write("state.db", "//nope.db");
    desk.run(&check)
        .fails(3, &["palisade.toml:4:7", "write `sqlite:nope.db`"]);
    desk.run(&["serve", "sqlite://demo.db"])
        .fails(2, &["write `sqlite:demo.db`"]);
}

/// The key that is meant is named, and a password is never repeated.
#[test]
fn words_for_keys_of_connections_are_understood() {
    let desk = Desk::new();
    for (line, meant) in [
        ("policy = \"geheim\"", "policies"),
        ("password = \"geheim\"", "password_env"),
        ("passwort_env = \"geheim\"", "password_env"),
        ("as = \"geheim\"", "principal"),
        ("path = \"geheim\"", "url"),
        ("database = \"geheim\"", "url"),
        ("dsn = \"postgres://ann:geheim@db/sales\"", "url"),
        ("limit = { password = \"geheim\" }", "limits"),
    ] {
        let text = format!("[connections.desk]\nurl = \"sqlite:demo.db\"\n{line}\n");
        desk.write("palisade.toml", text);
        let told = desk.run(&["config", "check"]).expect_exit(3).err;
        let help = format!("did you mean `{meant}`?");
        assert!(
            told.contains("palisade.toml:3:1") && told.contains(&help),
            "{line}: {told}"
        );
        let can_hold_password = line.contains("pass") || line.contains("://");
        assert!(!can_hold_password || !told.contains("geheim"), "{told}");
    }
}

/// The words that the parser lists where it finds another.
fn words(desk: &Desk, text: &str) -> BTreeSet<String> {
    desk.write("probe.toml", text);
    let told = desk
        .run(&["config", "check", "probe.toml"])
        .expect_exit(3)
        .err;
    let (_, listed) = told
        .split_once("one of these here: ")
        .unwrap_or_else(|| panic!("{told}"));
    let listed = listed.lines().next().unwrap();
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The schema names the keys that the parser takes, and the words of each choice.
#[test]
fn the_schema_and_the_parser_know_the_same_keys() {
    let desk = Desk::empty();
    let told = desk.run(&["config", "schema"]).expect_exit(0).out;
    let schema: Value = serde_json::from_str(&told).unwrap();
    let keys = |of: &Value| -> BTreeSet<String> {
        assert_eq!(of["additionalProperties"], false);
        of["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    const UNKNOWN: &str = "qqqqqqqqqqqqqqqqqqqq = 1";
    assert_eq!(words(&desk, UNKNOWN), keys(&schema));
    let tables = [
        ("Limits", "limits"),
        ("Limits", "connections.x.limits"),
        ("Grants", "grants"),
        ("Mcp", "mcp"),
        ("Approvals", "approvals"),
        ("Webhook", "approvals.webhook"),
        ("Http", "http"),
        ("Oauth", "http.oauth"),
        ("OauthIssuer", "http.oauth.issuers.x"),
        ("HttpClients", "http.clients"),
        ("HttpMetrics", "http.metrics"),
        ("Broker", "broker"),
        ("BrokerPeer", "broker.users.1"),
        ("Telemetry", "telemetry"),
        ("Scan", "scan"),
        ("ScanRule", "[scan.rules]"),
        ("ScanExpected", "[scan.expected]"),
        ("BudgetTable", "budgets"),
        ("BudgetSpan", "budgets.minute"),
        ("HistoryTable", "history"),
        ("Connection", "connections.x"),
        ("AuditTable", "audit"),
        ("PolicyTable", "policies"),
    ];
    for (name, table) in tables {
        // A connection has an address before anything is read of it.
        let text = format!("[connections.x]\nurl = \"sqlite:x\"\n[{table}]\n{UNKNOWN}\n");
        let text = match table {
            "connections.x" => format!("[connections.x]\nurl = \"sqlite:x\"\n{UNKNOWN}\n"),
            _ => text,
        };
        assert_eq!(words(&desk, &text), keys(&schema["$defs"][name]), "{table}");
    }
    let names: BTreeSet<_> = tables.iter().map(|(name, _)| *name).collect();
    let defined = schema["$defs"].as_object().unwrap();
    let defined: BTreeSet<_> = defined.keys().map(String::as_str).collect();
    assert_eq!(defined, names);
    // The words of choices.
    let mut choices = 0;
    let mut all = vec![("", &schema)];
    all.extend(
        tables
            .iter()
            .map(|(name, table)| (*table, &schema["$defs"][*name])),
    );
    for (table, of) in all {
        for (key, property) in of["properties"].as_object().unwrap() {
            let Some(listed) = property["enum"].as_array() else {
                continue;
            };
            choices += 1;
            let listed: Vec<_> = listed.iter().map(|word| word.as_str().unwrap()).collect();
            let url = match table {
                "connections.x" => "url = \"postgres://a@h:1/d\"\n",
                _ => "",
            };
            let head = if table.is_empty() {
                String::new()
            } else {
                format!("[{table}]\n{url}")
            };
            desk.write(
                "probe.toml",
                format!("{head}{key} = \"qqqqqqqqqqqqqqqqqqqq\"\n"),
            );
            let told = desk
                .run(&["config", "check", "probe.toml"])
                .expect_exit(3)
                .err;
            for word in listed {
                assert!(told.contains(word), "{key}: {told}");
            }
        }
    }
    assert!(choices >= 4);
    assert_eq!(schema["$defs"]["Connection"]["required"], json!(["url"]));
}

fn tools(client: &mut Client) -> String {
    client.ask("tools/list", &json!({})).to_string()
}

#[test]
fn a_server_is_told_to_read_only() {
    let desk = Desk::new();
    desk.write(
        "palisade.toml",
        FILE.replace(
            "policies =",
            "principal = 'Agent::\"support-bot\"'\npolicies =",
        ),
    );
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    assert!(tools(&mut client).contains("\"execute\""));
    let mut client = Client::new(&desk, &["--config", "palisade.toml", "--read-only"]);
    assert!(!tools(&mut client).contains("\"execute\""));
}

#[test]
fn options_that_exclude_one_another_are_named() {
    let desk = Desk::new();
    for (arguments, names) in [
        (
            &["--writable", "--read-only"][..],
            ["--writable", "--read-only"],
        ),
        (
            &["sqlite:demo.db", "--in-memory"],
            ["DATABASE", "--in-memory"],
        ),
        (
            &["sqlite:demo.db", "--init", "x.sql"],
            ["DATABASE", "--schema"],
        ),
    ] {
        let all = [&["serve"], arguments].concat();
        let told = desk.run(&all).expect_exit(2).err;
        for name in names {
            assert!(told.contains(name), "{name}: {told}");
        }
    }
}

#[test]
fn the_environment_names_a_database() {
    let desk = Desk::new();
    desk.write("notes.sql", "CREATE TABLE notes (id INTEGER, body TEXT);");
    let serve = |variable: &str, arguments: &[&str]| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command
            .arg("serve")
            .args(arguments)
            .env("PALISADE_DATABASE", variable);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (exit, told) = serve("sqlite:demo.db", &[]);
    assert!(
        exit == Some(0) && told.contains("database=\"demo\""),
        "{told}"
    );
    // What is said aloud wins.
    let (exit, told) = serve("sqlite:no-such.db", &["--in-memory", "--init", "notes.sql"]);
    assert!(
        exit == Some(0) && told.contains("database=\"notes\""),
        "{told}"
    );
    for variable in ["demo.db", ""] {
        let (exit, told) = serve(variable, &[]);
        assert!(
            exit == Some(2) && told.contains("PALISADE_DATABASE"),
            "{told}"
        );
    }
}

/// The log has no name and no value of a request, also where it is answered by an error of the protocol.
#[test]
fn the_log_repeats_no_request() {
    let desk = Desk::new();
    let mut client = Client::new(&desk, &["sqlite:demo.db"]);
    let uri = "palisade://databases/demo/schemas/main/tables/geheim";
    // Its answer is an error.
    let result = client.ask("resources/read", &json!({"uri": uri}));
    assert_eq!(result, Value::Null);
    let log = client.end();
    assert!(log.contains("serving") && !log.contains("geheim"), "{log}");
}

/// Asks until `is_so` of what the principal is told that it may do.
fn wait_until(client: &mut Client, is_so: impl Fn(&Value) -> bool) {
    for _ in 0..150 {
        let told = client.call("policy_explain", &json!({}));
        if is_so(&told["structuredContent"]) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!(
        "the configuration was not taken up: {}",
        client.ask("tools/list", &json!({}))
    );
}

/// Limits, tools and policies are taken up while the server runs. What is wrong changes nothing, and what needs a restart is told.
#[test]
fn an_edited_configuration_is_taken_up() {
    let desk = Desk::new();
    desk.policy("permit (principal, action, resource) unless { resource is Table && resource == Table::\"main.tickets\" };");
    let edited = FILE.replace("writable = true", "");
    desk.write("palisade.toml", &edited);
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    assert!(tools(&mut client).contains("\"list_tables\""));
    wait_until(&mut client, |told| told["limits"]["rows"] == 50);
    let edited = edited.replace("max_rows = 50", "max_rows = 7");
    let edited = format!("{edited}\n[mcp]\ntools = \"core\"\n");
    desk.write("palisade.toml", &edited);
    wait_until(&mut client, |told| told["limits"]["rows"] == 7);
    assert!(!tools(&mut client).contains("\"list_tables\""));
    // A file that is wrong, and then another folder and another log.
    desk.write("palisade.toml", edited.replace("max_rows", "max_row"));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    wait_until(&mut client, |told| told["limits"]["rows"] == 7);
    let edited = edited.replace(
        "policies = \"demo-policies\"",
        "policies = \"p\"\naudit = \"log.jsonl\"",
    );
    desk.write("palisade.toml", edited);
    wait_until(&mut client, |told| {
        let tables = told["tables"].as_array().unwrap();
        tables.iter().any(|one| one["table"] == "customers")
            && !tables.iter().any(|one| one["table"] == "tickets")
    });
    let log = client.end();
    for told in [
        "configuration loaded",
        "palisade.toml:5:1",
        "`audit` needs a restart",
    ] {
        assert!(log.contains(told), "{told}: {log}");
    }
    assert!(!desk.path("log.jsonl").exists());
}

/// A database that was not there at the start is opened under what is in force by then.
#[test]
fn a_database_that_comes_later_has_the_edited_configuration() {
    let desk = Desk::new();
    let narrow = "permit (principal, action, resource) unless { resource is Table && resource == Table::\"main.tickets\" };";
    let file = FILE.replace(
        "writable = true",
        "[connections.later]\nurl = \"sqlite:later.db\"",
    );
    desk.write("palisade.toml", &file);
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    let explain = |client: &mut Client, connection: &str| {
        client.call("policy_explain", &json!({"connection": connection}))["structuredContent"]
            .clone()
    };
    desk.policy(narrow);
    let file = file.replace("max_rows = 50", "max_rows = 7");
    desk.write("palisade.toml", file.replace("demo-policies", "p"));
    for _ in 0..150 {
        if explain(&mut client, "desk")["limits"]["rows"] == 7 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    std::fs::copy(desk.path("demo.db"), desk.path("later.db")).unwrap();
    // It was tried at the start, and is not again at once.
    let mut told = explain(&mut client, "later");
    for _ in 0..150 {
        if told["code"] != "database.unavailable" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        told = explain(&mut client, "later");
    }
    assert_eq!(told["limits"]["rows"], 7, "{told}");
    let tables = told["tables"].as_array().unwrap();
    assert!(
        tables.iter().any(|one| one["table"] == "customers"),
        "{told}"
    );
    assert!(
        !tables.iter().any(|one| one["table"] == "tickets"),
        "{told}"
    );
}

/// A hangup signal reads the configuration at once, edited or not, and ends nothing.
#[test]
fn a_hangup_signal_reads_the_configuration_again() {
    let desk = Desk::new();
    desk.write("palisade.toml", FILE);
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    wait_until(&mut client, |told| told["limits"]["rows"] == 50);
    // Without an edit nothing else reads it again. It is not known when the server begins to listen.
    for _ in 0..10 {
        client.hang_up();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    desk.write(
        "palisade.toml",
        FILE.replace("max_rows = 50", "max_rows = 7"),
    );
    client.hang_up();
    wait_until(&mut client, |told| told["limits"]["rows"] == 7);
    let log = client.end();
    assert!(log.matches("configuration loaded").count() >= 2, "{log}");
}
