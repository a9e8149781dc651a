//! Statements that wait for a person: `palisade approvals`, `palisade approve`, and servers that share their file.

use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client, writable::Writable};

const WITH_APPROVAL: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@id("with-approval") @approval("LEVEL")
permit (principal, action in [Action::"update", Action::"delete"], resource);
"#;

const CLOSE: &str = "UPDATE tickets SET subject = 'geheim' WHERE id = 1";

/// The demonstration's database, whose changes need an approval of this level.
fn desk(level: &str, lines: &str) -> Desk {
    let desk = Desk::new();
    desk.policy(&WITH_APPROVAL.replace("LEVEL", level));
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n{lines}\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n"
        ),
    );
    desk
}

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

fn execute(desk: &Desk, sql: &str) -> Value {
    let run = ["execute", "connection:desk", "--format", "json"];
    desk.run(&[&run[..], &CONFIG, &[sql]].concat()).json()
}

/// The ids that wait.
fn listed(desk: &Desk) -> Vec<Value> {
    let run = ["approvals", "--format", "json"];
    let out = desk.run(&[&run[..], &CONFIG].concat()).expect_exit(0).out;
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_person_approves_one_run() {
    let desk = desk("required", "");
    let refused = execute(&desk, CLOSE);
    assert_eq!(refused["code"], "approval.required", "{refused}");
    let waiting = listed(&desk);
    let id = waiting[0]["id"].as_str().unwrap();
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains(&format!(
            "a person runs `palisade approve {id}` (with the server's `--config`)"
        )),
        "{message}"
    );
    assert_eq!(waiting[0]["request"]["sql"], CLOSE);
    let shown = desk
        .run(&[&["approvals"][..], &CONFIG].concat())
        .expect_exit(0)
        .out;
    assert!(shown.contains(id) && shown.contains(CLOSE), "{shown}");
    // Asked twice, it waits once.
    execute(&desk, CLOSE);
    assert_eq!(listed(&desk).len(), 1);
    let approve = [&["approve", id][..], &CONFIG].concat();
    desk.run(&approve).expect_exit(0);
    desk.run(&approve).fails(1, &["is approved already"]);
    assert_eq!(execute(&desk, CLOSE)["decision"], "allow");
    assert_eq!(execute(&desk, CLOSE)["code"], "approval.required");
    desk.run(&approve).fails(1, &["has run"]);
    let reject = listed(&desk)[0]["id"].as_str().unwrap().to_owned();
    desk.run(&[&["approve", &reject, "--reject"][..], &CONFIG].concat())
        .expect_exit(0);
    let rejected = execute(&desk, CLOSE);
    assert!(
        rejected["message"].as_str().unwrap().contains("rejected"),
        "{rejected}"
    );
    // Neither the records nor the file hold the value, and the files are their owner's alone.
    let records = std::fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    assert!(
        records.contains("\"state\":\"used\"") && records.contains("\"by\":\"uid "),
        "{records}"
    );
    for file in ["audit.jsonl", "approvals.db", "approvals.db.key"] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = desk.path(file);
        let bytes = std::fs::read(&path).unwrap();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("geheim"),
            "{file}"
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    desk.run(&[&["approve", "nosuchid"][..], &CONFIG].concat())
        .fails(1, &["there is no request `nosuchid`", "palisade approvals"]);
}

#[test]
fn an_operator_signs_with_a_key() {
    let made = Desk::empty();
    let line = made
        .run(&["approvals", "--new-key", "operator.key"])
        .expect_exit(0)
        .out;
    made.run(&["approvals", "--new-key", "operator.key"])
        .fails(2, &["operator.key"]);
    let desk = desk("operator", &line);
    let refused = execute(&desk, CLOSE);
    assert_eq!(refused["code"], "approval.required");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("an operator runs `palisade approve ")
            && message.contains("` with `--key-file FILE`"),
        "{message}"
    );
    let waiting = listed(&desk);
    let id = waiting[0]["id"].as_str().unwrap();
    let approve = [&["approve", id][..], &CONFIG].concat();
    desk.run(&approve).fails(1, &["--key-file"]);
    let key = made.path("operator.key");
    desk.run(&[&approve[..], &["--key-file", key.to_str().unwrap()]].concat())
        .expect_exit(0);
    assert_eq!(execute(&desk, CLOSE)["decision"], "allow");
    // Without a key in the configuration, there is no operator.
    let without = self::desk("operator", "");
    let refused = execute(&without, CLOSE);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("operator_key"),
        "{refused}"
    );
}

#[test]
fn the_configuration_of_approvals_is_strict() {
    for (lines, told) in [
        ("expire_minutes = 0", "write a number from 1 to 1440"),
        ("operator_key = \"x\"", "--new-key"),
        ("secret_env = \"X\"", "under `[grants]` grants it"),
        ("expires = 1", "expire_minutes"),
        ("page = \"https://a.example/\"", "`{id}` once"),
        ("page = \"http://a.example/{id}\"", "in plain text"),
        ("page = \"https://{id}.example/\"", "write for example"),
        (
            "page = \"ftp://a.example/{id}\"",
            "must begin with `https://`",
        ),
    ] {
        let desk = desk("required", lines);
        let run = ["execute", "connection:desk"];
        desk.run(&[&run[..], &CONFIG, &[CLOSE]].concat())
            .fails(3, &[told]);
    }
    let desk = desk(
        "required",
        "secret_file = \"short\"\n[grants]\nfiles = [\"short\"]",
    );
    desk.write("short", "too short");
    let command = "chmod 600 short && palisade approvals --config palisade.toml";
    desk.shell(command, 0, b"")
        .fails(3, &["shorter than 32 bytes"]);
    let desk = Desk::empty();
    desk.run(&["approvals"]).fails(2, &["[approvals]"]);
}

/// A server that is killed between request and approval: the next one takes the approval, once.
#[test]
fn an_approval_outlives_the_server_on_postgres() {
    let desk = Writable::postgres("approvals");
    desk.shop.desk.write(
        "p/approval.cedar",
        "@approval(\"required\") permit (principal, action == Action::\"update\", resource == Table::\"public.tickets\");",
    );
    desk.configure(
        "a.toml",
        "writable = true\n[approvals]\nstate = \"approvals.db\"",
    );
    let run = ["connection:desk", "--config", "etc/a.toml"];
    let call =
        json!({"sql": "UPDATE tickets SET subject = 'changed' WHERE id = $1", "params": [1]});
    let mut first = Client::new(&desk.shop.desk, &run);
    let refused = first.call("execute", &call);
    let id = refused["structuredContent"]["approval"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    first.kill();
    desk.shop
        .desk
        .run(&["approve", &id, "--config", "etc/a.toml"])
        .expect_exit(0);
    let (mut second, mut third) = (
        Client::new(&desk.shop.desk, &run),
        Client::new(&desk.shop.desk, &run),
    );
    assert_eq!(second.call("execute", &call)["isError"], false);
    assert_eq!(
        third.call("execute", &call)["structuredContent"]["code"],
        "approval.required"
    );
    assert_eq!(
        desk.shop
            .ask("SELECT count(*) FROM tickets WHERE subject = 'changed'")
            .trim(),
        "1"
    );
}
