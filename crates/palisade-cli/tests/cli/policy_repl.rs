//! `palisade policy repl`: statements one after another.

use crate::desk::{Answer, BOT, Desk};

const TABLES: &str = "CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
INSERT INTO tea VALUES (1, 'Assam', 4), (2, 'Sencha', 7);
";

const POLICIES: &str = "@id(\"all\") permit (principal == Agent::\"ann\", action, resource);
@id(\"price\") @mask(\"null\")
forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");
";

fn desk() -> Desk {
    let desk = Desk::empty();
    desk.policy(POLICIES);
    desk.write("p/tests/tea.sql", TABLES);
    desk
}

fn repl(desk: &Desk, more: &[&str], input: &str) -> Answer {
    let base = [
        "policy",
        "repl",
        "--init",
        "p/tests/tea.sql",
        "--policies",
        "p",
    ];
    desk.run_with(&[&base[..], more].concat(), input.as_bytes())
}

#[test]
fn statements_are_asked_as_a_principal_and_shown_with_rows() {
    let input = "SELECT name, price\nFROM tea ORDER BY id;\n:explain\n:as Agent::\"ben\"\nSELECT name FROM tea;\n\
                 :as Agent::\"ann\"\nUPDATE tea SET name = 'Oolong' WHERE id = 1;\nSELECT name FROM tea WHERE id = ?\n:quit\nSELECT 9;\n";
    let told = repl(&desk(), &["--as", "Agent::\"ann\""], input);
    let told = told.expect_exit(0);
    for part in [
        "Assam",
        "NULL",
        "masked: price",
        "rewritten:",
        "─ price: mask null for output at 1:14",
        "asking as Agent::\"ben\"",
        "REFUSED name.unknown-relation",
        "(1 row changed)",
    ] {
        assert!(told.out.contains(part), "`{part}` is not in\n{}", told.out);
    }
    // `:quit` within a statement is a part of it, and what is wrong does not end the rest.
    assert!(told.out.contains("REFUSED syntax."), "{}", told.out);
    let params = "SELECT name FROM tea WHERE id = ?;\n:params [1]\nSELECT name FROM tea WHERE id = ?;\n:quit\nSELECT 9;\n";
    let told = repl(
        &desk(),
        &[
            "--as",
            "Agent::\"ann\"",
            "--format",
            "json",
            "--params",
            "[2]",
        ],
        params,
    );
    let lines = told.expect_exit(0).lines();
    let names: Vec<_> = lines.iter().map(|line| &line["rows"][0]["name"]).collect();
    assert_eq!(names, ["Sencha", "Assam"]);
}

/// Policies that are edited meanwhile apply from `:reload` on; those that do not load leave the others in force.
#[test]
fn policies_are_read_again_when_that_is_asked_for() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let desk = desk();
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command.args([
        "policy",
        "repl",
        "--init",
        "p/tests/tea.sql",
        "--policies",
        "p",
    ]);
    command.args(["--as", "Agent::\"ann\"", "--format", "json"]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |commands: &str| -> serde_json::Value {
        writeln!(input, "{commands}SELECT price FROM tea WHERE id = 1;").unwrap();
        serde_json::from_str(&output.next().unwrap().unwrap()).unwrap()
    };
    assert!(ask("")["rows"][0]["price"].is_null());
    desk.policy("permit (principal, action, resource);");
    assert!(ask("")["rows"][0]["price"].is_null());
    assert_eq!(ask(":reload\n")["rows"][0]["price"], 4);
    desk.policy("permit (principal, action, resorce);");
    assert_eq!(ask(":reload\n")["rows"][0]["price"], 4);
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("the policies in force stay"), "{told}");
    assert!(told.contains("p/base.cedar:1:28"), "{told}");
}

/// The line that a failing case prints gives what the case got.
#[test]
fn a_failing_case_is_repeated_by_the_line_that_it_prints() {
    let desk = desk();
    let case = "[[case]]\nname = \"names\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT name FROM tea WHERE name <> 'x'\"\ndecision = \"allow\"\nrows = [[\"Assam\"]]\n";
    desk.write("p/tests/tea.toml", case);
    let failed = desk.run(&["policy", "test", "p"]).expect_exit(1).out;
    let (_, again) = failed.split_once("  again: ").unwrap();
    let again = again.lines().next().unwrap();
    assert!(again.starts_with("palisade policy repl --init "), "{again}");
    let told = desk.shell(again, 0, b"").expect_exit(0).out;
    assert!(told.contains("Assam") && told.contains("Sencha"), "{told}");
}

#[test]
fn a_schema_alone_decides_and_a_database_is_only_read() {
    let desk = Desk::new();
    let over = |more: &[&str], input: &str| {
        let base = ["policy", "repl", "--policies", "demo-policies", "--as", BOT];
        desk.run_with(&[&base[..], more].concat(), input.as_bytes())
    };
    let decided = over(
        &["--catalog", "sqlite:demo.db"],
        "SELECT subject FROM tickets\n\n",
    );
    let decided = decided.expect_exit(0).out;
    assert!(decided.starts_with("PERMITTED\n"), "{decided}");
    let update = "UPDATE tickets SET status = 'closed' WHERE id = 2;\n";
    let read = over(&["sqlite:demo.db"], update).expect_exit(0).out;
    assert!(read.contains("REFUSED statement.not-allowed"), "{read}");
    over(&[], "").fails(2, &["there is no database"]);
    over(&["sqlite:demo.db", "SELECT 1", "SELECT 2"], "").fails(2, &[]);
}
