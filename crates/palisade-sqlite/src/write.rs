//! One statement that changes rows, under every lock the engine has.
//!
//! The authorizer sees what a statement does and what the engine does for it in one stream. Only the accessor tells
//! them apart: the name of a trigger for what its body does, nothing for what a foreign key does
//! (`what_the_engine_reports_of_changes` keeps it true). A common table expression can bear a trigger's name. So the
//! statement is compiled twice. First triggers and foreign keys are switched off: everything that is reported is the
//! statement's own, and has to be decided. Then it is compiled as it will run, when in addition
//!
//! * the body of a trigger that was decided may do what it likes, and what that sets off may too;
//! * the key columns of foreign keys may be read;
//! * full-text indexes that such a trigger reaches may work over tables of their own (`full_text`).
//!
//! What foreign keys change, and which triggers a statement sets off, has to be decided as well.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use palisade::{
    catalog::{Catalog, Change, ReferenceAction, RelationKind},
    dialect::Dialect,
    guard::{
        BackendError, BackendErrorKind, Check, EngineFault, FaultClass, OpenTicket, ReadyText,
        RowSink,
    },
    rewrite::Precheck,
};
use rusqlite::{
    Connection,
    config::DbConfig,
    hooks::{AuthAction, AuthContext},
    limits::Limit,
};

use crate::{
    execute::{self, Denied, Facts, Task, bind, engine, second_lock, unavailable, with_authorizer},
    full_text::{self, FullTextIndexes},
    history,
    implicit_calls::OwnFunctions,
    write_turns::WriteTurn,
};

/// How deep triggers and foreign keys may set off each other.
pub(crate) const MAX_DEPTH: i32 = 32;

/// What a statement may change, beside a [`Task`].
pub(crate) struct Changes<'a> {
    pub(crate) writes: &'a BTreeSet<(Change, String, String)>,
    pub(crate) triggers: &'a BTreeSet<String>,
    pub(crate) max_affected: u64,
}

impl<'a> Changes<'a> {
    pub(crate) fn tables(&self) -> impl Iterator<Item = &'a str> {
        self.writes.iter().map(|(_, table, _)| table.as_str())
    }
}

impl<'a> From<&'a OpenTicket> for Changes<'a> {
    fn from(ticket: &'a OpenTicket) -> Self {
        let statement = ticket.statement();
        Self {
            writes: statement.engine_writes(),
            triggers: statement.engine_triggers(),
            max_affected: statement.max_affected(),
        }
    }
}

/// Runs `task` on `conn`, which can write, in a transaction of its own, and says how many rows it changed. Nothing
/// stays of a statement that fails, that changes too many rows, or whose rows `sink` does not take.
///
/// `conn` must be [`restrict`](execute::restrict)ed, and is not any more.
pub(crate) fn execute(
    conn: &mut Connection,
    facts: &Facts<'_>,
    task: &Task<'_>,
    changes: &Changes<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<u64, BackendError> {
    execute::start_clock(conn, task).map_err(unavailable)?;
    let result = in_transaction(conn, facts, task, changes, sink);
    // What is committed stays. If this fails, the connection's end or its next use takes the rest back.
    let _ = execute::reset(conn);
    result
}

fn in_transaction(
    conn: &mut Connection,
    facts: &Facts<'_>,
    task: &Task<'_>,
    changes: &Changes<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<u64, BackendError> {
    let _turn = begin(conn, facts, task, changes)?;
    let mut own = Permitted::own(facts, task, changes);
    set_effects(conn, false).map_err(unavailable)?;
    with_authorizer(
        conn,
        move |context| own.admits(context),
        |conn, _| compile(conn, task),
    )?;
    // Nothing else can write meanwhile.
    let text = look_first(conn, facts, task, changes)?;
    set_effects(conn, true).map_err(unavailable)?;
    let mut effects = Permitted::with_effects(conn, facts, task, changes);
    let unknown = effects.unknown_module();
    let before = conn.total_changes();
    let ran = history::count_kept(conn, facts.full_text, |conn| {
        with_authorizer(
            conn,
            move |context| effects.admits(context),
            |conn, denied| run(conn, task, text, sink, denied),
        )
    });
    let (result, kept) = ran.map_err(unavailable)?;
    result.map_err(|error| unknown.explain(error))?;
    let affected = conn.changes();
    // With what triggers and foreign keys changed, but for what history keeps of it.
    let all = conn.total_changes().saturating_sub(before);
    let all = all.saturating_sub(kept);
    if all > changes.max_affected {
        return Err(BackendError::new(
            BackendErrorKind::AffectedRows,
            format!("{all} rows, and at most {}", changes.max_affected),
        ));
    }
    // Foreign keys that are deferred are checked now.
    conn.execute_batch("COMMIT").map_err(|e| engine(&e))?;
    Ok(affected)
}

/// Begins a transaction that can write, if the schema is still the decided one, when its turn has come. It has to be over when the
/// turn is dropped.
pub(crate) fn begin(
    conn: &Connection,
    facts: &Facts<'_>,
    task: &Task<'_>,
    changes: &Changes<'_>,
) -> Result<WriteTurn, BackendError> {
    let gives_up = || task.stop.is_set() || task.cancel.is_set();
    let time = task.limits.statement_timeout();
    let turn = facts.turns.wait(time, gives_up)?;
    conn.execute_batch("PRAGMA query_only=OFF")
        .map_err(unavailable)?;
    // The lock for writing at once: one that is taken later cannot be waited for.
    conn.execute_batch("BEGIN IMMEDIATE")
        .map_err(|e| engine(&e))?;
    execute::check_schema(conn, facts.schema)?;
    let own = facts.own.functions_for(changes.tables(), &[]);
    execute::limit(conn, task, &own).map_err(unavailable)?;
    conn.set_limit(Limit::SQLITE_LIMIT_TRIGGER_DEPTH, MAX_DEPTH)
        .map_err(unavailable)?;
    Ok(turn)
}

/// Switches triggers and foreign keys, which no pragma does in a transaction.
pub(crate) fn set_effects(conn: &Connection, on: bool) -> rusqlite::Result<()> {
    set_each(conn, [(TRIGGERS, on), (FOREIGN_KEYS, on)])
}

/// Switches foreign keys on, and the database's own triggers off. Temporary triggers run all the same.
pub(crate) fn set_foreign_keys_alone(conn: &Connection) -> rusqlite::Result<()> {
    set_each(conn, [(TRIGGERS, false), (FOREIGN_KEYS, true)])
}

const TRIGGERS: DbConfig = DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
const FOREIGN_KEYS: DbConfig = DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY;

fn set_each(conn: &Connection, all: [(DbConfig, bool); 2]) -> rusqlite::Result<()> {
    for (config, on) in all {
        if conn.set_db_config(config, on)? != on {
            return Err(rusqlite::Error::InvalidParameterName(format!("{config:?}")));
        }
    }
    Ok(())
}

/// Has the engine compile a statement, which asks the authorizer.
pub(crate) fn compile(conn: &Connection, task: &Task<'_>) -> Result<(), BackendError> {
    let text = task.checks.plan_text().to_prepare();
    execute::prepare(conn, text).map(drop)
}

/// Does what comes before a change, while triggers and foreign keys are switched off, and gives its text.
pub(crate) fn look_first<'t>(
    conn: &mut Connection,
    facts: &Facts<'_>,
    task: &Task<'t>,
    changes: &Changes<'_>,
) -> Result<ReadyText<'t>, BackendError> {
    let mut check = task.checks.first_check();
    loop {
        check = match check {
            // The engine tells none.
            Check::Estimate(check) => check.answer(&[])?,
            Check::Precheck(check) => {
                let query = check.query();
                let called = execute::own_functions(facts, task, query.sql(), changes.tables());
                let gave_row = with_authorizer(
                    conn,
                    execute::permitted_accesses(task, called),
                    |conn, denied| gives_row(conn, task, query, denied),
                )?;
                check.answer(gave_row)?
            }
            // The engine counts what foreign keys change.
            last @ (Check::CascadeCount(_) | Check::Ready(_)) => return last.ready(),
        };
    }
}

/// Whether a precheck finds a row.
fn gives_row(
    conn: &Connection,
    task: &Task<'_>,
    precheck: &Precheck,
    denied: &Denied,
) -> Result<bool, BackendError> {
    let mut query = execute::prepare(conn, precheck.sql())?;
    if denied.first().is_some() {
        // The refusal comes from there.
        return Ok(false);
    }
    execute::check_query(&query, task)?;
    bind(&mut query, precheck.params())?;
    let found = query.raw_query().next().map_err(|e| engine(&e))?.is_some();
    Ok(found)
}

/// Runs a statement that is permitted.
pub(crate) fn run(
    conn: &Connection,
    task: &Task<'_>,
    text: ReadyText<'_>,
    sink: &mut (dyn RowSink + Send),
    denied: &Denied,
) -> Result<(), BackendError> {
    let mut statement = execute::prepare(conn, text.sql())?;
    if denied.first().is_some() {
        return Ok(());
    }
    if statement.readonly() || statement.is_explain() != 0 {
        return Err(second_lock("the statement changes nothing".to_owned()));
    }
    execute::check_origins(&statement, task)?;
    bind(&mut statement, task.params)?;
    match execute::feed(&mut statement, sink)? {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(BackendError::not_taken()),
    }
}

/// What the engine may do.
pub(crate) struct Permitted {
    catalog: Arc<Catalog>,
    own: Arc<OwnFunctions>,
    reads: HashSet<(String, String)>,
    functions: HashSet<String>,
    writes: HashSet<(Change, String, String)>,
    /// Folded names of triggers whose bodies may do what they like.
    triggers: HashSet<String>,
    /// Tables of which triggers and foreign keys may do what they like.
    reached: HashSet<String>,
    /// Whether triggers that keep history may run.
    keeps_history: bool,
    full_text: Arc<FullTextIndexes>,
    /// What the indexes that triggers reach work over.
    behind: BehindIndexes,
    unknown: UnknownModule,
}

/// What full-text indexes that were reached do by themselves.
#[derive(Default)]
struct BehindIndexes {
    /// Folded names of tables that they read and write.
    shadows: HashSet<String>,
    /// Those of tables that they read, since these hold the texts.
    contents: HashSet<String>,
    pragmas: HashSet<&'static str>,
}

/// Whether a trigger that is permitted reached a virtual table of which nothing is known.
#[derive(Clone, Default)]
pub(crate) struct UnknownModule(Arc<AtomicBool>);

impl UnknownModule {
    /// The same error, or what it comes from.
    pub(crate) fn explain(&self, error: BackendError) -> BackendError {
        if error.kind != BackendErrorKind::SecondLock || !self.0.load(Ordering::Relaxed) {
            return error;
        }
        let told = "a trigger uses a virtual table of another kind than FTS5, FTS4 and FTS3 indexes over tables";
        let detail = format!("{told}: {}", error.detail);
        BackendError::new(BackendErrorKind::Rejected, detail).with_fault(EngineFault {
            code: "SQLITE_AUTH".to_owned(),
            class: FaultClass::NotSupported,
            message: told.to_owned(),
            position: None,
            is_of_preparation: true,
        })
    }
}

impl Permitted {
    /// What the statement itself may do.
    pub(crate) fn own(facts: &Facts<'_>, task: &Task<'_>, changes: &Changes<'_>) -> Self {
        let text = task.checks.plan_text().to_prepare();
        let mut functions = execute::own_functions(facts, task, text, changes.tables());
        functions.extend(task.functions.iter().cloned());
        Self {
            catalog: Arc::clone(facts.catalog),
            own: Arc::clone(facts.own),
            reads: task.reads.iter().cloned().collect(),
            functions,
            writes: changes.writes.iter().cloned().collect(),
            triggers: HashSet::new(),
            reached: HashSet::new(),
            keeps_history: false,
            full_text: Arc::clone(facts.full_text),
            behind: BehindIndexes::default(),
            unknown: UnknownModule::default(),
        }
    }

    /// That, and what follows from it. The statement alone must have been compiled on `conn` before, under [`own`](Self::own).
    pub(crate) fn with_effects(
        conn: &Connection,
        facts: &Facts<'_>,
        task: &Task<'_>,
        changes: &Changes<'_>,
    ) -> Self {
        if !changes.triggers.is_empty() {
            facts.full_text.connect(conn);
        }
        let mut permitted = Self::own(facts, task, changes);
        permitted.triggers = changes.triggers.iter().cloned().collect();
        // Those of an earlier form keep none that is read. They are the operator's all the same, and no reason to refuse a change.
        permitted.keeps_history = facts.schema.has_trigger(history::is_of_history);
        for (_, table, _) in changes.writes {
            permitted.keys_of(table);
        }
        permitted
    }

    /// That, and what a trigger of ours reads of the rows that it is set off by. What it writes is not of the database.
    pub(crate) fn permit_trigger(&mut self, name: &str) {
        self.triggers.insert(fold(name));
    }

    pub(crate) fn unknown_module(&self) -> UnknownModule {
        self.unknown.clone()
    }

    pub(crate) fn admits(&mut self, context: &AuthContext<'_>) -> bool {
        // Temporary triggers bear what name they like.
        if context.accessor.is_none() && self.is_behind_index(context) {
            return true;
        }
        let in_trigger = context.accessor.is_some_and(|name| {
            self.triggers.contains(Dialect::Sqlite.fold(name).as_str())
                || (self.keeps_history && history::is_of_history(name))
        });
        let in_main = context.database_name == Some("main");
        match context.action {
            AuthAction::Select | AuthAction::Recursive => true,
            AuthAction::Read {
                table_name,
                column_name,
            } => {
                if in_trigger && in_main {
                    self.reach_virtual(&fold(table_name));
                }
                let pair = (fold(table_name), fold(column_name));
                (in_main || context.database_name.is_none())
                    && (in_trigger || self.reads.contains(&pair))
            }
            // Of those that reach outside, none works on a connection of ours.
            AuthAction::Function { function_name } => {
                in_trigger || self.functions.contains(fold(function_name).as_str())
            }
            AuthAction::Insert { table_name } => {
                in_main && self.changes(Change::Insert, table_name, "", in_trigger)
            }
            AuthAction::Delete { table_name } => {
                in_main && self.changes(Change::Delete, table_name, "", in_trigger)
            }
            AuthAction::Update {
                table_name,
                column_name,
            } => in_main && self.changes(Change::Update, table_name, column_name, in_trigger),
            // Everything else attaches, defines, or changes the connection; so may what a new version adds.
            _ => false,
        }
    }

    fn changes(&mut self, change: Change, table: &str, column: &str, in_trigger: bool) -> bool {
        let table = fold(table);
        if in_trigger {
            self.reach(&table);
            self.reach_virtual(&table);
            return true;
        }
        let mut column = fold(column);
        if column == "rowid"
            && let Some(relation) = self.catalog.find("main", &table)
            && let Some(alias) = relation.rowid_alias.and_then(|i| relation.column(i))
        {
            column = alias.key.to_string();
        }
        self.writes.contains(&(change, table, column))
    }

    /// Whether it is what an index that was reached does by itself.
    fn is_behind_index(&self, context: &AuthContext<'_>) -> bool {
        let in_main = context.database_name == Some("main");
        let is_shadow = |table: &str| in_main && self.behind.shadows.contains(&fold(table));
        match context.action {
            AuthAction::Read { table_name, .. } => {
                is_shadow(table_name)
                    || (in_main && self.behind.contents.contains(&fold(table_name)))
            }
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. } => is_shadow(table_name),
            AuthAction::Function { function_name } => {
                !self.behind.shadows.is_empty() && full_text::calls(&fold(function_name))
            }
            AuthAction::Pragma {
                pragma_name,
                pragma_value: None,
            } => in_main && self.behind.pragmas.contains(fold(pragma_name).as_str()),
            // What is not listed is none of it.
            _ => false,
        }
    }

    /// Lets an index work that a trigger reaches, if `table` is one. What another virtual table asks for is refused.
    fn reach_virtual(&mut self, table: &str) {
        let full_text = Arc::clone(&self.full_text);
        let Some(index) = full_text.find(table) else {
            let relation = self.catalog.find("main", table);
            let is_virtual = relation.is_some_and(|found| found.kind == RelationKind::Virtual);
            // A trigger may read the tables behind an index as it likes.
            if is_virtual && !full_text.has_shadow(table) {
                self.unknown.0.store(true, Ordering::Relaxed);
            }
            return;
        };
        for shadow in &index.shadows {
            if self.behind.shadows.insert(shadow.clone()) {
                self.reach(shadow);
            }
        }
        self.behind.contents.extend(index.content.clone());
        self.behind.pragmas.insert(index.pragma);
    }

    /// The columns that foreign keys from and to `table` compare.
    fn keys_of(&mut self, table: &str) {
        let catalog = Arc::clone(&self.catalog);
        for relation in catalog.relations() {
            let name = fold(&relation.name);
            for key in &relation.foreign_keys {
                let parent = fold(&key.table);
                if name != table && parent != table {
                    continue;
                }
                for (own, referenced) in key.columns.iter().zip(&key.references) {
                    self.reads.insert((name.clone(), fold(own)));
                    self.reads.insert((parent.clone(), fold(referenced)));
                }
            }
        }
    }

    /// What changes of `table` in the body of a trigger set off.
    fn reach(&mut self, table: &str) {
        if !self.reached.insert(table.to_owned()) {
            return;
        }
        self.keys_of(table);
        // What the statement's own text calls was looked at when triggers were switched off.
        self.functions.extend(self.own.functions_for([table], &[]));
        let catalog = Arc::clone(&self.catalog);
        if let Some(relation) = catalog.find("main", table) {
            let names = relation.triggers.iter().map(|t| fold(&t.function));
            self.triggers.extend(names);
        }
        for child in catalog.relations() {
            for key in &child.foreign_keys {
                let refuse = ReferenceAction::Refuse;
                let acts = key.on_delete != refuse || key.on_update != refuse;
                if fold(&key.table) != table || !acts {
                    continue;
                }
                let name = fold(&child.name);
                self.writes
                    .insert((Change::Delete, name.clone(), String::new()));
                let columns = key.columns.iter().map(|column| fold(column));
                self.writes
                    .extend(columns.map(|column| (Change::Update, name.clone(), column)));
                self.reach(&name);
            }
        }
    }
}

fn fold(name: &str) -> String {
    Dialect::Sqlite.fold(name)
}
