//! History of tables: the SQL by which an operator has it kept, and what the backend asks of it.
//!
//! Ordinary triggers in the file keep it, so that writers which do not go through the firewall are in it too. They read rows again by key and
//! never trust NEW beyond that: a trigger that writes the same row again fires first. SQLite has one writer at a time, so the number of the
//! last change says which changes there were.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use palisade::value::Value;
use palisade::{
    catalog::{ColumnDef, Companion, Relation, RelationDef, RelationKind},
    dialect::Dialect,
    guard::BackendError,
    past::{CommittedState, FROM, HistoryOrder, Label, LabelStanding, PREFIX, TO},
};
use rusqlite::{Connection, OptionalExtension as _};

use crate::{execute, full_text::FullTextIndexes};

/// One row for each change of a row: its number, and a mark by which another file is told from this one.
const MARKS: &str = "palisade_history.marks";

/// Since which change each table's history is whole.
const SPANS: &str = "palisade_history.spans";

/// What sets off a trigger, and the images of a row that it then has.
const KINDS: [(&str, &[&str]); 3] = [
    ("insert", &["NEW"]),
    ("update", &["OLD", "NEW"]),
    ("delete", &["OLD"]),
];

/// The trigger that was made after the others, on the companion. The engine lists what was made last at the end, and keeps that order in a
/// `VACUUM` and a dump: a trigger behind this one was dropped and made again, and what was written in between is in no history.
const SEAL: &str = "seal";

/// Why no history can be kept of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryFault {
    /// It is a view, a virtual table, or the engine's own.
    #[error("`{0}` is no table, and history is kept of tables alone")]
    NoTable(String),
    /// Its rows cannot be told from each other.
    #[error(
        "`{0}` has no primary key whose columns are NOT NULL; give it one, and history can be kept of it"
    )]
    NoPrimaryKey(String),
    /// A column has a name that history needs.
    #[error("`{0}` has a column `{1}`, a name that history uses; give it another one")]
    ReservedColumn(String, String),
    /// Which rows conflict with new ones is not known, so that REPLACE could delete some unseen.
    #[error(
        "`{0}` has a unique index over expressions or some rows alone; history is kept of tables without one"
    )]
    UnknownKeys(String),
    /// A label of another engine.
    #[error("the label is of another engine")]
    ForeignLabel,
}

/// The name of a table's companion.
fn companion_name(table: &str) -> String {
    format!("{PREFIX}_{table}")
}

/// Whether a name is one of history: of a companion, a registry or a trigger.
pub(crate) fn is_of_history(name: &str) -> bool {
    Dialect::Sqlite.fold(name).starts_with(PREFIX)
}

/// The script that does to the history of `relation` what is ordered, for the operator to run.
///
/// # Errors
/// Where none can be kept, with what would have to be otherwise.
pub fn write_script(relation: &Relation, order: &HistoryOrder) -> Result<String, HistoryFault> {
    match order {
        // A file has no accounts.
        HistoryOrder::Enable { account: _ } => enable_script(relation),
        HistoryOrder::Disable => disable_script(relation),
        HistoryOrder::Prune(label) => prune_script(relation, label),
    }
}

/// Has history kept from now on. Where there is history of it already, it begins anew.
fn enable_script(relation: &Relation) -> Result<String, HistoryFault> {
    let table = Kept::read(relation)?;
    let (marks, spans) = (quote(MARKS), quote(SPANS));
    let (name, companion) = (quote(&table.name), quote(&table.companion));
    // A line break would end the comment.
    let shown = name.replace(char::is_control, " ");
    let columns = table.columns.join(", ");
    let definitions: Vec<String> = (relation.columns.iter())
        .map(|column| {
            let collation = match column.collation.as_str() {
                "" | "BINARY" => String::new(),
                other => format!(" COLLATE {}", quote(other)),
            };
            format!("{} {}{collation}", quote(&column.name), column.type_name)
        })
        .collect();
    let strict = if relation.strict { " STRICT" } else { "" };
    let keys = table.keys.join(", ");
    let last = format!("(SELECT max(seq) FROM main.{marks})");
    // Rows that a new one replaces are looked for by these.
    let open_by_others = (1..).zip(&table.others).map(|(number, key)| {
        format!(
            "CREATE INDEX main.{} ON {companion} ({}) WHERE {TO} IS NULL;\n",
            quote(&format!("{}_open_{number}", table.companion)),
            key.join(", ")
        )
    });
    let open_by_others: String = open_by_others.collect();
    let mut script = format!(
        "-- History of {shown}: every state of its rows from now on. Earlier history of it is dropped.\n\
         BEGIN IMMEDIATE;\n\
         CREATE TABLE IF NOT EXISTS main.{marks} (seq INTEGER PRIMARY KEY, mark INTEGER NOT NULL DEFAULT (random()));\n\
         CREATE TABLE IF NOT EXISTS main.{spans} (relation TEXT PRIMARY KEY, since INTEGER NOT NULL);\n"
    );
    script.push_str(&table.drop_triggers());
    script.push_str(&format!(
        "DROP TABLE IF EXISTS main.{companion};\n\
         CREATE TABLE main.{companion} ({}, {FROM} INTEGER NOT NULL, {TO} INTEGER){strict};\n\
         CREATE INDEX main.{} ON {companion} ({keys}, {FROM}, {TO});\n\
         CREATE UNIQUE INDEX main.{} ON {companion} ({keys}) WHERE {TO} IS NULL;\n\
         CREATE INDEX main.{} ON {companion} ({TO}, {FROM});\n\
         {open_by_others}\
         INSERT INTO main.{marks} DEFAULT VALUES;\n\
         INSERT INTO main.{companion} ({columns}, {FROM}) SELECT {columns}, {last} FROM main.{name};\n\
         INSERT INTO main.{spans} VALUES ({}, {last}) ON CONFLICT (relation) DO UPDATE SET since = excluded.since;\n",
        definitions.join(", "),
        quote(&format!("{}_states", table.companion)),
        quote(&format!("{}_open", table.companion)),
        quote(&format!("{}_ended", table.companion)),
        text(&table.name),
    ));
    for (kind, images) in KINDS {
        let name = table.trigger_name(kind);
        let body = table.trigger_body(kind, images);
        script.push_str(&format!("CREATE TRIGGER main.{name} {body};\n"));
    }
    script.push_str(&format!(
        "CREATE TRIGGER main.{} {};\nCOMMIT;\n",
        table.trigger_name(SEAL),
        table.seal_body()
    ));
    Ok(script)
}

/// Ends history, and deletes what was kept.
fn disable_script(relation: &Relation) -> Result<String, HistoryFault> {
    let table = Kept::read(relation)?;
    Ok(format!(
        "BEGIN IMMEDIATE;\n{}DROP TABLE IF EXISTS main.{};\nDELETE FROM main.{} WHERE relation = {};\nCOMMIT;\n",
        table.drop_triggers(),
        quote(&table.companion),
        quote(SPANS),
        text(&table.name)
    ))
}

/// Deletes states that had ended at `label`. Nothing can be read as of an earlier one then.
fn prune_script(relation: &Relation, label: &Label) -> Result<String, HistoryFault> {
    let table = Kept::read(relation)?;
    let CommittedState::Sequence { last, mark: _ } = label.state() else {
        return Err(HistoryFault::ForeignLabel);
    };
    Ok(format!(
        "BEGIN IMMEDIATE;\nUPDATE main.{spans} SET since = max(since, {last}) WHERE relation = {name};\n\
         DELETE FROM main.{companion} WHERE {TO} <= {last};\nCOMMIT;\n",
        spans = quote(SPANS),
        companion = quote(&table.companion),
        name = text(&table.name)
    ))
}

/// A table of which history can be kept.
struct Kept {
    name: String,
    companion: String,
    /// Quoted, as all that follow.
    columns: Vec<String>,
    keys: Vec<String>,
    /// Unique keys beside the primary one.
    others: Vec<Vec<String>>,
}

impl Kept {
    fn read(relation: &Relation) -> Result<Self, HistoryFault> {
        let name = || relation.name.clone();
        if relation.kind != RelationKind::Table {
            return Err(HistoryFault::NoTable(name()));
        }
        let reserved = |column: &&palisade::catalog::Column| [FROM, TO].contains(&&*column.key);
        if let Some(column) = relation.columns.iter().find(reserved) {
            return Err(HistoryFault::ReservedColumn(
                name(),
                column.name.to_string(),
            ));
        }
        let named = |indexes: &[u16]| -> Vec<String> {
            let columns = indexes.iter().filter_map(|index| relation.column(*index));
            columns.map(|column| quote(&column.name)).collect()
        };
        let keys = named(&relation.primary_key);
        let is_nullable = |index: &u16| relation.column(*index).is_none_or(|key| key.nullable);
        if keys.is_empty() || relation.primary_key.iter().any(is_nullable) {
            return Err(HistoryFault::NoPrimaryKey(name()));
        }
        let unique = relation.unique_keys.as_deref();
        let unique = unique.ok_or_else(|| HistoryFault::UnknownKeys(name()))?;
        if unique.iter().any(|key| !key.plain) {
            return Err(HistoryFault::UnknownKeys(name()));
        }
        let columns = relation.columns.iter();
        Ok(Self::assemble(
            &relation.name,
            columns.map(|column| quote(&column.name)).collect(),
            keys,
            unique.iter().map(|key| named(&key.columns)).collect(),
        ))
    }

    /// The same of what a catalog is made from; none where no history can be kept of it.
    fn read_def(def: &RelationDef) -> Option<Self> {
        let quoted = |names: &[String]| names.iter().map(|name| quote(name)).collect();
        let is_free = |column: &ColumnDef| {
            let key = Dialect::Sqlite.fold(&column.name);
            key != FROM && key != TO
        };
        let unique = def.unique_keys.as_deref()?;
        let can_be_kept = def.kind == RelationKind::Table
            && !def.primary_key.is_empty()
            && def.columns.iter().all(is_free)
            && unique.iter().all(|key| key.plain);
        can_be_kept.then(|| {
            let columns = def.columns.iter();
            Self::assemble(
                &def.name,
                columns.map(|column| quote(&column.name)).collect(),
                quoted(&def.primary_key),
                unique.iter().map(|key| quoted(&key.columns)).collect(),
            )
        })
    }

    fn assemble(
        name: &str,
        columns: Vec<String>,
        keys: Vec<String>,
        mut others: Vec<Vec<String>>,
    ) -> Self {
        others.retain(|key| *key != keys);
        // The same text, whatever the order in which they are told.
        others.sort();
        Self {
            name: name.to_owned(),
            companion: companion_name(name),
            columns,
            keys,
            others,
        }
    }

    /// The query for keys of rows that differ, after one change and up to another: `?1` and `?2`, and at most `?3` of them.
    ///
    /// A state that began in between is open, or has ended since then: the index of ends finds both. For a UNION the engine would read
    /// the index of keys instead, all of it.
    fn changed_keys(&self) -> String {
        format!(
            "SELECT DISTINCT * FROM (SELECT {keys} FROM main.{companion} WHERE {TO} IS NULL AND {FROM} > ?1 AND {FROM} <= ?2 \
             UNION ALL SELECT {keys} FROM main.{companion} \
             WHERE {TO} > ?1 AND ({TO} <= ?2 OR {FROM} > ?1 AND {FROM} <= ?2)) LIMIT ?3",
            keys = self.keys.join(", "),
            companion = quote(&self.companion),
        )
    }

    fn trigger_name(&self, kind: &str) -> String {
        quote(&format!("{}_{kind}", self.companion))
    }

    fn drop_triggers(&self) -> String {
        let kinds = KINDS.into_iter().map(|(kind, _)| kind).chain([SEAL]);
        kinds
            .map(|kind| format!("DROP TRIGGER IF EXISTS main.{};\n", self.trigger_name(kind)))
            .collect()
    }

    /// It never fires: no column of that name is ever written again.
    fn seal_body(&self) -> String {
        let companion = quote(&self.companion);
        format!("BEFORE UPDATE OF {FROM} ON {companion} BEGIN SELECT 1; END")
    }

    /// Closes the open states of rows by these images' keys, and opens what is there now.
    ///
    /// Each condition has a statement of its own, which an index of open states answers. Joined by OR, SQLite reads all of them.
    fn trigger_body(&self, kind: &str, images: &[&str]) -> String {
        // A trigger's body names no schema.
        let last = format!("(SELECT max(seq) FROM {})", quote(MARKS));
        let (table, companion) = (quote(&self.name), quote(&self.companion));
        let is_image = |columns: &[String], image: &str| {
            let each = columns
                .iter()
                .map(|name| format!("{name} IS {image}.{name}"));
            format!("({})", each.collect::<Vec<_>>().join(" AND "))
        };
        let by_key: Vec<String> = (images.iter())
            .map(|image| is_image(&self.keys, image))
            .collect();
        // Rows that REPLACE deletes set off no trigger of their own. They are among those with a unique key of the new row.
        let gone = (self.others.iter())
            .filter(|_| images.contains(&"NEW"))
            .map(|key| {
                let same = self.keys.iter();
                let same = same.map(|name| format!("present.{name} IS {companion}.{name}"));
                format!(
                    "{} AND NOT EXISTS (SELECT 1 FROM {table} AS present WHERE {})",
                    is_image(key, "NEW"),
                    same.collect::<Vec<_>>().join(" AND ")
                )
            });
        let closes = by_key.iter().cloned().chain(gone).map(|condition| {
            format!(
                "\x20 UPDATE {companion} SET {TO} = {last} WHERE {TO} IS NULL AND {condition};\n"
            )
        });
        let closes: String = closes.collect();
        let columns = self.columns.join(", ");
        format!(
            "AFTER {} ON {table} BEGIN\n\
             \x20 INSERT INTO {} (mark) VALUES (random());\n\
             {closes}\
             \x20 INSERT INTO {companion} ({columns}, {FROM}) SELECT {columns}, {last} FROM {table} WHERE {};\n\
             END",
            kind.to_uppercase(),
            quote(MARKS),
            by_key.join(" OR "),
        )
    }
}

/// A trigger of history's own.
pub(crate) struct OwnTrigger {
    text: String,
    /// Where the schema lists it.
    place: i64,
}

/// History's own triggers, by table and name: read at once, since the engine looks through the whole schema for each question.
pub(crate) fn read_triggers(
    conn: &Connection,
) -> rusqlite::Result<HashMap<(String, String), OwnTrigger>> {
    let mut query = conn.prepare(
        "SELECT tbl_name, name, sql, rowid FROM main.sqlite_schema WHERE type = 'trigger' AND sql IS NOT NULL",
    )?;
    let found = query.query_map([], |row| {
        let trigger = OwnTrigger {
            text: row.get(2)?,
            place: row.get(3)?,
        };
        Ok((
            (row.get::<_, String>(0)?, row.get::<_, String>(1)?),
            trigger,
        ))
    })?;
    let found = found.filter(|found| match found {
        Ok(((_, name), _)) => is_of_history(name),
        Err(_) => true,
    });
    found.collect()
}

/// The companion of a table of this file, if it has all of the table's columns and the table's triggers have kept it all the while.
///
/// There is none after a column or a unique index was added. Nor is there after a trigger was dropped, also where it is there again.
pub(crate) fn find_companion(
    conn: &Connection,
    triggers: &HashMap<(String, String), OwnTrigger>,
    def: &RelationDef,
) -> rusqlite::Result<Option<Companion>> {
    let Some(kept) = Kept::read_def(def) else {
        return Ok(None);
    };
    let find = |table: &str, kind: &str, body: &str| {
        let name = format!("{}_{kind}", kept.companion);
        let found = triggers.get(&(table.to_owned(), name));
        found.filter(|trigger| trigger.text.ends_with(body))
    };
    let Some(seal) = find(&kept.companion, SEAL, &kept.seal_body()) else {
        return Ok(None);
    };
    for (kind, images) in KINDS {
        let found = find(&def.name, kind, &kept.trigger_body(kind, images));
        if found.is_none_or(|trigger| trigger.place > seal.place) {
            return Ok(None);
        }
    }
    let columns = def.columns.iter().map(|column| column.name.as_str());
    let name = kept.companion;
    let sql = "SELECT name FROM pragma_table_info(?1, 'main')";
    let mut query = conn.prepare(sql)?;
    let found = query.query_map([&name], |row| row.get::<_, String>(0))?;
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let wanted = columns.chain([FROM, TO]);
    let is_whole = found.iter().map(String::as_str).eq(wanted);
    Ok(is_whole.then(|| Companion {
        schema: "main".to_owned(),
        name,
    }))
}

/// The number and the mark of the last change. None where no history is kept.
pub(crate) fn take_label(conn: &Connection) -> rusqlite::Result<Option<Label>> {
    if !has_table(conn, MARKS)? {
        return Ok(None);
    }
    let sql = format!(
        "SELECT seq, mark FROM main.{} ORDER BY seq DESC LIMIT 1",
        quote(MARKS)
    );
    let last: Option<(i64, i64)> = conn
        .query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (last, mark) = last.unwrap_or_default();
    Ok(Label::parse(Dialect::Sqlite, &format!("{last}:{mark}")))
}

/// Whether `label` is of this file, and the history in `companions` reaches back to it.
pub(crate) fn check_label(
    conn: &mut Connection,
    label: &Label,
    companions: &[Companion],
) -> rusqlite::Result<LabelStanding> {
    let CommittedState::Sequence { last, mark } = label.state() else {
        return Ok(LabelStanding::Foreign);
    };
    let read = conn.transaction()?;
    if !has_table(&read, MARKS)? || !has_table(&read, SPANS)? {
        return Ok(LabelStanding::BeforeHistory);
    }
    let sql = format!("SELECT mark FROM main.{} WHERE seq = ?1", quote(MARKS));
    let found: Option<i64> = read.query_row(&sql, [last], |row| row.get(0)).optional()?;
    if found != Some(*mark) {
        return Ok(match last {
            0 => LabelStanding::BeforeHistory,
            _ => LabelStanding::Foreign,
        });
    }
    let sql = format!(
        "SELECT since FROM main.{} WHERE relation = ?1",
        quote(SPANS)
    );
    for companion in companions {
        let table = companion.name.strip_prefix(&companion_name(""));
        let since: Option<i64> = read.query_row(&sql, [table], |row| row.get(0)).optional()?;
        if since.is_none_or(|since| since > *last) {
            return Ok(LabelStanding::BeforeHistory);
        }
    }
    Ok(LabelStanding::Answers)
}

/// The keys of rows of `relation` whose state at the second label, or by now, is not that of the first.
pub(crate) fn list_changed_keys(
    conn: &Connection,
    relation: &Relation,
    (from, to): (&Label, Option<&Label>),
    most: u32,
) -> rusqlite::Result<Vec<Vec<Value>>> {
    let number = |label: &Label| match label.state() {
        CommittedState::Sequence { last, mark: _ } => *last,
        // Of another engine: `check_label` refuses it.
        CommittedState::Snapshot { .. } | CommittedState::Counter { .. } => 0,
    };
    let Ok(table) = Kept::read(relation) else {
        return Ok(Vec::new());
    };
    let mut query = conn.prepare(&table.changed_keys())?;
    let last = to.map_or(i64::MAX, number);
    let most = i64::from(most).saturating_add(1);
    let rows = query.query_map([number(from), last, most], |row| {
        (0..table.keys.len())
            .map(|at| row.get_ref(at).map(execute::value))
            .collect()
    })?;
    rows.collect()
}

/// The changes by which a row of `relation`, or any of its rows, came to another state: the newest `most`, newest first.
pub(crate) fn list_writes(
    conn: &Connection,
    relation: &Relation,
    key: Option<&[Value]>,
    most: u32,
) -> Result<Vec<u64>, BackendError> {
    let Ok(table) = Kept::read(relation) else {
        return Ok(Vec::new());
    };
    let companion = quote(&table.companion);
    let is_row = match key {
        Some(_) => {
            let each = (1..).zip(&table.keys);
            let each = each.map(|(number, name)| format!("{name} = ?{number}"));
            each.collect::<Vec<_>>().join(" AND ")
        }
        None => "TRUE".to_owned(),
    };
    let sql = format!(
        "SELECT {FROM} FROM main.{companion} WHERE {is_row} \
         UNION SELECT {TO} FROM main.{companion} WHERE {TO} IS NOT NULL AND {is_row} ORDER BY 1 DESC LIMIT {most}"
    );
    let mut query = conn.prepare(&sql).map_err(|e| execute::engine(&e))?;
    execute::bind(&mut query, key.unwrap_or_default())?;
    let rows = query.raw_query().mapped(|row| row.get::<_, i64>(0));
    let ids: rusqlite::Result<Vec<i64>> = rows.collect();
    let ids = ids.map_err(|e| execute::engine(&e))?;
    Ok(ids
        .into_iter()
        .filter_map(|id| u64::try_from(id).ok())
        .collect())
}

/// Writes into the companion of `relation` what has changed since it was last written, where triggers were off.
pub(crate) fn catch_up(conn: &Connection, relation: &Relation) -> Result<(), BackendError> {
    // What history cannot follow is not done.
    let table =
        Kept::read(relation).map_err(|fault| BackendError::not_previewable(&fault.to_string()))?;
    let (name, companion) = (quote(&table.name), quote(&table.companion));
    let columns = table.columns.join(", ");
    let same = |columns: &[String], of: &str, other: &str| {
        let each = columns.iter().map(|column| {
            format!(
                "typeof({of}.{column}) = typeof({other}.{column}) AND {of}.{column} IS {other}.{column} COLLATE BINARY"
            )
        });
        each.collect::<Vec<_>>().join(" AND ")
    };
    let last = format!("(SELECT max(seq) FROM main.{})", quote(MARKS));
    conn.execute_batch(&format!(
        "INSERT INTO main.{marks} DEFAULT VALUES;\n\
         UPDATE main.{companion} AS kept SET {TO} = {last} WHERE {TO} IS NULL AND NOT EXISTS (SELECT 1 FROM main.{name} AS present WHERE {whole});\n\
         INSERT INTO main.{companion} ({columns}, {FROM}) SELECT {columns}, {last} FROM main.{name} AS present \
         WHERE NOT EXISTS (SELECT 1 FROM main.{companion} AS kept WHERE kept.{TO} IS NULL AND {keys});",
        marks = quote(MARKS),
        whole = same(&table.columns, "present", "kept"),
        keys = same(&table.keys, "kept", "present"),
    ))
    .map_err(|error| execute::engine(&error))
}

/// Counts the rows of history, and of what full-text indexes keep of their own, that are written while `work` runs.
///
/// The engine tells nothing of tables without row ids, of which an index has one: what it writes there stays in what the engine counts.
pub(crate) fn count_kept<T>(
    conn: &mut Connection,
    full_text: &Arc<FullTextIndexes>,
    work: impl FnOnce(&mut Connection) -> T,
) -> rusqlite::Result<(T, u64)> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let full_text = Arc::clone(full_text);
    conn.update_hook(Some(
        move |_: rusqlite::hooks::Action, database: &str, table: &str, _: i64| {
            if database == "main" && (is_of_history(table) || full_text.has_shadow(table)) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        },
    ))?;
    let result = work(conn);
    conn.update_hook(None::<fn(rusqlite::hooks::Action, &str, &str, i64)>)?;
    Ok((result, count.load(Ordering::Relaxed)))
}

fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT count(*) > 0 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1",
        [name],
        |row| row.get(0),
    )
}

fn quote(name: &str) -> String {
    Dialect::Sqlite.identifier(name)
}

/// A string literal.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// All of a history is never read for what has changed a moment ago, be its statistics known or not.
    #[test]
    fn changed_keys_are_found_by_the_index_of_ends() {
        let ddl = "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, a TEXT);";
        let catalog = crate::catalog_from_ddl(ddl, "desk").unwrap();
        let relation = catalog.find("main", "t").unwrap();
        let conn = Connection::open_in_memory().unwrap();
        let enable = HistoryOrder::Enable { account: None };
        let script = write_script(relation, &enable).unwrap();
        conn.execute_batch(&format!(
            "{ddl} INSERT INTO t WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 500) SELECT n, 'x' FROM n;
             {script} UPDATE t SET a = 'y'; UPDATE t SET a = 'z';"
        ))
        .unwrap();
        let sql = Kept::read(relation).unwrap().changed_keys();
        for statistics in ["", "ANALYZE"] {
            conn.execute_batch(statistics).unwrap();
            let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = query.query_map([900, i64::MAX, 10], |row| row.get::<_, String>(3));
            let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
            let by_end = steps
                .iter()
                .filter(|step| step.contains("USING INDEX palisade_history_t_ended"));
            assert_eq!(by_end.count(), 2, "{steps:#?}");
        }
        let mut query = conn.prepare(&sql).unwrap();
        // 1 is the beginning; each UPDATE of 500 rows makes 500 changes.
        let changed = query.query_map([991, i64::MAX, 600], |row| row.get::<_, i64>(0));
        let changed: Vec<i64> = changed.unwrap().map(Result::unwrap).collect();
        assert_eq!(changed.len(), 10, "{changed:?}");
    }
}
