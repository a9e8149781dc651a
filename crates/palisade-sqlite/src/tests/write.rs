//! Statements that change rows: what is decided happens, and nothing else.

use std::ops::ControlFlow;

use palisade::{
    catalog::Change,
    guard::{Backend as _, BackendErrorKind as Kind, Completion, RowSink},
};

use palisade_testkit::fixture::require_permitted;

use super::*;
use crate::write::Changes;

const LEDGER: &str = "
    CREATE TABLE p (id INTEGER PRIMARY KEY, k TEXT UNIQUE NOT NULL, v INT CHECK (v < 100), secret TEXT);
    CREATE TABLE c (pk TEXT REFERENCES p(k) ON DELETE CASCADE ON UPDATE CASCADE, pid INT REFERENCES p ON DELETE SET NULL, note TEXT);
    CREATE TABLE late (pid INT REFERENCES p DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE log (what TEXT);
    CREATE TABLE quiet (n INT);
    CREATE TABLE armed (a INT);
    CREATE TABLE strict (a INT) STRICT;
    CREATE TRIGGER noted AFTER INSERT ON armed BEGIN INSERT INTO log SELECT upper(secret) FROM p; DELETE FROM p WHERE id = 2; END;
    CREATE TRIGGER nested AFTER INSERT ON log BEGIN UPDATE quiet SET n = n + 1; END;
    CREATE TRIGGER raises BEFORE DELETE ON armed BEGIN SELECT RAISE(ABORT, 'a secret message'); END;
    INSERT INTO p VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y');
    INSERT INTO c VALUES ('a', 2, NULL), ('b', 1, NULL), ('b', 2, NULL);
    INSERT INTO quiet VALUES (0);
";

/// A ledger in a file that may be written, or in memory.
struct Ledger {
    dir: TempDir,
    backend: SqliteBackend,
}

impl Ledger {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        create_database(&path, LEDGER).unwrap();
        let backend = SqliteBackend::open_file(&path, "ledger").unwrap();
        Self {
            dir,
            backend: backend.writable(),
        }
    }

    fn change(&self, sql: &str, writes: &[(Change, &str, &str)]) -> Writing<'_> {
        Writing {
            backend: &self.backend,
            sql: sql.to_owned(),
            params: Vec::new(),
            reads: pairs(&[
                ("p", "id"),
                ("p", "k"),
                ("p", "v"),
                ("c", "pk"),
                ("armed", "a"),
            ]),
            functions: BTreeSet::from(["abs".to_owned()]),
            writes: writes
                .iter()
                .map(|(change, table, column)| (*change, (*table).to_owned(), (*column).to_owned()))
                .collect(),
            triggers: BTreeSet::new(),
            max_affected: 10,
            limits: Limits::default(),
        }
    }

    /// What another connection sees.
    fn ask(&self, sql: &str) -> Vec<String> {
        let conn = Connection::open(self.dir.path().join("ledger.db")).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            let cell: rusqlite::types::Value = row.get(0)?;
            Ok(format!("{cell:?}"))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Everything in it.
    fn all(&self) -> Vec<Vec<String>> {
        let tables = ["p", "c", "late", "log", "quiet", "armed", "strict"];
        let rows =
            |table: &&str| self.ask(&format!("SELECT json_array(t.rowid) || '' FROM {table} t"));
        let mut all: Vec<_> = tables.iter().map(rows).collect();
        all.push(self.ask("SELECT k || v || secret FROM p"));
        all.push(self.ask("SELECT json_array(pk, pid, note) FROM c"));
        all.push(self.ask("SELECT n FROM quiet"));
        all
    }
}

struct Writing<'a> {
    backend: &'a SqliteBackend,
    sql: String,
    params: Vec<Value>,
    reads: BTreeSet<(String, String)>,
    functions: BTreeSet<String>,
    writes: BTreeSet<(Change, String, String)>,
    triggers: BTreeSet<String>,
    max_affected: u64,
    limits: Limits,
}

impl Writing<'_> {
    fn triggers(mut self, triggers: &[&str]) -> Self {
        self.triggers = triggers.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn run_into(&self, sink: &mut (dyn RowSink + Send)) -> Result<Completion, BackendError> {
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
        let changes = Changes {
            writes: &self.writes,
            triggers: &self.triggers,
            max_affected: self.max_affected,
        };
        self.backend.write_now(&task, &changes, sink)
    }

    fn run(&self) -> Result<(u64, Rows), BackendError> {
        let mut rows = Rows::all();
        let done = self.run_into(&mut rows)?;
        Ok((done.affected.unwrap(), rows))
    }

    fn counts(&self) -> u64 {
        self.run().unwrap_or_else(|e| panic!("{}: {e}", self.sql)).0
    }

    fn fails(&self) -> Kind {
        self.run().expect_err(&self.sql).kind
    }
}

const V: (Change, &str, &str) = (Change::Update, "p", "v");
const P: (Change, &str, &str) = (Change::Insert, "p", "");
const D: (Change, &str, &str) = (Change::Delete, "quiet", "");

#[test]
fn what_is_decided_happens_and_is_counted() {
    let ledger = Ledger::new();
    let mut insert = ledger.change(
        "INSERT INTO main.p (k, v) VALUES (?1, ?2), ('d', abs(-4))",
        &[P],
    );
    insert.params = vec![Value::text("c"), Value::Integer(3)];
    assert_eq!(insert.counts(), 2);
    assert_eq!(
        ledger
            .change("UPDATE main.p SET v = v + 10 WHERE k >= 'c'", &[V])
            .counts(),
        2
    );
    assert_eq!(
        ledger
            .change("UPDATE main.p SET v = 1 WHERE k = 'zz'", &[V])
            .counts(),
        0
    );
    let upsert = ledger.change(
        "INSERT INTO main.p (k, v) VALUES ('c', 50), ('e', 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v + p.v RETURNING id, k AS key, v",
        &[P, V],
    );
    let (count, rows) = upsert.run().unwrap();
    assert_eq!((count, rows.names.join(" ")), (2, "id key v".to_owned()));
    assert_eq!(
        rows.rows[0],
        [Value::Integer(3), Value::text("c"), Value::Integer(63)]
    );
    assert_eq!(rows.rows.len(), 2);
    assert_eq!(ledger.change("DELETE FROM main.quiet", &[D]).counts(), 1);
    let rowid = ledger.change(
        "UPDATE main.p SET rowid = 40 WHERE k = 'e'",
        &[(Change::Update, "p", "id")],
    );
    assert_eq!(rowid.counts(), 1);
    assert_eq!(
        ledger.ask("SELECT id || k || v FROM p"),
        ["1a1", "2b2", "3c63", "4d14", "40e5"].map(|row| format!("Text({row:?})"))
    );
    // A view of the backend's own, after all of it.
    let mut query = Rows::all();
    let task = Task {
        checks: undoubted("SELECT k FROM main.p"),
        params: &[],
        reads: &pairs(&[("p", "k")]),
        functions: &BTreeSet::new(),
        limits: &Limits::default(),
        is_explain: false,
        stop: Stop::default(),
        cancel: palisade::guard::Cancel::default(),
    };
    ledger.backend.read_now(&task, &mut query).unwrap();
    assert_eq!(query.rows.len(), 5);
}

#[test]
fn only_what_is_opened_for_writing_is_written() {
    let ledger = Ledger::new();
    let reader = SqliteBackend::open_file(ledger.dir.path().join("ledger.db"), "ledger").unwrap();
    let run = |backend: &SqliteBackend, sql: &str| {
        let statement = require_permitted(backend.catalog(), sql);
        let mut rows = Rows::all();
        pollster::block_on(backend.execute(palisade::danger::ticket(&statement), &mut rows))
    };
    let before = ledger.all();
    let (delete, create) = (
        "DELETE FROM quiet WHERE n = 0",
        "CREATE TABLE made (a INTEGER)",
    );
    for sql in [delete, create] {
        assert_eq!(run(&reader, sql).unwrap_err().kind, Kind::ReadOnly);
    }
    assert_eq!(ledger.all(), before);
    assert_eq!(run(&reader, "SELECT n FROM quiet").unwrap().affected, None);
    assert_eq!(run(&ledger.backend, delete).unwrap().affected, Some(1));
    assert_eq!(run(&ledger.backend, create).unwrap().affected, None);
}

#[test]
fn what_a_change_sets_off_counts_against_its_cap() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let cascade = [
        (Change::Delete, "p", ""),
        (Change::Delete, "c", ""),
        (Change::Update, "c", "pid"),
    ];
    // Its own row, two that go with it, and two that are set to NULL, of which one goes.
    let mut delete = ledger.change("DELETE FROM main.p WHERE k = 'b'", &cascade);
    delete.max_affected = 4;
    assert_eq!(delete.fails(), Kind::AffectedRows);
    // Its own row, two of the trigger's, an update that each of these sets off, and that row of `p` with what refers to it.
    let armed = ledger.change(
        "INSERT INTO main.armed VALUES (1)",
        &[(Change::Insert, "armed", "")],
    );
    let mut armed = armed.triggers(&["noted", "nested"]);
    armed.max_affected = 9;
    assert_eq!(armed.fails(), Kind::AffectedRows);
    assert_eq!(ledger.all(), before);
    armed.max_affected = 10;
    assert_eq!(armed.counts(), 1);
    let ledger = Ledger::new();
    let mut delete = ledger.change("DELETE FROM main.p WHERE k = 'b'", &cascade);
    delete.max_affected = 5;
    assert_eq!(delete.counts(), 1);
}

#[test]
fn foreign_keys_do_what_was_decided_that_they_do() {
    let ledger = Ledger::new();
    let cascade = [
        (Change::Delete, "p", ""),
        (Change::Delete, "c", ""),
        (Change::Update, "c", "pid"),
    ];
    let delete = ledger.change("DELETE FROM main.p WHERE k = 'b'", &cascade);
    assert_eq!(delete.counts(), 1);
    assert_eq!(
        ledger.ask("SELECT json_array(pk, pid) FROM c"),
        ["Text(\"[\\\"a\\\",null]\")"]
    );
    let rename = ledger.change(
        "UPDATE main.p SET k = 'z' WHERE k = 'a'",
        &[(Change::Update, "p", "k"), (Change::Update, "c", "pk")],
    );
    assert_eq!(rename.counts(), 1);
    assert_eq!(ledger.ask("SELECT pk FROM c"), ["Text(\"z\")"]);
    let child = ledger.change(
        "INSERT INTO main.c (pk, pid) VALUES ('z', 1)",
        &[(Change::Insert, "c", "")],
    );
    assert_eq!(child.counts(), 1);
    for part in [0, 1, 2] {
        let mut less = cascade.to_vec();
        less.remove(part);
        let delete = ledger.change("DELETE FROM main.p WHERE k = 'z'", &less);
        assert_eq!(delete.fails(), Kind::SecondLock, "{less:?}");
    }
    assert_eq!(ledger.ask("SELECT count(*) FROM c"), ["Integer(2)"]);
}

#[test]
fn triggers_do_what_they_like_if_they_were_decided() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let armed = [(Change::Insert, "armed", "")];
    let insert = |triggers: &[&str]| {
        let insert = ledger.change("INSERT INTO main.armed VALUES (1), (2)", &armed);
        Writing {
            max_affected: 20,
            ..insert.triggers(triggers)
        }
    };
    assert_eq!(insert(&[]).fails(), Kind::SecondLock);
    assert_eq!(insert(&["other"]).fails(), Kind::SecondLock);
    // What bears a trigger's name is not the trigger.
    for sql in [
        "WITH noted(x) AS (SELECT secret FROM main.p) INSERT INTO main.armed SELECT x FROM noted",
        "WITH noted(x) AS (SELECT 1) INSERT INTO main.log SELECT x FROM noted",
        "INSERT INTO main.armed SELECT x FROM (SELECT secret AS x FROM main.p) AS noted",
    ] {
        let spoof = ledger.change(sql, &armed).triggers(&["noted", "nested"]);
        assert_eq!(spoof.fails(), Kind::SecondLock, "{sql}");
    }
    assert_eq!(ledger.all(), before);
    // The trigger's own deletes set foreign keys off, its inserts another trigger.
    assert_eq!(insert(&["noted"]).counts(), 2);
    assert_eq!(
        ledger.ask("SELECT what FROM log"),
        ["x", "y", "x"].map(|s| format!("Text({:?})", s.to_uppercase()))
    );
    assert_eq!(ledger.ask("SELECT n FROM quiet"), ["Integer(3)"]);
    assert_eq!(ledger.ask("SELECT count(*) FROM c"), ["Integer(1)"]);
}

#[test]
fn nothing_else_happens() {
    let ledger = Ledger::new();
    let (before, target) = (ledger.all(), ledger.dir.path().join("copy.db"));
    let all = [
        P,
        V,
        D,
        (Change::Delete, "armed", ""),
        (Change::Insert, "armed", ""),
    ];
    for sql in [
        // What is not decided.
        "INSERT INTO main.quiet VALUES (1)",
        "UPDATE main.p SET secret = 'x'",
        "UPDATE main.p SET v = 1, k = 'x' WHERE id = 1",
        "DELETE FROM main.p WHERE id = 1",
        "INSERT OR REPLACE INTO main.p (id, k) VALUES (1, 'q')",
        "UPDATE main.p SET v = length(k)",
        "UPDATE main.p SET v = (SELECT count(*) FROM main.log)",
        "UPDATE main.p SET v = 1 WHERE secret = 'x'",
        "UPDATE main.p SET v = 1 RETURNING secret",
        "INSERT INTO main.p (k) SELECT note FROM main.c",
        "INSERT INTO main.armed VALUES (1)",
        // What is no change of rows.
        "SELECT id FROM main.p",
        "EXPLAIN DELETE FROM main.quiet",
        "EXPLAIN QUERY PLAN DELETE FROM main.quiet",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "DROP TABLE main.quiet",
        "ALTER TABLE main.quiet ADD COLUMN m",
        "CREATE TRIGGER main.x AFTER INSERT ON p BEGIN SELECT 1; END",
        "REINDEX",
        "ANALYZE",
        &format!("ATTACH '{}' AS o", target.display()),
        "PRAGMA foreign_keys = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA user_version = 5",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT s",
        "DELETE FROM main.quiet; DELETE FROM main.quiet",
        "DELETE FROM main.quiet; COMMIT",
    ] {
        assert_eq!(ledger.change(sql, &all).fails(), Kind::SecondLock, "{sql}");
        assert_eq!(ledger.all(), before, "{sql}");
    }
    assert!(!target.exists());
    assert_eq!(
        ledger
            .change("DELETE FROM main.quiet WHERE n = ?1", &[D])
            .fails(),
        Kind::SecondLock
    );
}

#[test]
fn too_many_rows_change_nothing() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let mut update = ledger.change("UPDATE main.p SET v = 50 RETURNING id", &[V]);
    update.max_affected = 1;
    assert_eq!(update.fails(), Kind::AffectedRows);
    update.max_affected = 0;
    assert_eq!(update.fails(), Kind::AffectedRows);
    assert_eq!(ledger.all(), before);
    update.max_affected = 2;
    assert_eq!(update.counts(), 2);
}

#[test]
fn rows_that_are_not_taken_undo_the_change() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let update = ledger.change("UPDATE main.p SET v = 50 RETURNING id", &[V]);
    for stop_after in [0, 1, 2] {
        let mut rows = Rows::until(stop_after);
        let error = update.run_into(&mut rows).unwrap_err();
        assert_eq!(error.kind, Kind::NotTaken);
        assert_eq!(ledger.all(), before);
    }
}

#[test]
fn time_that_runs_out_undoes_the_change() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let mut slow = ledger.change(
        "INSERT INTO main.quiet WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
        &[(Change::Insert, "quiet", "")],
    );
    slow.limits.statement_timeout_ms = 100;
    slow.reads.insert(("r".to_owned(), String::new()));
    assert_eq!(slow.fails(), Kind::Timeout);
    assert_eq!(ledger.all(), before);
    // Another writer.
    let other = Connection::open(ledger.dir.path().join("ledger.db")).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO quiet VALUES (7)")
        .unwrap();
    let mut waits = ledger.change("DELETE FROM main.quiet", &[D]);
    waits.limits.statement_timeout_ms = 50;
    assert_eq!(waits.fails(), Kind::Locked);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waits.counts(), 1);
}

/// Changes that came first are waited for, though nothing holds the file.
#[test]
fn a_change_waits_for_its_turn() {
    let ledger = Ledger::new();
    let long = std::time::Duration::from_secs(60);
    let turn = ledger.backend.turns.wait(long, || false).unwrap();
    let mut waits = ledger.change("DELETE FROM main.quiet", &[D]);
    waits.limits.statement_timeout_ms = 50;
    assert_eq!(waits.fails(), Kind::Locked);
    drop(turn);
    assert_eq!(waits.counts(), 1);
}

#[test]
fn constraints_refuse() {
    let ledger = Ledger::new();
    let before = ledger.all();
    let strict = (Change::Insert, "strict", "");
    let (late, child) = ((Change::Insert, "late", ""), (Change::Insert, "c", ""));
    for (sql, writes) in [
        ("INSERT INTO main.p (k) VALUES ('c'), ('a')", P),
        ("INSERT INTO main.p (id, k) VALUES (1, 'c')", P),
        ("INSERT INTO main.p (v) VALUES (5)", P),
        ("UPDATE main.p SET v = 500", V),
        ("INSERT INTO main.c (pk) VALUES ('nosuch')", child),
        ("INSERT INTO main.late VALUES (99)", late),
        ("INSERT INTO main.strict VALUES ('text')", strict),
    ] {
        assert_eq!(
            ledger.change(sql, &[writes]).fails(),
            Kind::Constraint,
            "{sql}"
        );
        assert_eq!(ledger.all(), before, "{sql}");
    }
    let armed = [(Change::Insert, "armed", ""), (Change::Delete, "armed", "")];
    ledger
        .change("INSERT INTO main.armed VALUES (1)", &armed)
        .triggers(&["noted"])
        .counts();
    // What the engine itself does not do in a transaction, or to its own table.
    let copy = format!(
        "VACUUM INTO '{}'",
        ledger.dir.path().join("copy.db").display()
    );
    for sql in ["DELETE FROM main.sqlite_schema", "VACUUM", &copy] {
        assert_eq!(ledger.change(sql, &armed).fails(), Kind::Rejected, "{sql}");
    }
    let raises = ledger
        .change("DELETE FROM main.armed", &armed)
        .triggers(&["raises"]);
    assert_eq!(raises.fails(), Kind::Constraint);
    assert_eq!(ledger.ask("SELECT count(*) FROM armed"), ["Integer(1)"]);
}

#[test]
fn a_changed_schema_stops_changes_until_refreshed() {
    let mut ledger = Ledger::new();
    let sql = "UPDATE main.p SET v = 7 WHERE id = 1";
    for ddl in [
        "CREATE TRIGGER late_one AFTER DELETE ON p BEGIN DELETE FROM log; END",
        "DROP TRIGGER late_one",
        "CREATE TABLE further (pid INT REFERENCES p ON DELETE CASCADE)",
        "DROP TABLE further",
    ] {
        ledger.change(sql, &[V]).counts();
        ledger.ask("SELECT 1");
        let other = Connection::open(ledger.dir.path().join("ledger.db")).unwrap();
        other.execute_batch(ddl).unwrap();
        assert_eq!(
            ledger.change(sql, &[V]).fails(),
            Kind::SchemaChanged,
            "{ddl}"
        );
        ledger.backend = ledger.backend.refresh().unwrap().expect(ddl);
    }
    assert_eq!(ledger.change(sql, &[V]).counts(), 1);
}

/// Takes one row and dies.
struct Dies;

impl RowSink for Dies {
    fn columns(&mut self, _: &[&str]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: Vec<Value>) -> ControlFlow<()> {
        panic!("no more")
    }
}

#[test]
fn whoever_dies_half_way_leaves_nothing_behind() {
    let in_memory = SqliteBackend::in_memory(LEDGER, "ledger")
        .unwrap()
        .writable();
    let mut ledger = Ledger::new();
    let in_file = std::mem::replace(&mut ledger.backend, in_memory.clone());
    for backend in [in_memory, in_file] {
        ledger.backend = backend;
        let update = ledger.change("UPDATE main.p SET v = 50 RETURNING id", &[V]);
        let died =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| update.run_into(&mut Dies)));
        assert!(died.is_err());
        let read = ledger.change("UPDATE main.p SET v = v RETURNING v", &[V]);
        let rows = read.run().unwrap().1.rows;
        assert_eq!(rows, [[Value::Integer(1)], [Value::Integer(2)]]);
        // And whoever reads afterwards cannot write.
        let task = Task {
            checks: undoubted("DELETE FROM main.quiet"),
            params: &[],
            reads: &BTreeSet::new(),
            functions: &BTreeSet::new(),
            limits: &Limits::default(),
            is_explain: false,
            stop: Stop::default(),
            cancel: palisade::guard::Cancel::default(),
        };
        let error = ledger
            .backend
            .read_now(&task, &mut Rows::until(0))
            .unwrap_err();
        assert_eq!(error.kind, Kind::SecondLock);
    }
}

#[test]
fn a_file_that_is_gone_is_told_apart() {
    let ledger = Ledger::new();
    std::fs::remove_file(ledger.dir.path().join("ledger.db")).unwrap();
    let delete = ledger.change("DELETE FROM main.quiet", &[D]);
    assert_eq!(delete.fails(), Kind::Unavailable);
    assert_eq!(std::fs::read_dir(ledger.dir.path()).unwrap().count(), 0);
}

/// What `write` relies on, by the engine's own report.
#[test]
fn what_the_engine_reports_of_changes() {
    let mut conn = load::memory(LEDGER).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = ON").unwrap();
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&found);
    conn.authorizer(Some(move |context: AuthContext<'_>| {
        let by = context.accessor.unwrap_or("-");
        let what = match context.action {
            AuthAction::Read {
                table_name,
                column_name,
            } => format!("{by} read {table_name}.{column_name}"),
            AuthAction::Insert { table_name } => format!("{by} insert {table_name}"),
            AuthAction::Delete { table_name } => format!("{by} delete {table_name}"),
            AuthAction::Update {
                table_name,
                column_name,
            } => format!("{by} update {table_name}.{column_name}"),
            AuthAction::Function { function_name } => format!("{by} call {function_name}"),
            AuthAction::Select => return Authorization::Allow,
            other => format!("{by} {other:?}"),
        };
        seen.lock().unwrap().insert(what);
        Authorization::Allow
    }))
    .unwrap();
    let check = |sql: &str, expected: &[&str]| {
        found.lock().unwrap().clear();
        drop(conn.prepare(sql).unwrap());
        let seen: Vec<String> = found.lock().unwrap().iter().cloned().collect();
        assert_eq!(seen, expected, "{sql}");
    };
    check("INSERT INTO quiet VALUES (1)", &["- insert quiet"]);
    check(
        "INSERT INTO c (pk) VALUES (1)",
        &["- insert c", "- read p.id", "- read p.k"],
    );
    check(
        "UPDATE p SET v = 1 RETURNING secret",
        &["- read p.secret", "- update p.v"],
    );
    check(
        "DELETE FROM p",
        &[
            "- delete c",
            "- delete p",
            "- read c.pid",
            "- read c.pk",
            "- read late.pid",
            "- read p.id",
            "- read p.k",
            "- update c.pid",
        ],
    );
    // Rows that are replaced are deleted without a word; what foreign keys do for it is reported.
    check(
        "REPLACE INTO p (k) VALUES (1)",
        &[
            "- delete c",
            "- insert p",
            "- read c.pid",
            "- read c.pk",
            "- read late.pid",
            "- read p.id",
            "- read p.k",
            "- update c.pid",
        ],
    );
    check(
        "INSERT INTO log VALUES (1)",
        &[
            "- insert log",
            "nested read quiet.n",
            "nested update quiet.n",
        ],
    );
    // Not to be told from the trigger's own.
    check(
        "WITH nested(x) AS (SELECT secret FROM p) INSERT INTO quiet SELECT x FROM nested",
        &["- insert quiet", "nested read p.secret"],
    );
}

#[test]
fn plans_are_shown_where_they_are_asked_for() {
    let ledger = Ledger::new();
    let run = |sql: &str, is_explain: bool| {
        let mut rows = Rows::all();
        let task = Task {
            checks: undoubted(sql),
            params: &[],
            reads: &pairs(&[("p", "k"), ("p", "id")]),
            functions: &BTreeSet::new(),
            limits: &Limits::default(),
            is_explain,
            stop: Stop::default(),
            cancel: palisade::guard::Cancel::default(),
        };
        ledger.backend.read_now(&task, &mut rows).map(|()| rows)
    };
    let rows = run("EXPLAIN QUERY PLAN SELECT k FROM main.p WHERE id = 1", true).unwrap();
    assert_eq!(rows.names, ["id", "parent", "notused", "detail"]);
    assert!(!rows.rows.is_empty());
    for (sql, is_explain) in [
        ("EXPLAIN QUERY PLAN SELECT k FROM main.p", false),
        ("EXPLAIN SELECT k FROM main.p", true),
        ("EXPLAIN QUERY PLAN SELECT secret FROM main.p", true),
        ("EXPLAIN QUERY PLAN DELETE FROM main.p", true),
        ("SELECT k FROM main.p", true),
    ] {
        assert_eq!(
            run(sql, is_explain).unwrap_err().kind,
            Kind::SecondLock,
            "{sql}"
        );
    }
}

#[test]
fn definitions_are_kept_whole_or_not_at_all() {
    let mut ledger = Ledger::new();
    let schema = |ledger: &Ledger| {
        ledger.ask("SELECT name FROM sqlite_schema WHERE name LIKE '%made%' ORDER BY name")
    };
    let define = |ledger: &Ledger, sql: &str, writes: &[(Change, &str, &str)]| {
        let change = ledger.change(sql, writes);
        let task = Task {
            checks: undoubted(sql),
            params: &[],
            reads: &BTreeSet::new(),
            functions: &change.functions,
            limits: &Limits::default(),
            is_explain: false,
            stop: Stop::default(),
            cancel: palisade::guard::Cancel::default(),
        };
        let changes = Changes {
            writes: &change.writes,
            triggers: &change.triggers,
            max_affected: 0,
        };
        let relations = ["main.quiet", "main.made"].map(str::to_owned);
        ledger.backend.define_now(&task, &changes, &relations)
    };
    for sql in [
        "CREATE TABLE main.made (a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT CHECK (abs(b) > 1), UNIQUE (b))",
        "CREATE INDEX main.made_a ON made (abs(b)) WHERE b > 'a'",
        "CREATE VIEW main.made_v AS SELECT a FROM main.made",
        "CREATE TABLE main.made_of AS SELECT n FROM main.quiet",
        "ALTER TABLE main.made ADD COLUMN c INT NOT NULL DEFAULT 3 CHECK (c > 2)",
        "ALTER TABLE main.made DROP COLUMN c",
        "DROP VIEW main.made_v",
        "DROP INDEX main.made_a",
        "DROP TABLE main.made",
        "DROP TABLE main.made_of",
    ] {
        define(&ledger, sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
        // Whoever decided about the schema before has to look again.
        assert_eq!(
            define(&ledger, "DROP TABLE main.quiet", &[])
                .unwrap_err()
                .kind,
            Kind::SchemaChanged
        );
        ledger.backend = ledger.backend.refresh().unwrap().expect(sql);
        assert!(schema(&ledger).len() < 6);
    }
    assert!(schema(&ledger).is_empty());
    let before = ledger.all();
    for sql in [
        "CREATE TABLE main.made AS SELECT secret FROM main.p",
        "CREATE INDEX main.made ON p (upper(secret))",
        "CREATE TRIGGER main.made AFTER INSERT ON p BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE main.made USING fts5(a)",
        "CREATE TEMP TABLE made (a)",
        "CREATE TEMP VIEW made AS SELECT 1",
        "DROP TRIGGER main.noted; DROP TABLE main.p",
        // It would take rows of another table with it.
        "DROP TABLE main.p",
        "INSERT INTO main.quiet VALUES (1)",
        "DELETE FROM main.quiet",
        "SELECT n FROM main.quiet",
        "PRAGMA foreign_keys = OFF",
        "COMMIT",
    ] {
        assert_eq!(
            define(&ledger, sql, &[]).unwrap_err().kind,
            Kind::SecondLock,
            "{sql}"
        );
    }
    assert_eq!(ledger.all(), before);
    assert!(schema(&ledger).is_empty());
}

#[test]
fn a_ticket_is_good_for_the_catalog_of_the_decision() {
    let ledger = Ledger::new();
    let path = ledger.dir.path().join("ledger.db");
    let open = || {
        SqliteBackend::open_file(&path, "ledger")
            .unwrap()
            .writable()
    };
    let before = open();
    let sql = "DELETE FROM main.quiet WHERE n = 1";
    let statement = require_permitted(before.catalog(), sql);
    assert_eq!(
        statement.sql(),
        None,
        "a change has no text to run by itself"
    );
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE later (x)").unwrap();
    let after = open();
    let mut rows = Rows::all();
    match pollster::block_on(after.execute(palisade::danger::ticket(&statement), &mut rows)) {
        Err(error) => assert_eq!(error.kind, Kind::SchemaChanged),
        Ok(_) => panic!("it ran over another catalog"),
    }
}
