//! What refusals tell of what was probably meant.

use super::*;

/// What stands in another source of the statement by exactly this name is meant before a name that is near.
#[test]
fn a_wrong_alias_is_told_with_the_right_one() {
    let hidden = r#"forbid(principal, action, resource == Column::"SCHEMA.shops.town");"#;
    let all = firewall(sqlite(), "");
    let some = firewall(sqlite(), hidden);
    check(
        &all,
        &[
            (
                "SELECT s.town FROM sales s JOIN shops h ON h.id = s.shop",
                "there is no column `s.town`; did you mean `h.town`?",
            ),
            (
                "SELECT (SELECT h.price FROM shops h WHERE h.id = s.shop) FROM sales s",
                "there is no column `h.price`; did you mean `s.price`?",
            ),
            (
                "SELECT (SELECT s.pricee FROM shops h) FROM sales s",
                "there is no column `s.pricee`; did you mean `s.price`?",
            ),
            (
                "SELECT s.nothing FROM sales s",
                "there is no column `s.nothing`",
            ),
            (
                "SELECT sales.id FROM sales s",
                "`sales` is called `s` in this statement; write `s` before its columns",
            ),
            (
                "SELECT sales.* FROM sales AS \"the s\"",
                "`sales` is called `\"the s\"` in this statement",
            ),
            (
                "SELECT (SELECT main.sales.id) FROM sales s",
                "`main.sales` is called `s` in this statement",
            ),
            (
                "SELECT slaes.id FROM sales",
                "no table of the statement is called `slaes`; did you mean `sales`?",
            ),
            (
                "SELECT x.id FROM sales s",
                "no table of the statement is called `x`",
            ),
            (
                "SELECT price.cents FROM sales s",
                "`price` is a column, and no table of the statement; if it holds JSON documents, a key of one is `price->>'key'`",
            ),
        ],
    );
    let told = outcome(
        &some,
        "SELECT s.town FROM sales s JOIN shops h ON h.id = s.shop",
    );
    assert!(told.ends_with("there is no column `s.town`"), "{told}");
}

/// What another engine writes otherwise is refused with the form of this one.
#[test]
fn what_is_not_supported_is_told_with_what_is() {
    let cases = [
        ("SELECT TOP 5 id FROM sales", "write LIMIT behind the query"),
        (
            "SELECT CONVERT(VARCHAR, id) FROM sales",
            "write CAST(x AS type)",
        ),
        (
            "SELECT id, row_number() OVER (ORDER BY id) AS n FROM sales QUALIFY n = 1",
            "write the window in a subquery",
        ),
    ];
    let shown = [
        (
            "SELECT date('now') + INTERVAL 1 DAY",
            "write date(x, '+30 days')",
        ),
        (
            "SELECT EXTRACT(YEAR FROM area) FROM sales",
            "write strftime('%Y', x)",
        ),
        (
            "SELECT SUBSTRING(area FROM 2) FROM sales",
            "write substr(x, start, length)",
        ),
        (
            "SELECT id FROM sales WHERE area REGEXP 'a'",
            "write LIKE or GLOB",
        ),
        ("SELECT greatest(id, 1) FROM sales", "write max(a, b)"),
    ];
    let lite = firewall(sqlite(), "");
    check(&lite, &cases);
    check(&lite, &shown);
    let server = firewall(postgres(TABLES, "public").unwrap(), "");
    check(&server, &cases);
    check(
        &server,
        &[
            (
                "SELECT id FROM sales WHERE area RLIKE 'a'",
                "write x ~ 'pattern'",
            ),
            (
                "SELECT id FROM sales LIMIT 5, 10",
                "LIMIT with two numbers is not supported: write LIMIT count OFFSET start",
            ),
            ("SELECT `id` FROM sales", "write names bare, or as \"name\""),
            (
                "SELECT [id] FROM sales",
                "names stand bare or in double quotes",
            ),
            (
                "SELECT timestampdiff(day, id, id) FROM sales",
                "write b - a",
            ),
            ("SELECT stdev(id) FROM sales", "write stddev(x)"),
            (
                "SELECT cuont(*) FROM sales",
                "there is no function `cuont`; did you mean `count`?",
            ),
            (
                "SELECT date_trunk('day', now())",
                "did you mean `date_trunc`?",
            ),
            (
                "WITH order_totals AS (SELECT 1 AS n) SELECT n FROM order_total",
                "there is no table or view `order_total`; did you mean `order_totals`?",
            ),
            (
                "SELECT tableoid::regclass FROM sales",
                "function.not-allowed: a cast to `regclass` looks names up",
            ),
            (
                "EXPLAIN sales",
                "name.system-relation: what tables and columns there are",
            ),
            ("SHOW server_version", "SHOW statements are not permitted"),
            (
                "SELECT id FROM sales WHERE area = “north east”",
                "typographic quotation marks quote nothing; write texts as 'text'",
            ),
            (
                "SELECT id FROM sales WHERE area = ‘north’",
                "there is no column `‘north’`; a text stands in single quotes: `'north'`",
            ),
            (
                "SELECT id FROM sales WHERE area = \"it's\"",
                "there is no column `it's`; a text stands in single quotes: `'it''s'`",
            ),
            (
                "SELECT id FROM sales WHERE area = \"aera\"",
                "did you mean `area`? A text stands in single quotes: `'aera'`",
            ),
            (
                "SELECT id FROM sales WHERE \"AREA\" = 'x'",
                "there is no column `AREA`; did you mean `area`?",
            ),
        ],
    );
}

/// Whoever reads a view has not written what it calls: the function is the operator's to know. So say the metadata too.
#[test]
fn a_view_that_calls_what_no_policy_permits_is_refused_as_a_view() {
    let views = format!(
        "{TABLES}
        CREATE FUNCTION price_of(id integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
        CREATE VIEW priced AS SELECT id, price_of(id) AS price FROM sales;
        CREATE VIEW above AS SELECT id FROM priced;
        CREATE VIEW plain AS SELECT id, abs(price) AS price FROM sales;"
    );
    let named =
        r#"permit(principal, action == Action::"call", resource == Function::"public.price_of");"#;
    let catalog = || postgres(&views, "public").unwrap();
    let refusing = firewall(catalog(), "");
    let permitting = firewall(catalog(), named);
    let told = |view: &str| {
        format!("function.not-allowed: the view `{view}` calls a function that no policy permits")
    };
    for view in ["priced", "above"] {
        let sql = format!("SELECT id FROM {view}");
        let Decision::Reject(why) = refusing.check(&sql, &Params::None, &session()).unwrap() else {
            panic!("{sql}")
        };
        assert_eq!(why.to_string(), told(view));
        let detail = why.operator_detail().unwrap();
        assert!(
            detail.contains(r#"`resource == Function::"public.price_of"`"#),
            "{detail}"
        );
        assert!(outcome(&permitting, &sql).starts_with("SELECT"), "{sql}");
    }
    let readable = |firewall: &Firewall| -> Vec<(String, bool)> {
        let relations = firewall.relations(&session()).unwrap().into_iter();
        let views = relations.filter(|relation| relation.kind == "view");
        views.map(|view| (view.name, view.readable)).collect()
    };
    let listed = |all: bool| {
        [("above", all), ("plain", true), ("priced", all)].map(|(name, is)| (name.to_owned(), is))
    };
    assert_eq!(readable(&refusing), listed(false));
    assert_eq!(readable(&permitting), listed(true));
}

/// A sequence of numbers is no table that the firewall knows, whatever MariaDB has.
#[test]
fn tables_of_numbers_are_told_with_a_recursion() {
    let server = firewall(mysql(TABLES, "app").unwrap(), "");
    check(
        &server,
        &[
            ("SELECT seq FROM seq_1_to_5", "write WITH RECURSIVE s AS"),
            (
                "SELECT seq FROM seq_1_to_5_step_2",
                "write WITH RECURSIVE s AS",
            ),
        ],
    );
    let told = outcome(&server, "SELECT seq FROM seq_1_to_x");
    assert!(
        told.ends_with("there is no table or view `seq_1_to_x`"),
        "{told}"
    );
}

/// Clients ask who and where they are before anything else. What tells of more than the session's own account keeps to a permit of its
/// own.
#[test]
fn functions_of_the_own_account_need_no_permit_by_name() {
    let server = firewall(postgres(TABLES, "public").unwrap(), "");
    for call in [
        "current_user",
        "session_user",
        "user",
        "current_role",
        "current_database()",
        "current_catalog",
        "current_schema",
        "current_schema()",
    ] {
        let told = outcome(&server, &format!("SELECT {call}"));
        assert!(told.starts_with("SELECT"), "{call}\n{told}");
    }
    for call in [
        "version()",
        "system_user",
        "current_schemas(true)",
        "current_setting('port')",
    ] {
        let told = outcome(&server, &format!("SELECT {call}"));
        assert!(
            told.contains("no policy permits it by name"),
            "{call}\n{told}"
        );
    }
}

/// Labels of a type may be those of hidden columns alone; those of a column that is shown are told elsewhere.
#[test]
fn a_function_of_labels_is_told_with_where_they_stand() {
    let tables = format!("CREATE TYPE mood AS ENUM ('a', 'b');\n{TABLES}");
    let server = firewall(postgres(&tables, "public").unwrap(), "");
    check(
        &server,
        &[(
            "SELECT enum_range(NULL::mood)",
            "`enum_range` is a function of the class `catalog`, and no policy permits it by name; \
             the description of a table tells the labels of its enum columns: list them in VALUES",
        )],
    );
}

/// An aggregate that may not see a column is told with the reason, whatever else uses what it gives.
#[test]
fn an_aggregate_that_may_not_see_its_column_is_told() {
    let guarded = "@aggregate_only(\"3\") forbid(principal, action == Action::\"read_plain\",
        resource == Column::\"SCHEMA.sales.price\");";
    let cases = [
        (
            "SELECT area, sum(price * shop) AS cost FROM sales GROUP BY area ORDER BY cost",
            "here `sum` is computed from an expression: write count, sum or avg of the column itself",
        ),
        (
            "SELECT sum(CASE WHEN price > 5 THEN price END) AS cost FROM sales ORDER BY cost",
            "CASE WHEN … THEN column END with a condition on other columns",
        ),
        (
            "SELECT area, max(price) AS most FROM sales GROUP BY area ORDER BY most",
            "here `max` is computed from it, which is not among these",
        ),
        (
            "SELECT sum(price) OVER () AS s FROM sales ORDER BY s",
            "here `sum` is computed over a window",
        ),
        (
            "SELECT sum(DISTINCT price) FROM sales",
            "here `sum` takes DISTINCT values: write it without DISTINCT",
        ),
        (
            "SELECT id FROM sales ORDER BY price",
            "here rows are ordered by it",
        ),
        (
            "SELECT count(*) FROM sales WHERE price > 5",
            "here a condition compares it",
        ),
    ];
    check(&firewall(sqlite(), guarded), &cases);
    let server = firewall(postgres(TABLES, "public").unwrap(), guarded);
    check(&server, &cases);
    check(
        &server,
        &[(
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM sales",
            "here `percentile_cont` is computed from it, which is not among these",
        )],
    );
}

/// A name of MySQL and MariaDB holds no character beyond the first 65536: they put `?` there, and refuse an alias with it.
#[test]
fn names_are_as_the_server_can_hold_them() {
    let server = firewall(mysql(TABLES, "app").unwrap(), "");
    check(
        &server,
        &[
            (
                "SELECT count(CASE WHEN area LIKE '%😀%' THEN 1 END) FROM sales",
                "AS `count(CASE WHEN area LIKE '%?%' THEN 1 END)`",
            ),
            ("SELECT 'it''s'", "AS `it's`"),
            (
                "SELECT q.`it's` FROM (SELECT 'it''s') AS q",
                "SELECT 'it''s' AS `it's`",
            ),
        ],
    );
}

/// Slips of dialects that the engine would call words where its grammar has none are told with the right form.
#[test]
fn forms_of_other_dialects_are_told_before_the_run() {
    let slips = [
        (
            "SELECT now() - INTERVAL 30 DAY",
            "write INTERVAL '30 days', or n * INTERVAL '1 day'",
        ),
        (
            "SELECT current_date()",
            "`current_date` is called without parentheses",
        ),
        (
            "SELECT CURRENT_TIMESTAMP()",
            "`current_timestamp` is called without parentheses",
        ),
        (
            "SELECT s.id FROM sales s JOIN shops h",
            "a JOIN has no condition",
        ),
        (
            "SELECT s.id FROM sales s LEFT JOIN shops h",
            "a JOIN has no condition",
        ),
    ];
    let server = firewall(postgres(TABLES, "public").unwrap(), "");
    check(&server, &slips);
    for sql in [
        "SELECT now() - INTERVAL '30 days', INTERVAL '30' DAY, INTERVAL '1-2' YEAR TO MONTH",
        "SELECT current_date, current_timestamp(3), current_schema()",
        "SELECT s.id FROM sales s CROSS JOIN shops h",
        "SELECT s.id FROM sales s NATURAL JOIN shops h",
        "SELECT s.id FROM sales s, shops h JOIN shops i ON i.id = h.id",
        "SELECT s.id FROM sales s JOIN (shops h JOIN shops i ON i.id = h.id) ON h.id = s.shop",
    ] {
        let told = outcome(&server, sql);
        assert!(told.starts_with("SELECT"), "{told}");
    }
    let other = firewall(mysql(TABLES, "app").unwrap(), "");
    for (sql, is_read) in [
        ("SELECT s.id FROM sales s JOIN shops h", true),
        ("SELECT s.id FROM sales s LEFT JOIN shops h", false),
        ("SELECT NOW() - INTERVAL 30 DAY, CURRENT_DATE()", true),
    ] {
        let told = outcome(&other, sql);
        assert_eq!(told.starts_with("SELECT"), is_read, "{told}");
    }
}
