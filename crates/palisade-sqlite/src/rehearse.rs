//! A change of several statements in one transaction, and what it does row by row.
//!
//! Temporary triggers note the keys of rows that are written, by whatever. Their own order and images are not trusted: a trigger that
//! writes the same row again fires first. So rows are read again by key, without the change and with it.
//!
//! The statements run twice over the same rows: the first time says which rows to read before. Columns in which both times wrote other
//! values are made anew each time. Temporary triggers are of this connection alone, and gone with the transaction.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade::{
    catalog::{Relation, RelationKind},
    change::{Difference, GeneratedColumns, RowDifference, TableDifference},
    dialect::Dialect,
    guard::{
        BackendError, BackendErrorKind, BeforeAndAfter, ChangeEnd, ChangeRun, OpenTicket, Purpose,
        ReadyText,
    },
    value::{DroppedRows, KeptRows, Value},
};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext},
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    execute::{self, Facts, Task, engine, unavailable, with_authorizer},
    history, ledger,
    worker::Stop,
    write::{self, Changes, Permitted},
};

/// Rows that a change may touch that is looked at.
const MAX_ROWS: usize = 10_000;

/// Functions that give the time.
const CLOCKS: [&str; 10] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
];

/// Past a second's beginning, so that clocks that tell seconds tell another.
const MARGIN: Duration = Duration::from_millis(20);

/// How often it is looked whether anybody still waits.
const LOOK: Duration = Duration::from_millis(20);

/// Rows of one table, in the order in which they were noted, with their keys as text.
type Rows = Vec<(String, Option<Vec<Value>>)>;

/// Runs the statements of a change on `conn`, in a transaction of its own.
///
/// `conn` must be [`restrict`](execute::restrict)ed, and is not any more. The database's own triggers stay off for an inverse; temporary
/// ones run all the same (SQLite's `SQLITE_DBCONFIG_ENABLE_TRIGGER`).
pub(crate) fn run_change(
    conn: &mut Connection,
    facts: &Facts<'_>,
    (tickets, purpose, is_inverse): (&[OpenTicket], &Purpose, bool),
    stop: &Stop,
) -> ChangeEnd {
    let mut change = Change {
        facts,
        tickets,
        stop,
        is_inverse,
        at: 0,
        tables: Vec::new(),
        is_timed: false,
    };
    let result = change.run(conn, purpose);
    let _ = execute::reset(conn);
    let _ = write::set_effects(conn, true);
    let _ = conn.execute_batch("PRAGMA recursive_triggers=OFF");
    match result {
        Ok(run) => ChangeEnd::Ran(run),
        Err(error) => ChangeEnd::Failed {
            statement: change.at,
            error,
        },
    }
}

/// A change that is run.
struct Change<'a> {
    facts: &'a Facts<'a>,
    tickets: &'a [OpenTicket],
    stop: &'a Stop,
    /// Whether it undoes another one.
    is_inverse: bool,
    /// The statement that it is at.
    at: usize,
    /// The tables that it can write.
    tables: Vec<Watched>,
    /// Whether something of it looks at the clock.
    is_timed: bool,
}

/// A table whose written rows are noted.
struct Watched {
    schema: String,
    name: String,
    columns: Vec<String>,
    /// What a row is found by.
    keys: Vec<String>,
    log: String,
}

/// A key that was noted.
struct Touched {
    key: Vec<Value>,
    spelled: String,
    is_inserted: bool,
}

/// What the engine says that a statement would do.
#[derive(Default)]
struct Seen {
    writes: BTreeSet<String>,
    functions: BTreeSet<String>,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Change<'a> {
    fn task(&self, ticket: &'a OpenTicket) -> Task<'a> {
        Task {
            stop: self.stop.clone(),
            ..Task::from(ticket)
        }
    }

    fn run(&mut self, conn: &mut Connection, purpose: &Purpose) -> Result<ChangeRun, BackendError> {
        let Some(first) = self.tickets.first() else {
            return Err(BackendError::not_previewable("a change has statements"));
        };
        let (task, changes) = (self.task(first), Changes::from(first));
        execute::start_clock(conn, &task).map_err(unavailable)?;
        conn.execute_batch("PRAGMA temp_store=MEMORY")
            .map_err(unavailable)?;
        let _turn = write::begin(conn, self.facts, &task, &changes)?;
        let began = Instant::now();
        let written = self.look_ahead(conn)?;
        self.watch(conn, &written)?;
        conn.execute_batch("SAVEPOINT palisade_change")
            .map_err(|e| engine(&e))?;
        self.run_statements(conn)?;
        let touched = self.read_touched(conn)?;
        let after = self.read(conn, &touched)?;
        take_back(conn)?;
        let before = self.read(conn, &touched)?;
        if self.is_timed && matches!(purpose, Purpose::Preview(_)) {
            self.wait_for_another_second()?;
        }
        let affected = self.run_statements(conn)?;
        let touched_again = self.read_touched(conn)?;
        let after_again = self.read(conn, &touched_again)?;
        let difference = self.compare(&touched_again, before, &after_again)?;
        // What is kept is checked by the engine.
        let deferring = match purpose {
            Purpose::Preview(_) => self.find_deferring(conn)?,
            Purpose::Keep(_) => Vec::new(),
        };
        let broken = find_broken(conn, &deferring)?;
        let mut run = ChangeRun {
            affected,
            generated: self.find_generated(&after, &after_again),
            difference,
            ..ChangeRun::default()
        };
        match purpose {
            Purpose::Preview(lens) => {
                let tickets = lens.looks(&run.difference).into_iter();
                let looks: Vec<OpenTicket> = tickets
                    .map(|ticket| ticket.open(self.facts.catalog))
                    .collect::<Result<_, _>>()?;
                let after = self.look(conn, &looks)?;
                take_back(conn)?;
                // What was broken before would be no hindrance.
                if !broken.is_subset(&find_broken(conn, &deferring)?) {
                    return Err(BackendError::new(
                        BackendErrorKind::Constraint,
                        "a foreign key that is checked at the end would not hold",
                    ));
                }
                let before = self.look(conn, &looks)?;
                let pairs = before.into_iter().zip(after);
                run.looked = pairs
                    .map(|(before, after)| BeforeAndAfter { before, after })
                    .collect();
                run.lock_held = Some(began.elapsed());
            }
            Purpose::Keep(expectation) => {
                if expectation.is_met(&run.difference) {
                    self.unwatch(conn)?;
                    if self.is_inverse {
                        self.catch_up(conn)?;
                    }
                    if let Some(left) = expectation.leave(&run)? {
                        ledger::leave(conn, &left).map_err(|e| engine(&e))?;
                    }
                    // Foreign keys that are deferred are checked now.
                    conn.execute_batch("COMMIT").map_err(|e| engine(&e))?;
                    run.is_kept = true;
                }
            }
        }
        Ok(run)
    }

    /// The tables among those written and those that refer to them whose foreign keys may be checked at the end of a transaction.
    fn find_deferring(&self, conn: &Connection) -> Result<Vec<String>, BackendError> {
        let is_written = |name: &str| self.tables.iter().any(|table| table.name == name);
        let relations = self.facts.catalog.relations().iter();
        let near = relations.filter(|relation| {
            let mut keys = relation.foreign_keys.iter();
            let refers = keys
                .any(|key| is_written(&Dialect::Sqlite.fold(&key.table)) || is_written(&key.table));
            refers || (!relation.foreign_keys.is_empty() && is_written(&relation.name))
        });
        let mut found = Vec::new();
        for relation in near {
            let sql = "SELECT count(*) > 0 FROM main.sqlite_schema \
                       WHERE type = 'table' AND name = ?1 AND sql LIKE '%deferr%'";
            let defers = conn.query_row(sql, [&relation.name], |row| row.get::<_, bool>(0));
            if defers.map_err(|e| engine(&e))? {
                found.push(relation.name.clone());
            }
        }
        Ok(found)
    }

    /// Writes into history what was done while triggers were off.
    fn catch_up(&self, conn: &Connection) -> Result<(), BackendError> {
        for table in &self.tables {
            let relation = self.facts.catalog.find(&table.schema, &table.name);
            if let Some(relation) = relation
                && self.facts.catalog.companion(relation).is_some()
            {
                history::catch_up(conn, relation)?;
            }
        }
        Ok(())
    }

    /// Lets foreign keys act, and triggers.
    fn let_effects(&self, conn: &Connection) -> rusqlite::Result<()> {
        match self.is_inverse {
            true => write::set_foreign_keys_alone(conn),
            false => write::set_effects(conn, true),
        }
    }

    /// The tables that the statements can write, with all that follows. Each is compiled first as its own text, which has to be decided.
    fn look_ahead(&mut self, conn: &mut Connection) -> Result<BTreeSet<String>, BackendError> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        for (at, ticket) in self.tickets.iter().enumerate() {
            self.at = at;
            let (task, changes) = (self.task(ticket), Changes::from(ticket));
            write::set_effects(conn, false).map_err(unavailable)?;
            let mut own = Permitted::own(self.facts, &task, &changes);
            with_authorizer(
                conn,
                move |context| own.admits(context),
                |conn, _| write::compile(conn, &task),
            )?;
            self.let_effects(conn).map_err(unavailable)?;
            let mut effects = Permitted::with_effects(conn, self.facts, &task, &changes);
            let unknown = effects.unknown_module();
            let noted = Arc::clone(&seen);
            with_authorizer(
                conn,
                move |context| {
                    note(&noted, context);
                    effects.admits(context)
                },
                |conn, _| write::compile(conn, &task),
            )
            .map_err(|error| unknown.explain(error))?;
        }
        self.at = 0;
        let seen = lock(&seen);
        self.is_timed = CLOCKS.iter().any(|clock| seen.functions.contains(*clock));
        Ok(seen.writes.clone())
    }

    /// Notes the keys of written rows of these tables from now on.
    fn watch(&mut self, conn: &Connection, written: &BTreeSet<String>) -> Result<(), BackendError> {
        let relations = written.iter().map(|name| {
            let relation = self.facts.catalog.find("main", name);
            relation.filter(|relation| relation.kind == RelationKind::Table)
        });
        let relations: Vec<&Relation> = relations.collect::<Option<_>>().ok_or_else(|| {
            BackendError::not_previewable(
                "it writes what is no table, as a view or a virtual table",
            )
        })?;
        self.notice_replaced_rows(conn, &relations)?;
        for (number, relation) in relations.into_iter().enumerate() {
            let watched = Watched::watch(relation, number).ok_or_else(|| {
                BackendError::not_previewable(
                    "it writes a table whose rows cannot be told from each other",
                )
            })?;
            conn.execute_batch(&watched.script()).map_err(|_| {
                BackendError::not_previewable("it writes a table that takes no triggers")
            })?;
            self.tables.push(watched);
        }
        Ok(())
    }

    /// Rows that REPLACE deletes set off triggers only where triggers may set off themselves. That would change what the database's own
    /// do, so where there are any, such a change cannot be looked at.
    fn notice_replaced_rows(
        &self,
        conn: &Connection,
        relations: &[&Relation],
    ) -> Result<(), BackendError> {
        let in_text = |text: &str| text.to_ascii_lowercase().contains("replace");
        let mut may_replace = self
            .tickets
            .iter()
            .any(|ticket| in_text(ticket.checks().plan_text().to_prepare()));
        for relation in relations {
            let mut texts = conn
                .prepare("SELECT sql FROM main.sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE")
                .map_err(|e| engine(&e))?;
            let texts = texts.query_map([&relation.name], |row| row.get::<_, Option<String>>(0));
            for text in texts.map_err(|e| engine(&e))? {
                let text = text.map_err(|e| engine(&e))?;
                may_replace |= text.is_some_and(|text| in_text(&text));
            }
        }
        if !may_replace {
            return Ok(());
        }
        if relations
            .iter()
            .any(|relation| !relation.triggers.is_empty())
        {
            return Err(BackendError::not_previewable(
                "it could replace rows of a table that has triggers; write INSERT and UPDATE instead",
            ));
        }
        conn.execute_batch("PRAGMA recursive_triggers=ON")
            .map_err(unavailable)
    }

    fn unwatch(&self, conn: &Connection) -> Result<(), BackendError> {
        for table in &self.tables {
            conn.execute_batch(&format!("DROP TABLE temp.{}", quote(&table.log)))
                .map_err(|e| engine(&e))?;
            for kind in KINDS {
                let name = quote(&table.trigger(kind));
                conn.execute_batch(&format!("DROP TRIGGER temp.{name}"))
                    .map_err(|e| engine(&e))?;
            }
        }
        Ok(())
    }

    /// Runs the statements, each after its prechecks; how many rows each changed.
    fn run_statements(&mut self, conn: &mut Connection) -> Result<Vec<u64>, BackendError> {
        let mut affected = Vec::with_capacity(self.tickets.len());
        for (at, ticket) in self.tickets.iter().enumerate() {
            self.at = at;
            let (task, changes) = (self.task(ticket), Changes::from(ticket));
            let own = self.facts.own.functions_for(changes.tables(), &[]);
            execute::limit(conn, &task, &own).map_err(unavailable)?;
            conn.set_limit(
                rusqlite::limits::Limit::SQLITE_LIMIT_TRIGGER_DEPTH,
                write::MAX_DEPTH,
            )
            .map_err(unavailable)?;
            write::set_effects(conn, false).map_err(unavailable)?;
            let text = write::look_first(conn, self.facts, &task, &changes)?;
            self.let_effects(conn).map_err(unavailable)?;
            affected.push(self.run_statement(conn, &task, text, &changes)?);
        }
        self.at = 0;
        Ok(affected)
    }

    fn run_statement(
        &self,
        conn: &mut Connection,
        task: &Task<'_>,
        text: ReadyText<'_>,
        changes: &Changes<'_>,
    ) -> Result<u64, BackendError> {
        let mut effects = Permitted::with_effects(conn, self.facts, task, changes);
        let logs: BTreeSet<String> = self.tables.iter().map(|table| table.log.clone()).collect();
        let triggers: BTreeSet<String> = (self.tables.iter())
            .flat_map(|table| KINDS.map(|kind| table.trigger(kind)))
            .collect();
        for trigger in &triggers {
            effects.permit_trigger(trigger);
        }
        let (changed, noted) = (conn.total_changes(), self.count_noted(conn)?);
        let ran = history::count_kept(conn, self.facts.full_text, |conn| {
            with_authorizer(
                conn,
                move |context| {
                    let is_note = matches!(context.action, AuthAction::Insert { table_name } if logs.contains(table_name))
                        && context.database_name == Some("temp")
                        && context.accessor.is_some_and(|name| triggers.contains(name));
                    is_note || effects.admits(context)
                },
                // What RETURNING gives stands in the difference too.
                |conn, denied| write::run(conn, task, text, &mut DroppedRows, denied),
            )
        });
        let (result, kept) = ran.map_err(unavailable)?;
        result?;
        let affected = conn.changes();
        // Each row that is written is noted once; what REPLACE deletes is noted, and the engine does not count it.
        let noted = self.count_noted(conn)?.saturating_sub(noted);
        let changed = conn.total_changes().saturating_sub(changed);
        let all = changed
            .saturating_sub(noted)
            .saturating_sub(kept)
            .max(noted);
        if all > changes.max_affected {
            return Err(BackendError::new(
                BackendErrorKind::AffectedRows,
                format!("{all} rows, and at most {}", changes.max_affected),
            ));
        }
        Ok(affected)
    }

    fn count_noted(&self, conn: &Connection) -> Result<u64, BackendError> {
        let mut all = 0_u64;
        for table in &self.tables {
            let sql = format!("SELECT count(*) FROM temp.{}", quote(&table.log));
            let count: i64 = conn
                .query_row(&sql, [], |row| row.get(0))
                .map_err(|e| engine(&e))?;
            all = all.saturating_add(u64::try_from(count).unwrap_or_default());
        }
        Ok(all)
    }

    /// The keys that were noted, table by table, each once.
    fn read_touched(&self, conn: &Connection) -> Result<Vec<Vec<Touched>>, BackendError> {
        let mut count = 0;
        let mut all = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            let mut keys: Vec<Touched> = Vec::new();
            let mut places: HashMap<String, usize> = HashMap::new();
            let width = table.keys.len();
            let sql = format!(
                "SELECT kind, {} FROM temp.{} ORDER BY seq",
                table.log_columns().join(", "),
                quote(&table.log)
            );
            let mut query = conn.prepare(&sql).map_err(|e| engine(&e))?;
            let mut rows = query.query([]).map_err(|e| engine(&e))?;
            while let Some(row) = rows.next().map_err(|e| engine(&e))? {
                let kind: String = row.get(0).map_err(|e| engine(&e))?;
                let key = |from: usize| -> rusqlite::Result<Vec<Value>> {
                    (from..from + width)
                        .map(|at| row.get_ref(at).map(execute::value))
                        .collect()
                };
                let (old, new) = (key(1), key(1 + width));
                let (old, new) = (old.map_err(|e| engine(&e))?, new.map_err(|e| engine(&e))?);
                let named = match kind.as_str() {
                    "i" => vec![(new, true)],
                    // Most changes leave the key.
                    "u" if old == new => vec![(new, false)],
                    "u" => vec![(old, false), (new, false)],
                    _ => vec![(old, false)],
                };
                for (key, is_inserted) in named {
                    let spelled = format!("{key:?}");
                    match places.get(&spelled).and_then(|at| keys.get_mut(*at)) {
                        Some(known) => known.is_inserted |= is_inserted,
                        None => {
                            places.insert(spelled.clone(), keys.len());
                            keys.push(Touched {
                                key,
                                spelled,
                                is_inserted,
                            });
                        }
                    }
                }
            }
            count += keys.len();
            if count > MAX_ROWS {
                return Err(BackendError::new(
                    BackendErrorKind::AffectedRows,
                    format!("a change that is looked at touches at most {MAX_ROWS} rows"),
                ));
            }
            all.push(keys);
        }
        Ok(all)
    }

    /// The rows with these keys as they are now.
    fn read(&self, conn: &Connection, touched: &[Vec<Touched>]) -> Result<Vec<Rows>, BackendError> {
        let mut all = Vec::with_capacity(touched.len());
        for (table, keys) in self.tables.iter().zip(touched) {
            let mut query = conn.prepare(&table.query()).map_err(|e| engine(&e))?;
            let mut rows = Vec::with_capacity(keys.len());
            for Touched { key, spelled, .. } in keys {
                for (number, value) in (1_usize..).zip(key) {
                    query
                        .raw_bind_parameter(number, borrow_value(value))
                        .map_err(|e| engine(&e))?;
                }
                let mut found = query.raw_query();
                let row = found.next().map_err(|e| engine(&e))?;
                let cells = row.map(|row| {
                    (0..table.columns.len())
                        .map(|at| row.get_ref(at).map(execute::value))
                        .collect::<rusqlite::Result<Vec<Value>>>()
                });
                let cells = cells.transpose().map_err(|e| engine(&e))?;
                rows.push((spelled.clone(), cells));
            }
            all.push(rows);
        }
        Ok(all)
    }

    /// What is different, where both runs touched the same rows. Rows that only one of them made are new, with other keys each time.
    fn compare(
        &self,
        touched: &[Vec<Touched>],
        before: Vec<Rows>,
        after: &[Rows],
    ) -> Result<Difference, BackendError> {
        let other_rows = || {
            BackendError::not_previewable(
                "its statements choose other rows each time they run; name the rows in WHERE",
            )
        };
        let mut difference = Difference::default();
        let each = self.tables.iter().zip(touched).zip(before).zip(after);
        for (((table, touched), before), after) in each {
            let mut before: HashMap<String, Option<Vec<Value>>> = before.into_iter().collect();
            let mut rows = Vec::new();
            for (touched, (spelled, after)) in touched.iter().zip(after) {
                let before = match before.remove(spelled) {
                    Some(before) => before,
                    None if touched.is_inserted => None,
                    None => return Err(other_rows()),
                };
                if before != *after {
                    rows.push(RowDifference {
                        before,
                        after: after.clone(),
                    });
                }
            }
            if before.values().any(Option::is_some) {
                return Err(other_rows());
            }
            if !rows.is_empty() {
                difference.tables.push(TableDifference {
                    schema: table.schema.clone(),
                    table: table.name.clone(),
                    rows,
                });
            }
        }
        Ok(difference)
    }

    /// The columns in which two runs wrote different values. New rows are compared in their order.
    fn find_generated(&self, first: &[Rows], second: &[Rows]) -> GeneratedColumns {
        let mut generated = GeneratedColumns::new();
        for ((table, first), second) in self.tables.iter().zip(first).zip(second) {
            if first.len() != second.len() {
                continue;
            }
            for ((_, one), (_, other)) in first.iter().zip(second) {
                let (Some(one), Some(other)) = (one, other) else {
                    continue;
                };
                for (column, (one, other)) in table.columns.iter().zip(one.iter().zip(other)) {
                    if one != other {
                        generated.insert((
                            table.schema.clone(),
                            table.name.clone(),
                            column.clone(),
                        ));
                    }
                }
            }
        }
        generated
    }

    /// What decided queries give in this transaction.
    fn look(
        &self,
        conn: &mut Connection,
        looks: &[OpenTicket],
    ) -> Result<Vec<Vec<Vec<Value>>>, BackendError> {
        let mut all = Vec::with_capacity(looks.len());
        for ticket in looks {
            let task = self.task_of_look(ticket);
            execute::limit(conn, &task, &std::collections::HashSet::new()).map_err(unavailable)?;
            if task.functions.contains(palisade::token::SQLITE_FUNCTION) {
                crate::keyed::add_keyed_hash(conn).map_err(unavailable)?;
            }
            let mut rows = KeptRows::default();
            execute::answer(conn, self.facts, &task, &mut rows)?;
            all.push(rows.0);
        }
        Ok(all)
    }

    fn task_of_look<'t>(&self, ticket: &'t OpenTicket) -> Task<'t> {
        Task {
            stop: self.stop.clone(),
            ..Task::from(ticket)
        }
    }

    /// Waits until clocks that tell seconds tell another one.
    fn wait_for_another_second(&self) -> Result<(), BackendError> {
        let second = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default()
        };
        let until = Duration::from_secs(second().as_secs() + 1) + MARGIN;
        let cancel = self.tickets.first().map(OpenTicket::cancel);
        while second() < until {
            if self.stop.is_set() || cancel.is_some_and(palisade::guard::Cancel::is_set) {
                return Err(BackendError::cancelled());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// What sets off a trigger of ours.
const KINDS: [&str; 3] = ["insert", "update", "delete"];

impl Watched {
    fn watch(relation: &Relation, number: usize) -> Option<Self> {
        let names: Vec<String> = (relation.columns.iter())
            .map(|column| column.name.to_string())
            .collect();
        let keys = if relation.has_rowid {
            let is_free = |name: &&str| names.iter().all(|one| !one.eq_ignore_ascii_case(name));
            let name = ["rowid", "_rowid_", "oid"].into_iter().find(is_free)?;
            vec![name.to_owned()]
        } else {
            let keys = relation.primary_key.iter();
            let keys = keys.map(|at| names.get(usize::from(*at)).map(|name| quote(name)));
            keys.collect::<Option<Vec<_>>>()?
        };
        (!keys.is_empty()).then(|| Self {
            schema: relation.schema.clone(),
            name: relation.name.clone(),
            columns: names,
            keys,
            log: format!("palisade_log_{number}"),
        })
    }

    fn trigger(&self, kind: &str) -> String {
        format!("{}_{kind}", self.log)
    }

    fn log_columns(&self) -> Vec<String> {
        let named = |letter: char| (0..self.keys.len()).map(move |at| format!("{letter}{at}"));
        named('o').chain(named('n')).collect()
    }

    /// Makes the log and the triggers that write it.
    fn script(&self) -> String {
        let (log, table) = (quote(&self.log), quote(&self.name));
        let columns = self.log_columns().join(", ");
        let row = |row: &str| {
            let keys = self.keys.iter().map(|key| match row {
                "NULL" => "NULL".to_owned(),
                row => format!("{row}.{key}"),
            });
            keys.collect::<Vec<_>>().join(", ")
        };
        let mut script =
            format!("CREATE TEMP TABLE {log} (seq INTEGER PRIMARY KEY, kind, {columns});\n");
        for (kind, old, new) in [
            ("insert", "NULL", "NEW"),
            ("update", "OLD", "NEW"),
            ("delete", "OLD", "NULL"),
        ] {
            let letter: String = kind.chars().take(1).collect();
            script.push_str(&format!(
                "CREATE TEMP TRIGGER {} AFTER {kind} ON main.{table} BEGIN INSERT INTO {log} (kind, {columns}) VALUES ('{letter}', {}, {}); END;\n",
                quote(&self.trigger(kind)),
                row(old),
                row(new)
            ));
        }
        script
    }

    /// The query for one row by its key.
    fn query(&self) -> String {
        let columns = self.columns.iter().map(|name| quote(name));
        let keys = (1..).zip(&self.keys);
        let keys = keys.map(|(number, key)| format!("{key} IS ?{number}"));
        format!(
            "SELECT {} FROM main.{} WHERE {}",
            columns.collect::<Vec<_>>().join(", "),
            quote(&self.name),
            keys.collect::<Vec<_>>().join(" AND ")
        )
    }
}

/// Notes what the engine asks about.
fn note(seen: &Mutex<Seen>, context: &AuthContext<'_>) {
    let mut seen = lock(seen);
    let mut write = |table: &str| {
        // What history keeps is no part of a difference.
        if !history::is_of_history(table) {
            seen.writes.insert(Dialect::Sqlite.fold(table));
        }
    };
    match context.action {
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => {
            write(table_name);
        }
        AuthAction::Function { function_name } => {
            seen.functions.insert(Dialect::Sqlite.fold(function_name));
        }
        // It is for the decision to admit, and changes no row.
        _ => {}
    }
}

/// A row whose foreign key does not hold: its table and number, what it refers to, and by which of the table's keys.
type BrokenRow = (String, Option<i64>, String, i64);

/// The rows of `tables` whose foreign keys do not hold.
fn find_broken(conn: &Connection, tables: &[String]) -> Result<BTreeSet<BrokenRow>, BackendError> {
    let mut broken = BTreeSet::new();
    for table in tables {
        let sql = format!("PRAGMA main.foreign_key_check({})", quote(table));
        let mut query = conn.prepare(&sql).map_err(|e| engine(&e))?;
        let rows = query.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        });
        for row in rows.map_err(|e| engine(&e))? {
            broken.insert(row.map_err(|e| engine(&e))?);
        }
    }
    Ok(broken)
}

fn take_back(conn: &Connection) -> Result<(), BackendError> {
    conn.execute_batch("ROLLBACK TO palisade_change")
        .map_err(|e| engine(&e))
}

fn borrow_value(value: &Value) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Null => ValueRef::Null,
        Value::Bool(bool) => ValueRef::Integer(i64::from(*bool)),
        Value::Integer(integer) => ValueRef::Integer(*integer),
        Value::Real(real) => ValueRef::Real(*real),
        Value::Text(text) => ValueRef::Text(text),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
    })
}

fn quote(name: &str) -> String {
    Dialect::Sqlite.identifier(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SCHEMA: &str = r#"
CREATE TABLE "od""d" (id INTEGER PRIMARY KEY, "a b" TEXT, rowid TEXT);
CREATE TABLE "two keys" ("k 1" INT, k2 TEXT, x, PRIMARY KEY ("k 1", k2)) WITHOUT ROWID;
CREATE TABLE hidden (rowid, _rowid_, OID);
"#;

    fn watch(table: &str, number: usize) -> Option<Watched> {
        let catalog = crate::catalog_from_ddl(SCHEMA, "desk").unwrap();
        Watched::watch(catalog.find("main", table).unwrap(), number)
    }

    #[test]
    fn rows_are_found_by_what_no_column_hides() {
        for (table, keys) in [
            ("od\"d", Some(&["_rowid_"][..])),
            ("two keys", Some(&["\"k 1\"", "\"k2\""])),
            ("hidden", None),
        ] {
            let found = watch(table, 0).map(|watched| watched.keys);
            let keys = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
            assert_eq!(found, keys, "{table}");
        }
    }

    /// What the log of a table has after `script`: the kind, and the old and the new key.
    fn log(table: &str, script: &str) -> Vec<Vec<Option<String>>> {
        let watched = watch(table, 7).unwrap();
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(SCHEMA).unwrap();
        conn.execute_batch(&watched.script()).unwrap();
        conn.execute_batch(script).unwrap();
        let columns = watched.log_columns();
        let sql = format!(
            "SELECT kind, {} FROM temp.palisade_log_7 ORDER BY seq",
            columns.join(", ")
        );
        let mut query = conn.prepare(&sql).unwrap();
        let mut rows = query.query([]).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..=columns.len()).map(|at| match row.get_ref(at).unwrap() {
                ValueRef::Integer(number) => Some(number.to_string()),
                ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
                _ => None,
            });
            found.push(cells.collect());
        }
        found
    }

    #[test]
    fn keys_of_written_rows_are_noted() {
        let row = |cells: &[&str]| -> Vec<Option<String>> {
            let cells = cells.iter().map(|cell| (*cell).to_owned());
            cells.map(|cell| (cell != "-").then_some(cell)).collect()
        };
        assert_eq!(
            log(
                "od\"d",
                r#"INSERT INTO "od""d" (id) VALUES (5); UPDATE "od""d" SET id = 6; DELETE FROM "od""d";"#
            ),
            [
                row(&["i", "-", "5"]),
                row(&["u", "5", "6"]),
                row(&["d", "6", "-"])
            ]
        );
        assert_eq!(
            log(
                "two keys",
                r#"INSERT INTO "two keys" VALUES (1, 'a', 0); UPDATE "two keys" SET k2 = 'b';"#
            ),
            [
                row(&["i", "-", "-", "1", "a"]),
                row(&["u", "1", "a", "1", "b"])
            ]
        );
    }

    #[test]
    fn a_row_is_read_again_by_its_key() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(SCHEMA).unwrap();
        conn.execute_batch(
            r#"INSERT INTO "two keys" VALUES (1, 'a', 10), (1, 'b', 11), (2, 'b', 12)"#,
        )
        .unwrap();
        let sql = watch("two keys", 0).unwrap().query();
        let x: i64 = conn
            .query_row(&sql, rusqlite::params![1, "b"], |row| row.get(2))
            .unwrap();
        assert_eq!(x, 11);
    }

    #[test]
    fn values_are_bound_as_what_they_are() {
        let conn = Connection::open_in_memory().unwrap();
        for (value, kind) in [
            (Value::Null, "null"),
            (Value::Bool(true), "integer"),
            (Value::Integer(5), "integer"),
            (Value::Real(0.5), "real"),
            (Value::text("a"), "text"),
            (Value::Blob(vec![1]), "blob"),
        ] {
            let found: String = conn
                .query_row("SELECT typeof(?1)", [borrow_value(&value)], |row| {
                    row.get(0)
                })
                .unwrap();
            assert_eq!(found, kind, "{value:?}");
        }
    }
}
