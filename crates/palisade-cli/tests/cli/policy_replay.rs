//! What becomes of statements that were asked, where policies change.

use serde_json::json;

use crate::{
    desk::{Answer, Desk},
    workbench::{READ, TABLES, case},
};

const BASE: &str = "@id(\"read\") permit (principal == Agent::\"ann\", action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);
@id(\"pure\") permit (principal, action == Action::\"call\", resource) when { resource.safety == \"pure\" };
";
const MASK: &str = "@id(\"mask\") @mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");\n";
const ROWS: &str = "@id(\"rows\") forbid (principal, action == Action::\"see\", resource is row::main::tea) unless { resource has price && resource.price < 5 };\n";
const CAP: &str =
    "@id(\"cap\") @max_rows(\"3\") permit (principal, action == Action::\"select\", resource);\n";
const OFFSET: &str = "@id(\"offset\") forbid (principal, action == Action::\"select\", resource) when { context has statement && context.statement.offset > 1000 };\n";

fn desk(old: &[&str], new: &[&str]) -> Desk {
    let desk = Desk::empty();
    desk.write("p/base.cedar", BASE);
    for (folder, policies) in [("old", old), ("new", new)] {
        desk.write(
            &format!("{folder}/base.cedar"),
            BASE.to_owned() + &policies.concat(),
        );
        desk.write(&format!("{folder}/tests/tea.sql"), TABLES);
        desk.write(&format!("{folder}/tests/tea.toml"), case("a", READ));
    }
    desk
}

/// Asks statements of a database, which a log records.
fn ask(desk: &Desk, statements: &[&str]) {
    let database = desk.path("tea.db");
    palisade_sqlite::create_database(&database, TABLES).unwrap();
    for sql in statements {
        query(desk, "old", sql, &["--audit", "audit.jsonl"]);
    }
}

fn query(desk: &Desk, policies: &str, sql: &str, more: &[&str]) -> Answer {
    let query = ["query", "sqlite:tea.db", sql];
    let by = ["--policies", policies, "--as", "Agent::\"ann\""];
    desk.run(&[&query[..], &by, more].concat())
}

fn diff(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(&[&["policy", "diff", "old", "new"], more].concat())
}

const ASKED: [&str; 6] = [
    "SELECT name FROM tea WHERE price = 4",
    "SELECT name FROM tea WHERE price = 7",
    "SELECT price FROM tea WHERE name LIKE 'As%' LIMIT 3",
    "SELECT name FROM tea ORDER BY id LIMIT 1 OFFSET 5",
    "SELECT substr(name, 1, 3) FROM tea",
    "SELECT nothing FROM tea",
];

#[test]
fn statements_of_an_audit_log_are_decided_anew() {
    let replay = |old: &[&str], new: &[&str], exit| {
        let desk = desk(old, new);
        ask(&desk, &ASKED);
        let more = ["--audit", "audit.jsonl", "--format", "json"];
        diff(&desk, &more).expect_exit(exit).json()
    };
    let same = replay(&[MASK], &[MASK], 0);
    // Two of the statements differ in a literal alone.
    assert_eq!(
        (&same["unchanged"], &same["changes"]),
        (&json!(5), &json!([])),
        "{same}"
    );
    assert_eq!(same["undecided"], json!([]));
    let masked = replay(&[], &[MASK], 0);
    assert_eq!(masked["changes"].as_array().unwrap().len(), 2, "{masked}");
    for change in masked["changes"].as_array().unwrap() {
        assert_eq!(change["direction"], "narrower");
        assert_eq!(change["old"], "main.tea.price plain");
        assert_eq!(change["new"], "main.tea.price mask null");
    }
    let times = masked["changes"].to_string();
    assert!(times.contains("asked 2 times"), "{times}");
    let plain = replay(&[MASK], &[], 1);
    assert_eq!(plain["changes"][0]["direction"], "plainer", "{plain}");
    let capped = replay(&[], &[CAP], 0);
    assert_eq!(
        capped["changes"][0]["new"], "the answer at most 3 rows",
        "{capped}"
    );
    let rows = replay(&[ROWS], &[], 1);
    assert_eq!(rows["changes"][0]["direction"], "more-rows", "{rows}");
}

/// A literal that policies look at is not in the log, so that its statement is told apart.
#[test]
fn what_a_literal_decides_is_undecided() {
    let desk = desk(&[], &[OFFSET]);
    ask(&desk, &ASKED);
    let audit = ["--audit", "audit.jsonl"];
    let told = diff(&desk, &audit).expect_exit(0).out;
    assert!(
        told.contains("undecided, by a literal that is left out: select name from tea order by id limit ? offset ?"),
        "{told}"
    );
    assert!(told.contains("1 undecided (20.0 %)"), "{told}");
    diff(&desk, &[&audit[..], &["--max-undecided", "20"]].concat()).expect_exit(0);
    diff(&desk, &[&audit[..], &["--max-undecided", "19"]].concat()).expect_exit(6);
    // With its literals it is decided.
    let lines: Vec<String> = ASKED
        .iter()
        .map(|sql| json!({"sql": sql, "as": "Agent::\"ann\""}).to_string())
        .collect();
    desk.write("asked.jsonl", lines.join("\n") + "\n");
    let told = diff(&desk, &["--statements", "asked.jsonl"])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("6 statements: 0 change, 6 stay as they are, 0 undecided"),
        "{told}"
    );
    desk.write(
        "asked.jsonl",
        lines.join("\n").replace("OFFSET 5", "OFFSET 5000"),
    );
    let told = diff(&desk, &["--statements", "asked.jsonl"])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("narrower:") && told.contains("OFFSET 5000"),
        "{told}"
    );
}

#[test]
fn what_cannot_be_replayed_is_counted_apart() {
    let desk = desk(&[], &[MASK]);
    ask(&desk, &["SELECT name FROM tea", "SELECT price FROM tea"]);
    for folder in ["old", "new"] {
        desk.write(
            &format!("{folder}/tests/tea.sql"),
            "CREATE TABLE tea (name TEXT, id INTEGER);",
        );
        desk.write(&format!("{folder}/base.cedar"), BASE);
    }
    let any = ["--audit", "audit.jsonl", "--any-version"];
    let told = diff(&desk, &any).expect_exit(0).out;
    assert!(
        told.contains("not replayable: select price from tea") && told.contains("1 not replayable"),
        "{told}"
    );
    // What is no log is told with its line.
    desk.write(
        "broken.jsonl",
        "{\"kind\": \"call\"}\n{\"kind\": \"statement\"}\n",
    );
    diff(&desk, &["--audit", "broken.jsonl"])
        .fails(2, &["broken.jsonl:2: the record has no `principal`"]);
    desk.write("broken.jsonl", "{\"sql\": \"SELECT 1\", \"who\": \"x\"}\n");
    diff(&desk, &["--statements", "broken.jsonl"])
        .fails(2, &["broken.jsonl:1:", "unknown field `who`"]);
    diff(&desk, &["--audit", "none.jsonl"]).fails(2, &["cannot read", "none.jsonl"]);
    diff(&desk, &["--audit", "audit.jsonl", "--catalog", "coffee"])
        .fails(2, &["there is no catalog `coffee`"]);
}

/// How many rows come and go is counted on a database, and no value is told.
#[test]
fn rows_that_come_and_go_are_counted() {
    let desk = desk(&[MASK], &[ROWS]);
    palisade_sqlite::create_database(desk.path("tea.db"), TABLES).unwrap();
    let all = "SELECT name FROM tea";
    let statements = [
        (all, "ann"),
        ("SELECT price FROM tea WHERE id = 1", "ann"),
        ("SELECT count(*) FROM tea WHERE price < 5", "ann"),
        ("SELECT name FROM tea WHERE id = 1", "bob"),
        ("SELECT name FROM tea WHERE id = 1", "ann"),
        ("DELETE FROM tea", "ann"),
        (
            "SELECT abs(-9223372036854775808) FROM tea WHERE id = 1",
            "ann",
        ),
    ];
    let lines = statements
        .map(|(sql, who)| json!({"sql": sql, "as": format!("Agent::\"{who}\"")}).to_string());
    desk.write("asked.jsonl", lines.join("\n"));
    let rows = [
        "--statements",
        "asked.jsonl",
        "--rows",
        "sqlite:tea.db",
        "--fail-on",
        "nothing",
    ];
    let bare = |sql: &str| count_rows(&desk, sql);
    let (everything, cheap) = (bare(all), bare("SELECT name FROM tea WHERE price < 5"));
    assert!(cheap > 0 && cheap < everything, "{cheap} of {everything}");
    let told = diff(&desk, &rows).expect_exit(0).out;
    let gone = everything - cheap;
    for text in [
        format!("Agent::\"ann\": {all}: 0 rows come, {gone} go ({everything} before, {cheap} now)"),
        "SELECT price FROM tea WHERE id = 1: 1 rows come, 1 go (1 before, 1 now)".to_owned(),
        // The mask was compared, so that none was found.
        "SELECT count(*) FROM tea WHERE price < 5: 1 rows come, 1 go".to_owned(),
    ] {
        assert!(told.contains(&text), "{text}\n{told}");
    }
    let counted = told.split("rows:\n").nth(1).unwrap();
    assert!(counted.contains("not counted, database.rejected"), "{told}");
    assert_eq!(counted.lines().count(), 4, "{told}");
    for value in ["Assam", "null"] {
        assert!(!counted.contains(value), "{told}");
    }
    let json = diff(&desk, &[&rows[..], &["--format", "json"]].concat()).json();
    assert_eq!(json["rows"][0]["go"], gone, "{json}");
    diff(&desk, &["--rows", "sqlite:tea.db"]).fails(2, &["--statements"]);
    let named = ["--statements", "asked.jsonl", "--rows", "connection:tea"];
    diff(&desk, &named).fails(2, &["cannot be named here", "--rows sqlite:demo.db"]);
}

/// How many rows there are where nothing is masked or filtered.
fn count_rows(desk: &Desk, sql: &str) -> usize {
    let told = query(desk, "p", sql, &["--format", "json"]).expect_exit(0);
    told.json()["rows"].as_array().unwrap().len()
}

/// A record says by which versions it was decided. What others decided is no evidence of what changes.
#[test]
fn records_of_other_versions_are_not_replayable() {
    let desk = desk(&[MASK], &[]);
    ask(&desk, &["SELECT name FROM tea", "SELECT price FROM tea"]);
    // The policies and the principals are others from here on.
    query(
        &desk,
        "p",
        "SELECT price FROM tea",
        &["--audit", "audit.jsonl"],
    );
    let told = diff(&desk, &["--audit", "audit.jsonl"]).expect_exit(1).out;
    for text in [
        "not replayable, decided by other versions (policies), 1 records: select price from tea",
        "3 statements: 1 change, 1 stay as they are, 0 undecided (0.0 %), 1 not replayable",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    let json = ["--audit", "audit.jsonl", "--format", "json"];
    let told = diff(&desk, &json).json();
    assert_eq!(
        told["not_replayable_versions"],
        json!([{
            "principal": "Agent::\"ann\"",
            "sql": "select price from tea",
            "differing": ["policies"],
            "records": 1
        }])
    );
    assert_eq!(
        (&told["other_versions"], &told["not_replayable"]),
        (&json!([]), &json!([]))
    );
    let any = diff(&desk, &[&json[..], &["--any-version"]].concat()).json();
    assert_eq!(any["not_replayable_versions"], json!([]), "{any}");
    assert_eq!(any["other_versions"][0]["records"], 1, "{any}");
    // Other tables, and other principals.
    desk.write(
        "old/tests/tea.sql",
        "CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT, price INTEGER, cups INTEGER);",
    );
    desk.write(
        "old/entities.json",
        r#"[{"uid": {"type": "Agent", "id": "ann"}, "attrs": {}, "parents": []}]"#,
    );
    let told = diff(&desk, &["--audit", "audit.jsonl"]).expect_exit(6).out;
    for text in [
        "decided by other versions (entities, catalog), 1 records: select name from tea",
        "decided by other versions (policies, entities, catalog), 1 records: select price from tea",
        "3 statements: 0 change, 0 stay as they are, 0 undecided (0.0 %), 3 not replayable",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    // A record that names no versions is of none that can be had.
    let log = std::fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    desk.write("nameless.jsonl", log.replace("policy_digest", "digest"));
    let told = diff(&desk, &["--audit", "nameless.jsonl"])
        .expect_exit(6)
        .out;
    assert!(told.contains("(policies, entities, catalog)"), "{told}");
    // Whoever learns is told, and learns from them.
    let learn = ["policy", "learn", "new", "--audit", "audit.jsonl"];
    let told = desk.run(&learn).expect_exit(0).out;
    assert!(
        told.contains("2 of 3 records were decided by other versions than those of the folder (policies). They were learned from all the same."),
        "{told}"
    );
    let told = desk
        .run(&[&learn[..], &["--format", "json"]].concat())
        .json();
    assert_eq!(
        told["other_versions"],
        json!({"records": 2, "differing": ["policies"]})
    );
}

/// That a statement was permitted, or refused by policy, tells which literals it had not.
#[test]
fn what_was_decided_tells_which_literals_there_were_not() {
    let add = "@id(\"add\") permit (principal == Agent::\"ann\", action in [Action::\"insert\", Action::\"write\", Action::\"add\"], resource);
@id(\"cheap\") forbid (principal, action == Action::\"add\", resource is row::main::tea) unless { resource has price && resource.price < 5 };\n";
    for (price, exit, decided) in [
        (4, 0, "1 change, 0 stay as they are, 0 undecided"),
        (7, 1, "0 change, 1 stay as they are, 0 undecided"),
    ] {
        let desk = desk(&[add], &[add, MASK]);
        ask(&desk, &[]);
        let sql = format!(
            "INSERT INTO tea (id, name, price) VALUES (900, 'Assam', {price}) RETURNING price"
        );
        let by = [
            "--policies",
            "old",
            "--as",
            "Agent::\"ann\"",
            "--audit",
            "audit.jsonl",
        ];
        desk.run(&[&["execute", "sqlite:tea.db", &sql][..], &by].concat())
            .expect_exit(exit);
        let told = diff(&desk, &["--audit", "audit.jsonl"]).expect_exit(0).out;
        assert!(
            told.contains(&format!("1 statements: {decided}")),
            "{price}: {told}"
        );
    }
}

/// A name that was ambiguous is not where the newer policies hide one of its columns.
#[test]
fn what_policies_make_plain_is_newly_permitted() {
    let hidden = "@id(\"hidden\") forbid (principal, action in Action::\"read\", resource == Column::\"main.pot.name\");\n";
    let desk = desk(&[], &[hidden]);
    let tables = format!("{TABLES}CREATE TABLE pot (id INTEGER PRIMARY KEY, name TEXT);\n");
    for folder in ["old", "new"] {
        desk.write(&format!("{folder}/tests/tea.sql"), &tables);
    }
    palisade_sqlite::create_database(desk.path("tea.db"), &tables).unwrap();
    let sql = "SELECT name FROM tea JOIN pot ON tea.id = pot.id";
    let asked = query(
        &desk,
        "old",
        sql,
        &["--audit", "audit.jsonl", "--format", "json"],
    );
    assert_eq!(asked.expect_exit(1).json()["code"], "name.ambiguous");
    let told = diff(&desk, &["--audit", "audit.jsonl", "--format", "json"]);
    let told = told.expect_exit(1).json();
    assert_eq!(told["changes"][0]["direction"], "newly-permitted", "{told}");
}
