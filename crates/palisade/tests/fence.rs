//! Which statements are fenced: where the plan decides what fails, every filtered source is, and nowhere else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use palisade::{
    firewall::{Decision, Firewall},
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};

const SCHEMA: &str = "
CREATE TABLE leads (id int PRIMARY KEY, tenant int NOT NULL, note text, amount bigint, created timestamp);
CREATE TABLE teams (id int PRIMARY KEY, lead int, name text, k int NOT NULL, price numeric(10, 2), doc json, made timestamp);
CREATE VIEW failing AS SELECT id, 10 / k AS share FROM teams;
";

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::public::leads) unless { resource.tenant == 1 };
"#;

/// The same for SQLite and MySQL.
const PLAIN_SCHEMA: &str = "
CREATE TABLE leads (id int PRIMARY KEY, tenant int NOT NULL, note text, amount bigint, created timestamp);
CREATE TABLE teams (id int PRIMARY KEY, lead_id int, name text, k int NOT NULL, price decimal(10, 2), made timestamp);
";

fn firewall(catalog: palisade::catalog::Catalog, schema: &str) -> Firewall {
    let sources = PolicySources::from_cedar("p.cedar", POLICIES.replace("public", schema));
    Firewall::builder(catalog, sources).build().unwrap()
}

/// Whether the filtered source is fenced; the fence of each engine looks otherwise.
fn has_fence(firewall: &Firewall, fence: &str, sql: &str) -> bool {
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => palisade::danger::parts(&statement).sql.contains(fence),
        Decision::Reject(why) => panic!("{sql}: {why}"),
    }
}

fn is_fenced(sql: &str) -> bool {
    let catalog = palisade_ddl::postgres(SCHEMA, "shop").unwrap();
    let sources = PolicySources::from_cedar("p.cedar", POLICIES);
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => {
            let text = palisade::danger::parts(&statement).sql;
            // What leaves a fence has no statistics.
            assert_eq!(
                text.contains("OFFSET 0) "),
                text.contains(r#"coalesce("note", "note") AS "note""#),
                "{text}"
            );
            text.contains("OFFSET 0) ")
        }
        Decision::Reject(why) => panic!("{sql}: {why}"),
    }
}

#[test]
fn what_may_fail_below_the_answer_fences() {
    for sql in [
        "SELECT l.id FROM leads l, generate_series(1, 500) g WHERE l.note LIKE 'merg%' AND 1 / (g - 1) > 0",
        "SELECT l.id FROM generate_series(1, 500, 0) g, leads l WHERE l.note = 'x'",
        "SELECT l.id FROM leads l CROSS JOIN (SELECT 1 / k AS x FROM teams LIMIT 5) t WHERE l.note = 'x'",
        "SELECT l.id FROM leads l, (SELECT max(1 / k) AS x FROM teams GROUP BY id) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT DISTINCT name::int AS x FROM teams) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT id FROM teams LIMIT -1) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT id FROM teams OFFSET 1 - 2) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, teams t TABLESAMPLE BERNOULLI (200) WHERE l.amount < 9",
        "SELECT l.id FROM leads l, (SELECT count(*) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) AS c FROM teams) t WHERE l.amount < 9",
        "SELECT l.id FROM leads l, failing f WHERE f.id = l.id AND l.note = 'x'",
        "SELECT l.id FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' ORDER BY 1 / t.k",
        "SELECT l.id, 1 / t.k AS x FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' ORDER BY x",
        "SELECT 1 / t.k AS x, count(*) FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x' GROUP BY 1",
        "SELECT DISTINCT 1 / t.k FROM leads l JOIN teams t ON t.lead = l.id WHERE l.note = 'x'",
        "SELECT l.id FROM leads l, (VALUES (1 / (1 - 1))) v(x) WHERE l.note = 'x'",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r WHERE n < 1) SELECT l.id FROM leads l, r WHERE l.note = 'x'",
        // Of which rows it is computed inside of the statement is the plan's choice.
        "SELECT (SELECT 1 / (id - 3) FROM leads ORDER BY note LIMIT 1)",
        "SELECT x FROM (SELECT 1 / (id - 3) AS x FROM leads ORDER BY note FETCH FIRST 1 ROW ONLY) AS l",
    ] {
        assert!(is_fenced(sql), "{sql}");
    }
}

/// Indexes serve these: what a statement of the usual kind computes of its answer fails alike by every plan.
#[test]
fn what_cannot_fail_or_is_of_the_answer_does_not() {
    for sql in [
        "SELECT id FROM leads WHERE id = 7 AND note = 'x'",
        "SELECT 100 / amount, upper(note) FROM leads WHERE id = 7",
        "SELECT note FROM leads WHERE id IN (1, 2, 3) ORDER BY created DESC LIMIT 10",
        "SELECT l.note, t.price * 2 AS double FROM leads l JOIN teams t ON t.lead = l.id WHERE l.id = 7",
        "SELECT t.name, sum(l.amount * t.k) AS total FROM leads l JOIN teams t ON t.lead = l.id GROUP BY t.name HAVING count(*) > 1 ORDER BY total DESC",
        "SELECT date_trunc('month', l.created) AS month, count(*) FROM leads l JOIN teams t ON t.lead = l.id GROUP BY 1 ORDER BY 1",
        "SELECT l.id, (SELECT count(*) FROM teams t WHERE t.lead = l.id) AS teams FROM leads l WHERE l.id = 7",
        "SELECT l.id, row_number() OVER (PARTITION BY t.name ORDER BY l.created) FROM leads l JOIN teams t ON t.lead = l.id",
        "SELECT l.id FROM leads l JOIN (SELECT lead, count(*) AS n FROM teams GROUP BY lead) t ON t.lead = l.id WHERE l.id = 7",
    ] {
        assert!(!is_fenced(sql), "{sql}");
    }
}

/// Whether the filtered source is fenced on PostgreSQL, SQLite and MySQL: `y` and `n`. A dash is what the engine does not have.
fn check_each(shape: &str, cases: &[(&str, &str)]) {
    let engines = [
        (
            firewall(palisade_ddl::postgres(SCHEMA, "shop").unwrap(), "public"),
            "OFFSET 0) ",
        ),
        (
            firewall(
                palisade_sqlite::catalog_from_ddl(PLAIN_SCHEMA, "shop").unwrap(),
                "main",
            ),
            "OFFSET 0) ",
        ),
        (
            firewall(palisade_ddl::mysql(PLAIN_SCHEMA, "shop").unwrap(), "shop"),
            "LIMIT 18446744073709551615) ",
        ),
    ];
    let mut problems = Vec::new();
    for (part, expected) in cases {
        let sql = shape.replace("PART", part);
        let found: String = engines
            .iter()
            .zip(expected.chars())
            .map(|((firewall, fence), expected)| match expected {
                '-' => '-',
                _ if has_fence(firewall, fence, &sql) => 'y',
                _ => 'n',
            })
            .collect();
        if found != *expected {
            problems.push(format!("{part}: {found} and not {expected}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn what_may_fail_in_one_source_is_known_engine_by_engine() {
    let shape = "SELECT l.id FROM leads l JOIN (SELECT id, PART AS x FROM teams) t ON t.id = l.id WHERE l.note IS NULL";
    let cases = [
        ("k + 1", "yny"),
        ("k - 1", "yny"),
        ("k * 2", "yny"),
        ("1 / k", "yny"),
        ("1 % k", "ynn"),
        ("-k", "yny"),
        ("+k", "nnn"),
        ("-1", "nnn"),
        ("-(1)", "nnn"),
        ("- -1", "nnn"),
        ("k = 1", "nnn"),
        ("k < 1", "nnn"),
        ("k <> 1", "nnn"),
        ("k = id", "nnn"),
        ("k = price", "nnn"),
        ("k = name", "ynn"),
        ("name = 'x'", "nnn"),
        ("name = lower(name)", "nnn"),
        ("k = 1 AND id = 1", "nnn"),
        ("k = 1 OR 1 / k = 1", "yny"),
        ("k IS NULL", "nnn"),
        ("k IS NOT DISTINCT FROM 1", "nnn"),
        ("k IS DISTINCT FROM name", "ynn"),
        ("k BETWEEN 1 AND 2", "nnn"),
        ("k BETWEEN 1 AND id", "nnn"),
        ("k BETWEEN name AND 2", "ynn"),
        ("k IN (1, 2)", "nnn"),
        ("k IN (1, id)", "nnn"),
        ("k IN (1, name)", "ynn"),
        ("name LIKE 'a%'", "nnn"),
        (r"name LIKE 'a\%'", "yyy"),
        ("name LIKE 'a%' ESCAPE 'x'", "yyy"),
        ("k LIKE 'a%'", "ynn"),
        ("name || 'x'", "nn-"),
        ("name || k", "ynn"),
        ("CASE WHEN k = 1 THEN 1 END", "nnn"),
        ("CASE k WHEN 1 THEN 1 END", "nnn"),
        ("CASE k WHEN name THEN 1 END", "yny"),
        ("CAST(k AS text)", "nn-"),
        ("CAST(k AS char)", "nnn"),
        ("CAST(k AS int)", "yny"),
        ("CAST(name AS int)", "yny"),
        ("CAST(name AS signed)", "-nn"),
        ("EXTRACT(year FROM made)", "n-n"),
        ("EXTRACT(month FROM made)", "n-n"),
        ("EXTRACT(hour FROM made)", "n-y"),
        ("EXTRACT(year FROM name)", "y-n"),
        ("substring(name, 1, 2)", "nnn"),
        ("substr(name, 1, 2)", "nnn"),
        ("trim(name)", "nyn"),
        ("ltrim(name)", "nyn"),
        ("btrim(name)", "n--"),
        ("coalesce(name, 'x')", "nnn"),
        ("lower(name)", "nnn"),
        ("upper(name)", "nnn"),
        ("length(name)", "nnn"),
        ("concat(name, 'x')", "nyn"),
        ("concat_ws('-', name)", "nyy"),
        ("left(name, 2)", "n-n"),
        ("round(k)", "yny"),
        ("ifnull(name, 'x')", "-nn"),
        ("instr(name, 'x')", "-yy"),
        ("date(made)", "ynn"),
        ("strftime('%Y', made)", "-n-"),
        ("typeof(name)", "-n-"),
        ("year(made)", "--n"),
        ("date_format(made, '%Y')", "--n"),
        ("date_trunc('month', made)", "n--"),
        ("date_trunc(name, made)", "y--"),
        ("date_trunc('month', name)", "y--"),
        ("replace(name, 'x', 'y')", "yyy"),
        ("repeat(name, 3)", "y-y"),
        ("now()", "n-n"),
        ("current_timestamp", "nnn"),
        ("row_number() OVER (ORDER BY id)", "nnn"),
        ("rank() OVER (PARTITION BY name ORDER BY id)", "nnn"),
        ("sum(k) OVER (ORDER BY id)", "yyy"),
        ("count(*) OVER ()", "yyy"),
        ("ntile(2) OVER (ORDER BY id)", "yyy"),
        ("EXISTS (SELECT 1 FROM teams)", "nnn"),
    ];
    check_each(shape, &cases);
}

#[test]
fn aggregates_that_may_fail_are_known_engine_by_engine() {
    let shape = "SELECT l.id FROM leads l JOIN (SELECT id, PART AS x FROM teams GROUP BY id) t ON t.id = l.id WHERE l.note IS NULL";
    let cases = [
        ("count(*)", "nnn"),
        ("count(k)", "nnn"),
        ("count(doc)", "y--"),
        ("count(k + 1)", "yny"),
        ("min(k)", "nnn"),
        ("max(name)", "nnn"),
        ("max(k + 1)", "yny"),
        ("sum(k)", "nyn"),
        ("sum(price)", "nyn"),
        ("sum(k + 1)", "yyy"),
        ("avg(k)", "nnn"),
        ("avg(price)", "nnn"),
        ("avg(name)", "-ny"),
        ("total(k)", "-n-"),
        ("bool_and(k = 1)", "n--"),
        ("bool_or(k = 1)", "n--"),
        ("group_concat(name)", "-yn"),
        ("string_agg(name, ',')", "n--"),
    ];
    check_each(shape, &cases);
}

#[test]
fn conditions_that_tell_of_hidden_rows_are_known_engine_by_engine() {
    let cases = [
        ("l.amount = 5", "nnn"),
        ("l.amount = -5", "nnn"),
        ("l.amount = - -5", "nnn"),
        ("l.amount = -l.id", "yyy"),
        ("l.amount = l.id", "nnn"),
        ("5 = 5", "nnn"),
        ("l.amount < 5", "nnn"),
        ("l.amount <> 5.5", "nnn"),
        ("l.amount = 0x10", "-nn"),
        ("l.amount = '5'", "nnn"),
        ("l.note = 'x'", "nnn"),
        ("l.note = 5", "ynn"),
        ("l.note = l.id", "ynn"),
        ("l.amount IS NULL", "nnn"),
        ("l.amount + 1 IS NULL", "yyy"),
        ("l.amount IS NOT NULL", "nnn"),
        ("NOT l.amount = 5", "nnn"),
        ("(l.amount = 5)", "nnn"),
        ("l.amount = 5 AND l.id = 1", "nnn"),
        ("l.amount = 5 OR l.id + 1 = 2", "yyy"),
        ("l.amount = 5 OR l.id = 2", "nnn"),
        ("l.amount BETWEEN 1 AND 2", "nnn"),
        ("l.amount BETWEEN 1 AND l.id", "nnn"),
        ("l.amount BETWEEN 1 AND 'x'", "nnn"),
        ("l.amount IN (1, 2)", "nnn"),
        ("l.amount IN (1, NULL)", "nnn"),
        ("l.amount IN (1, l.id + 1)", "yyy"),
        ("l.note LIKE 'a%'", "nnn"),
        ("length(l.note) > 1", "nnn"),
        ("true", "nnn"),
        ("l.amount = (SELECT 5)", "yny"),
        ("l.amount = (SELECT -5)", "yny"),
        ("l.amount = (SELECT 5 AS n UNION SELECT 6)", "yny"),
        ("l.amount = (SELECT count(*) FROM teams)", "ynn"),
        ("l.amount = (SELECT max(k) FROM teams)", "ynn"),
        ("l.amount IN (SELECT 5)", "nnn"),
        ("l.amount IN (SELECT k FROM teams)", "nnn"),
        ("lower(l.note) = 'x'", "nnn"),
        ("l.created = '2024-01-01'", "nnn"),
        ("l.created > current_timestamp", "nnn"),
        ("l.amount = CAST(5 AS bigint)", "nn-"),
        ("l.amount IS NOT DISTINCT FROM 5", "nnn"),
    ];
    check_each("SELECT l.id FROM leads l WHERE PART", &cases);
}

#[test]
fn conditions_on_groups_stay_above_them_or_not() {
    let shape =
        "SELECT l.tenant FROM leads l GROUP BY l.tenant, l.note, l.amount, l.id HAVING PART";
    let cases = [
        ("count(*) > 1", "nnn"),
        ("count(l.id) > 1", "nnn"),
        ("count(l.id + 1) > 1", "nnn"),
        ("sum(l.amount) > 1", "nnn"),
        ("max(l.note) > 'a'", "nnn"),
        ("1 < count(*)", "nnn"),
        ("count(*) > 1 AND l.tenant = 1", "nnn"),
        ("count(*) > 1 AND length(l.note) > 1", "nnn"),
        ("count(*) > 1 OR l.tenant = 1", "nnn"),
        ("count(DISTINCT l.id) > 1", "nnn"),
        ("count(*) FILTER (WHERE true) > 1", "nn-"),
        ("lower(l.note) = 'x'", "nnn"),
        ("(count(*)) > 1", "nnn"),
        ("(count(*) > 1)", "nnn"),
        ("count(*) + 1 > 1", "yyy"),
    ];
    check_each(shape, &cases);
}
