//! REPLACE, ON DUPLICATE KEY UPDATE and INSERT IGNORE of a query's rows, over row policies: the first two are refused.

use std::collections::BTreeMap;

use palisade::{
    guard::{Backend, Guard},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, Server},
};

use crate::database::{TestDatabase, TestFile};

type Done = Result<u64, &'static str>;

const HELD: Done = Err("database.constraint");
const UNSOUGHT: Done = Err("obligation.inapplicable");
const REFUSED: Done = Err("write.row-not-admitted");

/// Rows of tenant 1 are seen and added, and no others.
const TENANT: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::things) unless { resource.tenant == 1 };
"#;

/// Of these, those called kept stay as they are.
const KEPT: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::things) unless { resource.tenant == 1 };
forbid(principal, action == Action::"change", resource is row::SCHEMA::things) when { resource.name == "kept" };
"#;

fn gate<B: Backend>(backend: B, schema: &str, policies: &str) -> Guard {
    let policies = policy_sources(policies.replace("SCHEMA", schema));
    changing_gate(backend, policies)
}

/// How many rows are changed, or the code of the refusal.
async fn changed(gate: &Guard, sql: &str) -> Done {
    let session = Session::new(Principal::new("Agent", "a"));
    match gate
        .execute(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(rows) => Ok(rows.affected_rows().unwrap()),
        Err(refusal) => {
            println!("{sql}\n  {}", refusal.rejection);
            println!("  {:?}", refusal.rejection.operator_detail());
            Err(refusal.rejection.code().slug())
        }
    }
}

const TABLES: &str = "
CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, code varchar(12) UNIQUE, name varchar(12) NOT NULL, n INTEGER DEFAULT 0);
CREATE TABLE news (id INTEGER PRIMARY KEY, code varchar(20), word varchar(20), ratio double, flag INTEGER);
";

/// What the tables hold at first: `hidden` is not seen, and two databases have otherwise there but for their keys.
fn rows(hidden: &str) -> String {
    format!(
        "DELETE FROM things;
        DELETE FROM news;
        INSERT INTO things (id, tenant, code, name, n) VALUES (1, 1, 'one', 'a', 1), (2, 1, 'two', 'b', 1), (4, 1, 'four', 'kept', 1), {hidden};
        INSERT INTO news (id, code, word, ratio, flag) VALUES (1, 'One', '2', 2.4, 0), (2, 'new', '90', 3.4, 1), (3, 'three', 'x', 90.0, 2), (90, 'newer', '91', 91.0, 3), (91, NULL, NULL, NULL, 1);"
    )
}

const HIDDEN: [&str; 2] = [
    "(3, 2, 'Three', 'c', 1), (5, 2, NULL, 'd', 1)",
    "(3, 7, 'three', 'kept', 9), (5, 3, NULL, 'z', 4)",
];

/// What is seen of the table, and what is not.
const SEEN: &str = "SELECT id, code, name, n FROM things WHERE tenant = 1 ORDER BY id";
const UNSEEN: &str = "SELECT id, tenant, code, name, n FROM things WHERE tenant <> 1 ORDER BY id";

/// The rows that a query gives to `things (…)`: what comes of REPLACE, and of ON DUPLICATE KEY UPDATE.
const QUERIES: &[(&str, &str)] = &[
    (
        TENANT,
        "(id, tenant, name) SELECT id, 1, 'x' FROM news WHERE id = 3",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT id, 1, 'x' FROM news WHERE id <> 3",
    ),
    (TENANT, "(id, tenant, name) SELECT id, 1, 'x' FROM news"),
    (
        TENANT,
        "(id, tenant, name) SELECT id, 2, 'x' FROM news WHERE id = 90",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT id, flag, 'x' FROM news WHERE id IN (2, 91)",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT id, flag, 'x' FROM news WHERE id IN (2, 90)",
    ),
    // By another key than the one that is meant.
    (
        TENANT,
        "(id, tenant, code, name) SELECT id, 1, code, 'x' FROM news WHERE id = 90",
    ),
    (
        TENANT,
        "(id, tenant, code, name) SELECT 80, 1, code, 'x' FROM news WHERE code = 'three'",
    ),
    (
        TENANT,
        "(id, tenant, code, name) SELECT 80, 1, upper(code), 'x' FROM news WHERE code = 'three'",
    ),
    (
        TENANT,
        "(id, tenant, code, name) SELECT 80, 1, 'four', 'x' FROM news WHERE id = 1",
    ),
    // What is stored is not what is given.
    (
        TENANT,
        "(id, tenant, name) SELECT ratio, 1, 'x' FROM news WHERE id = 2",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT word, 1, 'x' FROM news WHERE id IN (2, 90)",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT ' 3', 1, 'x' FROM news WHERE id = 1",
    ),
    // What the statement itself adds is changed again.
    (
        TENANT,
        "(id, tenant, name) SELECT 80, 1, code FROM news WHERE code IS NOT NULL ORDER BY id",
    ),
    (
        KEPT,
        "(id, tenant, name) SELECT 80, 1, code FROM news WHERE code IS NOT NULL ORDER BY id",
    ),
    (
        KEPT,
        "(id, tenant, code, name) SELECT id, 1, code, 'x' FROM news WHERE id >= 90",
    ),
    (
        KEPT,
        "(id, tenant, code, name) SELECT id, 1, 'same', 'x' FROM news WHERE id >= 90",
    ),
    (
        KEPT,
        "(id, tenant, name) SELECT 4, 1, 'x' FROM news WHERE id = 1",
    ),
    // It reads what it changes.
    (
        TENANT,
        "(id, tenant, name) SELECT id + 1, 1, 'x' FROM things WHERE id = 2",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT id + 2, 1, 'x' FROM things WHERE id = 2",
    ),
    (
        TENANT,
        "(id, tenant, code, name) SELECT id + 100, 1, code, 'x' FROM things",
    ),
    (
        TENANT,
        "(id, tenant, name) WITH w AS (SELECT 3 AS i) SELECT i, 1, 'x' FROM w",
    ),
    (
        TENANT,
        "(id, tenant, name) SELECT 3, 1, 'x' UNION ALL SELECT 80, 1, 'x' FROM news",
    ),
];

async fn leaves_hidden_rows(server: &'static Server) {
    let mut twins = Vec::new();
    for hidden in HIDDEN {
        let database = TestDatabase::on(server, "queried", TABLES);
        let guard =
            async |policies: &str| gate(database.mysql_backend().await, database.name(), policies);
        let guards = BTreeMap::from([(TENANT, guard(TENANT).await), (KEPT, guard(KEPT).await)]);
        twins.push((database, rows(hidden), guards));
    }
    for (policies, rows) in QUERIES {
        for sql in [
            format!("REPLACE INTO things {rows}"),
            format!(
                "INSERT INTO things {rows} ON DUPLICATE KEY UPDATE n = things.n + 1, tenant = VALUES(tenant)"
            ),
        ] {
            let mut left = Vec::new();
            for (database, first, guards) in &twins {
                database.load(first);
                let before = database.query(UNSEEN);
                let found = changed(&guards[policies], &sql).await;
                assert!([UNSOUGHT, REFUSED].contains(&found), "{sql}: {found:?}");
                assert_eq!(database.query(UNSEEN), before, "{sql}");
                left.push((found, database.query(SEEN)));
            }
            assert_eq!(left.first(), left.last(), "{sql}");
        }
    }
}

#[tokio::test]
async fn what_a_query_gives_meets_no_other_tenant_on_mariadb() {
    leaves_hidden_rows(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_a_query_gives_meets_no_other_tenant_on_mysql_9() {
    leaves_hidden_rows(MySqlServer::start_shared().unwrap()).await;
}

/// Column, what another tenant has in it, what is given, and what comes of that.
type Type = (&'static str, &'static str, &'static str, Done);

/// Which is what the engine would make of a value in a column of the type.
async fn is_stored_so(server: &'static Server, types: &[Type]) {
    for (of_key, held, value, expected) in types {
        let script = format!(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, k {of_key} UNIQUE);
             INSERT INTO things VALUES (1, 2, {held})"
        );
        let database = TestDatabase::on(server, "stored", &script);
        let backend = database.mysql_backend().await;
        let gate = gate(backend, database.name(), TENANT);
        let sql = format!("REPLACE INTO things (id, tenant, k) VALUES (9, 1, {value})");
        let found = changed(&gate, &sql).await;
        assert_eq!(found, *expected, "{of_key} {held}: {sql}");
    }
}

const WRITTEN: &[Type] = &[
    ("DATE", "'2026-01-02'", "'2026-01-02'", HELD),
    (
        "DATETIME",
        "'2026-01-02 10:00:00'",
        "'2026-01-02 10:00:00'",
        HELD,
    ),
    ("DATETIME", "'2026-01-02 00:00:00'", "'2026-01-02'", HELD),
    (
        "DATETIME",
        "'2026-01-02 10:00:00'",
        "'2026-01-02 10:00:01'",
        Ok(1),
    ),
    (
        "DATETIME",
        "'2026-01-02 10:00:00'",
        "'2026-1-2 10:00:00'",
        UNSOUGHT,
    ),
    (
        "DATETIME",
        "'2026-01-02 10:00:00'",
        "'2026-01-02 10:00:00.4'",
        UNSOUGHT,
    ),
    (
        "DATETIME(3)",
        "'2026-01-02 10:00:00.5'",
        "'2026-01-02 10:00:00.500'",
        HELD,
    ),
    (
        "TIMESTAMP NULL",
        "'2026-01-02 10:00:00'",
        "'2026-01-02 10:00:00'",
        HELD,
    ),
    ("TIME", "'10:00:00'", "'10:00:00'", HELD),
    ("TIME", "'10:00:00'", "'10:00'", UNSOUGHT),
    ("YEAR", "2005", "2005", HELD),
    ("YEAR", "2005", "2006", Ok(1)),
    ("YEAR", "2005", "5", UNSOUGHT),
    ("ENUM('x', 'y')", "'x'", "'X'", HELD),
    ("ENUM('x', 'y')", "'x'", "'y'", Ok(1)),
    ("ENUM('x', 'y')", "'x'", "'1'", UNSOUGHT),
    ("ENUM('x', 'y')", "'x'", "1", UNSOUGHT),
    ("varbinary(8)", "'a'", "'a'", HELD),
    ("varbinary(8)", "'a'", "'A'", Ok(1)),
    ("binary(2)", "'ab'", "'ab'", HELD),
    ("binary(2)", "'a'", "'a'", UNSOUGHT),
    ("double", "1.1", "1.1", HELD),
    ("double", "1.1", "1.10", HELD),
    ("double", "1.1", "'1.1'", UNSOUGHT),
    ("float", "1.1", "1.1", UNSOUGHT),
    ("boolean", "1", "true", HELD),
    ("SET('x', 'y')", "'x'", "'x'", UNSOUGHT),
];

#[tokio::test]
async fn what_mariadb_stores_is_what_is_looked_for() {
    let server = MariaDbServer::start_shared().unwrap();
    is_stored_so(server, WRITTEN).await;
    const A: &str = "'123e4567-e89b-12d3-a456-426614174000'";
    const B: &str = "'123E4567-e89b-12d3-a456-426614174000'";
    is_stored_so(server, &[("uuid", A, B, HELD)]).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_mysql_9_stores_is_what_is_looked_for() {
    let server = MySqlServer::start_shared().unwrap();
    is_stored_so(server, WRITTEN).await;
}

/// What IGNORE changes is not what policy looked at.
#[tokio::test]
async fn mariadb_ignores_what_a_query_gives() {
    for (query, expected) in [
        // Those that are left out do not count.
        ("SELECT id, 1, 'x' FROM news", Ok(2)),
        ("SELECT id, 2, 'x' FROM news", REFUSED),
        ("SELECT 80, NULL, 'x'", REFUSED),
        ("SELECT 80, 4294967297, 'x'", REFUSED),
        ("SELECT 80, '1', 'x'", Ok(1)),
        ("SELECT 80, 1, NULL", Ok(1)),
    ] {
        let script = format!("{TABLES}{}", rows("(3, 2, 'Three', 'c', 1)"));
        let database = TestDatabase::mariadb("ignored", &script);
        let before = database.query(UNSEEN);
        let backend = database.mysql_backend().await;
        let gate = gate(backend, database.name(), TENANT);
        let sql = format!("INSERT IGNORE INTO things (id, tenant, name) {query}");
        let seen = database.query(SEEN).lines().count();
        assert_eq!(changed(&gate, &sql).await, expected, "{sql}");
        assert_eq!(database.query(UNSEEN), before, "{sql}");
        let added = database.query(SEEN).lines().count() - seen;
        assert_eq!(
            added,
            expected.map_or(0, |count| usize::try_from(count.min(2)).unwrap()),
            "{sql}"
        );
    }
}

/// INSERT IGNORE stores the nearest value that fits the column, and policy decides over that value.
#[tokio::test]
async fn mariadb_ignores_no_value_that_policy_looks_at() {
    const LAST: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"add", resource is row::SCHEMA::things) when { resource.tenant == 127 || resource.name == "" };
"#;
    let script = "CREATE TABLE things (id INTEGER PRIMARY KEY, tenant tinyint NOT NULL, name varchar(3) NOT NULL)";
    let database = TestDatabase::mariadb("nearest", script);
    let backend = database.mysql_backend().await;
    let gate = gate(backend, database.name(), LAST);
    for (row, expected) in [
        ("1, 1, 'x'", Ok(1)),
        ("2, 127, 'x'", REFUSED),
        ("3, 300, 'x'", REFUSED),
        ("4, 1, NULL", REFUSED),
        ("5, 1, 'long'", REFUSED),
    ] {
        let sql = format!("INSERT IGNORE INTO things (id, tenant, name) SELECT {row}");
        assert_eq!(changed(&gate, &sql).await, expected, "{sql}");
    }
}

/// Its values have types of their own, which a column converts to its own.
#[tokio::test]
async fn what_a_query_gives_meets_no_other_tenant_on_sqlite() {
    const OTHERS: &str = "
        CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, code TEXT COLLATE NOCASE UNIQUE, name TEXT NOT NULL,
            ratio REAL UNIQUE, part INTEGER NOT NULL DEFAULT 7, UNIQUE (part, name));
        INSERT INTO things VALUES (1, 1, 'one', 'a', 1.5, 1), (2, 1, '02', 'kept', NULL, 2), (3, 2, 'Three', 'HIDDEN', 3.5, 3),
            (4, 2, '5', 'd', 9007199254740992, 7);";
    for (policies, rows) in [
        (TENANT, "(id, tenant, part, name) SELECT 3, 1, 9, 'x'"),
        (TENANT, "(id, tenant, part, name) SELECT '3', 1, 9, 'x'"),
        (TENANT, "(id, tenant, part, name) SELECT 3.0, 1, 9, 'x'"),
        (
            TENANT,
            "(id, tenant, part, name) SELECT id + 1, 1, 9, 'x' FROM things WHERE id = 2",
        ),
        (
            TENANT,
            "(id, tenant, part, name) SELECT id, 1, 9, name FROM things",
        ),
        (TENANT, "(id, tenant, part, name) SELECT NULL, 1, 9, 'x'"),
        (TENANT, "(id, tenant, part, name) SELECT 80, 2, 9, 'x'"),
        (
            TENANT,
            "(tenant, part, code, name) SELECT 1, 9, 'THREE' COLLATE BINARY, 'x'",
        ),
        (
            TENANT,
            "(tenant, part, code, name) SELECT 1, 9, CAST(5 AS INTEGER), 'x'",
        ),
        (
            TENANT,
            "(tenant, part, code, name) SELECT 1, 9, CAST(2 AS INTEGER), 'x'",
        ),
        (
            TENANT,
            "(tenant, part, ratio, name) SELECT 1, 9, '3.5', 'x'",
        ),
        (TENANT, "(tenant, part, ratio, name) SELECT 1, 9, 3.5, 'x'"),
        (
            TENANT,
            "(tenant, part, ratio, name) SELECT 1, 9, 9007199254740993, 'x'",
        ),
        (TENANT, "(tenant, part, name) SELECT 1, NULL, 'x'"),
        (TENANT, "(tenant, name) SELECT 1, 'd'"),
        (TENANT, "(tenant, part, name) SELECT 1, '7', 'd'"),
        (
            TENANT,
            "(id, tenant, part, name) SELECT 80, 1, id, name FROM things",
        ),
        (
            KEPT,
            "(id, tenant, part, name) SELECT 80, 1, id, name FROM things",
        ),
        (
            KEPT,
            "(id, tenant, part, name) SELECT 80 + id, 1, 9 + id, name FROM things",
        ),
        (
            KEPT,
            "(id, tenant, part, name) SELECT 80 + id, 1, 9, 'x' FROM things",
        ),
        (KEPT, "(id, tenant, part, name) SELECT 2, 1, 9, 'x'"),
    ] {
        let mut left = Vec::new();
        for name in ["c", "kept"] {
            let file = TestFile::new(&OTHERS.replace("HIDDEN", name));
            let all = |which: &str| -> String {
                let conn = file.open_bare();
                let sql = format!(
                    "SELECT group_concat(id || coalesce(code, '-') || part || coalesce(ratio, '-') || name) FROM (SELECT * FROM things WHERE {which} ORDER BY id)"
                );
                conn.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            let before = all("tenant <> 1");
            let backend = file.backend();
            let gate = gate(backend, "main", policies);
            let sql = format!("INSERT OR REPLACE INTO things {rows}");
            let found = changed(&gate, &sql).await;
            assert!([UNSOUGHT, REFUSED].contains(&found), "{sql}: {found:?}");
            assert_eq!(all("tenant <> 1"), before, "{sql}");
            left.push((found, all("tenant = 1")));
        }
        assert_eq!(left.first(), left.last(), "{rows}");
    }
}
