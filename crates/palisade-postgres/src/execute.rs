//! One query under every lock the engine has; `write` has the other statements.
//!
//! What each lock stops, and what it lets through, so that none is taken for more than it is (PostgreSQL 15 and
//! 18; `tests.rs` shows it):
//!
//! * the extended protocol takes one statement; the simple one, which takes many, gets only texts of our own;
//! * `DECLARE … CURSOR FOR` takes a query and nothing else by the server's own grammar: no DML, not even in
//!   WITH, no DDL, COPY, EXPLAIN, SHOW, SET, CALL, COMMIT;
//! * `READ ONLY` stops what functions write to tables, sequences and large objects, and locks on rows. It does
//!   **not** stop signals to other sessions, NOTIFY, advisory locks, files of the server, or what a function does
//!   through dblink: for these there is the function registry, and an account without privileges;
//! * the origin of each result column must be one that was decided; expressions have none;
//! * time-outs of the server's, which the statement itself can lift with `set_config`: hence a clock of our own;
//! * `ROLLBACK` always, and a cleaning after it, since session-level advisory locks outlive it.

use std::{collections::BTreeSet, future::poll_fn, ops::ControlFlow, pin::pin, time::Duration};

use futures_core::Stream as _;
use palisade::{
    guard::{BackendError, Estimate, RowSink},
    limits::{EstimateCaps, Limits},
    rewrite::RewrittenStatement,
    session::Principal,
    value::Value,
};
use tokio_postgres::{
    Client, SimpleQueryMessage, SimpleQueryRow, Statement,
    types::{ToSql, Type},
};

use crate::{
    cells::Reading,
    config::SettingName,
    connect::Session,
    estimate, fault, params,
    schema::{Look, Origin, Schema, is_system},
    settings,
    write::Work,
};

/// Rows of the first batch, before their size is known.
const FIRST_BATCH: u32 = 64;

/// The most rows that are asked for at a time.
const MAX_BATCH: u32 = 5000;

/// Bytes that a batch should have: what is still on its way when the sink has enough is read and thrown away.
const BATCH_BYTES: usize = 1024 * 1024;

/// The longest wait for a lock. Queries wait only for what needs a table to itself.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// What to run and what it may touch: the part of a [`RewrittenStatement`] that a database needs.
pub(crate) struct Task<'a> {
    pub(crate) sql: &'a str,
    pub(crate) params: &'a [Value],
    pub(crate) reads: &'a BTreeSet<(String, String)>,
    pub(crate) relations: &'a [String],
    pub(crate) functions: &'a BTreeSet<String>,
    pub(crate) limits: &'a Limits,
    pub(crate) caps: Option<EstimateCaps>,
    /// The statement, if policies are to be asked once more with what the server expects of it.
    pub(crate) awaiting: Option<&'a RewrittenStatement>,
    pub(crate) principal: &'a Principal,
    pub(crate) work: Work<'a>,
}

impl Task<'_> {
    /// Whether it is to be known what the server expects.
    pub(crate) fn is_estimated(&self) -> bool {
        self.caps.is_some() || self.awaiting.is_some()
    }

    /// Refuses what is more than the caps, or what policies forbid then.
    pub(crate) fn admit(&self, estimate: Estimate) -> Result<(), BackendError> {
        if let Some(caps) = self.caps {
            BackendError::unless_within(caps, estimate)?;
        }
        match self.awaiting {
            Some(statement) => BackendError::unless_admitted(statement, estimate),
            None => Ok(()),
        }
    }
}

impl<'a> From<&'a RewrittenStatement> for Task<'a> {
    fn from(statement: &'a RewrittenStatement) -> Self {
        Self {
            sql: statement.sql(),
            params: statement.params(),
            reads: statement.engine_reads(),
            relations: statement.relations(),
            functions: statement.engine_functions(),
            limits: statement.limits(),
            caps: statement.estimate_caps(),
            awaiting: statement.awaits_estimate().then_some(statement),
            principal: statement.principal(),
            work: Work::of(statement),
        }
    }
}

/// A statement that the server understood; nothing has run yet.
pub(crate) struct Opened {
    pub(crate) statement: Statement,
    pub(crate) look: Look,
}

/// Begins a transaction and prepares the statement in it, in one round trip.
pub(crate) async fn open(
    session: &Session,
    opening: &str,
    handed: Option<&SettingName>,
    task: &Task<'_>,
) -> Result<Opened, BackendError> {
    let client = &session.client;
    let ((), (), look, statement) = tokio::try_join!(
        biased;
        async { client.batch_execute(opening).await.map_err(|e| fault::engine(&e)) },
        async {
            match handed {
                Some(name) => hand(client, name, task).await,
                None => Ok(()),
            }
        },
        async {
            match session.look.get() {
                Some(look) => Ok(look.clone()),
                None => Look::prepare(client).await,
            }
        },
        async { client.prepare(task.sql).await.map_err(|e| fault::prepare(&e)) },
    )?;
    // Another cannot have come first: a session has one statement at a time.
    let _ = session.look.set(look.clone());
    Ok(Opened { statement, look })
}

/// The id of the function that changes settings.
const SET_CONFIG: &str = "pg_catalog.set_config";

/// Tells the server for whom the statement is. Who could change that would be somebody else to the server's policies.
async fn hand(client: &Client, name: &SettingName, task: &Task<'_>) -> Result<(), BackendError> {
    if task.functions.contains(SET_CONFIG) {
        return Err(BackendError::second_lock(
            "the statement may change for whom the server takes it",
        ));
    }
    let principal = task.principal.to_string();
    let sql = "SELECT pg_catalog.set_config($1, $2, true)";
    let bound: [(&(dyn ToSql + Sync), Type); 2] =
        [(&name.as_str(), Type::TEXT), (&principal, Type::TEXT)];
    client
        .query_typed(sql, &bound)
        .await
        .map(drop)
        .map_err(|e| fault::engine(&e))
}

/// Runs what was opened and feeds its rows to `sink`. The transaction stays open.
pub(crate) async fn answer(
    client: &Client,
    schema: &Schema,
    opened: Opened,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let Opened { statement, look } = &opened;
    check_origins(client, schema, &opened, task).await?;
    let bound = params::bind(statement.params(), task.params)?;
    let bound = params::typed(&bound);
    if task.is_estimated() {
        let estimate = estimate::of(client, task.sql, &bound).await?;
        // Planning has locked the relations: an estimate of another one is none of this.
        schema
            .verify(client, look, task.relations, task.functions)
            .await?;
        task.admit(estimate)?;
    }
    let declare = format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {}", task.sql);
    // In this order: declaring locks the relations, and then they are looked at.
    tokio::try_join!(
        biased;
        async {
            client.execute_typed(&declare, &bound).await.map_err(|e| fault::cursor(&e))
        },
        schema.verify(client, look, task.relations, task.functions),
    )?;
    let names: Vec<&str> = statement.columns().iter().map(|c| c.name()).collect();
    if sink.columns(&names).is_break() {
        return Ok(());
    }
    let readings: Vec<Reading> = statement
        .columns()
        .iter()
        .map(|c| Reading::of(c.type_()))
        .collect();
    fetch(client, &readings, sink).await
}

/// Has the server keep the plan for looking at the schema: it would make one for the relations of each statement, which
/// takes longer than all else that it does for a small one. What a cursor declares, it plans anew all the same.
const PLAN_ONCE: &str = "SET LOCAL plan_cache_mode = force_generic_plan";

/// Before the statement runs: the functions that it calls are planned as ever.
const PLAN_AS_EVER: &str = "SET LOCAL plan_cache_mode TO DEFAULT";

/// The name of the only cursor of a transaction.
const CURSOR: &str = "palisade_answer";

async fn fetch(
    client: &Client,
    readings: &[Reading],
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let mut wanted = FIRST_BATCH;
    let mut before = format!("{PLAN_AS_EVER}; ");
    loop {
        let (mut rows, mut bytes) = (0_u32, 0_usize);
        let sql = format!("{before}FETCH FORWARD {wanted} FROM {CURSOR}");
        before.clear();
        let mut stream = pin!(
            client
                .simple_query_raw(&sql)
                .await
                .map_err(|e| fault::engine(&e))?
        );
        while let Some(message) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            match message.map_err(|e| fault::engine(&e))? {
                SimpleQueryMessage::Row(row) => {
                    rows = rows.saturating_add(1);
                    let (cells, size) = cells(&row, readings)?;
                    bytes = bytes.saturating_add(size);
                    match sink.row(cells) {
                        ControlFlow::Continue(()) => {}
                        ControlFlow::Break(()) => return Ok(()),
                    }
                }
                SimpleQueryMessage::RowDescription(_) | SimpleQueryMessage::CommandComplete(_) => {}
                // Foreign and open-ended.
                _ => {
                    return Err(BackendError::unavailable(
                        "the server sent an unknown message",
                    ));
                }
            }
        }
        if rows < wanted {
            return Ok(());
        }
        wanted = next_batch(rows, bytes);
    }
}

/// How many rows to ask for, when `rows` rows had `bytes` bytes.
fn next_batch(rows: u32, bytes: usize) -> u32 {
    let each = bytes / usize::try_from(rows.max(1)).unwrap_or(1);
    let fitting = BATCH_BYTES.checked_div(each).unwrap_or(usize::MAX);
    u32::try_from(fitting)
        .unwrap_or(u32::MAX)
        .clamp(1, MAX_BATCH)
}

/// The cells of a row and their bytes.
fn cells(row: &SimpleQueryRow, readings: &[Reading]) -> Result<(Vec<Value>, usize), BackendError> {
    if row.len() != readings.len() {
        return Err(BackendError::second_lock(
            "a row has other columns than were described",
        ));
    }
    let mut cells = Vec::with_capacity(readings.len());
    let mut bytes = 0_usize;
    for (index, reading) in readings.iter().enumerate() {
        let text = row.try_get(index).map_err(|e| fault::engine(&e))?;
        bytes = bytes.saturating_add(text.map_or(8, str::len));
        cells.push(reading.value(text)?);
    }
    Ok((cells, bytes))
}

/// Checks that what the server says of where each result column comes from was decided.
pub(crate) async fn check_origins(
    client: &Client,
    schema: &Schema,
    opened: &Opened,
    task: &Task<'_>,
) -> Result<(), BackendError> {
    let Opened { statement, look } = opened;
    let Err(error) = origins(statement, schema, task) else {
        return Ok(());
    };
    // What looks like an escape is none if a relation has become another meanwhile.
    schema
        .verify(client, look, task.relations, task.functions)
        .await?;
    Err(error)
}

/// One way only: expressions, UNION and aggregates come from nowhere.
fn origins(statement: &Statement, schema: &Schema, task: &Task<'_>) -> Result<(), BackendError> {
    for column in statement.columns() {
        let Some(oid) = column.table_oid() else {
            continue;
        };
        let Some(origin) = schema.origin(oid) else {
            // The server's own relations, where one was decided.
            if oid < FIRST_OWN_OID && task.relations.iter().any(|uid| is_system(uid)) {
                continue;
            }
            return Err(BackendError::second_lock(format!(
                "column `{}` comes from relation {oid}, which the catalog has not",
                column.name()
            )));
        };
        let numbers: Vec<i16> = match column.column_id() {
            Some(number) => vec![number],
            // A whole row.
            None => origin.columns.keys().copied().collect(),
        };
        for number in numbers {
            if !is_decided(origin, number, task) {
                return Err(BackendError::second_lock(format!(
                    "column `{}` comes from column {number} of `{}`, which was not decided",
                    column.name(),
                    origin.uid
                )));
            }
        }
    }
    Ok(())
}

fn is_decided(origin: &Origin, number: i16, task: &Task<'_>) -> bool {
    let column = match SYSTEM_COLUMNS.iter().find(|(n, _)| *n == number) {
        Some((_, name)) => *name,
        None => match origin.columns.get(&number) {
            Some(column) => column,
            None => return false,
        },
    };
    task.relations.contains(&origin.uid)
        && task
            .reads
            .contains(&(origin.name.clone(), column.to_owned()))
}

/// `FirstNormalObjectId`: oids below it are those of the server's own objects.
const FIRST_OWN_OID: u32 = 16_384;

/// Numbers of the columns that every table has (`access/sysattr.h`).
const SYSTEM_COLUMNS: [(i16, &str); 6] = [
    (-1, "ctid"),
    (-2, "xmin"),
    (-3, "cmin"),
    (-4, "xmax"),
    (-5, "cmax"),
    (-6, "tableoid"),
];

/// What the server is capable of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// `server_version_num`.
    pub(crate) version: i32,
    /// Whether it can look after its clients while it works: not on every system.
    pub(crate) checks_connection: bool,
}

/// The simple query that begins a transaction for a statement: constants and numbers of our own.
pub(crate) fn opening(
    search_path: &[String],
    limits: &Limits,
    features: Features,
    work: Work<'_>,
) -> String {
    let time = limits.statement_timeout();
    // 0 would mean for ever.
    let ms = |time: Duration| time.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let (whole, lock) = (ms(time), ms(time.min(LOCK_TIMEOUT)));
    let mut sql = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED {}; {}; \
         SET LOCAL statement_timeout = {whole}; SET LOCAL lock_timeout = {lock}; \
         SET LOCAL idle_in_transaction_session_timeout = {whole}",
        work.access_mode(),
        settings::set_local(search_path)
    );
    if !work.changes() {
        sql.push_str("; ");
        sql.push_str(PLAN_ONCE);
    }
    if features.checks_connection {
        sql.push_str("; SET LOCAL client_connection_check_interval = 1000");
    }
    if features.version >= TRANSACTION_TIMEOUT_SINCE {
        // The session ends with it, so that our own clock gets its chance first.
        sql.push_str(&format!(
            "; SET LOCAL transaction_timeout = {}",
            ms(time.saturating_add(Duration::from_secs(1)))
        ));
    }
    sql
}

/// The first version with `transaction_timeout`.
const TRANSACTION_TIMEOUT_SINCE: i32 = 17_00_00;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_fit() {
        for (rows, bytes, expected) in [
            (64, 0, MAX_BATCH),
            (64, 64 * 1000, 1048),
            (64, 64 * BATCH_BYTES, 1),
            (0, 0, MAX_BATCH),
        ] {
            assert_eq!(next_batch(rows, bytes), expected);
        }
    }

    #[test]
    fn no_time_is_not_for_ever() {
        let limits = Limits {
            statement_timeout_ms: 0,
            ..Limits::default()
        };
        let features = Features {
            version: 17_00_00,
            checks_connection: true,
        };
        let sql = opening(&[], &limits, features, Work::Read);
        assert!(!sql.contains("_timeout = 0"), "{sql}");
        assert!(sql.contains("SET LOCAL statement_timeout = 1;"), "{sql}");
        assert!(
            sql.contains("SET LOCAL transaction_timeout = 1000"),
            "{sql}"
        );
    }
}
