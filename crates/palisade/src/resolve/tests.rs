//! What is decided of statements by how their parts are read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod fences;
mod hints;

use crate::{
    catalog::{
        Catalog, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass,
        test_ddl::{mysql, postgres},
    },
    dialect::Dialect,
    firewall::{Decision, Firewall},
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    token::TokenSecret,
    value::{Params, Value},
};

const ALL: &str = "permit(principal, action, resource);\n";

const SHOP_3_IS_HIDDEN: &str =
    "forbid(principal, action == Action::\"see\", resource is row::SCHEMA::sales)
    when { resource has shop && resource.shop == 3 };\n";

const TABLES: &str =
    "CREATE TABLE sales (id integer PRIMARY KEY, area varchar(20), shop integer, price integer);
    CREATE TABLE shops (id integer PRIMARY KEY, town varchar(20));\n";

fn secret() -> TokenSecret {
    TokenSecret::new("a secret that is long enough for a test")
}

/// A firewall that permits everything but what `policies` forbid.
fn firewall(catalog: Catalog, policies: &str) -> Firewall {
    let schema = catalog.default_schema().to_owned();
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: format!("{ALL}{policies}").replace("SCHEMA", &schema),
        }],
        ..PolicySources::default()
    };
    let builder = Firewall::builder(catalog, sources).allow_changes();
    builder
        .token_secret(secret())
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

/// The rewritten text, or the refusal, which begins with its code.
fn outcome(firewall: &Firewall, sql: &str) -> String {
    match firewall.check(sql, &Params::None, &session()).unwrap() {
        Decision::Allow(statement) => statement.text().to_owned(),
        Decision::Reject(why) => why.to_string(),
    }
}

fn check(firewall: &Firewall, cases: &[(&str, &str)]) {
    for (sql, told) in cases {
        let found = outcome(firewall, sql);
        assert!(found.contains(told), "{sql}\n{found}\n{told}");
    }
}

/// Changes with a condition, and such without one.
fn check_conditions(firewall: &Firewall, cases: &[(&str, bool)]) {
    for (sql, has_condition) in cases {
        let found = outcome(firewall, sql);
        let is_refused = found.starts_with("write.no-condition");
        let verb = sql.split(' ').next().unwrap();
        assert!(is_refused || found.starts_with(verb), "{sql}\n{found}");
        assert_eq!(!is_refused, *has_condition, "{sql}\n{found}");
    }
}

fn is_fenced(firewall: &Firewall, sql: &str, params: &Params) -> bool {
    let (decision, trace) = firewall.explain(sql, params, &session()).unwrap();
    assert!(
        matches!(decision, Decision::Allow(_)),
        "{sql}\n{decision:?}"
    );
    trace.fenced
}

fn column(name: &str, class: TypeClass) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: match class {
            TypeClass::Integer => "INTEGER".to_owned(),
            _ => "TEXT".to_owned(),
        },
        class,
        nullable: name != "id",
        collation: "BINARY".to_owned(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    }
}

/// The tables of [`TABLES`] on SQLite.
fn sqlite() -> Catalog {
    let table = |name: &str, columns: &[&str]| RelationDef {
        primary_key: vec!["id".to_owned()],
        has_rowid: true,
        ..RelationDef::new(
            "main",
            name,
            RelationKind::Table,
            columns
                .iter()
                .map(|name| match *name {
                    "area" | "town" => column(name, TypeClass::Text),
                    _ => column(name, TypeClass::Integer),
                })
                .collect(),
        )
    };
    Catalog::builder(Dialect::Sqlite)
        .relation(table("sales", &["id", "area", "shop", "price"]))
        .relation(table("shops", &["id", "town"]))
        .build()
        .unwrap()
}

/// The shape that a guarded aggregate gets, or why there is none.
#[test]
fn aggregates_alone_see_what_they_alone_may_see() {
    let guarded = firewall(
        sqlite(),
        r#"@aggregate_only("3") forbid(principal, action == Action::"read_plain", resource == Column::"main.sales.price");"#,
    );
    check(
        &guarded,
        &[
            (
                "SELECT avg(price) FROM sales",
                "CASE WHEN count(price) >= 3 THEN avg(price) END",
            ),
            // Rows are chosen by a condition that is the same whenever it is computed.
            (
                "SELECT avg(CASE WHEN area IS NULL THEN price END) FROM sales",
                "CASE WHEN count(CASE WHEN area IS NULL THEN price END) >= 3 THEN",
            ),
            (
                "SELECT sum(price) FILTER (WHERE (shop = 1)) FROM sales",
                "CASE WHEN count(price) FILTER (WHERE (shop = 1)) >= 3 THEN",
            ),
            // An aggregate is computed before the size of its group is looked at, and so none may fail.
            (
                "SELECT sum(price) FROM sales",
                "THEN sum(CASE WHEN CAST(price AS INTEGER) <> price THEN 0 ELSE CAST(price AS INTEGER) / 4398046511104 END) * 4398046511104",
            ),
            (
                "SELECT total(price) FROM sales",
                "CASE WHEN count(price) >= 3 THEN total(price) END",
            ),
            (
                "SELECT sum(CAST(price AS REAL)) FROM sales",
                "CASE WHEN count(price) >= 3 THEN sum(CAST(price AS REAL)) END",
            ),
            (
                "SELECT sum(CAST(price AS INTEGER)) FROM sales",
                "obligation.aggregate-only",
            ),
            (
                "SELECT avg(coalesce(price, 0)) FROM sales",
                "CASE WHEN count(price) >= 3 THEN avg(coalesce(price, 0)) END",
            ),
            (
                "SELECT avg(coalesce(price, 1)) FROM sales",
                "obligation.aggregate-only",
            ),
            (
                "SELECT avg(iif(shop = 1, ifnull(price, 0), 0)) FROM sales",
                "CASE WHEN count(CASE WHEN shop = 1 THEN price END) >= 3 THEN",
            ),
            (
                "SELECT avg(CASE shop WHEN 1 THEN iif(area = 'x', price, NULL) END) FROM sales",
                "count(CASE WHEN ((shop) = (1)) AND (area = 'x') THEN price END) >= 3",
            ),
            (
                "SELECT avg(iif(price > 1, price, 0)) FROM sales",
                "obligation.aggregate-only",
            ),
            (
                "SELECT avg(CASE WHEN random() > 0 THEN price END) FROM sales",
                "obligation.aggregate-only",
            ),
            // A join repeats rows, and each counts once.
            (
                "SELECT avg(sales.price) FROM sales JOIN shops ON shops.id = sales.shop",
                "count(DISTINCT CASE WHEN sales.price IS NOT NULL THEN \"sales\".\"id\" END) >= 3",
            ),
            (
                "SELECT count(d.price) FROM (SELECT price FROM sales) d",
                "CASE WHEN count(d.price) >= 3 THEN count(d.price) END",
            ),
            // A derived table whose rows are groups passes no column of a row on.
            (
                "SELECT count(d.price) FROM (SELECT price FROM sales HAVING count(*) > 0) d",
                "obligation.aggregate-only",
            ),
            (
                "SELECT count(d.price) FROM (SELECT DISTINCT price FROM sales) d",
                "obligation.aggregate-only",
            ),
        ],
    );
}

#[test]
fn a_condition_compares_the_changed_row_with_something_else() {
    check_conditions(
        &firewall(sqlite(), ""),
        &[
            ("DELETE FROM sales WHERE shop = 5", true),
            ("DELETE FROM sales WHERE shop = shop + 0", false),
            ("DELETE FROM sales WHERE shop <> shop + 0", false),
            ("DELETE FROM sales WHERE (id, shop) = (id, 5)", true),
            ("DELETE FROM sales WHERE (id, shop) = (id, shop + 0)", false),
            ("DELETE FROM sales WHERE id = 1 AND TRUE", true),
            ("DELETE FROM sales WHERE id = 1 OR TRUE", false),
            ("DELETE FROM sales WHERE id BETWEEN id AND 5", true),
            ("DELETE FROM sales WHERE id BETWEEN id AND id", false),
            ("DELETE FROM sales WHERE id NOT BETWEEN 1 AND 5", true),
        ],
    );
}

/// A joined row goes with the changed one where the join says so.
#[test]
fn what_mysql_groups_otherwise_ties_no_joined_row() {
    let change = |on: &str| {
        format!("UPDATE sales s LEFT JOIN shops b ON {on} SET s.area = 'x' WHERE b.town = 'y'")
    };
    check_conditions(
        &firewall(mysql(TABLES, "main").unwrap(), ""),
        &[
            (&change("b.id = s.shop AND b.town = s.area"), true),
            // `(s.shop = s.shop) XOR b.id` to the engine.
            (&change("s.shop = s.shop XOR b.id"), false),
            (&change("(b.id = s.shop) XOR (b.town = s.area)"), false),
            (&change("b.id = 1"), false),
        ],
    );
}

/// Functions that a statement calls where none is written.
#[test]
fn casts_operators_and_triggers_call_their_functions() {
    let schema = format!(
        "{TABLES}
        CREATE TYPE mood AS ENUM ('a', 'b');
        CREATE FUNCTION text_of(mood) RETURNS text AS 'x' LANGUAGE sql;
        CREATE CAST (mood AS text) WITH FUNCTION text_of(mood);
        CREATE FUNCTION json_of(mood) RETURNS json AS 'x' LANGUAGE sql;
        CREATE CAST (mood AS json) WITH FUNCTION json_of(mood);
        CREATE TABLE moods (id integer, m mood, plain integer);
        CREATE TYPE pair AS (a integer, m mood);
        CREATE TABLE pairs (id integer, p pair);
        CREATE FUNCTION join_texts(text, text) RETURNS text AS 'x' LANGUAGE sql;
        CREATE OPERATOR public.+ (LEFTARG = text, RIGHTARG = text, FUNCTION = join_texts);
        CREATE TABLE parts (id integer, at date) PARTITION BY RANGE (at);
        CREATE TABLE part PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
        CREATE FUNCTION fires() RETURNS trigger AS 'x' LANGUAGE plpgsql;
        CREATE TRIGGER fires AFTER INSERT ON part FOR EACH ROW EXECUTE FUNCTION fires();
        CREATE TABLE whole (id integer, at date);
        CREATE TRIGGER fires AFTER INSERT ON whole FOR EACH ROW EXECUTE FUNCTION fires();"
    );
    let permits: String = [
        "pg_catalog.regrolein",
        "pg_catalog.regtypein",
        "public.text_of",
        "public.json_of",
        "public.join_texts",
        "public.fires",
    ]
    .map(|uid| {
        format!("permit(principal, action == Action::\"call\", resource == Function::\"{uid}\");\n")
    })
    .concat();
    let firewall = firewall(postgres(&schema, "main").unwrap(), &permits);
    for (sql, called) in [
        ("SELECT 'x'::regrole", &["pg_catalog.regrolein"] as &[&str]),
        ("SELECT 'x'::regtype", &["pg_catalog.regtypein"]),
        (
            "SELECT CAST(CAST('a' AS mood) AS text)",
            &["public.text_of"],
        ),
        ("SELECT CAST(town AS text) FROM shops", &[]),
        (
            "SELECT town + CAST('x' AS text) FROM shops",
            &["public.join_texts"],
        ),
        ("SELECT town || CAST('x' AS text) FROM shops", &[]),
        (
            "SELECT json_build_object('a', m) FROM moods",
            &["pg_catalog.json_build_object", "public.json_of"],
        ),
        (
            "SELECT to_jsonb(q) FROM moods AS q",
            &["pg_catalog.to_jsonb", "public.json_of"],
        ),
        (
            "SELECT to_jsonb(p) FROM pairs",
            &["pg_catalog.to_jsonb", "public.json_of"],
        ),
        (
            "SELECT json_agg(plain) FROM moods",
            &["pg_catalog.json_agg"],
        ),
        ("INSERT INTO parts (id) VALUES (1)", &["public.fires"]),
        // The row may move to another partition, which inserts it there.
        ("UPDATE parts SET id = 2 WHERE id = 1", &["public.fires"]),
        ("UPDATE part SET id = 2 WHERE id = 1", &["public.fires"]),
        ("DELETE FROM parts WHERE id = 1", &[]),
        ("UPDATE whole SET id = 2 WHERE id = 1", &[]),
    ] {
        let (decision, trace) = firewall.explain(sql, &Params::None, &session()).unwrap();
        assert!(
            matches!(decision, Decision::Allow(_)),
            "{sql}\n{decision:?}"
        );
        assert_eq!(trace.functions, called, "{sql}");
    }
    assert!(outcome(&firewall, "SELECT 'x'::absent").starts_with("name.unknown-type"));
}

#[test]
fn definitions_are_looked_at_to_their_ends() {
    check(
        &firewall(sqlite(), ""),
        &[
            (
                "CREATE TABLE t (a int, PRIMARY KEY (a))",
                "CREATE TABLE \"main\".\"t\"",
            ),
            (
                "CREATE TABLE t (a int, PRIMARY KEY (b))",
                "name.unknown-column",
            ),
            (
                "CREATE TABLE t (a int DEFAULT (nothing()))",
                "function.unknown",
            ),
            (
                "CREATE TABLE t (a int CHECK (nothing > 1))",
                "name.unknown-column",
            ),
            ("CREATE INDEX i ON sales (nothing)", "name.unknown-column"),
            ("CREATE INDEX i ON sales (1)", "a constant in an index"),
            ("TRUNCATE TABLE sales", "SQLite has no TRUNCATE"),
        ],
    );
    let mysql = firewall(mysql(TABLES, "main").unwrap(), "");
    check(&mysql, &[("TRUNCATE TABLE sales", "TRUNCATE TABLE `main`")]);
}

#[test]
fn names_and_operators_may_stand_with_where_they_are_from() {
    let postgres = firewall(postgres(TABLES, "main").unwrap(), "");
    check(
        &postgres,
        &[
            (
                "SELECT id FROM main.public.sales",
                "FROM \"public\".\"sales\"",
            ),
            (
                "SELECT id FROM other.public.sales",
                "a relation name of this form",
            ),
            (
                "SELECT id FROM sales ORDER BY id USING OPERATOR(pg_catalog.<)",
                "ORDER BY \"id\" USING OPERATOR(pg_catalog.<)",
            ),
            (
                "SELECT id FROM sales ORDER BY id USING OPERATOR(other.<)",
                "ORDER BY … USING",
            ),
        ],
    );
    check(
        &firewall(sqlite(), ""),
        &[("SELECT _utf8'x'", "a prefixed literal is not supported")],
    );
}

#[test]
fn rows_from_takes_plain_calls_alone() {
    let postgres = firewall(postgres(TABLES, "main").unwrap(), "");
    let refused = "anything but plain calls in ROWS FROM";
    check(
        &postgres,
        &[
            (
                "SELECT * FROM ROWS FROM (generate_series(1, 3)) x",
                "ROWS FROM(pg_catalog.generate_series(1, 3))",
            ),
            (
                "SELECT * FROM ROWS FROM (generate_series(1, 3 ORDER BY 1)) x",
                refused,
            ),
            (
                "SELECT * FROM ROWS FROM (generate_series(1, 3) WITHIN GROUP (ORDER BY 1)) x",
                refused,
            ),
        ],
    );
}

#[test]
fn common_table_expressions_are_read_in_their_order() {
    check(
        &firewall(sqlite(), ""),
        &[
            (
                "WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT * FROM a, b",
                "SELECT * FROM a, b",
            ),
            (
                "WITH a AS (SELECT * FROM b), b AS (SELECT 2 AS y) SELECT * FROM a, b",
                "read before it is defined",
            ),
        ],
    );
}

/// MySQL stops a recursion without an end after some rounds, and answers with what there is.
#[test]
fn the_condition_of_a_join_may_end_a_recursion() {
    let recursion = |arm: &str| {
        format!(
            "WITH RECURSIVE r AS (SELECT id, shop FROM sales UNION ALL SELECT s.id, s.shop FROM sales s {arm}) SELECT id FROM r"
        )
    };
    check(
        &firewall(mysql(TABLES, "main").unwrap(), ""),
        &[
            (&recursion("JOIN r ON s.shop = r.id"), "WITH RECURSIVE"),
            (&recursion("CROSS JOIN r"), "limit.cost"),
            (&recursion("LEFT JOIN r ON s.shop = r.id"), "limit.cost"),
        ],
    );
}

/// What stands in the place of a filtered table has no key.
#[test]
fn columns_beside_their_key_become_groups_of_a_filtered_table() {
    let catalog = postgres(TABLES, "main").unwrap();
    check(
        &firewall(catalog, SHOP_3_IS_HIDDEN),
        &[
            (
                "SELECT id, area FROM sales GROUP BY id",
                "GROUP BY \"id\", \"sales\".\"area\"",
            ),
            (
                "SELECT id, town FROM shops GROUP BY id",
                "GROUP BY \"id\" LIMIT",
            ),
        ],
    );
}

const TOWNS_ARE_TOKENS: &str = r#"
forbid(principal, action == Action::"read_plain", resource == Column::"main.shops.town");
@domain("towns") permit(principal, action == Action::"read_token", resource == Column::"main.shops.town");
"#;

#[test]
fn what_is_compared_with_tokens_is_one_and_what_is_added_need_not_be() {
    check(
        &firewall(sqlite(), TOWNS_ARE_TOKENS),
        &[
            ("SELECT id FROM shops WHERE town = 'x'", "token.foreign"),
            ("SELECT town || 'x' AS y FROM shops", "SELECT town || 'x'"),
        ],
    );
}

/// The arms of a recursion are read more than once, and what runs is the tree that was read last.
#[test]
fn tokens_in_a_recursion_stand_without_their_tags() {
    let keys = secret().tokens("Agent::\"a\"", None, "domain towns");
    let hash = "0123456789abcdef0123456789abcdef";
    let token = keys.unwrap().stamp(hash.as_bytes()).unwrap();
    let sql = format!(
        "WITH RECURSIVE r(id) AS (SELECT id FROM shops WHERE town = '{token}' UNION \
         SELECT s.id + 1 FROM shops s JOIN r ON r.id = s.id WHERE s.town = '{token}') SELECT id FROM r"
    );
    let found = outcome(&firewall(sqlite(), TOWNS_ARE_TOKENS), &sql);
    assert_eq!(
        found.matches(&format!("town = '{hash}'")).count(),
        2,
        "{found}"
    );
}

/// A name that we give stands before no name of the statement's own, and the other way round.
#[test]
fn a_renamed_common_table_expression_is_none_of_the_others() {
    let costs = "@aggregate_only(\"2\") forbid(principal, action == Action::\"read_plain\",
        resource == Column::\"SCHEMA.sales.price\");";
    for (catalog, q) in [
        (sqlite(), '"'),
        (postgres(TABLES, "main").unwrap(), '"'),
        (mysql(TABLES, "main").unwrap(), '`'),
    ] {
        let firewall = firewall(catalog, costs);
        let text = outcome(
            &firewall,
            "WITH shops AS (SELECT 1 AS s) SELECT s FROM (WITH shops_cte1 AS (SELECT price AS s FROM sales)
             SELECT s FROM shops WHERE (SELECT sum(s) FROM shops_cte1) > 0) x",
        );
        let renamed = format!("(WITH {q}shops_cte1_cte2{q} AS");
        let read = format!("FROM {q}shops_cte1{q} AS {q}shops{q}");
        assert!(text.contains(&renamed) && text.contains(&read), "{text}");
        let text = outcome(
            &firewall,
            "WITH shops_cte1 AS (SELECT sum(price) AS s FROM sales), shops AS (SELECT 1 AS s)
             SELECT shops.s FROM shops, shops_cte1 AS y",
        );
        let read = format!("FROM {q}shops_cte2{q} AS {q}shops{q}");
        assert!(text.contains(&read), "{text}");
    }
    // Names that the engine keeps for itself.
    for (catalog, name) in [
        (sqlite(), "sqlite_master"),
        (postgres(TABLES, "main").unwrap(), "pg_class"),
        (mysql(TABLES, "main").unwrap(), "dual"),
    ] {
        let sql = format!("WITH {name} AS (SELECT 1 AS s) SELECT s FROM {name}");
        let text = outcome(&firewall(catalog, ""), &sql);
        assert!(text.contains("named_cte1"), "{text}");
    }
}

/// MariaDB compares names of common table expressions without regard to case, and those of tables with it.
#[test]
fn names_of_common_table_expressions_have_no_case_on_mysql() {
    let costs = "@aggregate_only(\"2\") forbid(principal, action == Action::\"read_plain\",
        resource == Column::\"SCHEMA.sales.price\");";
    check(
        &firewall(mysql(TABLES, "main").unwrap(), costs),
        &[
            (
                "WITH T AS (SELECT 1 AS s) SELECT s FROM (WITH t AS (SELECT price AS s FROM sales)
                 SELECT s FROM T WHERE (SELECT sum(s) FROM t) > 0) x",
                "obligation.aggregate-only",
            ),
            (
                "WITH MonthlySum AS (SELECT id FROM shops) SELECT m.id FROM monthlysum m",
                "FROM `MonthlySum`",
            ),
            (
                "WITH RECURSIVE Tree AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM tree WHERE n < 3) SELECT n FROM TREE",
                "FROM `Tree`",
            ),
            (
                "WITH Sales AS (SELECT * FROM sales WHERE shop = 1) SELECT count(*) FROM sales",
                "name.ambiguous",
            ),
            (
                "WITH Sales AS (SELECT * FROM sales WHERE shop = 1) SELECT count(*) FROM Sales",
                "FROM `sales_cte1`",
            ),
            (
                "WITH \u{e9}t AS (SELECT 1 AS n) SELECT n FROM \u{e9}T",
                "FROM `named_cte1`",
            ),
            // Which letters are one is the engine's to say.
            (
                "WITH \u{e9}t AS (SELECT 1 AS n) SELECT n FROM \u{c9}t",
                "syntax.unsupported",
            ),
            (
                "WITH a AS (SELECT 1 AS n), A AS (SELECT 2 AS n) SELECT n FROM a",
                "name.ambiguous",
            ),
        ],
    );
}

/// What the server calls a column of a subquery depends on how it runs it.
#[test]
fn columns_of_subqueries_keep_their_names_on_mysql() {
    check(
        &firewall(mysql(TABLES, "main").unwrap(), ""),
        &[
            (
                "SELECT a.cnt FROM (SELECT count(*) AS CNT FROM sales) a",
                "`cnt` AS `cnt`",
            ),
            (
                "SELECT ID FROM (SELECT id FROM sales UNION SELECT id FROM shops) x",
                "`ID` AS `ID`",
            ),
        ],
    );
}

/// `FULL` is an alias to MySQL and MariaDB, and the join an inner one.
#[test]
fn mysql_has_no_full_join() {
    let sql = "SELECT s.id FROM sales s FULL OUTER JOIN shops b ON b.id = s.shop";
    check(
        &firewall(mysql(TABLES, "main").unwrap(), ""),
        &[
            (sql, "syntax.unsupported"),
            (
                "SELECT id FROM sales FULL JOIN shops USING (id)",
                "syntax.unsupported",
            ),
        ],
    );
    check(
        &firewall(postgres(TABLES, "main").unwrap(), ""),
        &[(sql, "FULL JOIN")],
    );
}

/// A subscript of a column reads no whole row.
#[test]
fn a_subscript_behind_a_table_s_column_reads_that_column_alone() {
    let schema = "CREATE TABLE notes (id integer PRIMARY KEY, tags text[], code text);
        CREATE VIEW firsts AS SELECT notes.id, notes.tags[1] AS first_tag FROM notes;";
    let hidden = "forbid(principal, action in [Action::\"read_plain\", Action::\"read_masked\"],
        resource == Column::\"SCHEMA.notes.code\");";
    check(
        &firewall(postgres(schema, "main").unwrap(), hidden),
        &[
            (
                "SELECT n.tags[1] FROM notes n WHERE n.tags[1:2] = '{a,b}'",
                "\"n\".\"tags\"[1]",
            ),
            (
                "SELECT public.notes.tags[1] FROM public.notes",
                "\"tags\"[1]",
            ),
            ("SELECT (n).tags[1] FROM notes n", "\"tags\"[1]"),
            ("SELECT first_tag FROM firsts", "\"first_tag\""),
            ("SELECT n.code[1] FROM notes n", "name.unknown-column"),
        ],
    );
}

/// With no policy of changes, the way to them is told, and not the one to `execute`.
#[test]
fn where_no_policy_permits_a_change_it_is_said() {
    let sources = PolicySources::from_cedar(
        "p.cedar",
        "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);",
    );
    let firewall = Firewall::builder(sqlite(), sources)
        .allow_changes()
        .token_secret(secret())
        .build()
        .unwrap();
    let sql = "DELETE FROM sales WHERE id = 1";
    match firewall.check(sql, &Params::None, &session()).unwrap() {
        Decision::Allow(_) => panic!("{sql}"),
        Decision::Reject(why) => {
            assert!(why.message().contains("no policy permits DELETE"), "{why}");
            let detail = why.operator_detail().unwrap();
            assert!(detail.contains("Action::\"delete\""), "{detail}");
        }
    }
}

/// SQLite reads a name in double quotes that means nothing as a text. Hidden and absent columns are told of alike.
#[test]
fn names_that_are_read_as_texts_are_told_of() {
    let hidden = "forbid(principal, action in [Action::\"read_plain\", Action::\"read_masked\"],
        resource == Column::\"SCHEMA.sales.price\");";
    let firewall = firewall(sqlite(), hidden);
    let notices = |sql: &str| match firewall.check(sql, &Params::None, &session()).unwrap() {
        Decision::Allow(statement) => {
            let notices = statement.scan_plan().statement_notices();
            notices
                .into_iter()
                .map(|notice| notice.message.to_string())
                .collect()
        }
        Decision::Reject(why) => vec![why.to_string()],
    };
    assert_eq!(notices("SELECT \"id\" FROM sales"), Vec::<String>::new());
    for name in ["price", "pric"] {
        let told = notices(&format!(
            "SELECT \"id\", \"{name}\" FROM sales WHERE \"{name}\" IS NOT NULL"
        ));
        assert_eq!(
            told,
            [format!(
                "`\"{name}\"` names no column here, and was read as the text '{name}'. Texts are written in single quotes."
            )]
        );
    }
}

/// A call may ask for as many characters as numbers of a row say, bounded where it runs.
#[test]
fn sizes_of_calls_are_made_of_numbers() {
    let schema = format!(
        "{TABLES}
        CREATE TYPE pair AS (a integer, b integer);
        CREATE FUNCTION less(pair, pair) RETURNS pair AS 'x' LANGUAGE sql;
        CREATE OPERATOR public.- (LEFTARG = pair, RIGHTARG = pair, FUNCTION = less);"
    );
    check(
        &firewall(postgres(&schema, "main").unwrap(), ""),
        &[
            (
                "SELECT repeat('  ', id - 1) || area FROM sales",
                "THEN 1000000 ELSE",
            ),
            (
                "SELECT shop, repeat('#', count(*)::int) FROM sales GROUP BY shop",
                "CASE WHEN pg_catalog.count(*)::INT",
            ),
            (
                "SELECT repeat('#', least(coalesce(price, 0), 10)) FROM sales",
                "CASE WHEN least(coalesce(",
            ),
            (
                "SELECT repeat('#', round(price / 10.0)::int) FROM sales",
                "CASE WHEN pg_catalog.round(",
            ),
            (
                "SELECT repeat('#', (random() * 10)::int) FROM sales",
                "limit.cost",
            ),
            (
                "SELECT repeat('#', (SELECT max(price) FROM sales)) FROM sales",
                "limit.cost",
            ),
        ],
    );
}
