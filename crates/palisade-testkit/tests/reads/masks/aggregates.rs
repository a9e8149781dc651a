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
CREATE VIEW pay AS SELECT dept_id, salary FROM emp;
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
        "SELECT sum(CASE status WHEN 'x' THEN coalesce(salary, 0) ELSE 0 END) AS n FROM emp",
        &[Some(14_014)],
    ),
    (
        "SELECT sum(coalesce(salary, 0)) AS n FROM emp WHERE id > 2 GROUP BY dept_id ORDER BY dept_id",
        &[None, None],
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
    "SELECT sum(coalesce(salary, 1)) AS n FROM emp",
    "SELECT sum(coalesce(salary, id)) AS n FROM emp WHERE id = 5",
    "SELECT sum(CASE salary WHEN 5005 THEN salary ELSE 0 END) AS n FROM emp",
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
    let through_view = guard
        .query("SELECT sum(salary) AS n FROM pay", &Params::None, &session)
        .await;
    let answer = serde_json::to_value(through_view.into_result().unwrap()).unwrap();
    let told = answer["notices"].to_string();
    assert!(told.contains("over the table below the view"), "{told}");
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

/// Columns of `risk` that aggregates alone see, and sums of them.
async fn require_sums<B: Backend>(
    backend: B,
    schema: &str,
    columns: &[&str],
    sums: &[(&str, &str)],
) {
    let guard = guard_risks(backend, schema, columns);
    for (sql, expected) in sums {
        let given = outcome(&guard, sql).await;
        assert_eq!(given.as_deref(), Ok(*expected), "{sql}");
    }
}

/// Columns of a table, and the values of its first row in two databases. Three times one of them overflows its type.
const AT_RISK: &[(&str, [&str; 2])] = &[
    ("whole bigint", ["4611686018427387904", "1"]),
    ("point double precision", ["1e308", "1"]),
    ("words varchar(30)", ["'4611686018427387904'", "'1'"]),
];

/// The same where types have bounds of their own.
const AT_RISK_POSTGRES: &[(&str, [&str; 2])] = &[
    ("near real", ["3e38", "1"]),
    ("far double precision", ["1e200", "1"]),
    ("exact numeric", ["5e131071", "1"]),
    ("few numeric(12,2)", ["9999999999.99", "1"]),
    ("cash money", ["90000000000000000", "1"]),
    ("span interval", ["'170000000 years'", "'1 year'"]),
    ("narrowed narrower", ["1e308", "1"]),
];

/// How the row of a value is repeated, and what is computed from it: `$` stands for the column.
const REPEATED: &[&str] = &[
    "SELECT sum(r.$) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT avg(r.$) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT sum(CASE WHEN d.id > 0 THEN r.$ ELSE 0 END) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT avg(CASE WHEN d.id > 1 THEN r.$ ELSE 0 END) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT sum(coalesce(r.$, 0)) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT sum(CAST(r.$ AS FLOAT)) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1",
    "SELECT sum(x.s) AS n FROM (SELECT r.$ AS s FROM risk r CROSS JOIN dept d WHERE r.id = 1) AS x",
    "SELECT sum(r.$) AS n FROM risk r CROSS JOIN dept d GROUP BY r.id ORDER BY r.id",
    "SELECT max(d.id) AS n FROM risk r CROSS JOIN dept d WHERE r.id = 1 HAVING sum(r.$) IS NOT NULL",
];

/// Five rows beside the first.
fn risk_tables(columns: &[(&str, [&str; 2])], database: usize) -> String {
    let declared: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
    let first: Vec<&str> = columns.iter().map(|(_, values)| values[database]).collect();
    let other: Vec<&str> = columns.iter().map(|(_, values)| values[1]).collect();
    let others: Vec<String> = (2..=6)
        .map(|id| format!("({id}, {})", other.join(", ")))
        .collect();
    format!(
        "{TABLES} CREATE TABLE risk (id int PRIMARY KEY, {});
        INSERT INTO risk VALUES (1, {}), {};",
        declared.join(", "),
        first.join(", "),
        others.join(", ")
    )
}

fn guard_risks<B: Backend>(backend: B, schema: &str, columns: &[&str]) -> Guard {
    let mut policies = POLICIES.to_owned();
    for column in columns {
        let name = column.split(' ').next().unwrap();
        policies.push_str(&format!(
            "@aggregate_only(\"3\") forbid (principal, action == Action::\"read_plain\", \
             resource == Column::\"SCHEMA.risk.{name}\");\n"
        ));
    }
    let sources = policy_sources(policies.replace("SCHEMA", schema));
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build();
    let firewall = firewall.unwrap_or_else(|error| panic!("{error}"));
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    )
}

/// The rows of an answer, or the code of a refusal.
async fn outcome(guard: &Guard, sql: &str) -> Result<String, Code> {
    let session = Session::new(Principal::new("Agent", "a"));
    match guard
        .query(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(envelope) => Ok(serde_json::to_value(&envelope).unwrap()["rows"].to_string()),
        Err(refusal) => Err(refusal.rejection.code()),
    }
}

/// Databases that differ in one value answer alike: no sum of a small group fails by it.
async fn require_same<B: Backend>(
    backends: [B; 2],
    schemas: [&str; 2],
    columns: &[(&str, [&str; 2])],
) {
    let declared: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
    let [one, another] = backends;
    let one = guard_risks(one, schemas[0], &declared);
    let another = guard_risks(another, schemas[1], &declared);
    let mut shown = 0;
    for column in declared {
        let (name, _) = column.split_once(' ').unwrap();
        for repeated in REPEATED {
            let sql = repeated.replace('$', name);
            let answer = outcome(&one, &sql).await;
            assert_eq!(answer, outcome(&another, &sql).await, "{sql}");
            match answer {
                Ok(rows) => {
                    shown += 1;
                    let is_nothing = rows == "[]" || rows.replace("{\"n\":null}", "").len() <= 7;
                    assert!(is_nothing, "{sql}: {rows}");
                }
                Err(code) => assert_eq!(code, Code::ObligationAggregateOnly, "{sql}"),
            }
        }
    }
    assert!(shown > 2 * REPEATED.len(), "{shown}");
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
async fn no_sum_of_a_small_group_fails_on_sqlite() {
    let files = [0, 1].map(|at| TestFile::new(&risk_tables(AT_RISK, at)));
    let backends = [files[0].reader(), files[1].reader()];
    require_same(backends, ["main"; 2], AT_RISK).await;
}

#[tokio::test]
async fn no_sum_of_a_small_group_fails_on_postgres() {
    let columns = [AT_RISK, AT_RISK_POSTGRES].concat();
    let databases = ["sums_one", "sums_another"];
    let databases = [0, 1].map(|at| {
        let types = "CREATE DOMAIN narrow AS double precision; \
                     CREATE DOMAIN narrower AS narrow CHECK (value > 0);";
        let tables = format!("{types} {}", risk_tables(&columns, at));
        TestDatabase::postgres(databases[at], &tables)
    });
    let backends = [
        databases[0].postgres_reader().await,
        databases[1].postgres_reader().await,
    ];
    require_same(backends, ["public"; 2], &columns).await;
}

#[tokio::test]
async fn no_sum_of_a_small_group_fails_on_mariadb() {
    let databases = ["sums_one", "sums_another"];
    let databases =
        [0, 1].map(|at| TestDatabase::mariadb(databases[at], &risk_tables(AT_RISK, at)));
    let schemas = [0, 1].map(|at| databases[at].name().to_owned());
    let backends = [
        databases[0].mysql_reader().await,
        databases[1].mysql_reader().await,
    ];
    require_same(backends, [&schemas[0], &schemas[1]], AT_RISK).await;
}

#[tokio::test]
async fn sums_of_large_groups_are_the_engines_own_on_sqlite() {
    let tables = format!(
        "{TABLES} CREATE TABLE risk (id int PRIMARY KEY, whole bigint, point double, words text);
        INSERT INTO risk VALUES (1, 4611686018427387904, 0.1, '1'), (2, 4611686018427387903, 0.2, '2'),
            (3, -4611686018427387904, 2, 'x'), (4, -2097153, NULL, '4.5'), (5, 2.5, 5, '5'), (6, '6', 1e308, '6');"
    );
    let file = TestFile::new(&tables);
    require_sums(
        file.reader(),
        "main",
        &["whole", "point", "words"],
        &[
            (
                "SELECT sum(whole) AS n FROM risk WHERE id < 5",
                r#"[{"n":"4611686018425290750"}]"#,
            ),
            (
                "SELECT sum(r.whole) AS n FROM risk r CROSS JOIN dept d WHERE r.id IN (1, 2, 4)",
                r#"[{"n":2.7670116110558036e+19}]"#,
            ),
            (
                "SELECT sum(whole) AS n FROM risk WHERE id > 3",
                r#"[{"n":-2097144.5}]"#,
            ),
            (
                "SELECT sum(whole) FILTER (WHERE id <> 4) AS n FROM risk WHERE id > 2",
                r#"[{"n":-4.611686018427388e+18}]"#,
            ),
            (
                "SELECT sum(iif(id < 5, ifnull(whole, 0), 0)) AS n FROM risk",
                r#"[{"n":"4611686018425290750"}]"#,
            ),
            (
                "SELECT sum(point) AS n FROM risk WHERE id IN (1, 3, 5)",
                r#"[{"n":7.1}]"#,
            ),
            (
                "SELECT sum(point) AS n FROM risk WHERE id IN (3, 4, 5)",
                r#"[{"n":null}]"#,
            ),
            ("SELECT sum(words) AS n FROM risk", r#"[{"n":18.5}]"#),
            (
                "SELECT total(whole) AS n FROM risk WHERE id > 2",
                r#"[{"n":-4.611686018429485e+18}]"#,
            ),
            (
                "SELECT sum(CAST(whole AS REAL)) AS n FROM risk WHERE id < 4",
                r#"[{"n":4.611686018427388e+18}]"#,
            ),
            (
                "SELECT sum(whole) FROM risk WHERE id < 5",
                r#"[{"sum(whole)":"4611686018425290750"}]"#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn sums_of_large_groups_are_the_engines_own_on_postgres() {
    let tables = format!(
        "{TABLES} CREATE TABLE risk (id int PRIMARY KEY, point double precision, exact numeric, cash money);
        INSERT INTO risk VALUES (1, 0.1, 1, 1.50), (2, 0.2, 2, 2.25), (3, 0.3, 4, 3), (4, 'infinity', 'nan', NULL);"
    );
    let database = TestDatabase::postgres("sums_large", &tables);
    require_sums(
        database.postgres_reader().await,
        "public",
        &["point", "exact", "cash"],
        &[
            (
                "SELECT sum(point) AS n FROM risk WHERE id < 4",
                r#"[{"n":0.6000000000000001}]"#,
            ),
            (
                "SELECT avg(point) FROM risk WHERE id < 4",
                r#"[{"avg":0.20000000000000004}]"#,
            ),
            (
                "SELECT sum(point)::text AS n FROM risk",
                r#"[{"n":"Infinity"}]"#,
            ),
            (
                "SELECT avg(exact) AS n FROM risk WHERE id < 4",
                r#"[{"n":"2.3333333333333333"}]"#,
            ),
            ("SELECT sum(exact)::text AS n FROM risk", r#"[{"n":"NaN"}]"#),
            (
                "SELECT sum(cash)::numeric AS n FROM risk",
                r#"[{"n":"6.75"}]"#,
            ),
        ],
    )
    .await;
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
