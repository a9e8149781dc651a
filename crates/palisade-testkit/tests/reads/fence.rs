//! The fence on SQLite: a predicate of the agent's never runs on a row that a filter hides. Where it would
//! raise there, the answer would tell. (PostgreSQL's is tested in `palisade-postgres`.)

use palisade::{
    firewall::Decision,
    guard::Guard,
    limits::Limits,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::fixture::{self, Policies, SCHEMA};
use rusqlite::Connection;

/// An index over what predicates are about and not over what the filter is about lets the engine look at
/// them before it has the row.
const ROWS: &str = "
CREATE INDEX by_name ON users (name);
CREATE INDEX by_name_id ON users (name, id);
INSERT INTO users VALUES (1, '1', 'a@x', '900-12-3456', 1), (2, '2', 'b@x', '901-23-6789', 1);
INSERT INTO orders VALUES (1, 1, 1, '1'), (2, 2, 2, '2'), (3, 3, 3, '3'), (4, 4, 1, '1');
";

/// Rows that only a filter hides, and on which nothing raises.
const HARMLESS: &str = "INSERT INTO users VALUES (3, '3', NULL, NULL, 2), (4, '4', NULL, NULL, 2);";

/// Rows that only a filter hides, and on which everything raises.
const HARMFUL: &str =
    "INSERT INTO users VALUES (3, '{broken', NULL, NULL, 2), (4, '{broken', NULL, NULL, 2);";

/// Whether the statement raises on hidden rows once its fence is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// It does: the fence is what keeps it.
    Raises,
    /// It does not, with this engine's plan.
    Holds,
}

use Without::{Holds, Raises};

const STATEMENTS: &[(Without, &str)] = &[
    (Holds, "SELECT id FROM users WHERE json(name) = '1'"),
    (Holds, "SELECT id FROM users WHERE json(name) > '0'"),
    (Holds, "SELECT name FROM users WHERE json(name) > '0'"),
    (Holds, "SELECT id FROM users WHERE name ->> '$' = 1"),
    (
        Holds,
        "SELECT id FROM users WHERE json_extract(name, '$.a') IS NULL",
    ),
    (
        Raises,
        "SELECT id FROM users WHERE name > '' AND json(name) IS NOT NULL",
    ),
    (
        Holds,
        "SELECT id FROM users WHERE CASE WHEN name > '2' THEN json(name) ELSE '1' END = '1'",
    ),
    (Holds, "SELECT id FROM users WHERE json(name) IN ('1', '2')"),
    (
        Holds,
        "SELECT id FROM users WHERE json(name) BETWEEN '1' AND '2'",
    ),
    (Holds, "SELECT id FROM users ORDER BY json(name)"),
    (
        Raises,
        "SELECT name FROM users GROUP BY name HAVING json(name) > '0'",
    ),
    (
        Raises,
        "SELECT name FROM users GROUP BY name HAVING count(*) > 0 AND json(name) > '0'",
    ),
    (
        Holds,
        "SELECT name FROM users GROUP BY name HAVING count(*) > json(name)",
    ),
    (
        Holds,
        "SELECT u.id FROM users u JOIN orders o ON json(u.name) = o.note",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o LEFT JOIN users u ON u.name > '' AND json(u.name) = o.note",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o FULL JOIN users u ON json(u.name) = o.note",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM users u WHERE json(u.name) = o.note)",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o WHERE o.note IN (SELECT json(name) FROM users WHERE json(name) > '0')",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o WHERE o.note IN (SELECT json(name) FROM users)",
    ),
    (
        Holds,
        "SELECT (SELECT max(u.id) FROM users u WHERE json(u.name) = o.note) FROM orders o",
    ),
    (
        Holds,
        "SELECT x FROM (SELECT json(name) AS x FROM users) s WHERE x > '0'",
    ),
    (
        Holds,
        "WITH s AS (SELECT json(name) AS x FROM users) SELECT x FROM s WHERE x > '0'",
    ),
    (
        Holds,
        "SELECT x FROM (SELECT json(name) AS x FROM users UNION ALL SELECT note FROM orders) s WHERE x > '0'",
    ),
    (Holds, "SELECT id FROM directory WHERE json(n) > '0'"),
    (
        Holds,
        "SELECT s.x FROM (SELECT json(name) AS x FROM users) s JOIN (SELECT note AS x FROM orders) o USING (x)",
    ),
    (
        Holds,
        "SELECT o.id FROM (SELECT json(name) AS x FROM users) s JOIN (SELECT id, note AS x FROM orders) o USING (x) WHERE o.x = '3'",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o JOIN (SELECT id AS user_id, json(name) AS note FROM users) s USING (user_id, note)",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o LEFT JOIN (SELECT id AS user_id, json(name) AS note FROM users) s USING (note, user_id)",
    ),
    (
        Holds,
        "SELECT o.id FROM (SELECT json(name) AS x FROM users) s NATURAL JOIN (SELECT id, note AS x FROM orders) o",
    ),
    (
        Holds,
        "SELECT o.id FROM (SELECT id, json(name) AS x FROM users) s NATURAL JOIN (SELECT id, note AS x FROM orders) o",
    ),
    (
        Holds,
        "SELECT (SELECT max(u.id) FROM users u GROUP BY u.name HAVING count(o.id) > json(u.name)) FROM orders o",
    ),
    (
        Holds,
        "SELECT (SELECT max(u.id) FROM users u GROUP BY u.name HAVING max(o.note) > json(u.name)) FROM orders o",
    ),
    (Holds, "SELECT json(name) FROM users"),
    (Holds, "SELECT json(name), count(*) FROM users GROUP BY 1"),
    (Holds, "SELECT DISTINCT json(name) FROM users"),
    (Holds, "SELECT max(json(name)) FROM users"),
    (
        Holds,
        "SELECT count(*) FILTER (WHERE json(name) > '0') FROM users",
    ),
    (Holds, "SELECT j.value FROM users u, json_each(u.name) j"),
    (
        Holds,
        "SELECT count(*) FROM users u, json_each(u.name) j WHERE j.value > 0",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o JOIN (SELECT json(name) AS note FROM users WHERE name > '') s USING (note)",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o NATURAL JOIN (SELECT json(name) AS note FROM users WHERE name > '') s",
    ),
    (
        Holds,
        "SELECT (SELECT max(u.id) FROM users u WHERE u.name > '' GROUP BY u.name HAVING count(o.id) > json(u.name)) FROM orders o",
    ),
    (
        Holds,
        "SELECT (SELECT u.name FROM users u WHERE u.name > '' GROUP BY u.name HAVING count(o.id) > json(u.name)) FROM orders o",
    ),
];

/// These leaked once: what USING and NATURAL compare is an expression.
const MENDED: &[&str] = &[
    "SELECT o.id FROM orders o NATURAL LEFT JOIN (SELECT json(name) AS note FROM users WHERE name > '' OR name = '') s",
    "SELECT o.id FROM orders o LEFT JOIN (SELECT json(name) AS note FROM users WHERE name > '' OR name = '') s USING (note)",
    "SELECT o.id FROM orders o LEFT JOIN (SELECT json(name) AS note FROM users WHERE name IN ('3', '{broken')) s USING (note)",
];

/// What leaked once does not any more.
#[test]
fn mended_leaks_stay_mended() {
    let [harmless, harmful] = guards();
    for sql in MENDED {
        let one = as_bag(fixture::answer(&harmless, sql));
        let other = as_bag(fixture::answer(&harmful, sql));
        assert_eq!(one, other, "{sql}");
    }
}

fn guards() -> [Guard; 2] {
    [HARMLESS, HARMFUL].map(|rows| fixture::guard(Policies::Restricted, &format!("{ROWS}{rows}")))
}

#[test]
fn hidden_rows_raise_nothing() {
    let [harmless, harmful] = guards();
    let mut problems = Vec::new();
    let mut ran = 0;
    for (_, sql) in STATEMENTS {
        let one = as_bag(fixture::answer(&harmless, sql));
        let other = as_bag(fixture::answer(&harmful, sql));
        ran += usize::from(one.get("rows").is_some());
        if one != other {
            problems.push(format!("{sql}\n  {one}\n  {other}\n  {:?}", rewritten(sql)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(ran, STATEMENTS.len());
}

/// The same texts without their fences raise, so that the test above can fail.
#[test]
fn without_the_fence_they_would() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(&format!("{SCHEMA}{ROWS}{HARMFUL}"))
        .unwrap();
    let mut problems = Vec::new();
    for (without, sql) in STATEMENTS {
        let text = rewritten(sql).unwrap().replace(" LIMIT -1 OFFSET 0", "");
        let mut statement = conn.prepare(&text).unwrap();
        let mut rows = statement.query([]).unwrap();
        let found = loop {
            match rows.next() {
                Ok(Some(_)) => {}
                Ok(None) => break Holds,
                Err(_) => break Raises,
            }
        };
        if found != *without {
            problems.push(format!("{sql}: {found:?}\n  {text}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Failures over filtered relations are bounded: what may fail over them is refused then, and nothing else.
#[test]
fn failures_over_filtered_relations_are_bounded() {
    let limits = Limits {
        max_failures: 3,
        ..Limits::default()
    };
    let visible = "INSERT INTO users VALUES (5, '{broken', NULL, NULL, 1);";
    let guard = fixture::guard_within(Policies::Restricted, &format!("{ROWS}{visible}"), limits);
    let fails = "SELECT id FROM users WHERE json(name) = '1'";
    for _ in 0..3 {
        assert_eq!(fixture::answer(&guard, fails)["code"], "database.rejected");
    }
    let refused = fixture::answer(&guard, fails);
    assert_eq!(refused["code"], "limit.failures", "{refused}");
    assert_eq!(refused["retryable"], true);
    for runs in [
        "SELECT id FROM users WHERE id = 1",
        "SELECT json(note) FROM orders",
        "SELECT count(*) FROM users WHERE name IS NOT NULL",
    ] {
        let answer = fixture::answer(&guard, runs);
        assert!(answer.get("rows").is_some(), "{runs}: {answer}");
    }
}

fn rewritten(sql: &str) -> Result<String, String> {
    let session = Session::new(Principal::new("Agent", "a"));
    match fixture::restricted_firewall().check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => Ok(palisade::danger::parts(&statement).sql.to_owned()),
        Ok(Decision::Reject(why)) => Err(why.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn as_bag(mut answer: serde_json::Value) -> serde_json::Value {
    if let Some(rows) = answer.get_mut("rows").and_then(|rows| rows.as_array_mut()) {
        rows.sort_by_key(ToString::to_string);
    }
    answer
}
