//! `palisade run`: templates of the policy folder.

use serde_json::json;

use crate::desk::{Answer, Desk};

const POLICIES: &str = r#"permit (principal, action == Action::"run", resource);
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource)
when { context has template };
"#;

const TEMPLATES: &str = r#"[[template]]
name = "customer"
description = "One customer."
sql = "SELECT id FROM customers WHERE id = :id AND :also"
parameters = [{ name = "id", type = "integer" }, { name = "also", type = "boolean", nullable = true }]
"#;

fn run(desk: &Desk, arguments: &[&str]) -> Answer {
    let begin = ["run", "sqlite:demo.db", "customer", "--policies", "p"];
    desk.run(&[&begin[..], arguments].concat())
}

/// A template that changes data is run where that is asked for, and policies permit the change inside of it.
#[test]
fn templates_that_change_data_ask_for_it() {
    let desk = Desk::new();
    desk.policy(
        r#"permit (principal, action == Action::"run", resource);
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource);
permit (principal, action in [Action::"update", Action::"change", Action::"add", Action::"write"], resource)
when { context has template };
"#,
    );
    desk.write(
        "p/templates.toml",
        r#"[[template]]
name = "customer"
description = "Closes a ticket."
sql = "UPDATE tickets SET status = 'closed' WHERE id = ?"
parameters = [{ name = "id", type = "integer" }]
"#,
    );
    let one = ["--param", "id=1", "--format", "json"];
    let refused = run(&desk, &one).expect_exit(1);
    let note = "note: the template changes data: `--write` opens the database for it";
    assert!(refused.err.contains(note), "{}", refused.err);
    let answer = refused.json();
    assert_eq!(answer["code"], "statement.not-allowed", "{answer}");
    let done = run(&desk, &[&one[..], &["--write"]].concat()).expect_exit(0);
    assert!(!done.err.contains("--write"), "{}", done.err);
    let sql = "UPDATE tickets SET status = 'open' WHERE id = 1";
    let by_itself = [
        "execute",
        "sqlite:demo.db",
        "--policies",
        "p",
        "--format",
        "json",
        sql,
    ];
    let refused = desk.run(&by_itself).expect_exit(1).json();
    assert_eq!(refused["code"], "policy.no-permit", "{refused}");
}

#[test]
fn templates_are_run_by_name() {
    let desk = Desk::new();
    desk.policy(POLICIES);
    desk.write("p/templates.toml", TEMPLATES);
    let both = [
        "--param",
        "id=1",
        "--param",
        "also=true",
        "--format",
        "json",
    ];
    let answer = run(&desk, &[&both[..], &["--audit", "audit.jsonl"]].concat())
        .expect_exit(0)
        .json();
    assert_eq!(answer["rows"], json!([{"id": 1}]), "{answer}");
    let record = std::fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    assert!(record.contains("\"template\":\"customer\""), "{record}");
    // NULL is neither true nor false.
    let null = ["--param", "id=1", "--param", "also", "--format", "json"];
    assert_eq!(run(&desk, &null).expect_exit(0).json()["rows"], json!([]));
    for (arguments, told) in [
        (&["--param", "id=1"][..], "`also` is missing"),
        (&["--param", "id=x", "--param", "also"], "`id` is integer"),
        (&["--param", "idd=1"], "did you mean `id`?"),
    ] {
        let answer = run(&desk, &[arguments, &["--format", "json"]].concat());
        let answer = answer.expect_exit(1).json();
        assert_eq!(answer["code"], "parameter.mismatch");
        assert!(
            answer["message"].as_str().unwrap().contains(told),
            "{answer}"
        );
    }
    run(&desk, &["--param", "id=1", "--param", "id=2"]).fails(2, &["given twice"]);
    let sql = "SELECT id FROM customers";
    desk.run(&[
        "query",
        "sqlite:demo.db",
        "--policies",
        "p",
        "--format",
        "json",
        sql,
    ])
    .expect_exit(1);
    let mistaken = TEMPLATES.replace(":also", "1");
    desk.write("p/templates.toml", mistaken);
    run(&desk, &[]).fails(3, &["p/templates.toml:4:7", "are not its 2 parameters"]);
}

/// Every policy that decided a change is named: of the template, the table, its columns, and its rows before and after.
#[test]
fn every_policy_of_a_change_is_recorded() {
    let desk = Desk::new();
    desk.policy(
        r#"@id("run") permit (principal, action == Action::"run", resource);
@id("select") permit (principal, action == Action::"select", resource);
@id("see") permit (principal, action == Action::"see", resource);
@id("read") permit (principal, action in Action::"read", resource);
@id("update") permit (principal, action == Action::"update", resource == Table::"main.tickets");
@id("write") permit (principal, action == Action::"write", resource == Column::"main.tickets.status");
@id("change") permit (principal, action == Action::"change", resource is row::main::tickets);
@id("add") permit (principal, action == Action::"add", resource is row::main::tickets);
@id("add.of-others") permit (principal, action == Action::"add", resource is row::main::customers);
@id("not.deleted") forbid (principal, action == Action::"change", resource is row::main::tickets)
when { resource.status == "deleted" };
"#,
    );
    desk.write(
        "p/templates.toml",
        r#"[[template]]
name = "customer"
description = "Closes a ticket."
sql = "UPDATE tickets SET status = 'closed' WHERE id = ?"
parameters = [{ name = "id", type = "integer" }]
"#,
    );
    let inside = json!([
        "add",
        "change",
        "not.deleted",
        "read",
        "run",
        "see",
        "select",
        "update",
        "write"
    ]);
    let arguments = ["--param", "id=1", "--write", "--audit", "audit.jsonl"];
    let json = [&arguments[..], &["--format", "json"]].concat();
    let answer = run(&desk, &json).expect_exit(0).json();
    assert_eq!(answer["policies"], inside, "{answer}");
    let record = &desk.records("audit.jsonl")[0];
    assert_eq!(record["policies"], inside, "{record}");
    let told = run(&desk, &arguments).expect_exit(0).out;
    assert!(
        told.contains("policies: add, change, not.deleted, read, run"),
        "{told}"
    );
    let sql = "UPDATE tickets SET status = 'closed' WHERE id = 1";
    let told = desk
        .run(&["explain", "sqlite:demo.db", "--policies", "p", sql])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("├─ changed\n│  ├─ add (permit)\n│  ├─ change (permit)\n"),
        "{told}"
    );
    assert!(
        told.contains("policies: add, change, not.deleted, read, see"),
        "{told}"
    );
}

/// An approval that a permit of rows demands is demanded of the change.
#[test]
fn rows_are_changed_with_the_approval_that_their_permit_demands() {
    let desk = Desk::new();
    for (action, refused) in [("change", true), ("add", true), ("run", false)] {
        desk.policy(
            &r#"permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"update", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@id("approved") @approval("required") permit (principal, action == Action::"ACTION", resource);
"#
            .replace("ACTION", action),
        );
        let sql = "UPDATE tickets SET status = 'open' WHERE id = 1";
        let answer = desk.run(&[
            "execute",
            "sqlite:demo.db",
            "--policies",
            "p",
            "--format",
            "json",
            sql,
        ]);
        let answer = answer.expect_exit(i32::from(refused)).json();
        if refused {
            assert_eq!(answer["code"], "approval.required", "{action}: {answer}");
            assert_eq!(answer["policies"], json!(["approved"]));
        }
    }
}
