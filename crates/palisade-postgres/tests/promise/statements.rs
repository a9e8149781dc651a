//! Statements as an agent might write them for PostgreSQL, so that many pass.

/// What may be in a select list; `u` and `o` are tables where the source has them.
const ITEMS: &[&str] = &[
    "*",
    "u.*",
    "u",
    "(u).name",
    "row_to_json(u)",
    "to_jsonb(u)",
    "u::text",
    "id",
    "u.id",
    "ssn",
    "u.ssn",
    "email",
    "u.email",
    "name",
    "tenant_id",
    "level",
    "u.level",
    "memo",
    "born",
    "tags",
    "doc",
    "mood",
    "upper(ssn)",
    "ssn || name",
    "length(ssn)",
    "left(ssn, 3)",
    "ssn::text::bytea",
    "md5(ssn)",
    "memo::int",
    "u.memo::int + 1",
    "10 / u.level",
    "100 / level",
    "tags[1]",
    "tags[1:2]",
    "array_length(tags, 1)",
    "cardinality(u.tags)",
    "unnest(tags)",
    "doc -> 'a'",
    "doc ->> 'a'",
    "(doc ->> 'a')::int",
    "doc #>> '{a}'",
    "jsonb_typeof(doc)",
    "jsonb_path_query_first(doc, '$.a')",
    "extract(year FROM born)",
    "born::text",
    "date_trunc('month', born)",
    "born + 1",
    "row_number() OVER (ORDER BY u.ssn, u.id)",
    "rank() OVER (ORDER BY ssn)",
    "lag(ssn) OVER (ORDER BY id)",
    "first_value(u.name) OVER (PARTITION BY u.tenant_id ORDER BY u.id)",
    "sum(u.level) OVER (ORDER BY u.id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "count(*) OVER (PARTITION BY ssn)",
    "ntile(2) OVER (ORDER BY u.id)",
    "sum(level) OVER w",
    "nth_value(ssn, 2) OVER (ORDER BY id GROUPS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "(SELECT max(ssn) FROM users)",
    "(SELECT count(*) FROM users)",
    "(SELECT u2.ssn FROM users u2 WHERE u2.id = u.id)",
    "ARRAY(SELECT ssn FROM users ORDER BY id)",
    "(SELECT count(*) FROM orders x WHERE x.user_id = u.id)",
    "EXISTS (SELECT FROM users x WHERE x.ssn = u.memo)",
    "u.id IN (SELECT user_id FROM orders)",
    "CASE WHEN ssn > '1' THEN 1 END",
    "CASE WHEN u.level = 0 THEN 0 ELSE 10 / u.level END",
    "COALESCE(ssn, name)",
    "NULLIF(ssn, name)",
    "GREATEST(ssn, name)",
    "ssn IS DISTINCT FROM name",
    "ssn LIKE '9%'",
    "ssn ILIKE '%6'",
    "ssn SIMILAR TO '9%'",
    "ssn ~ '^9'",
    "ssn COLLATE \"C\"",
    "pg_typeof(ssn)",
    "num_nulls(ssn, name)",
    "ctid",
    "tableoid",
    "xmin",
    "u.ctid",
    "pg_table_size('users')",
    "pg_column_size(ssn)",
    "current_user",
    "txid_current()",
    "random()",
    "now()",
    "generate_series(1, u.level)",
    "ROW(u.id, ssn)",
    "ROW(u.*)",
    "ARRAY[u.ssn, u.name]",
    "format('%s', ssn)",
    "concat(u.*)",
    "num_nonnulls(VARIADIC tags)",
    "1",
];

/// What needs a source with more than one table, or one of its names.
const OTHERS: &[&str] = &["o", "o.id", "total", "s", "n", "g", "x"];

/// What may be in the select list of a grouped query.
const AGGREGATES: &[&str] = &[
    "count(*)",
    "count(u)",
    "max(ssn)",
    "min(ssn)",
    "min(u.memo)",
    "array_agg(u.id ORDER BY u.id)",
    "string_agg(ssn, ',' ORDER BY ssn, id)",
    "string_agg(u.memo, ',' ORDER BY u.memo)",
    "jsonb_object_agg(name, ssn)",
    "jsonb_agg(ssn ORDER BY ssn)",
    "count(*) FILTER (WHERE ssn > '9')",
    "bool_or(ssn IS NULL)",
    "count(DISTINCT ssn)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY u.level)",
    "mode() WITHIN GROUP (ORDER BY ssn)",
    "grouping(tenant_id)",
    "avg(level)",
    "sum(o.total)",
    "max(born)",
    "u.tenant_id",
    "tenant_id",
    "u.level",
    "ssn",
    "u.memo",
];

/// Sources without and with a join.
const SOURCES: &[&str] = &[
    "users u",
    "users u",
    "users",
    "public.users AS u",
    "ONLY users u",
    "directory u",
    "teams u",
    "orders o",
    "credentials",
    "vip u",
    "users u JOIN orders o ON o.user_id = u.id",
    "users u LEFT JOIN orders o ON o.user_id = u.id",
    "orders o LEFT JOIN users u ON o.user_id = u.id AND u.level > 1",
    "users u JOIN orders o USING (id)",
    "users u FULL JOIN orders o USING (id)",
    "users u FULL JOIN orders o ON o.user_id = u.id",
    "users u NATURAL JOIN orders o",
    "users u NATURAL FULL JOIN directory d",
    "users u JOIN directory d USING (id)",
    "users u JOIN orders o USING (id) AS j",
    "(users u JOIN orders o USING (id)) AS j",
    "users u CROSS JOIN orders o",
    "users u JOIN users o ON u.ssn = o.ssn",
    "users u RIGHT JOIN orders o ON u.ssn = o.memo",
    "users u JOIN orders o ON u.memo::int = o.total",
    "users u JOIN orders o ON 10 / u.level = o.total",
    "(SELECT * FROM users) AS u",
    "(SELECT id, ssn AS memo, level FROM users) AS u",
    "(SELECT ssn AS name FROM users UNION SELECT memo FROM orders) AS u",
    "(TABLE users) AS u",
    "(SELECT name FROM users EXCEPT SELECT memo FROM orders) AS u",
    "(SELECT memo AS name FROM users INTERSECT ALL SELECT memo FROM orders) AS u",
    "(SELECT id, 10 / level AS x FROM users) AS u",
    "(SELECT id, memo::int AS x FROM users) AS u",
    "users u, LATERAL (SELECT * FROM orders x WHERE x.user_id = u.id) o",
    "orders o, LATERAL (SELECT * FROM users x WHERE x.id = o.user_id) u",
    "orders o CROSS JOIN LATERAL (SELECT * FROM users x WHERE 10 / x.level > 1 ORDER BY x.id LIMIT 1) u",
    "users u, generate_series(1, u.level) AS g",
    "users u, generate_series(1, 3) AS g",
    "users u LEFT JOIN LATERAL unnest(u.tags) AS g ON true",
    "users u, jsonb_each(u.doc) AS g",
    "users u, jsonb_array_elements(u.doc) AS g",
    "users u, LATERAL (VALUES (u.ssn), (u.name)) AS v(x)",
    "users u, unnest(u.tags) WITH ORDINALITY AS t(x, n)",
    "users u, LATERAL (SELECT max(y.id) AS x FROM users y WHERE y.ssn > u.ssn) v",
    "users u, regexp_split_to_table(u.memo, ',') AS g",
    "users u TABLESAMPLE SYSTEM (100)",
    "users u TABLESAMPLE BERNOULLI (50) REPEATABLE (1)",
    "(SELECT id, 10 / level AS x FROM users) AS u JOIN (SELECT id, total AS x FROM orders) o USING (x)",
    "(SELECT id, level, memo::int AS total FROM users) AS u NATURAL LEFT JOIN orders o",
    "(VALUES (1, 'a'), (2, 'b')) AS u(id, name)",
    "users AS u(a, b, c, memo)",
    "pg_class u",
    "information_schema.columns",
    "pg_stat_user_tables",
    "pg_stats",
];

/// Conditions, most of which can fail for some row.
const CONDITIONS: &[&str] = &[
    "",
    "",
    "",
    "WHERE id = 1",
    "WHERE u.id = 1",
    "WHERE u.id > 2",
    "WHERE ssn LIKE '9%'",
    "WHERE u.ssn ILIKE '%56'",
    "WHERE u.ssn ~ '^9'",
    "WHERE u.memo ~ u.name",
    "WHERE 'abc' ~ u.memo",
    "WHERE u.name SIMILAR TO '(a|b)%'",
    "WHERE u.ssn = '900-12-3456'",
    "WHERE u.ssn = '3456'",
    "WHERE ssn IN (SELECT ssn FROM users)",
    "WHERE u.name NOT IN (SELECT memo FROM orders)",
    "WHERE EXISTS (SELECT 1 FROM users x WHERE x.ssn = 'x')",
    "WHERE NOT EXISTS (SELECT 1 FROM orders x WHERE x.user_id = u.id)",
    "WHERE u.memo::int > 3",
    "WHERE memo::int IN (1, 2)",
    "WHERE 10 / u.level > 1",
    "WHERE 10 / level IS NOT NULL",
    "WHERE u.level = 0 OR 10 / u.level > 0",
    "WHERE (u.doc ->> 'a')::int = 1",
    "WHERE doc @> '{\"a\": 1}'",
    "WHERE doc @? '$.a ? (@ > 0)'",
    "WHERE u.doc ? 'a'",
    "WHERE u.tags @> ARRAY['x']",
    "WHERE 'x' = ANY (u.tags)",
    "WHERE tags[1] = 'x'",
    "WHERE u.tags && ARRAY['y', 'z']",
    "WHERE born > DATE '2000-01-01'",
    "WHERE born BETWEEN '1999-01-01' AND '2001-01-01'",
    "WHERE u.memo::date > DATE '2000-01-01'",
    "WHERE u.born + u.level > DATE '2000-01-01'",
    "WHERE u.level > ALL (SELECT level FROM users)",
    "WHERE u.id = (SELECT max(id) FROM users)",
    "WHERE (u.id, u.name) IN (SELECT id, memo FROM orders)",
    "WHERE u IS NOT NULL",
    "WHERE u.plain = u.posix",
    "WHERE u.parts = u.parts",
    "WHERE u.plain = u.name",
    "WHERE u.mood = 'sad'",
    "WHERE u.mood > 'ok'",
    "WHERE u.mood::text = u.memo",
    "WHERE u.name IS NOT NULL AND u.level >= 1",
    "WHERE u.email IS NULL",
    "WHERE u.tenant_id = 2",
    "WHERE tenant_id <> 1",
    "WHERE u.tenant_id IS NULL",
    "WHERE u.tenant_id + 1 = 2",
    "WHERE CASE WHEN u.tenant_id = 2 THEN 1 / 0 = 1 ELSE true END",
    "WHERE length(u.memo) > 1",
    "WHERE chr(u.level) = 'a'",
    "WHERE sqrt(u.level - 1) >= 0",
    "WHERE to_number(u.memo, '99') > 1",
    "WHERE ('{\"a\":' || u.memo || '}')::jsonb IS NOT NULL",
    "WHERE o.total > 10",
    "WHERE o.memo = u.memo",
    "WHERE o.id IS NULL",
    "WHERE x > 1",
    "WHERE g > 1",
    "WHERE s > '1'",
];

/// What may come after the condition of a grouped query.
const GROUPS: &[&str] = &[
    "",
    "",
    "",
    "GROUP BY 1",
    "GROUP BY ALL",
    "GROUP BY u.id",
    "GROUP BY tenant_id",
    "GROUP BY ssn",
    "GROUP BY u.level HAVING 10 / u.level > 1",
    "GROUP BY ROLLUP (tenant_id, ssn)",
    "GROUP BY GROUPING SETS ((u.level), ())",
    "GROUP BY CUBE (tenant_id)",
    "GROUP BY 1 HAVING count(*) > 1",
    "HAVING count(*) > 1",
    "GROUP BY u.memo HAVING u.memo::int > 1",
];

/// The windows of a query without groups.
const WINDOWS: &[&str] = &[
    "",
    "",
    "",
    "",
    "WINDOW w AS (ORDER BY u.id)",
    "WINDOW w AS (PARTITION BY ssn ORDER BY u.id)",
];

/// What may end a statement.
const TAILS: &[&str] = &[
    "",
    "",
    "",
    "",
    "ORDER BY 1",
    "ORDER BY u.ssn, u.id",
    "ORDER BY id DESC NULLS LAST",
    "ORDER BY ssn USING <",
    "ORDER BY 10 / u.level",
    "LIMIT 3",
    "ORDER BY 1 LIMIT 2 OFFSET 1",
    "LIMIT ALL",
    "OFFSET 2",
    "ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES",
    "ORDER BY ssn FETCH FIRST ROW WITH TIES",
    "FETCH FIRST 2 ROWS ONLY",
    "ORDER BY u.id LIMIT 2",
    "ORDER BY 1 LIMIT (SELECT max(level) FROM users)",
    "UNION SELECT NULL",
    "UNION ALL SELECT ssn FROM users",
    "EXCEPT SELECT memo FROM orders",
    "INTERSECT SELECT id FROM users",
    "FOR SHARE",
];

/// What may begin it.
const HEADS: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "WITH users AS (SELECT 1 AS id, 'a' AS ssn) ",
    "WITH x AS (SELECT * FROM users) ",
    "WITH x AS MATERIALIZED (SELECT id, ssn FROM users) ",
    "WITH orders AS (SELECT * FROM users) ",
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3) ",
    "WITH RECURSIVE t(id, ssn) AS (SELECT id, ssn FROM users WHERE id = 1 UNION SELECT u.id, u.ssn FROM users u JOIN t ON u.id = t.id + 1) ",
];

const DISTINCTS: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "DISTINCT ",
    "DISTINCT ON (u.tenant_id, u.id) ",
    "DISTINCT ON (ssn) ",
];

/// Plausible statements, the same ones for the same seed.
pub(crate) struct Statements(u64);

impl Statements {
    /// The statements that `seed` stands for.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>).
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `words` whose tables `source` has, mostly: some that are refused belong to it.
    fn fitting(&mut self, words: &[&'static str], source: &str) -> &'static str {
        let mut word = self.one_of(words);
        for _ in 0..6 {
            let lacks = |name: &str, table: &str| word.contains(name) && !source.contains(table);
            let is_short = word.len() == 1
                || word.starts_with("WHERE g")
                || word.starts_with("WHERE x")
                || word.starts_with("WHERE s >");
            let misfits = lacks("u.", " u")
                || lacks("o.", " o")
                || lacks("total", "orders")
                || (is_short && source.len() < 20);
            if !misfits {
                break;
            }
            word = self.one_of(words);
        }
        word
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        let count = u64::try_from(words.len()).unwrap();
        words[usize::try_from(self.number() % count).unwrap()]
    }
}

impl Iterator for Statements {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let is_grouped = self.number().is_multiple_of(4);
        let (items, others, groups) = if is_grouped {
            (AGGREGATES, AGGREGATES, GROUPS)
        } else {
            (ITEMS, OTHERS, WINDOWS)
        };
        let mut text = format!("{}SELECT {}", self.one_of(HEADS), self.one_of(DISTINCTS));
        // Most of the conditions and items are about the table that most of the sources have.
        let sources = if self.number().is_multiple_of(2) {
            &SOURCES[..2]
        } else {
            SOURCES
        };
        let source = self.one_of(sources);
        text.push_str(self.fitting(items, source));
        match self.number() % 6 {
            0 | 1 => {
                text.push_str(", ");
                text.push_str(self.fitting(items, source));
            }
            2 => {
                text.push_str(", ");
                text.push_str(self.fitting(others, source));
            }
            _ => {}
        }
        text.push_str(" FROM ");
        text.push_str(source);
        for words in [CONDITIONS, groups, TAILS] {
            text.push(' ');
            text.push_str(self.fitting(words, source));
        }
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Whether the rows may depend on the order in which the engine meets them: a LIMIT or DISTINCT ON without
/// a total order.
pub(crate) fn depends_on_order(sql: &str) -> bool {
    [
        "LIMIT 1",
        "LIMIT 2",
        "LIMIT 3",
        "LIMIT (",
        "OFFSET",
        "ROWS ONLY",
        "DISTINCT ON",
        "array_agg",
        "first_value",
        "nth_value",
        "lag(",
        "row_number",
        "ntile",
        "ROWS BETWEEN",
        "OVER w",
    ]
    .iter()
    .any(|word| sql.contains(word))
}

/// Whether two runs may differ.
pub(crate) fn is_volatile(sql: &str) -> bool {
    ["random()", "now()", "txid_current", "current_user"]
        .iter()
        .any(|word| sql.contains(word))
}
