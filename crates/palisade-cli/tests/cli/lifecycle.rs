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
