//! `palisade init`: what it proposes, and what it leaves behind.

use std::fs;

use serde_json::json;

use crate::desk::Desk;

const TABLES: &str = "CREATE TABLE people (id INTEGER PRIMARY KEY, contact TEXT, account TEXT, notes TEXT, gate INET);
INSERT INTO people VALUES (1, 'ada@example.org', 'DE89 3704 0044 0532 0130 00', 'likes tea', NULL), (2, 'bob@example.org', 'GB82 WEST 1234 5698 7654 32', 'likes coffee', NULL);
";

fn desk() -> Desk {
    let desk = Desk::empty();
    palisade_sqlite::create_database(desk.path("shop.db"), TABLES).unwrap();
    desk
}

/// Types say what a column holds, and with `--sample` values do. Each proposal says why, and none a value.
#[test]
fn columns_are_proposed_by_types_and_values() {
    let desk = desk();
    let told = desk.run(&["init", "sqlite:shop.db", "plain", "--format", "json"]);
    let told = told.expect_exit(0).json();
    assert_eq!(
        told["proposals"],
        json!([{"column": "main.people.gate", "tag": "online-identifier", "why": "its type is `INET`"}])
    );
    let text = desk.run(&["init", "sqlite:shop.db", "sampled", "--sample"]);
    let text = text.expect_exit(0).out;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "main.people.contact: mask email, since it is email: 2 of 2 values that were looked at look like e-mail addresses",
        "main.people.account: mask last(4), since it is personal-number: 2 of 2 values that were looked at look like account numbers (IBAN)",
        "1 passed, 0 failed",
    ] {
        assert!(flat.contains(part), "{part}\n{text}");
    }
    let written = fs::read_to_string(desk.path("sampled/policies/classification.toml")).unwrap();
    assert!(
        written.ends_with("name = \"main.people.gate\"\ntags = [\"online-identifier\"]\n")
            && written.contains("# Proposed by `palisade init`, since 2 of 2 values"),
        "{written}"
    );
    for text in [&text, &written] {
        assert!(!text.contains("ada@") && !text.contains("3704"), "{text}");
    }
    let lock = fs::read_to_string(desk.path("sampled/policies/access.lock")).unwrap();
    assert!(
        lock.contains("main.people.contact read: mask email"),
        "{lock}"
    );
    // A folder that is there keeps its classification, and is told what to add.
    let again = desk.run(&["init", "sqlite:shop.db", "plain", "--sample"]);
    let again = again.expect_exit(0).out;
    assert!(
        again.contains("Proposed for `classification.toml`, which stays as it is:")
            && again.contains("name = \"main.people.contact\""),
        "{again}"
    );
    let kept = fs::read_to_string(desk.path("plain/policies/classification.toml")).unwrap();
    assert!(!kept.contains("main.people.contact"), "{kept}");
}

#[test]
fn nothing_half_written_stays() {
    let desk = desk();
    desk.write(
        "mine/policies/base.cedar",
        "permit (principal, action, resource)",
    );
    desk.run(&["init", "sqlite:shop.db", "mine"])
        .fails(3, &["base.cedar"]);
    let left = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(desk.path(folder)).unwrap().flatten();
        entries
            .map(|one| one.file_name().into_string().unwrap())
            .collect()
    };
    assert_eq!(left("mine"), ["policies"]);
    assert_eq!(left("mine/policies"), ["base.cedar"]);
    // Tests that do not hold are told, and the folder stays.
    desk.write(
        "other/policies/base.cedar",
        "forbid (principal, action, resource);",
    );
    desk.write(
        "other/policies/tests/own.toml",
        "[[case]]\nname = \"ids\"\nas = 'Agent::\"ann\"'\nsql = \"SELECT id FROM people\"\ndecision = \"allow\"\n",
    );
    let told = desk
        .run(&["init", "sqlite:shop.db", "other"])
        .expect_exit(1)
        .out;
    assert!(told.contains("FAILED") && told.contains("ids"), "{told}");
    assert!(desk.path("other/palisade.toml").exists());
}

/// Everything but `--sample` works on a file of `CREATE` statements, and on the catalog that an earlier run wrote.
#[test]
fn a_folder_is_made_without_a_database() {
    let desk = desk();
    desk.write(
        "sales.sql",
        "CREATE TYPE mood AS ENUM ('happy', 'sad');\nCREATE TABLE people (id bigint PRIMARY KEY, email text, gate inet, mood mood);\n",
    );
    let init = |source: &str, more: &[&str]| {
        desk.run(&[&["init", source], more, &["--format", "json"]].concat())
    };
    let told = init("sales.sql", &["sales", "--dialect", "postgres"]);
    let told = told.expect_exit(0).json();
    assert_eq!(told["tests"]["passed"], 1, "{told}");
    let columns = told["columns"].as_array().unwrap();
    let of = |name: &str| columns.iter().find(|one| one["column"] == name).unwrap();
    assert_eq!(of("public.people.email")["level"], "mask email");
    assert_eq!(of("public.people.gate")["why"], "its type is `inet`");
    let tests = desk.path("sales/policies/tests");
    assert!(tests.join("sales.postgres.json").exists(), "{told}");
    desk.run(&["policy", "test", "sales/policies"])
        .expect_exit(0);
    desk.run(&["config", "check", "sales/palisade.toml"])
        .expect_exit(0);
    let text = fs::read_to_string(desk.path("sales/palisade.toml")).unwrap();
    assert!(
        text.contains(
            "# [connections.sales]\n# url = \"postgres://palisade_reader@localhost:5432/sales\"\n"
        ),
        "{text}"
    );
    // What is behind the marks is a configuration.
    let whole: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains('=') || rest.starts_with('[') => format!("{rest}\n"),
            Some(_) | None => format!("{line}\n"),
        })
        .collect();
    desk.write("sales/palisade.toml", whole);
    desk.run(&["config", "check", "sales/palisade.toml"])
        .expect_exit(0);

    let again = init("sales/policies/tests/sales.postgres.json", &["again"]);
    let again = again.expect_exit(0).json();
    assert_eq!(again["columns"], told["columns"], "{again}");
    assert!(
        desk.path("again/policies/tests/sales.postgres.json")
            .exists()
    );

    desk.run(&[
        "init",
        "sales.sql",
        "x",
        "--sample",
        "--dialect",
        "postgres",
    ])
    .fails(2, &["`sales.sql` holds no rows to look at", "--sample"]);
    desk.run(&["init", "shop.db", "x"])
        .fails(2, &["name it `sqlite:shop.db`"]);
    desk.run(&["init", "sqlite:shop.db", "x", "--dialect", "mysql"])
        .fails(2, &["the database speaks sqlite, not mysql"]);
    desk.run(&["init", "gone.sql", "x"])
        .fails(2, &["cannot read the schema `gone.sql`"]);
    assert!(!desk.path("x").exists());
}

/// Tests decide over the catalog that was taken, which is said where policies do not fit it, with what takes it anew.
#[test]
fn the_tables_of_tests_are_taken_anew() {
    let desk = desk();
    desk.run(&["init", "sqlite:shop.db", "shop"]).expect_exit(0);
    palisade_sqlite::create_database(
        desk.path("later.db"),
        &format!("{TABLES}CREATE TABLE tags (id INTEGER PRIMARY KEY, label TEXT);"),
    )
    .unwrap();
    fs::rename(desk.path("later.db"), desk.path("shop.db")).unwrap();
    desk.write(
        "shop/policies/tags.cedar",
        "forbid (principal, action == Action::\"read_plain\", resource in Table::\"main.tags\");",
    );
    desk.run(&["policy", "lock", "shop/policies", "--update"])
        .fails(
            3,
            &[
                "`Table::\"main.tags\"` is not in the catalog",
                "note: the tables are those of `shop/policies/tests/shop.json`, a file of 20",
                "`palisade init DATABASE shop/policies --refresh` takes them",
            ],
        );
    let told = desk.run(&["init", "sqlite:shop.db", "shop", "--refresh"]);
    assert_eq!(
        told.expect_exit(0).out,
        "wrote shop/policies/tests/shop.json\n  + main.tags.id\n  + main.tags.label\n\
         Look at what that changes: `palisade policy test shop/policies`, then `palisade policy lock shop/policies --update`.\n"
    );
    desk.run(&["policy", "lock", "shop/policies", "--update"])
        .expect_exit(0);
    let schema = fs::read_to_string(desk.path("shop/schema.cedarschema")).unwrap();
    assert!(schema.contains("tags"), "{schema}");
    // By a connection of a configuration, whose policy folder it is.
    let connection = ["init", "connection:shop", "--refresh", "--config"];
    let told = desk.run(&[&connection[..], &["shop/palisade.toml"]].concat());
    assert!(
        told.expect_exit(0).out.starts_with("same  "),
        "the catalog is the same"
    );
    desk.run(&["init", "sqlite:shop.db", "none", "--refresh"])
        .fails(
            2,
            &["there is no `none/tests/shop.json`", "without `--refresh`"],
        );
}

/// Columns that came later are told of as the folder's own policies show them, not as the starter policies would.
#[test]
fn new_columns_are_told_by_the_folders_own_policies() {
    let desk = desk();
    desk.run(&["init", "sqlite:shop.db", "shop"]).expect_exit(0);
    let own = "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read_plain\"], resource);\n";
    desk.write("shop/policies/base.cedar", own);
    let later = TABLES.replace("gate INET", "gate INET, last_name TEXT, tea TEXT");
    let later = later.replace("NULL)", "NULL, NULL, NULL)");
    palisade_sqlite::create_database(desk.path("later.db"), &later).unwrap();
    fs::rename(desk.path("later.db"), desk.path("shop.db")).unwrap();
    let init = ["init", "sqlite:shop.db", "shop"];
    let told = desk.run(&init).out;
    assert!(
        told.contains(
            "2 columns are new.\nWhat is not listed is plain by the policies of the folder."
        ),
        "{told}"
    );
    desk.write(
        "shop/policies/tea.cedar",
        "forbid (principal == Agent::\"ann\", action == Action::\"read_plain\", resource in Table::\"main.people\");",
    );
    let told = desk.run(&init).out;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("main.people.last_name: ")
            && told.contains(" or plain, tagged person-name: its name matches "),
        "{told}"
    );
}
