//! What `palisade policy diff` compares: the tables and cases of both folders.

use crate::{
    desk::{Answer, Desk},
    workbench::{READ, TABLES, case},
};

const NONE: &str = "@id(\"none\") permit (principal == Agent::\"bob\", action, resource);\n";
const ALL: &str = "@id(\"all\") permit (principal == Agent::\"ann\", action, resource);\n";
const PAY: &str = "CREATE TABLE pay (id INTEGER PRIMARY KEY, salary INTEGER);";
const ASK_PAY: &str =
    "sql = \"SELECT salary FROM pay\"\ndecision = \"reject\"\ncode = \"name.unknown-relation\"";

fn write(desk: &Desk, folder: &str, policies: &str) {
    desk.write(&format!("{folder}/base.cedar"), policies);
    desk.write(&format!("{folder}/tests/tea.sql"), TABLES);
    let tea = case("a", READ);
    desk.write(
        &format!("{folder}/tests/tea.toml"),
        format!("catalog = \"tea\"\n{tea}"),
    );
}

fn diff(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(&[&["policy", "diff", "old", "new"], more].concat())
}

/// Whoever widens a policy may take the table that shows it out of the tests.
#[test]
fn what_the_newer_tests_dropped_is_compared() {
    let desk = Desk::empty();
    write(&desk, "old", NONE);
    desk.write("old/tests/pay.sql", PAY);
    let pay = case("pay-is-hidden", ASK_PAY);
    desk.write("old/tests/pay.toml", format!("catalog = \"pay\"\n{pay}"));
    write(&desk, "new", ALL);
    let told = diff(&desk, &[]).expect_exit(1).out;
    for text in [
        "  Agent::\"ann\": case pay-is-hidden: allow, was name.unknown-relation\n",
        "  Agent::\"ann\": main.pay select: allow, was never\n",
        "  Agent::\"ann\": main.pay.salary read: plain, was never\n",
        "of the tests, compared as they were:\n  the tables `pay` are gone\n  the case `pay-is-hidden` is gone\n",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    let json = diff(&desk, &["--format", "json"]).expect_exit(1).json();
    assert_eq!(json["dropped"][0], "the tables `pay` are gone", "{json}");
    assert_eq!(json["compared"], 2, "{json}");
    // The same policies: what is gone is told, and nothing changes.
    write(&desk, "new", NONE);
    let told = diff(&desk, &[]).expect_exit(0).out;
    assert!(
        told.starts_with("nothing changes\n") && told.contains("`pay-is-hidden` is gone"),
        "{told}"
    );
    let told = diff(&desk, &["--format", "markdown"]).expect_exit(0).out;
    assert!(told.contains("the tables `pay` are gone"), "{told}");
    // A statement about the table is decided over the older tests.
    write(&desk, "new", ALL);
    desk.write(
        "asked.jsonl",
        "{\"sql\": \"SELECT salary FROM pay\", \"as\": \"Agent::\\\"ann\\\"\"}",
    );
    let asked = ["--statements", "asked.jsonl", "--catalog", "pay"];
    let told = diff(&desk, &asked).expect_exit(1).out;
    assert!(told.contains("newly permitted:"), "{told}");
}

#[test]
fn tables_of_one_name_that_differ_are_compared_both_ways() {
    let desk = Desk::empty();
    write(&desk, "old", NONE);
    write(&desk, "new", ALL);
    let both = format!("{TABLES}{PAY}");
    desk.write("old/tests/tea.sql", &both);
    let told = diff(&desk, &[]).expect_exit(1).out;
    for text in [
        "main.tea.name read: plain, was never\n",
        "main.pay select, over `tea` as it was: allow, was never\n",
        "the tables `tea` are others\n",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    // What is found over both is told once.
    assert!(!told.contains("main.tea.name read, over"), "{told}");
    desk.write(
        "asked.jsonl",
        "{\"sql\": \"SELECT salary FROM pay\", \"as\": \"Agent::\\\"ann\\\"\"}",
    );
    let asked = ["--statements", "asked.jsonl"];
    diff(&desk, &asked).expect_exit(1);
}

/// Policies that do not load over the other folder's tables leave them undecided, which fails.
#[test]
fn what_cannot_be_compared_is_undecided() {
    let desk = Desk::empty();
    let named = "@id(\"cups\") permit (principal == Agent::\"ann\", action == Action::\"see\", resource is row::main::tea) when { resource.cups > 1 };\n";
    write(&desk, "old", ALL);
    write(&desk, "new", &format!("{ALL}{named}"));
    desk.write(
        "new/tests/tea.sql",
        "CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT, cups INTEGER NOT NULL);",
    );
    let told = diff(&desk, &["--fail-on", "nothing"]);
    let text = told.out.clone() + &told.err;
    assert!(
        text.contains("undecided:\n  the new policies do not load over the older tables `tea`"),
        "{text}"
    );
    told.expect_exit(6);
    diff(&desk, &["--fail-on", "nothing", "--max-undecided", "50"]).expect_exit(0);
    diff(&desk, &["--fail-on", "nothing", "--max-undecided", "49"]).expect_exit(6);
}

/// What is wider comes with cases that are ready to paste: they hold with the newer policies, and fail with the older ones.
#[test]
fn what_is_wider_is_shown_by_cases() {
    let desk = Desk::empty();
    write(&desk, "old", NONE);
    write(&desk, "new", ALL);
    let json = diff(&desk, &["--format", "json"]).expect_exit(1).json();
    let witnesses = json["witnesses"].as_array().unwrap();
    let of = |sql: &str| {
        let mut witnesses = witnesses.iter();
        witnesses.find(|one| one["sql"].as_str().unwrap().starts_with(sql))
    };
    let name = of("SELECT name FROM tea").unwrap_or_else(|| panic!("{json}"));
    assert_eq!(name["principal"], "Agent::\"ann\"");
    assert_eq!(name["before"], "reject name.unknown-relation");
    assert!(name["after"].as_str().unwrap().starts_with("allow, [["));
    assert!(!name["rows"].as_array().unwrap().is_empty(), "{json}");
    let cases: String = witnesses
        .iter()
        .map(|one| one["case"].as_str().unwrap().to_owned() + "\n")
        .collect();
    for folder in ["old", "new"] {
        desk.write(
            &format!("{folder}/tests/wider.toml"),
            format!("catalog = \"tea\"\n{cases}"),
        );
    }
    let run = |folder: &str| {
        let told = desk.run(&[
            "policy", "test", folder, "--filter", "wider", "--format", "json",
        ]);
        told.json()
    };
    let (old, new) = (run("old"), run("new"));
    assert_eq!(new["passed"], witnesses.len(), "{new}");
    assert_eq!(old["failed"], witnesses.len(), "{old}");

    let text = diff(&desk, &[]).expect_exit(1).out;
    assert!(
        text.contains("  Agent::\"ann\": SELECT name FROM tea LIMIT 3\n    was  reject name.unknown-relation\n    is   allow, [["),
        "{text}"
    );
    let markdown = diff(&desk, &["--format", "markdown"]).expect_exit(1).out;
    assert!(markdown.contains("<details><summary>"), "{markdown}");
    // What is narrower needs none.
    let told = desk.run(&["policy", "diff", "new", "old", "--format", "json"]);
    let narrower = told.json();
    let wider = narrower["changes"].as_array().unwrap();
    let wider = wider.iter().any(|one| one["direction"] != "narrower");
    assert_eq!(
        narrower["witnesses"].as_array().unwrap().is_empty(),
        !wider,
        "{narrower}"
    );
}

/// A policy that fails to evaluate for one principal is told in its cells, and the other principals are told of all the same.
#[test]
fn a_policy_that_fails_is_told_in_the_cells_of_whom_it_fails_for() {
    let desk = Desk::empty();
    let quota = "@id(\"all\") permit (principal is Agent, action, resource);
@id(\"quota\") forbid (principal is Agent, action == Action::\"select\", resource) when { principal has quota && principal.quota + 9223372036854775807 < 0 };\n";
    write(&desk, "old", quota);
    write(&desk, "new", quota);
    for folder in ["old", "new"] {
        desk.write(
            &format!("{folder}/principals.cedarschema"),
            "entity Role in [Role];\nentity Agent in [Role] { quota?: Long };\nentity User in [Role];\n",
        );
        desk.write(
            &format!("{folder}/entities.json"),
            r#"[{"uid": {"type": "Agent", "id": "bob"}, "attrs": {"quota": 1}, "parents": []},
                {"uid": {"type": "Agent", "id": "ann"}, "attrs": {}, "parents": []}]"#,
        );
    }
    desk.run(&["policy", "lock", "new"]).expect_exit(0);
    let lock = std::fs::read_to_string(desk.path("new/access.lock")).unwrap();
    for line in [
        "Agent::\"bob\": main.tea select: never: quota fails to evaluate\n",
        "Agent::\"ann\": main.tea.name read: plain\n",
    ] {
        assert!(lock.contains(line), "{line}: {lock}");
    }
    // Each line is true: a change is refused as well, since it asks what may be read.
    let of_bob = lock.lines();
    let of_bob = of_bob.filter(|line| line.starts_with("Agent::\"bob\": "));
    assert_eq!(of_bob.count(), 1, "{lock}");
    let over = ["--catalog", "new/tests/tea.sql", "--policies", "new"];
    let delete = ["--as", "Agent::\"bob\"", "DELETE FROM tea WHERE id = 1"];
    let told = desk.run(&[&["check"][..], &over, &delete].concat());
    let told = told.expect_exit(3).out;
    assert!(told.contains("policy.evaluation-failed"), "{told}");
    diff(&desk, &[]).expect_exit(0);
    let who = desk.run(&[&["policy", "who", "tea"][..], &over].concat());
    let who = who.expect_exit(0).out;
    assert!(who.contains("never: quota fails to evaluate"), "{who}");
    let what = desk.run(&[&["policy", "what", "Agent::\"bob\""][..], &over].concat());
    let what = what.expect_exit(0).out;
    assert!(what.contains("quota fails to evaluate"), "{what}");
    // Where it no longer fails, more is permitted.
    write(
        &desk,
        "new",
        "@id(\"all\") permit (principal is Agent, action, resource);\n",
    );
    std::fs::remove_file(desk.path("new/access.lock")).unwrap();
    let told = diff(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("Agent::\"bob\": main.tea select: allow, was never: quota fails to evaluate"),
        "{told}"
    );
}
