//! Tests of policy folders whose cases run on real servers.

use std::{
    thread,
    time::{Duration, Instant},
};

use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer, Server};
use serde_json::json;

use crate::{
    desk::Desk,
    workbench::{case, test},
};

/// Who sees everything but prices and all teas but one.
const POLICIES: &str = "@id(\"all\") permit (principal == Agent::\"ann\", action, resource);
@id(\"price\") @mask(\"null\")
forbid (principal, action == Action::\"read_plain\", resource == Column::\"SCHEMA.tea.price\");
@id(\"sold\")
forbid (principal, action == Action::\"see\", resource is row::SCHEMA::tea)
unless { resource.id == 1 };
";

/// What every engine answers alike.
fn cases(quote: char) -> String {
    [
        case(
            "names",
            "sql = \"SELECT name, price FROM tea ORDER BY id\"\ndecision = \"allow\"\nmasked = [\"price\"]\nrows = [[\"Assam\", {}]]\npreserve = false",
        ),
        case(
            "named",
            &format!("sql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrewritten_has = ['{quote}tea{quote}']"),
        ),
        case(
            "plain",
            "sql = \"SELECT 1 AS one, 'x' AS two\"\ndecision = \"allow\"\npreserve = true",
        ),
        case(
            "sale",
            "sql = \"UPDATE tea SET name = 'Pekoe' WHERE id = 1\"\ndecision = \"allow\"\naffected = 1\nafter = {sql = \"SELECT id, name, price FROM tea ORDER BY id\", rows = [[1, \"Pekoe\", 4], [2, \"Sencha\", 7]]}",
        ),
        case(
            "again",
            "sql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrows = [[\"Assam\"]]",
        ),
    ]
    .concat()
}

fn desk(dialect: &str, schema: &str) -> Desk {
    let desk = Desk::empty();
    desk.policy(&POLICIES.replace("SCHEMA", schema));
    desk.write(
        &format!("p/tests/tea.{dialect}.sql"),
        "CREATE TABLE tea (id INTEGER PRIMARY KEY, name VARCHAR(20), price INTEGER);
INSERT INTO tea VALUES (1, 'Assam', 4), (2, 'Sencha', 7);
",
    );
    desk
}

fn server(dialect: &str, url: &str) -> String {
    format!("[\"tea.{dialect}\"]\nurl = \"{url}\"\ndisposable = true\n")
}

/// Every case passes, one with a wrong row fails with it, and nothing is left on the server.
fn runs_there(desk: &Desk, cases: &str, left: impl Fn() -> String) {
    desk.write("p/tests/tea.toml", cases);
    let told = test(desk, &["--format", "json"]).expect_exit(0).json();
    assert_eq!(
        (&told["passed"], &told["failed"], &told["skipped"]),
        (&json!(5), &json!(0), &json!(0)),
        "{told}"
    );
    desk.write(
        "p/tests/tea.toml",
        cases.replace("[\"Assam\"]", "[\"Earl\"]"),
    );
    let failed = test(desk, &["--filter", "again"]).expect_exit(1);
    assert!(
        failed.out.contains("Earl") && failed.out.contains("Assam"),
        "{}",
        failed.out
    );
    desk.write(
        "p/tests/tea.toml",
        cases.replace("\"Pekoe\", 4", "\"Pekoe\", 5"),
    );
    test(desk, &["--filter", "sale"]).expect_exit(1);
    // Other tests run cases on the same server meanwhile, and leave nothing either.
    let deadline = Instant::now() + Duration::from_secs(30);
    while let rest = left()
        && !rest.is_empty()
    {
        assert!(Instant::now() < deadline, "{rest}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn cases_run_on_postgres() {
    let started = PostgresServer::start_shared().unwrap();
    started
        .query("postgres", "CREATE ROLE policy_tester LOGIN CREATEDB")
        .unwrap();
    let desk = desk("postgres", "public");
    let url = started.url_as("policy_tester", "postgres");
    desk.write("p/tests/servers.toml", server("postgres", &url));
    runs_there(&desk, &cases('"'), || {
        // Other tests may run there at the same time, as other accounts.
        let sql = "SELECT datname FROM pg_database JOIN pg_roles r ON datdba = r.oid WHERE rolname = 'policy_tester'";
        started.query("postgres", sql).unwrap().trim().to_owned()
    });
    // A script that fails is told of, and leaves nothing.
    desk.write(
        "p/tests/tea.postgres.sql",
        "CREATE TABLE tea (name text); SELECT 1 / 0;",
    );
    test(&desk, &[]).fails(2, &["p/tests/tea.postgres.sql", "division by zero"]);
}

#[test]
fn cases_run_on_mariadb() {
    run_on_mysql(MariaDbServer::start_shared().unwrap());
}

fn run_on_mysql(started: &Server) {
    let desk = desk("mysql", "main");
    desk.write(
        "p/tests/servers.toml",
        server("mysql", &started.url("mysql")),
    );
    runs_there(&desk, &cases('`'), || {
        let sql = "SHOW DATABASES LIKE 'palisade\\_test\\_%'";
        started.query("mysql", sql).unwrap().trim().to_owned()
    });
}

/// One folder for several engines: policies and texts call the database as `schemas.toml` does.
#[test]
fn a_database_is_called_as_the_folder_calls_it() {
    let started = MariaDbServer::start_shared().unwrap();
    let desk = desk("mysql", "public");
    desk.write("p/schemas.toml", "[mysql]\nshop_eu = \"public\"\n");
    let named = case(
        "shop",
        "sql = \"SELECT name FROM shop_eu.tea\"\ndecision = \"allow\"\nrewritten_has = ['`shop_eu`.`tea`']",
    );
    desk.write("p/tests/tea.toml", named);
    test(&desk, &[]).expect_exit(0);
    let named = case(
        "shop",
        "sql = \"SELECT name FROM tea\"\ndecision = \"allow\"\nrewritten_has = ['`shop_eu`.`tea`']\nrows = [[\"Assam\"]]",
    );
    desk.write("p/tests/tea.toml", named);
    test(&desk, &[]).fails(2, &["nothing runs cases of mysql without a server"]);
    desk.write(
        "p/tests/servers.toml",
        server("mysql", &started.url("mysql")),
    );
    test(&desk, &[]).expect_exit(0);
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn cases_run_on_mysql_9() {
    run_on_mysql(MySqlServer::start_shared().unwrap());
}

#[test]
fn a_server_is_named_as_what_it_is() {
    let desk = desk("postgres", "public");
    desk.write("p/tests/tea.toml", cases('"'));
    let is_refused = |text: &str, words: &[&str]| {
        desk.write("p/tests/servers.toml", text);
        let words = [&["p/tests/servers.toml"][..], words].concat();
        test(&desk, &[]).fails(2, &words);
    };
    let good = server("postgres", "postgres://u@localhost/postgres");
    is_refused(
        &good.replace("disposable = true", ""),
        &["disposable = true"],
    );
    is_refused(
        &good.replace("disposable", "dispossable"),
        &["unknown field `dispossable`"],
    );
    is_refused(
        &good.replace("tea.postgres", "coffee.postgres"),
        &["there is no catalog of this name"],
    );
    is_refused(&good.replace("u@", "u:secret@"), &["password_env"]);
    is_refused(
        &good.replace("postgres://", "mysql://"),
        &["another engine"],
    );
    is_refused(&good.replace("/postgres\"", "\""), &["names no database"]);
    desk.write(
        "p/tests/servers.toml",
        format!("{good}password_env = \"PALISADE_NO_SUCH_VARIABLE\"\n"),
    );
    test(&desk, &[]).fails(2, &["`PALISADE_NO_SUCH_VARIABLE`", "is not set"]);
    // A server that is away fails the run: no case is skipped in silence.
    desk.write(
        "p/tests/servers.toml",
        server("postgres", "postgres://u@127.0.0.1:1/postgres"),
    );
    test(&desk, &[]).fails(2, &["tea.postgres.sql"]);
}
