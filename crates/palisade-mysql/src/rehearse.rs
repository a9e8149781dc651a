//! A change of several statements in one transaction, and what it does row by row.
//!
//! The server tells of no row that it changed, and foreign keys change rows below where anything is counted. So the tables that the
//! statements write, and those that foreign keys and triggers reach from them, are read as a whole before the change and after it, in a
//! transaction whose reads lock what they find. What is different then is the change's. Larger tables are refused, and so are tables
//! with triggers of which is not known what they write.
//!
//! A preview runs the change twice over the same rows, at two times. Columns in which both wrote other values are made anew each time.

use std::{collections::BTreeMap, future::poll_fn, pin::pin};

use futures_core::Stream as _;
use mysql_async::{Column, Conn, Row, prelude::Queryable as _};
use palisade::{
    catalog::Relation,
    change::{Difference, TableDifference, pair_rows},
    guard::{
        BackendError, BackendErrorKind, BeforeAndAfter, ChangeEnd, ChangeRun, OpenTicket, Purpose,
    },
    value::{DroppedRows, KeptRows, Value},
};
use palisade_pool::{Ended, Failed, Pool, Statement, Task, Work};

use crate::{
    cells::Reading,
    connect::{Connector, Session},
    execute::{self, Facts},
    fault, ledger, reach,
    settings::identifier,
    write,
};

/// Rows that the tables may have together that a change can write.
const MAX_ROWS: usize = 50_000;

/// Bytes that these rows may have.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Rows that a change may touch that is looked at.
const MAX_CHANGED: usize = 10_000;

/// What is read is locked, and the time stands still.
const BEGIN: &str = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; \
     SET SESSION timestamp = UNIX_TIMESTAMP(NOW(6)); START TRANSACTION READ WRITE";

/// A look at a schema in a transaction that has begun.
const BEGUN: &str = "DO 0";

/// Another time, for the second run: another second.
const LATER: &str = "SET SESSION timestamp = @@SESSION.timestamp + 1.25";

/// With what the text of a query begins.
const QUERIES: [&str; 2] = ["SELECT ", "WITH "];

/// Runs a change in a session of the pool.
///
/// # Errors
/// If nothing was run.
pub(crate) async fn run_change(
    pool: &Pool<Connector>,
    facts: Facts<'_>,
    tasks: &[Task<'_>],
    purpose: &Purpose,
) -> Result<ChangeEnd, BackendError> {
    let Some(first) = tasks.first() else {
        return Err(BackendError::not_previewable("a change has statements"));
    };
    let mut change = Change {
        facts,
        tasks,
        purpose,
        at: 0,
        run: ChangeRun::default(),
        is_met: false,
    };
    let _turn = pool.take_turn(tasks).await?;
    let time = first.limits.statement_timeout();
    let ended = pool.run(time, first.cancel, &mut change).await;
    let Change {
        at, run, is_met, ..
    } = change;
    Ok(match ended {
        Ok(()) => ChangeEnd::Ran(ChangeRun {
            is_kept: is_met,
            ..run
        }),
        Err(error) => ChangeEnd::Failed {
            statement: at,
            error,
        },
    })
}

/// A change that is run.
struct Change<'a> {
    facts: Facts<'a>,
    tasks: &'a [Task<'a>],
    purpose: &'a Purpose,
    /// The statement that it is at.
    at: usize,
    run: ChangeRun,
    /// Whether it is to be kept.
    is_met: bool,
}

/// The rows of each table that can be written.
type State = Vec<Vec<Vec<Value>>>;

impl Statement<Session> for Change<'_> {
    async fn attempt(&mut self, session: &mut Session) -> Result<Ended, Failed> {
        self.run = ChangeRun::default();
        self.is_met = false;
        let tables = self.begin(session).await?;
        let conn = session
            .ready()
            .await
            .map_err(|e| Failed::Running(fault::engine(&e)))?;
        self.try_run(conn, &tables)
            .await
            .map(|()| Ended::Clean)
            .map_err(Failed::Running)
    }

    async fn keep(&mut self, session: &mut Session) -> Result<(), BackendError> {
        match self.is_met {
            true => write::keep(session).await,
            // Cleaning the session takes everything back.
            false => Ok(()),
        }
    }
}

impl Change<'_> {
    /// Begins the transaction, and checks that everything is as it was decided about; the tables that can be written.
    async fn begin<'c>(&self, session: &mut Session) -> Result<Vec<&'c Relation>, Failed>
    where
        Self: 'c,
    {
        let Some(first) = self.tasks.first() else {
            return Err(Failed::Running(BackendError::not_previewable(
                "a change has statements",
            )));
        };
        let begin = execute::begin(self.facts.product, first.limits, BEGIN);
        let mut conn = execute::open_by(session, self.facts, first.relations, &begin).await?;
        for task in self.tasks.iter().skip(1) {
            conn = execute::open_by(session, self.facts, task.relations, BEGUN).await?;
        }
        let tables = reach::find(conn, self.facts, self.tasks).await;
        let tables = tables.map_err(Failed::Running)?;
        let reached: Vec<String> = tables.iter().map(|table| table.uid.clone()).collect();
        let conn = execute::open_by(session, self.facts, &reached, BEGUN).await?;
        for table in &tables {
            write::check_reached(conn, self.facts, table)
                .await
                .map_err(Failed::Running)?;
        }
        Ok(tables)
    }

    async fn try_run(&mut self, conn: &mut Conn, tables: &[&Relation]) -> Result<(), BackendError> {
        let before = read(conn, tables).await?;
        // Triggers stay as they are from here on: the server lets none alter a table that a transaction has read.
        reach::check(conn, self.facts, self.tasks, tables).await?;
        run_ours(conn, "SAVEPOINT palisade_change").await?;
        let affected = self.run_statements(conn).await?;
        let difference = compare(tables, &before, &read(conn, tables).await?)?;
        let expectation = match self.purpose {
            Purpose::Keep(expectation) => Some(expectation),
            Purpose::Preview(_) => None,
        };
        if let Some(expectation) = expectation {
            self.is_met = expectation.is_met(&difference);
            self.run = ChangeRun {
                affected,
                difference,
                ..ChangeRun::default()
            };
            if self.is_met
                && let Some(left) = expectation.leave(&self.run)?
            {
                ledger::leave(conn, self.facts.catalog, left).await?;
            }
            return Ok(());
        }
        let Purpose::Preview(lens) = self.purpose else {
            return Ok(());
        };
        // The locks stay.
        run_ours(conn, "ROLLBACK TO SAVEPOINT palisade_change").await?;
        run_ours(conn, LATER).await?;
        let affected = self.run_statements(conn).await?;
        let again = compare(tables, &before, &read(conn, tables).await?)?;
        let generated = again.find_generated(&difference, self.facts.catalog);
        let generated = generated.ok_or_else(|| {
            BackendError::not_previewable(
                "its statements choose other rows each time they run; name the rows in WHERE",
            )
        })?;
        let looks = lens.looks(&again).into_iter();
        let looks = looks.map(|ticket| ticket.open(self.facts.catalog));
        let looks: Vec<OpenTicket> = looks.collect::<Result<_, _>>()?;
        let after = self.look(conn, &looks).await?;
        run_ours(conn, "ROLLBACK TO SAVEPOINT palisade_change").await?;
        let before = self.look(conn, &looks).await?;
        let pairs = before.into_iter().zip(after);
        self.run = ChangeRun {
            affected,
            difference: again,
            generated,
            looked: pairs
                .map(|(before, after)| BeforeAndAfter { before, after })
                .collect(),
            ..ChangeRun::default()
        };
        Ok(())
    }

    /// Runs the statements, each after its prechecks; how many rows each changed.
    async fn run_statements(&mut self, conn: &mut Conn) -> Result<Vec<u64>, BackendError> {
        let mut affected = Vec::with_capacity(self.tasks.len());
        for (at, task) in self.tasks.iter().enumerate() {
            self.at = at;
            let Work::Change(changes) = task.work else {
                return Err(BackendError::second_lock(
                    "a change has another kind of statement",
                ));
            };
            // What RETURNING gives stands in the difference too.
            let done = write::change(conn, self.facts, task, changes, &mut DroppedRows).await?;
            affected.push(done.affected.unwrap_or_default());
        }
        self.at = 0;
        Ok(affected)
    }

    /// What decided queries give in this transaction.
    async fn look(&self, conn: &mut Conn, looks: &[OpenTicket]) -> Result<State, BackendError> {
        let mut all = Vec::with_capacity(looks.len());
        for ticket in looks {
            let task = Task::admit(ticket, false)?
                .ok_or_else(|| BackendError::second_lock("what is looked through does nothing"))?;
            // The transaction is none that only reads.
            let text = task.checks.plan_text().to_prepare();
            if !QUERIES.iter().any(|words| text.starts_with(words)) {
                return Err(BackendError::second_lock(
                    "what is looked through is no query",
                ));
            }
            let mut rows = KeptRows::default();
            execute::answer(conn, self.facts, &task, &mut rows).await?;
            all.push(rows.0);
        }
        Ok(all)
    }
}

async fn run_ours(conn: &mut Conn, sql: &str) -> Result<(), BackendError> {
    conn.query_drop(sql).await.map_err(|e| fault::engine(&e))
}

/// All rows of these tables, which are locked.
async fn read(conn: &mut Conn, tables: &[&Relation]) -> Result<State, BackendError> {
    let (mut rows_left, mut bytes_left) = (MAX_ROWS, MAX_BYTES);
    let mut state = Vec::with_capacity(tables.len());
    for table in tables {
        let columns: Vec<String> = (table.columns.iter())
            .map(|column| identifier(&column.name))
            .collect();
        let name = format!("{}.{}", identifier(&table.schema), identifier(&table.name));
        // An account is not told of columns of which it may do nothing.
        let whole = format!("SELECT * FROM {name} LIMIT 0");
        let whole = conn.prep(&whole).await.map_err(|e| unreadable(&e, table))?;
        let is_known = |column: &Column| {
            let mut known = table.columns.iter();
            known.any(|one| one.name.eq_ignore_ascii_case(&column.name_str()))
        };
        if !whole.columns().iter().all(is_known) {
            return Err(BackendError::not_previewable(
                "it writes a table with columns that the catalog has not",
            ));
        }
        let sql = format!(
            "SELECT {} FROM {name} LIMIT {}",
            columns.join(", "),
            rows_left + 1
        );
        execute::check_text(&sql)?;
        let statement = conn.prep(&sql).await.map_err(|e| unreadable(&e, table))?;
        let mut result = conn
            .exec_iter(&statement, ())
            .await
            .map_err(|e| unreadable(&e, table))?;
        let stream = result
            .stream::<Row>()
            .await
            .map_err(|e| fault::engine(&e))?;
        let Some(stream) = stream else {
            return Err(BackendError::second_lock("a table gave no rows"));
        };
        let readings: Vec<Reading> = stream.columns_ref().iter().map(Reading::new).collect();
        let mut stream = pin!(stream);
        let mut rows = Vec::new();
        while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let row = row.map_err(|e| fault::engine(&e))?;
            let cells = execute::cells(row, &readings)?;
            let size: usize = cells.iter().map(size_of).sum();
            let (Some(rows_then), Some(bytes_then)) =
                (rows_left.checked_sub(1), bytes_left.checked_sub(size))
            else {
                return Err(BackendError::not_previewable(
                    "on this server, the tables that it can write have at most 50,000 rows and 64 MiB together",
                ));
            };
            (rows_left, bytes_left) = (rows_then, bytes_then);
            rows.push(cells);
        }
        state.push(rows);
    }
    Ok(state)
}

/// About how many bytes a value takes.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(text) | Value::Blob(text) => text.len(),
    }
}

/// Why rows of `table` cannot be read: most of all, for the lack of a grant, which the operator is told.
fn unreadable(error: &mysql_async::Error, table: &Relation) -> BackendError {
    // `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`
    let is_denied =
        matches!(error, mysql_async::Error::Server(server) if [1142, 1143].contains(&server.code));
    match is_denied {
        true => BackendError::new(
            BackendErrorKind::NotGranted,
            format!(
                "a change in steps is shown by whole rows, and the account may not read those of {0}; for changes in steps: GRANT SELECT ON {0} TO the account",
                table.uid
            ),
        ),
        false => fault::engine(error),
    }
}

/// What is different.
fn compare(
    tables: &[&Relation],
    before: &State,
    after: &State,
) -> Result<Difference, BackendError> {
    let mut by_table: BTreeMap<&str, TableDifference> = BTreeMap::new();
    let mut count = 0;
    for ((table, before), after) in tables.iter().zip(before).zip(after) {
        let rows = pair_rows(table, before.iter().cloned(), after.iter().cloned());
        count += rows.len();
        if !rows.is_empty() {
            by_table.insert(
                &table.uid,
                TableDifference {
                    schema: table.schema.clone(),
                    table: table.name.clone(),
                    rows,
                },
            );
        }
    }
    if count > MAX_CHANGED {
        return Err(BackendError::new(
            BackendErrorKind::AffectedRows,
            format!("a change that is looked at touches at most {MAX_CHANGED} rows"),
        ));
    }
    Ok(Difference {
        tables: by_table.into_values().collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn row(id: i64, name: &str) -> Vec<Value> {
        vec![Value::Integer(id), Value::text(name)]
    }

    #[test]
    fn tables_without_a_difference_are_left_out() {
        let schema = "CREATE TABLE a (id int PRIMARY KEY, name text); CREATE TABLE b (id int PRIMARY KEY, name text);";
        let catalog = palisade_ddl::mysql(schema, "d").unwrap();
        let tables: Vec<&Relation> = ["a", "b"]
            .iter()
            .map(|name| catalog.find("d", name).unwrap())
            .collect();
        let same = vec![row(1, "x")];
        let before = vec![same.clone(), vec![row(1, "x"), row(2, "y")]];
        let after = vec![same, vec![row(1, "z"), row(3, "y")]];
        let found = compare(&tables, &before, &after).unwrap();
        let counts: Vec<_> = found
            .tables
            .iter()
            .map(|table| (table.table.as_str(), table.rows.len()))
            .collect();
        assert_eq!(counts, [("b", 3)]);
    }

    #[test]
    fn so_many_rows_may_be_different_and_no_more() {
        let catalog = palisade_ddl::mysql("CREATE TABLE a (id int PRIMARY KEY, name text)", "d");
        let catalog = catalog.unwrap();
        let table = catalog.find("d", "a").unwrap();
        for (more, is_refused) in [(0, false), (1, true)] {
            let ids = 0..i64::try_from(MAX_CHANGED + more).unwrap();
            let after = vec![ids.map(|id| row(id, "x")).collect()];
            let found = compare(&[table], &vec![Vec::new()], &after);
            let kind = found.err().map(|error| error.kind);
            let refused = is_refused.then_some(BackendErrorKind::AffectedRows);
            assert_eq!(kind, refused, "{more}");
        }
    }

    #[test]
    fn rows_that_cannot_be_read_lack_a_grant_or_not() {
        let catalog = palisade_ddl::mysql("CREATE TABLE a (id int PRIMARY KEY)", "d").unwrap();
        let table = catalog.find("d", "a").unwrap();
        for (code, kind) in [
            (1142, BackendErrorKind::NotGranted),
            (1143, BackendErrorKind::NotGranted),
            (1205, BackendErrorKind::Locked),
        ] {
            let error = mysql_async::ServerError {
                code,
                message: String::new(),
                state: "42000".to_owned(),
            };
            assert_eq!(unreadable(&error.into(), table).kind, kind, "{code}");
        }
    }

    #[test]
    fn values_count_by_what_they_take() {
        for (value, bytes) in [
            (Value::Null, 8),
            (Value::Integer(1), 8),
            (Value::Text("".into()), 0),
            (Value::Text("é x".into()), 4),
        ] {
            assert_eq!(size_of(&value), bytes, "{value:?}");
        }
    }
}
