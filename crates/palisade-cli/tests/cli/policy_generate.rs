//! `palisade policy test --generate`: rows and a matrix made of the policies.

use std::fs;

use serde_json::json;

use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer};

use crate::desk::Desk;

const TABLES: &str = "CREATE TABLE tenants (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL REFERENCES tenants (id),
  status TEXT NOT NULL CHECK (status IN ('open', 'closed')),
  weight INTEGER NOT NULL
);
CREATE INDEX by_tenant ON tickets (tenant_id);
INSERT INTO tenants VALUES (7, 'old');
INSERT INTO tickets VALUES (70, 7, 'closed', 1);
";

const POLICIES: &str = r#"@id("read")
permit (principal, action in [Action::"select", Action::"read"], resource);
@id("tenants")
permit (principal, action == Action::"see", resource is row::main::tenants);
@id("tickets")
permit (principal == Agent::"ann", action == Action::"see", resource is row::main::tickets)
when { resource.tenant_id == 3 && resource.status == "open" && resource.weight > 5 };
@id("tickets.ben")
permit (principal == Agent::"ben", action == Action::"see", resource is row::main::tickets)
when { resource.tenant_id == 4 || resource.weight < 0 };
@id("names")
@mask("null")
forbid (principal == Agent::"ben", action == Action::"read_plain", resource == Column::"main.tenants.name");
"#;

fn folder(policies: &str, tables: &str) -> Desk {
    let desk = Desk::empty();
    desk.policy(policies);
    desk.write("p/tests/shop.sql", tables);
    desk
}

/// What is generated holds at once: each condition takes a row and leaves one, and parents are there.
#[test]
fn generated_tests_pass_at_once() {
    let desk = folder(POLICIES, TABLES);
    let told = desk
        .run(&[
            "policy",
            "test",
            "p",
            "--generate",
            "new",
            "--format",
            "json",
        ])
        .expect_exit(0)
        .json();
    assert_eq!(told["unverified"], json!([]), "{told}");
    let again = desk
        .run(&["policy", "test", "new", "--format", "json"])
        .expect_exit(0)
        .json();
    assert_eq!(again["failed"], 0, "{again}");
    let tables = fs::read_to_string(desk.path("new/tests/generated.sql")).unwrap();
    assert!(!tables.contains("'old'"), "{tables}");
    assert!(
        tables.contains("INSERT INTO tenants (id, name) VALUES (3,"),
        "{tables}"
    );
    assert!(
        tables.contains("INSERT INTO tenants (id, name) VALUES (4,"),
        "{tables}"
    );
    assert!(tables.contains("CREATE INDEX by_tenant"), "{tables}");
    let cases = fs::read_to_string(desk.path("new/tests/generated.toml")).unwrap();
    for expected in [
        "agent-ann = 'Agent::\"ann\"'",
        "sql = \"SELECT name FROM tenants\"",
        "name = \"main-tenants-name-group\"",
        "agent-ben = \"mask\"",
        "agent-ann = \"filter\"",
        "name = \"rows-main-tickets-agent-ann\"",
    ] {
        assert!(cases.contains(expected), "{expected}\n{cases}");
    }
    // Of the matrix each cell is written out, so that a new permission shows.
    assert_eq!(
        again["left_out"].as_array().map_or(0, Vec::len),
        0,
        "{again}"
    );
    // A policy that shows more breaks what was generated.
    let wider = POLICIES.replace("resource.weight > 5", "resource.weight > 4");
    desk.write(
        "new/base.cedar",
        wider.replace("resource.status == \"open\" && ", ""),
    );
    desk.run(&["policy", "test", "new"]).expect_exit(1);
}

/// A condition that no row can satisfy is a cell that fails until a person has decided it.
#[test]
fn what_cannot_be_established_is_unverified_and_fails() {
    let policies = POLICIES.replace("resource.status == \"open\"", "resource.status == \"gone\"");
    let desk = folder(&policies, TABLES);
    let answer = desk
        .run(&["policy", "test", "p", "--generate", "new"])
        .expect_exit(1);
    assert!(
        answer.out.contains(
            "unverified: Agent::\"ann\", main.tickets: no row was found that its condition takes"
        ),
        "{}",
        answer.out
    );
    let told = desk.run(&["policy", "test", "new"]).expect_exit(1).out;
    assert!(
        told.contains("expected a cell that a person has decided"),
        "{told}"
    );
    assert!(told.contains("1 failed"), "{told}");
}

#[test]
fn nothing_is_overwritten_and_other_engines_are_refused() {
    let desk = folder(POLICIES, TABLES);
    desk.write("new/kept.txt", "mine");
    let told = desk
        .run(&["policy", "test", "p", "--generate", "new"])
        .expect_exit(2)
        .err;
    assert!(told.contains("it is not empty"), "{told}");
    assert_eq!(
        fs::read_to_string(desk.path("new/kept.txt")).unwrap(),
        "mine"
    );
    assert!(!desk.path("new/tests").exists());
    let desk = folder(POLICIES, TABLES);
    desk.write(
        "p/tests/big.postgres.sql",
        "CREATE TABLE public.tea (id bigint);",
    );
    let told = desk
        .run(&["policy", "test", "p", "--generate", "new"])
        .expect_exit(2)
        .err;
    assert!(told.contains("--catalog"), "{told}");
    let told = desk
        .run(&[
            "policy",
            "test",
            "p",
            "--generate",
            "new",
            "--catalog",
            "big.postgres",
        ])
        .expect_exit(2)
        .err;
    assert!(
        told.contains("no server to try rows on") && told.contains("disposable = true"),
        "{told}"
    );
    assert!(!desk.path("new").exists());
}

/// Rows of types that an engine checks, with keys that it counts.
const POSTGRES: &str = "CREATE TYPE mood AS ENUM ('calm', 'cross');
CREATE TABLE tenants (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name varchar(6) NOT NULL UNIQUE);
CREATE TABLE tickets (
  id uuid PRIMARY KEY,
  tenant_id bigint NOT NULL REFERENCES tenants (id),
  status text NOT NULL CHECK (status IN ('open', 'closed')),
  weight int NOT NULL,
  urgent boolean NOT NULL,
  mood mood,
  address inet,
  at timestamptz NOT NULL
);
INSERT INTO tenants (name) VALUES ('old');
INSERT INTO tickets VALUES (gen_random_uuid(), 1, 'closed', 1, false, 'calm', NULL, '2026-01-01');
-- The end
";

const MYSQL: &str =
    "CREATE TABLE tenants (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(6) NOT NULL UNIQUE);
CREATE TABLE tickets (
  id INT PRIMARY KEY,
  tenant_id BIGINT NOT NULL,
  status VARCHAR(20) NOT NULL CHECK (status IN ('open', 'closed')),
  weight INT NOT NULL,
  urgent BOOLEAN NOT NULL,
  mood ENUM('calm', 'cross') NOT NULL,
  at DATETIME NOT NULL,
  FOREIGN KEY (tenant_id) REFERENCES tenants (id)
);
INSERT INTO tenants (name) VALUES ('old');
INSERT INTO tickets VALUES (1, 1, 'closed', 1, FALSE, 'calm', '2026-01-01')
";

/// What is generated on a server holds there at once, a policy that shows more breaks it, and nothing is left.
fn generates_on(dialect: &str, schema: &str, tables: &str, url: &str) {
    let desk = Desk::empty();
    let policies = POLICIES.replace("main", schema);
    desk.policy(&policies);
    let catalog = format!("shop.{dialect}");
    desk.write(&format!("p/tests/{catalog}.sql"), tables);
    let server = format!("[\"{catalog}\"]\nurl = \"{url}\"\n");
    // Without the word that it holds nothing but tests, nothing is asked of it.
    desk.write("p/tests/servers.toml", &server);
    let command = [
        "policy",
        "test",
        "p",
        "--generate",
        "new",
        "--format",
        "json",
    ];
    desk.run(&command).fails(2, &["disposable = true"]);
    desk.write(
        "p/tests/servers.toml",
        format!("{server}disposable = true\n"),
    );
    let told = desk.run(&command).expect_exit(0).json();
    assert_eq!(told["unverified"], json!([]), "{told}");
    let read = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    let made = read(&format!("new/tests/generated.{dialect}.sql"));
    for tenant in [3, 4] {
        let parent = made.lines().find(|line| {
            line.starts_with("INSERT INTO tenants") && line.contains(&format!("VALUES ({tenant},"))
        });
        assert!(parent.is_some(), "{made}");
    }
    let cases = read("new/tests/generated.toml");
    for expected in [
        format!("name = \"rows-{schema}-tickets-agent-ann\""),
        "sql = \"SELECT name FROM tenants\"".to_owned(),
        "agent-ben = \"mask\"".to_owned(),
    ] {
        assert!(cases.contains(&expected), "{expected}\n{cases}");
    }
    assert!(
        !format!("{cases}{made}{told}").contains("palisade_test_"),
        "{cases}"
    );
    desk.run(&["policy", "test", "new"]).expect_exit(0);
    let wider = policies.replace("resource.status == \"open\" && ", "");
    desk.write("new/base.cedar", wider.replace("weight > 5", "weight > 4"));
    desk.run(&["policy", "test", "new"]).expect_exit(1);
    // A condition that no row meets is not held to be one that was tried.
    desk.write("p/base.cedar", policies.replace("\"open\"", "\"gone\""));
    let told = desk
        .run(&["policy", "test", "p", "--generate", "never"])
        .expect_exit(1)
        .out;
    let unverified = format!(
        "unverified: Agent::\"ann\", {schema}.tickets: no row was found that its condition takes"
    );
    assert!(told.contains(&unverified), "{told}");
}

#[test]
fn rows_are_generated_on_postgres() {
    let started = PostgresServer::start_shared().unwrap();
    let role = "CREATE ROLE policy_generator LOGIN CREATEDB";
    started.query("postgres", role).unwrap();
    let url = started.url_as("policy_generator", "postgres");
    generates_on("postgres", "public", POSTGRES, &url);
    let sql = "SELECT datname FROM pg_database JOIN pg_roles r ON datdba = r.oid WHERE rolname = 'policy_generator'";
    assert_eq!(started.query("postgres", sql).unwrap().trim(), "");
}

#[test]
fn rows_are_generated_on_mariadb() {
    let started = MariaDbServer::start_shared().unwrap();
    generates_on("mysql", "main", MYSQL, &started.url("mysql"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn rows_are_generated_on_mysql_9() {
    let started = MySqlServer::start_shared().unwrap();
    generates_on("mysql", "main", MYSQL, &started.url("mysql"));
}
