//! A constraint that refuses a change is named to those from whom nothing of the tables is kept that it could be about, and to no one else.

use palisade::{
    code::Code,
    guard::Guard,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::{TestDatabase, TestFile};

const TABLES: &str = "
CREATE TABLE teams (id integer PRIMARY KEY, name varchar(20));
CREATE TABLE people (id integer PRIMARY KEY, email varchar(40) NOT NULL, team integer, age integer,
    CONSTRAINT u_email UNIQUE (email), CONSTRAINT of_age CHECK (age > 17), CONSTRAINT of_team FOREIGN KEY (team) REFERENCES teams (id));
INSERT INTO teams VALUES (1, 'red');
INSERT INTO people VALUES (1, 'canary-1', 1, 20);
";

/// From `a` nothing is kept, from `b` a column of the table, from `c` a row of a table that a key refers to, from `d` the column that
/// takes no NULL.
const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal == Agent::"b", action == Action::"read_plain", resource == Column::"SCHEMA.people.age");
forbid (principal == Agent::"d", action in Action::"read", resource == Column::"SCHEMA.people.email");
forbid (principal == Agent::"c", action == Action::"see", resource is row::SCHEMA::teams) when { resource.id == 7 };
"#;

const REFUSED: [(&str, &[&str]); 5] = [
    (
        "INSERT INTO people (id, email) VALUES (2, NULL)",
        &["the column `email` takes no NULL"],
    ),
    (
        "UPDATE people SET email = NULL WHERE id = 1",
        &["the column `email` takes no NULL"],
    ),
    (
        "INSERT INTO people (id, email) VALUES (2, 'canary-1')",
        &["the unique key `u_email` has", "the unique key `email` has"],
    ),
    (
        "INSERT INTO people (id, email, team) VALUES (2, 'x', 5)",
        &["the foreign key `of_team` would", "the foreign key would"],
    ),
    (
        "INSERT INTO people (id, email, age) VALUES (2, 'x', 5)",
        &["the condition `of_age` does not hold"],
    ),
];

async fn constraints_are_named(guard: &Guard) {
    let summary = Code::DatabaseConstraint.summary();
    for (sql, expected) in REFUSED {
        for who in ["a", "b", "c"] {
            let session = Session::new(Principal::new("Agent", who));
            let told = guard.execute(sql, &Params::None, &session).await;
            let why = told.into_result().unwrap_err().rejection;
            assert_eq!(why.code(), Code::DatabaseConstraint, "{sql}: {why:?}");
            let told = why.message();
            match who {
                "a" => assert!(expected.iter().any(|one| told.starts_with(one)), "{told}"),
                // A column that one sees oneself lacks a value in the row that one gives.
                _ if told.contains("takes no NULL") => {
                    assert!(expected.iter().any(|one| told.starts_with(one)), "{told}");
                }
                _ => assert_eq!(told, summary, "{sql} {who}"),
            }
        }
    }
    for (who, is_named) in [("b", true), ("d", false)] {
        let session = Session::new(Principal::new("Agent", who));
        let sql = "INSERT INTO people (id) VALUES (2)";
        let told = guard.execute(sql, &Params::None, &session).await;
        let why = told.into_result().unwrap_err().rejection;
        assert_eq!(why.code(), Code::DatabaseConstraint, "{why:?}");
        assert_eq!(why.message().contains("email"), is_named, "{why:?}");
    }
}

fn sources(schema: &str) -> palisade::policy::PolicySources {
    policy_sources(POLICIES.replace("SCHEMA", schema))
}

#[tokio::test]
async fn constraints_are_named_on_sqlite() {
    let file = TestFile::new(TABLES);
    constraints_are_named(&changing_gate(file.backend(), sources("main"))).await;
}

/// What a trigger writes is its own, but for a NULL that stands in the statement.
#[tokio::test]
async fn a_null_of_the_statement_is_named_beside_triggers() {
    let file = TestFile::new(&format!(
        "{TABLES} CREATE TABLE notes (id integer PRIMARY KEY, email varchar(40) NOT NULL);
        CREATE TRIGGER noted BEFORE UPDATE ON people WHEN NEW.age > 50 BEGIN
            INSERT INTO notes (email) VALUES (NULL); END;"
    ));
    let permit =
        r#"permit (principal, action == Action::"call", resource == Function::"main.noted");"#;
    let policies = format!("{POLICIES}{permit}").replace("SCHEMA", "main");
    let gate = changing_gate(file.backend(), policy_sources(policies));
    for (sql, who, is_named) in [
        ("UPDATE people SET email = NULL WHERE id = 1", "a", true),
        ("UPDATE people SET email = NULL WHERE id = 1", "b", true),
        ("UPDATE people SET age = 60 WHERE id = 1", "c", false),
    ] {
        let session = Session::new(Principal::new("Agent", who));
        let told = gate.execute(sql, &Params::None, &session).await;
        let why = told.into_result().unwrap_err().rejection;
        assert_eq!(why.code(), Code::DatabaseConstraint, "{sql}: {why:?}");
        assert_eq!(why.message().contains("email"), is_named, "{sql}: {why:?}");
    }
}

#[tokio::test]
async fn constraints_are_named_on_postgres() {
    let database = TestDatabase::postgres("constraint_names", TABLES);
    let gate = changing_gate(database.postgres_backend().await, sources("public"));
    constraints_are_named(&gate).await;
}

#[tokio::test]
async fn constraints_are_named_on_mariadb() {
    let script = format!(
        "{TABLES} CREATE TABLE parts (n integer) PARTITION BY RANGE (n) (PARTITION low VALUES LESS THAN (5));"
    );
    let database = TestDatabase::mariadb("constraint_names", &script);
    let gate = changing_gate(database.mysql_backend().await, sources(database.name()));
    constraints_are_named(&gate).await;
    let session = Session::new(Principal::new("Agent", "a"));
    let told = gate.execute("INSERT INTO parts VALUES (9)", &Params::None, &session);
    let why = told.await.into_result().unwrap_err().rejection;
    assert_eq!(why.code(), Code::DatabaseConstraint, "{why:?}");
    assert!(
        why.message()
            .starts_with("no partition of the table takes a row"),
        "{why:?}"
    );
}
