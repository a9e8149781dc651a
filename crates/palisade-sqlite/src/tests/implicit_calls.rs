//! Defaults and generated columns that call functions: a table's own calls are no calls of the statement.

use palisade::{
    catalog::Change,
    guard::{Backend as _, BackendErrorKind as Kind},
};
use palisade_testkit::fixture::require_permitted;

use super::*;
use crate::write::Changes;

const NOTES: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, date TEXT DEFAULT CURRENT_DATE, made TEXT DEFAULT (datetime('now')),
        low TEXT AS (lower(name)) STORED, up TEXT AS (upper(trim(name))), CHECK (length(name) < 50));
    CREATE INDEX by_hex ON t (hex(name)) WHERE abs(id) > 0;
    CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, tid INTEGER DEFAULT (abs(-9)) REFERENCES t ON DELETE SET DEFAULT);
    CREATE VIEW named AS SELECT low, made FROM t;
    CREATE VIEW calling AS SELECT lower(name) AS l, id FROM t;
    CREATE TABLE log (what TEXT, at TEXT DEFAULT (time('now')));
    CREATE TABLE armed (a INT);
    CREATE TRIGGER noted AFTER INSERT ON armed BEGIN INSERT INTO log (what) VALUES ('armed'); END;
    INSERT INTO t (id, name) VALUES (1, 'Ann'), (9, 'Bob');
    INSERT INTO plain (name) VALUES ('Cat');
    INSERT INTO child (tid) VALUES (1);
";

/// What is permitted everything gets for `statements`: the first cell of the last.
fn ask(statements: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.db");
    create_database(&path, NOTES).unwrap();
    let mut last = None;
    for sql in statements {
        let backend = SqliteBackend::open_file(&path, "notes").unwrap().writable();
        let statement = require_permitted(backend.catalog(), sql);
        let mut rows = Rows::all();
        {
            let ticket = palisade::danger::ticket(&statement);
            pollster::block_on(backend.execute(ticket, &mut rows))
                .unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
        last = rows.rows.first().and_then(|row| row.first().cloned());
    }
    last.unwrap()
}

#[test]
fn a_table_calls_what_its_schema_says() {
    for (sql, expected) in [
        ("SELECT low FROM t WHERE id = 1", "ann"),
        ("SELECT (date > '2000') || '' FROM t WHERE id = 1", "1"),
        ("SELECT (made > '2000') || '' FROM t WHERE id = 1", "1"),
        ("SELECT up FROM t WHERE id = 1", "ANN"),
        ("SELECT count(*) || '' FROM t", "2"),
        ("SELECT low FROM named ORDER BY low LIMIT 1", "ann"),
        ("SELECT l FROM calling WHERE id = 9", "bob"),
        ("SELECT lower(name) FROM t WHERE id = 9", "bob"),
    ] {
        assert_eq!(ask(&[sql]), Value::text(expected), "{sql}");
    }
    for (change, sql, expected) in [
        (
            "INSERT INTO t (name) VALUES ('Dan')",
            "SELECT low || (date > '2000') || (made > '2000') FROM t WHERE id = 10",
            "dan11",
        ),
        (
            "INSERT INTO t (id, name, date) VALUES (1, 'x', 'y') ON CONFLICT (id) DO UPDATE SET name = 'Eve'",
            "SELECT low FROM t WHERE id = 1",
            "eve",
        ),
        (
            "UPDATE t SET name = 'Fay' WHERE id = 1",
            "SELECT low FROM t WHERE id = 1",
            "fay",
        ),
        (
            "UPDATE t SET date = 'd' WHERE low = 'ann'",
            "SELECT date FROM t WHERE id = 1",
            "d",
        ),
        (
            "INSERT INTO plain (name) SELECT low FROM t WHERE id = 1",
            "SELECT name FROM plain WHERE id = 2",
            "ann",
        ),
        (
            "DELETE FROM t WHERE id = 1",
            "SELECT tid || '' FROM child",
            "9",
        ),
        (
            "ALTER TABLE t ADD COLUMN more TEXT",
            "SELECT low FROM t WHERE id = 1",
            "ann",
        ),
        (
            "ALTER TABLE t DROP COLUMN date",
            "SELECT low FROM t WHERE id = 1",
            "ann",
        ),
    ] {
        assert_eq!(ask(&[change, sql]), Value::text(expected), "{change}");
    }
}

/// Whether a statement that was decided to call nothing, over `t` and `plain`, is run.
fn runs(backend: &SqliteBackend, sql: &str, writes: &[(Change, &str, &str)]) -> bool {
    let reads: Vec<_> = ["id", "name", "date", "made", "low", "up", ""]
        .iter()
        .flat_map(|column| ["t", "plain"].map(|table| (table, *column)))
        .chain(sql.contains("calling").then_some(("calling", "l")))
        .collect();
    let task = Task {
        checks: undoubted(sql),
        params: &[],
        reads: &pairs(&reads),
        functions: &BTreeSet::new(),
        limits: &Limits::default(),
        is_explain: false,
        stop: Stop::default(),
        cancel: palisade::guard::Cancel::default(),
    };
    let writes: BTreeSet<_> = writes
        .iter()
        .map(|(change, table, column)| (*change, (*table).to_owned(), (*column).to_owned()))
        .collect();
    let changes = Changes {
        writes: &writes,
        triggers: &BTreeSet::from(["noted".to_owned()]),
        max_affected: 10,
    };
    let result = if writes.is_empty() {
        backend.read_now(&task, &mut Rows::all())
    } else {
        let done = backend.write_now(&task, &changes, &mut Rows::all());
        done.map(drop)
    };
    match result {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
            false
        }
    }
}

#[test]
fn what_a_table_calls_the_statement_may_not() {
    let backend = SqliteBackend::in_memory(NOTES, "notes").unwrap().writable();
    let insert = [(Change::Insert, "t", "")];
    let armed = [(Change::Insert, "armed", "")];
    let update = [(Change::Update, "t", "name")];
    for (sql, writes) in [
        ("SELECT low, date, made FROM main.t", &[][..]),
        ("SELECT name AS lower, 'lower(x)' FROM main.t", &[]),
        ("INSERT INTO main.t (name) VALUES ('Dan')", &insert),
        ("UPDATE main.t SET name = 'lower' WHERE id = 1", &update),
        // What a trigger inserts has defaults, too.
        ("INSERT INTO main.armed VALUES (1)", &armed),
    ] {
        assert!(runs(&backend, sql, writes), "{sql}");
    }
    for (sql, writes) in [
        ("SELECT low, lower(name) FROM main.t", &[][..]),
        ("SELECT low, LOWER (name) FROM main.t", &[]),
        ("SELECT low, \"Lower\" (name) FROM main.t", &[]),
        ("SELECT low, [lower](name) FROM main.t", &[]),
        ("SELECT low, `lower`(name) FROM main.t", &[]),
        ("SELECT date, current_date FROM main.t", &[]),
        ("SELECT made, datetime('now') FROM main.t", &[]),
        ("SELECT low FROM main.t WHERE lower(name) = 'ann'", &[]),
        ("SELECT l FROM main.calling", &[]),
        // A function that another table calls.
        ("SELECT abs(id) FROM main.t", &[]),
        ("SELECT lower(name) FROM main.plain", &[]),
        ("INSERT INTO main.t (name) VALUES (lower('Dan'))", &insert),
        ("UPDATE main.t SET name = lower(name)", &update),
        (
            "UPDATE main.t SET name = 'x' RETURNING lower(name)",
            &update,
        ),
    ] {
        assert!(!runs(&backend, sql, writes), "{sql}");
    }
    let backend = SqliteBackend::in_memory(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, date TEXT AS (name LIKE 'a') STORED, made TEXT AS (name -> 1) STORED)",
        "operators",
    )
    .unwrap();
    assert!(runs(&backend, "SELECT date, made FROM main.t", &[]));
    for sql in [
        "SELECT date, name LIKE 'b' FROM main.t",
        "SELECT made, name -> 1 FROM main.t",
    ] {
        assert!(!runs(&backend, sql, &[]), "{sql}");
    }
}
