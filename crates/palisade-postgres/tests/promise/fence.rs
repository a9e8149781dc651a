//! The fence: a predicate of the agent's never runs on a row that a filter hides. Where it would raise
//! there, the answer would tell.

use palisade::value::Params;

use crate::gate::{Stand, ran};

const SCHEMA: &str = r#"
CREATE TYPE pair AS (a int, j json);
CREATE TABLE people (id int PRIMARY KEY, tenant int NOT NULL, region int NOT NULL, name text, memo text,
    level int, doc text, born text, amount numeric, ratio float8, big bigint, ref oid,
    plain text COLLATE "C", posix text COLLATE "POSIX", parts json[], pairs pair, fine jsonb, labels text[]);
CREATE TABLE orders (id int PRIMARY KEY, person int, memo text, total int, weight float8);
CREATE VIEW rates AS SELECT id, tenant, 100 / level AS rate, memo FROM people;
CREATE VIEW known AS SELECT id, memo, level FROM people WHERE memo IS NOT NULL;
CREATE VIEW counted AS SELECT id, level FROM people WHERE memo::int > 0;
INSERT INTO people SELECT n, 1, 1, 'n' || n, n::text, n, '{"a": ' || n || '}', '2000-01-01', n, n, n, n,
    NULL, NULL, NULL, NULL, '{"a": 1}', '{x}' FROM generate_series(1, 20) AS n;
INSERT INTO orders SELECT n, n % 20 + 1, n::text, n, n FROM generate_series(1, 40) AS n;
-- Whose person is hidden.
INSERT INTO orders VALUES (50, 101, '50', 1, 1);
CREATE FUNCTION mode(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
"#;

/// Rows that only a filter hides, and on which nothing raises.
const HARMLESS: &str = "
INSERT INTO people SELECT n, 2, 9, 'h' || n, n::text, n, '{\"a\": 1}', '2000-01-01', 1, 1, 1, 1,
    NULL, NULL, NULL, NULL, '{\"a\": 1}', '{x}' FROM generate_series(101, 2000) AS n;
ANALYZE;
";

/// Rows that only a filter hides, and on which everything raises.
const HARMFUL: &str = r#"
INSERT INTO people SELECT n, 2, 9, '[', 'secret', 0, '{broken', 'never', 1e400, 1, 9000000000000000000, 1,
    'p', 'q', ARRAY['1'::json], ROW(1, '1'::json)::pair, '{"a": "x"}', '{}' FROM generate_series(101, 2000) AS n;
ANALYZE;
"#;

/// The filter costs the planner more than most predicates, and does not fall apart at its ANDs, so that the
/// planner would run it last.
const POLICIES: &str = r#"
permit(principal, action, resource);
permit(principal, action == Action::"call", resource == Function::"public.mode");
forbid(principal, action, resource is row::public::people)
unless {
    resource.tenant == 1 || resource.region == 21 || resource.tenant == 22 || resource.id == 23000 || resource.region == 24
        || resource.tenant == 25 || resource.id == 26000 || resource.region == 27 || resource.tenant == 28
        || resource.id == 29000 || resource.region == 30 || resource.tenant == 31 || resource.id == 32000
};
"#;

/// Whether the statement raises on hidden rows once its fence is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// It does: the fence is what keeps it.
    Raises,
    /// It does not, with this server's plan; or it is refused.
    Holds,
}

use Without::{Holds, Raises};

/// Predicates that raise for some value of a column.
const STATEMENTS: &[(Without, &str)] = &[
    (Raises, "SELECT id FROM people WHERE memo::int > 3"),
    (Raises, "SELECT id FROM people WHERE CAST(memo AS int) > 3"),
    (Raises, "SELECT id FROM people WHERE 10 / level > 1"),
    (Raises, "SELECT id FROM people WHERE 10 % level = 1"),
    (Raises, "SELECT id FROM people WHERE 'abc' ~ name"),
    (Raises, "SELECT id FROM people WHERE 'abc' ~* name"),
    (
        Raises,
        "SELECT id FROM people WHERE doc::jsonb @> '{\"a\": 1}'",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE (doc::json ->> 'a') = '1'",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE (fine ->> 'a')::int = 1",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE born::date > DATE '1999-01-01'",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE sqrt(10 - id) > 1 AND id < 10 OR sqrt(100 - id) > 3",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE level = 0 AND 1 / level = 1",
    ),
    (Raises, "SELECT id FROM people WHERE NOT (1 / level = 7)"),
    (
        Raises,
        "SELECT id FROM people WHERE CASE WHEN level < 1 THEN 1 / level ELSE 1 END = 1",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE COALESCE(10 / level, 0) > 0",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE 10 / level IN (1, 2, 3)",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE 10 / level BETWEEN 1 AND 3",
    ),
    (Raises, "SELECT id FROM people WHERE (10 / level) IS NULL"),
    (
        Raises,
        "SELECT id FROM people WHERE (10 / level) IS DISTINCT FROM 3",
    ),
    (
        Holds,
        "SELECT id FROM people WHERE power(1e300, level - 1) >= 0 OR 1 / level = 1",
    ),
    (Raises, "SELECT count(*) FROM people WHERE memo::int > 3"),
    (
        Raises,
        "SELECT level, count(*) FROM people GROUP BY level HAVING 10 / level > 1",
    ),
    (
        Raises,
        "SELECT level FROM people GROUP BY level HAVING count(*) > 0 AND 10 / level > 1",
    ),
    (
        Holds,
        "SELECT level FROM people GROUP BY level HAVING count(*) > 10 / level",
    ),
    (
        Holds,
        "SELECT p.id FROM people p JOIN orders o ON o.total = 10 / p.level",
    ),
    (
        Raises,
        "SELECT p.id FROM people p JOIN orders o ON o.person = p.id AND p.memo::int > 3",
    ),
    (
        Raises,
        "SELECT o.id FROM orders o LEFT JOIN people p ON o.person = p.id AND p.memo::int > 3",
    ),
    (
        Holds,
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM people p WHERE p.memo::int = o.total)",
    ),
    (
        Raises,
        "SELECT id FROM orders WHERE total IN (SELECT 100 / level FROM people WHERE 100 / level > 2)",
    ),
    (
        Holds,
        "SELECT id FROM orders WHERE total IN (SELECT 100 / level FROM people)",
    ),
    (
        Raises,
        "SELECT (SELECT max(p.id) FROM people p WHERE p.memo::int = o.total) FROM orders o",
    ),
    (
        Raises,
        "SELECT s.x FROM people p, LATERAL (SELECT 10 / p.level AS x) s WHERE s.x > 1",
    ),
    (
        Holds,
        "SELECT o.id, s.id FROM orders o, LATERAL (SELECT p.id FROM people p WHERE 10 / p.level = o.total) s",
    ),
    (
        Holds,
        "SELECT g FROM people p, LATERAL generate_series(1, 10 / p.level) g",
    ),
    (
        Raises,
        "SELECT x FROM (SELECT 10 / level AS x FROM people) s WHERE x > 1",
    ),
    (
        Raises,
        "WITH s AS (SELECT 10 / level AS x FROM people) SELECT x FROM s WHERE x > 1",
    ),
    (
        Raises,
        "SELECT x FROM (SELECT 10 / level AS x FROM people UNION ALL SELECT total FROM orders) s WHERE x > 1",
    ),
    (Raises, "SELECT id FROM rates WHERE rate > 1"),
    (Raises, "SELECT id FROM rates WHERE memo::int > 1"),
    (Raises, "SELECT id FROM known WHERE 10 / level > 1"),
    (Raises, "SELECT id FROM counted"),
    (Holds, "SELECT id FROM counted WHERE id = 3"),
    (
        Holds,
        "SELECT s.x FROM (SELECT 10 / level AS x FROM people) s JOIN (SELECT total AS x FROM orders) o USING (x)",
    ),
    (
        Holds,
        "SELECT x FROM (SELECT memo::int AS x FROM people) s NATURAL JOIN (SELECT total AS x FROM orders) o",
    ),
    (
        Raises,
        "SELECT DISTINCT ON (level) id FROM people WHERE 10 / level > 0 ORDER BY level, id",
    ),
    (
        Raises,
        "SELECT id FROM (SELECT id, level, row_number() OVER (PARTITION BY level ORDER BY id) AS n FROM people) s WHERE 10 / level > 0",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE (labels[1] || memo)::text = 'x' OR memo::int = 3",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE 100 / level > ALL (SELECT 1)",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE ROW(1, 10 / level) = ROW(1, 5)",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE to_date(born, 'YYYY-MM-DD') > DATE '1999-01-01'",
    ),
    (Raises, "SELECT id FROM people WHERE chr(level) = 'a'"),
    (
        Raises,
        "SELECT id FROM people WHERE repeat(memo, 1)::int = 3",
    ),
    (
        Raises,
        "SELECT id FROM people WHERE id < ALL (ARRAY[100 / level, 500])",
    ),
    (Holds, "SELECT 10 / level FROM people"),
    (Holds, "SELECT sum(memo::int) FROM people"),
    (
        Holds,
        "SELECT count(*) FILTER (WHERE 10 / level > 1) FROM people",
    ),
    (Holds, "SELECT id FROM people ORDER BY 10 / level"),
    (
        Holds,
        "SELECT 10 / level, count(*) FROM people GROUP BY 10 / level",
    ),
    (
        Holds,
        "SELECT sum(10 / level) OVER (ORDER BY id) FROM people",
    ),
    (Raises, "SELECT id FROM people WHERE amount = ratio"),
    (Raises, "SELECT id FROM people WHERE ref = big"),
    (
        Raises,
        "SELECT s.id FROM (SELECT id, amount AS weight FROM people) s LEFT JOIN (SELECT weight FROM orders) o USING (weight) WHERE weight IS NOT NULL",
    ),
    (
        Raises,
        "SELECT level FROM people GROUP BY level HAVING public.mode(1) > 10 / level",
    ),
];

/// The same, with parameters or without: predicates that were once taken for leak-proof and are not.
const MENDED: &[(&str, &str)] = &[
    // Text columns of different collations: `could not determine which collation to use`. (Joined on such columns
    // the fence does not help: whether the server compares at all depends on its plan, and that on hidden rows.)
    ("SELECT id FROM people WHERE plain = posix", "[]"),
    ("SELECT id FROM people WHERE plain < posix", "[]"),
    ("SELECT id FROM people WHERE plain IN (posix, 'x')", "[]"),
    (
        "SELECT id FROM people WHERE plain BETWEEN posix AND 'x'",
        "[]",
    ),
    (
        "SELECT id FROM people WHERE level = 0 AND plain = posix",
        "[]",
    ),
    (
        "SELECT plain FROM people GROUP BY plain, posix HAVING plain = posix",
        "[]",
    ),
    // Types whose comparison is that of their parts: `could not identify an equality operator for type json`.
    ("SELECT id FROM people WHERE parts = parts", "[]"),
    ("SELECT id FROM people WHERE pairs = pairs", "[]"),
    // An aggregate of the query around it does not keep a condition above the groups.
    (
        "SELECT (SELECT max(p.id) FROM people p GROUP BY p.level HAVING count(o.id) > 10 / p.level ORDER BY 1 LIMIT 1) FROM orders o",
        "[]",
    ),
    (
        "SELECT (SELECT max(p.id) FROM people p GROUP BY p.level HAVING bool_and(o.id > 0) = (10 / p.level > 0) ORDER BY 1 LIMIT 1) FROM orders o",
        "[]",
    ),
    (
        "SELECT (SELECT max(p.id) FROM people p GROUP BY p.level HAVING count(o.*) > 10 / p.level ORDER BY 1 LIMIT 1) FROM orders o",
        "[]",
    ),
    (
        "SELECT (SELECT max(p.id) FROM people p GROUP BY p.level HAVING count(o) > 10 / p.level ORDER BY 1 LIMIT 1) FROM orders o",
        "[]",
    ),
    (
        "SELECT (SELECT max(p.id) FROM people p GROUP BY p.level HAVING max((SELECT level FROM (SELECT 1 AS level) s) + o.id) > 10 / p.level ORDER BY 1 LIMIT 1) FROM orders o",
        "[]",
    ),
    // What USING and NATURAL compare is an expression, and equality carries a constant over to it.
    (
        "SELECT o.id FROM people p CROSS JOIN LATERAL (SELECT 10 / p.level AS total) s JOIN orders o USING (total) WHERE o.total = 3",
        "[]",
    ),
    (
        "WITH s AS (SELECT 10 / level AS x FROM people) SELECT o.id FROM s RIGHT JOIN (SELECT id, total AS x FROM orders) o USING (x) WHERE o.x = 3",
        "[]",
    ),
    // With that any question about a hidden row can be asked.
    (
        "SELECT 1 FROM (SELECT CASE WHEN memo = 'secret' THEN 1 / (level * 0) ELSE 1 END AS x FROM people) s JOIN (SELECT total AS x FROM orders) o USING (x) WHERE o.x = 3",
        "[]",
    ),
    (
        "SELECT o.id FROM (SELECT 10 / level AS x FROM people) s JOIN (SELECT id, total AS x FROM orders) o USING (x) WHERE o.x = 3",
        "[]",
    ),
    (
        "SELECT o.id FROM (SELECT memo::int AS x FROM people) s NATURAL JOIN (SELECT id, total AS x FROM orders) o WHERE o.x = 3",
        "[]",
    ),
    (
        "SELECT o.id FROM orders o JOIN (SELECT id AS person, 10 / level AS total FROM people) s USING (person, total) WHERE o.id = 50",
        "[]",
    ),
    (
        "SELECT o.id FROM orders o JOIN (SELECT id AS person, amount AS weight FROM people) s USING (person, weight) WHERE o.id = 50",
        "[]",
    ),
    // A parameter has the type of its first use, and a column is converted to it.
    (
        "SELECT id FROM people WHERE ratio = $1 AND amount = $1",
        "[1]",
    ),
    ("SELECT id, $1::float8 FROM people WHERE amount = $1", "[1]"),
    ("SELECT id, $1::oid FROM people WHERE big = $1", "[1]"),
    ("SELECT id FROM people WHERE ref = $1 AND big = $1", "[1]"),
];

/// Rows in `people` that the session cannot see have no influence: the answers are equal whatever these rows hold,
/// errors included.
#[tokio::test]
async fn hidden_rows_raise_nothing() {
    let harmless = Stand::new("harmless", &[SCHEMA, HARMLESS], POLICIES).await;
    let harmful = Stand::new("harmful", &[SCHEMA, HARMFUL], POLICIES).await;
    let mut problems = Vec::new();
    let mut permitted = 0;
    for (_, sql) in STATEMENTS {
        let one = harmless.answer(sql, &Params::None).await;
        let other = harmful.answer(sql, &Params::None).await;
        if one != other {
            let text = harmful.rewritten(sql, &Params::None);
            problems.push(format!(
                "{sql}\n  {}\n  {}\n  {text:?}",
                short(&one),
                short(&other)
            ));
        }
        permitted += usize::from(ran(&one));
    }
    println!(
        "fence: {permitted} of {} statements ran, {} leaked",
        STATEMENTS.len(),
        problems.len()
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(
        permitted * 10 > STATEMENTS.len() * 9,
        "only {permitted} ran"
    );
}

/// What leaked once does not any more.
#[tokio::test]
async fn mended_leaks_stay_mended() {
    let harmless = Stand::new("open", &[SCHEMA, HARMLESS], POLICIES).await;
    let harmful = Stand::new("open", &[SCHEMA, HARMFUL], POLICIES).await;
    let mut leaks = Vec::new();
    for (sql, params) in MENDED {
        let params = Params::from_json(&serde_json::from_str(params).unwrap()).unwrap();
        let params = if params == Params::Positional(Vec::new()) {
            Params::None
        } else {
            params
        };
        let one = harmless.answer(sql, &params).await;
        let other = harmful.answer(sql, &params).await;
        if one != other {
            let text = harmful.rewritten(sql, &params);
            leaks.push(format!("{sql}\n  {}\n  {text:?}", short(&one)));
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

fn short(answer: &serde_json::Value) -> String {
    format!("code {}, rows {}", answer["code"], answer["rows"])
}

/// The same texts without their fences raise, so that the test above can fail.
#[tokio::test]
async fn without_the_fence_they_would() {
    let harmful = Stand::new("unfenced", &[SCHEMA, HARMFUL], POLICIES).await;
    let mut problems = Vec::new();
    for (without, sql) in STATEMENTS {
        let Ok(text) = harmful.rewritten(sql, &Params::None) else {
            continue;
        };
        let raised = harmful.bare(&text.replace(" OFFSET 0", ""));
        let found = if raised.is_err() { Raises } else { Holds };
        if found != *without {
            problems.push(format!("{sql}: {found:?}\n  {text}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Where every predicate is on the list, there is no fence and the planner uses the index.
#[tokio::test]
async fn indexes_stay_in_use() {
    let stand = Stand::new(
        "indexes",
        &[
            SCHEMA,
            "INSERT INTO people SELECT n, n % 2, n % 2, 'n' || n, n::text, n FROM generate_series(1000, 20000) AS n;
             CREATE INDEX by_memo ON people (memo); ANALYZE;",
        ],
        POLICIES,
    )
    .await;
    for (sql, index, is_fenced) in [
        (
            "SELECT name FROM people WHERE id = 1001",
            Some("people_pkey"),
            false,
        ),
        (
            "SELECT name FROM people WHERE id BETWEEN 1001 AND 1010",
            Some("people_pkey"),
            false,
        ),
        (
            "SELECT name FROM people WHERE id IN (1001, 1003) AND memo IS NOT NULL",
            Some("people_pkey"),
            false,
        ),
        (
            "SELECT name FROM people WHERE memo = '1001' AND level > 3",
            Some("by_memo"),
            false,
        ),
        (
            "SELECT p.name FROM orders o JOIN people p ON p.id = o.person WHERE o.id = 3",
            Some("people_pkey"),
            false,
        ),
        // Some that are fenced, so that the comparison means something: a key alone narrows them.
        (
            "SELECT name FROM people WHERE memo = '1001' AND 10 / level > 0",
            None,
            true,
        ),
        (
            "SELECT name FROM people WHERE id = 1001 AND 10 / level > 0",
            Some("people_pkey"),
            true,
        ),
    ] {
        let text = stand.rewritten(sql, &Params::None).unwrap();
        assert_eq!(text.contains("OFFSET 0"), is_fenced, "{sql}: {text}");
        let plan = stand.bare(&format!("EXPLAIN {text}")).unwrap();
        match index {
            Some(index) => assert!(plan.contains(index), "{sql}: {plan}"),
            None => assert!(!plan.contains("by_memo"), "{sql}: {plan}"),
        }
    }
}
