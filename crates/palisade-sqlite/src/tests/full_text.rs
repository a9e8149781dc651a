//! Changes whose triggers keep a full-text index.

use palisade::{
    catalog::Change,
    firewall::{Decision, Firewall},
    guard::{Backend as _, BackendErrorKind as Kind, Completion},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::fixture::policy_sources;

use super::*;
use crate::write::Changes;

const NOTES: &str = "
    CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE notes (id INTEGER PRIMARY KEY, account INT REFERENCES accounts ON DELETE CASCADE, title TEXT, body TEXT);
    INSERT INTO accounts VALUES (1, 'ann'), (2, 'bob');
    INSERT INTO notes VALUES (1, 1, 'red fox', 'runs'), (2, 1, 'red hen', 'sits'), (3, 2, 'blue cat', 'sleeps');
";

/// An index over the texts of another table.
const OUTSIDE: &str = "
    CREATE VIRTUAL TABLE notes_fts USING fts5(title, body, content='notes', content_rowid='id');
    INSERT INTO notes_fts (notes_fts) VALUES ('rebuild');
    CREATE TRIGGER notes_ai AFTER INSERT ON notes BEGIN
        INSERT INTO notes_fts (rowid, title, body) VALUES (new.id, new.title, new.body); END;
    CREATE TRIGGER notes_ad AFTER DELETE ON notes BEGIN
        INSERT INTO notes_fts (notes_fts, rowid, title, body) VALUES ('delete', old.id, old.title, old.body); END;
    CREATE TRIGGER notes_au AFTER UPDATE ON notes BEGIN
        INSERT INTO notes_fts (notes_fts, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
        INSERT INTO notes_fts (rowid, title, body) VALUES (new.id, new.title, new.body); END;
";

/// An index with texts of its own.
const INSIDE: &str = "
    CREATE VIRTUAL TABLE notes_fts USING fts5(title, body, prefix='2');
    INSERT INTO notes_fts (rowid, title, body) SELECT id, title, body FROM notes;
    CREATE TRIGGER notes_ai AFTER INSERT ON notes BEGIN
        INSERT INTO notes_fts (rowid, title, body) VALUES (new.id, new.title, new.body); END;
    CREATE TRIGGER notes_ad AFTER DELETE ON notes BEGIN DELETE FROM notes_fts WHERE rowid = old.id; END;
    CREATE TRIGGER notes_au AFTER UPDATE ON notes BEGIN
        UPDATE notes_fts SET title = new.title, body = new.body WHERE rowid = old.id; END;
";

/// As Android's Room makes it: what is deleted is read in the table that holds the texts.
const ROOM: &str = "
    CREATE VIRTUAL TABLE notes_fts USING fts4(title, body, content=`notes`);
    INSERT INTO notes_fts (notes_fts) VALUES ('rebuild');
    CREATE TRIGGER notes_bu BEFORE UPDATE ON notes BEGIN DELETE FROM notes_fts WHERE docid = old.rowid; END;
    CREATE TRIGGER notes_bd BEFORE DELETE ON notes BEGIN DELETE FROM notes_fts WHERE docid = old.rowid; END;
    CREATE TRIGGER notes_au AFTER UPDATE ON notes BEGIN
        INSERT INTO notes_fts (docid, title, body) VALUES (new.rowid, new.title, new.body); END;
    CREATE TRIGGER notes_ai AFTER INSERT ON notes BEGIN
        INSERT INTO notes_fts (docid, title, body) VALUES (new.rowid, new.title, new.body); END;
";

const POLICIES: &str = "permit(principal, action, resource);";

const TRIGGERS: [&str; 5] = ["notes_ai", "notes_ad", "notes_bd", "notes_au", "notes_bu"];

fn permit_trigger(name: &str) -> String {
    format!("permit(principal, action == Action::\"call\", resource == Function::\"main.{name}\");")
}

struct Notes {
    dir: TempDir,
    backend: SqliteBackend,
}

impl Notes {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.db");
        create_database(&path, &format!("{NOTES}{script}")).unwrap();
        let backend = SqliteBackend::open_file(&path, "notes").unwrap();
        Self {
            dir,
            backend: backend.writable(),
        }
    }

    /// Runs a change under a policy that permits all of it.
    fn run(&self, sql: &str) -> Result<Completion, BackendError> {
        let catalog = self.backend.catalog().clone();
        let triggers = catalog.relations().iter().flat_map(|r| &r.triggers);
        let permits = triggers.map(|trigger| permit_trigger(&trigger.function));
        let policies = POLICIES.to_owned() + &permits.collect::<String>();
        let firewall = Firewall::builder(catalog, policy_sources(policies))
            .allow_changes()
            .build()
            .unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        let statement = match firewall.check(sql, &Params::None, &session) {
            Ok(Decision::Allow(statement)) => Arc::from(statement),
            other => panic!("{sql}: {other:?}"),
        };
        let ticket = palisade::danger::ticket(&statement);
        pollster::block_on(self.backend.execute(ticket, &mut Rows::all()))
    }

    /// Runs a change of which only this much was decided.
    fn run_decided(
        &self,
        sql: &str,
        writes: &[(Change, &str, &str)],
        triggers: &[&str],
        max_affected: u64,
    ) -> Result<Completion, BackendError> {
        let task = Task {
            checks: undoubted(sql),
            params: &[],
            reads: &pairs(&[("notes", "id"), ("notes", "title")]),
            functions: &BTreeSet::from(["count".to_owned(), "length".to_owned()]),
            limits: &Limits::default(),
            is_explain: false,
            stop: Stop::default(),
            cancel: palisade::guard::Cancel::default(),
        };
        let writes = writes
            .iter()
            .map(|(change, table, column)| (*change, (*table).to_owned(), (*column).to_owned()))
            .collect();
        let triggers = triggers.iter().map(|name| (*name).to_owned()).collect();
        let changes = Changes {
            writes: &writes,
            triggers: &triggers,
            max_affected,
        };
        self.backend.write_now(&task, &changes, &mut Rows::all())
    }

    /// The row ids that a search finds on a connection of its own, which also checks that the index fits the texts.
    fn search(&self, words: &str) -> Vec<i64> {
        let conn = Connection::open(self.dir.path().join("notes.db")).unwrap();
        conn.execute_batch("INSERT INTO notes_fts (notes_fts) VALUES ('integrity-check')")
            .unwrap();
        let mut search = conn
            .prepare("SELECT rowid FROM notes_fts WHERE notes_fts MATCH ?1 ORDER BY rowid")
            .unwrap();
        let found = search.query_map([words], |row| row.get(0)).unwrap();
        found.map(Result::unwrap).collect()
    }
}

#[test]
fn triggers_keep_a_full_text_index_of_what_changes() {
    for script in [OUTSIDE, INSIDE, ROOM] {
        let notes = Notes::new(script);
        let run = |sql: &str, affected: u64| {
            let done = notes
                .run(sql)
                .unwrap_or_else(|e| panic!("{sql} {script}: {e}"));
            assert_eq!(done.affected, Some(affected), "{sql} {script}");
        };
        run(
            "INSERT INTO notes (id, account, title, body) VALUES (4, 2, 'red dog', 'barks'), (5, 2, 'green dog', 'digs')",
            2,
        );
        assert_eq!(notes.search("red"), [1, 2, 4], "{script}");
        run("UPDATE notes SET title = 'grey fox' WHERE id = 1", 1);
        assert_eq!(notes.search("red"), [2, 4], "{script}");
        assert_eq!(notes.search("grey"), [1], "{script}");
        run("DELETE FROM notes WHERE id = 4", 1);
        assert_eq!(notes.search("dog"), [5], "{script}");
        run("DELETE FROM accounts WHERE id = 1", 1);
        assert_eq!(notes.search("fox"), [0; 0], "{script}");
        run("UPDATE notes SET body = 'rests' WHERE id >= 3", 2);
        assert_eq!(notes.search("rests"), [3, 5], "{script}");
    }
}

#[test]
fn what_an_index_keeps_of_its_own_counts_against_no_cap() {
    for (script, most) in [(OUTSIDE, 8), (INSIDE, 8), (ROOM, 6)] {
        let notes = Notes::new(script);
        let sql = "INSERT INTO main.notes (account, title, body) VALUES (1, 'a b c', 'd'), (1, 'e f', 'g h'), (2, 'i', 'j')";
        let insert = |most: u64| {
            notes.run_decided(sql, &[(Change::Insert, "notes", "")], &["notes_ai"], most)
        };
        // Three rows, and what the trigger adds for each.
        assert_eq!(insert(5).unwrap_err().kind, Kind::AffectedRows, "{script}");
        insert(most).unwrap_or_else(|e| panic!("{script}: {e}"));
    }
}

#[test]
fn a_statement_of_its_own_reaches_nothing_behind_an_index() {
    let insert = [(Change::Insert, "notes", "")];
    for (script, shadows) in [
        (OUTSIDE, &["data", "idx", "docsize", "config"][..]),
        (INSIDE, &["data", "idx", "docsize", "config", "content"]),
        (ROOM, &["segments", "segdir", "docsize", "stat"]),
    ] {
        let notes = Notes::new(script);
        let run = |sql: &str| notes.run_decided(sql, &insert, &TRIGGERS, 100);
        for shadow in shadows {
            for sql in [
                format!(
                    "INSERT INTO main.notes (title) SELECT count(*) FROM main.notes_fts_{shadow}"
                ),
                format!(
                    "INSERT INTO main.notes (title) SELECT id FROM main.notes WHERE EXISTS (SELECT 1 FROM notes_fts_{shadow})"
                ),
                format!(
                    "WITH notes_ai AS (SELECT * FROM main.notes_fts_{shadow}) INSERT INTO main.notes (title) SELECT count(*) FROM notes_ai"
                ),
                format!(
                    "INSERT INTO main.notes (title) VALUES ('x') RETURNING (SELECT count(*) FROM main.notes_fts_{shadow})"
                ),
            ] {
                assert_eq!(run(&sql).unwrap_err().kind, Kind::SecondLock, "{sql}");
            }
        }
        for shadow in shadows {
            // The engine keeps them from all statements but the module's own.
            for sql in [
                format!("DELETE FROM main.notes_fts_{shadow}"),
                format!("INSERT INTO main.notes_fts_{shadow} DEFAULT VALUES"),
            ] {
                let kind = run(&sql).unwrap_err().kind;
                assert!([Kind::Rejected, Kind::SecondLock].contains(&kind), "{sql}");
            }
        }
        for sql in [
            "INSERT INTO main.notes_fts (title) VALUES ('x')",
            "DELETE FROM main.notes_fts",
            "INSERT INTO main.notes (title) SELECT title FROM main.notes_fts",
            "INSERT INTO main.notes (title) SELECT body FROM main.notes",
            "INSERT INTO main.notes (title) SELECT max(id) FROM main.notes",
        ] {
            assert_eq!(run(sql).unwrap_err().kind, Kind::SecondLock, "{sql}");
        }
        // The index works for a trigger that was decided, and for no other.
        let sql = "INSERT INTO main.notes (title) VALUES ('x')";
        let error = notes
            .run_decided(sql, &insert, &["other"], 100)
            .unwrap_err();
        assert_eq!(error.kind, Kind::SecondLock);
        assert_eq!(notes.search("x"), [0; 0]);
        run(sql).unwrap();
        assert_eq!(notes.search("x"), [4]);
    }
}

#[test]
fn an_index_is_reached_by_its_own_triggers_alone() {
    // The trigger that was decided writes another index; of this one it reads a shadow table, as it may.
    let notes = Notes::new(
        "CREATE VIRTUAL TABLE notes_fts USING fts5(title);
         CREATE VIRTUAL TABLE other USING fts5(title);
         CREATE TABLE log (what);
         CREATE TRIGGER decided AFTER INSERT ON notes BEGIN
            INSERT INTO other (title) VALUES (new.title);
            INSERT INTO log SELECT id FROM notes_fts_docsize; END;
         CREATE TRIGGER undecided AFTER UPDATE ON notes BEGIN
            INSERT INTO other (title) VALUES (new.title); END;
         CREATE TRIGGER both AFTER DELETE ON notes BEGIN
            INSERT INTO log VALUES (1); END;
         CREATE TRIGGER after_log AFTER DELETE ON log BEGIN
            INSERT INTO notes_fts (title) VALUES (old.what); END;",
    );
    let insert = [(Change::Insert, "notes", "")];
    notes
        .run_decided(
            "INSERT INTO main.notes (title) VALUES ('x')",
            &insert,
            &["decided"],
            100,
        )
        .unwrap();
    let error = notes
        .run_decided(
            "UPDATE main.notes SET title = 'y'",
            &[(Change::Update, "notes", "title")],
            &["decided"],
            100,
        )
        .unwrap_err();
    assert_eq!(error.kind, Kind::SecondLock);
}

#[test]
fn a_trigger_over_a_virtual_table_that_is_not_known_is_refused_with_words() {
    for table in [
        "CREATE VIRTUAL TABLE box USING rtree(id, x0, x1)",
        "CREATE VIEW seen AS SELECT * FROM notes; CREATE VIRTUAL TABLE box USING fts5(x0, x1, content='seen', content_rowid='id')",
    ] {
        let notes = Notes::new(&format!(
            "{table}; CREATE TRIGGER notes_ai AFTER INSERT ON notes BEGIN INSERT INTO box (rowid, x0, x1) VALUES (new.id, 1, 2); END;"
        ));
        let error = notes
            .run("INSERT INTO notes (id, title) VALUES (9, 'x')")
            .unwrap_err();
        assert_eq!(error.kind, Kind::Rejected, "{table}: {error}");
        assert!(error.detail.contains("virtual table"), "{error}");
    }
}
