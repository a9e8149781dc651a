//! Each layer alone, all others off: what it refuses, and what it lets through, so that none is taken for more than it is.

use std::{collections::HashSet, ops::ControlFlow};

use palisade::guard::{BackendErrorKind as Kind, RowSink};
use rusqlite::{OpenFlags, config::DbConfig, limits::Limit};

use super::*;
use crate::execute::{
    check_origins, check_query, engine, limit, permitted_accesses, with_authorizer,
};

/// Statements that write or reach outside.
const WRITES: &[&str] = &[
    "INSERT INTO bare VALUES (1, 2)",
    "INSERT INTO bare VALUES (1, 2) RETURNING x",
    "UPDATE users SET name = 'x'",
    "DELETE FROM users",
    "REPLACE INTO bare VALUES (1, 2)",
    "CREATE TABLE t (a)",
    "CREATE VIEW w AS SELECT 1",
    "CREATE TRIGGER w AFTER INSERT ON bare BEGIN SELECT 1; END",
    "DROP TABLE users",
    "ALTER TABLE users RENAME TO u",
    "REINDEX",
    "ANALYZE",
];

/// Statements that change the connection, and so what others may do.
const ESCAPES: &[&str] = &[
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "ATTACH ':memory:' AS o",
    "CREATE TEMP TABLE t (a)",
    "BEGIN IMMEDIATE",
];

/// A task that may read `users.id` and `users.name`.
fn with_task<T>(sql: &str, check: impl FnOnce(&Task<'_>) -> T) -> T {
    check(&Task {
        checks: undoubted(sql),
        params: &[],
        reads: &pairs(&[
            ("users", "id"),
            ("users", "name"),
            ("named", "id"),
            ("named", "label"),
        ]),
        functions: &BTreeSet::new(),
        limits: &Limits::default(),
        is_explain: false,
        stop: Stop::default(),
        cancel: palisade::guard::Cancel::default(),
    })
}

/// A connection that may do everything, over a database in memory.
fn free() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SHOP).unwrap();
    conn
}

/// Whether the engine refuses all of `statements` on `conn`, and nothing is changed by them.
fn refuses_all(conn: &Connection, statements: &[&str]) {
    let state = "SELECT group_concat(name) || (SELECT count(*) FROM users) || (SELECT count(*) FROM bare) FROM sqlite_schema";
    let before: String = conn.query_row(state, [], |row| row.get(0)).unwrap();
    for sql in statements {
        assert!(conn.execute_batch(sql).is_err(), "{sql}");
    }
    let after: String = conn.query_row(state, [], |row| row.get(0)).unwrap();
    assert_eq!(before, after);
}

#[test]
fn the_access_mode_of_the_file() {
    let shop = Shop::new();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = Connection::open_with_flags(shop.path(), flags).unwrap();
    refuses_all(&conn, WRITES);
    let error = conn.execute_batch("DELETE FROM users").unwrap_err();
    assert_eq!(engine(&error).kind, Kind::SecondLock);
    // What it does not stop: a copy of the database, for one.
    let copy = shop.dir.path().join("copy.db");
    conn.execute_batch(&format!("VACUUM INTO '{}'", copy.display()))
        .unwrap();
    assert!(copy.exists());
    for sql in ESCAPES {
        conn.execute_batch(sql).unwrap();
    }
}

#[test]
fn a_connection_that_only_queries() {
    let conn = free();
    conn.execute_batch("PRAGMA query_only = ON").unwrap();
    refuses_all(&conn, WRITES);
    // Any statement can lift it.
    conn.execute_batch("PRAGMA query_only = OFF; DELETE FROM users")
        .unwrap();
}

#[test]
fn the_engines_own_switches() {
    let on = |config, state| {
        let conn = free();
        assert_eq!(conn.set_db_config(config, state).unwrap(), state);
        conn
    };
    let conn = on(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true);
    refuses_all(
        &conn,
        &["PRAGMA writable_schema = ON; DELETE FROM sqlite_schema"],
    );
    let conn = on(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false);
    conn.execute_batch("CREATE VIEW loads AS SELECT load_extension('x') AS x")
        .unwrap();
    let error = conn.execute_batch("SELECT x FROM loads").unwrap_err();
    assert!(error.to_string().contains("unsafe use"), "{error}");
    let conn = on(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false);
    conn.execute_batch(
        "CREATE TRIGGER t AFTER INSERT ON bare BEGIN DELETE FROM users; END; INSERT INTO bare VALUES (1, 2)",
    )
    .unwrap();
    let left: i64 = conn
        .query_row("SELECT count(*) FROM users", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let attach = format!("ATTACH '{}' AS o; CREATE TABLE o.t (a)", path.display());
    let conn = on(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false);
    refuses_all(&conn, &[&attach]);
    create_database(&path, "CREATE TABLE there (a)").unwrap();
    let conn = on(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false);
    refuses_all(&conn, &[&attach]);
    let conn = on(DbConfig::SQLITE_DBCONFIG_DQS_DML, false);
    refuses_all(&conn, &["SELECT \"nosuch\" FROM users"]);
    let conn = on(DbConfig::SQLITE_DBCONFIG_ENABLE_COMMENTS, false);
    refuses_all(&conn, &["SELECT 1 -- x", "SELECT 1 /* x */"]);
    // All of these at once are what each connection of ours is.
    let conn = free();
    restrict(&conn).unwrap();
    refuses_all(&conn, WRITES);
    refuses_all(
        &conn,
        &["SELECT 1 -- x", "SELECT \"nosuch\" FROM users", &attach],
    );
}

#[test]
fn one_statement_in_a_text() {
    let conn = free();
    for sql in ["SELECT 1; DELETE FROM users", "SELECT 1; SELECT 2"] {
        let error = conn.prepare(sql).unwrap_err();
        assert_eq!(engine(&error).kind, Kind::SecondLock, "{sql}");
    }
}

#[test]
fn what_the_engine_compiled_is_a_query() {
    let conn = free();
    for sql in WRITES.iter().chain(ESCAPES).chain(&[
        "EXPLAIN SELECT id FROM users",
        "EXPLAIN QUERY PLAN SELECT id FROM users",
        "EXPLAIN DELETE FROM users",
        "COMMIT",
        "SAVEPOINT s",
        "VACUUM",
        "",
    ]) {
        let statement = conn.prepare(sql).unwrap();
        let error = with_task(sql, |task| check_query(&statement, task)).expect_err(sql);
        assert_eq!(error.kind, Kind::SecondLock, "{sql}");
    }
    let statement = conn.prepare("SELECT id FROM users").unwrap();
    with_task("", |task| check_query(&statement, task)).unwrap();
    // What a pragma shows is a query for the engine; that one is asked at all, the authorizer refuses.
    let statement = conn.prepare("PRAGMA table_info(users)").unwrap();
    with_task("", |task| check_query(&statement, task)).unwrap();
}

#[test]
fn where_columns_come_from() {
    let mut conn = free();
    conn.execute_batch(
        "ATTACH ':memory:' AS o; CREATE TABLE o.users (id INTEGER PRIMARY KEY); CREATE TABLE temp.more (id)",
    )
    .unwrap();
    let check = |conn: &Connection, sql: &str| {
        let statement = conn.prepare(sql).unwrap();
        with_task(sql, |task| check_origins(&statement, task))
    };
    for sql in [
        "SELECT ssn FROM users",
        "SELECT ssn AS name FROM users",
        "SELECT * FROM users",
        "SELECT x FROM (SELECT ssn AS x FROM users)",
        "WITH name AS MATERIALIZED (SELECT ssn AS name FROM users) SELECT name FROM name",
        "SELECT ssn FROM over_cte",
        "SELECT id, ssn FROM users GROUP BY id",
        "SELECT (SELECT 1), ssn FROM users LEFT JOIN bare ON x = id",
        "SELECT up FROM users",
        "SELECT x FROM bare",
        "SELECT rowid FROM bare",
        "SELECT sql FROM sqlite_schema",
        "SELECT value FROM json_each('[1]')",
        "SELECT name FROM pragma_table_info('users')",
        "SELECT id FROM o.users",
        "SELECT id FROM temp.more",
    ] {
        let error = check(&conn, sql).expect_err(sql);
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
        assert!(error.detail.contains("was not decided"), "{sql}: {error}");
    }
    for sql in [
        "SELECT Name AS ssn, rowid FROM Users",
        "SELECT label FROM named",
        "SELECT x FROM (SELECT name AS x FROM users)",
        "SELECT 1 AS ssn",
        "WITH RECURSIVE r (n) AS (SELECT name FROM users UNION ALL SELECT n || 'x' FROM r WHERE n = 'ann') SELECT n FROM r",
    ] {
        check(&conn, sql).unwrap();
    }
    // One way only: what is computed has no origin. This lock is no proof.
    check(&conn, "SELECT lower(ssn) FROM users").unwrap();
    // With an authorizer that admits everything, as if that lock failed, the statement is refused as a whole.
    conn.execute_batch("DETACH o; DROP TABLE temp.more")
        .unwrap();
    conn.authorizer(Some(|_: AuthContext<'_>| Authorization::Allow))
        .unwrap();
    let statement = conn.prepare("SELECT id, ssn FROM users").unwrap();
    assert!(with_task("", |task| check_query(&statement, task)).is_err());
}

/// The authorizer, on a connection that may do everything and has no other lock.
#[test]
fn the_authorizer() {
    let mut conn = free();
    let folder = tempfile::tempdir().unwrap();
    let copy = format!("VACUUM INTO '{}'", folder.path().join("copy.db").display());
    let mut run = |sql: &str| {
        let admits = with_task("", |task| permitted_accesses(task, HashSet::new()));
        with_authorizer(&mut conn, admits, |conn, _| {
            conn.execute_batch(sql).map_err(|e| engine(&e))
        })
    };
    for sql in WRITES.iter().chain(ESCAPES).chain(&[
        copy.as_str(),
        "VACUUM",
        "PRAGMA table_info(users)",
        "SELECT ssn FROM users",
        "SELECT id FROM users ORDER BY ssn",
        "SELECT count(*) FROM users WHERE EXISTS (SELECT 1 FROM bare WHERE y = 1)",
        "SELECT ssn FROM over_cte",
        "SELECT sql FROM sqlite_schema",
        "SELECT upper(name) FROM users",
        "SELECT load_extension('x')",
    ]) {
        // However the engine puts it.
        let error = run(sql).expect_err(sql);
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
    }
    run("SELECT id, name FROM users").unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let left: i64 = conn
        .query_row("SELECT count(*) FROM users", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 2);
}

#[test]
fn limits_of_the_engine() {
    let conn = free();
    with_task("", |task| limit(&conn, task, &HashSet::new())).unwrap();
    refuses_all(
        &conn,
        &[
            "ATTACH ':memory:' AS o",
            "SELECT zeroblob(2000000)",
            &format!("SELECT {}1", "1 + ".repeat(1001)),
            &vec!["SELECT 1"; 501].join(" UNION ALL "),
            &format!("SELECT name LIKE '{}' FROM users", "a".repeat(101)),
            &format!("SELECT '{}'", " ".repeat(2_000_000)),
        ],
    );
    assert_eq!(conn.limit(Limit::SQLITE_LIMIT_ATTACHED).unwrap(), 0);
}

/// Takes rows, and lets the statement's time run out at the first.
struct Late {
    time: Duration,
    rows: usize,
}

impl RowSink for Late {
    fn columns(&mut self, _: &[&str]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: Vec<Value>) -> ControlFlow<()> {
        if self.rows == 0 {
            std::thread::sleep(self.time);
        }
        self.rows += 1;
        ControlFlow::Continue(())
    }
}

/// After the time is up, few instructions run, whatever the machine does besides: rows are counted, and not time.
#[test]
fn the_clock_is_looked_at_every_few_instructions() {
    let shop = Shop::new();
    let mut query = shop
        .query("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r");
    query.limits.statement_timeout_ms = 300;
    let mut late = Late {
        time: Duration::from_millis(600),
        rows: 0,
    };
    let error = query.run_into(&mut late).unwrap_err();
    assert_eq!(error.kind, Kind::Timeout);
    // A row takes several instructions, and the clock is looked at after a hundred.
    assert!((1..=100).contains(&late.rows), "{}", late.rows);
}

/// One call cannot be interrupted, so that its arguments are kept small: the largest that are taken cost some 10^9
/// steps, less than a second on any machine of these years.
#[test]
fn one_call_takes_so_many_steps_and_no_more() {
    let shop = Shop::new();
    let call = |call: &str, text: usize, pattern: String| {
        let mut query = shop.query(&format!("SELECT {call}"));
        query.functions =
            BTreeSet::from(["like", "glob", "instr", "replace", "trim", "rtrim", "unhex"])
                .into_iter()
                .filter(|name| call.to_lowercase().contains(name))
                .map(str::to_owned)
                .collect();
        query.params = vec![Value::text("a".repeat(text)), Value::text(pattern)];
        query.run()
    };
    let refused = |name: &str, text, pattern: String| {
        let error = call(name, text, pattern).unwrap_err();
        assert!(
            matches!(error.kind, Kind::Resource | Kind::Rejected),
            "{name}: {error}"
        );
    };
    // Text times pattern, whose length is limited.
    for (name, any) in [("?1 LIKE ?2", "%"), ("?1 GLOB ?2", "*")] {
        call(name, 1_000_000, format!("{any}{}b", "a".repeat(98))).unwrap();
        refused(name, 1_000_000, format!("{any}{}b", "a".repeat(100)));
    }
    // Both are limited.
    let (long, short) = (65_536, 65_000);
    for name in ["instr(?1, ?2)", "replace(?1, ?2, 'x')"] {
        refused(name, long + 1, "ab".to_owned());
        refused(name, 10, "a".repeat(long + 1));
        call(name, short, "a".repeat(short / 2) + "b").unwrap();
    }
    // Each character to trim takes a pointer of the limit as well; `unhex` looks for each in the second text.
    for name in ["trim(?1, ?2)", "rtrim(?1, ?2)", "unhex(?1, ?2)"] {
        refused(name, long + 1, "b".to_owned());
        if name != "unhex(?1, ?2)" {
            refused(name, 10, "b".repeat(long / size_of::<usize>()) + "a");
        }
        call(name, short, "b".repeat(4_900) + "a").unwrap();
    }
    let object = |n: usize, key: char| {
        let fields: Vec<_> = (0..n).map(|i| format!("\"{key}{i}\":1")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let patch = |fields: usize| {
        let mut query = shop.query("SELECT json_patch(?1, ?2)");
        query.functions = BTreeSet::from(["json_patch".to_owned()]);
        query.params = ['a', 'b']
            .map(|key| Value::text(object(fields, key)))
            .to_vec();
        query.run()
    };
    patch(3_000).unwrap();
    assert_eq!(patch(10_000).unwrap_err().kind, Kind::Resource);
}
