//! Conditions that stand beside a row filter without a fence fail on no row, whatever a hidden row holds.
//!
//! Each condition is decided by the firewall. Those without a fence are run by the engine alone, over rows with the most extreme
//! values there are.

use palisade::{
    catalog::Catalog,
    firewall::{Decision, Firewall},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    servers::{MariaDbServer, MySqlServer, PostgresServer, Server},
};

use crate::database::{TestDatabase, TestFile};

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::SCHEMA::d) unless { resource has tenant && resource.tenant == 1 };
"#;

/// What an engine is asked with.
struct Forms {
    columns: &'static [&'static str],
    /// Expressions of a column, `@`.
    expressions: &'static [&'static str],
    /// Conditions of an expression, `@`.
    conditions: &'static [&'static str],
    /// So many of them, at least, have no fence.
    unfenced: usize,
}

const POSTGRES: &str = r#"
CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE d (
    id int PRIMARY KEY, tenant int, i int, b bigint, n numeric, f float8, t text, w varchar(2000) COLLATE same, p char(5),
    dd date, ts timestamp, tz timestamptz, tm time, iv interval, j jsonb, k json, e mood, o boolean, y bytea, u uuid,
    a int[], x xml, ta text[], va varchar(9)[], wo tsvector, de text COLLATE "de-x-icu", ja json[]
);
INSERT INTO d VALUES
    (1, 2, -2147483648, -9223372036854775808, '1e500', '1e308', '', '', '', '4714-11-24 BC', '4714-11-24 BC', '4714-11-24 00:00+00 BC',
     '00:00', '-178000000 years', '{"a": 1}', '{"a": "\u0000"}', 'sad', true, '\xff', '00000000-0000-0000-0000-000000000000', '{}', '<a/>', '{}', '{}', '', 'a', '{}'),
    (2, 2, 2147483647, 9223372036854775807, '-1e500', '-1e308', repeat('ä', 1000), repeat('x', 2000), 'x', '5874897-12-31',
     '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999', '24:00', '178000000 years', '[1, 2]', '[1]', 'ok', false, '\x00',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', '{1,NULL}', 'text', '{NULL,"\\\\"}', '{{a},{b}}', 'a:1,2 b', 'ä', '{"{}"}'),
    (3, 2, 0, 0, 'NaN', 'NaN', '\', '\', '%', 'infinity', 'infinity', 'infinity', '12:00', '0', '"s"', 'null', NULL, NULL, '', NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL),
    (4, 2, NULL, NULL, 'infinity', '-infinity', 'x', 'y', NULL, '-infinity', '-infinity', '-infinity', NULL, NULL, 'null', '5', NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (5, 2, 7, 7, 7, 7, '7', '7', '7', '2024-01-01', '2024-01-01', '2024-01-01', '07:00', '7 days', '7', '7', 'ok', true, '7', NULL, '{7}', NULL, '{7}', '{7}', '7:1', '7', '{7}');
"#;

const POSTGRES_FORMS: Forms = Forms {
    columns: &[
        "i", "b", "n", "f", "t", "w", "p", "dd", "ts", "tz", "tm", "iv", "j", "k", "e", "o", "y",
        "u", "a", "x", "ta", "va", "wo", "de", "ja",
    ],
    expressions: &[
        "@",
        "lower(@)",
        "upper(t || @)",
        "length(@)",
        "length(@, 'UTF8')",
        "trim(@)",
        "substr(@, 1, 3)",
        "substr(@, 1, i)",
        "left(@, 2)",
        "right(@, i)",
        "coalesce(@, f)",
        "coalesce(@, n)",
        "coalesce(@, now())",
        "coalesce(@, w)",
        "coalesce(@, '7')",
        "coalesce(nullif(f, 0), @)",
        "greatest(@, now())",
        "CASE WHEN i = 7 THEN DATE '5874897-12-31' ELSE @ END",
        "CASE WHEN i = 7 THEN @ ELSE w END",
        "date_trunc('day', @)",
        "date_trunc('year', @)",
        "greatest(@, f)",
        "nullif(@, t)",
        "CASE WHEN o THEN @ ELSE f END",
        "@::text",
        "@::date",
        "@::timestamp",
        "@::numeric",
        "@::float8",
        "@::int",
        "@::bigint",
        "@::varchar(3)",
        "date_trunc('month', @)",
        "date_part('year', @)",
        "date_part('hour', @)",
        "extract(year FROM @)",
        "extract(month FROM @)",
        "extract(hour FROM @)",
        "extract(epoch FROM @)",
        "to_char(@, 'YYYY-MM')",
        "@ ->> 'a'",
        "@ -> 'a' ->> 'b'",
        "@ -> 0",
        "@ #>> '{a,b}'",
        "(@ ->> 'a')::int",
        "-@",
        "@ + 1",
        "@ - interval '1 day'",
        "@ || 'x'",
        "concat(@, t)",
        "lower(concat(@, t))",
        "(SELECT max(@) FROM d)",
        "(SELECT @ FROM d)",
        "(SELECT @ FROM d LIMIT 1)",
        "(SELECT count(@) FROM d)",
        "(SELECT sum(@) FROM d)",
        "a[i]",
    ],
    conditions: &[
        "@ = '7'",
        "@ > 5",
        "@ > 1.5",
        "@ < n",
        "@ < f",
        "@ = t",
        "@ = w",
        "@ = p",
        "@ > b",
        "@ < ts",
        "@ < tz",
        "@ < dd",
        "@ >= DATE '2024-01-01'",
        "@ >= CAST('2024-01-01' AS timestamp)",
        "@ > now() - interval '30 days'",
        "@ >= current_date - 30",
        "@ >= current_date - interval '1 month'",
        "@ BETWEEN '1' AND '9'",
        "@ IN (1, 2, 3)",
        "@ IN ('a', 'b')",
        "@ = ANY (ARRAY['a', 'b'])",
        "@ = ANY (a)",
        "@ = ANY ('{1,2}')",
        "@ = ANY (ARRAY[1, 2]::bigint[])",
        "@ = ANY ('{1,2}'::bigint[])",
        "@ = ANY ('{a,b}'::text[])",
        "@ = ANY ('{1.5}'::double precision[])",
        "@ >= date_trunc('month', now())",
        "@ >= date_trunc('year', now() - interval '1000 years') - interval '1000 years'",
        "@ >= (date_trunc('month', now()) - interval '1 month')::date",
        "@ < (now() + interval '1000 years')::timestamp",
        "@ = '7'::uuid",
        "@ = 'ok'::mood",
        "@ ILIKE '%' || 'b' || '%'",
        "@ ~* 'a|b|^c$'",
        r#"@ @> '{"a": 1}'::jsonb"#,
        "@ @@ to_tsquery('english', 'a & b')",
        "@ IN (SELECT n FROM d)",
        "@ IN (SELECT t FROM d)",
        "@ NOT IN (SELECT i FROM d WHERE t LIKE 'a%')",
        "EXISTS (SELECT 1 FROM d AS e WHERE e.t = @)",
        "@ LIKE 'a%'",
        r"@ LIKE 'a\'",
        "@ LIKE t",
        "@ ILIKE '%b%'",
        "@ ~ 'a'",
        "@ IS NULL",
        "@ IS TRUE",
        "@ IS DISTINCT FROM f",
        r#"@ @> '{"a": 1}'"#,
        "@ ? 'a'",
        "@ ~ '^a.*b$'",
        "@ !~* 'word.'",
        "@ ~ '('",
        "@ && ARRAY[1, 7]",
        "@ @> '{7}'",
        "@ <@ ARRAY['7']",
        "'7' = ANY (@)",
        "@ @@ plainto_tsquery('english', 'two words')",
        "@ @@ to_tsquery('english', t)",
        "(i, @) < (5, '7')",
        "(@, b) IN ((1, 2), (3, 4))",
        "(@, n) < (7, f)",
        "(i = 7 OR @ = '7')",
        "NOT (@ > 5)",
        "CASE WHEN i = 1 THEN @ = '7' ELSE false END",
    ],
    unfenced: 300,
};

const MYSQL: &str = r#"
CREATE TABLE d (
    id int PRIMARY KEY, tenant int, i int, b bigint, g bigint unsigned, n decimal(40, 10), f double, t varchar(200),
    w varchar(200) CHARACTER SET latin1, v varchar(200) COLLATE utf8mb4_bin, dd date, ts datetime, tm time, yr year,
    e enum('sad', 'ok'), y varbinary(20), j json
);
INSERT INTO d VALUES
    (1, 2, -2147483648, -9223372036854775808, 0, -99999999, 1e308, '', '', '', '1000-01-01', '1000-01-01 00:00:00', '-838:59:59', 1901, 'sad', x'ff', '{"a": 1}'),
    (2, 2, 2147483647, 9223372036854775807, 18446744073709551615, 99999999, -1e308, 'garbage', 'é', '日本', '9999-12-31',
     '9999-12-31 23:59:59', '838:59:59', 2155, 'ok', x'00fe', '[1]'),
    (3, 2, 0, 0, 0, 0, 0, '12abc', '12abc', '2024-99-99', NULL, NULL, NULL, NULL, NULL, NULL, '"s"'),
    (4, 2, 7, 7, 7, 7, 7, '7', '7', '7', '2024-01-01', '2024-01-01 07:00:00', '07:00:00', 2007, 'ok', '7', '7');
"#;

const MYSQL_FORMS: Forms = Forms {
    columns: &[
        "i", "b", "g", "n", "f", "t", "w", "v", "dd", "ts", "tm", "yr", "e", "y", "j",
    ],
    expressions: &[
        "@",
        "lower(@)",
        "length(@)",
        "trim(@)",
        "substring(@, 1, 3)",
        "left(@, i)",
        "concat(@, w)",
        "concat(@, v)",
        "coalesce(@, v)",
        "ifnull(@, 5)",
        "greatest(@, t)",
        "nullif(@, v)",
        "if(@, 1, 0)",
        "round(@)",
        "floor(@)",
        "replace(@, 'a', 'b')",
        "date(@)",
        "year(@)",
        "month(@)",
        "last_day(@)",
        "date_format(@, '%Y-%m')",
        "datediff(@, now())",
        "timestampdiff(DAY, @, now())",
        "date_sub(@, INTERVAL 30 DAY)",
        "@ + INTERVAL i MONTH",
        "CAST(@ AS SIGNED)",
        "CAST(@ AS UNSIGNED)",
        "CAST(@ AS DECIMAL(10, 2))",
        "CAST(@ AS DATE)",
        "CAST(@ AS DATETIME)",
        "CAST(@ AS CHAR)",
        "EXTRACT(YEAR FROM @)",
        "json_extract(@, '$.a')",
        "json_unquote(json_extract(@, '$.a'))",
        "json_extract(@, '$.')",
        "-@",
        "@ + 1",
        "@ * 2",
        "@ / 0",
        "@ / 0.00001",
        "@ / 1e-308",
        "if(i = 7, 1e308, @)",
        "instr(@, x'ff')",
        "replace(@, y, 'a')",
        "json_unquote(@)",
        "CAST(@ AS FLOAT)",
        "round(@, -1)",
        "@ % 0",
        "abs(@)",
        "power(@, 2)",
        "(SELECT max(@) FROM d)",
        "(SELECT @ FROM d)",
        "(SELECT @ FROM d LIMIT 1)",
        "(SELECT count(@) FROM d)",
    ],
    conditions: &[
        "@ = '7'",
        "@ > 5",
        "@ = 'garbage'",
        "@ < n",
        "@ < f",
        "@ = t",
        "@ = w",
        "@ = v",
        "@ > b",
        "@ > g",
        "@ < ts",
        "@ < dd",
        "@ < tm",
        "@ = yr",
        "@ >= '2024-01-01'",
        "@ >= DATE '2024-01-01'",
        "@ > now() - INTERVAL 30 DAY",
        "@ >= date_format(now(), '%Y-%m-01')",
        "@ = year(now())",
        "@ = last_day(curdate())",
        "@ >= curdate() - INTERVAL 1 MONTH",
        "@ BETWEEN '2024-01-01' AND '2024-12-31'",
        "@ BETWEEN t AND v",
        "@ IN (1, 2, 3)",
        "@ IN ('a', 'b')",
        "@ IN (w, v)",
        "@ IN (SELECT n FROM d)",
        "@ IN (SELECT t FROM d)",
        "@ NOT IN (SELECT dd FROM d)",
        "dd IN (SELECT max(@) FROM d)",
        "dd > (SELECT max(@) FROM d)",
        "n > (SELECT max(@) FROM d)",
        "EXISTS (SELECT 1 FROM d AS s WHERE s.t = d.@)",
        "@ LIKE 'a%'",
        "@ LIKE t",
        "@ REGEXP 'a'",
        "@ IS NULL",
        "(i, @) < (5, '7')",
        "(@, dd) IN ((1, '2024-01-01'), ('x', t))",
        "@ <=> dd",
        "(i = 7 OR @ = '7')",
        "NOT (@ > 5)",
        "@",
    ],
    unfenced: 300,
};

const SQLITE: &str = r#"
CREATE TABLE d (id INTEGER PRIMARY KEY, tenant INTEGER, i INTEGER, f REAL, t TEXT, w TEXT COLLATE NOCASE, y BLOB, n NUMERIC, z);
INSERT INTO d VALUES
    (1, 2, -9223372036854775808, 1e308, '{broken', '', x'ff00', 1e308, NULL),
    (2, 2, 9223372036854775807, -1e308, '', 'garbage', x'', '12abc', x'c328'),
    (3, 2, 'text', 'text', x'c328', x'00', 'text', 'text', 5),
    (4, 2, 7, 7, '7', '7', '7', 7, '7'),
    (5, 2, 8, 8, zeroblob(400000), 'x', NULL, NULL, NULL);
UPDATE d SET t = CAST(replace(hex(t), '0', 'x') AS TEXT) WHERE id = 5;
"#;

const SQLITE_FORMS: Forms = Forms {
    columns: &["i", "f", "t", "w", "y", "n", "z"],
    expressions: &[
        "@",
        "lower(@)",
        "length(@)",
        "trim(@)",
        "substr(@, 1, 3)",
        "substr(@, i, i)",
        "instr(@, 'a')",
        "coalesce(@, f)",
        "ifnull(@, 5)",
        "nullif(@, t)",
        "iif(@, 1, 0)",
        "round(@)",
        "typeof(@)",
        "date(@)",
        "datetime(@, '-30 days')",
        "strftime('%Y', @)",
        "julianday(@)",
        "strftime(@)",
        "strftime(@, 'now')",
        "ltrim(@, t)",
        "CASE WHEN i = 7 THEN @ ELSE t || t END",
        "CAST(@ AS INTEGER)",
        "CAST(@ AS TEXT)",
        "-@",
        "@ + 1",
        "@ * i",
        "@ / 0",
        "@ % 0",
        "@ & 5",
        "@ << 70",
        "@ || t",
        "abs(@)",
        "json_extract(@, '$.a')",
        "@ ->> 'a'",
        "json(@)",
        "hex(@)",
        "replace(@, 'x', 'xxxx')",
        "printf('%s%s', @, t)",
        "(SELECT max(@) FROM d)",
        "(SELECT @ FROM d)",
        "(SELECT sum(@) FROM d)",
        "(SELECT total(@) FROM d)",
    ],
    conditions: &[
        "@ = '7'",
        "@ > 5",
        "@ < f",
        "@ = t",
        "@ = w",
        "@ >= date('now', '-30 days')",
        "@ BETWEEN 'a' AND 'b'",
        "@ IN (1, 'a')",
        "@ IN (SELECT t FROM d)",
        "EXISTS (SELECT 1 FROM d AS s WHERE s.t = d.@)",
        "@ LIKE 'a%'",
        "@ LIKE '%aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%'",
        "@ LIKE t",
        "@ LIKE 'a%' ESCAPE 'xy'",
        "@ GLOB 'a*'",
        "@ IS NULL",
        "@ IS NOT w",
        "(i = 7 OR @ = '7')",
        "NOT (@ > 5)",
        "CASE @ WHEN i THEN 1 ELSE 0 END",
        "@",
    ],
    unfenced: 300,
};

impl Forms {
    fn conditions(&self) -> impl Iterator<Item = String> {
        let columns = self.columns.iter();
        columns.flat_map(move |column| {
            self.expressions.iter().flat_map(move |expression| {
                let made = expression.replace('@', column);
                self.conditions
                    .iter()
                    // What qualifies its column takes no more than that.
                    .filter(|condition| *expression == "@" || !condition.contains(".@"))
                    .map(move |condition| condition.replace('@', &made))
            })
        })
    }

    /// The statements without a fence.
    fn unfenced_statements(&self, catalog: Catalog, schema: &str) -> Vec<String> {
        let sources = policy_sources(POLICIES.replace("SCHEMA", schema));
        let builder = Firewall::builder(catalog, sources).allow_changes();
        let firewall = builder.build().unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        let statements = self.conditions().flat_map(|condition| {
            [
                format!("SELECT count(*) FROM d WHERE {condition}"),
                format!("UPDATE d SET tenant = tenant WHERE {condition}"),
            ]
        });
        let outputs: Vec<String> = self
            .columns
            .iter()
            .flat_map(|column| {
                let whole = self
                    .expressions
                    .iter()
                    .filter(|one| !fails_at_the_ends(one));
                whole.map(move |expression| {
                    let made = expression.replace('@', column);
                    format!("SELECT q.x FROM (SELECT {made} AS x FROM d) AS q CROSS JOIN d AS o")
                })
            })
            .collect();
        let statements = statements.chain(outputs);
        let unfenced: Vec<String> = statements
            .filter(|sql| {
                let (decision, trace) = firewall.explain(sql, &Params::None, &session).unwrap();
                matches!(decision, Decision::Allow(_)) && !trace.fenced
            })
            .collect();
        println!("{} conditions without a fence", unfenced.len());
        assert!(
            unfenced.len() >= self.unfenced,
            "{} of them",
            unfenced.len()
        );
        unfenced
    }
}

/// Whether an expression stands beside a join although it fails on extreme values. Those are months of days outside of the range of
/// points in time, and texts that are too long together for SQLite. Such failures are counted.
fn fails_at_the_ends(expression: &str) -> bool {
    expression.starts_with("date_trunc") || expression.contains("||")
}

/// Those that fail over the extreme rows and not over none.
fn check(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} of them\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// The same table without its rows.
const EMPTY: &str = "DELETE FROM d;";

#[tokio::test]
async fn postgres_fails_on_no_hidden_row() {
    let server: &Server = PostgresServer::start_shared().unwrap();
    let full = TestDatabase::on(server, "extremes", POSTGRES);
    let empty = TestDatabase::on(server, "nothing", &format!("{POSTGRES}{EMPTY}"));
    let catalog = palisade_postgres::catalog(&full.postgres_client().await)
        .await
        .unwrap();
    let (one, other) = (full.postgres_client().await, empty.postgres_client().await);
    let mut problems = Vec::new();
    for sql in POSTGRES_FORMS.unfenced_statements(catalog, "public") {
        if let Err(why) = one.batch_execute(&sql).await
            && other.batch_execute(&sql).await.is_ok()
        {
            problems.push(format!("{sql}: {why:?}"));
        }
    }
    check(&problems);
}

async fn mysql_fails_on_no_hidden_row(server: &'static Server) {
    use mysql_async::prelude::Queryable;
    let full = TestDatabase::on(server, "extremes", MYSQL);
    let empty = TestDatabase::on(server, "nothing", &format!("{MYSQL}{EMPTY}"));
    let backend = full.mysql_backend().await;
    let catalog = palisade::guard::Backend::catalog(&backend).clone();
    let (mut one, mut other) = (full.mysql_client().await, empty.mysql_client().await);
    let mut problems = Vec::new();
    for sql in MYSQL_FORMS.unfenced_statements(catalog, full.name()) {
        if let Err(why) = one.query_drop(&sql).await
            && other.query_drop(&sql).await.is_ok()
        {
            problems.push(format!("{sql}: {why}"));
        }
    }
    check(&problems);
}

#[tokio::test]
async fn mariadb_fails_on_no_hidden_row() {
    mysql_fails_on_no_hidden_row(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_fails_on_no_hidden_row() {
    mysql_fails_on_no_hidden_row(MySqlServer::start_shared().unwrap()).await;
}

#[test]
fn sqlite_fails_on_no_hidden_row() {
    let full = TestFile::new(SQLITE);
    let empty = TestFile::new(&format!("{SQLITE}{EMPTY}"));
    let catalog = palisade::guard::Backend::catalog(&full.backend()).clone();
    let (one, other) = (full.open_bare(), empty.open_bare());
    for conn in [&one, &other] {
        // As the adapter has them. A text of the test takes most of it.
        conn.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, 1024 * 1024)
            .unwrap();
        conn.set_limit(
            rusqlite::limits::Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH,
            100,
        )
        .unwrap();
    }
    let run = |conn: &rusqlite::Connection, sql: &str| -> rusqlite::Result<()> {
        let mut statement = conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    };
    let mut problems = Vec::new();
    for sql in SQLITE_FORMS.unfenced_statements(catalog, "main") {
        if let Err(why) = run(&one, &sql)
            && run(&other, &sql).is_ok()
        {
            problems.push(format!("{sql}: {why}"));
        }
    }
    check(&problems);
}
