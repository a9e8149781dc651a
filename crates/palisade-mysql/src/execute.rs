//! One query under every lock the server has; `write` has the other statements.
//!
//! What each lock stops, and what it lets through, so that none is taken for more than it is (MariaDB 10.11 and
//! MySQL 9; `tests` shows it):
//!
//! * the text goes only through COM_STMT_PREPARE, which takes one statement; COM_QUERY, which takes many, gets
//!   only texts of our own. A statement without result columns is not run;
//! * `SET SESSION TRANSACTION READ ONLY` stops DML, DDL with its commits, locks on rows and tables, and functions that
//!   write. It does **not** stop `SET`, user variables, advisory locks, sleeping, or files of the server: `LOAD_FILE`
//!   and `INTO OUTFILE`. These are the business of the function registry, of the firewall's grammar, and of an account
//!   without the privilege `FILE`, which is checked at start;
//! * the origin of each result column must be a decided column. Expressions have no origin. MariaDB tells it only
//!   where there is neither a derived table nor another name for a view. MySQL reports a column of a view as a column
//!   of the table that the view reads, by the name that the view gives it;
//! * time-outs of the server's, on MySQL of queries only, and a clock of our own, after which the session is ended
//!   from another one;
//! * a reset of the session after each statement: variables and advisory locks outlive transactions.

use std::{future::poll_fn, ops::ControlFlow, pin::pin, time::Duration};

use futures_core::Stream as _;
use mysql_async::{
    BinaryProtocol, Column, Conn, Error, QueryResult, Row, Statement, Value as Cell,
    prelude::Queryable as _,
};
use mysql_common::named_params::ParsedNamedParams;
use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    dialect::Dialect,
    guard::{BackendError, BackendErrorKind, Check, ColumnTypes, ReadyText, RowSink},
    ident,
    limits::Limits,
    past::{FROM, TO},
    value::Value,
};
use palisade_pool::{Ended, Failed, Task};

use crate::{
    cells::{Reading, type_names},
    connect::Session,
    estimate, fault,
    introspect::Product,
    origin, params,
    schema_change::{Known, Look, Verdict, is_system},
    write,
};

/// Bytes of one row, all cells together.
const MAX_ROW_BYTES: usize = 64 * 1024 * 1024;

/// A server and what it held when its catalog was read.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) product: Product,
    pub(crate) catalog: &'a Catalog,
    pub(crate) known: &'a Known,
}

/// Begins a transaction and looks whether the relations are still those that were decided about, in one round
/// trip, with the settings of a session that is new or was reset.
pub(crate) async fn open<'s>(
    session: &'s mut Session,
    facts: Facts<'_>,
    task: &Task<'_>,
) -> Result<&'s mut Conn, Failed> {
    let begin = begin(facts.product, task.limits, write::begin(task));
    open_by(session, facts, task.relations, &begin).await
}

/// As [`open`], by these statements of ours, which may be run again as long as nothing was done after them.
pub(crate) async fn open_by<'s>(
    session: &'s mut Session,
    facts: Facts<'_>,
    relations: &[String],
    begin: &str,
) -> Result<&'s mut Conn, Failed> {
    let mut look =
        Look::at(facts.catalog, Some(facts.known), relations).map_err(Failed::Running)?;
    let brief = match session.ask(&format!("{begin}{}", look.sql)).await {
        Ok(rows) => look.verify(facts.product, &rows).map_err(Failed::Running)?,
        // What was told of a table may be told no more.
        Err(Error::Server(_)) if look.is_brief() => Verdict::Unsure,
        Err(error) => return Err(classify_failure(&error)),
    };
    match brief {
        Verdict::Same => {}
        Verdict::Unsure => {
            look.forget(facts.known);
            look = Look::at(facts.catalog, None, relations).map_err(Failed::Running)?;
            // The transaction begins anew: nothing has been done in it.
            let rows = session.ask(&format!("{begin}{}", look.sql)).await;
            let rows = rows.map_err(|error| classify_failure(&error))?;
            look.verify(facts.product, &rows).map_err(Failed::Running)?;
        }
    }
    let conn = session
        .ready()
        .await
        .map_err(|error| classify_failure(&error))?;
    look.learn(conn, facts.known)
        .await
        .map_err(|error| classify_failure(&error))?;
    Ok(conn)
}

fn classify_failure(error: &Error) -> Failed {
    let fault = fault::opening(error);
    if fault::is_lost(error) {
        Failed::Lost(fault)
    } else {
        Failed::Running(fault)
    }
}

/// Statements that begin a `transaction`: constants and numbers of our own.
pub(crate) fn begin(product: Product, limits: &Limits, transaction: &str) -> String {
    // 0 would mean for ever.
    let ms = limits
        .statement_timeout()
        .as_millis()
        .clamp(1, i32::MAX.unsigned_abs().into());
    let timeout = match product {
        Product::MariaDb => {
            let time = Duration::from_millis(u64::try_from(ms).unwrap_or(1));
            format!("max_statement_time = {:.3}", time.as_secs_f64())
        }
        Product::MySql => format!("max_execution_time = {ms}"),
    };
    format!("SET SESSION {timeout}; {transaction}")
}

/// A statement that the server has compiled. It runs for whoever has its text.
pub(crate) struct Prepared(Statement);

impl Prepared {
    /// Has the server compile the text of `task`.
    pub(crate) async fn prepare(conn: &mut Conn, task: &Task<'_>) -> Result<Self, BackendError> {
        let text = task.checks.plan_text().to_prepare();
        check_text(text)?;
        let statement = conn.prep(text).await.map_err(|e| fault::prepare(&e))?;
        Ok(Self(statement))
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        self.0.columns().to_vec()
    }

    pub(crate) fn num_params(&self) -> u16 {
        self.0.num_params()
    }

    /// The statement, for which everything was looked at.
    pub(crate) fn to_run(&self, _: ReadyText<'_>) -> &Statement {
        &self.0
    }
}

/// Runs the statement and feeds its rows to `sink`. The transaction stays open.
pub(crate) async fn answer(
    conn: &mut Conn,
    facts: Facts<'_>,
    task: &Task<'_>,
    sink: &mut (dyn RowSink + Send),
) -> Result<Ended, BackendError> {
    let statement = Prepared::prepare(conn, task).await?;
    let columns = statement.columns();
    if columns.is_empty() {
        return Err(BackendError::second_lock("the statement gives no columns"));
    }
    let params = params::bind(statement.num_params(), task.params)?;
    if let Err(error) = check_origins(&columns, facts, task) {
        let undecided: Vec<Column> = undecided_columns(&columns, facts, task).cloned().collect();
        let is_renamed = match facts.product {
            Product::MariaDb => false,
            Product::MySql => {
                origin::are_renamed(conn, &undecided, facts.catalog, task, &params)
                    .await
                    // What it does not plan, it does not explain.
                    .unwrap_or(false)
            }
        };
        if !is_renamed {
            return Err(error);
        }
    }
    let mut check = task.checks.first_check();
    if let Check::Estimate(estimates) = check {
        // At most so many are asked for: one more than leave.
        let has_group_conditions = task
            .text_facts
            .is_none_or(|facts| facts.has_group_conditions);
        let limit = (!task.gathers && !has_group_conditions)
            .then_some(task.limits.max_rows.saturating_add(1));
        let text = task.checks.plan_text();
        let estimate = estimate::read_query(conn, text, &params, limit).await?;
        check = estimates.answer(&[estimate])?;
    }
    let text = check.ready()?;
    let names: Vec<_> = columns.iter().map(Column::name_str).collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if sink.columns(&names).is_break() {
        return Ok(Ended::Clean);
    }
    let result = conn
        .exec_iter(statement.to_run(text), params)
        .await
        .map_err(|e| fault::engine(&e))?;
    fetch(result, columns.len(), sink).await
}

/// Feeds the rows of a statement that gives `width` columns to `sink`.
pub(crate) async fn fetch(
    mut result: QueryResult<'_, '_, BinaryProtocol>,
    width: usize,
    sink: &mut (dyn RowSink + Send),
) -> Result<Ended, BackendError> {
    let stream = result
        .stream::<Row>()
        .await
        .map_err(|e| fault::engine(&e))?;
    let Some(stream) = stream else {
        return Err(BackendError::second_lock("the statement gave no rows"));
    };
    // The server may know more of a column now than when it was prepared, where that depends on parameters.
    sink.types(ColumnTypes::Named(&type_names(stream.columns_ref())));
    let readings: Vec<Reading> = stream.columns_ref().iter().map(Reading::new).collect();
    if readings.len() != width {
        return Err(BackendError::second_lock(
            "the rows have other columns than were described",
        ));
    }
    let mut stream = pin!(stream);
    let mut enough = false;
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        let row = row.map_err(|e| fault::engine(&e))?;
        if enough {
            return Ok(Ended::Overrun);
        }
        enough = match sink.row(cells(row, &readings)?) {
            ControlFlow::Continue(()) => false,
            // What was the last row anyway leaves the session as good as new: the next look tells.
            ControlFlow::Break(()) => true,
        };
    }
    Ok(Ended::Clean)
}

/// The cells of a row.
pub(crate) fn cells(row: Row, readings: &[Reading]) -> Result<Vec<Value>, BackendError> {
    if row.len() != readings.len() {
        return Err(BackendError::second_lock(
            "a row has other columns than were described",
        ));
    }
    let mut bytes = 0_usize;
    row.unwrap_raw()
        .into_iter()
        .zip(readings)
        .map(|(cell, reading)| {
            let cell = cell.unwrap_or(Cell::NULL);
            if let Cell::Bytes(cell) = &cell {
                bytes = bytes.saturating_add(cell.len());
            }
            if bytes > MAX_ROW_BYTES {
                return Err(BackendError::new(
                    BackendErrorKind::Resource,
                    "a row is too large",
                ));
            }
            reading.value(cell)
        })
        .collect()
}

/// Checks that the driver sends the text as it stands.
///
/// It replaces `:name` by `?`, and what it takes for the inside of a string is not always one: a quotation mark
/// right after `-` or `/` escapes it, and then a literal with a colon would become another.
pub(crate) fn check_text(sql: &str) -> Result<(), BackendError> {
    match ParsedNamedParams::parse(sql.as_bytes()) {
        Ok(parsed) if parsed.query() == sql.as_bytes() && parsed.params().is_empty() => Ok(()),
        Ok(_) | Err(_) => Err(BackendError::rejected(
            "the driver would not send the text as it stands",
        )),
    }
}

/// Checks that what the server says of where each result column comes from was decided.
///
/// One way only: expressions, UNION and aggregates come from nowhere.
pub(crate) fn check_origins(
    columns: &[Column],
    facts: Facts<'_>,
    task: &Task<'_>,
) -> Result<(), BackendError> {
    match undecided_columns(columns, facts, task).next() {
        None => Ok(()),
        Some(column) => Err(BackendError::second_lock(format!(
            "column `{}` comes from `{}.{}.{}`, which was not decided",
            column.name_str(),
            column.schema_str(),
            column.org_table_str(),
            column.org_name_str()
        ))),
    }
}

/// The columns that come, as the server says, from where it was not decided.
fn undecided_columns<'c>(
    columns: &'c [Column],
    facts: Facts<'c>,
    task: &'c Task<'_>,
) -> impl Iterator<Item = &'c Column> {
    let told = match facts.product {
        // What a change gives is its table's, whatever stands in it besides.
        Product::MariaDb => task.work.is_committed() || !has_derived_tables(task),
        Product::MySql => true,
    };
    columns.iter().filter(move |column| {
        let (schema, table, name) = (
            column.schema_str(),
            column.org_table_str(),
            column.org_name_str(),
        );
        let told = told
            && match facts.product {
                Product::MariaDb => !is_alias(&table, facts, task),
                Product::MySql => true,
            };
        told && !schema.is_empty()
            && !table.is_empty()
            && !name.is_empty()
            && !is_decided(&schema, &table, &name, facts, task)
    })
}

fn is_decided(schema: &str, table: &str, column: &str, facts: Facts<'_>, task: &Task<'_>) -> bool {
    let catalog = facts.catalog;
    // The server's own relations are spelt in capitals by some versions, and have one name in any.
    let (own_schema, own_table) = (schema.to_lowercase(), table.to_lowercase());
    let uid = ident::qualify([own_schema.as_str(), own_table.as_str()]);
    if is_system(&uid) {
        // Some are views, of whose parts the server tells: those of `sys`, and of MySQL's `information_schema`.
        let beyond = |read: &String| {
            let of_views = match facts.product {
                Product::MariaDb => false,
                Product::MySql => read.starts_with("information_schema."),
            };
            of_views || read.starts_with("sys.")
        };
        // MariaDB tells of a view over `information_schema` as of a relation there, by the view's name.
        let of_view = |relation: &Relation| {
            let pair = (relation.key.to_string(), Dialect::Mysql.fold(column));
            relation.kind == RelationKind::View
                && *relation.key == *catalog.fold_relation(table)
                && task.relations.contains(&relation.uid)
                && task.reads.contains(&pair)
                && task.relations.iter().any(|read| is_system(read))
        };
        let is_views = match facts.product {
            Product::MariaDb => catalog.relations().iter().any(of_view),
            Product::MySql => false,
        };
        let pair = (own_table, column.to_lowercase());
        return is_views
            || task.relations.contains(&uid) && task.reads.contains(&pair)
            || task.relations.iter().any(beyond);
    }
    let column = Dialect::Mysql.fold(column);
    let Some(relation) = find_read(catalog, schema, table, task) else {
        // What is not merged is reported by the name that the text gives it.
        return is_alias(table, facts, task) || is_expression(table, facts, task);
    };
    if task.reads_past && [FROM, TO].contains(&column.as_str()) {
        return false;
    }
    let is_read = |relation: &Relation| {
        let pair = (relation.key.to_string(), column.clone());
        task.relations.contains(&relation.uid) && task.reads.contains(&pair)
    };
    if !task.relations.contains(&relation.uid) {
        return false;
    }
    // Through a view or a list of columns MySQL reports the table that is read in the end, and the column's name on the
    // way there: of that table there is no such column then, or it is one of a view's.
    let is_views = |view: &Relation| view.kind == RelationKind::View && is_read(view);
    relation.position(&column).is_none()
        || is_read(relation)
        || catalog.relations().iter().any(is_views)
}

/// The relation of which a table has rows: itself, or the one whose past it keeps.
pub(crate) fn find_read<'c>(
    catalog: &'c Catalog,
    schema: &str,
    table: &str,
    task: &Task<'_>,
) -> Option<&'c Relation> {
    let is_kept_there = |relation: &&Relation| {
        let companion = catalog.companion(relation);
        companion.is_some_and(|companion| companion.schema == schema && companion.name == table)
    };
    let past = || {
        let mut relations = catalog.relations().iter().filter(|_| task.reads_past);
        relations.find(is_kept_there)
    };
    catalog.find(schema, table).or_else(past)
}

/// Whether the text calls something in FROM `name`. Of a view, MariaDB reports the alias as its name.
fn is_alias(name: &str, facts: Facts<'_>, task: &Task<'_>) -> bool {
    let key = facts.catalog.fold_relation(name);
    task.text_facts
        .is_some_and(|facts| facts.aliases.contains(&key))
}

/// Whether the text has a common table expression `name`.
fn is_expression(name: &str, facts: Facts<'_>, task: &Task<'_>) -> bool {
    let key = facts.catalog.fold_relation(name);
    task.text_facts
        .is_some_and(|facts| facts.expressions.contains(&key))
}

/// Whether the text has a derived table or a common table expression, whose columns MariaDB reports under their aliases.
fn has_derived_tables(task: &Task<'_>) -> bool {
    task.text_facts
        .is_some_and(|facts| facts.has_derived_tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_does_not_change_the_text() {
        for (sql, sent) in [
            ("SELECT 'a:b', `c:d`, \"e:f\"", true),
            ("SELECT ?", true),
            ("SELECT 1 - ':a', 1 / ':a', 'it''s:a'", true),
            ("SELECT -':a'", false),
            ("SELECT 1/':a'", false),
            ("SELECT :a", false),
        ] {
            assert_eq!(check_text(sql).is_ok(), sent, "{sql}");
        }
    }

    #[test]
    fn no_time_is_not_for_ever() {
        let limits = Limits {
            statement_timeout_ms: 0,
            ..Limits::default()
        };
        assert!(begin(Product::MariaDb, &limits, "").contains("max_statement_time = 0.001;"));
        assert!(begin(Product::MySql, &limits, "").contains("max_execution_time = 1;"));
    }
}
