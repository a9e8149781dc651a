//! What an operator is told of a SQLite file in which tables have generated columns, triggers, searches and unusual names.

use serde_json::json;

use crate::{desk::Desk, serve::Client};

const SCHEMA: &str = "
    CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, net REAL, price REAL GENERATED ALWAYS AS (net * 1.2) VIRTUAL);
    CREATE TABLE log (id INTEGER PRIMARY KEY, what TEXT);
    CREATE TRIGGER log_products AFTER INSERT ON products BEGIN INSERT INTO log (what) VALUES ('new'); END;
    CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE product_tags (product INTEGER, tag INTEGER);
    CREATE VIRTUAL TABLE products_fts USING fts5 (name);";

const EVERYTHING: &str = "permit (principal, action, resource);\n";

fn desk() -> Desk {
    let desk = Desk::empty();
    rusqlite::Connection::open(desk.path("shop.db"))
        .unwrap()
        .execute_batch(SCHEMA)
        .unwrap();
    desk.policy(EVERYTHING);
    desk
}

#[test]
fn generated_columns_are_told_as_such_and_not_assigned() {
    let desk = desk();
    let run = ["describe", "sqlite:shop.db", "products", "--policies", "p"];
    let described = desk.run(&run).expect_exit(0).out;
    assert!(described.contains("generated"), "{described}");
    let log = desk.run(&["describe", "sqlite:shop.db", "log", "--policies", "p"]);
    assert!(!log.expect_exit(0).out.contains("generated"));
    let mut client = Client::new(&desk, &["sqlite:shop.db", "--writable", "--policies", "p"]);
    let told = client.call("describe_table", &json!({"table": "products"}));
    let told = &told["structuredContent"];
    assert_eq!(told["assigned"], json!(["id", "name", "net"]), "{told}");
    assert_eq!(told["columns"][3]["generated"], true, "{told}");
    assert!(told["columns"][2].get("generated").is_none(), "{told}");
}

#[test]
fn a_trigger_that_no_policy_permits_is_warned_of() {
    let desk = desk();
    let check = [
        "policy",
        "check",
        "--catalog",
        "sqlite:shop.db",
        "--policies",
        "p",
    ];
    let told = desk.run(&check).expect_exit(0).out;
    for part in [
        "warning[trigger-refused]: each insert of `main.products` is refused: it sets off `main.log_products`",
        "resource == Function::\"main.log_products\"",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let named = "permit (principal, action == Action::\"call\", resource == Function::\"main.log_products\");\n";
    desk.policy(&format!("{EVERYTHING}{named}"));
    let told = desk.run(&check).expect_exit(0).out;
    assert!(!told.contains("trigger-refused"), "{told}");
}

#[test]
fn virtual_tables_are_told_of_where_an_operator_looks() {
    let desk = desk();
    let check = [
        "policy",
        "check",
        "--catalog",
        "sqlite:shop.db",
        "--policies",
        "p",
    ];
    let told = desk.run(&check).expect_exit(0).out;
    assert!(
        told.contains("the virtual table `main.products_fts`"),
        "{told}"
    );
    assert!(told.contains("load over 4 tables and views"), "{told}");
    let doctor = desk.run(&["doctor", "sqlite:shop.db", "--policies", "p"]);
    let doctor = doctor.expect_exit(0).out;
    assert!(doctor.contains("`main.products_fts`"), "{doctor}");
    let run = [
        "describe",
        "sqlite:shop.db",
        "products_fts",
        "--policies",
        "p",
    ];
    let absent = desk.run(&run).expect_exit(1).out;
    assert!(absent.contains("detail: "), "{absent}");
    assert!(absent.contains("is a virtual table"), "{absent}");
    desk.policy("permit (principal, action == Action::\"select\", resource == Table::\"main.products_fts\");\n");
    desk.run(&check).fails(3, &["which no policy can permit"]);
    desk.policy(
        "permit (principal, action == Action::\"see\", resource is row::main::products_fts);\n",
    );
    desk.run(&check).fails(3, &["which no policy can permit"]);
}

#[test]
fn the_type_of_a_table_whose_name_is_a_word_of_cedar_is_told() {
    let desk = desk();
    let run = ["describe", "sqlite:shop.db", "tags", "--policies", "p"];
    let described = desk.run(&run).expect_exit(0).out;
    assert!(described.contains("row::main::_q_tags"), "{described}");
    desk.policy("permit (principal, action == Action::\"see\", resource is row::main::tags);\n");
    let check = [
        "policy",
        "check",
        "--catalog",
        "sqlite:shop.db",
        "--policies",
        "p",
    ];
    desk.run(&check)
        .fails(3, &["did you mean `row::main::_q_tags`?"]);
}

#[test]
fn the_tables_of_changes_in_steps_are_printed_for_a_file_and_fit_it() {
    let desk = desk();
    let setup = ["setup-sql", "sqlite:shop.db"];
    let told = desk.run(&setup).expect_exit(0).out;
    assert!(told.lines().all(|line| line.starts_with("--")), "{told}");
    desk.run(&[&setup[..], &["--steps"]].concat())
        .fails(2, &["`--steps` is for an account that changes something"]);
    let script = desk.run(&[&setup[..], &["--writable", "--steps"]].concat());
    let script = script.expect_exit(0).out;
    assert!(script.contains("has no accounts"), "{script}");
    let database = rusqlite::Connection::open(desk.path("shop.db")).unwrap();
    database.execute_batch(&script).unwrap();
    let count =
        "SELECT count(*) FROM sqlite_schema WHERE name IN ('palisade_receipts', 'palisade_images')";
    let count: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 2);
}

#[test]
fn a_client_of_a_configuration_that_says_no_tools_is_told_so() {
    let desk = desk();
    let write = |mcp: &str| {
        let text = format!("{mcp}[connections.shop]\nurl = \"sqlite:shop.db\"\n");
        desk.write("c.toml", text);
        let printed = desk.run(&["mcp-config", "cursor", "--config", "c.toml"]);
        let printed = printed.expect_exit(0);
        assert!(!printed.out.contains("--tools"), "{}", printed.out);
        printed.err.contains("does not say which tools there are")
    };
    assert!(write(""));
    assert!(!write("[mcp]\ntools = \"full\"\n"));
}
