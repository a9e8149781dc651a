//! Where requests wait if the operator does not say it: beside the audit log, where `palisade approvals` finds them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@approval("required")
permit (principal, action in [Action::"update", Action::"delete"], resource);
permit (principal == User::"ann", action == Action::"approve", resource);
"#;

const CLOSE: &str = "UPDATE tickets SET subject = 'geheim' WHERE id = 1";

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

/// The demonstration, with these lines at the head of its configuration.
fn desk(lines: &str) -> Desk {
    let desk = Desk::new();
    desk.policy(POLICIES);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\n{lines}\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n"
        ),
    );
    fs::create_dir(desk.path("logs")).unwrap();
    desk
}

fn execute(client: &mut Client) -> Value {
    client.call("execute", &json!({"sql": CLOSE}))["structuredContent"].clone()
}

/// The id that an agent is told, of a request that waits for `palisade approve`.
fn waiting(answer: &Value) -> String {
    assert_eq!(answer["code"], "approval.required", "{answer}");
    let id = answer["approval"]["id"].as_str().unwrap().to_owned();
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("`palisade approve {id}`")),
        "{message}"
    );
    id
}

fn mode(desk: &Desk, file: &str) -> u32 {
    let metadata = fs::metadata(desk.path(file)).unwrap();
    metadata.permissions().mode() & 0o777
}

#[test]
fn requests_wait_beside_the_log_of_the_configuration() {
    let desk = desk("audit = \"logs/audit.jsonl\"");
    let early = desk.run(&[&["approvals"][..], &CONFIG].concat());
    early.fails(2, &["logs/palisade.state.db", "state = \"approvals.db\""]);
    let mut client = Client::new(&desk, &CONFIG);
    let id = waiting(&execute(&mut client));
    let listed = desk.run(&[&["approvals"][..], &CONFIG].concat());
    let listed = listed.expect_exit(0).out;
    assert!(listed.contains(&id) && listed.contains(CLOSE), "{listed}");
    desk.run(&[&["approve", &id][..], &CONFIG].concat())
        .expect_exit(0);
    assert_eq!(execute(&mut client)["decision"], Value::Null);
    waiting(&execute(&mut client));
    // A change in steps waits there too.
    let proposal = json!({"statements": [{"sql": CLOSE}], "reason": "because"});
    let proposed = client.call("propose_change", &proposal);
    let change = &proposed["structuredContent"]["change"];
    client.call("validate_change", &json!({"change": change}));
    let change = change.as_str().unwrap();
    let listed = desk.run(&[&["approvals"][..], &CONFIG].concat());
    let listed = listed.expect_exit(0).out;
    assert!(
        listed.contains(change) && listed.contains("  1 row by its own statements\n"),
        "{listed}"
    );
    let shown = [
        "changes",
        "show",
        "connection:desk",
        change,
        "--as",
        "User::\"ann\"",
    ];
    let shown = desk.run(&[&shown[..], &CONFIG].concat()).expect_exit(0).out;
    assert!(shown.contains("geheim"), "{shown}");
    desk.run(&[&["approve", change][..], &CONFIG].concat())
        .expect_exit(0);
    let kept = client.call("commit_change", &json!({"change": change}));
    assert_eq!(kept["structuredContent"]["state"], "committed", "{kept}");
    for file in ["logs/palisade.state.db", "logs/palisade.state.db.key"] {
        assert_eq!(mode(&desk, file), 0o600, "{file}");
        let bytes = fs::read(desk.path(file)).unwrap();
        let is_there = String::from_utf8_lossy(&bytes).contains("geheim");
        assert!(!is_there, "{file}");
    }
}

#[test]
fn requests_wait_beside_the_log_of_the_command_line() {
    let desk = desk("");
    let serve = ["sqlite:demo.db", "--policies", "p", "--writable", "--audit"];
    let mut client = Client::new(&desk, &[&serve[..], &["logs/audit.jsonl"]].concat());
    let id = waiting(&execute(&mut client));
    desk.run(&["approvals"])
        .fails(2, &["palisade.state.db", "--config FILE", "[approvals]"]);
    desk.run(&["approve", &id, "--audit", "logs/audit.jsonl"])
        .expect_exit(0);
    // Where one stands in the folder of the log, nothing needs to be said.
    assert_eq!(execute(&mut client)["code"], Value::Null);
    let id = waiting(&execute(&mut client));
    let listed = desk
        .shell("cd logs && palisade approvals", 0, b"")
        .expect_exit(0)
        .out;
    assert!(listed.contains(&id), "{listed}");
    desk.run(&["approvals", "--audit", "elsewhere/audit.jsonl"])
        .fails(2, &["elsewhere/palisade.state.db"]);
}

#[test]
fn connections_with_logs_of_their_own_are_all_found() {
    let desk = desk("");
    fs::create_dir(desk.path("other")).unwrap();
    let configuration = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    desk.write(
        "palisade.toml",
        format!(
            "{configuration}audit = \"logs/audit.jsonl\"\n[connections.other]\nurl = \"sqlite:demo.db\"\n\
             writable = true\naudit = \"other/audit.jsonl\"\n"
        ),
    );
    let ask = |name: &str| {
        let connection = format!("connection:{name}");
        let run = ["execute", &connection, CLOSE, "--format", "json"];
        let answer = desk.run(&[&run[..], &CONFIG].concat()).json();
        assert_eq!(answer["code"], "approval.required", "{answer}");
    };
    ask("desk");
    ask("other");
    let listed = desk.run(&[&["approvals"][..], &CONFIG].concat());
    let listed = listed.expect_exit(0).out;
    assert!(
        listed.contains("on desk") && listed.contains("on other"),
        "{listed}"
    );
    for line in listed.lines().filter(|line| !line.starts_with(' ')) {
        let id = line.split(' ').next().unwrap();
        desk.run(&[&["approve", id][..], &CONFIG].concat())
            .expect_exit(0);
    }
}

#[test]
fn what_the_operator_names_wins() {
    let desk = desk("audit = \"logs/audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"");
    let mut client = Client::new(&desk, &CONFIG);
    let id = waiting(&execute(&mut client));
    assert!(desk.path("approvals.db").exists());
    assert!(!desk.path("logs/palisade.state.db").exists());
    desk.run(&[&["approve", &id][..], &CONFIG].concat())
        .expect_exit(0);
}

/// A device has no folder for files, and what only reads needs none.
#[test]
fn where_there_is_no_place_the_line_to_write_is_named() {
    let without = desk("audit = \"/dev/null\"");
    let mut client = Client::new(&without, &CONFIG);
    let answer = execute(&mut client);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("keeps no requests"), "{message}");
    let log = client.end();
    assert!(log.contains("`state = \"approvals.db\"`"), "{log}");
    without
        .run(&[&["approvals"][..], &CONFIG].concat())
        .fails(2, &["`state = \"approvals.db\"` under `[approvals]`"]);

    let reading = Desk::new();
    let run = ["query", "sqlite:demo.db", "--policies", "demo-policies"];
    let run = [
        &run[..],
        &[
            "--as",
            crate::desk::BOT,
            "--audit",
            "audit.jsonl",
            "SELECT 1",
        ],
    ];
    reading.run(&run.concat()).expect_exit(0);
    assert!(reading.path("audit.jsonl").exists());
    assert!(!reading.path("palisade.state.db").exists());
}
