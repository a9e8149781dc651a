//! What a statement may have any number of.

use palisade::dialect::Dialect;

/// A statement with `count` of something.
pub(crate) struct Construct {
    pub(crate) name: &'static str,
    /// The dialects that have it.
    pub(crate) dialects: &'static [Dialect],
    pub(crate) with: fn(usize) -> String,
}

const ALL: &[Dialect] = &Dialect::ALL;
const SQLITE: &[Dialect] = &[Dialect::Sqlite];
const POSTGRES: &[Dialect] = &[Dialect::Postgres];
const MYSQL: &[Dialect] = &[Dialect::Mysql];
const NOT_MYSQL: &[Dialect] = &[Dialect::Sqlite, Dialect::Postgres];

/// `part` as often as `count`, with its number in the places of `#`.
fn many(part: &str, count: usize, between: &str) -> String {
    let mut text = String::new();
    for number in 0..count {
        if number > 0 {
            text.push_str(between);
        }
        text.push_str(&part.replace('#', &number.to_string()));
    }
    text
}

fn list(part: &str, count: usize) -> String {
    many(part, count, ", ")
}

/// `WITH c0 AS (first), c1 AS (next over c0), …`, and the last of them.
fn chain(first: &str, next: &str, count: usize) -> String {
    let mut text = format!("WITH c0 AS ({first})");
    for number in 1..count {
        let before = number - 1;
        text.push_str(&format!(
            ", c{number} AS ({})",
            next.replace('#', &before.to_string())
        ));
    }
    text + &format!(" SELECT * FROM c{}", count.saturating_sub(1))
}

macro_rules! constructs {
    ($($name:literal $dialects:ident $count:ident $text:expr;)*) => {
        pub(crate) const CONSTRUCTS: &[Construct] = &[$(Construct {
            name: $name,
            dialects: $dialects,
            with: |$count| $text,
        },)*];
    };
}

constructs! {
    // Lists.
    "literals in IN" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("#", n));
    "strings in IN" ALL n format!("SELECT 1 AS x FROM t WHERE a IN ({})", list("'#'", n));
    "one column in IN" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("k", n));
    "two columns in IN" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("k, c", n / 2 + 1));
    "a text column in IN" ALL n format!("SELECT 1 AS x FROM t WHERE a IN ({})", list("a", n));
    "expressions in IN" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("k + #", n));
    "calls in IN" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("abs(k)", n));
    "comparisons in IN" NOT_MYSQL n format!("SELECT 1 AS x FROM t WHERE (k = 1) IN ({})", list("k = #", n));
    "a filtered column in IN" ALL n format!("SELECT 1 AS x FROM v WHERE k IN ({})", list("k", n));
    "a masked column in IN" ALL n format!("SELECT a IN ({}) AS x FROM v", list("a", n));
    "tokens in IN" ALL n format!("SELECT d IN ({}) AS x FROM v", list("d", n));
    "two lists" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({0}) AND c IN ({0})", list("#", n / 2));
    "arguments" ALL n format!("SELECT coalesce({}) AS x FROM t", list("k", n));
    "values of a row" ALL n format!("SELECT 1 AS x FROM t WHERE ({}) = ({})", list("k", n), list("c", n));
    "rows of VALUES" NOT_MYSQL n format!("SELECT * FROM (VALUES {}) s", list("(#, 1)", n));
    "columns of VALUES" NOT_MYSQL n format!("VALUES ({})", list("#", n));
    "an array" POSTGRES n format!("SELECT 1 AS x FROM t WHERE k = ANY (ARRAY[{}])", list("#", n));
    "an array of columns" POSTGRES n format!("SELECT ARRAY[{}] AS x FROM t", list("k", n));
    // Chains.
    "AND" ALL n format!("SELECT 1 AS x FROM t WHERE {}", many("k <> #", n, " AND "));
    "OR" ALL n format!("SELECT 1 AS x FROM t WHERE {}", many("k = #", n, " OR "));
    "OR in parentheses" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("(c + k + c + k)", n));
    "LIKE" ALL n format!("SELECT 1 AS x FROM t WHERE {}", many("a LIKE 'x#%'", n, " OR "));
    "BETWEEN" ALL n format!("SELECT 1 AS x FROM t WHERE {}", many("k BETWEEN # AND 9", n, " OR "));
    "sums" ALL n format!("SELECT {} AS x FROM t", many("k", n, " + "));
    "concatenation" NOT_MYSQL n format!("SELECT {} AS x FROM t", many("a", n, " || "));
    "concatenated arguments" ALL n format!("SELECT concat({}) AS x FROM t", list("a", n));
    "parentheses" ALL n format!("SELECT {}k{} AS x FROM t", "(".repeat(n), ")".repeat(n));
    "calls inside of calls" ALL n format!("SELECT {}k{} AS x FROM t", "abs(".repeat(n), ")".repeat(n));
    "casts" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("CAST(k AS DECIMAL)", n));
    "casts inside of casts" POSTGRES n format!("SELECT k{} AS x FROM t", "::int".repeat(n));
    "arms of CASE" ALL n format!("SELECT CASE {} END AS x FROM t", many("WHEN k = # THEN #", n, " "));
    "values of CASE" ALL n format!("SELECT CASE k {} END AS x FROM t", many("WHEN # THEN #", n, " "));
    "columns of CASE" ALL n format!("SELECT CASE k {} END AS x FROM t", many("WHEN c THEN k", n, " "));
    // Outputs, groups, order, windows.
    "outputs" ALL n format!("SELECT {} FROM t", list("k", n));
    "aliases" ALL n format!("SELECT {} FROM t", list("k + # AS x#", n));
    "unnamed outputs" ALL n format!("SELECT {} FROM t", list("k + #", n));
    "DISTINCT" ALL n format!("SELECT DISTINCT {} FROM t", list("k + # AS x#", n));
    "outputs of a subquery" ALL n format!("SELECT {} FROM (SELECT {} FROM t) s", list("x#", n), list("k + # AS x#", n));
    "stars" ALL n format!("SELECT {} FROM t", list("t.*", n));
    "GROUP BY one column" ALL n format!("SELECT 1 AS x FROM t GROUP BY {}", list("k", n));
    "GROUP BY" ALL n format!("SELECT 1 AS x FROM t GROUP BY {}", list("k + #", n));
    "ORDER BY one column" ALL n format!("SELECT 1 AS x FROM t ORDER BY {}", list("k", n));
    "ORDER BY" ALL n format!("SELECT 1 AS x FROM t ORDER BY {}", list("k + #", n));
    "ORDER BY aliases" ALL n format!("SELECT {} FROM t ORDER BY {}", list("k + # AS x#", n), list("x#", n));
    "ORDER BY in an aggregate" NOT_MYSQL n format!("SELECT max(k ORDER BY {}) AS x FROM t", list("k", n));
    "aggregates" ALL n format!("SELECT 1 IN ({}) AS x FROM t", list("sum(k + #)", n));
    "one aggregate" ALL n format!("SELECT 1 IN ({}) AS x FROM t", list("sum(k)", n));
    "HAVING" ALL n format!("SELECT k FROM t GROUP BY k HAVING 1 IN ({})", list("sum(c + #)", n));
    "window: ORDER BY one column" ALL n format!("SELECT sum(c) OVER (ORDER BY {}) AS x FROM t", list("k", n));
    "window: ORDER BY" ALL n format!("SELECT sum(c) OVER (ORDER BY {}) AS x FROM t", list("k + #", n));
    "window: PARTITION BY one column" ALL n format!("SELECT sum(c) OVER (PARTITION BY {}) AS x FROM t", list("k", n));
    "window: PARTITION BY" ALL n format!("SELECT sum(c) OVER (PARTITION BY {}) AS x FROM t", list("k + #", n));
    "window: by name" ALL n format!("SELECT sum(c) OVER w AS x FROM t WINDOW w AS (ORDER BY {})", list("k", n));
    "windows by name" ALL n format!("SELECT sum(c) OVER w0 AS x FROM t WINDOW {}", list("w# AS (ORDER BY k)", n));
    "uses of a window by name" ALL n format!("SELECT 1 IN ({}) AS x FROM t WINDOW w AS (ORDER BY k)", list("sum(c) OVER w", n));
    "one window" ALL n format!("SELECT 1 IN ({}) AS x FROM t", list("sum(c) OVER (ORDER BY k)", n));
    "windows" ALL n format!("SELECT 1 IN ({}) AS x FROM t", list("sum(c) OVER (ORDER BY k + #)", n));
    "expressions beside a window" ALL n format!("SELECT sum(c) OVER (ORDER BY k) AS w, 1 IN ({}) AS x FROM t", list("k + #", n));
    "aggregates beside a window" ALL n format!("SELECT 1 IN ({}) AS x FROM t", list("sum(sum(k + #)) OVER ()", n));
    // Relations.
    "joins" ALL n format!("SELECT 1 AS x FROM t t0 {}", (1..n).map(|i| format!("JOIN t t{i} ON t{i}.k = t0.k ")).collect::<String>());
    "joins in a row" ALL n format!("SELECT 1 AS x FROM t t0 {}", (1..n).map(|i| format!("LEFT JOIN t t{i} ON t{i}.k = t{}.c ", i - 1)).collect::<String>());
    "joins with USING" ALL n format!("SELECT 1 AS x FROM t t0 {}", (1..n).map(|i| format!("JOIN t t{i} USING (k) ")).collect::<String>());
    "natural joins" ALL n format!("SELECT 1 AS x FROM u u0 {}", (1..n).map(|i| format!("NATURAL JOIN u u{i} ")).collect::<String>());
    "conditions of a join" ALL n format!("SELECT 1 AS x FROM t JOIN u ON {}", many("t.k = u.k", n, " AND "));
    "tables" ALL n format!("SELECT 1 AS x FROM {}", list("t t#", n));
    "subqueries" ALL n format!("SELECT 1 IN (0, {}) AS x", list("(SELECT max(k) FROM t)", n));
    "subqueries without FROM" ALL n format!("SELECT 1 IN (0, {}) AS x", list("(SELECT #)", n));
    "EXISTS" ALL n format!("SELECT 1 AS x FROM t WHERE {}", many("EXISTS (SELECT 1 FROM u WHERE u.k = t.k)", n, " AND "));
    "subqueries inside of subqueries" ALL n format!("{}SELECT k FROM t{}", "SELECT k FROM (".repeat(n), ") s".repeat(n));
    "UNION" ALL n many("SELECT k FROM t", n, " UNION ");
    "UNION ALL" ALL n many("SELECT # AS x", n, " UNION ALL ");
    "EXCEPT" ALL n many("SELECT # AS x", n, " EXCEPT ");
    "a query over UNION ALL" ALL n format!("SELECT 1 IN ({}) AS x FROM ({}) s", list("k", n), many("SELECT k FROM t", 100, " UNION ALL "));
    "a condition over UNION ALL" ALL n format!("SELECT 1 AS x FROM ({1}) s WHERE k IN ({0})", list("abs(k)", n), many("SELECT k FROM t GROUP BY k", 100, " UNION ALL "));
    "UNION ALL below" ALL n format!("SELECT abs(k) + abs(k) + abs(k) AS x FROM ({}) s", many("SELECT k FROM t", n, " UNION ALL "));
    "common table expressions" ALL n format!("WITH {} SELECT 1 AS x", list("c# AS (SELECT k FROM t)", n));
    "common table expressions in a chain" ALL n chain("SELECT k AS x FROM t", "SELECT x FROM c#", n);
    "expressions doubled in a chain" ALL n chain("SELECT k AS x FROM t", "SELECT x + x AS x FROM c#", n);
    "expressions doubled in subqueries" ALL n format!("{}SELECT k AS x FROM t{}", "SELECT x + x AS x FROM (".repeat(n), ") s".repeat(n));
    "uses of a common table expression" ALL n format!("WITH c AS (SELECT k FROM t) SELECT 1 IN (0, {}) AS x", list("(SELECT max(k) FROM c)", n));
    "uses of a long expression" NOT_MYSQL n format!("SELECT (1 = 1) IN ({}) AS y FROM (SELECT k IN ({}) AS x FROM t) s", list("x", n), list("k", n));
    "uses of a long alias" SQLITE n format!("SELECT 1 IN ({}) AS x FROM t WHERE 1 IN ({})", list("k", n), list("x", n));
    "columns of a view" ALL n format!("SELECT 1 IN ({}) AS x FROM w", list("s", n));
    // Parameters, names, blanks.
    "parameters" SQLITE n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("?", n));
    "parameters by name" SQLITE n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list(":p#", n));
    "parameters by number" POSTGRES n format!("SELECT 1 AS x FROM t WHERE k IN ({})", (1..=n).map(|i| format!("${i}")).collect::<Vec<_>>().join(", "));
    "marks" MYSQL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("?", n));
    "quoted names" NOT_MYSQL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("\"k\"", n));
    "names in backticks" MYSQL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("`k`", n));
    "names with their table" ALL n format!("SELECT 1 AS x FROM t WHERE k IN ({})", list("t.k", n));
    "a long name" ALL n format!("SELECT k AS {} FROM t", "n".repeat(n));
    "a long string" ALL n format!("SELECT '{}' AS x", "n".repeat(n));
    "quotes in a string" ALL n format!("SELECT '{}' AS x", "''".repeat(n));
    "comments" ALL n format!("SELECT {} 1 AS x", "/* c */ ".repeat(n));
    "lines" ALL n format!("SELECT {} 1 AS x", "-- c\n".repeat(n));
    "signs" ALL n format!("SELECT {}1 AS x", "- ".repeat(n));
    "NOT" ALL n format!("SELECT 1 AS x FROM t WHERE {} k = 1", "NOT ".repeat(n));
    "semicolons" ALL n format!("SELECT 1 AS x{}", ";".repeat(n));
    // Changes.
    "rows of INSERT" ALL n format!("INSERT INTO u (k, a) VALUES {}", list("(#, 'x')", n));
    "computed rows of INSERT" ALL n format!("INSERT INTO u (k, a) VALUES {}", list("(abs(#), 'x')", n));
    "ON CONFLICT" NOT_MYSQL n format!("INSERT INTO t (k, c) VALUES {} ON CONFLICT (k) DO UPDATE SET c = excluded.c", list("(#, 1)", n));
    "ON DUPLICATE KEY" MYSQL n format!("INSERT INTO t (k, c) VALUES {} ON DUPLICATE KEY UPDATE c = VALUES(c)", list("(#, 1)", n));
    "assignments" ALL n format!("UPDATE t SET {} WHERE k = 1", list("c = #", n));
    "an assigned list" ALL n format!("UPDATE t SET c = 1 WHERE k IN ({})", list("#", n));
    "DELETE" ALL n format!("DELETE FROM t WHERE k IN ({})", list("k", n));
    "a guarded change" ALL n format!("DELETE FROM v WHERE k IN ({})", list("k", n));
    "a guarded UPDATE" ALL n format!("UPDATE v SET c = CASE {} END WHERE k = 1", many("WHEN c = # THEN #", n, " "));
    "guarded rows" ALL n format!("INSERT INTO v (k, c, tenant) VALUES {}", list("(#, 1, 1)", n));
    "RETURNING" NOT_MYSQL n format!("UPDATE t SET c = 1 WHERE k = 1 RETURNING {}", list("k + # AS x#", n));
    "clauses of MERGE" POSTGRES n format!("MERGE INTO t USING u ON t.k = u.k {}", many("WHEN MATCHED AND t.c = # THEN UPDATE SET c = #", n, " "));
    "source of MERGE" POSTGRES n format!("MERGE INTO t USING (VALUES {}) s(k, c) ON t.k = s.k WHEN MATCHED THEN UPDATE SET c = s.c", list("(#, 1)", n));
}
