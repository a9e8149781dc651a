//! A fixed family of statements that compare columns of `leads` and fail over another table, each in one of many places.

use std::collections::BTreeSet;

use palisade::dialect::Dialect;

use super::leads::Secret;
use crate::worlds::choices::Choices;

/// A statement, and what it is made of.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) sql: String,
    pub(crate) shapes: BTreeSet<&'static str>,
}

/// Comparisons of which rows that may be seen meet none: changes of what meets them change nothing.
const COMPARISONS: &[(&str, &str)] = &[
    ("=", "l.note = '<note>'"),
    ("IN", "l.note IN ('<note>', 'nothing')"),
    (
        "IN of many",
        "l.note IN ('<note>', '#1', '#2', '#3', '#4', '#5', '#6', '#7', '#8', '#9')",
    ),
    ("IN of one", "l.amount IN (<amount>)"),
    ("LIKE", "l.note LIKE '<start>%'"),
    ("a range", "l.note >= '<first>' AND l.note < '<next>'"),
    ("BETWEEN", "l.note BETWEEN '<first>' AND '<next>'"),
    (">", "l.amount > <less>"),
    ("<", "l.amount > 0 AND l.amount < <amount>"),
    ("<=", "l.amount >= 0 AND l.amount <= <amount>"),
    ("= of a number", "l.amount = <amount>"),
    ("BETWEEN of numbers", "l.amount BETWEEN <less> AND <more>"),
    ("NOT BETWEEN", "l.score NOT BETWEEN -100 AND <small>"),
    ("a narrow range", "l.score BETWEEN 7 AND 8"),
    ("<>", "l.score > 0 AND l.score <> 7"),
    ("IS NULL", "l.memo IS NULL"),
    ("IS NULL of the other", "l.hint IS NULL"),
    ("OR", "(l.note = '<note>' OR l.amount = <amount>)"),
    (
        "AND",
        "l.note >= '<first>' AND l.note < '<next>' AND l.amount = <amount>",
    ),
    ("columns", "l.score > 0 AND l.score = l.team"),
];

/// Comparisons that rows which may be seen meet as well.
const LOOSER: &[(&str, &str)] = &[
    ("IS NOT NULL", "l.memo IS NOT NULL"),
    ("IS NOT NULL of the other", "l.hint IS NOT NULL"),
    ("NOT", "NOT (l.note = '<note>')"),
    ("< of all", "l.amount < <amount>"),
    ("OR of all", "(l.note = '<note>' OR l.team = 3)"),
];

/// What fails for one row of a table with columns `k` and `t` (where `k` is 1, `t` is `(`).
fn failures(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Postgres => &[
            ("a division", "1 / (n.k - 1) > 0"),
            ("a remainder", "5 % (n.k - 1) >= 0"),
            ("a cast", "(n.k || n.t)::int > 0"),
            ("a cast to a date", "CAST(n.t AS date) IS NOT NULL"),
            (
                "a division in CASE",
                "CASE WHEN n.k < 3 THEN 1 / (n.k - 1) ELSE 1 END > 0",
            ),
            ("a pattern", "'a' ~ n.t"),
            ("JSON", "CAST(n.t AS jsonb) IS NOT NULL"),
            ("an overflow", "n.k * 2147483647 > 0"),
            ("a large number", "exp(1000.0::float8 * n.k) > 0"),
            ("a root", "sqrt(n.k - 2) >= 0"),
            ("a length", "substr(n.t, 1, n.k - 2) IS NOT NULL"),
            (
                "a subquery of rows",
                "(SELECT m.k FROM few m WHERE m.k >= n.k) > 0",
            ),
            (
                "a division by a subquery",
                "1 / ((SELECT min(m.k) FROM few m) - n.k) >= 0",
            ),
        ],
        Dialect::Mysql => &[
            ("a large number", "exp(1000 * n.k) > 0"),
            ("a large power", "pow(10, 400 * n.k) > 0"),
            ("an overflow", "n.k * 9223372036854775807 > 0"),
            ("a sum that overflows", "9223372036854775807 + n.k > 0"),
            ("a pattern", "'a' REGEXP n.t"),
            ("a cotangent", "cot(n.k - 1) > 0"),
            (
                "an overflow in CASE",
                "CASE WHEN n.k < 3 THEN exp(1000 * n.k) ELSE 1 END > 0",
            ),
            (
                "a subquery of rows",
                "(SELECT m.k FROM few m WHERE m.k >= n.k) > 0",
            ),
        ],
        Dialect::Sqlite => &[
            ("JSON", "json(n.t) > ''"),
            ("an arrow", "n.t -> '$.a' IS NULL"),
            ("an overflow", "abs(-9223372036854775807 - n.k) > 0"),
            (
                "JSON in CASE",
                "CASE WHEN n.k < 3 THEN json(n.t) ELSE 1 END > ''",
            ),
            ("a value of JSON", "json_extract(n.t, '$.a') IS NULL"),
        ],
    }
}

/// What fails for some rows of `leads` that may be seen.
fn own_failures(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Postgres => &[
            "1 / (l.id - 3) > 0",
            "CAST(l.memo AS int) > 0",
            "'a' ~ l.hint",
        ],
        Dialect::Mysql => &[
            "exp(l.amount * -1000) > 0",
            "l.amount * 9223372036854775807 < 0",
            "cot(l.id - 3) > 0",
        ],
        Dialect::Sqlite => &[
            "json(l.memo) > ''",
            "l.hint -> '$.a' IS NULL",
            "abs(-9223372036854775800 + l.amount) > 0",
        ],
    }
}

/// Where a failure can stand: `<p>` is the comparison, `<f>` what may fail, `<n>` a table, `<o>` what may fail over `leads` itself.
/// itself.
const QUERIES: &[(&str, &str)] = &[
    (
        "a comma",
        "SELECT l.id FROM leads l, <n> n WHERE <p> AND <f>",
    ),
    (
        "a comma, reversed",
        "SELECT n.id FROM <n> n, leads l WHERE <f> AND <p>",
    ),
    (
        "ON true",
        "SELECT l.id FROM leads l JOIN <n> n ON true WHERE <p> AND <f>",
    ),
    (
        "ON what fails",
        "SELECT l.id FROM leads l JOIN <n> n ON <f> WHERE <p>",
    ),
    (
        "ON both",
        "SELECT count(*) FROM leads l JOIN <n> n ON <p> AND <f>",
    ),
    (
        "a join",
        "SELECT l.id FROM leads l JOIN <n> n ON n.id = l.team WHERE <p> AND <f>",
    ),
    (
        "LEFT JOIN",
        "SELECT l.id FROM leads l LEFT JOIN <n> n ON n.id = l.team AND <f> WHERE <p>",
    ),
    (
        "LEFT JOIN of all",
        "SELECT n.id FROM <n> n LEFT JOIN leads l ON l.team = n.id AND <p> WHERE <f>",
    ),
    (
        "RIGHT JOIN",
        "SELECT n.id FROM leads l RIGHT JOIN <n> n ON n.id = l.team AND <p> WHERE <f>",
    ),
    (
        "a joined list",
        "SELECT <f> AS x FROM leads l JOIN <n> n ON n.id = l.team WHERE <p>",
    ),
    (
        "ORDER BY",
        "SELECT l.id FROM leads l JOIN <n> n ON n.id = l.team WHERE <p> ORDER BY <f>, l.id",
    ),
    (
        "GROUP BY",
        "SELECT count(*) FROM leads l, <n> n WHERE <p> GROUP BY <f>",
    ),
    (
        "HAVING",
        "SELECT n.k, count(*) FROM leads l, <n> n WHERE <p> GROUP BY n.k, n.t HAVING <f>",
    ),
    (
        "HAVING of an aggregate",
        "SELECT l.team FROM leads l, <n> n WHERE <p> GROUP BY l.team HAVING count(*) > 0 AND count(CASE WHEN <f> THEN 1 END) > 0",
    ),
    (
        "an aggregate",
        "SELECT sum(CASE WHEN <f> THEN 1 ELSE 0 END) FROM leads l, <n> n WHERE <p>",
    ),
    (
        "EXISTS of leads",
        "SELECT n.id FROM <n> n WHERE EXISTS (SELECT 1 FROM leads l WHERE <p>) AND <f>",
    ),
    (
        "EXISTS of its leads",
        "SELECT n.id FROM <n> n WHERE EXISTS (SELECT 1 FROM leads l WHERE l.team = n.id AND <p>) AND <f>",
    ),
    (
        "NOT EXISTS",
        "SELECT n.id FROM <n> n WHERE NOT EXISTS (SELECT 1 FROM leads l WHERE l.team = n.id AND <p>) AND <f>",
    ),
    (
        "IN of leads",
        "SELECT n.id FROM <n> n WHERE n.id IN (SELECT l.team FROM leads l WHERE <p>) AND <f>",
    ),
    (
        "NOT IN of leads",
        "SELECT n.id FROM <n> n WHERE n.id NOT IN (SELECT l.team FROM leads l WHERE <p>) AND <f>",
    ),
    (
        "EXISTS of what fails",
        "SELECT l.id FROM leads l WHERE <p> AND EXISTS (SELECT 1 FROM <n> n WHERE <f>)",
    ),
    (
        "EXISTS of its own",
        "SELECT l.id FROM leads l WHERE <p> AND EXISTS (SELECT 1 FROM <n> n WHERE n.id = l.team AND <f>)",
    ),
    (
        "IN of what fails",
        "SELECT l.id FROM leads l WHERE <p> AND l.team IN (SELECT n.id FROM <n> n WHERE <f>)",
    ),
    (
        "IN of a list that fails",
        "SELECT l.id FROM leads l WHERE <p> AND l.team IN (SELECT CASE WHEN <f> THEN n.id END FROM <n> n)",
    ),
    (
        "a scalar",
        "SELECT l.id FROM leads l WHERE <p> AND l.team = (SELECT max(n.id) FROM <n> n WHERE <f>)",
    ),
    (
        "a scalar in the list",
        "SELECT l.id, (SELECT max(CASE WHEN <f> THEN 1 END) FROM <n> n) AS x FROM leads l WHERE <p>",
    ),
    (
        "a scalar of its own",
        "SELECT l.id, (SELECT max(CASE WHEN <f> THEN 1 END) FROM <n> n WHERE n.id = l.team) AS x FROM leads l WHERE <p>",
    ),
    (
        "a scalar of leads",
        "SELECT n.id FROM <n> n WHERE n.id > (SELECT count(*) FROM leads l WHERE <p>) AND <f>",
    ),
    (
        "a derived list",
        "SELECT l.id, s.x FROM leads l CROSS JOIN (SELECT CASE WHEN <f> THEN 1 ELSE 0 END AS x FROM <n> n) s WHERE <p>",
    ),
    (
        "a derived list with a LIMIT",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT n.id, <f> AS x FROM <n> n ORDER BY n.id LIMIT 5) s WHERE <p>",
    ),
    (
        "DISTINCT",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT DISTINCT <f> AS x FROM <n> n) s WHERE <p>",
    ),
    (
        "a derived aggregate",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT n.id, max(CASE WHEN <f> THEN 1 END) AS x FROM <n> n GROUP BY n.id) s WHERE <p>",
    ),
    (
        "a joined aggregate",
        "SELECT l.id, s.x FROM leads l JOIN (SELECT n.id, max(CASE WHEN <f> THEN 1 END) AS x FROM <n> n GROUP BY n.id) s ON s.id = l.team WHERE <p>",
    ),
    (
        "a derived HAVING",
        "SELECT l.id FROM leads l JOIN (SELECT n.id FROM <n> n GROUP BY n.id, n.k, n.t HAVING <f>) s ON s.id = l.team WHERE <p>",
    ),
    (
        "a derived window",
        "SELECT l.id FROM leads l JOIN (SELECT n.id, count(CASE WHEN <f> THEN 1 END) OVER () AS x FROM <n> n) s ON s.id = l.team WHERE <p>",
    ),
    (
        "a derived order",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT n.id FROM <n> n ORDER BY <f>, n.id LIMIT 3) s WHERE <p>",
    ),
    (
        "leads in a derived table",
        "SELECT s.id FROM (SELECT l.id, l.team FROM leads l WHERE <p>) s, <n> n WHERE <f>",
    ),
    (
        "leads counted",
        "SELECT s.c, n.id FROM (SELECT l.team, count(*) AS c FROM leads l WHERE <p> GROUP BY l.team) s JOIN <n> n ON n.id = s.team WHERE <f>",
    ),
    (
        "leads distinct",
        "SELECT n.id FROM (SELECT DISTINCT l.note FROM leads l WHERE <p>) s CROSS JOIN <n> n WHERE <f>",
    ),
    (
        "leads with a window",
        "SELECT n.id FROM (SELECT l.team, count(*) OVER (PARTITION BY l.note) AS c FROM leads l WHERE <p>) s JOIN <n> n ON n.id = s.team WHERE <f>",
    ),
    (
        "WITH",
        "WITH s AS (SELECT n.id, <f> AS x FROM <n> n) SELECT l.id, s.x FROM leads l JOIN s ON s.id = l.team WHERE <p>",
    ),
    (
        "WITH leads",
        "WITH s AS (SELECT l.id, l.team FROM leads l WHERE <p>) SELECT s.id FROM s, <n> n WHERE <f>",
    ),
    (
        "WITH twice",
        "WITH s AS (SELECT l.id, l.team FROM leads l WHERE <p>) SELECT a.id FROM s a JOIN s b ON a.id = b.id JOIN <n> n ON n.id = a.team WHERE <f>",
    ),
    (
        "UNION",
        "SELECT l.id FROM leads l JOIN <n> n ON n.id = l.team WHERE <p> AND <f> UNION SELECT 7",
    ),
    (
        "UNION ALL in a derived table",
        "SELECT s.id FROM (SELECT l.id FROM leads l WHERE <p> UNION ALL SELECT 1 WHERE 1 = 0) s, <n> n WHERE <f>",
    ),
    (
        "EXCEPT",
        "SELECT l.id FROM leads l WHERE <p> EXCEPT SELECT n.id FROM <n> n WHERE <f>",
    ),
    (
        "INTERSECT",
        "SELECT l.team FROM leads l WHERE <p> INTERSECT SELECT n.id FROM <n> n WHERE <f>",
    ),
    (
        "a view",
        "SELECT l.id FROM own_leads l, <n> n WHERE <p> AND <f>",
    ),
    (
        "a view and a derived list",
        "SELECT l.id FROM own_leads l CROSS JOIN (SELECT DISTINCT <f> AS x FROM <n> n) s WHERE <p>",
    ),
    (
        "three tables",
        "SELECT l.id FROM leads l JOIN teams t ON t.id = l.team JOIN <n> n ON n.id = t.k WHERE <p> AND <f>",
    ),
    (
        "leads twice",
        "SELECT l.id FROM leads l JOIN leads m ON m.team = l.team AND m.note = l.note JOIN <n> n ON n.id = m.team WHERE <p> AND <f>",
    ),
    (
        "its own",
        "SELECT l.id FROM leads l WHERE <o> AND <p> AND l.team = 3",
    ),
    (
        "its own, last",
        "SELECT l.id FROM leads l WHERE l.team = 3 AND <p> AND <o>",
    ),
    (
        "its own beside a join",
        "SELECT l.id FROM leads l JOIN <n> n ON n.id = l.team AND <o> JOIN few m ON m.id = l.score WHERE <p>",
    ),
    (
        "joins of which one fails",
        "SELECT l.id FROM leads l JOIN <n> n ON n.id = l.team JOIN few m ON m.id = l.score WHERE <f> AND l.team < 4",
    ),
    (
        "two joins",
        "SELECT l.id FROM leads l JOIN nums a ON a.id = l.team JOIN <n> n ON n.id = l.score WHERE <p> AND <f>",
    ),
];

/// Of PostgreSQL alone.
const POSTGRES: &[(&str, &str)] = &[
    (
        "a series",
        "SELECT l.id FROM leads l, generate_series(1, <size>) g WHERE <p> AND 1 / (g - 1) > 0",
    ),
    (
        "a series by nothing",
        "SELECT l.id FROM leads l, teams n, generate_series(1, 5, n.k - 1) g WHERE <p>",
    ),
    (
        "LATERAL",
        "SELECT l.id, s.x FROM leads l CROSS JOIN LATERAL (SELECT <f> AS x FROM <n> n WHERE n.id = l.team) s WHERE <p>",
    ),
    (
        "LATERAL leads",
        "SELECT n.id FROM <n> n CROSS JOIN LATERAL (SELECT l.id FROM leads l WHERE l.team = n.id AND <p> OFFSET 0) s WHERE <f>",
    ),
    (
        "FULL JOIN",
        "SELECT count(*) FROM (SELECT l.id, l.team FROM leads l WHERE <p>) s FULL JOIN (SELECT n.id FROM <n> n WHERE <f>) r ON r.id = s.team",
    ),
    (
        "WITH MATERIALIZED",
        "WITH s AS MATERIALIZED (SELECT n.id, <f> AS x FROM <n> n) SELECT l.id, s.x FROM leads l JOIN s ON s.id = l.team WHERE <p>",
    ),
    (
        "ALL",
        "SELECT l.id FROM leads l WHERE <p> AND l.team > ALL (SELECT n.k FROM <n> n WHERE <f>)",
    ),
    (
        "ARRAY",
        "SELECT l.id, ARRAY(SELECT <f> FROM <n> n) AS x FROM leads l WHERE <p>",
    ),
    (
        "FILTER",
        "SELECT count(*) FILTER (WHERE <f>) FROM leads l, <n> n WHERE <p>",
    ),
    (
        "DISTINCT ON",
        "SELECT DISTINCT ON (l.team) l.team FROM leads l JOIN <n> n ON n.id = l.team WHERE <p> AND <f>",
    ),
];

/// Changes, which change nothing: no row that may be seen meets a comparison.
const POSTGRES_CHANGES: &[(&str, &str)] = &[
    (
        "DELETE USING a series",
        "DELETE FROM leads l USING generate_series(1, <size>) g WHERE <p> AND 1 / (g - 1) > 0",
    ),
    (
        "DELETE USING",
        "DELETE FROM leads l USING <n> n WHERE <p> AND <f>",
    ),
    (
        "DELETE USING by a key",
        "DELETE FROM leads l USING <n> n WHERE n.id = l.team AND <p> AND <f>",
    ),
    (
        "DELETE USING what fails",
        "DELETE FROM leads l USING (SELECT n.id, <f> AS x FROM <n> n) s WHERE s.id = l.team AND <p>",
    ),
    (
        "UPDATE FROM",
        "UPDATE leads l SET team = 3 FROM <n> n WHERE <p> AND <f>",
    ),
    (
        "UPDATE FROM by a key",
        "UPDATE leads l SET team = n.k FROM <n> n WHERE n.id = l.team AND <p> AND <f>",
    ),
    (
        "DELETE USING two",
        "DELETE FROM leads l USING <n> n, few m WHERE n.id = l.team AND m.id = l.score AND <f>",
    ),
    (
        "UPDATE FROM two",
        "UPDATE leads l SET hint = 'x' FROM <n> n, few m WHERE n.id = l.team AND m.id = l.score AND l.amount < <amount> AND <f>",
    ),
    (
        "UPDATE FROM of its own",
        "UPDATE leads l SET hint = 'x' FROM <n> n WHERE n.id = l.score AND <o>",
    ),
];

/// Of MySQL and MariaDB alone.
const MYSQL_CHANGES: &[(&str, &str)] = &[
    (
        "DELETE of a join",
        "DELETE l FROM leads l JOIN <n> n ON true WHERE <p> AND <f>",
    ),
    (
        "DELETE of a join by a key",
        "DELETE l FROM leads l JOIN <n> n ON n.id = l.team WHERE <p> AND <f>",
    ),
    (
        "DELETE USING",
        "DELETE FROM l USING leads l JOIN <n> n ON n.id = l.team WHERE <p> AND <f>",
    ),
    (
        "DELETE of two joins",
        "DELETE l FROM leads l JOIN <n> n ON n.id = l.team JOIN few m ON m.id = l.score WHERE <f>",
    ),
    (
        "UPDATE of two joins",
        "UPDATE leads l JOIN <n> n ON n.id = l.team JOIN few m ON m.id = l.score SET l.hint = 'x' WHERE l.amount < <amount> AND <f>",
    ),
    (
        "UPDATE of a join of its own",
        "UPDATE leads l JOIN <n> n ON n.id = l.score SET l.hint = 'x' WHERE <o>",
    ),
    (
        "DELETE of a join with what fails",
        "DELETE l FROM leads l JOIN (SELECT DISTINCT n.id, <f> AS x FROM <n> n) s ON s.id = l.team WHERE <p>",
    ),
    (
        "UPDATE of a join",
        "UPDATE leads l JOIN <n> n ON true SET l.team = 3 WHERE <p> AND <f>",
    ),
    (
        "UPDATE of a join by a key",
        "UPDATE leads l JOIN <n> n ON n.id = l.team SET l.team = 3 WHERE <p> AND <f>",
    ),
    (
        "UPDATE of a join with what fails",
        "UPDATE leads l CROSS JOIN (SELECT DISTINCT <f> AS x FROM <n> n) s SET l.team = 3 WHERE <p>",
    ),
];

/// Of every engine.
const CHANGES: &[(&str, &str)] = &[
    (
        "DELETE with EXISTS",
        "DELETE FROM leads WHERE <bare> AND EXISTS (SELECT 1 FROM <n> n WHERE <f>)",
    ),
    (
        "UPDATE with IN",
        "UPDATE leads SET team = 3 WHERE <bare> AND team IN (SELECT n.id FROM <n> n WHERE <f>)",
    ),
    (
        "UPDATE of another",
        "UPDATE teams SET k = 3 WHERE id > 100 AND k IN (SELECT l.team FROM leads l, <n> n WHERE <p> AND <f>)",
    ),
    (
        "DELETE of what fails",
        "DELETE FROM leads WHERE <ownbare> AND <bare> AND team = 3",
    ),
    (
        "UPDATE of what fails",
        "UPDATE leads SET score = 3 WHERE team = 3 AND <ownbare> AND <bare>",
    ),
    (
        "INSERT of a join",
        "INSERT INTO nums (id, k, t) SELECT l.id, 1, 'x' FROM leads l, <n> n WHERE <p> AND <f>",
    ),
    (
        "INSERT of a derived list",
        "INSERT INTO nums (id, k, t) SELECT l.id, 1, 'x' FROM leads l CROSS JOIN (SELECT DISTINCT <f> AS x FROM <n> n) s WHERE <p>",
    ),
];

const SQLITE_CHANGES: &[(&str, &str)] = &[
    (
        "UPDATE FROM",
        "UPDATE leads SET team = 3 FROM <n> n WHERE <bare> AND <f>",
    ),
    (
        "UPDATE FROM by a key",
        "UPDATE leads SET team = n.k FROM <n> n WHERE n.id = leads.team AND <bare> AND <f>",
    ),
];

/// Statement that `choices` stand for.
pub(crate) fn member(dialect: Dialect, choices: &mut Choices<'_>) -> Member {
    let changes = choices.chance(20);
    let (own, own_changes): (&[_], &[_]) = match dialect {
        Dialect::Postgres => (POSTGRES, POSTGRES_CHANGES),
        Dialect::Mysql => (&[], MYSQL_CHANGES),
        Dialect::Sqlite => (&[], SQLITE_CHANGES),
    };
    let templates: Vec<_> = match changes {
        true => CHANGES.iter().chain(own_changes).collect(),
        false => QUERIES.iter().chain(own).collect(),
    };
    let (shape, template) = **choices.pick(&templates);
    let looser = !changes && choices.chance(15);
    let (comparison, predicate) = *choices.pick(if looser { LOOSER } else { COMPARISONS });
    let (failure, fails) = *choices.pick(failures(dialect));
    let table = *choices.pick(&["nums", "teams", "few"]);
    let size = *choices.pick(&["2", "5", "50", "500", "5000"]);
    let secret = *choices.pick(&[Secret::ONE, Secret::OTHER]);
    let next = |letter: &str| char::from(letter.as_bytes()[0] + 1).to_string();
    let long = choices.below(secret.text.len() - 1) + 1;
    let own = *choices.pick(own_failures(dialect));
    let small = *choices.pick(&["10", "100", "400"]);
    let sql = template
        .replace("<ownbare>", &own.replace("l.", ""))
        .replace("<o>", own)
        .replace("<bare>", &predicate.replace("l.", ""))
        .replace("<p>", predicate)
        .replace("<f>", fails)
        .replace("<n>", table)
        .replace("<size>", size)
        .replace("<note>", secret.text)
        .replace("<start>", &secret.text[..long])
        .replace("<first>", &secret.text[..1])
        .replace("<next>", &next(&secret.text[..1]))
        .replace("<amount>", &secret.number.to_string())
        .replace("<less>", &(secret.number - 1000).to_string())
        .replace("<more>", &(secret.number + 1000).to_string())
        .replace("<small>", small);
    Member {
        sql,
        shapes: BTreeSet::from([shape, comparison, failure]),
    }
}
