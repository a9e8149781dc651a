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
//! * the origin of each result column must be a decided column; expressions have no origin;
//! * time-outs of the server's, which the statement itself can lift with `set_config`: hence a clock of our own;
//! * `ROLLBACK` always, and a cleaning after it, since session-level advisory locks outlive it.

use std::{future::poll_fn, ops::ControlFlow, pin::pin};

use futures_core::Stream as _;
use palisade::{
    guard::{BackendError, Check, ColumnTypes, ReadyText, RowSink},
    value::Value,
};
use palisade_pool::{Task, Work};
use tokio_postgres::{
    Client, SimpleQueryMessage, SimpleQueryRow, SimpleQueryStream, Statement,
    types::{ToSql, Type},
};

use crate::{
    cells::Reading,
    config::SettingName,
    connect::{Cleaning, Session},
    estimate, fault, params,
    schema_change::{Look, Origin, Passage, Schema, Trust, is_system},
    settings::{self, Features, Own},
    types, write,
};

/// Rows of the first batch, before their size is known: with those of an answer of usual size the session is cleaned at once. The
/// server works a batch out as a whole before it sends any of it.
const FIRST_BATCH: u32 = 128;

/// The most rows that are asked for at a time.
const MAX_BATCH: u32 = 5000;

/// Bytes that a batch should have: what is still on its way when the sink has enough is read and thrown away.
const BATCH_BYTES: usize = 1024 * 1024;

/// A statement that the server understood.
pub(crate) struct Opened {
    pub(crate) statement: Statement,
    pub(crate) look: Look,
    /// Of a query that ran at once: what comes of it.
    pub(crate) coming: Option<Coming>,
}

/// The first rows of a query, which the server was asked for behind its cursor and a look at the schema.
pub(crate) struct Coming {
    rows: SimpleQueryStream,
    /// The answer to the cleaning that was sent behind the last rows.
    cleaned: Option<SimpleQueryStream>,
}

impl Coming {
    /// Why the server stopped giving rows, if it did.
    async fn failure(self) -> Option<tokio_postgres::Error> {
        let Self { rows, cleaned: _ } = self;
        let mut rows = pin!(rows);
        while let Some(message) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
            if let Err(error) = message {
                return Some(error);
            }
        }
        None
    }
}

/// What a session keeps prepared: planning it takes longer than running it.
#[derive(Clone)]
pub(crate) struct Kept {
    look: Look,
    pins: Statement,
}

/// How transactions begin, and with what they are compared.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) features: Features,
    pub(crate) search_path: &'a [String],
    pub(crate) schema: &'a Schema,
    pub(crate) handed: Option<&'a SettingName>,
}

/// Begins a transaction and prepares the statement in it, in one round trip. Where nothing has to be known of a query
/// before, it runs in the same trip: the server gives no row if its schema is another than was read.
pub(crate) async fn open(
    session: &Session,
    ground: Ground<'_>,
    task: &Task<'_>,
    cleaning: &str,
) -> Result<Opened, BackendError> {
    if let Some(opened) = try_open(session, ground, task, cleaning, Trust::LastLook).await? {
        return Ok(opened);
    }
    // Nothing has run.
    let cleaned = session.client.batch_execute(cleaning).await;
    cleaned.map_err(|e| fault::engine(&e))?;
    let opened = try_open(session, ground, task, cleaning, Trust::Nothing).await?;
    opened.ok_or_else(|| BackendError::second_lock("a look at all marks is out of date"))
}

/// As [`open`]; nothing if the look at the schema was out of date.
async fn try_open(
    session: &Session,
    ground: Ground<'_>,
    task: &Task<'_>,
    cleaning: &str,
    trust: Trust,
) -> Result<Option<Opened>, BackendError> {
    let client = &session.client;
    let begin = begin(task);
    let own = Own::new(ground.search_path, task.limits);
    let own = own.values(ground.features);
    let kept = session.kept.get();
    let early = match task.work {
        Work::Read if task.params.is_empty() && !task.checks.want_estimate() => kept,
        Work::Read | Work::Explain | Work::Change(_) | Work::Define => None,
    };
    // The server takes them in this order, and all are waited for: what follows a failure fails of it.
    let (begun, pinned, handed, kept, statement, coming) = tokio::join!(
        biased;
        async { client.batch_execute(&begin).await.map_err(|e| fault::engine(&e)) },
        pin(client, kept, ground.features, own),
        async {
            match ground.handed {
                Some(name) => hand(client, name, task).await,
                None => Ok(()),
            }
        },
        async {
            match kept {
                Some(kept) => Ok(kept.clone()),
                None => Kept::prepare(client, ground.features).await,
            }
        },
        client.prepare(task.checks.plan_text().to_prepare()),
        async {
            match early {
                Some(kept) => {
                    let text = task.checks.first_check().ready()?;
                    begin_run((client, &kept.look), (ground.schema, trust), task, text, cleaning)
                        .await
                        .map(Some)
                }
                None => Ok(None),
            }
        },
    );
    begun?;
    pinned?;
    handed?;
    let kept = kept?;
    // Another cannot have come first: a session has one statement at a time.
    let _ = session.kept.set(kept.clone());
    let statement = match statement {
        Ok(statement) => statement,
        // The driver asks for types that it does not know once the statement is prepared, behind what runs at once.
        Err(error) if fault::is_of_aborted(&error) => {
            return match coming? {
                Some((Passage::Stale, _)) => Ok(None),
                Some((Passage::Open, coming)) => Err(coming.failure().await.unwrap_or(error)),
                None => Err(error),
            }
            .map_err(|e| fault::engine(&e));
        }
        Err(error) => return Err(fault::prepare(&error)),
    };
    let coming = match coming? {
        Some((Passage::Open, coming)) => Some(coming),
        Some((Passage::Stale, _)) => return Ok(None),
        None => None,
    };
    Ok(Some(Opened {
        statement,
        look: kept.look,
        coming,
    }))
}

/// Begins a transaction by `begin`, which is ours, with all that is pinned; no statement is opened yet.
pub(crate) async fn enter(
    session: &Session,
    ground: Ground<'_>,
    task: &Task<'_>,
    begin: &str,
) -> Result<Look, BackendError> {
    let client = &session.client;
    let own = Own::new(ground.search_path, task.limits);
    client
        .batch_execute(begin)
        .await
        .map_err(|e| fault::engine(&e))?;
    let kept = session.kept.get();
    pin(client, kept, ground.features, own.values(ground.features)).await?;
    if let Some(name) = ground.handed {
        hand(client, name, task).await?;
    }
    let kept = match kept {
        Some(kept) => kept.clone(),
        None => Kept::prepare(client, ground.features).await?,
    };
    let _ = session.kept.set(kept.clone());
    Ok(kept.look)
}

impl Kept {
    /// Prepares it, under the settings of statements.
    async fn prepare(client: &Client, features: Features) -> Result<Self, BackendError> {
        let pins = settings::pins(features);
        let (look, pins) = tokio::join!(biased; Look::prepare(client), client.prepare(&pins));
        Ok(Self {
            look: look?,
            pins: pins.map_err(|e| fault::engine(&e))?,
        })
    }
}

/// Sets everything that is pinned, for the transaction.
async fn pin(
    client: &Client,
    kept: Option<&Kept>,
    features: Features,
    own: &[String],
) -> Result<(), BackendError> {
    let set = match kept {
        Some(kept) => {
            let values: Vec<&(dyn ToSql + Sync)> = own.iter().map(|v| v as _).collect();
            client.execute(&kept.pins, &values).await.map(drop)
        }
        None => {
            let values: Vec<_> = own.iter().map(|v| (v as _, Type::TEXT)).collect();
            let sql = settings::pins(features);
            client.query_typed(&sql, &values).await.map(drop)
        }
    };
    set.map_err(|e| fault::engine(&e))
}

/// Has the server make a cursor of the statement, and looks at the schema then: declaring it locks the relations.
async fn declare(
    (client, look): (&Client, &Look),
    schema: &Schema,
    task: &Task<'_>,
    text: ReadyText<'_>,
    bound: &[(&(dyn ToSql + Sync), Type)],
) -> Result<(), BackendError> {
    let sql = declaring(text);
    let (declared, verified) = tokio::join!(
        biased;
        client.execute_typed(&sql, bound),
        schema.verify(client, look, task.relations, task.functions),
    );
    declared.map_err(|e| fault::cursor(&e))?;
    verified
}

fn declaring(text: ReadyText<'_>) -> String {
    format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {}", text.sql())
}

/// Has the server make a cursor of the statement, look at the schema and give the first rows, all at once. Rows are read once the
/// look is answered, and if it fails there are none.
async fn begin_run(
    (client, look): (&Client, &Look),
    (schema, trust): (&Schema, Trust),
    task: &Task<'_>,
    text: ReadyText<'_>,
    cleaning: &str,
) -> Result<(Passage, Coming), BackendError> {
    let sql = declaring(text);
    let first = Wanted::first(most_rows(task));
    let (declared, passage, asked) = tokio::join!(
        biased;
        client.execute_typed(&sql, &[]),
        schema.pass((client, look), trust, task.relations, task.functions),
        first.ask(client, Some(cleaning)),
    );
    declared.map_err(|e| fault::cursor(&e))?;
    let passage = passage?;
    let (rows, cleaned) = asked?;
    Ok((passage, Coming { rows, cleaned }))
}

/// The id of the function that changes settings.
const SET_CONFIG: &str = "pg_catalog.set_config";

/// Tells the server for whom the statement is. Who could change that would be somebody else to the server's policies.
pub(crate) async fn hand(
    client: &Client,
    name: &SettingName,
    task: &Task<'_>,
) -> Result<(), BackendError> {
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

/// Runs what was opened and feeds its rows to `sink`. The transaction stays open, unless a `cleaning` was sent behind the last rows:
/// then `session` has what the server says of it.
pub(crate) async fn answer(
    session: &mut Session,
    schema: &Schema,
    opened: Opened,
    task: &Task<'_>,
    cleaning: Option<&str>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let client = &session.client;
    check_origins(client, schema, &opened, task).await?;
    let Opened {
        statement,
        look,
        coming,
    } = opened;
    if coming.is_none() {
        let bound = params::bind(statement.params(), task.params)?;
        let bound = params::with_types(&bound);
        let mut check = task.checks.first_check();
        if let Check::Estimate(estimates) = check {
            let estimate = estimate::read_query(client, task.checks.plan_text(), &bound).await?;
            // Planning has locked the relations: an estimate of another one is none of this.
            schema
                .verify(client, &look, task.relations, task.functions)
                .await?;
            check = estimates.answer(&[estimate])?;
        }
        declare((client, &look), schema, task, check.ready()?, &bound).await?;
    } else if !statement.params().is_empty() {
        return Err(BackendError::second_lock(
            "the statement has parameters, and none are bound",
        ));
    }
    let names: Vec<&str> = statement.columns().iter().map(|c| c.name()).collect();
    if sink.columns(&names).is_break() {
        return Ok(());
    }
    sink.types(ColumnTypes::Named(&types::names(&statement)));
    let readings: Vec<Reading> = statement
        .columns()
        .iter()
        .map(|c| Reading::new(c.type_()))
        .collect();
    fetch(
        session,
        coming,
        (&readings, most_rows(task)),
        cleaning,
        sink,
    )
    .await
}

/// The rewritten statement gives no more, and the sink takes no more.
fn most_rows(task: &Task<'_>) -> u64 {
    task.limits.max_rows.saturating_add(1)
}

/// The simple query that begins a transaction: constants of our own.
fn begin(task: &Task<'_>) -> String {
    let mut sql = format!(
        "BEGIN ISOLATION LEVEL {} {}",
        write::isolation(task),
        write::access_mode(task.work)
    );
    if !task.work.is_committed() {
        sql.push_str("; ");
        sql.push_str(PLAN_ONCE);
    }
    sql
}

/// Has the server keep the plan for looking at the schema: it would make one for the relations of each statement, which
/// takes longer than all else that it does for a small one. What a cursor declares, it plans anew all the same.
const PLAN_ONCE: &str = "SET LOCAL plan_cache_mode = force_generic_plan";

/// Before the statement runs: the functions that it calls are planned as ever.
const PLAN_AS_EVER: &str = "SET LOCAL plan_cache_mode TO DEFAULT; ";

/// The name of the only cursor of a transaction.
const CURSOR: &str = "palisade_answer";

/// Feeds at most `most` rows of the cursor to `sink`, those that are `coming` first. With the last of them the session is cleaned, in
/// one round trip.
async fn fetch(
    session: &mut Session,
    mut coming: Option<Coming>,
    (readings, most): (&[Reading], u64),
    cleaning: Option<&str>,
    sink: &mut (dyn RowSink + Send),
) -> Result<(), BackendError> {
    let mut wanted = Wanted::first(most);
    loop {
        let (rows, cleaned) = match coming.take() {
            Some(Coming { rows, cleaned }) => (rows, cleaned),
            None => wanted.ask(&session.client, cleaning).await?,
        };
        let batch = read(rows, readings, sink).await;
        if let Some(cleaned) = cleaned {
            // The server has both, and does the second whatever becomes of the first.
            let is_read = batch.as_ref().is_ok_and(|batch| batch.took.is_continue());
            session.cleaning = if is_read {
                Cleaning::Sent(cleaned)
            } else if drain(cleaned).await {
                // The sink has enough, and the server had other rows to send before.
                Cleaning::Done
            } else {
                Cleaning::Due
            };
            return batch.map(|_| ());
        }
        let batch = batch?;
        match wanted.next(&batch) {
            Some(next) => wanted = next,
            None => return Ok(()),
        }
    }
}

/// How many rows are asked for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    rows: u32,
    is_first: bool,
    /// Of all that may come, those and what comes after.
    left: u64,
}

impl Wanted {
    fn first(most: u64) -> Self {
        Self::new(FIRST_BATCH, most, true)
    }

    fn new(rows: u32, left: u64, is_first: bool) -> Self {
        let fitting = u32::try_from(left).unwrap_or(rows);
        Self {
            rows: rows.min(fitting),
            is_first,
            left,
        }
    }

    /// Whether none may come after these.
    fn is_last(self) -> bool {
        self.left <= u64::from(self.rows)
    }

    /// Asks for them, and behind the last ones for a cleaning, if there is one.
    async fn ask(
        self,
        client: &Client,
        cleaning: Option<&str>,
    ) -> Result<(SimpleQueryStream, Option<SimpleQueryStream>), BackendError> {
        let before = match self.is_first {
            true => PLAN_AS_EVER,
            false => "",
        };
        let sql = format!("{before}FETCH FORWARD {} FROM {CURSOR}", self.rows);
        let sent = async |sql: &str| {
            let sent = client.simple_query_raw(sql).await;
            sent.map_err(|e| fault::engine(&e))
        };
        let rows = sent(&sql).await?;
        let cleaned = match cleaning.filter(|_| self.is_last()) {
            Some(cleaning) => Some(sent(cleaning).await?),
            None => None,
        };
        Ok((rows, cleaned))
    }

    /// What comes after `batch`; nothing where that was all.
    fn next(self, batch: &Batch) -> Option<Self> {
        if batch.took.is_break() || batch.rows < self.rows || self.is_last() {
            return None;
        }
        let left = self.left.saturating_sub(u64::from(batch.rows));
        Some(Self::new(next_batch(batch.rows, batch.bytes), left, false))
    }
}

/// Reads what the server says of a text of our own, up to its end; whether there was no error.
pub(crate) async fn drain(stream: SimpleQueryStream) -> bool {
    let mut stream = pin!(stream);
    let mut is_done = true;
    while let Some(message) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match message {
            Ok(_) => {}
            Err(error) if error.is_closed() => return false,
            Err(_) => is_done = false,
        }
    }
    is_done
}

/// A batch as far as it was read.
struct Batch {
    rows: u32,
    bytes: usize,
    took: ControlFlow<()>,
}

/// Feeds a batch to `sink`.
async fn read(
    stream: SimpleQueryStream,
    readings: &[Reading],
    sink: &mut (dyn RowSink + Send),
) -> Result<Batch, BackendError> {
    let mut batch = Batch {
        rows: 0,
        bytes: 0,
        took: ControlFlow::Continue(()),
    };
    let mut stream = pin!(stream);
    while let Some(message) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match message.map_err(|e| fault::engine(&e))? {
            SimpleQueryMessage::Row(row) => {
                batch.rows = batch.rows.saturating_add(1);
                let (cells, size) = cells(&row, readings)?;
                batch.bytes = batch.bytes.saturating_add(size);
                batch.took = sink.row(cells);
                if batch.took.is_break() {
                    break;
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
    Ok(batch)
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
pub(crate) fn cells(
    row: &SimpleQueryRow,
    readings: &[Reading],
) -> Result<(Vec<Value>, usize), BackendError> {
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
    let Opened {
        statement,
        look,
        coming: _,
    } = opened;
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
    // A companion is read in the place of its table, and no statement names it otherwise.
    (origin.is_companion || task.relations.contains(&origin.uid))
        && task
            .reads
            .contains(&(origin.name.clone(), column.to_owned()))
}

/// `FirstNormalObjectId`: oids below it are those of the server's own objects.
const FIRST_OWN_OID: u32 = 16_384;

/// Numbers of the columns that every table has (`access/sysattr.h`).
pub(crate) const SYSTEM_COLUMNS: [(i16, &str); 6] = [
    (-1, "ctid"),
    (-2, "xmin"),
    (-3, "cmin"),
    (-4, "xmax"),
    (-5, "cmax"),
    (-6, "tableoid"),
];

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
}
