//! Policies on trial: what they would do is recorded, and the policies in force decide.

use std::fs;

use serde_json::Value;

use crate::desk::{BOT, Desk};

const CONFIG: &str = "policies = \"demo-policies\"
audit = \"audit.jsonl\"
principal = 'Agent::\"support-bot\"'
[connections.desk]
url = \"sqlite:demo.db\"
candidate = \"candidate\"
";

/// The demonstration, with a copy of its policies on trial and `more` in it.
fn desk(more: &str) -> Desk {
    let desk = Desk::new();
    desk.shell("cp -r demo-policies candidate", 0, b"")
        .expect_exit(0);
    desk.write("candidate/trial.cedar", more);
    desk.write("palisade.toml", CONFIG);
    desk
}

/// Asks, and gives the answer with what the record says of the candidate.
fn ask(desk: &Desk, sql: &str, exit: i32) -> (String, Value) {
    let answer = desk
        .run(&["query", "connection:desk", sql, "--config", "palisade.toml"])
        .expect_exit(exit);
    let log = fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    (answer.out, last["candidate"].clone())
}

const FORBID: &str = "@id(\"trial\") forbid (principal, action == Action::\"select\", resource == Table::\"main.staff\");";

#[test]
fn what_a_candidate_would_refuse_is_recorded_and_not_refused() {
    let desk = desk(FORBID);
    let (out, note) = ask(&desk, "SELECT name FROM staff", 0);
    assert!(out.contains("rows"), "{out}");
    assert_eq!(note["decision"], "reject", "{note}");
    assert_eq!(note["policies"], serde_json::json!(["trial"]), "{note}");
    // What is the same by both is not told of.
    let (_, note) = ask(&desk, "SELECT subject FROM tickets", 0);
    assert_eq!(note, Value::Null);
    // A statement that is wrong is so by any policies.
    let (_, note) = ask(&desk, "SELECT nonsense FROM staff", 1);
    assert_eq!(note, Value::Null);
}

/// A candidate takes no mask and no filter away, and permits nothing.
#[test]
fn a_wider_candidate_shows_nothing_more() {
    let plain = Desk::new();
    let sql = "SELECT name, email, tenant_id FROM customers";
    let policies = ["--policies", "demo-policies", "--as", BOT];
    let run = |desk: &Desk, sql: &str| {
        desk.run(&[&["query", "sqlite:demo.db", sql], &policies[..]].concat())
    };
    let before = run(&plain, sql).expect_exit(0).out;
    let desk = desk("");
    desk.write(
        "candidate/base.cedar",
        "@id(\"all\") permit (principal, action, resource);",
    );
    desk.write("candidate/classification.toml", "");
    let (out, note) = ask(&desk, sql, 0);
    assert_eq!(out, before);
    assert_eq!(note["decision"], "otherwise", "{note}");
    let (out, note) = ask(&desk, "SELECT api_key FROM credentials", 1);
    assert!(out.contains("policy.forbidden"), "{out}");
    assert_eq!(note["decision"], "allow", "{note}");
    assert_eq!(note["policies"], serde_json::json!(["all"]));
}

#[test]
fn a_candidate_that_does_not_load_stops_the_start() {
    let desk = desk(
        "permit (principal, action, resource == Table::\"main.stuff\") when { resource.nothing };",
    );
    let told = desk
        .run(&[
            "query",
            "connection:desk",
            "SELECT 1",
            "--config",
            "palisade.toml",
        ])
        .expect_exit(3)
        .err;
    assert!(told.contains("trial.cedar"), "{told}");
    fs::remove_dir_all(desk.path("candidate")).unwrap();
    let told = desk
        .run(&[
            "query",
            "connection:desk",
            "SELECT 1",
            "--config",
            "palisade.toml",
        ])
        .expect_exit(3)
        .err;
    assert!(told.contains("candidate"), "{told}");
}

#[test]
fn a_candidate_is_promoted_with_its_tests_and_the_old_folder_is_kept() {
    let desk = desk(FORBID);
    let promote = |more: &[&str]| {
        let command = ["policy", "promote", "candidate", "demo-policies"];
        desk.run(&[&command[..], more].concat())
    };
    // The lock and the tests speak of staff: they do not hold, and nothing is changed.
    let told = promote(&["--yes"]).expect_exit(1).out;
    assert!(told.contains("FAILED"), "{told}");
    assert!(!desk.path("demo-policies/trial.cedar").exists());
    desk.write("candidate/trial.cedar", "@id(\"trial\") forbid (principal, action == Action::\"delete\", resource == Table::\"main.staff\");");
    let told = promote(&[]).expect_exit(0).out;
    assert!(told.contains("nothing changes"), "{told}");
    assert!(told.contains("`--yes` makes it"), "{told}");
    assert!(!desk.path("demo-policies/trial.cedar").exists());
    for (number, kept) in ["demo-policies.before", "demo-policies.before-2"]
        .iter()
        .enumerate()
    {
        let told = promote(&["--yes"]).expect_exit(0).out;
        assert!(told.contains(kept), "{told}");
        assert!(desk.path("demo-policies/trial.cedar").exists());
        assert!(desk.path("demo-policies/tests/demo.sql").exists());
        assert_eq!(
            desk.path(&format!("{kept}/trial.cedar")).exists(),
            number > 0
        );
    }
    let (_, note) = ask(&desk, "SELECT name FROM staff", 0);
    assert_eq!(note, Value::Null);
    // A folder without tests is none to promote.
    fs::remove_dir_all(desk.path("candidate/tests")).unwrap();
    promote(&["--yes"]).expect_exit(2);
}
