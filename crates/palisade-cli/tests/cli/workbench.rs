//! The policy workbench: tests of policy folders.

use std::{fs, path::Path};

use serde_json::json;

use crate::desk::{Answer, Desk};

pub(crate) const TABLES: &str =
    "CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
INSERT INTO tea VALUES (1, 'Assam', 4), (2, 'Sencha', 7);
";

const POLICIES: &str = "@id(\"all\") permit (principal == Agent::\"ann\", action, resource);
@id(\"price\") @mask(\"null\")
forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");
";

/// A policy folder `p` with tests.
pub(crate) fn folder(tests: &str) -> Desk {
    let desk = Desk::empty();
    desk.policy(POLICIES);
    desk.write("p/tests/tea.sql", TABLES);
    desk.write("p/tests/tea.toml", tests);
    desk
}

pub(crate) fn test(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(&[&["policy", "test", "p"], more].concat())
}

pub(crate) fn case(name: &str, rest: &str) -> String {
    format!("[[case]]\nname = \"{name}\"\nas = 'Agent::\"ann\"'\n{rest}\n")
}

pub(crate) const READ: &str = "sql = \"SELECT name FROM tea ORDER BY id\"\ndecision = \"allow\"";

#[test]
fn the_shipped_policies_pass_their_own_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let desk = Desk::empty();
    for (policies, least) in [("demo", 30), ("starter", 13)] {
        let folder = root.join(policies);
        let run = [
            "policy",
            "test",
            folder.to_str().unwrap(),
            "--format",
            "json",
            "--coverage",
            "--fail-under",
            "policies=100",
            "--mutate",
        ];
        let told = desk.run(&run).expect_exit(0).json();
        assert_eq!(told["mutation"]["score"], 100, "{told}");
        assert!(told["passed"].as_u64().unwrap() >= least, "{told}");
        assert_eq!((&told["failed"], &told["skipped"]), (&json!(0), &json!(0)));
    }
}

/// What no case notices is shown with a case that does. It holds as it is pasted, and the mutant is noticed from then on.
#[test]
fn a_mutant_that_survives_comes_with_a_case_that_notices_it() {
    let desk = folder(&case("names", READ));
    let mutate = ["--mutate", "--format", "json"];
    let count = |told: &serde_json::Value, fate: &str| {
        let all = told["mutation"]["mutants"].as_array().unwrap().clone();
        all.into_iter()
            .filter(|one| one["fate"] == fate)
            .collect::<Vec<_>>()
    };
    let told = test(&desk, &mutate).expect_exit(1).json();
    let survivors = count(&told, "survived");
    assert!(!survivors.is_empty(), "{told}");
    let mut tests = case("names", READ);
    for survivor in &survivors {
        let witness = &survivor["witness"];
        assert_ne!(witness["before"], witness["after"], "{survivor}");
        let text = witness["case"]
            .as_str()
            .unwrap_or_else(|| panic!("{survivor}"));
        if !tests.contains(text) {
            tests.push_str(text);
        }
    }
    desk.write("p/tests/tea.toml", &tests);
    let told = test(&desk, &mutate).expect_exit(0).json();
    assert_eq!(count(&told, "survived").len(), 0, "{told}");
    assert_eq!(told["mutation"]["score"], 100);
    // Rows are those of the fixture, and every other column is in plain.
    let rows = survivors
        .iter()
        .map(|one| one["witness"]["rows"].to_string());
    assert!(
        rows.clone().any(|rows| rows.contains("Assam")),
        "{survivors:?}"
    );
}

#[test]
fn a_survivor_is_named_with_a_reason_and_only_while_it_is_one() {
    let one = case(
        "prices",
        "sql = \"SELECT * FROM tea\"\ndecision = \"allow\"\nmasked = [\"price\"]",
    );
    let only = |more: &str| {
        let desk = folder(&format!("{one}{more}"));
        test(&desk, &["--mutate"])
    };
    let survivor = |change: &str, reason: &str| {
        format!("[[survivor]]\npolicy = \"all\"\nchange = \"{change}\"\nreason = \"{reason}\"\n")
    };
    let open = only("").expect_exit(1).out;
    assert!(
        open.contains("SURVIVED base.cedar:1 all: widened, for every principal"),
        "{open}"
    );
    let named = only(&survivor("for every principal", "Everybody may."))
        .expect_exit(0)
        .out;
    assert!(named.contains("1 named with a reason"), "{named}");
    let noticed = only(&survivor("taken away", "Why not?")).expect_exit(1).out;
    assert!(
        noticed.contains("the case `prices` notices it"),
        "{noticed}"
    );
    let unknown = only(&survivor("without `x`", "Why not?"))
        .expect_exit(1)
        .out;
    assert!(unknown.contains("there is no such mutant"), "{unknown}");
    let empty = only(&survivor("for every principal", " "))
        .expect_exit(2)
        .err;
    assert!(
        empty.contains("p/tests/tea.toml:8:10: a survivor needs a reason"),
        "{empty}"
    );
    // What a case does not hold without is no measure of a case that does not hold.
    let failing = folder(&case(
        "wrong",
        &READ.replace("allow", "reject\"\ncode = \"policy.forbidden"),
    ));
    let told = test(&failing, &["--mutate"]).expect_exit(1).out;
    assert!(told.contains("mutants: not tried"), "{told}");
    for form in ["junit", "tap"] {
        let desk = folder(&one);
        let told = test(&desk, &["--mutate", "--format", form])
            .expect_exit(1)
            .out;
        assert!(
            told.contains("no case notices base.cedar:1 all: widened"),
            "{told}"
        );
    }
}

/// The smallest set of policies that would have to go, and the conditions with their values.
#[test]
fn a_failing_case_says_which_policies_decide_and_by_what_values() {
    let desk = folder(&case(
        "prices",
        "sql = \"SELECT price FROM tea\"\ndecision = \"allow\"\nmasked = []",
    ));
    desk.policy(
        "@id(\"all\") permit (principal, action, resource);
@id(\"price\") @mask(\"null\")
forbid (principal, action == Action::\"read_plain\", resource)
when { resource.tags.contains(\"money\") } unless { principal in Role::\"trader\" };",
    );
    desk.write(
        "p/classification.toml",
        "[[column]]\npattern = \"*.*.price\"\ntags = [\"money\"]\n",
    );
    let told = test(&desk, &[]).expect_exit(1).out;
    for line in [
        "  it would hold without price",
        "  price at main.tea.price: when { resource.tags.contains(\"money\") }",
        "    resource.tags.contains(\"money\") is true",
        "    resource.tags is [\"money\"]",
        "  price: unless { principal in Role::\"trader\" } is false",
    ] {
        assert!(told.lines().any(|one| one == line), "{line}\n{told}");
    }
    let missing = folder(
        &case(
            "others",
            "sql = \"SELECT price FROM tea\"\ndecision = \"allow\"",
        )
        .replace("ann", "ben"),
    );
    let told = test(&missing, &[]).expect_exit(1).out;
    assert!(
        told.contains("no policy has to go for it to hold"),
        "{told}"
    );
}

/// Each key of the format is compared: a wrong one fails, and the failure names it.
#[test]
fn every_expectation_that_is_wrong_fails() {
    let change = "sql = \"UPDATE tea SET name = 'Oolong' WHERE id = 1\"\ndecision = \"allow\"\n";
    let masked = "sql = \"SELECT price FROM tea WHERE id = 1\"\ndecision = \"allow\"\n";
    for (right, wrong, what) in [
        (
            format!("{READ}\nrows = [[\"Assam\"], [\"Sencha\"]]"),
            format!("{READ}\nrows = [[\"Sencha\"], [\"Assam\"]]"),
            "rows",
        ),
        (
            format!("{READ}\ncolumns = [\"name\"]"),
            format!("{READ}\ncolumns = [\"names\"]"),
            "columns",
        ),
        (
            format!("{READ}\npolicies = [\"all\"]"),
            format!("{READ}\npolicies = [\"all\", \"price\"]"),
            "policies",
        ),
        (
            format!("{READ}\nfindings = []"),
            format!("{READ}\nfindings = [\"role.jailbreak\"]"),
            "findings",
        ),
        (
            format!("{READ}\nnever = [\"Oolong\"]"),
            format!("{READ}\nnever = [\"Assam\"]"),
            "never",
        ),
        (
            format!("{READ}\nrewritten_has = [\"ORDER BY id\"]"),
            format!("{READ}\nrewritten_has = [\"WHERE\"]"),
            "rewritten_has",
        ),
        (
            format!("{masked}masked = [\"price\"]\nrows = [[{{}}]]"),
            format!("{masked}masked = []"),
            "masked",
        ),
        (
            format!("{change}affected = 1"),
            format!("{change}affected = 2"),
            "affected",
        ),
        (
            format!(
                "{change}after = {{ sql = \"SELECT name FROM tea WHERE id = 1\", rows = [[\"Oolong\"]] }}"
            ),
            format!(
                "{change}after = {{ sql = \"SELECT name FROM tea WHERE id = 1\", rows = [[\"Assam\"]] }}"
            ),
            "after",
        ),
        (
            READ.to_owned(),
            READ.replace("\"allow\"", "\"reject\"\ncode = \"policy.forbidden\""),
            "decision",
        ),
    ] {
        test(&folder(&case("right", &right)), &[]).expect_exit(0);
        let told = test(&folder(&case("wrong", &wrong)), &["--format", "json"]);
        let told = told.expect_exit(1).json();
        assert_eq!(told["cases"][0]["differences"][0]["what"], what, "{told}");
        assert_eq!(told["cases"][0]["line"], 2);
    }
}

#[test]
fn a_failing_case_says_what_to_know_in_thirty_lines() {
    let many = "rows = [[\"Assam\"]]\ncolumns = [\"tea\"]\n";
    let desk = folder(&case(
        "names",
        &format!("why = \"Tea has a name.\"\n{READ}\n{many}"),
    ));
    let told = test(&desk, &[]).expect_exit(1).out;
    for line in [
        "FAILED p/tests/tea.toml:2 names",
        "  Tea has a name.",
        "  Agent::\"ann\": SELECT name FROM tea ORDER BY id",
        "    expected [[\"Assam\"]]",
        "    got      [[\"Assam\"], [\"Sencha\"]]",
        "    differs  surplus [\"Sencha\"]",
        "  decided by all",
        "0 passed, 1 failed, 0 skipped",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}\n{told}");
    }
    // The last line of a case is a command that repeats it.
    let again = told.lines().find_map(|line| line.strip_prefix("  again: "));
    let answer = desk.shell(again.unwrap(), 0, b"").expect_exit(0);
    assert!(answer.out.contains("Sencha"), "{}", answer.out);
    let long = format!(
        "sql = \"\"\"{}\"\"\"\ndecision = \"reject\"\ncode = \"syntax.empty\"",
        "SELECT 1,\n".repeat(40) + "1"
    );
    let desk = folder(&case("long", &long));
    let told = test(&desk, &[]).expect_exit(1).out;
    assert!(
        told.lines().count() <= 33 && told.contains("more lines"),
        "{told}"
    );
    let whole = test(&desk, &["--verbose"]).expect_exit(1).out;
    assert!(whole.lines().count() > 40, "{whole}");
}

#[test]
fn cells_say_what_becomes_of_a_statement() {
    let matrix = |cells: &str, sql: &str| {
        folder(&format!(
            "[[matrix]]\nname = \"m\"\n[matrix.principals]\nann = 'Agent::\"ann\"'\nben = 'Agent::\"ben\"'\n\
             [[matrix.statement]]\nname = \"s\"\nsql = \"{sql}\"\ncells = {{ {cells} }}\n"
        ))
    };
    let told = test(&matrix("ann = \"mask\"", "SELECT price FROM tea"), &[])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("1 cell left out of matrices, each a deny: m/s/ben"),
        "{told}"
    );
    for (cells, sql, part) in [
        (
            "ann = \"allow\"",
            "SELECT price FROM tea",
            "expected allow\n    got      mask",
        ),
        (
            "",
            "SELECT name FROM tea",
            "expected deny\n    got      allow",
        ),
        (
            "ann = \"allow\", ben = \"policy.forbidden\"",
            "SELECT name FROM tea",
            "expected reject policy.forbidden",
        ),
        // Refused, but by no policy: a table that is not there, a statement that is none.
        ("", "SELECT name FROM coffee", "whatever policies say"),
        ("", "SELEC name FROM tea", "whatever policies say"),
    ] {
        let told = test(&matrix(cells, sql), &[]).expect_exit(1).out;
        assert!(told.contains(part), "{part}\n{told}");
    }
    test(&matrix("anne = \"allow\"", "SELECT 1"), &[]).fails(
        2,
        &[
            "no principal `anne`; did you mean `ann`?",
            "p/tests/tea.toml:9:",
        ],
    );
    test(&matrix("ann = \"maks\"", "SELECT 1"), &[]).fails(2, &["`maks` is no cell"]);
}

#[test]
fn what_is_wrong_with_tests_is_told_with_its_place() {
    for (tests, told) in [
        (
            case("a", "sql = \"SELECT 1\"\ndecision = \"allow\"\nrwos = []"),
            &["p/tests/tea.toml:6:1", "did you mean `rows`?"][..],
        ),
        (
            case("a", READ) + &case("a", READ),
            &[
                "p/tests/tea.toml:7",
                "another case has this name: p/tests/tea.toml:2",
            ],
        ),
        (
            case(
                "a",
                "skip = \" \"\nsql = \"SELECT 1\"\ndecision = \"allow\"",
            ),
            &["`skip` is a reason"],
        ),
        (
            case(
                "a",
                "sql = \"SELECT 1\"\ndecision = \"reject\"\ncode = \"policy.forbiden\"",
            ),
            &["did you mean `policy.forbidden`?"],
        ),
        (
            format!("catalog = \"tee\"\n{}", case("a", READ)),
            &[
                "p/tests/tea.toml:1:11",
                "no catalog `tee`; did you mean `tea`?",
            ],
        ),
        (
            "[[case]]\nname = \"a\"\nsql = \"SELECT 1\"\ndecision = \"allow\"".to_owned(),
            &["who asks?"],
        ),
        ("[[case".to_owned(), &["p/tests/tea.toml:1:"]),
        (String::new(), &["there are no tests in `p/tests`"]),
    ] {
        test(&folder(&tests), &[]).fails(2, told);
    }
    let desk = folder(&case("a", READ));
    test(&desk, &["--filter", "b"]).fails(2, &["no case has `b`"]);
    desk.write(
        "p/tests/tea.sql",
        "CREATE TABLE tea (name TEXT);\nINSERT INTO tee VALUES (1);",
    );
    test(&desk, &[]).fails(2, &["p/tests/tea.sql", "line 2", "no such table"]);
    desk.write("p/tests/tea.sql", TABLES);
    desk.write("p/tests/tea.toml", b"# \xFF");
    test(&desk, &[]).fails(2, &["p/tests/tea.toml", "UTF-8"]);
    desk.write("p/tests/tea.toml", case("a", READ));
    desk.write("p/tests/tea.yaml", "");
    test(&desk, &[]).fails(2, &["p/tests/tea.yaml", "a folder of tests holds"]);
    fs::remove_file(desk.path("p/tests/tea.yaml")).unwrap();
    desk.policy("permit (principal, action, resorce);");
    test(&desk, &[]).fails(3, &["p/base.cedar:1:"]);
    desk.run(&["policy", "test", "nowhere"])
        .fails(3, &["nowhere"]);
}

#[test]
fn updates_are_shown_before_they_are_written() {
    let tests = format!(
        "# What is for sale.\n{}{}",
        case(
            "names",
            &format!("{READ} # by id\nrows = [[\"Assam\"]]  # all of them")
        ),
        case("never", &format!("{READ}\nnever = [\"Assam\"]")),
    );
    let desk = folder(&tests);
    let read = || fs::read_to_string(desk.path("p/tests/tea.toml")).unwrap();
    let shown = test(&desk, &["--update", "--dry-run"]).expect_exit(1).out;
    assert_eq!(read(), tests);
    let told = test(&desk, &["--update"]).expect_exit(1).out;
    assert_eq!(told, shown.replace("would be", "was"));
    assert!(
        told.contains("-rows = [[\"Assam\"]]  # all") && told.contains("a person to decide: never"),
        "{told}"
    );
    assert_eq!(
        read(),
        tests.replace("[[\"Assam\"]]", "[[\"Assam\"], [\"Sencha\"]]")
    );
    test(&desk, &["--filter", "names"]).expect_exit(0);
    assert_eq!(fs::read_dir(desk.path("p/tests")).unwrap().count(), 2);
}

#[test]
fn tests_need_no_database() {
    let desk = Desk::empty();
    desk.policy("permit (principal, action, resource);");
    desk.write("p/tests/tea.postgres.sql", "CREATE TABLE tea (name text);");
    desk.write("p/tests/tea.toml", case("a", "sql = \"SELECT name FROM tea WHERE name = $1\"\nparams = [\"x\"]\ndecision = \"allow\"\nrewritten_has = [\"public\"]"));
    test(&desk, &[]).expect_exit(0);
    desk.write(
        "p/tests/tea.toml",
        case(
            "a",
            "sql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrows = []",
        ),
    );
    test(&desk, &[]).fails(2, &["nothing runs cases of postgres"]);
}

#[test]
fn other_programs_read_the_outcome() {
    let desk = folder(
        &(case("good", READ)
            + &case("bad", &format!("{READ}\nrows = []"))
            + &case("later", &format!("skip = \"not yet\"\n{READ}"))),
    );
    let tap = test(&desk, &["--format", "tap"]).expect_exit(1).out;
    for line in [
        "1..3",
        "ok 1 - good",
        "not ok 2 - bad",
        "ok 3 - later # SKIP not yet",
    ] {
        assert!(tap.lines().any(|found| found == line), "{line}\n{tap}");
    }
    let junit = test(&desk, &["--format", "junit"]).expect_exit(1).out;
    assert!(
        junit.contains("tests=\"3\" skipped=\"1\" failures=\"1\""),
        "{junit}"
    );
    let told = test(&desk, &["--format", "json"]).expect_exit(1).json();
    assert_eq!(
        (&told["passed"], &told["failed"], &told["skipped"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

/// A policy folder `p` over `tea` and two principals in `entities.json`.
pub(crate) fn shop(policies: &str) -> Desk {
    let desk = folder("");
    desk.policy(policies);
    desk.write("schema.sql", TABLES);
    desk.write(
        "p/entities.json",
        r#"[{"uid": {"type": "Role", "id": "clerk"}, "attrs": {}, "parents": []},
            {"uid": {"type": "Agent", "id": "ann"}, "attrs": {}, "parents": [{"type": "Role", "id": "clerk"}]},
            {"uid": {"type": "Agent", "id": "ben"}, "attrs": {}, "parents": [{"type": "Role", "id": "clerk"}]}]"#,
    );
    desk
}

pub(crate) fn lock(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(&[&["policy", "lock", "p"], more].concat())
}

const CLERKS: &str = "@id(\"clerks\") permit (principal in Role::\"clerk\", action, resource);\n";

#[test]
fn a_lock_says_what_everybody_may_do() {
    let desk = shop(&format!(
        "{CLERKS}@id(\"price\") @mask(\"bucket(10)\")\n\
         forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");\n\
         @id(\"cheap\") forbid (principal, action == Action::\"see\", resource is row::main::tea)\n\
         unless {{ resource has price && resource.price < 5 }};\n"
    ));
    lock(&desk, &[]).expect_exit(0);
    let text = fs::read_to_string(desk.path("p/access.lock")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "",
        "catalog tea",
        "class Agent::\"ann\": Agent::\"ann\", Agent::\"ben\"",
        "class any other Agent: any other Agent, any other User",
        "Agent::\"ann\": main.tea add: all rows",
        "Agent::\"ann\": main.tea change: all rows",
        "Agent::\"ann\": main.tea delete: allow",
        "Agent::\"ann\": main.tea insert: allow",
        "Agent::\"ann\": main.tea see: has price && price < 5",
        "Agent::\"ann\": main.tea select: allow",
        "Agent::\"ann\": main.tea truncate: allow",
        "Agent::\"ann\": main.tea update: allow",
        "Agent::\"ann\": main.tea.id read: plain",
        "Agent::\"ann\": main.tea.id write: allow",
        "Agent::\"ann\": main.tea.name read: plain",
        "Agent::\"ann\": main.tea.name write: allow",
        "Agent::\"ann\": main.tea.price read: mask bucket(10)",
        "Agent::\"ann\": main.tea.price write: allow",
        "any other Agent: nothing",
    ];
    assert_eq!(lines, expected, "{text}");
}

/// What every statement shares is one word, and what circumstances decide names all that may come of it.
#[test]
fn cells_that_circumstances_decide_say_so() {
    for (policy, value) in [
        (
            "permit (principal, action == Action::\"read_plain\", resource) when { context.transport == \"cli\" };",
            "plain or mask null, by",
        ),
        (
            "permit (principal, action == Action::\"read_plain\", resource) unless { context.transport == \"cli\" };",
            "plain or mask null, by",
        ),
        (
            "permit (principal, action == Action::\"read_plain\", resource);\n\
             forbid (principal, action == Action::\"read_plain\", resource) when { context has statement };",
            "plain or mask null, by",
        ),
        // No circumstance changes what another policy permits anyway.
        (
            "permit (principal, action == Action::\"read_plain\", resource);\n\
             permit (principal, action == Action::\"read_plain\", resource) when { context.transport == \"cli\" };",
            "plain",
        ),
        (
            "permit (principal, action == Action::\"read_plain\", resource) when { resource.tags.contains(\"x\") };",
            "mask null",
        ),
    ] {
        let desk = shop(&format!(
            "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read_masked\"], resource);\n{policy}"
        ));
        let who = [
            "policy",
            "who",
            "tea.name",
            "--catalog",
            "schema.sql",
            "--policies",
            "p",
            "--format",
            "json",
        ];
        let told = desk.run(&who).expect_exit(0).json();
        let lines = told["access"].as_array().unwrap();
        // Two agents, and one that stands for the others of each of two types.
        assert_eq!(lines.len(), 4, "{told}");
        for line in lines {
            let found = line["value"].as_str().unwrap();
            assert!(
                found == value || value.ends_with("by") && found.starts_with(value),
                "{policy}\n{found}"
            );
        }
    }
}

#[test]
fn a_stale_lock_fails_and_is_written_anew() {
    let desk = shop(CLERKS);
    desk.write("p/tests/tea.toml", case("a", READ));
    test(&desk, &[]).expect_exit(0);
    assert!(!desk.path("p/access.lock").exists());
    lock(&desk, &[]).expect_exit(0);
    lock(&desk, &[]).expect_exit(0);
    test(&desk, &[]).expect_exit(0);
    let read = || fs::read_to_string(desk.path("p/access.lock")).unwrap();
    let first = read();
    // A new column, a new principal, and a policy less: each is a difference.
    desk.write(
        "p/tests/tea.sql",
        TABLES
            .replace("price INTEGER", "price INTEGER, origin TEXT")
            .replace(", 4)", ", 4, 'IN')")
            .replace(", 7)", ", 7, 'JP')"),
    );
    let told = test(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("+Agent::\"ann\": main.tea.origin read: plain")
            && told.contains("1 other problem"),
        "{told}"
    );
    let told = lock(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("+Agent::\"ann\": main.tea.origin read: plain"),
        "{told}"
    );
    assert_eq!(read(), first);
    let told = lock(&desk, &["--update"]).expect_exit(0).out;
    assert!(
        told.contains("+Agent::\"ann\": main.tea.origin read: plain"),
        "{told}"
    );
    test(&desk, &[]).expect_exit(0);
    desk.policy(&format!(
        "{CLERKS}permit (principal == User::\"eve\", action == Action::\"select\", resource);"
    ));
    let told = test(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("+class User::\"eve\": User::\"eve\"")
            && told.contains("+User::\"eve\": main.tea select: allow"),
        "{told}"
    );
    fs::remove_file(desk.path("p/tests/tea.sql")).unwrap();
    fs::remove_file(desk.path("p/tests/tea.toml")).unwrap();
    lock(&desk, &[]).fails(2, &["there are no tables in `p/tests`"]);
}

#[test]
fn who_and_what_name_tables_and_principals() {
    let desk = shop(CLERKS);
    let ask = |command: &str, about: &str, format: &str| {
        desk.run(&[
            "policy",
            command,
            about,
            "--catalog",
            "schema.sql",
            "--policies",
            "p",
            "--format",
            format,
        ])
    };
    for about in ["tea.price", "main.tea.price"] {
        let csv = ask("who", about, "csv").expect_exit(0).out;
        assert_eq!(
            csv.lines().collect::<Vec<_>>(),
            [
                "principal,resource,action,value",
                "\"Agent::\"\"ann\"\"\",main.tea.price,read,plain",
                "\"Agent::\"\"ann\"\"\",main.tea.price,write,allow",
                "\"Agent::\"\"ben\"\"\",main.tea.price,read,plain",
                "\"Agent::\"\"ben\"\"\",main.tea.price,write,allow",
                "any other Agent,main.tea.price,any,never",
                "any other User,main.tea.price,any,never",
            ]
        );
    }
    let text = ask("what", "Agent::\"ann\"", "text").expect_exit(0).out;
    assert!(
        text.starts_with("Agent::\"ann\"\n  main.tea        add       all rows\n"),
        "{text}"
    );
    let text = ask("what", "Agent::\"eve\"", "text").expect_exit(0).out;
    assert_eq!(text, "Agent::\"eve\" may do nothing\n");
    ask("who", "te", "text").fails(2, &["no table or column `te`", "did you mean `tea`?"]);
    ask("what", "ann", "text").fails(2, &["principal"]);
}

fn check(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(
        &[
            &[
                "policy",
                "check",
                "--catalog",
                "schema.sql",
                "--policies",
                "p",
            ],
            more,
        ]
        .concat(),
    )
}

/// The codes of what is told, with their lines.
fn codes(desk: &Desk) -> Vec<String> {
    let told = check(desk, &["--format", "json"]).expect_exit(0).json();
    let problems = told["problems"].as_array().unwrap().iter();
    problems
        .map(|told| format!("{}:{}", told["code"].as_str().unwrap(), told["line"]))
        .collect()
}

/// A policy whose table has no rows for anybody, after `comment`, and the policies that it needs.
fn rowless(comment: &str, within: &str) -> String {
    format!(
        "{comment}\n@id(\"a\")\npermit (principal, action == Action::\"select\", {within}\nresource);\n\
         permit (principal, action in [Action::\"read\", Action::\"call\"], resource);\n"
    )
}

#[test]
fn comments_silence_warnings_of_their_policy() {
    for (policies, expected) in [
        (rowless("", ""), &["no-rows:2"][..]),
        (
            rowless("// palisade:ignore no-rows names alone are read", ""),
            &[],
        ),
        (
            rowless("", "// palisade:ignore no-rows names alone are read"),
            &["no-rows:2", "ignore-unused:3"],
        ),
        (
            rowless("// palisade:ignore no-rows", ""),
            &["no-rows:2", "ignore-unexplained:1"],
        ),
        (
            rowless("// palisade:ignore no-row it is a name", ""),
            &["no-rows:2", "ignore-unknown:1"],
        ),
        (
            rowless("// palisade:ignore never-true it is a name", ""),
            &["no-rows:2", "ignore-unused:1"],
        ),
        // It ends with its policy.
        (
            rowless(
                "permit (principal, action == Action::\"discover\", resource); // palisade:ignore no-rows of this one",
                "",
            ),
            &["no-rows:2", "ignore-unused:1"],
        ),
    ] {
        let desk = shop(&policies);
        assert_eq!(codes(&desk), expected, "{policies}");
    }
    let desk = shop(&rowless(
        "// palisade:ignore no-rows names alone are read",
        "",
    ));
    let pattern = "[[column]]\npattern = \"*.*.emial\"\ntags = [\"contact\"]\n";
    desk.write("p/classification.toml", pattern);
    assert_eq!(codes(&desk), ["pattern-unmatched:2"]);
    desk.write(
        "p/classification.toml",
        format!("# palisade:ignore pattern-unmatched for later\n{pattern}"),
    );
    assert_eq!(codes(&desk), [""; 0]);
    desk.write(
        "p/classification.toml",
        format!("# palisade:ignore pattern-unmatched for later\n\n{pattern}"),
    );
    assert_eq!(codes(&desk), ["pattern-unmatched:4", "ignore-unused:1"]);
}

#[test]
fn checks_are_told_to_programs() {
    let desk = shop(&rowless("", ""));
    let told = check(&desk, &["--fail-on", "warning"]).expect_exit(1).out;
    assert!(
        told.contains("warning[no-rows]: `main.tea` can be selected"),
        "{told}"
    );
    assert!(
        told.contains("Not checked: template-names, since there is no templates.toml."),
        "{told}"
    );
    let told = check(&desk, &["--format", "json"]).expect_exit(0).json();
    let problem = &told["problems"][0];
    assert_eq!(
        (&problem["level"], &problem["file"], &problem["column"]),
        (&json!("warning"), &json!("p/base.cedar"), &json!(1))
    );
    assert!(
        told["not_checked"].as_array().unwrap().contains(
            &json!({"code": "pattern-unmatched", "why": "there is no classification.toml"})
        )
    );
    let told = check(&desk, &["--format", "github"]).expect_exit(0).out;
    assert!(
        told.starts_with("::warning file=p/base.cedar,line=2,col=1,title=no-rows::`main.tea` can"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
    let told = check(&desk, &["--format", "sarif"]).expect_exit(0).json();
    let result = &told["runs"][0]["results"][0];
    assert_eq!(
        (&result["ruleId"], &result["level"]),
        (&json!("no-rows"), &json!("warning"))
    );
    assert_eq!(
        result["locations"][0]["physicalLocation"]["region"],
        json!({"startLine": 2, "startColumn": 1})
    );
    let told = check(&desk, &["--format", "junit"]).expect_exit(0).out;
    assert!(
        told.contains("failures=\"1\"") && told.contains("line=\"2\""),
        "{told}"
    );
    // What does not load is told the same way.
    desk.policy("permit (principal, action, resorce);");
    for (form, part) in [
        ("json", "\"level\":\"error\""),
        ("github", "::error file=p/base.cedar,line=1"),
        ("sarif", "\"level\":\"error\""),
        ("junit", "failures=\"1\""),
    ] {
        let told = check(&desk, &["--format", form]).expect_exit(3).out;
        assert!(told.contains(part), "{form}: {told}");
    }
    let clean = shop(CLERKS);
    let told = check(&clean, &["--format", "junit", "--fail-on", "warning"])
        .expect_exit(0)
        .out;
    assert!(
        told.contains("tests=\"1\"") && told.contains("failures=\"0\""),
        "{told}"
    );
}

/// What no case touches is named; a denied statement touches what it names, and a skipped case nothing.
#[test]
fn what_is_not_tested_is_named() {
    let policies = format!(
        "{CLERKS}@id(\"hidden\") forbid (principal, action in Action::\"read\", resource == Column::\"main.tea.price\");\n"
    );
    let cover = |cases: &str, more: &[&str]| {
        let desk = shop(&policies);
        desk.write("p/tests/tea.toml", cases);
        test(&desk, &[&["--coverage"], more].concat())
    };
    let told = cover(
        &case("a", "sql = \"SELECT name FROM tea\"\ndecision = \"allow\""),
        &[],
    )
    .expect_exit(0)
    .out;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines,
        [
            "untested policies: hidden",
            "untested columns: main.tea.id, main.tea.price",
            "untested principals: Agent::\"ben\", any other Agent, any other User",
            "untested actions: alter, create, delete, drop, insert, truncate, update",
            "tested: 1 of 2 policies, 1 of 1 tables, 1 of 3 columns, 1 of 4 principals, 1 of 8 actions, 0 of 0 clauses",
            "1 passed, 0 failed, 0 skipped",
        ]
    );
    let more = case(
        "a",
        "sql = \"SELECT id, name FROM tea\"\ndecision = \"allow\"",
    ) + &case(
        "b",
        "sql = \"SELECT price FROM tea\"\ndecision = \"reject\"\ncode = \"name.unknown-column\"",
    );
    let told = cover(
        &more,
        &[
            "--format",
            "json",
            "--fail-under",
            "policies=100",
            "--fail-under",
            "columns=100",
        ],
    )
    .expect_exit(0)
    .json();
    assert_eq!(
        told["coverage"]["kinds"][0],
        json!({"kind": "policies", "total": 2, "untested": []})
    );
    let skipped = more.replace("sql", "skip = \"later\"\nsql");
    let told = cover(&skipped, &["--fail-under", "columns=1"])
        .expect_exit(1)
        .out;
    assert!(
        told.contains("FAILED coverage: 0 % of columns are tested, less than 1 %"),
        "{told}"
    );
    cover(&more, &["--fail-under", "rows=1"])
        .fails(2, &["there are policies, tables, columns, principals"]);
    cover(&more, &["--fail-under", "columns=101"]).fails(2, &["`101` is no percentage"]);
}

#[test]
fn a_folder_for_a_database_is_made_once_and_kept() {
    let desk = Desk::empty();
    let make = |script: &str| {
        let _ = fs::remove_file(desk.path("shop.db"));
        palisade_sqlite::create_database(desk.path("shop.db"), script).unwrap();
    };
    make(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT, size INTEGER); CREATE TABLE \"odd name\" (password TEXT, size INTEGER);",
    );
    let init = || {
        desk.run(&["init", "sqlite:shop.db", "mine"])
            .expect_exit(0)
            .out
    };
    let told = init();
    for part in [
        "wrote mine/palisade.toml",
        "wrote mine/.taplo.toml",
        "wrote mine/editor/tests.schema.json",
        "main.people.email: mask email, since it is email: its name matches",
        "password: hidden, since it is secret",
        "Tests in `mine/policies`: 2 passed, 0 failed",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let run = [
        "policy",
        "test",
        "mine/policies",
        "--coverage",
        "--fail-under",
        "tables=100",
    ];
    desk.run(&run).expect_exit(0);
    let lock = fs::read_to_string(desk.path("mine/policies/access.lock")).unwrap();
    assert!(
        lock.contains("main.people.email read: mask email"),
        "{lock}"
    );
    // The configuration serves the database, and the catalog decides without it.
    desk.run(&[
        "query",
        "connection:shop",
        "--config",
        "mine/palisade.toml",
        "SELECT size FROM people",
    ])
    .expect_exit(0);
    let catalog = [
        "check",
        "--catalog",
        "mine/policies/tests/shop.json",
        "SELECT email FROM people",
    ];
    desk.run(&catalog).expect_exit(0);
    // Again: nothing is written, what was edited stays, and what is new is told.
    desk.write(
        "mine/policies/base.cedar",
        "permit (principal, action, resource);",
    );
    make(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT, size INTEGER, phone TEXT); CREATE TABLE \"odd name\" (password TEXT, size INTEGER);",
    );
    let told = desk.run(&["init", "sqlite:shop.db", "mine"]);
    let told = told.out + &told.err;
    for part in [
        "kept  mine/policies/base.cedar",
        "kept  mine/policies/tests/shop.json",
        "same  mine/palisade.toml",
        "1 column is new",
        "What is not listed is plain by the policies of the folder.",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert_eq!(
        fs::read_to_string(desk.path("mine/policies/base.cedar")).unwrap(),
        "permit (principal, action, resource);"
    );
    desk.run(&["init", "connection:shop"])
        .fails(2, &["cannot be named here"]);
    desk.run(&["init", "sqlite:nowhere.db"])
        .fails(4, &["nowhere.db"]);
    desk.write(
        "mine/policies/tests/rows.toml",
        case(
            "rows",
            "sql = \"SELECT size FROM people\"\ndecision = \"allow\"\nrows = []",
        ),
    );
    desk.run(&["policy", "test", "mine/policies"])
        .fails(2, &["nothing runs cases over a snapshot"]);
    desk.write(
        "mine/policies/tests/rows.toml",
        case(
            "rows",
            "sql = \"SELECT size FROM people\"\ndecision = \"allow\"",
        ),
    );
    desk.write("mine/policies/tests/shop.json", "{\"torn");
    desk.run(&["policy", "test", "mine/policies"])
        .fails(2, &["mine/policies/tests/shop.json"]);
}

#[test]
fn a_diff_says_what_changes_for_whom() {
    let base = "@id(\"read\") permit (principal == Agent::\"ann\", action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";
    let mask = "@id(\"mask\") @mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");\n";
    let rows = "@id(\"rows\") forbid (principal, action == Action::\"see\", resource is row::main::tea) unless { resource has price && resource.price < 5 };\n";
    let write = "@id(\"write\") permit (principal == Agent::\"ann\", action == Action::\"delete\", resource);\n";
    let other = "@id(\"other\") permit (principal == Agent::\"eve\", action == Action::\"select\", resource);\n";
    let ask = |old: &[&str], new: &[&str], more: &[&str]| {
        let desk = Desk::empty();
        for (folder, policies) in [("old", old), ("new", new)] {
            desk.write(&format!("{folder}/base.cedar"), policies.concat());
            desk.write(&format!("{folder}/tests/tea.sql"), TABLES);
            desk.write(&format!("{folder}/tests/tea.toml"), case("a", READ));
        }
        desk.run(&[&["policy", "diff", "old", "new"], more].concat())
    };
    assert_eq!(
        ask(&[base, mask], &[mask, base], &[]).expect_exit(0).out,
        "nothing changes\n"
    );
    for (old, new, exit, told) in [
        (
            &[base, mask][..],
            &[base][..],
            1,
            "plainer:\n  Agent::\"ann\": main.tea.price read: plain, was mask null\n",
        ),
        (
            &[base, rows],
            &[base],
            1,
            "more rows:\n  Agent::\"ann\": main.tea see: all rows, was has price && price < 5\n",
        ),
        (
            &[base],
            &[base, write],
            1,
            "newly permitted:\n  Agent::\"ann\": main.tea change: no rows, was never\n",
        ),
        (
            &[base],
            &[base, other],
            1,
            "newly permitted:\n  Agent::\"eve\": main.tea select: allow, was never\n",
        ),
        (
            &[base],
            &[base, mask],
            0,
            "narrower:\n  Agent::\"ann\": main.tea.price read: mask null, was plain\n",
        ),
        (
            &[base],
            &[other],
            1,
            "  Agent::\"ann\": case a: name.unknown-relation, was allow\n",
        ),
    ] {
        let shown = ask(old, new, &[]).expect_exit(exit).out;
        assert!(
            shown.contains(told)
                || told.starts_with("newly") && shown.contains("delete: allow, was never"),
            "{told}\n{shown}"
        );
        ask(old, new, &["--fail-on", "any"]).expect_exit(1);
        ask(old, new, &["--fail-on", "nothing"]).expect_exit(0);
    }
    let json = ask(&[base, mask], &[base], &["--format", "json"])
        .expect_exit(1)
        .json();
    assert_eq!(
        json["changes"][0],
        json!({"direction": "plainer", "principal": "Agent::\"ann\"", "of": "main.tea.price read", "old": "mask null", "new": "plain"})
    );
    let markdown = ask(&[base, mask], &[base], &["--format", "markdown"])
        .expect_exit(1)
        .out;
    assert!(
        markdown.contains(
            "| plainer | `Agent::\"ann\"` | `main.tea.price read` | `mask null` | `plain` |"
        ),
        "{markdown}"
    );
}
