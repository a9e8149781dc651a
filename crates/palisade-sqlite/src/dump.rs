//! What of a script's statements the engine does by itself, so that what `.schema` and `.dump` print can be run as it is.
//!
//! They print tables that the engine or a virtual table's module makes: `sqlite_sequence`, and the shadow tables behind a full-text
//! index. A script may not make these, so the statements are left out where the same script makes what they belong to. `.dump` writes
//! virtual tables into `sqlite_schema`; they are created instead, and their rows added to them.

use std::{borrow::Cow, collections::HashMap};

use palisade::{dialect::Dialect, ident};
use rusqlite::Connection;

use crate::{full_text, schema_text};

/// A table behind a virtual one.
struct Shadow {
    /// The virtual table, as it is spelled.
    of: String,
    /// Whether it holds the rows as they were given.
    is_content: bool,
}

/// What a script makes.
#[derive(Default)]
pub(crate) struct Made {
    /// By the folded name of the shadow table.
    shadows: HashMap<String, Shadow>,
    /// Statements that fill indexes again over the texts of other tables, with the line of the index.
    refills: Vec<(usize, String)>,
    /// Whether it writes virtual tables into the schema, as a dump does.
    is_dump: bool,
}

impl Made {
    pub(crate) fn by(statements: &[(usize, &str)]) -> Self {
        let mut made = Self::default();
        for (line, statement) in statements {
            let dumped = schema_text::dumped_virtual(statement);
            let text = dumped.as_deref().unwrap_or(statement);
            let Some((name, module)) = schema_text::created_virtual(text) else {
                continue;
            };
            made.is_dump |= dumped.is_some();
            for shadow in full_text::shadows_of(&name, &module) {
                let is_content = shadow.ends_with("_content");
                let of = name.clone();
                made.shadows
                    .insert(Dialect::Sqlite.fold(&shadow), Shadow { of, is_content });
            }
            if dumped.is_some() && full_text::has_outer_content(text) {
                let name = ident::quote(&name);
                let refill = format!("INSERT INTO main.{name} ({name}) VALUES ('rebuild')");
                made.refills.push((*line, refill));
            }
        }
        made
    }

    /// What is run in the place of a statement; `None` if nothing is.
    pub(crate) fn recast<'s>(
        &self,
        conn: &Connection,
        statement: &'s str,
    ) -> rusqlite::Result<Option<Cow<'s, str>>> {
        if self.is_dump && schema_text::switches_writable_schema(statement) {
            return Ok(None);
        }
        if let Some(name) = schema_text::created_table(statement)
            && (is_of_engine(&name) || self.find_shadow(&name).is_some())
        {
            return Ok(None);
        }
        if let Some(text) = schema_text::dumped_virtual(statement) {
            return Ok(Some(Cow::Owned(text)));
        }
        if let Some((table, rest)) = schema_text::inserted_rows(statement)
            && let Some(shadow) = self.find_shadow(&table)
        {
            // The index of the rows is made again as they are added.
            return match shadow.is_content {
                true => add_rows(conn, &shadow.of, rest).map(|sql| Some(Cow::Owned(sql))),
                false => Ok(None),
            };
        }
        Ok(Some(Cow::Borrowed(statement)))
    }

    /// What is run at the end.
    pub(crate) fn refills(&self) -> impl Iterator<Item = (usize, &str)> {
        self.refills.iter().map(|(line, sql)| (*line, sql.as_str()))
    }

    fn find_shadow(&self, name: &str) -> Option<&Shadow> {
        self.shadows.get(&Dialect::Sqlite.fold(name))
    }
}

/// The statement that adds rows to an index which were of the table behind it: their numbers come first.
fn add_rows(conn: &Connection, index: &str, rest: &str) -> rusqlite::Result<String> {
    let index = ident::quote(index);
    let columns = conn.prepare(&format!("SELECT * FROM main.{index}"))?;
    let columns: Vec<String> = (columns.column_names()).map(ident::quote).collect();
    let columns = columns.join(", ");
    Ok(format!(
        "INSERT INTO main.{index} (rowid, {columns}) {rest}"
    ))
}

fn is_of_engine(name: &str) -> bool {
    name.get(..7)
        .is_some_and(|prefix| prefix.eq_ignore_ascii_case("sqlite_"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::catalog::RelationKind;

    use crate::load;

    /// As `.schema` of SQLite's shell prints it.
    const SCHEMA: &str = r#"
CREATE TABLE notes(id integer primary key autoincrement,title,body);
CREATE TABLE sqlite_sequence(name,seq);
CREATE INDEX ni on notes(title);
CREATE VIRTUAL TABLE notes_fts using fts5(title, body, content='notes', content_rowid='id')
/* notes_fts(title,body) */;
CREATE TABLE IF NOT EXISTS 'notes_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'notes_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS 'notes_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
CREATE TABLE IF NOT EXISTS 'notes_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE VIRTUAL TABLE own using fts5(title, body)
/* own(title,body) */;
CREATE TABLE IF NOT EXISTS 'own_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'own_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS 'own_content'(id INTEGER PRIMARY KEY, c0, c1);
CREATE TABLE IF NOT EXISTS 'own_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
CREATE TABLE IF NOT EXISTS 'own_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE VIRTUAL TABLE room using fts4(title,content=`notes`)
/* room(title) */;
CREATE TABLE IF NOT EXISTS 'room_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'room_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
CREATE TABLE IF NOT EXISTS 'room_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
CREATE TABLE IF NOT EXISTS 'room_stat'(id INTEGER PRIMARY KEY, value BLOB);
CREATE VIRTUAL TABLE old using fts4(a,b)
/* old(a,b) */;
CREATE TABLE IF NOT EXISTS 'old_content'(docid INTEGER PRIMARY KEY, 'c0a', 'c1b');
CREATE TABLE IF NOT EXISTS 'old_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'old_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
CREATE TABLE IF NOT EXISTS 'old_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
CREATE TABLE IF NOT EXISTS 'old_stat'(id INTEGER PRIMARY KEY, value BLOB);
CREATE VIRTUAL TABLE box using rtree(id,x0,x1)
/* box(id,x0,x1) */;
CREATE TABLE IF NOT EXISTS "box_rowid"(rowid INTEGER PRIMARY KEY,nodeno);
CREATE TABLE IF NOT EXISTS "box_node"(nodeno INTEGER PRIMARY KEY,data);
CREATE TABLE IF NOT EXISTS "box_parent"(nodeno INTEGER PRIMARY KEY,parentnode);
CREATE TRIGGER notes_ad after delete on notes begin insert into notes_fts(notes_fts,rowid,title,body) values('delete',old.id,old.title,old.body);end;
CREATE TABLE sqlite_stat1(tbl,idx,stat);
"#;

    /// As `.dump` prints it.
    const DUMP: &str = r#"
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE notes(id integer primary key autoincrement,title,body);
INSERT INTO notes VALUES(1,'red fox','runs');
INSERT INTO notes VALUES(2,'blue ''cat''',replace('x\ny','\n',char(10)));
PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','notes_fts','notes_fts',0,'CREATE VIRTUAL TABLE notes_fts using fts5(title, body, content=''notes'', content_rowid=''id'')');
CREATE TABLE IF NOT EXISTS 'notes_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO notes_fts_data VALUES(1,X'020403');
INSERT INTO notes_fts_data VALUES(10,X'000000000101010001010101');
INSERT INTO notes_fts_data VALUES(137438953473,X'0000003f0530626c756502020201036361740202030103666f7801020301037265640102020203756e7301060101020101780206010102010179020601010304090808080a08');
CREATE TABLE IF NOT EXISTS 'notes_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO notes_fts_idx VALUES(1,X'',2);
CREATE TABLE IF NOT EXISTS 'notes_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO notes_fts_docsize VALUES(1,X'0201');
INSERT INTO notes_fts_docsize VALUES(2,X'0202');
CREATE TABLE IF NOT EXISTS 'notes_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO notes_fts_config VALUES('version',4);
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','own','own',0,'CREATE VIRTUAL TABLE own using fts5(title, body)');
CREATE TABLE IF NOT EXISTS 'own_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO own_data VALUES(1,X'010201');
INSERT INTO own_data VALUES(10,X'000000000101010001010101');
INSERT INTO own_data VALUES(137438953473,X'000000210630677265656e050202010368656e0502030104736974730506010102040a08');
CREATE TABLE IF NOT EXISTS 'own_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO own_idx VALUES(1,X'',2);
CREATE TABLE IF NOT EXISTS 'own_content'(id INTEGER PRIMARY KEY, c0, c1);
INSERT INTO own_content VALUES(5,'green hen','sits');
CREATE TABLE IF NOT EXISTS 'own_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO own_docsize VALUES(5,X'0201');
CREATE TABLE IF NOT EXISTS 'own_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO own_config VALUES('version',4);
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','room','room',0,'CREATE VIRTUAL TABLE room using fts4(title,content=`notes`)');
CREATE TABLE IF NOT EXISTS 'room_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'room_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
INSERT INTO room_segdir VALUES(0,0,0,0,'0 19',X'0004626c756503020200000363617403020300');
INSERT INTO room_segdir VALUES(0,1,0,0,'0 18',X'0003666f7803010300000372656403010200');
CREATE TABLE IF NOT EXISTS 'room_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
INSERT INTO room_docsize VALUES(1,X'02');
INSERT INTO room_docsize VALUES(2,X'02');
CREATE TABLE IF NOT EXISTS 'room_stat'(id INTEGER PRIMARY KEY, value BLOB);
INSERT INTO room_stat VALUES(0,X'020411');
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','old','old',0,'CREATE VIRTUAL TABLE old using fts4(a,b)');
CREATE TABLE IF NOT EXISTS 'old_content'(docid INTEGER PRIMARY KEY, 'c0a', 'c1b');
INSERT INTO old_content VALUES(1,'p q','r');
CREATE TABLE IF NOT EXISTS 'old_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE IF NOT EXISTS 'old_segdir'(level INTEGER,idx INTEGER,start_block INTEGER,leaves_end_block INTEGER,end_block INTEGER,root BLOB,PRIMARY KEY(level, idx));
INSERT INTO old_segdir VALUES(0,0,0,0,'0 23',X'0001700301020000017103010300000172050101010200');
CREATE TABLE IF NOT EXISTS 'old_docsize'(docid INTEGER PRIMARY KEY, size BLOB);
INSERT INTO old_docsize VALUES(1,X'0201');
CREATE TABLE IF NOT EXISTS 'old_stat'(id INTEGER PRIMARY KEY, value BLOB);
INSERT INTO old_stat VALUES(0,X'01020104');
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 VALUES('notes','ni','2 1');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('notes',2);
CREATE INDEX ni on notes(title);
CREATE TRIGGER notes_ad after delete on notes begin insert into notes_fts(notes_fts,rowid,title,body) values('delete',old.id,old.title,old.body);end;
PRAGMA writable_schema=OFF;
COMMIT;
"#;

    #[test]
    fn what_schema_prints_makes_the_catalog_of_the_database() {
        let catalog = crate::catalog_from_ddl(SCHEMA, "desk").unwrap();
        let kind = |name: &str| catalog.find("main", name).map(|found| found.kind);
        assert_eq!(kind("notes"), Some(RelationKind::Table));
        assert_eq!(kind("notes_fts"), Some(RelationKind::Virtual));
        assert_eq!(kind("notes_fts_data"), Some(RelationKind::Virtual));
        assert_eq!(kind("box_node"), Some(RelationKind::Virtual));
        assert_eq!(kind("sqlite_sequence"), Some(RelationKind::System));
        assert_eq!(catalog.find("main", "notes").unwrap().triggers.len(), 1);
    }

    #[test]
    fn what_dump_prints_makes_the_database_with_its_indexes() {
        let conn = load::memory(DUMP).unwrap();
        let search = |sql: &str| -> Vec<i64> {
            let mut search = conn.prepare(sql).unwrap();
            let found = search.query_map([], |row| row.get(0)).unwrap();
            found.map(Result::unwrap).collect()
        };
        for (sql, expected) in [
            ("SELECT id FROM notes ORDER BY id", &[1, 2][..]),
            (
                "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'fox'",
                &[1],
            ),
            (
                "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'y'",
                &[2],
            ),
            ("SELECT rowid FROM own WHERE own MATCH 'green'", &[5]),
            ("SELECT rowid FROM room WHERE room MATCH 'cat'", &[2]),
            ("SELECT rowid FROM old WHERE old MATCH 'q'", &[1]),
            ("SELECT seq FROM sqlite_sequence", &[2]),
        ] {
            assert_eq!(search(sql), expected, "{sql}");
        }
        conn.execute_batch("DELETE FROM notes WHERE id = 1; INSERT INTO notes_fts (notes_fts) VALUES ('integrity-check')")
            .unwrap();
    }

    #[test]
    fn whatever_else_is_reserved_stays_refused() {
        for script in [
            // Nothing in it makes the table that they belong to.
            "CREATE TABLE own (a); CREATE VIRTUAL TABLE other USING fts5(a); CREATE TABLE other_data (a); INSERT INTO other_idx VALUES (1); INSERT INTO own_data VALUES (1, 2)",
            "INSERT INTO notes_fts_data VALUES (1, 2)",
            "CREATE VIRTUAL TABLE own USING fts5(a); DELETE FROM own_data",
            "CREATE VIRTUAL TABLE own USING fts5(a); UPDATE own_config SET v = 9",
            "CREATE VIRTUAL TABLE own USING fts5(a); INSERT INTO own_data SELECT 1, 2",
            "CREATE VIRTUAL TABLE own USING fts5(a); INSERT OR REPLACE INTO own_data VALUES (1, 2)",
            "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('table', 'a', 'a', 2, 'CREATE TABLE a (b)')",
            "PRAGMA writable_schema=ON; INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','a','a',0,'CREATE VIRTUAL TABLE a USING csv(filename=''/etc/passwd'')')",
            "PRAGMA writable_schema=ON; CREATE TABLE a (b); UPDATE sqlite_schema SET sql = 'CREATE TABLE a (c)'",
            "PRAGMA writable_schema=ON; DELETE FROM sqlite_schema",
            "PRAGMA writable_schema",
            "PRAGMA writable_schema=ON",
            "CREATE VIEW sqlite_v AS SELECT 1",
            "CREATE INDEX sqlite_i ON sqlite_schema (name)",
            "CREATE TABLE a (b); ALTER TABLE a RENAME TO sqlite_a",
        ] {
            assert!(load::memory(script).is_err(), "{script}");
        }
        let conn = load::memory("CREATE TABLE sqlite_made (a); CREATE TABLE own_data (a); INSERT INTO own_data VALUES (1)").unwrap();
        let count: i64 = conn
            .query_row("SELECT count(*) FROM own_data", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, 1, "a table of one's own is kept");
    }
}
