//! Cases that ask more than a statement: templates, how much time policies give, and who may approve.

use serde_json::json;

use crate::{
    desk::Desk,
    workbench::{TABLES, folder, test},
};

const POLICIES: &str = r#"@id("run") permit (principal == Agent::"ann", action == Action::"run", resource == Template::"teas-below");
@id("teas") @max_time("2s") permit (principal == Agent::"ann", action in [Action::"select", Action::"read"], resource)
when { context has template && context.template == "teas-below" };
@id("rows") permit (principal, action == Action::"see", resource);
@id("insert") @approval("required") permit (principal == Agent::"ann", action in [Action::"insert", Action::"write", Action::"add"], resource);
@id("approve") permit (principal == User::"ida", action == Action::"approve", resource == Table::"main.tea");
"#;

const TEMPLATES: &str = r#"[[template]]
name = "teas-below"
description = "The names of teas below a price."
sql = "SELECT name FROM tea WHERE price < :most"
parameters = [{ name = "most", type = "integer" }]
"#;

const CASES: &str = r#"as = 'Agent::"ann"'

[[case]]
name = "the-template"
template = "teas-below"
params = { most = 6 }
decision = "allow"
policies = ["rows", "run", "teas"]
rows = [["Assam"]]
max_time_ms = 2000

[[case]]
name = "of-another-type"
template = "teas-below"
params = { most = "6" }
decision = "reject"
code = "parameter.mismatch"

[[case]]
name = "for-another"
as = 'Agent::"ben"'
template = "teas-below"
params = { most = 6 }
decision = "reject"
code = "template.unknown"

[[case]]
name = "the-text-alone"
sql = "SELECT name FROM tea WHERE price < 6"
decision = "reject"
code = "name.unknown-relation"

[[case]]
name = "the-change"
sql = "INSERT INTO tea (id, name) VALUES (3, 'Oolong')"
decision = "reject"
code = "approval.required"
approvers = ['User::"ida"']
no_approvers = ['User::"ben"', 'Agent::"ann"']
"#;

fn desk(cases: &str) -> Desk {
    let desk = folder(cases);
    desk.write("p/base.cedar", POLICIES);
    desk.write("p/templates.toml", TEMPLATES);
    desk
}

#[test]
fn templates_time_and_approvers_are_expected() {
    let told = test(&desk(CASES), &["--coverage", "--format", "json"]);
    let told = told.expect_exit(0).json();
    assert_eq!(told["passed"], 5, "{told}");
    assert_eq!(told["cases"][0]["template"], "teas-below");
    assert_eq!(told["cases"][0]["sql"], json!(null));
    for policy in told["coverage"]["policies"].as_array().unwrap() {
        assert_ne!(policy["cases"], 0, "{policy}");
    }
    let of_kind = |kind: &str| {
        let kinds = told["coverage"]["kinds"].as_array().unwrap();
        let found = kinds.iter().find(|one| one["kind"] == kind);
        found.unwrap()["untested"].to_string()
    };
    let untested = of_kind("actions");
    for action in ["run", "approve"] {
        assert!(!untested.contains(action), "{untested}");
    }
}

/// Each expectation fails where it is wrong, and the line that repeats a template's case does so.
#[test]
fn what_is_not_as_expected_is_told() {
    for (from, to, told) in [
        ("rows = [[\"Assam\"]]", "rows = []", "expected []"),
        (
            "max_time_ms = 2000",
            "max_time_ms = 1000",
            "expected 1000 milliseconds\n    got      2000 milliseconds",
        ),
        (
            "no_approvers = ['User::\"ben\"'",
            "no_approvers = ['User::\"ida\"'",
            "User::\"ida\" may approve it, by approve",
        ),
        (
            "approvers = ['User::\"ida\"']",
            "approvers = ['User::\"ben\"']",
            "User::\"ben\" may not approve it, no policy permits it",
        ),
    ] {
        assert_eq!(CASES.matches(from).count(), 1, "{from}");
        let desk = desk(&CASES.replacen(from, to, 1));
        let failed = test(&desk, &["--verbose"]).expect_exit(1).out;
        assert!(failed.contains(told), "{to}: {failed}");
    }
    let desk = desk(&CASES.replace("max_time_ms = 2000", "max_time_ms = 1"));
    let failed = test(&desk, &[]).expect_exit(1).out;
    let (_, again) = failed.split_once("  again: ").unwrap();
    let again = again.lines().next().unwrap();
    assert!(
        again.ends_with(r#"':run teas-below {"most":6}'"#),
        "{again}"
    );
    let told = desk.shell(again, 0, b":explain\n").expect_exit(0).out;
    for part in ["Assam", "run", "name: plain"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
}

#[test]
fn what_contradicts_itself_is_told_with_its_place() {
    for (rest, told) in [
        (
            "",
            "what is asked? write `sql = \"…\"` or `template = \"NAME\"`",
        ),
        (
            "sql = \"SELECT 1\"\ntemplate = \"teas-below\"",
            "`template` stands instead of `sql`: leave one out",
        ),
        (
            "template = \"teas-below\"\nparams = [6]",
            "a template's parameters have names: write `params = { NAME = … }`",
        ),
        (
            "sql = \"SELECT 1\"\napprovers = [\"ida\"]",
            "`ida` is no principal",
        ),
    ] {
        let case = format!(
            "[[case]]\nname = \"a\"\nas = 'Agent::\"ann\"'\ndecision = \"allow\"\n{rest}\n"
        );
        test(&desk(&case), &[]).fails(2, &["p/tests/tea.toml:2:8", told]);
    }
    let case = "[[case]]\nname = \"a\"\nas = 'Agent::\"ann\"'\ndecision = \"reject\"\ncode = \"template.unknown\"\ntemplate = \"teas\"\nmax_time_ms = 1\n";
    test(&desk(case), &[]).fails(2, &["a refused case has no `max_time_ms`"]);
    // A template that does not exist is no policy's work.
    let case = "[[case]]\nname = \"a\"\nas = 'Agent::\"ann\"'\ndecision = \"allow\"\ntemplate = \"teas-bellow\"\n";
    let failed = test(&desk(case), &[]).expect_exit(1).out;
    assert!(
        failed.contains("there is no template `teas-bellow`; did you mean `teas-below`?"),
        "{failed}"
    );
}

/// What ran as a template is decided anew as one, by the type of its parameters, and nothing is learned from it.
#[test]
fn a_template_of_an_audit_log_is_decided_as_one() {
    let desk = desk(CASES);
    for name in [
        "base.cedar",
        "templates.toml",
        "tests/tea.sql",
        "tests/tea.toml",
    ] {
        let text = std::fs::read_to_string(desk.path(&format!("p/{name}"))).unwrap();
        let narrower = text.replace("\"2s\"", "\"1s\"");
        desk.write(&format!("narrower/{name}"), &narrower);
        let without = text.replace("@id(\"run\") permit", "@id(\"run\") forbid");
        desk.write(&format!("without/{name}"), without);
    }
    palisade_sqlite::create_database(desk.path("tea.db"), TABLES).unwrap();
    let run = ["run", "sqlite:tea.db", "teas-below", "--param", "most=6"];
    let by = [
        "--policies",
        "p",
        "--as",
        "Agent::\"ann\"",
        "--audit",
        "audit.jsonl",
    ];
    desk.run(&[&run[..], &by].concat()).expect_exit(0);
    let replay = |new: &str, exit| {
        let diff = ["policy", "diff", "p", new, "--audit", "audit.jsonl"];
        let more = ["--format", "json", "--fail-on", "wider"];
        let told = desk.run(&[&diff[..], &more].concat());
        told.expect_exit(exit).json()
    };
    let same = replay("narrower", 0);
    assert_eq!(
        (&same["unchanged"], &same["undecided"]),
        (&json!(1), &json!([])),
        "{same}"
    );
    let refused = replay("without", 0);
    assert_eq!(
        refused["changes"][0]["new"], "template.unknown",
        "{refused}"
    );
    let learn = ["policy", "learn", "p", "--audit", "audit.jsonl"];
    let learned = desk.run(&learn).expect_exit(1).out;
    assert!(
        learned.contains("it ran as the template `teas-below`: by hand, permit `run` of it"),
        "{learned}"
    );
}
