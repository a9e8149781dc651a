//! A schema of a PostgreSQL database as the place of a store, for several servers.
//!
//! A thread of its own drives the session, since stores are asked in the midst of other work that must not wait on a runtime of its own.
//! Statements have no names and transactions their own settings, so that a pooler may stand between.

use std::{sync::mpsc, thread, time::Duration};

use bytes::BytesMut;
use palisade_postgres::{
    PostgresConfig, connect_by,
    tokio_postgres::{
        Client, Row,
        types::{IsNull, ToSql, Type, to_sql_checked},
    },
};
use tokio::{
    runtime::Builder,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use crate::database::{DatabaseFault, PATIENCE, StateRow, StateValue};

/// The schema with the tables.
const SCHEMA: &str = "palisade_state";

/// Under which number writers wait for each other: `PLSA`.
const LOCK: i64 = 0x504c_5341;

/// How long an answer may take: as long as the server lets a statement run, and the way there.
const LONGEST: Duration = Duration::from_secs(8);

/// The first form that a server had.
const FIRST: i64 = 4;

/// The tables of this form, and what counts the writes of all servers.
const OWN_TABLES: &str = "
    CREATE TABLE form (version bigint NOT NULL);
    CREATE TABLE writes (count bigint NOT NULL);
    INSERT INTO writes VALUES (0);
";

/// A session with the database, and the transaction that is open in it.
pub(crate) struct PostgresDatabase {
    jobs: UnboundedSender<Job>,
}

struct Job {
    task: Task,
    answer: mpsc::Sender<Result<Answer, DatabaseFault>>,
}

enum Task {
    Begin {
        writes: bool,
    },
    Run {
        sql: String,
        values: Vec<StateValue>,
    },
    /// Several statements of our own, without parameters.
    Batch(String),
    End {
        commits: bool,
    },
}

enum Answer {
    Done,
    Rows(Vec<StateRow>, u64),
}

impl PostgresDatabase {
    /// The database of `config`, whose tables are made where they are not there yet: `tables`, in the order of the forms that were the
    /// first to have them.
    ///
    /// # Errors
    /// If it cannot be reached, or has tables of another form.
    pub(crate) fn open(
        config: PostgresConfig,
        tables: &[(i64, &str)],
    ) -> Result<Self, DatabaseFault> {
        let (jobs, waiting) = unbounded_channel();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| DatabaseFault(error.to_string()))?;
        let drive = move || runtime.block_on(drive(&config, waiting));
        thread::Builder::new()
            .name("palisade-state".to_owned())
            .spawn(drive)
            .map_err(|error| DatabaseFault(error.to_string()))?;
        let mut this = Self { jobs };
        this.prepare(tables)?;
        Ok(this)
    }

    fn prepare(&mut self, tables: &[(i64, &str)]) -> Result<(), DatabaseFault> {
        let version = tables.last().map_or(FIRST, |(version, _)| *version);
        self.begin(true)?;
        let has = "SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = ?1 AND c.relname = 'form'";
        let found = self.query(has, &[SCHEMA.into()])?;
        let found = found.first().map(|row| row.integer(0)).transpose()?;
        if found == Some(0) {
            let has =
                "SELECT CAST(count(*) AS bigint) FROM pg_catalog.pg_namespace WHERE nspname = ?1";
            let schemas = self.query(has, &[SCHEMA.into()])?;
            let schemas = schemas.first().map(|row| row.integer(0)).transpose()?;
            let mut script = String::new();
            // An operator may have made it, for an account that may make none.
            if schemas == Some(0) {
                script.push_str(&format!("CREATE SCHEMA {SCHEMA};"));
            }
            script.push_str(OWN_TABLES);
            script.extend(tables.iter().map(|(_, table)| translate_tables(table)));
            script.push_str(&format!("INSERT INTO form VALUES ({version});"));
            self.ask(Task::Batch(script))?;
            return self.end(true);
        }
        let known = self.query("SELECT version FROM form", &[])?;
        let known = known.first().map(|row| row.integer(0)).transpose()?;
        if let Some(known) = known.filter(|known| (FIRST..version).contains(known)) {
            let newer = tables.iter().filter(|(since, _)| *since > known);
            let mut script: String = newer.map(|(_, table)| translate_tables(table)).collect();
            script.push_str(&format!("UPDATE form SET version = {version};"));
            self.ask(Task::Batch(script))?;
            return self.end(true);
        }
        self.end(false)?;
        match known {
            Some(known) if known == version => Ok(()),
            Some(known) => Err(DatabaseFault(format!(
                "its schema `{SCHEMA}` is of version {known}, and this program knows version {version}; name another database, or update the program"
            ))),
            None => Err(DatabaseFault(format!(
                "its schema `{SCHEMA}` holds something else; name another database"
            ))),
        }
    }

    /// Begins a transaction. Of those that write, of all servers, one is open at a time.
    pub(crate) fn begin(&mut self, writes: bool) -> Result<(), DatabaseFault> {
        self.ask(Task::Begin { writes }).map(drop)
    }

    /// Ends it; what was written is kept where it `commits`.
    pub(crate) fn end(&mut self, commits: bool) -> Result<(), DatabaseFault> {
        self.ask(Task::End { commits }).map(drop)
    }

    pub(crate) fn execute(
        &mut self,
        sql: &str,
        values: &[StateValue],
    ) -> Result<u64, DatabaseFault> {
        match self.run(sql, values)? {
            Answer::Rows(_, changed) => Ok(changed),
            Answer::Done => Ok(0),
        }
    }

    pub(crate) fn query(
        &mut self,
        sql: &str,
        values: &[StateValue],
    ) -> Result<Vec<StateRow>, DatabaseFault> {
        match self.run(sql, values)? {
            Answer::Rows(rows, _) => Ok(rows),
            Answer::Done => Ok(Vec::new()),
        }
    }

    /// How many transactions of all servers have written.
    pub(crate) fn read_writes(&mut self) -> Result<u64, DatabaseFault> {
        self.begin(false)?;
        let rows = self.query("SELECT count FROM writes", &[]);
        self.end(false)?;
        let count = rows?.first().map(|row| row.integer(0)).transpose()?;
        Ok(count.unwrap_or_default().cast_unsigned())
    }

    fn run(&mut self, sql: &str, values: &[StateValue]) -> Result<Answer, DatabaseFault> {
        let sql = translate_parameters(sql);
        let values = values.to_vec();
        self.ask(Task::Run { sql, values })
    }

    fn ask(&mut self, task: Task) -> Result<Answer, DatabaseFault> {
        let gone = || DatabaseFault("the session with the state's database has ended".to_owned());
        let (answer, answered) = mpsc::channel();
        self.jobs.send(Job { task, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

/// `?1` as PostgreSQL writes it.
fn translate_parameters(sql: &str) -> String {
    sql.replace('?', "$")
}

/// A script that makes tables, as PostgreSQL reads it.
fn translate_tables(script: &str) -> String {
    let script = script
        .replace(
            "id INTEGER PRIMARY KEY",
            "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        )
        .replace(" INTEGER", " bigint")
        .replace(" BLOB", " bytea")
        .replace(") STRICT;", ");");
    format!("{script}\n")
}

/// Does jobs as long as somebody can ask for more.
async fn drive(config: &PostgresConfig, mut jobs: UnboundedReceiver<Job>) {
    let mut session = None;
    while let Some(Job { task, answer }) = jobs.recv().await {
        let done = match timeout(LONGEST, work(config, &mut session, task)).await {
            Ok(done) => done,
            Err(_) => Err(DatabaseFault(
                "the state's database does not answer".to_owned(),
            )),
        };
        if done.is_err() {
            // Whatever it was amid, the server takes it back.
            session = None;
        }
        // Who asked may be gone.
        let _ = answer.send(done);
    }
}

async fn work(
    config: &PostgresConfig,
    session: &mut Option<Client>,
    task: Task,
) -> Result<Answer, DatabaseFault> {
    let fault = |error: palisade_postgres::tokio_postgres::Error| {
        DatabaseFault(match error.as_db_error() {
            Some(error) => error.message().to_owned(),
            None => error.to_string(),
        })
    };
    if let Task::Begin { writes } = task {
        let client = match session.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let connected = connect_by(config).await;
                connected.map_err(|error| DatabaseFault(error.to_string()))?
            }
        };
        let begun = client.batch_execute(&begin(writes)).await;
        begun.map_err(fault)?;
        *session = Some(client);
        return Ok(Answer::Done);
    }
    // What is amid a transaction that is lost cannot go on in another session.
    let lost = || DatabaseFault("the session with the state's database was lost".to_owned());
    let client = session.as_ref().ok_or_else(lost)?;
    match task {
        Task::Begin { writes: _ } => Ok(Answer::Done),
        Task::Run { sql, values } => {
            let values: Vec<(&(dyn ToSql + Sync), Type)> = (values.iter())
                .map(|value| (value as _, type_of(value)))
                .collect();
            let is_query = sql.trim_start().starts_with("SELECT");
            if is_query {
                let rows = client.query_typed(&sql, &values).await.map_err(fault)?;
                let rows: Result<Vec<StateRow>, _> = rows.iter().map(read_row).collect();
                return Ok(Answer::Rows(rows?, 0));
            }
            let changed = client.execute_typed(&sql, &values).await.map_err(fault)?;
            Ok(Answer::Rows(Vec::new(), changed))
        }
        Task::Batch(script) => {
            client.batch_execute(&script).await.map_err(fault)?;
            Ok(Answer::Done)
        }
        Task::End { commits } => {
            let end = match commits {
                true => "UPDATE writes SET count = count + 1; COMMIT",
                false => "ROLLBACK",
            };
            client.batch_execute(end).await.map_err(fault)?;
            Ok(Answer::Done)
        }
    }
}

/// The statements that begin a transaction. A session that an earlier one was left open in begins anew.
fn begin(writes: bool) -> String {
    let (mode, lock) = match writes {
        true => (
            "READ COMMITTED READ WRITE",
            format!("; SELECT pg_catalog.pg_advisory_xact_lock({LOCK})"),
        ),
        false => ("REPEATABLE READ READ ONLY", String::new()),
    };
    let patience = PATIENCE.as_millis();
    format!(
        "ROLLBACK; BEGIN ISOLATION LEVEL {mode}; SET LOCAL search_path = {SCHEMA}, pg_temp; SET LOCAL synchronous_commit = on; \
         SET LOCAL statement_timeout = {patience}; SET LOCAL lock_timeout = {patience}{lock}"
    )
}

fn type_of(value: &StateValue) -> Type {
    match value {
        // The server takes the type of what it stands for.
        StateValue::Null => Type::UNKNOWN,
        StateValue::Integer(_) => Type::INT8,
        StateValue::Text(_) => Type::TEXT,
        StateValue::Bytes(_) => Type::BYTEA,
    }
}

impl ToSql for StateValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn read_row(row: &Row) -> Result<StateRow, DatabaseFault> {
    let cells = row.columns().iter().enumerate().map(|(at, column)| {
        let fault =
            |error: palisade_postgres::tokio_postgres::Error| DatabaseFault(error.to_string());
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map_err(fault)?.into(),
            Type::TEXT => {
                let text = row.try_get::<_, Option<&str>>(at).map_err(fault)?;
                text.into()
            }
            Type::BYTEA => {
                let bytes = row.try_get::<_, Option<Vec<u8>>>(at).map_err(fault)?;
                bytes.into()
            }
            _ => return Err(DatabaseFault(format!("column {} has another type", at + 1))),
        })
    });
    cells.collect::<Result<_, _>>().map(StateRow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_parameters_are_translated() {
        let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, b BLOB) STRICT;";
        assert_eq!(
            translate_tables(script),
            "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n bigint NOT NULL, b bytea);\n"
        );
        assert_eq!(
            translate_parameters("a = ?1 AND b = ?12"),
            "a = $1 AND b = $12"
        );
    }
}
