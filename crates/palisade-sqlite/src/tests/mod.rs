//! Each lock alone, against real databases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use palisade::{
    catalog::functions,
    danger::{self, RawParts},
    dialect::Dialect,
    guard::{BackendError, BackendErrorKind, Checks, RowSink},
    limits::Limits,
    value::Value,
};
use palisade_testkit::rows::Rows;
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};
use tempfile::TempDir;

use crate::{
    CreateError, OpenError, SqliteBackend, create_database,
    execute::{Task, restrict},
    load,
    worker::Stop,
};

mod difference;
mod full_text;
mod implicit_calls;
mod layers;
mod planted;
mod worker;
mod write;

const SHOP: &str = "
    CREATE TABLE Users (id INTEGER PRIMARY KEY, Name TEXT, ssn TEXT, doc TEXT, up AS (upper(Name)));
    CREATE TABLE bare (x, y);
    CREATE INDEX bare_x ON bare (x);
    CREATE VIEW named AS SELECT id, Name AS label FROM Users WHERE ssn IS NOT NULL;
    CREATE VIEW counted AS SELECT count(*) AS n FROM Users; -- a comment
    CREATE VIEW over_cte AS WITH c AS (SELECT ssn FROM Users) SELECT ssn FROM c;
    INSERT INTO Users (Name, ssn, doc) VALUES ('ann', '1', '[1,2]'), ('bob', '2', '{}');
    INSERT INTO bare VALUES (1, zeroblob(5)), ('t', NULL);
";

/// A database file that goes away with the test.
struct Shop {
    dir: TempDir,
    backend: SqliteBackend,
}

impl Shop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shop.db");
        create_database(&path, SHOP).unwrap();
        let backend = SqliteBackend::open_file(&path, "shop").unwrap();
        Self { dir, backend }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("shop.db")
    }

    fn query(&self, sql: &str) -> Query<'_> {
        Query {
            backend: &self.backend,
            sql: sql.to_owned(),
            params: Vec::new(),
            reads: pairs(&[
                ("users", "id"),
                ("users", "name"),
                ("users", "doc"),
                ("users", "up"),
                ("users", ""),
                ("bare", "x"),
                ("bare", "y"),
                ("bare", ""),
                ("r", ""),
                ("json_each", "value"),
            ]),
            functions: BTreeSet::from(
                [
                    "count", "like", "upper", "hex", "zeroblob", "sum", "char", "printf", "abs",
                ]
                .map(str::to_owned),
            ),
            limits: Limits::default(),
        }
    }
}

struct Query<'a> {
    backend: &'a SqliteBackend,
    sql: String,
    params: Vec<Value>,
    reads: BTreeSet<(String, String)>,
    functions: BTreeSet<String>,
    limits: Limits,
}

impl Query<'_> {
    fn run(&self) -> Result<Rows, BackendError> {
        let mut rows = Rows::all();
        self.run_into(&mut rows)?;
        Ok(rows)
    }

    fn run_into(&self, sink: &mut (dyn RowSink + Send)) -> Result<(), BackendError> {
        let task = Task {
            checks: undoubted(&self.sql),
            params: &self.params,
            reads: &self.reads,
            functions: &self.functions,
            limits: &self.limits,
            is_explain: false,
            stop: Stop::default(),
            cancel: palisade::guard::Cancel::default(),
        };
        self.backend.read_now(&task, sink)
    }

    fn fails(&self) -> BackendError {
        self.run().expect_err(&self.sql)
    }
}

/// The way to a text before which nothing has to be looked at.
fn undoubted(sql: &str) -> Checks<'_> {
    danger::checks(&RawParts::from_sql(sql))
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[test]
fn rows_come_as_they_are() {
    let shop = Shop::new();
    let rows = shop
        .query("SELECT x, y, 1.5 AS z FROM main.bare")
        .run()
        .unwrap();
    assert_eq!(rows.names, ["x", "y", "z"]);
    assert_eq!(
        rows.rows,
        [
            vec![Value::Integer(1), Value::Blob(vec![0; 5]), Value::Real(1.5)],
            vec![Value::text("t"), Value::Null, Value::Real(1.5)],
        ]
    );
    let broken = shop
        .query("SELECT CAST(x'ff41' AS TEXT) AS t")
        .run()
        .unwrap();
    assert_eq!(broken.rows, [[Value::Text(vec![0xff, b'A'])]]);
    let mut one = Rows::until(1);
    shop.query("SELECT id FROM main.users")
        .run_into(&mut one)
        .unwrap();
    assert_eq!(one.rows.len(), 1);
    let mut none = Rows::until(0);
    shop.query("SELECT id FROM main.users")
        .run_into(&mut none)
        .unwrap();
    assert_eq!((none.names.len(), none.rows.len()), (1, 0));
    // The schema's own comments and generated columns are no obstacle.
    assert_eq!(
        shop.query("SELECT up FROM main.users")
            .run()
            .unwrap()
            .rows
            .len(),
        2
    );
}

#[test]
fn parameters_are_bound_by_position() {
    let shop = Shop::new();
    let mut query = shop.query("SELECT ?1, ?2, ?3, ?4, ?5, ?6");
    query.params = vec![
        Value::Bool(true),
        Value::Integer(-1),
        Value::Real(0.5),
        Value::Text(vec![b'a', 0xff, 0]),
        Value::Blob(vec![0]),
        Value::Null,
    ];
    let mut expected = query.params.clone();
    expected[0] = Value::Integer(1);
    assert_eq!(query.run().unwrap().rows, [expected]);
    query.params.pop();
    assert_eq!(query.fails().kind, BackendErrorKind::SecondLock);
}

#[test]
fn what_is_not_a_query_is_refused_by_the_second_lock() {
    let shop = Shop::new();
    let target = shop.dir.path().join("copy.db");
    let before = std::fs::read(shop.path()).unwrap();
    for sql in [
        format!("VACUUM INTO '{}'", target.display()),
        format!("ATTACH '{}' AS o", target.display()),
        "ATTACH ':memory:' AS o".into(),
        "DETACH main".into(),
        "VACUUM".into(),
        "PRAGMA query_only=OFF".into(),
        "PRAGMA table_info(users)".into(),
        "PRAGMA writable_schema=ON".into(),
        "SELECT name FROM pragma_table_info('users')".into(),
        "INSERT INTO main.bare VALUES (1, 2)".into(),
        "INSERT INTO main.bare VALUES (1, 2) RETURNING x".into(),
        "UPDATE main.users SET name = 'x'".into(),
        "DELETE FROM main.users".into(),
        "CREATE TABLE t (a)".into(),
        "CREATE TEMP TABLE t (a)".into(),
        "CREATE TEMP VIEW t AS SELECT 1".into(),
        "CREATE VIRTUAL TABLE t USING fts5(a)".into(),
        "DROP TABLE main.users".into(),
        "ALTER TABLE main.users RENAME TO u".into(),
        "ANALYZE".into(),
        "REINDEX".into(),
        "BEGIN".into(),
        "COMMIT".into(),
        "ROLLBACK".into(),
        "SAVEPOINT s".into(),
        "EXPLAIN SELECT id FROM main.users".into(),
        "EXPLAIN QUERY PLAN SELECT id FROM main.users".into(),
        "SELECT 1; SELECT 2".into(),
        "SELECT sql FROM sqlite_master".into(),
        "SELECT sql FROM main.sqlite_schema".into(),
        "SELECT count(*) FROM main.sqlite_schema".into(),
        "SELECT name FROM dbstat".into(),
        "SELECT load_extension('x')".into(),
        "SELECT sqlite_version()".into(),
        "SELECT ssn FROM main.users".into(),
        "SELECT id FROM main.users WHERE ssn = '1'".into(),
        "SELECT id FROM main.users ORDER BY ssn".into(),
        "WITH named AS (SELECT ssn FROM main.users) SELECT * FROM named".into(),
        "SELECT label FROM main.named".into(),
        "SELECT n FROM main.counted".into(),
        "SELECT * FROM main.over_cte".into(),
        "SELECT x FROM temp.bare UNION SELECT ssn FROM main.users".into(),
        "SELECT key FROM json_each('[1]')".into(),
        "SELECT rowid FROM main.bare".into(),
        "SELECT lower(name) FROM main.users".into(),
        "".into(),
        ";".into(),
    ] {
        let error = shop.query(&sql).fails();
        let expected = if sql.contains("temp.bare") {
            // Not a denial: there is no such table.
            BackendErrorKind::Rejected
        } else {
            BackendErrorKind::SecondLock
        };
        assert_eq!(error.kind, expected, "{sql}: {error}");
    }
    assert!(!target.exists());
    assert_eq!(std::fs::read(shop.path()).unwrap(), before);
    assert_eq!(std::fs::read_dir(shop.dir.path()).unwrap().count(), 1);
}

#[test]
fn time_is_limited() {
    let shop = Shop::new();
    let mut query = shop.query(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    );
    query.limits.statement_timeout_ms = 100;
    let start = Instant::now();
    assert_eq!(query.fails().kind, BackendErrorKind::Timeout);
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// The clock of a statement stops with it: what the connection does later has time of its own.
#[test]
fn a_later_look_at_the_schema_is_not_interrupted() {
    let shop = Shop::new();
    let mut query = shop.query("SELECT id FROM main.users");
    query.limits.statement_timeout_ms = 50;
    query.run().unwrap();
    let tables: String = (0..200)
        .map(|n| format!("CREATE TABLE more{n} (id INTEGER PRIMARY KEY, a, b, c);"))
        .collect();
    Connection::open(shop.path())
        .unwrap()
        .execute_batch(&tables)
        .unwrap();
    std::thread::sleep(Duration::from_millis(80));
    let refreshed = shop.backend.refresh().unwrap().unwrap();
    assert!(refreshed.catalog().find("main", "more199").is_some());
}

#[test]
fn a_locked_database_is_told_in_time() {
    let shop = Shop::new();
    let other = Connection::open(shop.path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut query = shop.query("SELECT id FROM main.users");
    query.limits.statement_timeout_ms = 50;
    let start = Instant::now();
    assert_eq!(query.fails().kind, BackendErrorKind::Locked);
    assert!(start.elapsed() < Duration::from_secs(4));
    other.execute_batch("ROLLBACK").unwrap();
    assert!(query.run().is_ok());
}

#[test]
fn sizes_are_limited() {
    let shop = Shop::new();
    let check = |sql: &str, kind| assert_eq!(shop.query(sql).fails().kind, kind, "{sql}");
    check("SELECT zeroblob(2000000)", BackendErrorKind::Resource);
    check("SELECT hex(zeroblob(1000000))", BackendErrorKind::Resource);
    check(
        "SELECT printf('%.*c', 2000000, 'x')",
        BackendErrorKind::Resource,
    );
    let wide = vec!["zeroblob(1000000)"; 100].join(", ");
    check(&format!("SELECT {wide}"), BackendErrorKind::Resource);
    let union = vec!["SELECT 1"; 501].join(" UNION ALL ");
    check(&union, BackendErrorKind::Rejected);
    check(
        "SELECT abs(-9223372036854775808)",
        BackendErrorKind::Rejected,
    );
    check(
        &format!("SELECT name LIKE '{}' FROM main.users", "a".repeat(201)),
        BackendErrorKind::Rejected,
    );
    let mut large = shop.query("SELECT zeroblob(2000000)");
    large.limits.max_cell_bytes = 3_000_000;
    assert_eq!(
        large.run().unwrap().rows,
        [[Value::Blob(vec![0; 2_000_000])]]
    );
}

#[test]
fn the_length_of_a_program_is_limited() {
    let backend = SqliteBackend::in_memory(SHOP, "shop").unwrap();
    let shop = Shop {
        dir: tempfile::tempdir().unwrap(),
        backend,
    };
    let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let query = |n: usize| {
        shop.query(&format!(
            "SELECT id FROM main.users WHERE id IN ({})",
            list(n)
        ))
    };
    assert_eq!(query(5_000).run().unwrap().rows.len(), 2);
    assert_eq!(query(60_000).fails().kind, BackendErrorKind::Resource);
    // The connection survives it.
    assert_eq!(query(10).run().unwrap().rows.len(), 2);
}

#[test]
fn files_that_are_no_databases_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let open = |name: &str| SqliteBackend::open_file(at(name), "x").unwrap_err();
    assert!(matches!(open("missing.db"), OpenError::File { .. }));
    assert!(!at("missing.db").exists());
    assert!(matches!(open(""), OpenError::NotAFile { .. }));
    std::fs::write(
        at("text.db"),
        "this is not a database, but it is long enough to have a header of one ".repeat(20),
    )
    .unwrap();
    assert!(matches!(open("text.db"), OpenError::NotADatabase { .. }));
    for special in [":memory:", "file::memory:?mode=memory", ""] {
        assert!(
            matches!(
                SqliteBackend::open_file(special, "x"),
                Err(OpenError::File { .. })
            ),
            "{special}"
        );
    }
    create_database(
        at("bad.db"),
        "CREATE TABLE t (a TEXT); CREATE INDEX i ON t (a);",
    )
    .unwrap();
    let mut bytes = std::fs::read(at("bad.db")).unwrap();
    // Where the first page's cells are: the schema itself.
    bytes[100..4000].fill(0xee);
    std::fs::write(at("bad.db"), &bytes).unwrap();
    assert!(matches!(open("bad.db"), OpenError::Corrupt { .. }));
    std::fs::write(at("empty.db"), "").unwrap();
    assert!(SqliteBackend::open_file(at("empty.db"), "x").is_ok());
}

#[test]
fn a_database_that_breaks_later_is_unavailable() {
    let shop = Shop::new();
    let path = shop.path();
    let query = shop.query("SELECT id FROM main.users");
    query.run().unwrap();
    std::fs::write(&path, "x".repeat(4096)).unwrap();
    assert_eq!(query.fails().kind, BackendErrorKind::Unavailable);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(query.fails().kind, BackendErrorKind::Unavailable);
    assert!(!path.exists());
}

#[test]
fn a_changed_schema_stops_statements_until_refreshed() {
    let shop = Shop::new();
    let query = shop.query("SELECT id FROM main.users");
    let version = shop.backend.schema_version().unwrap();
    let writer = Connection::open(shop.path()).unwrap();
    writer
        .execute_batch("INSERT INTO bare VALUES (3, 4); VACUUM")
        .unwrap();
    // Rows and pages may change, the schema's texts may not.
    query.run().unwrap();
    assert!(shop.backend.refresh().unwrap().is_none());
    writer
        .execute_batch("ALTER TABLE bare ADD COLUMN z")
        .unwrap();
    let error = query.fails();
    assert_eq!(
        (error.kind, error.detail.as_str()),
        (BackendErrorKind::SchemaChanged, "the schema changed")
    );
    assert!(shop.backend.schema_version().unwrap() > version);
    let refreshed = shop.backend.refresh().unwrap().unwrap();
    assert_eq!(
        refreshed
            .catalog()
            .find("main", "bare")
            .unwrap()
            .columns
            .len(),
        3
    );
    // The old value stays refused: what was checked against its catalog must not run.
    assert_eq!(query.fails().kind, BackendErrorKind::SchemaChanged);
    Query {
        backend: &refreshed,
        ..shop.query("SELECT id FROM main.users")
    }
    .run()
    .unwrap();
}

#[test]
fn another_file_in_its_place_is_noticed() {
    let shop = Shop::new();
    let version = shop.backend.schema_version().unwrap();
    std::fs::remove_file(shop.path()).unwrap();
    create_database(shop.path(), &SHOP.replace("ssn IS NOT NULL", "ssn IS NULL")).unwrap();
    assert_eq!(shop.backend.schema_version().unwrap(), version);
    assert_eq!(
        shop.query("SELECT id FROM main.users").fails().detail,
        "the schema changed"
    );
}

/// Ways by which another database, of the same schema version, comes to stand under a path.
#[test]
fn a_kept_connection_notices_another_database() {
    let other = SHOP.replace("ssn IS NOT NULL", "ssn IS NULL");
    let ways: [fn(&PathBuf, &PathBuf); 3] = [
        |other, path| {
            std::fs::remove_file(path).unwrap();
            std::fs::copy(other, path).unwrap();
        },
        |other, path| std::fs::rename(other, path).unwrap(),
        // Written over in its place, as `cp` does.
        |other, path| std::fs::write(path, std::fs::read(other).unwrap()).unwrap(),
    ];
    for (n, replace) in ways.into_iter().enumerate() {
        let shop = Shop::new();
        let query = shop.query("SELECT id FROM main.users");
        for _ in 0..3 {
            assert_eq!(query.run().unwrap().rows.len(), 2, "{n}");
            // Of the first, and of a connection that is kept.
            std::thread::sleep(std::time::Duration::from_millis(80));
        }
        let path = shop.dir.path().join("other.db");
        create_database(&path, &other).unwrap();
        replace(&path, &shop.path());
        for _ in 0..3 {
            assert_eq!(query.fails().detail, "the schema changed", "{n}");
        }
    }
}

#[test]
fn a_kept_connection_has_nothing_of_the_request_before() {
    let shop = Shop::new();
    let long = "SELECT hex(zeroblob(700000)) FROM main.users";
    let within = |bytes: usize| {
        let mut query = shop.query(long);
        query.limits.max_cell_bytes = bytes;
        query
    };
    // A write before is further back than the times of files are coarse, so that connections are kept.
    std::thread::sleep(std::time::Duration::from_millis(150));
    for _ in 0..3 {
        within(1).fails();
        assert_eq!(within(4 << 20).run().unwrap().rows.len(), 2);
        // A writer waits for no reader that is kept.
        let writer = Connection::open(shop.path()).unwrap();
        writer.execute_batch("UPDATE bare SET y = 7").unwrap();
        let seen = shop.query("SELECT y FROM main.bare").run().unwrap().rows;
        assert!(
            seen.iter().all(|row| row == &[Value::Integer(7)]),
            "{seen:?}"
        );
    }
}

#[test]
fn memory_serves_many_requests() {
    let backend = SqliteBackend::in_memory(SHOP, "shop").unwrap();
    assert_eq!(backend.catalog().database(), "shop");
    let shop = Shop {
        dir: tempfile::tempdir().unwrap(),
        backend: backend.clone(),
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(
                        shop.query("SELECT id FROM main.users")
                            .run()
                            .unwrap()
                            .rows
                            .len(),
                        2
                    );
                    assert_eq!(
                        shop.query("DELETE FROM main.users").fails().kind,
                        BackendErrorKind::SecondLock
                    );
                }
            });
        }
    });
    assert!(backend.refresh().unwrap().is_none());
}

#[test]
fn comments_and_double_quoted_strings_in_a_stored_schema_are_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    create_database(
        &path,
        "CREATE TABLE t (a TEXT, -- one\n b /* two */ TEXT DEFAULT \"x\" CHECK (b <> \"\"));
         CREATE INDEX i ON t (a) WHERE /* three */ b > 'q';
         CREATE VIEW v AS -- four\n SELECT a /* five */ FROM t;
         INSERT INTO t VALUES ('1', 'z');",
    )
    .unwrap();
    let backend = SqliteBackend::open_file(&path, "c").unwrap();
    let shop = Shop { dir, backend };
    let mut query = shop.query("SELECT a FROM main.v");
    query.reads = pairs(&[("t", "a"), ("v", "a")]);
    assert_eq!(query.run().unwrap().rows, [[Value::text("1")]]);
    // What is run has none.
    query.sql.push_str(" -- x");
    assert_eq!(query.fails().kind, BackendErrorKind::Rejected);
}

#[test]
fn other_journals_and_encodings_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    create_database(
        &path,
        "PRAGMA encoding = 'UTF-16'; PRAGMA journal_mode = WAL; CREATE TABLE \"Ünï\" (\"É\" TEXT); INSERT INTO \"Ünï\" VALUES ('ß');",
    )
    .unwrap();
    let backend = SqliteBackend::open_file(&path, "w").unwrap();
    let shop = Shop { dir, backend };
    let mut query = shop.query("SELECT \"É\" FROM main.\"Ünï\"");
    // Only ASCII letters are folded.
    query.reads = pairs(&[("Ünï", "É")]);
    assert_eq!(query.run().unwrap().rows, [[Value::text("ß")]]);
    // A writer in the middle of a transaction does not disturb a reader of a write-ahead log.
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO \"Ünï\" VALUES ('x')")
        .unwrap();
    assert_eq!(query.run().unwrap().rows.len(), 1);
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(query.run().unwrap().rows.len(), 2);
}

#[test]
fn a_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    std::fs::write(&path, "mine").unwrap();
    assert!(matches!(
        create_database(&path, "CREATE TABLE t (a)"),
        Err(CreateError::File { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let other = dir.path().join("b.db");
    assert!(matches!(
        create_database(&other, "CREATE TABLE t (a); nonsense"),
        Err(CreateError::Load(_))
    ));
    assert!(!other.exists());
}

#[test]
fn every_function_of_the_engine_is_classed() {
    let conn = Connection::open_in_memory().unwrap();
    let mut statement = conn
        .prepare("SELECT DISTINCT lower(name) FROM pragma_function_list")
        .unwrap();
    let names: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(names.len() > 100);
    let missing: Vec<_> = names
        .iter()
        .filter(|name| functions::registry(Dialect::Sqlite).get(name).is_none())
        .collect();
    assert!(missing.is_empty(), "not in the registry: {missing:?}");
    // And what an agent may be told to use is there.
    let absent: Vec<_> = functions::registry(Dialect::Sqlite)
        .all()
        .iter()
        .filter(|def| !def.safety.needs_named_permit() && !def.kinds.table)
        .map(|def| &def.name)
        .filter(|name| !names.contains(name))
        .collect();
    assert!(absent.is_empty(), "not in this build: {absent:?}");
}

/// Modules that can stand in FROM without CREATE VIRTUAL TABLE, or could be created: those that are no
/// functions of the registry are refused as unknown relations.
#[test]
fn every_module_of_the_engine_is_known() {
    let conn = Connection::open_in_memory().unwrap();
    let mut statement = conn
        .prepare("SELECT DISTINCT name FROM pragma_module_list")
        .unwrap();
    let names: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let storage = [
        "dbstat",
        "fts3",
        "fts3tokenize",
        "fts4",
        "fts4aux",
        "fts5",
        "fts5vocab",
        "rtree",
        "rtree_i32",
    ];
    for name in names {
        let table_function = functions::registry(Dialect::Sqlite)
            .get(&name)
            .is_some_and(|def| def.kinds.table);
        assert!(
            table_function || name.starts_with("pragma_") || storage.contains(&name.as_str()),
            "{name}"
        );
    }
}

/// What the authorizer is asked while `sql` is prepared and run: reads as `table.column`, with `@none`
/// if no database is named, and calls as `name()`.
fn reported(sql: &str) -> BTreeSet<String> {
    let mut conn = load::memory(SHOP).unwrap();
    let log = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&log);
    conn.authorizer(Some(move |context: AuthContext<'_>| {
        let place = if context.database_name.is_none() {
            "@none"
        } else {
            ""
        };
        let event = match context.action {
            AuthAction::Select | AuthAction::Recursive => None,
            AuthAction::Read {
                table_name,
                column_name,
            } => Some(format!("{table_name}.{column_name}{place}")),
            AuthAction::Function { function_name } => Some(format!("{function_name}()")),
            other => Some(format!("{other:?}")),
        };
        seen.lock().unwrap().extend(event);
        Authorization::Allow
    }))
    .unwrap();
    let mut statement = conn.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
    log.lock().unwrap().clone()
}

#[test]
fn what_the_engine_reports() {
    let check = |sql: &str, expected: &[&str]| {
        let expected: BTreeSet<String> = expected.iter().map(|e| (*e).to_owned()).collect();
        assert_eq!(reported(sql), expected, "{sql}");
    };
    // Names are those of the declaration, except where no column is used.
    check(
        "SELECT NAME FROM USERS AS u WHERE u.SSN = '1'",
        &["Users.Name", "Users.ssn"],
    );
    check("SELECT COUNT(*) FROM USERS", &["USERS.@none", "count()"]);
    check("SELECT COUNT(*) FROM main.USERS", &["USERS.", "count()"]);
    check("SELECT 1 FROM main.Users, main.bare", &["Users.", "bare."]);
    // Row ids do not count as a use.
    check("SELECT rowid FROM main.Users", &["Users.", "Users.id"]);
    check(
        "SELECT id FROM main.Users WHERE id = 1",
        &["Users.", "Users.id"],
    );
    check("SELECT oid FROM main.bare", &["bare.", "bare.ROWID"]);
    check("SELECT up FROM main.Users", &["Users.up"]);
    // Common table expressions and subqueries.
    check(
        "WITH Cte AS (SELECT ssn AS s FROM main.Users) SELECT s FROM cte",
        &["Users.ssn"],
    );
    check(
        "WITH c AS MATERIALIZED (SELECT ssn FROM main.Users) SELECT count(*) FROM C",
        &["C.@none", "Users.ssn", "count()"],
    );
    check(
        "WITH c AS (SELECT ssn FROM main.Users) SELECT 1 FROM c",
        &["Users.", "Users.ssn"],
    );
    check(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
        &[],
    );
    check(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3) SELECT count(*) FROM r",
        &["count()", "r.@none"],
    );
    check(
        "SELECT s FROM (SELECT ssn AS s FROM main.Users) AS sub",
        &["Users.ssn"],
    );
    check(
        "SELECT count(*) FROM (SELECT DISTINCT ssn FROM main.Users) AS sub",
        &["Users.ssn", "count()"],
    );
    check(
        "SELECT count(*) FROM (SELECT ssn FROM main.Users) AS sub",
        &["Users.", "Users.ssn", "count()"],
    );
    check(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM main.bare)",
        &["bare."],
    );
    check("VALUES (1), (2)", &[]);
    // The columns of USING and NATURAL are compared without being reported.
    check(
        "SELECT 1 FROM main.Users AS a JOIN main.Users AS b USING (ssn)",
        &[],
    );
    check(
        "SELECT a.doc FROM main.Users AS a NATURAL JOIN main.Users AS b",
        &["Users.doc"],
    );
    check(
        "SELECT ssn FROM main.Users AS a JOIN main.Users AS b USING (ssn)",
        &["Users.ssn"],
    );
    check(
        "SELECT 1 FROM main.Users AS a FULL JOIN main.Users AS b USING (ssn)",
        &[],
    );
    check(
        "SELECT 1 FROM main.Users AS a JOIN main.Users AS b ON a.ssn = b.ssn",
        &["Users.ssn"],
    );
    // Views: everything the definition mentions, then what is used of the view.
    check(
        "SELECT label FROM main.named",
        &["Users.Name", "Users.id", "Users.ssn", "named.label"],
    );
    check(
        "SELECT count(*) FROM main.named",
        &["Users.Name", "Users.id", "Users.ssn", "count()"],
    );
    check(
        "SELECT n FROM main.counted",
        &["Users.", "count()", "counted.n"],
    );
    check(
        "SELECT ssn FROM main.over_cte",
        &["Users.ssn", "over_cte.ssn"],
    );
    // Table functions.
    check(
        "SELECT key, value FROM json_each('[1]')",
        &["json_each.key", "json_each.value"],
    );
    check(
        "SELECT count(*) FROM json_tree('[1]')",
        &["count()", "json_tree.@none"],
    );
    check(
        "SELECT json, rowid FROM json_each('[1]')",
        &["json_each.ROWID", "json_each.json"],
    );
    check(
        "SELECT j.value FROM main.Users AS u, json_each(u.doc) AS j",
        &["Users.doc", "json_each.value"],
    );
    // Functions and operators.
    check(
        "SELECT Name LIKE 'a' ESCAPE '!', Name GLOB 'a', doc -> '$', doc ->> '$' FROM main.Users",
        &[
            "->()",
            "->>()",
            "Users.Name",
            "Users.doc",
            "glob()",
            "like()",
        ],
    );
    check(
        "SELECT CAST(Name AS INT), Name || 'x' COLLATE NOCASE, id BETWEEN 1 AND 2, CASE id WHEN 1 THEN 2 END, id IN (1) FROM main.Users",
        &["Users.Name", "Users.id"],
    );
    check(
        "SELECT CURRENT_DATE, IIF(1, 2, 3), IfNull(1, 2)",
        &["current_date()", "ifnull()", "iif()"],
    );
    check(
        "SELECT ROW_NUMBER() OVER (ORDER BY ssn), lag(Name) OVER (PARTITION BY id) FROM main.Users",
        &[
            "Users.Name",
            "Users.id",
            "Users.ssn",
            "lag()",
            "row_number()",
        ],
    );
    check(
        "SELECT RANK() OVER (ORDER BY id) FROM main.Users",
        &["Users.", "Users.id", "rank()"],
    );
}
