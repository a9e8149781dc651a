//! One statement under every lock the engine has.
//!
//! What the authorizer of the bundled SQLite reports, by experiment (`what_the_engine_reports` keeps
//! it true):
//!
//! * a column of a table, wherever it stands: (declared table, declared column); so also for `*`, and for
//!   generated columns, whose own sources are not reported;
//! * `rowid`, `oid`, `_rowid_`: the column they are another name of, else `ROWID`;
//! * a relation in FROM of which no column, or only the row id, is used: (name as written, ""), in
//!   database `main` if it was qualified, else in none. This goes for tables, table functions
//!   and common table expressions, never for the alias of a subquery;
//! * functions of defaults and stored columns of a table of which anything is read, inserted or updated: a call each, as they are spelled
//!   there (`implicit_calls.rs`);
//! * a view: every column its definition mentions, used or not, then (view, column) for the columns used
//!   of it;
//! * a table function: (function, column), hidden columns and `ROWID` too, and no call;
//! * LIKE, GLOB, MATCH, `->`, `->>`, CURRENT_… and aggregate and window functions: calls of `like`, `glob`,
//!   `match`, `->`, `->>`, `current_…` and so on, in lower case; CAST, COLLATE, CASE, `||`: nothing;
//! * **the columns of USING and NATURAL are compared without being reported at all**, in views too: a
//!   gap in this lock, closed only where what is joined are subqueries, whose columns are reported;
//! * the alias of a table is never reported, nor are the columns of common table expressions and
//!   subqueries; EXPLAIN is not reported at all.
//!
//! Beside it, the compiled statement says of each result column which table's it is: that is compared with the decision too.
//!
//! The accessor (the view on whose behalf something is read) can be forged by naming a common table
//! expression like a view, so it decides nothing.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{
        BackendError, BackendErrorKind, Cancel, Check, Checks, OpenTicket, ReadyText, RowSink,
    },
    limits::{Limits, SQLITE_PATTERN_BYTES, SQLITE_QUADRATIC},
    rewrite::{ANY_COLUMN, Effect},
    token::SQLITE_FUNCTION,
    value::Value,
};
use rusqlite::{
    Connection, ErrorCode, Statement,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    fault::{self, Stage},
    full_text::FullTextIndexes,
    implicit_calls::OwnFunctions,
    keyed::add_keyed_hash,
    reader::SchemaCheck,
    schema_snapshot::SchemaSnapshot,
    worker::Stop,
    write_turns::WriteTurns,
};

/// The least that one value may hold, in bytes, however small the cells that reach the caller:
/// values that an expression takes apart are larger than what it gives.
const MIN_VALUE_BYTES: usize = 1024 * 1024;

/// Bytes of one row, all cells together.
const MAX_ROW_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a statement's text. The firewall limits the caller's text; what it prints is longer.
const MAX_SQL_BYTES: i32 = 16 * 1024 * 1024;

/// The most that one value may hold, in bytes, while a function of [`SQLITE_QUADRATIC`] is used: less than
/// a second a call.
const QUADRATIC_VALUE_BYTES: usize = 64 * 1024;

/// Instructions in one compiled statement. The clock is looked at where a program loops, so that its length
/// bounds what runs between two looks.
const MAX_INSTRUCTIONS: i32 = 100_000;

/// What `sqlite3_stmt_isexplain` says of EXPLAIN QUERY PLAN.
const QUERY_PLAN: i32 = 2;

/// Virtual machine instructions between two looks at the clock.
const INSTRUCTIONS: i32 = 100;

/// How long what is no statement of a caller's waits for a lock.
const WAIT: Duration = Duration::from_secs(5);

/// The part of a statement that a database needs: the text, its values, and everything that it may touch.
pub(crate) struct Task<'a> {
    pub(crate) checks: Checks<'a>,
    pub(crate) params: &'a [Value],
    pub(crate) reads: &'a BTreeSet<(String, String)>,
    pub(crate) functions: &'a BTreeSet<String>,
    pub(crate) limits: &'a Limits,
    /// Whether it asks for a plan.
    pub(crate) is_explain: bool,
    /// Set when no caller waits for it any more,
    pub(crate) stop: Stop,
    /// or when its caller gave up.
    pub(crate) cancel: Cancel,
}

impl<'a> From<&'a OpenTicket> for Task<'a> {
    fn from(ticket: &'a OpenTicket) -> Self {
        let statement = ticket.statement();
        Self {
            checks: ticket.checks(),
            params: statement.params(),
            reads: statement.engine_reads(),
            functions: statement.engine_functions(),
            limits: statement.limits(),
            is_explain: statement.effect() == Effect::Explain,
            stop: Stop::default(),
            cancel: ticket.cancel().clone(),
        }
    }
}

/// What a statement runs on.
pub(crate) struct Facts<'a> {
    pub(crate) schema: &'a Arc<SchemaSnapshot>,
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) own: &'a Arc<OwnFunctions>,
    pub(crate) full_text: &'a Arc<FullTextIndexes>,
    pub(crate) turns: &'a Arc<WriteTurns>,
}

/// Runs `task` on `conn` in a read transaction of its own, if the schema is still the one of `facts`.
///
/// `conn` must be [`restrict`]ed. Afterwards it has neither a transaction nor an authorizer.
pub(crate) fn execute(
    conn: &mut Connection,
    check: &mut SchemaCheck,
    facts: &Facts<'_>,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    start_clock(conn, task).map_err(unavailable)?;
    let result = in_transaction(conn, check, facts, task, sink);
    result.and(reset(conn).map_err(unavailable))
}

/// From now on `task`'s time runs, for waiting and for working.
pub(crate) fn start_clock(conn: &mut Connection, task: &Task<'_>) -> rusqlite::Result<()> {
    // Before as well: a sink that panicked may have left a shared connection in the middle.
    reset(conn)?;
    let deadline = Deadline::from_now(task.limits.statement_timeout());
    let (stop, cancel) = (task.stop.clone(), task.cancel.clone());
    let gives_up = move || deadline.is_passed() || stop.is_set() || cancel.is_set();
    // The engine's own wait would end at the deadline alone, and hold the thread and the caller's place until then.
    let waits = gives_up.clone();
    conn.busy_handler(Some(move |attempt: i32| {
        if waits() {
            return false;
        }
        std::thread::sleep(wait_for_lock(attempt).min(deadline.left()));
        true
    }))?;
    conn.progress_handler(INSTRUCTIONS, Some(gives_up))
}

/// How long it takes until a lock is tried again that others hold: soon at first, and never so long that a caller who gave up is
/// noticed late.
fn wait_for_lock(attempt: i32) -> Duration {
    let millis = 1_u64 << attempt.clamp(0, 3);
    Duration::from_millis(millis)
}

/// Takes off what a statement put on.
pub(crate) fn reset(conn: &mut Connection) -> rusqlite::Result<()> {
    conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    conn.progress_handler(0, None::<fn() -> bool>)?;
    conn.busy_timeout(WAIT)?;
    if conn.is_autocommit() {
        Ok(())
    } else {
        conn.execute_batch("ROLLBACK")
    }
}

fn in_transaction(
    conn: &mut Connection,
    check: &mut SchemaCheck,
    facts: &Facts<'_>,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    conn.execute_batch("BEGIN").map_err(|e| engine(&e))?;
    check.check(conn, facts.schema)?;
    limit(conn, task, &HashSet::new()).map_err(unavailable)?;
    if task.functions.contains(SQLITE_FUNCTION) {
        add_keyed_hash(conn).map_err(unavailable)?;
    }
    answer(conn, facts, task, sink)
}

/// Checks that the schema is still the decided one.
pub(crate) fn check_schema(conn: &Connection, schema: &SchemaSnapshot) -> Result<(), BackendError> {
    if SchemaSnapshot::read(conn).map_err(|e| engine(&e))? == *schema {
        Ok(())
    } else {
        Err(BackendError::schema_changed("the schema changed"))
    }
}

/// Runs a query in a transaction that has begun.
pub(crate) fn answer(
    conn: &mut Connection,
    facts: &Facts<'_>,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let text = match task.checks.first_check() {
        // The engine tells none.
        Check::Estimate(check) => check.answer(&[])?,
        check @ (Check::Precheck(_) | Check::CascadeCount(_) | Check::Ready(_)) => check,
    }
    .ready()?;
    let own = own_functions(facts, task, text.sql(), []);
    with_authorizer(conn, permitted_accesses(task, own), |conn, denied| {
        run(conn, task, text, sink, denied)
    })
}

/// Runs a query that is permitted.
fn run(
    conn: &Connection,
    task: &Task<'_>,
    text: ReadyText<'_>,
    sink: &mut (dyn RowSink + Send),
    denied: &Denied,
) -> Result<(), BackendError> {
    let mut statement = prepare(conn, text.sql())?;
    if denied.first().is_some() {
        return Ok(());
    }
    check_query(&statement, task)?;
    bind(&mut statement, task.params)?;
    feed(&mut statement, sink).map(|_| ())
}

/// Checks that a compiled statement is a query, or asks for a plan where that was decided, and where its columns come
/// from.
pub(crate) fn check_query(statement: &Statement<'_>, task: &Task<'_>) -> Result<(), BackendError> {
    // EXPLAIN passes the authorizer and is read-only, and shows what the planner knows; the form with instructions
    // is never asked for.
    let explains = if task.is_explain { QUERY_PLAN } else { 0 };
    if !statement.readonly() || statement.is_explain() != explains || statement.column_count() == 0
    {
        return Err(second_lock("the statement is not a query".to_owned()));
    }
    check_origins(statement, task)
}

/// Checks that what the engine says of where each result column comes from was decided: a second opinion on what the
/// authorizer was asked, by other code of the engine's.
///
/// One way only: expressions, UNION and aggregates come from nowhere. Of a view's column the engine names the table.
pub(crate) fn check_origins(
    statement: &Statement<'_>,
    task: &Task<'_>,
) -> Result<(), BackendError> {
    for column in statement.columns_with_metadata() {
        // A recursive common table expression is in no database.
        let (Some(database), Some(table), Some(origin)) = (
            column.database_name(),
            column.table_name(),
            column.origin_name(),
        ) else {
            continue;
        };
        let pair = (Dialect::Sqlite.fold(table), Dialect::Sqlite.fold(origin));
        if database != "main" || !task.reads.contains(&pair) {
            return Err(second_lock(format!(
                "column `{}` comes from `{table}.{origin}`, which was not decided",
                column.name()
            )));
        }
    }
    Ok(())
}

/// Runs a statement and feeds its rows to `sink`; whether the sink took them all.
pub(crate) fn feed(
    statement: &mut Statement<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<ControlFlow<()>, BackendError> {
    let count = {
        let names = statement.column_names();
        let names: Vec<&str> = names.collect();
        if sink.columns(&names).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        names.len()
    };
    let stage = match statement.readonly() {
        true => Stage::Reading,
        false => Stage::Changing,
    };
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|e| engine_at(&e, stage))? {
        let mut cells = Vec::with_capacity(count);
        let mut bytes = 0_usize;
        for index in 0..count {
            let cell = row.get_ref(index).map_err(|e| engine(&e))?;
            bytes = bytes.saturating_add(match cell {
                ValueRef::Text(cell) | ValueRef::Blob(cell) => cell.len(),
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            });
            if bytes > MAX_ROW_BYTES {
                return Err(BackendError::new(
                    BackendErrorKind::Resource,
                    "a row is too large",
                ));
            }
            cells.push(value(cell));
        }
        match sink.row(cells) {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
        }
    }
    Ok(ControlFlow::Continue(()))
}

pub(crate) fn bind(statement: &mut Statement<'_>, params: &[Value]) -> Result<(), BackendError> {
    if statement.parameter_count() != params.len() {
        return Err(second_lock(format!(
            "the statement has {} parameters and {} are bound",
            statement.parameter_count(),
            params.len()
        )));
    }
    for (number, value) in (1_usize..).zip(params) {
        let value = ToSqlOutput::Borrowed(match value {
            Value::Null => ValueRef::Null,
            Value::Bool(b) => ValueRef::Integer(i64::from(*b)),
            Value::Integer(n) => ValueRef::Integer(*n),
            Value::Real(n) => ValueRef::Real(*n),
            Value::Text(text) => ValueRef::Text(text),
            Value::Blob(blob) => ValueRef::Blob(blob),
        });
        statement
            .raw_bind_parameter(number, value)
            .map_err(|e| engine(&e))?;
    }
    Ok(())
}

pub(crate) fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => Value::Integer(n),
        ValueRef::Real(n) => Value::Real(n),
        ValueRef::Text(text) => Value::Text(text.to_vec()),
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
    }
}

/// Switches off whatever a query does not need.
pub(crate) fn restrict(conn: &Connection) -> rusqlite::Result<()> {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
        // Functions that views and generated columns call must be harmless by the engine's own marks.
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        // A misspelt "column" is an error, not a string.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
        // What is printed has no comments, so that two minus signs which meet are an error.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_COMMENTS, false),
    ] {
        // The answer is the new state; one that cannot be set would leave a lock open.
        if conn.set_db_config(config, on)? != on {
            return Err(rusqlite::Error::InvalidParameterName(format!("{config:?}")));
        }
    }
    conn.execute_batch("PRAGMA query_only=ON; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON;")
}

/// The limits that [`limit`] lowers.
pub(crate) const LIMITS: [Limit; 9] = [
    Limit::SQLITE_LIMIT_LENGTH,
    Limit::SQLITE_LIMIT_SQL_LENGTH,
    Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH,
    Limit::SQLITE_LIMIT_EXPR_DEPTH,
    Limit::SQLITE_LIMIT_COMPOUND_SELECT,
    Limit::SQLITE_LIMIT_VDBE_OP,
    Limit::SQLITE_LIMIT_ATTACHED,
    Limit::SQLITE_LIMIT_TRIGGER_DEPTH,
    Limit::SQLITE_LIMIT_WORKER_THREADS,
];

/// Lowers the engine's limits. After the schema is parsed, since they hold for its texts too. `own` are functions that
/// changed tables call.
pub(crate) fn limit(
    conn: &Connection,
    task: &Task<'_>,
    own: &HashSet<String>,
) -> rusqlite::Result<()> {
    let calls = |name: &&str| task.functions.contains(*name) || own.contains(*name);
    let value_bytes = if SQLITE_QUADRATIC.iter().any(calls) {
        QUADRATIC_VALUE_BYTES
    } else {
        task.limits.max_cell_bytes.max(MIN_VALUE_BYTES)
    };
    let values = [
        i32::try_from(value_bytes).unwrap_or(i32::MAX),
        MAX_SQL_BYTES,
        i32::from(SQLITE_PATTERN_BYTES),
        1000,
        500,
        MAX_INSTRUCTIONS,
        0,
        1,
        0,
    ];
    for (limit, value) in LIMITS.into_iter().zip(values) {
        conn.set_limit(limit, value)?;
    }
    Ok(())
}

/// What the authorizer denied first, shared with it.
#[derive(Clone, Default)]
pub(crate) struct Denied(Arc<Mutex<Option<String>>>);

impl Denied {
    fn note(&self, action: &AuthAction<'_>) {
        self.lock().get_or_insert_with(|| format!("{action:?}"));
    }

    /// The first denial.
    pub(crate) fn first(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `work` while the authorizer refuses what `admits` does not admit. A denial comes before every other error:
/// some reach us as ordinary errors, and a denial that the engine swallowed counts.
pub(crate) fn with_authorizer<T>(
    conn: &mut Connection,
    mut admits: impl FnMut(&AuthContext<'_>) -> bool + Send + 'static,
    work: impl FnOnce(&Connection, &Denied) -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let denied = Denied::default();
    let log = denied.clone();
    conn.authorizer(Some(move |context: AuthContext<'_>| {
        if admits(&context) {
            Authorization::Allow
        } else {
            log.note(&context.action);
            Authorization::Deny
        }
    }))
    .map_err(unavailable)?;
    let result = work(conn, &denied);
    conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
        .map_err(unavailable)?;
    match denied.first() {
        Some(detail) => Err(second_lock(detail)),
        None => result,
    }
}

/// The functions that the tables of `task`, and those in `changed`, call by themselves where it runs `sql`: none that the
/// text calls, nor that of a view which it reads.
pub(crate) fn own_functions<'a>(
    facts: &Facts<'_>,
    task: &Task<'a>,
    sql: &str,
    changed: impl IntoIterator<Item = &'a str>,
) -> HashSet<String> {
    let read: BTreeSet<&str> = task.reads.iter().map(|(table, _)| table.as_str()).collect();
    let views = read
        .iter()
        .filter_map(|name| facts.catalog.find("main", name)?.definition.as_deref());
    let texts: Vec<&str> = std::iter::once(sql).chain(views).collect();
    facts
        .own
        .functions_for(read.iter().copied().chain(changed), &texts)
}

/// Admits what is listed in `task`, and functions that its tables call.
pub(crate) fn permitted_accesses(
    task: &Task<'_>,
    own: HashSet<String>,
) -> impl FnMut(&AuthContext<'_>) -> bool + Send + use<> {
    let reads: HashSet<(String, String)> = task.reads.iter().cloned().collect();
    let mut functions = own;
    functions.extend(task.functions.iter().cloned());
    move |context| permits(context, &reads, &functions)
}

fn permits(
    context: &AuthContext<'_>,
    reads: &HashSet<(String, String)>,
    functions: &HashSet<String>,
) -> bool {
    let fold = |name: &str| Dialect::Sqlite.fold(name);
    match context.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read {
            table_name,
            column_name,
        } => {
            let table = fold(table_name);
            matches!(context.database_name, None | Some("main"))
                && (reads.contains(&(table.clone(), fold(column_name)))
                    || reads.contains(&(table, ANY_COLUMN.to_owned())))
        }
        AuthAction::Function { function_name } => functions.contains(fold(function_name).as_str()),
        // Everything else writes, attaches, or changes the connection; so may what a new version adds.
        _ => false,
    }
}

/// A point in time after which a statement is interrupted.
#[derive(Clone, Copy)]
struct Deadline {
    start: Instant,
    time: Duration,
}

impl Deadline {
    fn from_now(time: Duration) -> Self {
        Self {
            start: Instant::now(),
            time,
        }
    }

    fn is_passed(self) -> bool {
        self.start.elapsed() >= self.time
    }

    fn left(self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }
}

pub(crate) fn second_lock(detail: String) -> BackendError {
    BackendError::second_lock(detail)
}

pub(crate) fn unavailable(error: rusqlite::Error) -> BackendError {
    BackendError::unavailable(error.to_string())
}

/// The kind of an error of the engine, while it runs what reads.
pub(crate) fn engine(error: &rusqlite::Error) -> BackendError {
    engine_at(error, Stage::Reading)
}

/// Has the engine compile a statement. What it finds wrong follows from the text and the schema alone.
pub(crate) fn prepare<'c>(conn: &'c Connection, sql: &str) -> Result<Statement<'c>, BackendError> {
    conn.prepare(sql)
        .map_err(|e| engine_at(&e, Stage::Preparing))
}

fn engine_at(error: &rusqlite::Error, stage: Stage) -> BackendError {
    use BackendErrorKind as Kind;
    let kind = match (error, error.sqlite_error_code()) {
        (rusqlite::Error::MultipleStatement, _) => Kind::SecondLock,
        (_, None) => Kind::Rejected,
        (_, Some(code)) => match code {
            ErrorCode::OperationInterrupted => Kind::Timeout,
            ErrorCode::TooBig | ErrorCode::OutOfMemory | ErrorCode::DiskFull => Kind::Resource,
            ErrorCode::AuthorizationForStatementDenied => Kind::SecondLock,
            ErrorCode::ConstraintViolation => Kind::Constraint,
            // The plain code is a write to a read-only database; the extended ones are a database
            // that cannot even be read as it is (a hot journal, a write-ahead log without its index).
            ErrorCode::ReadOnly => match error.sqlite_extended_error_code() {
                Some(rusqlite::ffi::SQLITE_READONLY) => Kind::SecondLock,
                Some(_) | None => Kind::Unavailable,
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Kind::Locked,
            ErrorCode::CannotOpen
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::SystemIoFailure
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SchemaChanged
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::InternalMalfunction => Kind::Unavailable,
            ErrorCode::OperationAborted
            | ErrorCode::NotFound
            | ErrorCode::TypeMismatch
            | ErrorCode::ApiMisuse
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::Unknown => Kind::Rejected,
            // Foreign and open-ended.
            _ => Kind::Rejected,
        },
    };
    let failure = BackendError::new(kind, error.to_string());
    let failure = failure.of_constraint(fault::read_violated(error));
    match fault::read(error, stage) {
        Some(fault) if kind == Kind::Rejected => failure.with_fault(fault),
        Some(_) | None => failure,
    }
}
