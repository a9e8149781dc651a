//! REPLACE and ON DUPLICATE KEY UPDATE over rows of several tenants: what is looked for before is what the engine finds, by
//! every key, as the columns compare.

use palisade::{
    guard::{Backend, Guard},
    session::{Principal, Session},
    value::{Params, Value},
};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, Server},
};

use crate::database::{TestDatabase, TestFile};

const HELD: Result<u64, &str> = Err("database.constraint");
const UNSOUGHT: Result<u64, &str> = Err("obligation.inapplicable");
const REFUSED: Result<u64, &str> = Err("write.row-not-admitted");

/// Rows of tenant 1 are seen and added, of which those called kept stay as they are.
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"see", Action::"add"], resource is row::SCHEMA::things) unless { resource.tenant == 1 };
forbid(principal, action == Action::"change", resource is row::SCHEMA::things) when { resource.name == "kept" };
"#;

/// Rows are seen and changed of all tenants, and are of tenant 1 afterwards.
const ADDED: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"add", resource is row::SCHEMA::things) unless { resource.tenant == 1 };
"#;

fn gate<B: Backend>(backend: B, schema: &str, policies: &str) -> Guard {
    let policies = policy_sources(policies.replace("SCHEMA", schema));
    changing_gate(backend, policies)
}

/// How many rows are changed, or the code of the refusal.
async fn changed(gate: &Guard, sql: &str, params: &Params) -> Result<u64, &'static str> {
    let session = Session::new(Principal::new("Agent", "a"));
    match gate.execute(sql, params, &session).await.into_result() {
        Ok(rows) => Ok(rows.affected_rows().unwrap()),
        Err(refusal) => {
            println!("{sql}\n  {}", refusal.rejection);
            println!("  {:?}", refusal.rejection.operator_detail());
            Err(refusal.rejection.code().slug())
        }
    }
}

/// What no statement of these changes.
const OTHERS: &str = "SELECT id, tenant, code, day, amount, name, n FROM things WHERE tenant <> 1 OR name = 'kept' ORDER BY id";

const THINGS: &str = "
CREATE TABLE things (id INTEGER PRIMARY KEY AUTO_INCREMENT, tenant INTEGER NOT NULL, code varchar(12) UNIQUE, day DATE, amount DECIMAL(10,2),
    name varchar(12) NOT NULL, n INTEGER DEFAULT 0, UNIQUE (tenant, day), UNIQUE (amount, name));
INSERT INTO things (id, tenant, code, day, amount, name, n) VALUES
    (1, 1, 'one', '2026-01-01', 1.50, 'a', 1), (2, 1, 'two', NULL, NULL, 'b', 1), (3, 2, 'Three', '2026-01-03', 3.50, 'c', 1),
    (4, 1, 'four', '2026-01-04', NULL, 'kept', 1), (5, 2, NULL, NULL, NULL, 'd', 1);
";

/// `WORD` is the beginning of a REPLACE, `END` of ON DUPLICATE KEY UPDATE the end: what comes of the first and of the second.
type Row = (&'static str, Result<u64, &'static str>);

const ROWS: &[Row] = &[
    ("(id, tenant, name) VALUES (3, 1, 'x')", HELD),
    ("(id, tenant, name) VALUES (4, 1, 'x')", HELD),
    ("(id, tenant, name) VALUES (2, 1, 'x')", Ok(1)),
    ("(id, tenant, name) VALUES (NULL, 1, 'x')", Ok(1)),
    ("(tenant, name) VALUES (1, 'x')", Ok(1)),
    ("(id, tenant, name) VALUES (1 + 1 * 1, 1, 'x')", Ok(1)),
    ("(id, tenant, name) VALUES (1 * 3, 1, 'x')", HELD),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'three', 'x')",
        HELD,
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'thrée', 'x')",
        HELD,
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'three ', 'x')",
        UNSOUGHT,
    ),
    ("(id, tenant, code, name) VALUES (1, 1, 'three', 'x')", HELD),
    ("(id, tenant, code, name) VALUES (90, 1, 'ONE', 'x')", Ok(1)),
    ("(id, tenant, code, name) VALUES (90, 1, 3, 'x')", UNSOUGHT),
    (
        "(id, tenant, code, name) VALUES (90, 1, concat('th', 'ree'), 'x')",
        UNSOUGHT,
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, NULL, 'x'), (91, 1, NULL, 'y')",
        Ok(2),
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'p', 'x'), (91, 1, 'P', 'y')",
        UNSOUGHT,
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'p', 'x'), (3, 1, 'q', 'y')",
        HELD,
    ),
    (
        "(id, tenant, code, name) VALUES (90, 1, 'p', 'x'), (91, 1, 'q', 'y')",
        Ok(2),
    ),
    (
        "(id, tenant, day, name) VALUES (90, 1, '2026-01-04', 'x')",
        HELD,
    ),
    (
        "(id, tenant, day, name) VALUES (90, 1, '2026-01-03', 'x'), (91, 1, '2026-01-02', 'x')",
        Ok(2),
    ),
    (
        "(id, tenant, day, name) VALUES (90, 1, '2026-1-4', 'x')",
        UNSOUGHT,
    ),
    (
        "(id, tenant, day, name) VALUES (90, 1, 20260104, 'x')",
        UNSOUGHT,
    ),
    ("(id, tenant, amount, name) VALUES (90, 1, 3.5, 'C')", HELD),
    ("(id, tenant, amount, name) VALUES (90, 1, 1.5, 'A')", Ok(1)),
    (
        "(id, tenant, amount, name) VALUES (90, 1, 3.504, 'c')",
        UNSOUGHT,
    ),
    (
        "(id, tenant, amount, name) VALUES (90, 1, '3.5', 'c')",
        UNSOUGHT,
    ),
    ("(id, tenant, name) VALUES (90, 2, 'x')", REFUSED),
];

async fn finds_what_the_server_finds(server: &'static Server) {
    let database = TestDatabase::on(server, "replaces", THINGS);
    let others = || database.query(OTHERS);
    let before = others();
    let reset = || database.load(&format!("DROP TABLE things; {THINGS}"));
    let backend = database.mysql_backend().await;
    let own = gate(backend, database.name(), POLICIES);
    for (rows, expected) in ROWS {
        for sql in [
            format!("REPLACE INTO things {rows}"),
            format!(
                "INSERT INTO things {rows} ON DUPLICATE KEY UPDATE n = n + 1, tenant = VALUES(tenant)"
            ),
        ] {
            assert_eq!(changed(&own, &sql, &Params::None).await, *expected, "{sql}");
            assert_eq!(others(), before, "{sql}");
            reset();
        }
    }
    // By other words and parameters.
    let text = |text: &str| Value::text(text.to_owned());
    for (sql, params, expected) in [
        (
            "REPLACE INTO things SET id = ?, tenant = ?, name = ?",
            vec![Value::Integer(3), Value::Integer(1), text("x")],
            HELD,
        ),
        (
            "REPLACE INTO things SET id = ?, tenant = ?, name = ?",
            vec![Value::Integer(2), Value::Integer(1), text("x")],
            Ok(1),
        ),
        (
            "REPLACE INTO things (tenant, code, name) VALUES (?, ?, ?)",
            vec![Value::Integer(1), text("THREE"), text("x")],
            HELD,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (2, 1, ?) ON DUPLICATE KEY UPDATE n = ?, name = ?",
            vec![text("x"), Value::Integer(7), text("y")],
            Ok(1),
        ),
        (
            "REPLACE INTO things (id, tenant, name) SELECT 3, 1, 'x' FROM things",
            vec![],
            UNSOUGHT,
        ),
        (
            "INSERT INTO things (id, tenant, name) SELECT 3, 1, 'x' FROM things ON DUPLICATE KEY UPDATE n = 5",
            vec![],
            UNSOUGHT,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE tenant = 2",
            vec![],
            REFUSED,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE tenant = n",
            vec![],
            REFUSED,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE id = 3",
            vec![],
            HELD,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE name = 'kept', n = 4",
            vec![],
            Ok(1),
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x'), (90, 1, 'y') ON DUPLICATE KEY UPDATE name = 'kept'",
            vec![],
            UNSOUGHT,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x'), (90, 1, 'y') ON DUPLICATE KEY UPDATE n = 8",
            vec![],
            Ok(2),
        ),
    ] {
        let params = match params.is_empty() {
            true => Params::None,
            false => Params::Positional(params),
        };
        let found = changed(&own, sql, &params).await;
        assert_eq!(found, expected, "{sql}");
        if !sql.contains("'kept'") {
            assert_eq!(others(), before, "{sql}");
        }
        reset();
    }
    // A key that came later is not one that was looked for.
    database.query("ALTER TABLE things ADD UNIQUE (n, name)");
    let sql =
        "INSERT INTO things (id, tenant, name) VALUES (2, 1, 'x') ON DUPLICATE KEY UPDATE n = 5";
    assert_eq!(
        changed(&own, sql, &Params::None).await,
        Err("database.schema-changed")
    );
    reset();
    let backend = database.mysql_backend().await;
    let all = gate(backend, database.name(), ADDED);
    for (sql, expected) in [
        (
            "INSERT INTO things (id, tenant, name) VALUES (3, 1, 'x') ON DUPLICATE KEY UPDATE n = 5",
            REFUSED,
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (3, 1, 'x') ON DUPLICATE KEY UPDATE n = 5, tenant = 1",
            Ok(1),
        ),
        (
            "INSERT INTO things (id, tenant, name) VALUES (1, 1, 'x') ON DUPLICATE KEY UPDATE n = 5",
            Ok(1),
        ),
        (
            "REPLACE INTO things (id, tenant, name) VALUES (3, 1, 'x')",
            Ok(1),
        ),
        (
            "REPLACE INTO things (id, tenant, name) VALUES (3, 2, 'x')",
            REFUSED,
        ),
        (
            "INSERT IGNORE INTO things (id, tenant, name) VALUES (90, 1, 'x')",
            Ok(1),
        ),
        (
            "INSERT IGNORE INTO things (id, tenant, name) VALUES (90, NULL, 'x')",
            UNSOUGHT,
        ),
        (
            "INSERT IGNORE INTO things (id, tenant, name) VALUES (90, '1', 'x')",
            UNSOUGHT,
        ),
        (
            "INSERT IGNORE INTO things (id, tenant, name) VALUES (90, 2147483648, 'x')",
            UNSOUGHT,
        ),
        (
            "INSERT IGNORE INTO things (id, tenant, name) VALUES (90, 2, 'x')",
            REFUSED,
        ),
    ] {
        assert_eq!(changed(&all, sql, &Params::None).await, expected, "{sql}");
        reset();
    }
}

#[tokio::test]
async fn mariadb_finds_what_was_looked_for() {
    finds_what_the_server_finds(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_finds_what_was_looked_for() {
    finds_what_the_server_finds(MySqlServer::start_shared().unwrap()).await;
}

/// Keys of which not every source can say by what they are equal.
#[tokio::test]
async fn what_is_no_plain_key_is_not_looked_for_on_mariadb() {
    for (keys, rows, expected) in [
        (
            "UNIQUE (code(3))",
            "(id, tenant, code, name) VALUES (1, 1, 'p', 'x')",
            UNSOUGHT,
        ),
        (
            "UNIQUE (code(3))",
            "(id, tenant, name) VALUES (1, 1, 'x')",
            UNSOUGHT,
        ),
        (
            "low varchar(12) AS (lower(code)) STORED, UNIQUE (low)",
            "(id, tenant, code, name) VALUES (1, 1, 'p', 'x')",
            UNSOUGHT,
        ),
        (
            "UNIQUE (tenant, n)",
            "(id, tenant, name) VALUES (1, 1, 'x')",
            UNSOUGHT,
        ),
        (
            "UNIQUE (tenant, n)",
            "(id, tenant, n, name) VALUES (1, 1, 6, 'x')",
            Ok(1),
        ),
        (
            "UNIQUE (code, name)",
            "(id, tenant, name) VALUES (1, 1, 'x')",
            Ok(1),
        ),
        (
            "e ENUM('x', 'y') NOT NULL UNIQUE",
            "(id, tenant, name) VALUES (1, 1, 'x')",
            UNSOUGHT,
        ),
        (
            "y YEAR UNIQUE",
            "(id, tenant, name, y) VALUES (1, 1, 'x', 5)",
            UNSOUGHT,
        ),
    ] {
        let script = format!(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, code varchar(12), n INTEGER DEFAULT 3, name varchar(12) NOT NULL, {keys});
             INSERT INTO things (id, tenant, code, name) VALUES (1, 1, 'one', 'a')"
        );
        let database = TestDatabase::mariadb("plain", &script);
        let backend = database.mysql_backend().await;
        let gate = gate(backend, database.name(), POLICIES);
        let sql = format!("REPLACE INTO things {rows}");
        assert_eq!(
            changed(&gate, &sql, &Params::None).await,
            expected,
            "{keys} {sql}"
        );
    }
}

/// SQLite makes of a value what its column does, and of a NULL that may not be there the default.
#[tokio::test]
async fn sqlite_finds_what_was_looked_for() {
    let things = "
        CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, code TEXT COLLATE NOCASE UNIQUE, part INTEGER NOT NULL DEFAULT 3,
            ratio REAL UNIQUE, name TEXT NOT NULL, UNIQUE (part, name));
        INSERT INTO things VALUES (1, 1, 'one', 1, 1.5, 'a'), (2, 1, 'two', 2, NULL, 'b'), (3, 2, 'Three', 3, 3.5, 'c'), (4, 1, '04', 4, NULL, 'kept');";
    let more = "CREATE UNIQUE INDEX more ON things (name) WHERE tenant > 1;";
    for (script, rows, expected) in [
        ("", "(id, tenant, part, name) VALUES (3, 1, 9, 'x')", HELD),
        ("", "(id, tenant, part, name) VALUES ('3', 1, 9, 'x')", HELD),
        ("", "(id, tenant, part, name) VALUES (3.0, 1, 9, 'x')", HELD),
        (
            "",
            "(id, tenant, part, name) VALUES (1 + 2, 1, 9, 'x')",
            HELD,
        ),
        ("", "(id, tenant, part, name) VALUES (4, 1, 9, 'x')", HELD),
        ("", "(id, tenant, part, name) VALUES (2, 1, 9, 'x')", Ok(1)),
        (
            "",
            "(id, tenant, part, name) VALUES (NULL, 1, 9, 'x')",
            Ok(1),
        ),
        (
            "",
            "(tenant, part, code, name) VALUES (1, 9, 'THREE', 'x')",
            HELD,
        ),
        (
            "",
            "(tenant, part, code, name) VALUES (1, 9, lower('THREE'), 'x')",
            HELD,
        ),
        (
            "",
            "(tenant, part, code, name) VALUES (1, 9, 'one', 'x')",
            Ok(1),
        ),
        (
            "",
            "(tenant, part, code, name) VALUES (1, 9, CAST('04' AS INTEGER), 'x')",
            Ok(1),
        ),
        (
            "",
            "(tenant, part, code, name) VALUES (1, 9, random(), 'x')",
            UNSOUGHT,
        ),
        (
            "",
            "(tenant, part, ratio, name) VALUES (1, 9, 3.5, 'x')",
            HELD,
        ),
        (
            "",
            "(tenant, part, ratio, name) VALUES (1, 9, 9007199254740993, 'x')",
            UNSOUGHT,
        ),
        ("", "(tenant, part, name) VALUES (1, NULL, 'c')", UNSOUGHT),
        (
            "",
            "(tenant, part, name) VALUES (1, nullif(1, 1), 'c')",
            UNSOUGHT,
        ),
        ("", "(tenant, name) VALUES (1, 'c')", UNSOUGHT),
        ("", "(tenant, part, name) VALUES (1, '3', 'c')", HELD),
        (
            "",
            "(tenant, part, name) VALUES (1, 5, 'x'), (1, 5, 'y')",
            Ok(2),
        ),
        (
            "",
            "(tenant, part, name) VALUES (1, 5, 'x'), (1, 5, 'x')",
            UNSOUGHT,
        ),
        (more, "(tenant, part, name) VALUES (1, 5, 'x')", UNSOUGHT),
        ("", "(tenant, part, name) SELECT 1, 5, 'x'", UNSOUGHT),
    ] {
        let file = TestFile::new(&format!("{things}{script}"));
        let others = || -> String {
            let conn = file.open_bare();
            let sql = "SELECT group_concat(id || code || part || coalesce(ratio, '-') || name) FROM things WHERE tenant <> 1 OR name = 'kept'";
            conn.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        let before = others();
        let backend = file.backend();
        let gate = gate(backend, "main", POLICIES);
        for words in ["REPLACE", "INSERT OR REPLACE"] {
            let sql = format!("{words} INTO things {rows}");
            let found = changed(&gate, &sql, &Params::None).await;
            assert_eq!(found, expected, "{sql}");
            assert_eq!(others(), before, "{sql}");
        }
    }
}

/// What is looked for may be there by the row id alone, with no other column to look at.
#[tokio::test]
async fn sqlite_finds_rows_of_which_none_is_seen() {
    const UNSEEN: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::SCHEMA::things);
"#;
    let script = "
        CREATE TABLE things (id INTEGER PRIMARY KEY, code TEXT UNIQUE, name TEXT);
        INSERT INTO things VALUES (1, 'one', 'a');";
    let file = TestFile::new(script);
    let backend = file.backend();
    let gate = gate(backend, "main", UNSEEN);
    for (sql, expected) in [
        ("REPLACE INTO things (id, name) VALUES (1, 'x')", HELD),
        ("REPLACE INTO things (id, name) VALUES (2, 'x')", Ok(1)),
        // Whatever it does of one of them.
        (
            "INSERT OR REPLACE INTO things (id, code, name) VALUES (3, 'one', 'x') ON CONFLICT (id) DO NOTHING",
            HELD,
        ),
    ] {
        assert_eq!(changed(&gate, sql, &Params::None).await, expected, "{sql}");
    }
}

/// A column that is not shown finds no row, be it given, by its default, or in what a key says of a row.
#[tokio::test]
async fn what_is_not_shown_finds_no_row() {
    const MASKED: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.things.code");
"#;
    const TOLD: Result<u64, &str> = Err("write.masked-column");
    for (columns, more, rows, expected) in [
        (
            "code TEXT UNIQUE",
            "",
            "(id, name, code) VALUES (7, 'x', 'one')",
            TOLD,
        ),
        ("code TEXT UNIQUE", "", "(id, name) VALUES (1, 'x')", Ok(1)),
        (
            "code TEXT, UNIQUE (name, code)",
            "",
            "(id, name, code) VALUES (7, 'a', 'one')",
            TOLD,
        ),
        (
            "code TEXT, UNIQUE (name, code)",
            "",
            "(id, name) VALUES (1, 'a')",
            Ok(1),
        ),
        (
            "code TEXT DEFAULT 'one', UNIQUE (name, code)",
            "",
            "(id, name) VALUES (7, 'a')",
            TOLD,
        ),
        (
            "code TEXT",
            "",
            "(id, name, code) VALUES (1, 'a', 'one')",
            Ok(1),
        ),
        (
            "code TEXT",
            "CREATE UNIQUE INDEX i ON things (lower(code))",
            "(id, name) VALUES (7, 'a')",
            TOLD,
        ),
        (
            "code TEXT",
            "CREATE UNIQUE INDEX i ON things (name) WHERE code = 'one'",
            "(id, name) VALUES (7, 'a')",
            TOLD,
        ),
        (
            "code TEXT, low TEXT AS (lower(code)) UNIQUE",
            "",
            "(id, name) VALUES (7, 'a')",
            TOLD,
        ),
    ] {
        let script = format!(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, {columns}); {more};
             INSERT INTO things (id, name, code) VALUES (1, 'a', 'one');"
        );
        let file = TestFile::new(&script);
        let backend = file.backend();
        let gate = gate(backend, "main", MASKED);
        for sql in [
            format!("REPLACE INTO things {rows}"),
            format!("INSERT INTO things {rows} ON CONFLICT DO UPDATE SET name = 'y'"),
        ] {
            let found = changed(&gate, &sql, &Params::None).await;
            assert_eq!(found, expected, "{columns} {more} {sql}");
        }
        // What one key leaves alone, another may not.
        let sql = format!("INSERT OR REPLACE INTO things {rows} ON CONFLICT (id) DO NOTHING");
        let found = changed(&gate, &sql, &Params::None).await;
        assert_eq!(found.is_ok(), expected.is_ok(), "{columns} {more} {sql}");
    }
}

/// A table whose own constraints remove rows does so by permit alone.
#[tokio::test]
async fn constraints_that_remove_rows_are_permitted_by_name() {
    const PERMIT: &str = r#"permit(principal, action == Action::"call", resource == Function::"main.replaced_rows");"#;
    let script = "
        CREATE TABLE things (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, code TEXT UNIQUE ON CONFLICT REPLACE, name TEXT NOT NULL);
        INSERT INTO things VALUES (1, 1, 'one', 'a'), (2, 2, 'two', 'b');";
    let file = TestFile::new(script);
    for (policies, expected) in [
        (POLICIES.to_owned(), Err("function.not-allowed")),
        (format!("{POLICIES}{PERMIT}"), Ok(1)),
    ] {
        let backend = file.backend();
        let gate = gate(backend, "main", &policies);
        for sql in [
            "INSERT INTO things (tenant, code, name) VALUES (1, 'two', 'x')",
            "UPDATE things SET code = 'two' WHERE id = 1",
        ] {
            assert_eq!(changed(&gate, sql, &Params::None).await, expected, "{sql}");
        }
    }
}
