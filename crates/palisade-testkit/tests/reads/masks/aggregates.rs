//! Columns that aggregates alone see, on real databases: what a group shows, and that one row's value never comes out.

use std::sync::Arc;

use palisade::{
    audit::NoAudit,
    code::Code,
    firewall::Firewall,
    guard::{Backend, Guard},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, host::Still};
use serde_json::Value;

use crate::database::{TestDatabase, TestFile};

/// A value of the column that only one row has stands in each.
const TABLES: &str = "
CREATE TABLE dept (id int PRIMARY KEY, name varchar(10));
CREATE TABLE emp (id int PRIMARY KEY, dept_id int, status varchar(10), salary int);
INSERT INTO dept VALUES (1, 'eng'), (2, 'ops'), (3, 'law');
INSERT INTO emp VALUES (1, 1, 'x', 1001), (2, 1, 'x', 2002), (3, 1, 'y', 3003), (4, 1, 'y', 4004), (5, 2, 'x', 5005), (6, 2, 'x', 6006);
";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"call"], resource);
@aggregate_only("3")
forbid (principal, action == Action::"read_plain", resource == Column::"SCHEMA.emp.salary");
"#;

/// What is asked, and the whole numbers that come out, row by row.
const HONEST: &[(&str, &[Option<i64>])] = &[
    ("SELECT sum(salary) AS n FROM emp", &[Some(21_021)]),
    (
        "SELECT sum(salary) AS n FROM emp GROUP BY dept_id ORDER BY dept_id",
        &[Some(10_010), None],
    ),
    (
        "SELECT sum(e.salary) AS n FROM emp e JOIN dept d ON d.id = e.dept_id GROUP BY d.name ORDER BY d.name",
        &[Some(10_010), None],
    ),
    (
        "WITH x AS (SELECT d.name, e.salary FROM emp e JOIN dept d ON d.id = e.dept_id) \
         SELECT sum(salary) AS n FROM x GROUP BY name ORDER BY name",
        &[Some(10_010), None],
    ),
    (
        "SELECT sum(CASE WHEN status = 'x' THEN salary ELSE 0 END) AS n FROM emp",
        &[Some(14_014)],
    ),
    (
        "SELECT count(salary) AS n FROM (SELECT * FROM emp WHERE dept_id = 1) AS x HAVING count(salary) > 1",
        &[Some(4)],
    ),
];

/// Ways to one row's value on every engine: refused, or without a number.
const ATTACKS: &[&str] = &[
    "SELECT salary FROM emp",
    "SELECT sum(salary) AS n FROM emp WHERE id = 5",
    "SELECT sum(e.salary) AS n FROM emp e CROSS JOIN dept d WHERE e.id = 5",
    "SELECT sum(s) AS n FROM (SELECT e.salary AS s FROM emp e CROSS JOIN dept d WHERE e.id = 5) AS x",
    "SELECT sum(s) AS n FROM (SELECT salary AS s FROM emp ORDER BY id DESC LIMIT 1) AS x",
    "SELECT sum(CASE WHEN id = 5 THEN salary ELSE 0 END) AS n FROM emp",
    "SELECT sum(CASE WHEN salary > 5000 THEN salary END) AS n FROM emp",
    "SELECT sum(salary * (CASE WHEN id = 5 THEN 1 ELSE 0 END)) AS n FROM emp",
    "SELECT max(salary) AS n FROM emp",
    "SELECT sum(salary) OVER (PARTITION BY id) AS n FROM emp",
    "SELECT sum(s) AS n FROM (SELECT salary AS s FROM emp WHERE id = 5 UNION ALL SELECT 0 UNION ALL SELECT 0) AS x",
    "SELECT sum(DISTINCT salary) AS n FROM emp",
    "SELECT count(*) AS n FROM emp GROUP BY salary",
    "SELECT 1 AS n FROM emp WHERE salary = 5005",
    "SELECT 1 AS n FROM emp WHERE salary IN (5005)",
    "SELECT 1 AS n FROM (SELECT salary FROM emp) AS a NATURAL JOIN (SELECT 5005 AS salary) AS b",
    "SELECT sum(salary) AS n, (SELECT e.salary FROM emp e WHERE e.id = 5) AS m FROM emp",
    "SELECT (SELECT sum(e.salary) FROM dept) AS n FROM emp e WHERE e.id = 5",
];

/// The same where a call can give rows, or a query stands beside a table that it reads.
const POSTGRES_ATTACKS: &[&str] = &[
    "SELECT sum(s) AS n FROM (SELECT salary AS s, generate_series(1, 5) FROM emp WHERE id = 5) AS x",
    "SELECT sum(s) AS n FROM (SELECT salary AS s FROM emp WHERE id = 5 ORDER BY generate_series(1, 5)) AS x",
    "SELECT sum(s) AS n FROM (SELECT salary AS s FROM emp WHERE id = 5 WINDOW w AS (ORDER BY generate_series(1, 5))) AS x",
    "SELECT sum(salary) AS n FROM emp WHERE id = 5 GROUP BY ROLLUP (generate_series(1, 5))",
    "SELECT sum(z.s) AS n FROM emp e, LATERAL (SELECT e.salary AS s) AS z WHERE e.id = 5",
    "SELECT sum(j.salary) AS n FROM (emp e CROSS JOIN generate_series(1, 5) AS g) AS j WHERE j.id = 5",
    "SELECT sum(salary) FILTER (WHERE random() < 0.5) AS n FROM emp",
    "SELECT (array_agg(salary))[1] AS n FROM emp",
    "SELECT emp::text AS n FROM emp",
];

async fn require_groups<B: Backend>(backend: B, schema: &str, attacks: &[&str]) {
    let sources = policy_sources(POLICIES.replace("SCHEMA", schema));
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let firewall = firewall.unwrap_or_else(|error| panic!("{error}"));
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    for (sql, expected) in HONEST {
        let answer = match guard
            .query(sql, &Params::None, &session)
            .await
            .into_result()
        {
            Ok(envelope) => serde_json::to_value(&envelope).unwrap(),
            Err(refusal) => panic!("{sql}: {}", refusal.rejection),
        };
        let rows = answer["rows"].as_array().unwrap();
        let given: Vec<Option<i64>> = rows.iter().map(|row| number(&row["n"])).collect();
        assert_eq!(given, *expected, "{sql}");
        let told = answer["notices"].to_string();
        assert!(told.contains("fewer than 3 values"), "{sql}: {told}");
    }
    let alone = guard
        .query("SELECT salary FROM emp", &Params::None, &session)
        .await;
    let answer = serde_json::to_value(alone.into_result().unwrap()).unwrap();
    let told = answer["notices"].to_string();
    assert!(told.contains("SUM and AVG alone see it"), "{told}");
    let mut shown = 0;
    for sql in ATTACKS.iter().chain(attacks) {
        match guard
            .query(sql, &Params::None, &session)
            .await
            .into_result()
        {
            Err(refusal) => {
                let rejection = refusal.rejection;
                let code = rejection.code();
                assert_eq!(code, Code::ObligationAggregateOnly, "{sql}: {rejection}");
            }
            Ok(envelope) => {
                shown += 1;
                let answer = serde_json::to_value(&envelope).unwrap();
                let rows = answer["rows"].to_string();
                for value in ["1001", "2002", "3003", "4004", "5005", "6006"] {
                    assert!(!rows.contains(value), "{sql}: {rows}");
                }
                let cells = answer["rows"].as_array().unwrap().iter();
                let numbers = cells.filter_map(|row| number(&row["n"]));
                assert_eq!(numbers.count(), 0, "{sql}: {rows}");
            }
        }
    }
    // Where all were refused, nothing was tried on the database.
    assert!(shown > 4, "{shown}");
}

/// A whole number, as each engine's driver gives it.
fn number(cell: &Value) -> Option<i64> {
    match cell {
        Value::Null => None,
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

#[tokio::test]
async fn sqlite_shows_groups_and_no_row() {
    require_groups(TestFile::new(TABLES).reader(), "main", &[]).await;
}

#[tokio::test]
async fn postgres_shows_groups_and_no_row() {
    let database = TestDatabase::postgres("aggregates", TABLES);
    let backend = database.postgres_reader().await;
    require_groups(backend, "public", POSTGRES_ATTACKS).await;
}

#[tokio::test]
async fn mariadb_shows_groups_and_no_row() {
    let database = TestDatabase::mariadb("aggregates", TABLES);
    let schema = database.name().to_owned();
    require_groups(database.mysql_reader().await, &schema, &[]).await;
}
