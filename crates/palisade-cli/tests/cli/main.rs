//! The binary as people and scripts use it: commands, exit codes, bad input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod account;
mod anchor_command;
mod approvals;
mod audit;
mod audit_file;
mod broker;
mod broker_drain;
mod broker_group;
mod broker_hand_in;
mod broker_keyring;
mod broker_load;
mod broker_sandbox;
mod broker_stores;
mod broker_systemd;
mod broker_tokens;
mod budgets;
mod bundle_depot;
mod bundles;
mod bundles_pulled;
mod bundles_registry;
mod cancel;
mod caps;
mod completions;
mod config;
mod connections;
mod connector;
mod corpus;
mod default_state;
mod desk;
mod endurance;
mod explain;
mod extensions;
mod history;
mod http;
mod http_clients;
mod http_limits;
mod http_metrics;
mod http_narrowing;
mod http_oauth;
mod http_sessions;
mod http_tasks;
mod init;
mod input;
mod json_paths;
mod lifecycle;
mod lines;
mod lsp;
mod lsp_neovim;
mod manual;
mod manual_pages;
mod manual_policies;
mod mcp_config;
mod mistakes;
mod mysql;
mod one_folder;
mod packaging;
mod pages;
mod policies;
mod policy_candidate;
mod policy_cases;
mod policy_coverage;
mod policy_diff;
mod policy_fmt;
mod policy_generate;
mod policy_learn;
mod policy_lock;
mod policy_pipelines;
mod policy_prove;
mod policy_prove_any;
mod policy_repl;
mod policy_replay;
mod policy_rules;
mod policy_test_servers;
mod policy_why;
mod postgres;
mod probe;
mod progress;
mod scan;
mod serve;
mod several_hosts;
mod shared_state;
mod shipped;
mod shop;
mod starter;
mod startup;
mod tables;
mod telemetry;
mod templates;
mod tls;
mod tokens;
mod webhook;
mod what_is_told;
mod workbench;
mod writable;

use std::{fs, io::Write as _, process::Stdio};

use serde_json::{Value, json};

use crate::desk::{BOT, Desk, width};

#[test]
fn the_demonstration_shows_every_outcome() {
    let desk = Desk::empty();
    let shown = desk.run(&["demo"]).expect_exit(0);
    for text in [
        "PERMITTED",
        "****4821",
        "filtered by row",
        "there are more (row cap)",
        "none matches, and a condition compared masks",
        "REFUSED policy.forbidden",
        "REFUSED statement.not-allowed",
        "REFUSED syntax.multiple-statements",
        "FLAGGED instruction.override",
        "claude mcp add palisade -- ",
        "\"mcpServers\"",
        "--method tools/list",
    ] {
        assert!(
            shown.out.contains(text),
            "`{text}` is not in\n{}",
            shown.out
        );
    }
    for secret in ["ada.brandt@", "demo-key", "demo-hash", "elif@globex"] {
        assert!(!shown.out.contains(secret), "{secret}");
    }
    assert!(
        !shown.out.contains('\x1b') && shown.err.is_empty(),
        "{}",
        shown.err
    );
    let walk = shown.out.split("Connect an MCP client").next().unwrap();
    for line in walk.lines() {
        assert!(width(line) <= 80, "{line}");
    }
}

#[test]
fn the_lines_the_demonstration_ends_with_run() {
    let desk = Desk::empty();
    let shown = desk.run(&["demo"]).expect_exit(0);
    let lines: Vec<_> = shown
        .out
        .lines()
        .filter(|line| line.contains(" query sqlite:"))
        .collect();
    assert_eq!(lines.len(), 2);
    let answer = desk.shell(lines[0], 0, b"").expect_exit(0);
    assert!(answer.out.contains("****4821"), "{}", answer.out);
    let answer = desk.shell(lines[1], 0, b"").expect_exit(1);
    assert_eq!(answer.json()["code"], "policy.forbidden");
}

#[test]
fn the_demonstration_replaces_only_its_own_files() {
    let desk = Desk::new();
    desk.run(&["demo"]).expect_exit(0);
    desk.write(
        "demo-policies/base.cedar",
        "permit (principal, action, resource);",
    );
    desk.run(&["demo"])
        .fails(2, &["demo-policies", "edited", "--dir"]);

    let other = Desk::empty();
    for text in [&b"my notes"[..], &[0; 100]] {
        other.write("demo.db", text);
        other
            .run(&["demo"])
            .fails(2, &["cannot make `demo.db`", "--dir"]);
        assert_eq!(fs::read(other.path("demo.db")).unwrap(), text);
        assert!(!other.path("demo-policies").exists());
    }
    other.run(&["demo", "--dir", "a/b"]).expect_exit(0);
    assert!(other.path("a/b/demo.db").exists());
}

#[test]
fn a_statement_is_masked_filtered_and_capped() {
    let desk = Desk::new();
    let answer = desk.query("SELECT name, national_id, email FROM customers WHERE id IN (1, 5)");
    assert_eq!(answer["decision"], "allow");
    assert_eq!(
        answer["rows"],
        json!([{"name": "Ada Brandt", "national_id": "****4821", "email": "***"}])
    );
    assert_eq!(answer["columns"][1]["masked"], true);
    let answer = desk.query("SELECT id FROM tickets ORDER BY id");
    assert_eq!(
        (
            &answer["row_count"],
            &answer["truncated"],
            &answer["truncation_reason"],
            &answer["total_seen"]
        ),
        (&json!(5), &json!(true), &json!("row_cap"), &json!(6))
    );
    let other = desk.run(&[
        "query",
        "sqlite:demo.db",
        "--policies",
        "demo-policies",
        "--format",
        "json",
        "SELECT name FROM customers",
    ]);
    assert_eq!(other.json()["code"], "name.unknown-relation");
    let fewer = desk.run(&[
        "query",
        "sqlite:demo.db",
        "--max-rows",
        "2",
        "--format",
        "json",
        "SELECT id FROM tickets",
    ]);
    assert_eq!(fewer.expect_exit(0).json()["row_count"], 2);
}

#[test]
fn the_json_has_exactly_these_keys() {
    let desk = Desk::new();
    let common = [
        "id",
        "decision",
        "code",
        "message",
        "rewritten",
        "policies",
        "columns",
        "rows",
        "row_count",
        "truncated",
        "truncation_reason",
        "total_seen",
        "empty_reason",
        "notices",
        "findings",
        "duration_us",
    ];
    let refusal = [
        "retryable",
        "remediation_hint",
        "next_valid_actions",
        "incident",
    ];
    let check = |answer: &Value, more: &[&str]| {
        let mut expected: Vec<&str> = common.iter().chain(more).copied().collect();
        let mut keys: Vec<&str> = answer
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        expected.sort_unstable();
        keys.sort_unstable();
        assert_eq!(keys, expected);
    };
    check(&desk.query("SELECT 1"), &[]);
    check(&desk.query("DROP TABLE tickets"), &refusal);
    let explain = |sql| {
        desk.run(&["explain", "sqlite:demo.db", "--format", "json", sql])
            .json()
    };
    check(&explain("SELECT 1"), &["trace", "deciding"]);
    let refused = explain("SELECT nope FROM staff");
    assert_eq!(refused["trace"]["code"], "name.unknown-column");
}

#[test]
fn exit_codes_are_as_documented() {
    let desk = Desk::new();
    let check = |arguments: &[&str], exit| {
        desk.run(arguments).expect_exit(exit);
    };
    check(&["query", "sqlite:demo.db", "SELECT 1"], 0);
    check(&["query", "sqlite:demo.db", "DELETE FROM staff"], 1);
    check(&["query", "sqlite:demo.db", ""], 1);
    check(&["query", "sqlite:demo.db", "-- nothing"], 1);
    check(&["query", "sqlite:demo.db"], 2);
    check(&["query", "demo.db", "SELECT 1"], 2);
    check(&["query", "sqlite:demo.db", "--as", "root", "SELECT 1"], 2);
    check(&["query", "sqlite:demo.db", "--params", "{", "SELECT 1"], 2);
    check(
        &["query", "sqlite:demo.db", "--params", "[[1]]", "SELECT 1"],
        2,
    );
    check(&["query", "sqlite:demo.db", "--batch", "nope.jsonl"], 2);
    check(
        &["query", "sqlite:demo.db", "--max-rows", "0", "SELECT 1"],
        2,
    );
    check(
        &["query", "sqlite:demo.db", "--policies", "nope", "SELECT 1"],
        3,
    );
    check(
        &[
            "query",
            "sqlite:demo.db",
            "--config",
            "nope.toml",
            "SELECT 1",
        ],
        3,
    );
    check(&["query", "sqlite:nope.db", "SELECT 1"], 4);
    check(&["check", "--catalog", "nope.sql", "SELECT 1"], 2);
    check(
        &[
            "check",
            "--dialect",
            "oracle",
            "--catalog",
            "sqlite:demo.db",
            "SELECT 1",
        ],
        2,
    );
    check(&["explain", "SELECT 1"], 2);
    check(&["--version"], 0);
    check(&["nonsense"], 2);
}

#[test]
fn a_schema_is_enough_to_decide() {
    let desk = Desk::empty();
    desk.write(
        "schema.sql",
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT, password TEXT);",
    );
    desk.policy("permit (principal == Agent::\"a\", action, resource);\n@mask(\"last(4)\")\nforbid (principal, action == Action::\"read_plain\", resource == Column::\"main.users.ssn\");\n");
    let check = |who: &str, sql: &str| {
        desk.run(&[
            "check",
            "--dialect",
            "sqlite",
            "--catalog",
            "schema.sql",
            "--policies",
            "p",
            "--as",
            who,
            "--format",
            "json",
            sql,
        ])
        .json()
    };
    let answer = check("Agent::\"a\"", "SELECT ssn FROM users");
    assert_eq!(answer["decision"], "allow");
    assert!(
        answer["rewritten"].as_str().unwrap().contains("'****'"),
        "{answer}"
    );
    assert!(answer["rows"].is_null());
    assert_eq!(
        check("Agent::\"b\"", "SELECT ssn FROM users")["code"],
        "name.unknown-relation"
    );
    desk.write("broken.sql", "CREATE TABLE a (x);\nCREATE TABEL b (y);");
    desk.run(&["check", "--catalog", "broken.sql", "SELECT 1"])
        .fails(2, &["broken.sql", "line 2"]);
    desk.write("evil.sql", "ATTACH 'x.db' AS x;");
    desk.run(&["check", "--catalog", "evil.sql", "SELECT 1"])
        .fails(2, &["evil.sql", "ATTACH"]);
    assert!(!desk.path("x.db").exists());
}

#[test]
fn explain_tells_how() {
    let desk = Desk::new();
    let told = desk
        .run(&[
            "explain",
            "--catalog",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--as",
            BOT,
            "SELECT max(national_id) FROM customers WHERE email LIKE 'a%'",
        ])
        .expect_exit(0);
    for text in [
        "tenant.customers",
        "mask last(4) for output",
        "for filter",
        "in its place:",
        "fence:",
    ] {
        assert!(told.out.contains(text), "`{text}` is not in\n{}", told.out);
    }
    assert!(
        told.out.lines().all(|line| width(line) <= 80),
        "{}",
        told.out
    );
}

#[test]
fn explain_tells_what_is_looked_for_before_a_change() {
    let desk = Desk::empty();
    desk.write(
        "schema.sql",
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT);",
    );
    desk.policy(
        "permit(principal, action, resource);
         forbid(principal, action == Action::\"add\", resource is row::main::accounts)
         unless { resource.tenant == 1 };",
    );
    let explain = |sql: &str, format: &str| {
        desk.run(&[
            "explain",
            "--dialect",
            "sqlite",
            "--catalog",
            "schema.sql",
            "--policies",
            "p",
            "--format",
            format,
            sql,
        ])
        .expect_exit(0)
    };
    let change = "UPDATE accounts SET name = 'x' WHERE id = 7";
    let told = explain(change, "text").out;
    let at = told.find("must give no row first:").unwrap();
    assert_eq!(
        &told[at..],
        "must give no row first:
  SELECT 1 AS \"refused\"
  FROM \"main\".\"accounts\"
  WHERE (id = 7) AND (CASE WHEN ((\"tenant\" = 1) AND (typeof(\"tenant\") IN
    ('integer', 'null'))) THEN false ELSE true END)
  LIMIT 1
rewritten:
+ UPDATE \"main\".\"accounts\" SET name = 'x'
+ WHERE (((\"tenant\" = 1) AND (typeof(\"tenant\") IN ('integer', 'null')))) AND (id
+   = 7)
"
    );
    let trace = &explain(change, "json").json()["trace"];
    let prechecks = trace["prechecks"].as_array().unwrap();
    assert_eq!(prechecks.len(), 1);
    assert!(prechecks[0].as_str().unwrap().starts_with("SELECT 1 AS"));
    // Where nothing has to be looked for, nothing is told; and a refusal tells of none.
    let known = "UPDATE accounts SET name = 'x', tenant = 1 WHERE id = 7";
    assert!(!explain(known, "text").out.contains("no row first"));
    assert_eq!(
        explain(known, "json").json()["trace"]["prechecks"],
        serde_json::json!([])
    );
}

#[test]
fn the_audit_log_holds_no_values() {
    let desk = Desk::new();
    let audit = |sql: &str| desk.run(&["query", "sqlite:demo.db", "--audit", "log.jsonl", sql]);
    audit("SELECT name FROM customers WHERE name = 'Ada Brandt'").expect_exit(0);
    audit("DELETE FROM customers WHERE name = 'Ada Brandt'").expect_exit(1);
    let log = fs::read_to_string(desk.path("log.jsonl")).unwrap();
    let records = desk.records("log.jsonl");
    assert_eq!(records.len(), 2);
    assert_eq!(
        (&records[0]["decision"], &records[0]["transport"]),
        (&json!("allow"), &json!("cli"))
    );
    assert_eq!(records[1]["code"], "statement.not-allowed");
    assert!(!log.contains("Brandt"), "{log}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(desk.path("log.jsonl"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    desk.run(&[
        "query",
        "sqlite:demo.db",
        "--audit",
        "no/such/folder",
        "SELECT 1",
    ])
    .fails(2, &["audit"]);
}

/// The commands that a help text shows.
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("Examples").unwrap();
    examples
        .replace("\\\n", " ")
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("palisade ") || line.starts_with("echo "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_examples_of_the_help_run() {
    for command in [
        &["query"][..],
        &["execute"],
        &["check"],
        &["explain"],
        &["demo"],
        &["serve"],
        &["init"],
        &["lsp"],
        &["policy", "print-starter"],
        &["policy", "check"],
        &["policy", "schema"],
        &["policy", "test"],
        &["policy", "fmt"],
        &["policy", "repl"],
        &["policy", "bundle"],
        &["policy", "lock"],
        &["policy", "diff"],
        &["policy", "learn"],
        &["policy", "request"],
        &["policy", "who"],
        &["policy", "what"],
        &["audit", "verify"],
        &["audit", "show"],
        &["completions"],
        &["man"],
    ] {
        let desk = Desk::new();
        desk.run(&[
            "query",
            "sqlite:demo.db",
            "--audit",
            "audit.jsonl",
            "--audit-anchors",
            "anchors.jsonl",
            "SELECT 1",
        ])
        .expect_exit(0);
        desk.write(
            "palisade.toml",
            "audit = \"audit.jsonl\"\n[connections.sales]\nurl = \"sqlite:demo.db\"\n[connections.hr]\nurl = \"sqlite:demo.db\"\n",
        );
        // As `pg_dump --schema-only` prints it.
        desk.write(
            "sales.sql",
            "CREATE TABLE public.orders (id bigint NOT NULL, PRIMARY KEY (id));\n",
        );
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let help = desk.run(&arguments).expect_exit(0).out;
        for line in help.lines() {
            assert!(width(line) <= 80, "{line}");
        }
        let examples = examples(&help);
        let lines: Vec<_> = examples
            .iter()
            .filter(|line| !line.contains("://"))
            .collect();
        assert!(!lines.is_empty(), "{help}");
        for line in lines {
            let answer = desk.shell(line, 0, b"");
            let refused = line.contains("DELETE");
            assert_eq!(
                answer.exit,
                i32::from(refused),
                "{line}\n{}{}",
                answer.out,
                answer.err
            );
        }
    }
}

#[test]
fn serve_speaks_the_protocol_and_nothing_else() {
    let desk = Desk::new();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": "query", "arguments": {"sql": "SELECT name, national_id FROM customers WHERE id = 1"}}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {
            "name": "query", "arguments": {"sql": "DELETE FROM customers"}}}),
    ];
    let mut child = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args([
            "serve",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--as",
            BOT,
            "--audit",
            "log.jsonl",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut answers = Vec::new();
    for message in &messages {
        writeln!(input, "{message}").unwrap();
        if message.get("id").is_some() {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut output, &mut line).unwrap();
            answers.push(serde_json::from_str::<Value>(&line).unwrap());
        }
    }
    drop(input);
    let rest = child.wait_with_output().unwrap();
    assert_eq!(rest.status.code(), Some(0));
    assert!(
        String::from_utf8(rest.stderr).unwrap().contains("serving"),
        "logs go to standard error"
    );
    let tools: Vec<_> = answers[1]["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(
        tools,
        [
            "describe_table",
            "explain_query",
            "list_databases",
            "list_schemas",
            "list_tables",
            "list_views",
            "policy_explain",
            "policy_test",
            "query",
            "schema_dump",
            "search_objects"
        ]
    );
    assert!(
        answers[2].to_string().contains("****4821"),
        "{}",
        answers[2]
    );
    assert_eq!(answers[3]["result"]["isError"], true);
    assert!(
        answers[3].to_string().contains("statement.not-allowed"),
        "{}",
        answers[3]
    );
    let log = fs::read_to_string(desk.path("log.jsonl")).unwrap();
    assert_eq!(log.matches("\"transport\":\"stdio\"").count(), 2, "{log}");
}

#[test]
fn serve_does_not_start_on_a_mistake() {
    let desk = Desk::new();
    desk.policy("permit (principal, action, resource)");
    desk.run(&["serve", "sqlite:demo.db", "--policies", "p"])
        .fails(3, &["p/base.cedar"]);
    desk.run(&["serve", "sqlite:nope.db"])
        .fails(4, &["nope.db"]);
    desk.run(&["serve"]).fails(2, &["<DATABASE>"]);
}
