//! What a refusal of the server's is about, over the servers themselves: codes alone do not say.

use palisade::guard::{BackendErrorKind, FaultClass as Class};
use palisade_testkit::ask::Ask as _;

use super::{Kind, Shop};

/// Mistakes of queries, which the server finds before it looks at a row.
const QUERIES: &[(&str, Class)] = &[
    (
        "SELECT id FROM app.users WHERE count(*) > 1",
        Class::AggregateInCondition,
    ),
    (
        "SELECT u.id FROM app.users u JOIN app.users v ON count(*) = 1",
        Class::AggregateInCondition,
    ),
    (
        "SELECT count(count(*)) FROM app.users",
        Class::MisplacedAggregate,
    ),
    (
        "SELECT 1 FROM app.users GROUP BY count(*)",
        Class::MisplacedAggregate,
    ),
    ("SELECT id, count(*) FROM app.users", Class::NotGrouped),
    (
        "SELECT name FROM app.users GROUP BY id % 2",
        Class::NotGrouped,
    ),
    (
        "SELECT id FROM app.users WHERE row_number() OVER () = 1",
        Class::WindowInCondition,
    ),
    (
        "SELECT id FROM app.users GROUP BY id HAVING row_number() OVER () = 1",
        Class::WindowInCondition,
    ),
    (
        "SELECT sum(row_number() OVER ()) FROM app.users",
        Class::WindowInCondition,
    ),
    (
        "SELECT sum(count(*) OVER ()) OVER () FROM app.users",
        Class::Misplaced,
    ),
    ("SELECT row_number() FROM app.users", Class::OtherKindOfCall),
    (
        "SELECT length(DISTINCT name) FROM app.users",
        Class::OtherKindOfCall,
    ),
    ("SELECT id FROM app.users ORDER BY 5", Class::NoSuchPosition),
    ("SELECT id FROM app.users GROUP BY 5", Class::NoSuchPosition),
    (
        "SELECT DISTINCT ON (name) id FROM app.users ORDER BY id",
        Class::OrderOfDistinct,
    ),
    (
        "SELECT DISTINCT name FROM app.users ORDER BY id",
        Class::OrderOfDistinct,
    ),
    ("SELECT id FROM app.users LIMIT id", Class::Misplaced),
    (
        "SELECT (SELECT id, name FROM app.users)",
        Class::SubqueryColumns,
    ),
    (
        "SELECT id FROM app.users WHERE id IN (SELECT id, name FROM app.users)",
        Class::SubqueryColumns,
    ),
    ("SELECT 1 UNION SELECT 1, 2", Class::DifferentColumns),
    ("SELECT * FROM (VALUES (1), (1, 2)) AS v", Class::ValueCount),
    ("SELECT 1 FROM app.users u, app.users u", Class::NameTwice),
    (
        "SELECT a FROM (SELECT id AS a, name AS a FROM app.users) AS q",
        Class::AmbiguousName,
    ),
    ("SELECT id FROM FROM app.users", Class::Syntax),
    ("SELECT name = 5 FROM app.users", Class::NoSuchOperator),
    ("SELECT length(5) FROM app.users", Class::NoSuchCall),
    ("SELECT 'a b &'::tsquery", Class::InvalidText),
    (
        "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT count(*) FROM r) SELECT 1 FROM r",
        Class::InvalidRecursion,
    ),
    ("SELECT id FROM app.users WHERE id", Class::TypeMismatch),
];

#[tokio::test]
async fn mistakes_of_queries_are_told_by_what_they_are_about() {
    let shop = Shop::new("mistakes").await;
    for (sql, expected) in QUERIES {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, BackendErrorKind::Rejected, "{sql}: {error}");
        let fault = error.fault.expect(sql);
        assert_eq!(fault.class, *expected, "{sql}: {}", fault.message);
        assert!(fault.is_of_preparation, "{sql}");
    }
    // PostgreSQL 16 asks for none.
    let alias = shop.query("SELECT x FROM (SELECT 1 AS x)").run().await;
    let fault = alias.err().and_then(|error| error.fault);
    assert!(
        fault.is_none_or(|fault| fault.class == Class::AliasMissing && fault.is_of_preparation)
    );
}

#[tokio::test]
async fn mistakes_of_changes_are_told_by_what_they_are_about() {
    let mut shop = Shop::new("mistaken").await;
    shop.ask(
        "CREATE TABLE app.sums (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,
            n int GENERATED ALWAYS AS IDENTITY)",
    );
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    for (sql, expected, is_of_preparation) in [
        (
            "INSERT INTO app.sums (id) VALUES (1, 2)",
            Class::ValueCount,
            true,
        ),
        (
            "INSERT INTO app.sums (id, a) VALUES (1)",
            Class::ValueCount,
            true,
        ),
        (
            "INSERT INTO app.sums (id, id) VALUES (1, 2)",
            Class::NameTwice,
            true,
        ),
        ("UPDATE app.sums SET a = 1, a = 2", Class::NameTwice, true),
        (
            "UPDATE app.sums SET a = count(*)",
            Class::MisplacedAggregate,
            true,
        ),
        (
            "INSERT INTO app.sums (id, twice) VALUES (1, 1)",
            Class::GeneratedColumn,
            true,
        ),
        (
            "INSERT INTO app.sums (id, n) VALUES (1, 1)",
            Class::GeneratedColumn,
            true,
        ),
        (
            "UPDATE app.sums SET twice = 1",
            Class::GeneratedColumn,
            true,
        ),
        // Planning finds the index.
        (
            "INSERT INTO app.sums (id) VALUES (1) ON CONFLICT (a) DO NOTHING",
            Class::NoConflictTarget,
            false,
        ),
    ] {
        let mut query = shop.superuser().await.query(sql);
        query.relations = vec!["app.sums".to_owned()];
        query.kind = Kind::Change {
            writes: [].into(),
            triggers: [].into(),
            max_affected: 10,
        };
        let error = query.fails().await;
        let fault = error.fault.expect(sql);
        assert_eq!(fault.class, expected, "{sql}: {}", fault.message);
        assert_eq!(fault.is_of_preparation, is_of_preparation, "{sql}");
    }
}

#[tokio::test]
async fn a_missing_grant_is_named_with_the_columns_that_are_read() {
    let shop = Shop::new("columns").await;
    let agent = format!("agent_{}", shop.database);
    shop.ask(&format!(
        "REVOKE SELECT ON app.users FROM {agent}; GRANT SELECT (id, name) ON app.users TO {agent}"
    ));
    let mut query = shop.query("SELECT id, xmin FROM app.users");
    query.relations = vec!["app.users".to_owned()];
    query.reads = ["", "ctid", "id", "xmin"]
        .map(|column| ("users".to_owned(), column.to_owned()))
        .into();
    let error = query.fails().await;
    assert_eq!(error.kind, BackendErrorKind::NotGranted, "{error}");
    let end = format!(", or: GRANT SELECT (\"id\", \"xmin\") ON app.users TO \"{agent}\";");
    assert!(error.detail.ends_with(&end), "{error}");
    // Reads are told without schemas.
    query.relations.push("hr.users".to_owned());
    let error = query.fails().await;
    assert!(error.detail.ends_with("that prints it"), "{error}");
}

#[tokio::test]
async fn a_schema_that_the_account_may_not_use_is_named() {
    let shop = Shop::new("usage").await;
    let agent = format!("agent_{}", shop.database);
    shop.ask(&format!("REVOKE USAGE ON SCHEMA app FROM {agent}"));
    let mut query = shop.query("SELECT id FROM app.users");
    query.relations = vec!["app.users".to_owned()];
    let error = query.fails().await;
    assert_eq!(error.kind, BackendErrorKind::NotGranted, "{error}");
    let end = format!(", or: GRANT USAGE ON SCHEMA \"app\" TO \"{agent}\";");
    assert!(error.detail.ends_with(&end), "{error}");
    // Of another schema, what the statement reads needs nothing.
    query.relations = vec!["hr.users".to_owned()];
    assert_eq!(query.fails().await.kind, BackendErrorKind::SecondLock);
}
