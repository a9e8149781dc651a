//! What a refusal of the servers' is about, and when they find it.

use palisade::guard::{BackendErrorKind, FaultClass as Class};
use palisade_testkit::{
    ask::Ask as _,
    servers::{MariaDbServer, MySqlServer, Server},
};

use super::Shop;

/// Mistakes of queries, which both servers find before they look at a row.
const QUERIES: &[(&str, Class)] = &[
    ("SELECT id FROM FROM users", Class::Syntax),
    (
        "SELECT id FROM users WHERE COUNT(*) > 1",
        Class::MisplacedAggregate,
    ),
    (
        "SELECT COUNT(COUNT(*)) FROM users",
        Class::MisplacedAggregate,
    ),
    (
        "SELECT id FROM users WHERE ROW_NUMBER() OVER () = 1",
        Class::WindowInCondition,
    ),
    (
        "SELECT SUM(ROW_NUMBER() OVER ()) FROM users",
        Class::WindowInCondition,
    ),
    ("SELECT ROW_NUMBER() OVER w FROM users", Class::UnknownName),
    ("SELECT id FROM users ORDER BY 5", Class::NoSuchPosition),
    ("SELECT id FROM users GROUP BY 5", Class::NoSuchPosition),
    ("SELECT nosuch FROM users", Class::UnknownName),
    (
        "SELECT id FROM users u JOIN users v ON u.id = v.id",
        Class::AmbiguousName,
    ),
    ("SELECT 1 FROM users u, users u", Class::NameTwice),
    (
        "SELECT 1 FROM (SELECT id AS a, name AS a FROM users) q",
        Class::NameTwice,
    ),
    (
        "SELECT (SELECT id, name FROM users)",
        Class::SubqueryColumns,
    ),
    ("SELECT 1 UNION SELECT 1, 2", Class::DifferentColumns),
    (
        "WITH q (a, b) AS (SELECT 1) SELECT a FROM q",
        Class::ValueCount,
    ),
    ("SELECT LENGTH('a', 'b')", Class::ArgumentCount),
    ("SELECT nosuch_function(1)", Class::NoSuchFunction),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT COUNT(*) FROM r) SELECT a FROM r",
        Class::InvalidRecursion,
    ),
    ("SELECT CAST(1 AS DECIMAL(99, 2))", Class::InvalidArgument),
];

/// Those that MySQL alone finds.
const OF_MYSQL: &[(&str, Class)] = &[
    ("SELECT id, COUNT(*) FROM users", Class::NotGrouped),
    (
        "SELECT DISTINCT name FROM users ORDER BY id",
        Class::OrderOfDistinct,
    ),
    ("SELECT 1 FROM (SELECT 1)", Class::AliasMissing),
];

async fn told(server: &'static Server, label: &str, mistakes: &[&[(&str, Class)]]) {
    let shop = Shop::on(server, label, |config| config).await;
    for (sql, expected) in mistakes.iter().copied().flatten() {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, BackendErrorKind::Rejected, "{sql}: {error}");
        let fault = error.fault.expect(sql);
        assert_eq!(fault.class, *expected, "{sql}: {}", fault.message);
        assert!(fault.is_of_preparation, "{sql}");
    }
}

#[tokio::test]
async fn mistakes_are_told_by_what_they_are_about() {
    let server = MariaDbServer::start_shared().unwrap();
    told(server, "mistakes", &[QUERIES]).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mistakes_are_told_by_what_they_are_about_on_mysql_9() {
    let server = MySqlServer::start_shared().unwrap();
    told(server, "mistakes", &[QUERIES, OF_MYSQL]).await;
}
