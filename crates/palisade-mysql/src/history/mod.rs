//! History of tables: what the backend asks of it.
//!
//! MariaDB keeps versions of rows by itself, and its moments are read from the status of InnoDB. On MySQL triggers keep them
//! ([`triggers`]), and moments are the numbers of changes that a snapshot sees ([`numbers`]).

mod numbers;
pub(crate) mod rights;
pub(crate) mod script;
mod status;
#[cfg(test)]
mod tests;
pub(crate) mod triggers;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mysql_async::{Column, Conn, Error, Row, prelude::Queryable as _};
use palisade::{
    catalog::{Companion, Relation, RelationDef, RelationKind},
    dialect::Dialect,
    guard::{BackendError, BackendErrorKind},
    past::{CommittedState, FROM, HistoryOrder, Label, LabelStanding, NumberRange, PREFIX, TO},
    value::Value,
};
use tokio::time::sleep;

pub(crate) use self::script::SEAL;
use self::{
    script::{HistoryTable, SPANS, companion_name},
    status::Committed,
};
use crate::{
    cells::Reading,
    execute, fault,
    introspect::{Product, query, text},
    params,
    settings::identifier,
};

/// How often a label is tried: under load about half of the tries are kept.
const TRIES: u32 = 200;

/// How long is waited after a try, at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The ids that a transaction takes which seals a label, and no less: one when it writes, one when it commits.
const SEAL_IDS: u64 = 2;

/// Why the server has no labels: each is one row.
const PLACE_QUERY: &str = "SELECT 'it is a node of a Galera cluster' FROM information_schema.GLOBAL_VARIABLES \
     WHERE VARIABLE_NAME = 'WSREP_ON' AND VARIABLE_VALUE = 'ON' \
     UNION ALL SELECT 'it is a replica' FROM information_schema.GLOBAL_STATUS \
     WHERE VARIABLE_NAME = 'SLAVES_RUNNING' AND VARIABLE_VALUE <> '0' \
     UNION ALL SELECT 'innodb_flush_log_at_trx_commit must be 1 or 3, or a crash loses transactions whose ids are given out again' \
     FROM DUAL WHERE @@GLOBAL.innodb_flush_log_at_trx_commit NOT IN (1, 3)";

/// How many other sessions run a statement that imitates the list of transactions.
const IMITATION_QUERY: &str = "SELECT CAST(COUNT(*) AS CHAR) FROM information_schema.PROCESSLIST \
     WHERE ID <> CONNECTION_ID() AND INFO LIKE CONCAT('%', CHAR(10), '---TRANSACTION %')";

/// The last label that was sealed. While nothing but its seal has been written since, the next label is the same.
#[derive(Debug, Default)]
pub(crate) struct LastLabel {
    sealed: Mutex<Option<Sealed>>,
    numbers: Mutex<numbers::Noted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Sealed {
    epoch: String,
    committed: Committed,
}

impl Sealed {
    /// Whether all that has been written up to `found` since this was taken is its own seal, which is committed.
    fn is_still(&self, epoch: &str, found: &Committed) -> bool {
        self.epoch == epoch
            && self.committed.next.checked_add(SEAL_IDS) == Some(found.next)
            && self.committed.active == found.active
    }
}

impl LastLabel {
    fn get(&self) -> Option<Sealed> {
        let sealed = self.sealed.lock();
        sealed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, sealed: Sealed) {
        *self.sealed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sealed);
    }

    /// The same on MySQL.
    fn numbers(&self) -> MutexGuard<'_, numbers::Noted> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statements that do to the history of `relation` what is ordered, over a connection to the database `own`.
pub(crate) fn write_script(
    product: Product,
    own: &str,
    relation: &Relation,
    order: &HistoryOrder,
) -> Result<String, String> {
    let name = relation.database_name();
    if relation.schema != own {
        return Err(format!(
            "`{name}`: on {} history is kept of tables of the connection's own database, `{own}`: name a connection to `{}`",
            product.name(),
            relation.schema
        ));
    }
    let script = match product {
        Product::MariaDb => write_versions_script(relation, order),
        Product::MySql => match order {
            HistoryOrder::Enable { account } => {
                triggers::enable_script(relation, account.as_deref())
            }
            HistoryOrder::Disable => Ok(triggers::disable_script(relation)),
            HistoryOrder::Prune(label) => {
                let (next, active) = read_counter(label)?;
                triggers::prune_script(relation, next, active)
            }
        }
        .map_err(|fault| fault.to_string()),
    };
    script.map_err(|fault| format!("`{name}`: {fault}"))
}

fn write_versions_script(relation: &Relation, order: &HistoryOrder) -> Result<String, String> {
    let columns: Vec<String> = (relation.columns.iter())
        .map(|column| column.name.to_string())
        .collect();
    let table = HistoryTable {
        schema: &relation.schema,
        table: &relation.name,
        columns: &columns,
        has_key: !relation.primary_key.is_empty(),
    };
    let script = match order {
        HistoryOrder::Enable { account } => script::enable_script(&table, account.as_deref()),
        HistoryOrder::Disable => Ok(script::disable_script(&table)),
        HistoryOrder::Prune(label) => {
            let (next, active) = read_counter(label)?;
            script::prune_script(&table, next, active)
        }
    };
    script.map_err(|fault| fault.to_string())
}

/// The table whose past `companion` has, if that is in the database `own`.
fn table_of<'c>(companion: &'c Companion, own: &str) -> Option<&'c str> {
    let table = companion.name.strip_prefix(PREFIX)?.strip_prefix('_')?;
    (companion.schema == own).then_some(table)
}

fn read_counter(label: &Label) -> Result<(u64, &[NumberRange]), String> {
    match label.state() {
        CommittedState::Counter {
            epoch: _,
            next,
            active,
        } => Ok((*next, active)),
        CommittedState::Sequence { last: _, mark: _ }
        | CommittedState::Snapshot {
            epoch: _,
            snapshot: _,
        } => Err("the label is of another engine".to_owned()),
    }
}

/// Whether history needs a relation of this name, which no catalog has.
pub(crate) fn is_own(name: &str) -> bool {
    Dialect::Mysql.fold(name).starts_with(PREFIX)
}

/// Takes out of `relations` what history needs, and gives the companions among them: of tables of the database `own`, with all of their
/// columns, by the table's schema and name.
pub(crate) fn take_companions(
    relations: &mut Vec<RelationDef>,
    own: &str,
    product: Product,
) -> Vec<(String, String, Companion)> {
    let kind = match product {
        Product::MariaDb => RelationKind::View,
        Product::MySql => RelationKind::Table,
    };
    let kept = relations.extract_if(.., |def| is_own(&def.name));
    let kept: Vec<RelationDef> = kept.collect();
    let tables = (relations.iter())
        .filter(|def| def.schema == own && def.kind == RelationKind::Table)
        .filter_map(|table| {
            let name = companion_name(&table.name);
            let columns =
                (table.columns.iter().map(|column| column.name.as_str())).chain([FROM, TO]);
            let companion = (kept.iter())
                .find(|def| def.schema == own && def.name == name && def.kind == kind)?;
            let found = companion.columns.iter().map(|column| column.name.as_str());
            columns.eq(found).then(|| {
                let schema = own.to_owned();
                let companion = Companion { schema, name };
                (table.schema.clone(), table.name.clone(), companion)
            })
        });
    tables.collect()
}

/// The state of committed transactions by now, for a connection to the database `own`.
pub(crate) async fn take_label(
    conn: &mut Conn,
    own: &str,
    last: &LastLabel,
    product: Product,
) -> Result<Label, BackendError> {
    match product {
        Product::MariaDb => {}
        Product::MySql => return numbers::take_label(conn, own, last).await,
    }
    if let Some(why) = find_text(conn, PLACE_QUERY).await? {
        return Err(BackendError::no_moment(format!(
            "the server has no moments to note: {why}"
        )));
    }
    let epoch = read_epoch(conn, own).await?;
    // Before the server is asked: of one that another task puts there meanwhile, the seal may come later than what is found.
    let known = last.get();
    let found = find_committed(conn).await?;
    let committed = match known.filter(|known| known.is_still(&epoch, &found)) {
        Some(known) => known.committed,
        None => {
            seal(conn, own).await?;
            last.put(Sealed {
                epoch: epoch.clone(),
                committed: found.clone(),
            });
            found
        }
    };
    let active: Vec<String> = committed.active.iter().map(u64::to_string).collect();
    let printed = format!("{epoch}:{}:{}", committed.next, active.join(","));
    Label::parse(Dialect::Mysql, &printed).ok_or_else(|| {
        BackendError::new(BackendErrorKind::Conflict,
            "so many transactions are open that a moment cannot be noted; it can once they have ended",
        )
    })
}

/// What the server has committed, once it stands still for the time of two looks.
async fn find_committed(conn: &mut Conn) -> Result<Committed, BackendError> {
    let connection = u64::from(conn.id());
    for attempt in 0..TRIES {
        let before = read_innodb(conn).await?;
        run(conn, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
        run(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
        let after = read_innodb(conn).await?;
        let imitations = find_text(conn, IMITATION_QUERY).await?;
        run(conn, "COMMIT").await?;
        if imitations.as_deref() == Some("0")
            && let Some(found) = status::read_label(&before, &after, connection)
        {
            return Ok(found);
        }
        sleep(LONGEST_PAUSE.min(Duration::from_millis(attempt.into()))).await;
    }
    Err(BackendError::new(
        BackendErrorKind::Conflict,
        "the server's transactions did not stand still long enough for a moment to be noted",
    ))
}

/// Writes after a label, before it counts. After a restart, InnoDB counts on from the last id of a committed change: ids of transactions
/// that only locked, or were rolled back, are given out again, and the label would see the new ones.
async fn seal(conn: &mut Conn, own: &str) -> Result<(), BackendError> {
    // Sessions only read unless they are told otherwise.
    run(conn, "START TRANSACTION READ WRITE").await?;
    let sealed = conn.query_drop(script::seal_statement(own)).await;
    let count = conn.affected_rows();
    let end = if sealed.is_ok() { "COMMIT" } else { "ROLLBACK" };
    run(conn, end).await?;
    sealed.map_err(|error| lacks(&error, &format!("SELECT, UPDATE (n) ON `{SEAL}`")))?;
    if count == 1 {
        return Ok(());
    }
    Err(BackendError::no_moment(format!(
        "the table `{SEAL}` has not its row: run the SQL of `palisade history enable` again"
    )))
}

/// Whether `label` is of this server, and the history in `companions` reaches back to it, for a connection to the database `own`.
pub(crate) async fn check_label(
    conn: &mut Conn,
    own: &str,
    label: &Label,
    companions: &[Companion],
    product: Product,
) -> Result<LabelStanding, BackendError> {
    match product {
        Product::MariaDb => {}
        Product::MySql => return numbers::check_label(conn, own, label, companions).await,
    }
    let CommittedState::Counter {
        epoch,
        next,
        active: _,
    } = label.state()
    else {
        return Ok(LabelStanding::Foreign);
    };
    if read_epoch(conn, own).await? != *epoch || !has_counted_to(conn, *next).await? {
        return Ok(LabelStanding::Foreign);
    }
    for companion in companions {
        let Some(table) = table_of(companion, own) else {
            return Ok(LabelStanding::BeforeHistory);
        };
        let rows = query(conn, script::span_query(own, table)).await;
        let rows = rows.map_err(|error| lacks(&error, &format!("SELECT ON `{SPANS}`")))?;
        let since: Option<(u64, u64)> = rows.into_iter().next().and_then(|row| {
            let row: Result<(u64, u64), _> = mysql_async::from_row_opt(row);
            row.ok()
        });
        let answers =
            since.is_some_and(|(since, is_same)| is_same == 1 && label.state().has_seen(since));
        if !answers {
            return Ok(LabelStanding::BeforeHistory);
        }
    }
    Ok(LabelStanding::Answers)
}

/// Whether the server has given out ids up to `next`: it has not if its files are older than the label.
async fn has_counted_to(conn: &mut Conn, next: u64) -> Result<bool, BackendError> {
    for attempt in 0..TRIES {
        if let Some(found) = status::read_status(&read_innodb(conn).await?) {
            return Ok(next <= found.next);
        }
        sleep(LONGEST_PAUSE.min(Duration::from_millis(attempt.into()))).await;
    }
    Err(BackendError::unavailable(
        "the server's list of transactions cannot be read",
    ))
}

/// The keys of rows of `relation` whose state at the second label, or by now, is not that of the first.
pub(crate) async fn list_changed_keys(
    conn: &mut Conn,
    relation: &Relation,
    companion: &Companion,
    (from, to): (&Label, Option<&Label>),
    most: u32,
) -> Result<Vec<Vec<Value>>, BackendError> {
    // What ends by now has the highest number.
    let open = u64::MAX;
    let first = first_unseen(from);
    let is_between = |column: &str| {
        let since = format!("NOT ({})", print_seen(column, from));
        match to {
            Some(to) => format!("{since} AND {}", print_seen(column, to)),
            None => since,
        }
    };
    let (began, ended) = (is_between(FROM), is_between(TO));
    let keys: Vec<String> = (relation.primary_key.iter())
        .filter_map(|index| relation.column(*index))
        .map(|key| identifier(&key.name))
        .collect();
    // An index of ends, and of beginnings within them, answers both parts. What began since has not ended before.
    let sql = format!(
        "SELECT DISTINCT {} FROM {}.{} WHERE ({TO} = {open} AND {FROM} >= {first} AND {began}) \
         OR ({TO} >= {first} AND {TO} < {open} AND (({began}) OR ({ended}))) LIMIT {}",
        keys.join(", "),
        identifier(&companion.schema),
        identifier(&companion.name),
        most.saturating_add(1),
    );
    execute::check_text(&sql)?;
    let statement = conn.prep(&sql).await.map_err(|e| fault::engine(&e))?;
    let rows: Vec<Row> = conn
        .exec(&statement, ())
        .await
        .map_err(|e| fault::engine(&e))?;
    let read = |row: Row| {
        let readings: Vec<Reading> = read_columns(row.columns_ref());
        execute::cells(row, &readings)
    };
    rows.into_iter().map(read).collect()
}

/// The transactions by which a row of `relation`, or any of its rows, came to another state: the newest `most`, newest first.
pub(crate) async fn list_writes(
    conn: &mut Conn,
    relation: &Relation,
    companion: &Companion,
    key: Option<&[Value]>,
    most: u32,
) -> Result<Vec<u64>, BackendError> {
    let table = format!(
        "{}.{}",
        identifier(&companion.schema),
        identifier(&companion.name)
    );
    let columns = (relation.primary_key.iter()).filter_map(|index| relation.column(*index));
    let is_row = match key {
        Some(_) => {
            let each = columns.map(|column| format!("{} = ?", identifier(&column.name)));
            each.collect::<Vec<_>>().join(" AND ")
        }
        None => "TRUE".to_owned(),
    };
    let sql = format!(
        "SELECT {FROM} FROM {table} WHERE {is_row} UNION SELECT {TO} FROM {table} WHERE {TO} < {} AND {is_row} \
         ORDER BY 1 DESC LIMIT {most}",
        u64::MAX
    );
    execute::check_text(&sql)?;
    let statement = conn.prep(&sql).await.map_err(|e| fault::engine(&e))?;
    // It stands in both of the queries.
    let key = key.unwrap_or_default();
    let values: Vec<Value> = key.iter().chain(key).cloned().collect();
    let bound = params::bind(statement.num_params(), &values)?;
    conn.exec(&statement, bound)
        .await
        .map_err(|e| fault::engine(&e))
}

fn read_columns(columns: &[Column]) -> Vec<Reading> {
    columns.iter().map(Reading::new).collect()
}

/// Whether `label` has seen the transaction in `column`.
fn print_seen(column: &str, label: &Label) -> String {
    match label.state() {
        CommittedState::Counter {
            epoch: _,
            next,
            active,
        } => match print_ranges(column, active) {
            None => format!("{column} < {next}"),
            Some(among) => format!("{column} < {next} AND NOT ({among})"),
        },
        // Of another engine: it is refused before.
        CommittedState::Sequence { last: _, mark: _ }
        | CommittedState::Snapshot {
            epoch: _,
            snapshot: _,
        } => "FALSE".to_owned(),
    }
}

/// The first transaction that a label has not seen.
fn first_unseen(label: &Label) -> u64 {
    match label.state() {
        CommittedState::Counter {
            epoch: _,
            next,
            active,
        } => active.first().map_or(*next, |range| range.first),
        // Of another engine: it is refused before.
        CommittedState::Sequence { last: _, mark: _ }
        | CommittedState::Snapshot {
            epoch: _,
            snapshot: _,
        } => 0,
    }
}

/// Whether the number in `column` is in one of `ranges`; none where there are none.
fn print_ranges(column: &str, ranges: &[NumberRange]) -> Option<String> {
    let single = ranges.iter().filter(|range| range.first == range.last);
    let single: Vec<String> = single.map(|range| range.first.to_string()).collect();
    let single = (!single.is_empty()).then(|| format!("{column} IN ({})", single.join(", ")));
    let wide = ranges.iter().filter(|range| range.first < range.last);
    let wide = wide.map(|range| format!("{column} BETWEEN {} AND {}", range.first, range.last));
    let all: Vec<String> = single.into_iter().chain(wide).collect();
    (!all.is_empty()).then(|| all.join(" OR "))
}

/// The connection's database, if it has a companion that the account may read.
pub(crate) async fn find_keeping(conn: &mut Conn) -> Result<Option<String>, Error> {
    let first = companion_name("");
    let sql = format!(
        "SELECT t.TABLE_SCHEMA FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = DATABASE() \
         AND LEFT(t.TABLE_NAME, {}) = '{first}' LIMIT 1",
        first.len()
    );
    conn.query_first(sql).await
}

async fn read_epoch(conn: &mut Conn, own: &str) -> Result<String, BackendError> {
    let rows = query(conn, script::epoch_query(own)).await;
    let rows = rows.map_err(|error| lacks(&error, &format!("SELECT ON `{SPANS}`")))?;
    let epoch = rows.first().and_then(|row| text(row, 0).ok());
    epoch.ok_or_else(|| {
        BackendError::no_moment(format!(
            "the table `{SPANS}` has not its first row: run the SQL of `palisade history enable` again"
        ))
    })
}

async fn read_innodb(conn: &mut Conn) -> Result<String, BackendError> {
    let rows = query(conn, "SHOW ENGINE INNODB STATUS".to_owned()).await;
    let rows = rows.map_err(|error| lacks(&error, "PROCESS ON *.*"))?;
    let status = rows
        .into_iter()
        .next()
        .and_then(|mut row| row.take::<Vec<u8>, _>(2));
    let status = status.ok_or_else(|| BackendError::unavailable("InnoDB has no status"))?;
    // It quotes statements, which may have bytes of any kind.
    Ok(String::from_utf8_lossy(&status).into_owned())
}

/// The first cell of the first row.
async fn find_text(conn: &mut Conn, sql: &str) -> Result<Option<String>, BackendError> {
    conn.query_first(sql).await.map_err(|e| fault::engine(&e))
}

async fn run(conn: &mut Conn, sql: &str) -> Result<(), BackendError> {
    conn.query_drop(sql).await.map_err(|e| fault::engine(&e))
}

/// What an error means for the lack of a grant, which the operator is told.
fn lacks(error: &Error, grant: &str) -> BackendError {
    if !is_denied(error) {
        return fault::engine(error);
    }
    BackendError::new(
        BackendErrorKind::NotGranted,
        format!(
            "the account may not note or look at moments: GRANT {grant} TO the account, as `palisade history enable --account` prints"
        ),
    )
}

/// Whether the account lacks a grant: `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`, `ER_SPECIFIC_ACCESS_DENIED_ERROR`,
/// `ER_PROCACCESS_DENIED_ERROR`.
fn is_denied(error: &Error) -> bool {
    match error {
        Error::Server(server) => [1142, 1143, 1227, 1370].contains(&server.code),
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => false,
    }
}
