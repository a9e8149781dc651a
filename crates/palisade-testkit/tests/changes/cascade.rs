//! Foreign keys with actions, over tables with hidden rows. A precheck looks for dependent rows before a row changes, and
//! no hidden row is changed or disclosed.

use palisade::{
    guard::Guard,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::{TestDatabase, TestFile};

const APART: Result<u64, &str> = Err("database.constraint");
const UNSOUGHT: Result<u64, &str> = Err("obligation.inapplicable");

/// Rows of tenant 1 are seen and added; of the items, those with 9 in `n` stay as they are.
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::orders) unless { resource.tenant == 1 };
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::items) unless { resource.tenant == 1 };
forbid(principal, action == Action::"change", resource is row::SCHEMA::items) when { resource has n && resource.n == 9 };
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::parts) unless { resource.tenant == 1 };
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::labels) unless { resource.tenant == 1 };
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::tree) unless { resource.tenant == 1 };
"#;

const TABLES: &str = "
CREATE TABLE orders (id integer PRIMARY KEY, tenant integer NOT NULL, n integer);
CREATE TABLE items (id integer PRIMARY KEY, order_id integer NOT NULL, tenant integer NOT NULL, n integer,
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE parts (id integer PRIMARY KEY, item_id integer NOT NULL, tenant integer NOT NULL,
    FOREIGN KEY (item_id) REFERENCES items (id) ON DELETE CASCADE);
CREATE TABLE labels (id integer PRIMARY KEY, order_id integer, tenant integer NOT NULL,
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE links (id integer PRIMARY KEY, order_id integer NOT NULL,
    FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE tree (id integer PRIMARY KEY, parent integer, tenant integer NOT NULL,
    FOREIGN KEY (parent) REFERENCES tree (id) ON DELETE CASCADE);
";

const TAKE_AWAY: &str = "DELETE FROM links; DELETE FROM labels; DELETE FROM parts; DELETE FROM items; DELETE FROM orders; DELETE FROM tree;";

const SEEN: &str = "
INSERT INTO orders VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1), (6, 1, 1), (7, 1, 1), (8, 1, 1);
INSERT INTO items VALUES (20, 2, 1, 1), (21, 2, 1, NULL), (30, 3, 1, 1), (40, 4, 1, 1), (50, 5, 1, 9);
INSERT INTO parts VALUES (200, 20, 1);
INSERT INTO labels VALUES (60, 6, 1);
INSERT INTO links VALUES (80, 8);
INSERT INTO tree VALUES (1, NULL, 1);
";

/// Rows that are not seen, in two databases in which the same rows of those above have some of them.
const HIDDEN: [&str; 2] = [
    "INSERT INTO orders VALUES (900, 2, 1);
     INSERT INTO items VALUES (31, 3, 2, 1), (90, 900, 2, 1);
     INSERT INTO parts VALUES (400, 40, 2);
     INSERT INTO labels VALUES (70, 7, 2);
     INSERT INTO tree VALUES (2, NULL, 2);",
    "INSERT INTO orders VALUES (900, 2, 5), (901, 3, 5);
     INSERT INTO items VALUES (32, 3, 3, 7), (33, 3, 2, NULL), (91, 901, 2, 1);
     INSERT INTO parts VALUES (401, 40, 3), (402, 40, 2), (910, 91, 2);
     INSERT INTO labels VALUES (71, 7, 3), (72, 900, 2);",
];

const KEPT: &[&str] = &[
    "SELECT id, n FROM orders WHERE tenant <> 1 ORDER BY id",
    "SELECT id, order_id, n FROM items WHERE tenant <> 1 OR n = 9 ORDER BY id",
    "SELECT id, item_id FROM parts WHERE tenant <> 1 ORDER BY id",
    "SELECT id, order_id FROM labels WHERE tenant <> 1 ORDER BY id",
    "SELECT id, parent FROM tree WHERE tenant <> 1 ORDER BY id",
];

type Row = (&'static str, Result<u64, &'static str>);

const ROWS: &[Row] = &[
    ("DELETE FROM orders WHERE id = 1", Ok(1)),
    ("DELETE FROM orders WHERE id = 2", Ok(1)),
    ("DELETE FROM orders WHERE id = 3", APART),
    ("DELETE FROM orders WHERE id = 4", APART),
    ("DELETE FROM orders WHERE id = 5", APART),
    ("DELETE FROM orders WHERE id = 6", Ok(1)),
    ("DELETE FROM orders WHERE id = 7", APART),
    ("DELETE FROM orders WHERE id = 8", Ok(1)),
    ("DELETE FROM orders WHERE id = 900", Ok(0)),
    ("DELETE FROM orders WHERE id IN (1, 2, 6)", Ok(3)),
    ("DELETE FROM orders WHERE id IN (1, 2, 3)", APART),
    ("DELETE FROM orders WHERE id > 0", APART),
    (
        "DELETE FROM orders WHERE id IN (SELECT order_id FROM items WHERE id = 20)",
        Ok(1),
    ),
    (
        "DELETE FROM orders WHERE 1 / (id - 900) < 5 AND id < 3",
        Ok(2),
    ),
    ("DELETE FROM items WHERE id = 20", Ok(1)),
    ("DELETE FROM items WHERE id = 40", APART),
    ("DELETE FROM items WHERE id = 31", Ok(0)),
    ("UPDATE orders SET id = 92 WHERE id = 2", Ok(1)),
    ("UPDATE orders SET id = 93 WHERE id = 3", APART),
    ("UPDATE orders SET id = 94 WHERE id = 4", Ok(1)),
    ("UPDATE orders SET id = 95 WHERE id = 5", APART),
    ("UPDATE orders SET id = 96 WHERE id = 6", Ok(1)),
    ("UPDATE orders SET id = 97 WHERE id = 7", APART),
    ("UPDATE orders SET n = 2 WHERE id > 0", Ok(8)),
    // Rows of one table hang on each other there.
    ("DELETE FROM tree WHERE id = 1", UNSOUGHT),
];

/// Row policies hold in no MERGE.
const MERGES: &[Row] = &[
    (
        "MERGE INTO orders AS o USING (SELECT 2 AS id) AS s ON o.id = s.id WHEN MATCHED THEN DELETE",
        UNSOUGHT,
    ),
    (
        "MERGE INTO orders AS o USING (SELECT 3 AS id) AS s ON o.id = s.id WHEN MATCHED THEN DELETE",
        UNSOUGHT,
    ),
    (
        "MERGE INTO orders AS o USING (SELECT 3 AS id) AS s ON o.id = s.id WHEN MATCHED AND o.n > 5 THEN DELETE \
         WHEN MATCHED THEN UPDATE SET n = 6",
        UNSOUGHT,
    ),
    (
        "MERGE INTO orders AS o USING (SELECT 7 AS id) AS s ON o.id = s.id WHEN MATCHED THEN UPDATE SET id = 77",
        UNSOUGHT,
    ),
    (
        "MERGE INTO orders AS o USING (SELECT 7 AS id) AS s ON o.id = s.id WHEN MATCHED THEN UPDATE SET id = o.id, n = 3",
        UNSOUGHT,
    ),
    (
        "MERGE INTO orders AS o USING (SELECT 6 AS id) AS s ON o.id = s.id WHEN MATCHED THEN UPDATE SET id = 66",
        UNSOUGHT,
    ),
];

/// With WITH, what goes with the row is counted too.
const ON_POSTGRES: &[Row] = &[
    // What stays as it is sets off nothing.
    ("UPDATE orders SET id = id, n = 2 WHERE id > 0", Ok(8)),
    (
        "UPDATE orders SET id = (orders.id), n = 2 WHERE id = 3",
        Ok(1),
    ),
    (
        "DELETE FROM orders AS o USING items AS i WHERE i.order_id = o.id AND i.id = 20",
        Ok(1),
    ),
    (
        "DELETE FROM orders AS o USING items AS i WHERE i.order_id = o.id AND i.id = 30",
        APART,
    ),
    (
        "DELETE FROM orders AS reached_1 WHERE reached_1.id = 2",
        Ok(1),
    ),
    (
        "DELETE FROM orders AS reached_1 WHERE reached_1.id = 3",
        APART,
    ),
    ("DELETE FROM orders WHERE id = 3 AND random() >= 0", APART),
    (
        "WITH gone AS (DELETE FROM orders WHERE id = 2 RETURNING id) SELECT id FROM gone",
        Ok(4),
    ),
    (
        "WITH gone AS (DELETE FROM orders WHERE id = 3 RETURNING id) SELECT id FROM gone",
        APART,
    ),
    (
        "INSERT INTO orders (id, tenant, n) VALUES (3, 1, 4) ON CONFLICT (id) DO UPDATE SET n = 4",
        Ok(1),
    ),
    (
        "INSERT INTO orders AS o (id, tenant, n) VALUES (3, 1, 4) ON CONFLICT (id) DO UPDATE SET id = o.id, n = 4",
        Ok(1),
    ),
    (
        "INSERT INTO orders (id, tenant, n) VALUES (3, 1, 4) ON CONFLICT (id) DO UPDATE SET id = 33",
        UNSOUGHT,
    ),
];

const ON_MARIADB: &[Row] = &[
    // What stays as it is sets off nothing.
    ("UPDATE orders SET id = id, n = 2 WHERE id > 0", Ok(8)),
    (
        "UPDATE orders SET id = (orders.id), n = 2 WHERE id = 3",
        Ok(1),
    ),
    (
        "DELETE o FROM orders AS o JOIN items AS i ON i.order_id = o.id WHERE i.id = 20",
        Ok(1),
    ),
    (
        "DELETE o FROM orders AS o JOIN items AS i ON i.order_id = o.id WHERE i.id = 30",
        APART,
    ),
    ("DELETE FROM orders WHERE id > 1 ORDER BY id LIMIT 1", Ok(1)),
    ("DELETE FROM orders WHERE id > 2 ORDER BY id LIMIT 1", APART),
    ("DELETE FROM orders WHERE id = 3 AND rand() >= 0", APART),
    (
        "INSERT INTO orders (id, tenant, n) VALUES (3, 1, 4) ON DUPLICATE KEY UPDATE n = 4",
        Ok(1),
    ),
    (
        "INSERT INTO orders (id, tenant, n) VALUES (3, 1, 4) ON DUPLICATE KEY UPDATE id = orders.id, n = 4",
        Ok(1),
    ),
];

const REPLACES: &[Row] = &[
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (1, 1, 4)",
        Ok(1),
    ),
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (2, 1, 4)",
        Ok(1),
    ),
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (3, 1, 4)",
        APART,
    ),
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (7, 1, 4)",
        APART,
    ),
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (9, 1, 4)",
        Ok(1),
    ),
    (
        "REPLACE INTO orders (id, tenant, n) VALUES (900, 1, 4)",
        Err("database.constraint"),
    ),
];

/// The types of a key and of what refers to it, with a value of each that the engine ties together, and whether `=` finds all that it does.
type Pair = (&'static str, &'static str, &'static str, &'static str, bool);

const PAIRS_ON_SQLITE: &[Pair] = &[
    ("integer", "integer", "1", "1", true),
    ("integer", "numeric", "1", "1", true),
    ("text", "text", "'a'", "'a'", true),
    ("varchar(9)", "text", "'a'", "'a'", true),
    ("text COLLATE NOCASE", "text", "'a'", "'A'", true),
    ("text", "integer", "'1'", "1", true),
    ("", "", "1", "1", true),
    ("", "text", "1", "'1'", false),
    ("integer", "text", "9.3e18", "9.3e18", false),
];

const PAIRS_ON_POSTGRES: &[Pair] = &[
    ("integer", "integer", "1", "1", true),
    ("bigint", "smallint", "1", "1", true),
    ("numeric", "integer", "1", "1", true),
    ("numeric(6,2)", "numeric", "1.50", "1.5", true),
    ("varchar(9)", "varchar(20)", "'a'", "'a'", true),
    ("text", "varchar(9)", "'a'", "'a'", true),
    ("varchar(9)", "text", "'a'", "'a'", true),
    ("char(3)", "char(5)", "'a'", "'a'", true),
    ("char(3)", "varchar(5)", "'a'", "'a '", true),
    ("text", "char(3)", "'a'", "'a'", true),
    ("whole", "integer", "1", "1", true),
    ("word", "varchar(5)", "'a'", "'a'", true),
    ("mood", "mood", "'glad'", "'glad'", true),
    ("\"Mood\"", "\"Mood\"", "'sad'", "'sad'", true),
    (
        "uuid",
        "uuid",
        "'00000000-0000-0000-0000-000000000001'",
        "'00000000-0000-0000-0000-000000000001'",
        true,
    ),
    ("date", "date", "'2020-01-01'", "'2020-01-01'", true),
    (
        "timestamptz",
        "timestamptz(3)",
        "'2020-01-01'",
        "'2020-01-01'",
        true,
    ),
    ("integer[]", "integer[]", "'{1}'", "'{1}'", true),
    ("citext", "citext", "'a'", "'A'", true),
    ("char(5)", "text", "'a'", "'a  '", false),
    ("padded", "text", "'a'", "'a  '", false),
    ("char(5)", "word", "'a'", "'a '", false),
    ("padded", "word", "'a'", "'a '", false),
];

const PAIRS_ON_MARIADB: &[Pair] = &[
    ("int", "int(4)", "1", "1", true),
    ("bigint unsigned", "bigint(5) unsigned", "1", "1", true),
    ("varchar(9)", "varchar(20)", "'a'", "'A '", true),
    ("varchar(9)", "char(5)", "'a '", "'a'", true),
    ("char(5)", "char(5)", "'a'", "'a'", true),
    (
        "varchar(9) COLLATE utf8mb4_nopad_bin",
        "varchar(5) COLLATE utf8mb4_nopad_bin",
        "'a '",
        "'a '",
        true,
    ),
    ("varbinary(9)", "binary(2)", "'ab'", "'ab'", true),
    ("decimal(5,2)", "decimal(5,2)", "1.5", "1.5", true),
    ("date", "date", "'2020-01-01'", "'2020-01-01'", true),
    ("enum('a','b')", "enum('a','b')", "'a'", "'a'", true),
    (
        "uuid",
        "uuid",
        "'00000000-0000-0000-0000-000000000001'",
        "'00000000-0000-0000-0000-000000000001'",
        true,
    ),
    (
        "enum('a','b','c')",
        "enum('x','y','z')",
        "'a'",
        "'x'",
        false,
    ),
    ("enum('a','b')", "enum('b','a')", "'a'", "'b'", false),
    ("set('a','b')", "set('b','a')", "'a'", "'b'", false),
    ("set('a','b')", "enum('x','y')", "'a'", "'x'", false),
    ("tinyint unsigned", "year", "120", "2020", false),
    ("bit(8)", "binary(1)", "65", "'A'", false),
    ("decimal(5,2)", "decimal(5,1)", "1.05", "1.5", false),
    (
        "varchar(9) COLLATE utf8mb4_nopad_bin",
        "char(3) COLLATE utf8mb4_nopad_bin",
        "'a  '",
        "'a'",
        false,
    ),
];

fn pairs(pairs: &[Pair]) -> String {
    let tables = pairs.iter().enumerate().map(|(n, (theirs, own, _, _, _))| {
        format!(
            "CREATE TABLE p{n} (id integer PRIMARY KEY, k {theirs} NOT NULL UNIQUE);
             CREATE TABLE c{n} (id integer PRIMARY KEY, k {own}, tenant integer NOT NULL,
                 FOREIGN KEY (k) REFERENCES p{n} (k) ON DELETE CASCADE);"
        )
    });
    tables.collect()
}

fn pair_policies(pairs: &[Pair], schema: &str) -> PolicySources {
    let apart = (0..pairs.len()).map(|n| {
        format!("forbid(principal, action, resource is row::{schema}::c{n}) unless {{ resource.tenant == 1 }};")
    });
    sources(format!(
        "permit(principal, action, resource); {}",
        apart.collect::<String>()
    ))
}

/// Deletes the referenced row of each pair, once with a hidden dependent row and once with a visible one.
async fn hold_pairs(gate: &Guard, bare: &dyn Fn(&str) -> String, pairs: &[Pair]) {
    let session = Session::new(Principal::new("Agent", "a"));
    let mut problems = Vec::new();
    for (n, (theirs, own, key, reference, is_found)) in pairs.iter().enumerate() {
        let expected = match is_found {
            true => [(2, APART), (1, Ok(1))],
            false => [(2, UNSOUGHT), (1, UNSOUGHT)],
        };
        for (tenant, expected) in expected {
            bare(&format!(
                "DELETE FROM c{n}; DELETE FROM p{n}; INSERT INTO p{n} VALUES (1, {key}); INSERT INTO c{n} VALUES (1, {reference}, {tenant});"
            ));
            let kept = format!("SELECT id FROM c{n}");
            let before = bare(&kept);
            let sql = format!("DELETE FROM p{n} WHERE id = 1");
            let result = match gate
                .execute(&sql, &Params::None, &session)
                .await
                .into_result()
            {
                Ok(rows) => Ok(rows.affected_rows().unwrap()),
                Err(refusal) => Err(refusal.rejection.code().slug()),
            };
            if result != expected {
                problems.push(format!("{theirs}, {own}, {tenant}: {result:?}"));
            }
            if result.is_err() && before != bare(&kept) {
                problems.push(format!("{theirs}, {own}: a row is gone"));
            }
            if !is_found && tenant == 1 {
                bare(&format!("DELETE FROM p{n} WHERE id = 1;"));
                if before == bare(&kept) {
                    problems.push(format!("{theirs}, {own}: the engine ties nothing together"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn policies(schema: &str) -> PolicySources {
    sources(POLICIES.replace("SCHEMA", schema))
}

fn sources(text: String) -> PolicySources {
    policy_sources(text)
}

/// Runs each statement in both databases: both give the expected answer, and no hidden row changes.
async fn hold(gate: &Guard, bare: &dyn Fn(&str) -> String, rows: &[Row]) {
    let session = Session::new(Principal::new("Agent", "a"));
    let mut problems = Vec::new();
    for (sql, expected) in rows {
        let mut told = Vec::new();
        for hidden in HIDDEN {
            bare(&format!("{TAKE_AWAY}{SEEN}{hidden}"));
            let kept = || KEPT.iter().map(|sql| bare(sql)).collect::<Vec<_>>();
            let before = kept();
            let (result, text) = match gate
                .execute(sql, &Params::None, &session)
                .await
                .into_result()
            {
                Ok(rows) => (Ok(rows.affected_rows().unwrap()), String::new()),
                Err(refusal) => (
                    Err(refusal.rejection.code().slug()),
                    format!(
                        "{} {:?}",
                        refusal.rejection,
                        refusal.rejection.operator_detail()
                    ),
                ),
            };
            if result != *expected {
                problems.push(format!("{sql}\n  {result:?} {text}"));
            }
            if before != kept() {
                problems.push(format!(
                    "{sql}\n  changed hidden rows: {before:?} {:?}",
                    kept()
                ));
            }
            told.push((result, text));
        }
        if told.first() != told.last() {
            problems.push(format!("{sql}\n  tells the databases apart: {told:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn on_sqlite_what_hangs_on_a_row_is_looked_for() {
    let tables = format!("{TABLES}{}", pairs(PAIRS_ON_SQLITE));
    let file = TestFile::new(&tables);
    let backend = || file.backend();
    let bare = |sql: &str| {
        let conn = file.open_bare();
        // The key itself would have some values of a pair compared in yet another way as they come.
        let keys = if sql.contains("INSERT") { "OFF" } else { "ON" };
        conn.execute_batch(&format!("PRAGMA foreign_keys = {keys}"))
            .unwrap();
        if !sql.starts_with("SELECT") {
            conn.execute_batch(sql).unwrap();
            return String::new();
        }
        let mut statement = conn.prepare(sql).unwrap();
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..width)
                .map(|index| row.get::<_, rusqlite::types::Value>(index))
                .collect::<Result<Vec<_>, _>>()
        });
        let rows: Result<Vec<_>, _> = rows.and_then(Iterator::collect);
        format!("{:?}", rows.unwrap())
    };
    let gate = changing_gate(backend(), policies("main"));
    for rows in [ROWS, REPLACES] {
        hold(&gate, &bare, rows).await;
    }
    let gate = changing_gate(backend(), pair_policies(PAIRS_ON_SQLITE, "main"));
    hold_pairs(&gate, &bare, PAIRS_ON_SQLITE).await;
}

#[tokio::test]
async fn on_postgres_what_hangs_on_a_row_is_looked_for() {
    let database = TestDatabase::postgres("cascades", TABLES);
    let backend = database.postgres_backend().await;
    let gate = changing_gate(backend, policies("public"));
    let bare = |sql: &str| database.query(sql);
    for rows in [ROWS, ON_POSTGRES, MERGES] {
        hold(&gate, &bare, rows).await;
    }
}

#[tokio::test]
async fn on_postgres_what_a_key_compares_in_its_own_way_is_not_looked_for() {
    let types = "CREATE DOMAIN whole AS bigint; CREATE DOMAIN word AS text; CREATE DOMAIN padded AS char(5);
        CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TYPE \"Mood\" AS ENUM ('sad', 'glad'); CREATE EXTENSION citext;";
    let tables = format!("{types}{}", pairs(PAIRS_ON_POSTGRES));
    let database = TestDatabase::postgres("keys", &tables);
    // An index may compare in another way than its column's type does.
    let odd = "CREATE TABLE p99 (id integer PRIMARY KEY, k text NOT NULL); CREATE UNIQUE INDEX ON p99 (k bpchar_ops);
        CREATE TABLE c99 (id integer PRIMARY KEY, k text REFERENCES p99 (k) ON DELETE CASCADE, tenant integer NOT NULL);";
    database.query(odd);
    let backend = database.postgres_backend().await;
    let mut policies = pair_policies(PAIRS_ON_POSTGRES, "public");
    policies.policies[0].text +=
        "forbid(principal, action, resource is row::public::c99) unless { resource.tenant == 1 };";
    let gate = changing_gate(backend, policies);
    let bare = |sql: &str| database.query(sql);
    hold_pairs(&gate, &bare, PAIRS_ON_POSTGRES).await;
    bare("INSERT INTO p99 VALUES (1, 'a'); INSERT INTO c99 VALUES (1, 'a ', 2)");
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "DELETE FROM p99 WHERE id = 1";
    match gate
        .execute(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Err(refusal) => {
            assert_eq!(Err(refusal.rejection.code().slug()), UNSOUGHT);
        }
        Ok(_) => panic!("it ran"),
    }
}

#[tokio::test]
async fn on_mariadb_what_hangs_on_a_row_is_looked_for() {
    let database = TestDatabase::mariadb("cascades", TABLES);
    let backend = database.mysql_backend().await;
    let gate = changing_gate(backend, policies(database.name()));
    let bare = |sql: &str| database.query(sql);
    for rows in [ROWS, ON_MARIADB, REPLACES] {
        hold(&gate, &bare, rows).await;
    }
}

#[tokio::test]
async fn on_mariadb_what_a_key_compares_in_its_own_way_is_not_looked_for() {
    let tables = pairs(PAIRS_ON_MARIADB);
    let database = TestDatabase::mariadb("keys", &tables);
    let backend = database.mysql_backend().await;
    let gate = changing_gate(backend, pair_policies(PAIRS_ON_MARIADB, database.name()));
    let bare = |sql: &str| database.query(sql);
    hold_pairs(&gate, &bare, PAIRS_ON_MARIADB).await;
}
