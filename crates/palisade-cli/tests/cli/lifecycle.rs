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
    let show = [
        "changes",
        "show",
        "connection:desk",
        &id,
        "--as",
        "User::\"ann\"",
    ];
    let shown = desk.run(&[&show[..], &CONFIG].concat()).expect_exit(0).out;
    for word in ["main.tickets", "update", "subject", "geheim"] {
        assert!(shown.contains(word), "{shown}");
    }
    let stranger = [
        "changes",
        "show",
        "connection:desk",
        &id,
        "--as",
        "Agent::\"x\"",
    ];
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
    ledger(&["show", "nothing"]).fails(1, &["change.unknown-receipt", "palisade ledger list"]);
    let traced = desk.run(
        &[
            &[
                "ledger",
                "trace",
                "connection:desk",
                "tickets",
                r#"{"id": 1}"#,
            ],
            &CONFIG[..],
        ]
        .concat(),
    );
    let traced = traced.expect_exit(0).out;
    assert!(
        traced.contains(&ids[0]) && traced.contains(&ids[1]),
        "{traced}"
    );
    let other = [
        "ledger",
        "trace",
        "connection:desk",
        "main.tickets",
        r#"{"id": 2}"#,
    ];
    let other = desk.run(&[&other, &CONFIG[..]].concat()).expect_exit(0).out;
    assert_eq!(other, "there are no receipts\n");
    let keyless = ["ledger", "trace", "connection:desk", "tickets", "[1]"];
    desk.run(&[&keyless, &CONFIG[..]].concat())
        .fails(2, &["primary key", "{\"id\": 1}"]);
    let why = ledger(&["why", &ids[1]]).expect_exit(0).out;
    for word in [
        ids[1].as_str(),
        "# because",
        "permitted by  ",
        "may update main.tickets.subject\n",
        "are the same now",
    ] {
        assert!(why.contains(word), "{word}: {why}");
    }
    let why = ledger(&["why", &ids[0], "--format", "json"])
        .expect_exit(0)
        .json();
    assert!(!why["permitted_by"].as_array().unwrap().is_empty(), "{why}");
    assert_eq!(
        why["writes"],
        json!([{"change": "update", "table": "main.tickets", "column": "subject"}])
    );
    ledger(&["why", "nothing"]).fails(
        2,
        &["there is no receipt `nothing`", "palisade ledger list"],
    );
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

/// A change by hand from the proposal to the receipt, and what undoes it, without a server.
#[test]
fn a_person_proposes_keeps_and_undoes_a_change() {
    let desk = Desk::new();
    desk.policy(&POLICIES.replace("\"operator\"", "\"required\""));
    desk.write(
        "palisade.toml",
        "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n\
         [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
    );
    let database = rusqlite::Connection::open(desk.path("demo.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE palisade_receipts (change_id varchar(64) PRIMARY KEY, receipt text NOT NULL);
             CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL,
                 image text NOT NULL, PRIMARY KEY (change_id, part))",
        )
        .unwrap();
    let rows = || -> String {
        let sql = "SELECT group_concat(id || subject || status, ';') FROM (SELECT * FROM tickets ORDER BY id)";
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let before = rows();
    let changes = |words: &[&str]| {
        let (verb, rest) = words.split_first().unwrap();
        desk.run(&[&["changes", verb, "connection:desk"], rest, &CONFIG[..]].concat())
    };
    let ann = ["--as", "User::\"ann\""];
    let json = ["--format", "json"];

    // Two statements, looked at at once. Nothing is kept yet.
    let shown = changes(&[
        "propose",
        "UPDATE tickets SET subject = 'geheim' WHERE id = 1",
        "UPDATE tickets SET status = 'closed' WHERE id = 2",
        "--reason",
        "because",
        "--validate",
    ]);
    let shown = shown.expect_exit(0).out;
    for text in [
        "validated",
        "# because",
        "geheim",
        "subject",
        "preview ",
        "`palisade changes show`",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let id = shown.split_whitespace().next().unwrap().to_owned();
    assert_eq!(rows(), before);
    let looked = changes(&["show", &id, "--format", "json"])
        .expect_exit(0)
        .json();
    assert_eq!(
        (&looked["change"], &looked["as_validated"]),
        (&json!(id), &json!(true)),
        "{looked}"
    );
    assert_eq!(looked["difference"]["row_count"], 2, "{looked}");
    let preview = looked["preview"].as_str().unwrap();

    // It waits for another principal; who proposed it is none.
    changes(&["commit", &id]).fails(1, &["approval.required", "palisade approve"]);
    let refused = changes(&["commit", &id, "--format", "json"])
        .expect_exit(1)
        .json();
    assert_eq!(refused["code"], "approval.required");
    changes(&["approve", &id, "--preview", preview]).fails(1, &["change.own-approval"]);
    let other = [&["approve", &id, "--preview", "other"][..], &ann].concat();
    changes(&other).fails(1, &["change.conflict"]);
    let approve = [&["approve", &id, "--preview", preview][..], &ann, &json].concat();
    assert_eq!(
        changes(&approve).expect_exit(0).json()["decided_by"],
        "User::\"ann\""
    );
    let committed = changes(&["commit", &id]).expect_exit(0).out;
    assert!(
        committed.contains("main.tickets: 0 new, 2 changed, 0 deleted"),
        "{committed}"
    );
    let after = rows();
    assert!(after.contains("geheim") && after != before, "{after}");

    // What undoes it is a change as any other.
    let undo = [&["compensate", &id, "--validate"][..], &json].concat();
    let undo = changes(&undo).expect_exit(0).json();
    assert_eq!(
        (&undo["compensates"], &undo["state"]),
        (&json!(id), &json!("validated")),
        "{undo}"
    );
    let (back, preview) = (
        undo["change"].as_str().unwrap(),
        undo["preview"].as_str().unwrap(),
    );
    changes(&[&["approve", back, "--preview", preview][..], &ann].concat()).expect_exit(0);
    // Somebody else was quicker: what it does by now comes with the refusal.
    database
        .execute_batch("UPDATE tickets SET status = 'open' WHERE id = 2")
        .unwrap();
    let conflict = changes(&["commit", back]).expect_exit(1);
    assert!(conflict.err.contains("change.conflict"), "{}", conflict.err);
    database
        .execute_batch("UPDATE tickets SET status = 'closed' WHERE id = 2")
        .unwrap();
    let approve = |back: &str| {
        let again = changes(&[&["validate", back][..], &json].concat())
            .expect_exit(0)
            .json();
        let preview = again["preview"].as_str().unwrap();
        changes(&[&["approve", back, "--preview", preview][..], &ann].concat()).expect_exit(0);
    };
    approve(back);
    let kept = changes(&[&["commit", back][..], &json].concat())
        .expect_exit(0)
        .json();
    assert_eq!(kept["state"], "committed", "{kept}");
    assert_eq!(rows(), before);
    let listed = changes(&[&["list"][..], &json].concat())
        .expect_exit(0)
        .lines();
    let states: Vec<_> = listed
        .iter()
        .map(|view| view["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["committed", "compensated"]);
}

/// Statements come from a file too, and what is wrong with it is told by its line.
#[test]
fn statements_of_a_change_come_from_a_file() {
    let desk = Desk::new();
    desk.policy(&POLICIES.replace("@approval(\"operator\")", ""));
    desk.write(
        "palisade.toml",
        "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\n[approvals]\nstate = \"approvals.db\"\n\
         [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
    );
    let propose = |words: &[&str]| {
        desk.run(
            &[
                &["changes", "propose", "connection:desk"],
                words,
                &CONFIG[..],
            ]
            .concat(),
        )
    };
    desk.write(
        "lines.jsonl",
        "{\"sql\": \"UPDATE tickets SET subject = ? WHERE id = ?\", \"params\": [\"eins\", 1]}\n\n\
         {\"sql\": \"UPDATE tickets SET subject = 'zwei' WHERE id = 2\"}\n",
    );
    let from_file = propose(&["--batch", "lines.jsonl", "--format", "json"])
        .expect_exit(0)
        .json();
    assert_eq!(
        from_file["statements"].as_array().unwrap().len(),
        2,
        "{from_file}"
    );
    let id = from_file["change"].as_str().unwrap();
    let id = [id, "--config", "palisade.toml"];
    for verb in ["validate", "commit"] {
        desk.run(&[&["changes", verb, "connection:desk"], &id[..]].concat())
            .expect_exit(0);
    }
    let database = rusqlite::Connection::open(desk.path("demo.db")).unwrap();
    let sql = "SELECT group_concat(subject) FROM (SELECT * FROM tickets WHERE id < 3 ORDER BY id)";
    let subjects: String = database.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(subjects, "eins,zwei");
    // A change that is over cannot be withdrawn; another one can.
    desk.run(&[&["changes", "reject", "connection:desk"], &id[..]].concat())
        .fails(1, &["change.wrong-state", "palisade changes show"]);
    let one = propose(&[
        "UPDATE tickets SET subject = ? WHERE id = 1",
        "--params",
        "[\"drei\"]",
        "--format",
        "json",
    ]);
    let one = one.expect_exit(0).json();
    let one = [one["change"].as_str().unwrap(), "--config", "palisade.toml"];
    let rejected = desk.run(&[&["changes", "reject", "connection:desk"], &one[..]].concat());
    assert!(rejected.expect_exit(0).out.contains("rejected"));

    desk.write(
        "lines.jsonl",
        "{\"sql\": \"SELECT 1\"}\n{\"sql\": \"SELECT 1\", \"as\": \"User::1\"}\n",
    );
    propose(&["--batch", "lines.jsonl"]).fails(2, &["line 2", "`as`", "\"params\""]);
    desk.write("lines.jsonl", "\n");
    propose(&["--batch", "lines.jsonl"]).fails(1, &["request.invalid", "from 1 to 100"]);
    propose(&["UPDATE tickets SET id = id", "SELECT 1", "--params", "[]"])
        .fails(2, &["--batch FILE"]);
    propose(&["SELECT 1"]).fails(1, &["REFUSED"]);
    propose(&["--batch", "nowhere.jsonl"]).fails(2, &["nowhere.jsonl"]);
    propose(&[]).fails(2, &["SQL"]);
    // What would be gone with the command is not proposed.
    let alone = [
        "changes",
        "propose",
        "sqlite:demo.db",
        "UPDATE tickets SET id = id",
        "--policies",
        "p",
    ];
    desk.run(&alone)
        .fails(2, &["no state file", "[approvals]", "--audit"]);
}

/// The story of the manual, twice: what it makes it may make anew, and nothing else.
#[test]
fn the_demonstration_of_changes_ends_where_it_began() {
    let desk = Desk::empty();
    for _ in 0..2 {
        let told = desk.run(&["demo", "changes"]).expect_exit(0).out;
        for text in [
            "palisade changes propose",
            "rejected",
            "receipt",
            "main.users: 0 new, 0 changed, 1 deleted",
            "main.users: 1 new, 0 changed, 0 deleted",
            "undoes the change",
        ] {
            assert!(told.contains(text), "{text}: {told}");
        }
        // What foreign keys do is part of what is shown.
        let (first, _) = told.split_once("Ann rejects it").unwrap();
        assert_eq!(first.matches("main.orders").count(), 4, "{first}");
        // The commands that are shown are those that do it.
        let commit = told
            .lines()
            .rfind(|line| line.starts_with("$ palisade changes commit"));
        let again = desk.shell(commit.unwrap().trim_start_matches("$ "), 0, b"");
        assert!(again.expect_exit(0).out.contains("committed"));
        let database = rusqlite::Connection::open(desk.path("demo-changes/users.db")).unwrap();
        let sql = "SELECT group_concat(u.name || u.email || o.item, ';') FROM users u JOIN orders o ON o.user_id = u.id ORDER BY o.id";
        let rows: String = database.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(
            rows,
            "Ada Byronada@example.comlamp;Ada Byrona.byron@example.orgchair;Cyd Dorncyd@example.comdesk"
        );
        drop(database);
        let config = ["--config", "demo-changes/palisade.toml"];
        let verify = [&["ledger", "verify", "connection:users"], &config[..]].concat();
        assert_eq!(
            desk.run(&verify).expect_exit(0).out,
            "2 receipts are as they were written, in the database too\n"
        );
    }
    desk.write("demo-changes/mine.txt", "mine");
    desk.run(&["demo", "changes"])
        .fails(2, &["did not make", "--dir DIR"]);
    assert!(desk.path("demo-changes/users.db").exists());
    desk.run(&["demo", "changes", "--dir", "other"])
        .expect_exit(0);
    assert!(desk.path("other/demo-changes/palisade.toml").exists());
}
