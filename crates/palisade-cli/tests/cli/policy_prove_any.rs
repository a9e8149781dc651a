//! `palisade policy prove --any-entities`: what is proved over any principal, refuted by one of the solver's, and what is left
//! undecided by a solver that does not help.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Instant};

use palisade_testkit::desktop::find_cvc5;
use serde_json::Value;

use crate::{
    desk::{Answer, Desk},
    policy_prove::{PII, POLICIES, folder},
};

const PROVE: [&str; 4] = ["policy", "prove", "p", "--any-entities"];

/// A desk's command with the real solver.
fn with_cvc5(desk: &Desk, arguments: &[&str]) -> Answer {
    let (program, libraries) = find_cvc5().unwrap();
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command.args(arguments).env("CVC5", program);
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    Answer::from_command(&mut command, b"")
}

fn write_property(desk: &Desk, property: &str) {
    let text = format!("[[property]]\nname = \"it\"\n{property}\n");
    desk.write("p/properties.toml", text);
}

/// What is told of the one property in `p`, which ends with `exit`.
fn prove_one(desk: &Desk, property: &str, exit: i32) -> Value {
    write_property(desk, property);
    let arguments = [&PROVE[..], &["--format", "json"]].concat();
    let told = with_cvc5(desk, &arguments).expect_exit(exit).json();
    told["properties"][0].clone()
}

/// A property is proved by what the folder's own principals are, and refuted by the solver's, by a statement that was run. The
/// statement shows the same where the principal is put into `entities.json`.
fn refute(policies: &str, property: &str) -> (Value, Desk) {
    let desk = folder(policies);
    write_property(&desk, property);
    let known = desk.run(&["policy", "prove", "p", "--format", "json"]);
    assert_eq!(known.json()["properties"][0]["outcome"], "proved");
    let told = prove_one(&desk, property, 1);
    assert_eq!(told["outcome"], "refuted", "{told}");
    let example = &told["counterexamples"][0];
    let made: Value = serde_json::from_str(example["entities"].as_str().unwrap()).unwrap();
    let own: Value =
        serde_json::from_str(&fs::read_to_string(desk.path("p/entities.json")).unwrap()).unwrap();
    let is_made = |one: &Value| {
        let mut made = made.as_array().unwrap().iter();
        made.any(|other| other["uid"] == one["uid"])
    };
    let own = own.as_array().unwrap().iter().filter(|one| !is_made(one));
    let all: Vec<&Value> = own.chain(made.as_array().unwrap()).collect();
    desk.write("p/entities.json", serde_json::to_string(&all).unwrap());
    let again = desk.run(&["policy", "prove", "p", "--format", "json"]);
    let again = again.expect_exit(1).json();
    assert_eq!(again["properties"][0]["outcome"], "refuted", "{again}");
    (told, desk)
}

/// The demonstration's properties hold whoever asks, and the text says over what.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_proves_the_demonstrations_properties_over_any_principal() {
    let desk = Desk::new();
    let told = with_cvc5(
        &desk,
        &["policy", "prove", "demo-policies", "--any-entities"],
    );
    let told = told.expect_exit(0).out;
    let first = "PROVED contact-data-is-never-plain\n  over any Agent and User and this catalog: demo, 3 columns\n";
    assert!(told.contains(first), "{told}");
    assert!(
        told.ends_with("4 proved, 0 refuted, 0 undecided; 0 spurious\n"),
        "{told}"
    );
}

/// No present principal has the role for which a policy leaks.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_finds_a_leak_for_a_role_that_nobody_has() {
    let leak = POLICIES.replace(
        "unless { principal in Role::\"dpo\" };",
        "unless { principal in Role::\"dpo\" || principal in Role::\"auditor\" };",
    );
    let (told, desk) = refute(&leak, PII);
    let example = &told["counterexamples"][0];
    assert_eq!(example["shown"], "plain", "{told}");
    assert!(
        example["sql"].as_str().unwrap().contains("amount"),
        "{told}"
    );
    // Somebody without a team sees no row; the statement was run all the same.
    assert_eq!(example["answer"], "allow, []", "{told}");
    assert!(
        example["entities"].as_str().unwrap().contains("auditor"),
        "{told}"
    );
    // The text has the principal as an entity.
    let told = with_cvc5(&desk, &PROVE).expect_exit(1).out;
    assert!(told.contains("\"id\":\"auditor\""), "{told}");
    assert!(!told.contains("PROVED"), "{told}");

    let desk = folder(POLICIES);
    let told = prove_one(&desk, PII, 0);
    assert_eq!(told["outcome"], "proved", "{told}");
    assert_eq!(
        told["world"]["any_of"],
        serde_json::json!(["Agent", "User"])
    );
    assert_eq!(told["world"]["columns"], 2, "{told}");
}

/// Attributes that no present principal has, rows and changes.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_finds_attributes_that_nobody_has() {
    let every_row = format!(
        "{POLICIES}@id(\"wide\") permit (principal, action == Action::\"see\", resource is row::main::staff) when {{ principal has team && principal.team == \"board\" }};"
    );
    let rows = "tables = \"main.staff\"\nrows = \"some\"";
    let (told, _) = refute(&every_row, rows);
    let entities = told["counterexamples"][0]["entities"].as_str().unwrap();
    assert!(entities.contains("board"), "{told}");
    let desk = folder(POLICIES);
    assert_eq!(prove_one(&desk, rows, 0)["outcome"], "proved");

    let no_rows = "outside = 'Role::\"dpo\"'\ntables = \"main.staff\"\nrows = \"none\"";
    let told = prove_one(&desk, no_rows, 1);
    assert_eq!(told["outcome"], "refuted", "{told}");
    let closed = POLICIES.replace(
        "when { principal has team && resource has team",
        "when { principal in Role::\"dpo\" && principal has team && resource has team",
    );
    let desk = folder(&closed);
    assert_eq!(prove_one(&desk, no_rows, 0)["outcome"], "proved");

    let write = format!(
        "{POLICIES}@id(\"delete\") permit (principal in Role::\"boss\", action == Action::\"delete\", resource == Table::\"main.staff\");
         @id(\"change\") permit (principal, action == Action::\"change\", resource is row::main::staff);"
    );
    let may_not = "tables = \"main.*\"\nmay_not = [\"insert\", \"delete\", \"truncate\"]";
    let desk = folder(&write);
    let told = prove_one(&desk, &format!("outside = 'Role::\"boss\"'\n{may_not}"), 0);
    assert_eq!(told["outcome"], "proved", "{told}");
    let told = prove_one(&desk, "tables = \"main.staff\"\nmay_not = \"delete\"", 1);
    assert_eq!(told["outcome"], "refuted", "{told}");
}

/// A mask is no more than a mask, whatever decides which; a token is told from it.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_knows_how_much_a_mask_shows() {
    let desk = folder(&POLICIES.replace("@mask(\"null\")", "@mask(\"bucket(10)\")"));
    for (bound, exit, outcome) in [
        ("hidden", 1, "refuted"),
        ("null", 1, "refuted"),
        ("token", 1, "refuted"),
        ("mask", 0, "proved"),
    ] {
        let property = format!(
            "outside = 'Role::\"dpo\"'\ncolumns = \"main.staff.salary\"\nshows = \"{bound}\""
        );
        let told = prove_one(&desk, &property, exit);
        assert_eq!(told["outcome"], outcome, "{bound}: {told}");
    }
    let desk = folder(POLICIES);
    for (bound, exit, outcome) in [("hidden", 1, "refuted"), ("null", 0, "proved")] {
        let property = format!(
            "outside = 'Role::\"dpo\"'\ncolumns = \"main.staff.salary\"\nshows = \"{bound}\""
        );
        let told = prove_one(&desk, &property, exit);
        assert_eq!(told["outcome"], outcome, "{bound}: {told}");
    }
}

/// What the firewall does not show is told as spurious, and proves nothing.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_finds_more_than_is_there_and_that_is_told() {
    // The column is computed from one that is hidden; by policies alone it is plain.
    let desk = folder(&format!(
        "{POLICIES}@id(\"hide\") forbid (principal, action in Action::\"read\", resource == Column::\"main.made.a\");
         @id(\"made\") permit (principal, action == Action::\"see\", resource is row::main::made);"
    ));
    let tables = fs::read_to_string(desk.path("p/tests/staff.sql")).unwrap();
    let made = "CREATE TABLE made (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) STORED);\n";
    desk.write("p/tests/staff.sql", format!("{tables}{made}"));
    let told = prove_one(&desk, "columns = \"main.made.b\"\nshows = \"hidden\"", 6);
    assert_eq!(told["outcome"], "undecided", "{told}");
    assert_eq!(
        told["counterexamples"].as_array().unwrap().len(),
        0,
        "{told}"
    );
    let spurious = told["spurious"][0].as_str().unwrap();
    assert!(spurious.contains("the firewall does not show it"), "{told}");
}

/// A principal that no entity holds lacks what its type demands; a solver would say that there is none.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_is_not_asked_where_an_absent_entity_decides() {
    let desk = folder(&format!(
        "{POLICIES}@id(\"odd\") permit (principal, action == Action::\"delete\", resource == Table::\"main.staff\") unless {{ principal has grade }};"
    ));
    desk.write(
        "p/principals.cedarschema",
        "entity Role; entity Agent in [Role] { team?: String, grade: Long }; entity User in [Role] { team?: String };",
    );
    desk.write(
        "p/entities.json",
        r#"[{"uid": {"type": "Role", "id": "dpo"}, "attrs": {}, "parents": []}]"#,
    );
    let told = prove_one(&desk, "tables = \"main.staff\"\nmay_not = \"delete\"", 6);
    assert!(
        told["undecided"][0]
            .as_str()
            .unwrap()
            .contains("`odd` asks for `has grade`"),
        "{told}"
    );
}

/// The time and the statement are any, too.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_leaves_circumstances_open() {
    let timed = POLICIES.replace(
        "unless { principal in Role::\"dpo\" };",
        "unless { principal in Role::\"dpo\" || (context has time && context.time < datetime(\"1999-01-01\")) };",
    );
    let told = prove_one(&folder(&timed), PII, 1);
    assert_eq!(told["outcome"], "refuted", "{told}");
    let client = POLICIES.replace(
        "unless { principal in Role::\"dpo\" };",
        "unless { principal in Role::\"dpo\" || (context has client && context.client == \"audit\") };",
    );
    let told = prove_one(&folder(&client), PII, 6);
    assert_eq!(told["outcome"], "undecided", "{told}");
    assert!(
        told["undecided"][0]
            .as_str()
            .unwrap()
            .contains("circumstances"),
        "{told}"
    );
}

/// New policies beside old ones.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_compares_policies_for_any_principal() {
    let old = |desk: &Desk, policies: &str| {
        for file in [
            "principals.cedarschema",
            "entities.json",
            "classification.toml",
        ] {
            let text = fs::read_to_string(desk.path(&format!("p/{file}"))).unwrap();
            desk.write(&format!("old/{file}"), text);
        }
        desk.write("old/base.cedar", policies);
        desk.write("old/tests/staff.sql", "CREATE TABLE staff (id INTEGER);");
    };
    let claim = "no_wider_than = \"../old\"";
    let extra = |text: &str| format!("{POLICIES}{text}");
    let narrower = extra(
        "@id(\"less\") forbid (principal, action == Action::\"select\", resource == Table::\"main.staff\") unless { principal in Role::\"dpo\" };",
    );
    let wider = POLICIES.replace(
        "unless { principal in Role::\"dpo\" };",
        "unless { principal in Role::\"dpo\" || principal in Role::\"auditor\" };",
    );
    let same = POLICIES.replace(
        "permit (principal, action == Action::\"select\", resource);",
        "permit (principal, action == Action::\"select\", resource) when { principal in Role::\"x\" || !(principal in Role::\"x\") };",
    );
    let capped = POLICIES.replace("@id(\"tables\")", "@id(\"tables\") @max_rows(\"5\")");
    let looser = POLICIES.replace("@id(\"tables\")", "@id(\"tables\") @max_rows(\"6\")");
    let masked = |mask: &str| POLICIES.replace("@mask(\"null\")", &format!("@mask(\"{mask}\")"));
    let rows = POLICIES.replace(
        "resource has team && resource.team == principal.team",
        "resource has team",
    );
    for (new, was, exit, outcome) in [
        (&narrower, POLICIES, 0, "proved"),
        (&POLICIES.to_owned(), narrower.as_str(), 1, "refuted"),
        (&wider, POLICIES, 1, "refuted"),
        (&same, POLICIES, 0, "proved"),
        (&POLICIES.to_owned(), same.as_str(), 0, "proved"),
        (&capped, POLICIES, 0, "proved"),
        (&capped, looser.as_str(), 0, "proved"),
        (&masked("null"), &masked("bucket(10)"), 0, "proved"),
        (&masked("bucket(10)"), &masked("null"), 1, "refuted"),
        // Two conditions of rows cannot be compared by a statement.
        (&rows, POLICIES, 6, "undecided"),
        (&POLICIES.to_owned(), rows.as_str(), 0, "proved"),
    ] {
        let desk = folder(new);
        old(&desk, was);
        let told = prove_one(&desk, claim, exit);
        assert_eq!(told["outcome"], outcome, "{new}\n{was}\n{told}");
    }
    // Caps are no statement's to show, and two masks are no more or less than each other.
    for (new, was) in [
        (looser.as_str(), capped.as_str()),
        (POLICIES, &capped),
        (&masked("bucket(20)"), &masked("bucket(10)")),
    ] {
        let desk = folder(new);
        old(&desk, was);
        write_property(&desk, claim);
        let arguments = [&PROVE[..], &["--format", "json"]].concat();
        let told = with_cvc5(&desk, &arguments).json();
        assert_ne!(told["properties"][0]["outcome"], "proved", "{told}");
    }
}

/// A policy without which all is the same.
#[test]
#[ignore = "needs cvc5: cargo xtask test runs it"]
fn cvc5_finds_policies_redundant_for_any_principal() {
    let claim = "redundant = \"it\"";
    for (policy, exit, outcome) in [
        (
            "@id(\"it\") permit (principal in Role::\"dpo\", action == Action::\"select\", resource);",
            0,
            "proved",
        ),
        (
            "@id(\"it\") permit (principal in Role::\"boss\", action == Action::\"delete\", resource == Table::\"main.staff\");",
            1,
            "refuted",
        ),
        (
            "@id(\"it\") forbid (principal in Role::\"guest\", action == Action::\"select\", resource == Table::\"main.staff\");",
            1,
            "refuted",
        ),
        (
            "@id(\"it\") @mask(\"null\") forbid (principal in Role::\"guest\", action == Action::\"read_plain\", resource) when { resource.tags.contains(\"pii\") } unless { principal in Role::\"dpo\" };",
            0,
            "proved",
        ),
        (
            "@id(\"it\") permit (principal, action == Action::\"call\", resource);",
            6,
            "undecided",
        ),
    ] {
        let desk = folder(&format!("{POLICIES}{policy}"));
        let told = prove_one(&desk, claim, exit);
        assert_eq!(told["outcome"], outcome, "{policy}\n{told}");
    }
}

/// A solver of our own: what it says to `--version`, and what else it does.
fn solver(desk: &Desk, version: &str, script: &str) -> String {
    let path = desk.path("solver");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then {version}; exit; fi\necho $$ > pid\n{script}\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

const VERSION: &str = "echo 'This is cvc5 version 1.3.1'";

/// What a solver that does not help leaves undecided, and why.
fn undecided(version: &str, script: &str) -> (String, Desk) {
    let desk = folder(POLICIES);
    write_property(&desk, PII);
    let solver = solver(&desk, version, script);
    let more = ["--solver", &solver, "--solver-time", "1"];
    let told = desk.run(&[&PROVE[..], &more].concat()).expect_exit(6).out;
    assert!(told.contains("UNDECIDED it"), "{told}");
    assert!(
        told.ends_with("0 proved, 0 refuted, 1 undecided; 0 spurious\n"),
        "{told}"
    );
    (told, desk)
}

#[test]
fn a_solver_that_does_not_help_proves_nothing() {
    let answer = |text: &str| {
        format!("while read -r line; do case \"$line\" in *check-sat*) echo {text};; esac; done")
    };
    for (version, script, expected) in [
        (
            VERSION,
            answer("unknown"),
            "the solver does not know; it had 1 s",
        ),
        (VERSION, "exit 1".to_owned(), "the solver failed"),
        (VERSION, "exec <&-".to_owned(), "the solver failed"),
        (
            VERSION,
            answer("nonsense"),
            "unrecognized solver output: nonsense",
        ),
        (VERSION, answer("sat"), "the solver"),
        (
            "echo 'This is cvc5 version 1.0.2'",
            String::new(),
            "is cvc5 1.0.2, which is too old; name cvc5 1.0.3 or newer",
        ),
        ("echo 'Z3 version 4.8.12'", String::new(), "is no cvc5"),
        (
            "sleep 100",
            String::new(),
            "did not tell its version within 1 s",
        ),
    ] {
        let (told, _) = undecided(version, &script);
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let desk = folder(POLICIES);
    write_property(&desk, PII);
    let told = desk.run(&[&PROVE[..], &["--solver", "/nowhere/cvc5"]].concat());
    let told = told.expect_exit(6).out;
    assert!(
        told.contains("the solver `/nowhere/cvc5` does not start"),
        "{told}"
    );
    assert!(told.contains("`--solver` or the variable `CVC5`"), "{told}");
}

#[test]
fn a_solver_that_hangs_is_ended() {
    let begun = Instant::now();
    let (told, desk) = undecided(VERSION, "exec sleep 100");
    assert!(
        told.contains("the solver did not answer within 1 s and was ended"),
        "{told}"
    );
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    let pid = fs::read_to_string(desk.path("pid")).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/comm", pid.trim()));
    assert!(stat.is_err(), "{stat:?}");
}

#[test]
fn the_solvers_options_are_of_any_entities() {
    let desk = folder(POLICIES);
    desk.run(&["policy", "prove", "p", "--solver", "x"])
        .fails(2, &["--any-entities"]);
}
