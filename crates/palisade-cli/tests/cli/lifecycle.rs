//! Changes in steps, by the binary: an agent proposes over MCP, a person looks and approves on the command line.

use serde_json::json;

use crate::{desk::Desk, serve::Client};

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@approval("operator")
permit (principal, action in [Action::"update", Action::"delete"], resource);
permit (principal == User::"ann", action == Action::"approve", resource);
"#;

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

#[test]
fn an_operator_looks_at_a_change_and_signs_it() {
    let desk = Desk::new();
    desk.policy(POLICIES);
    let made = desk
        .run(&["approvals", "--new-key", "operator.key"])
        .expect_exit(0);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n{}\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
            made.out
        ),
    );
    let mut client = Client::new(&desk, &CONFIG);
    let sql = "UPDATE tickets SET subject = 'geheim' WHERE id = 1";
    let proposal = json!({"statements": [{"sql": sql}], "reason": "because"});
    let proposed = client.call("propose_change", &proposal);
    let id = proposed["structuredContent"]["change"]
        .as_str()
        .unwrap()
        .to_owned();
    let arguments = json!({"change": id});
    client.call("validate_change", &arguments);
    let waits = client.call("commit_change", &arguments);
    assert_eq!(
        waits["structuredContent"]["code"], "approval.required",
        "{waits}"
    );
    let listed = desk
        .run(&[&["approvals"][..], &CONFIG].concat())
        .expect_exit(0)
        .out;
    assert!(
        listed.contains(&id) && listed.contains(sql) && listed.contains("# because"),
        "{listed}"
    );
    // She sees the cells that are different; the agent's own principal is not hers.
    let show = ["changes", "connection:desk", &id, "--as", "User::\"ann\""];
    let shown = desk.run(&[&show[..], &CONFIG].concat()).expect_exit(0).out;
    for word in ["main.tickets", "update", "subject", "geheim"] {
        assert!(shown.contains(word), "{shown}");
    }
    let stranger = ["changes", "connection:desk", &id, "--as", "Agent::\"x\""];
    desk.run(&[&stranger[..], &CONFIG].concat())
        .fails(1, &["change.unknown"]);
    let approve = [&["approve", &id][..], &CONFIG].concat();
    desk.run(&approve)
        .fails(1, &["needs an operator's approval"]);
    let signed = [&approve[..], &["--key-file", "operator.key"]].concat();
    desk.run(&signed).expect_exit(0);
    let kept = client.call("commit_change", &arguments);
    assert_eq!(kept["structuredContent"]["state"], "committed", "{kept}");
    desk.run(&signed).fails(1, &["is committed"]);
    // Neither the state file nor the records hold a value.
    for file in ["approvals.db", "audit.jsonl"] {
        let bytes = std::fs::read(desk.path(file)).unwrap();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("geheim"),
            "{file}"
        );
    }
}

/// Receipts are listed for whom policy lets know of them, and what is done to them in either place is found.
#[test]
fn receipts_are_listed_shown_and_verified() {
    let desk = Desk::new();
    desk.policy(&POLICIES.replace("@approval(\"operator\")", ""));
    desk.write(
        "palisade.toml",
        "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n\
         [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
    );
    let open = |file: &str| rusqlite::Connection::open(desk.path(file)).unwrap();
    open("demo.db")
        .execute_batch("CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL)")
        .unwrap();
    let mut client = Client::new(&desk, &CONFIG);
    let mut ids = Vec::new();
    for subject in ["eins", "zwei"] {
        let sql = format!("UPDATE tickets SET subject = '{subject}' WHERE id = 1");
        let proposal = json!({"statements": [{"sql": sql}], "reason": "because"});
        let proposed = client.call("propose_change", &proposal);
        let change = json!({"change": proposed["structuredContent"]["change"]});
        client.call("validate_change", &change);
        let kept = client.call("commit_change", &change)["structuredContent"].clone();
        assert_eq!(kept["state"], "committed", "{kept}");
        ids.push(kept["receipt"]["id"].as_str().unwrap().to_owned());
    }
    client.end();
    let ledger = |words: &[&str]| {
        let (verb, rest) = words.split_first().unwrap();
        desk.run(&[&["ledger", verb, "connection:desk"], rest, &CONFIG[..]].concat())
    };
    let listed = ledger(&["list"]).expect_exit(0).out;
    for word in [
        &ids[0],
        &ids[1],
        "# because",
        "main.tickets: 0 new, 1 changed, 0 deleted",
    ] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    let shown = ledger(&["show", &ids[0], "--format", "json"])
        .expect_exit(0)
        .json();
    assert_eq!(shown["id"], *ids[0]);
    ledger(&["show", "nothing"]).fails(1, &["change.unknown-receipt"]);
    let verified = ledger(&["verify"]).expect_exit(0).out;
    assert_eq!(
        verified,
        "2 receipts are as they were written, in the database too\n"
    );
    let faults = |file: &str, sql: &str, undo: &str, fault: &str| {
        open(file).execute_batch(sql).unwrap();
        let found = ledger(&["verify"]).expect_exit(1).out;
        assert!(found.contains(fault), "{sql}: {found}");
        open(file).execute_batch(undo).unwrap();
        ledger(&["verify"]).expect_exit(0);
    };
    faults(
        "demo.db",
        "CREATE TABLE spare AS SELECT * FROM palisade_receipts; DELETE FROM palisade_receipts WHERE rowid = 1",
        "DELETE FROM palisade_receipts; INSERT INTO palisade_receipts SELECT * FROM spare",
        "receipt 1, of the change",
    );
    faults(
        "approvals.db",
        "CREATE TABLE spare AS SELECT * FROM receipts; DELETE FROM receipts WHERE number = 2",
        "DELETE FROM receipts; INSERT INTO receipts SELECT * FROM spare",
        "receipt 2 is missing",
    );
    faults(
        "approvals.db",
        "UPDATE receipts SET sealed = (SELECT sealed FROM spare WHERE number = 2) WHERE number = 1",
        "DELETE FROM receipts; INSERT INTO receipts SELECT * FROM spare",
        "receipt 1 was edited",
    );
}
