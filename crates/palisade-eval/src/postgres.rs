//! PostgreSQL: one throw-away server, a database for each schema.

use std::time::Duration;

use palisade::{
    catalog::Catalog,
    guard::{BackendError, BackendErrorKind},
    rewrite::RewrittenStatement,
    value::Value,
};
use palisade_testkit::servers::PostgresServer;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, SimpleQueryMessage, error::SqlState, types::Type};

use crate::{
    answer::Answer,
    engine::{Database, Engine},
};

/// The server, started when the first schema needs it; it ends with the process.
pub(crate) struct Postgres;

impl Engine for Postgres {
    fn load(&self, schema: &str, script: &str) -> Result<Box<dyn Database>, String> {
        let server = PostgresServer::shared().map_err(|error| error.to_string())?;
        let failed = |error: &dyn std::error::Error| format!("the schema does not load: {error}");
        let name = server.fresh_database(schema).map_err(|e| failed(&e))?;
        // Statements that fail are tolerated, as in the README's way of loading; a query that misses
        // what they should have made fails on the bare driver and shows.
        let loaded = server.load(&name, script).map_err(|e| failed(&e))?;
        if let Some(first) = loaded.failures.first() {
            let count = loaded.failures.len();
            eprintln!("{schema}: {count} statements of the schema fail, the first: {first}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| failed(&e))?;
        let client = runtime
            .block_on(palisade_postgres::connect(&server.url(&name)))
            .map_err(|e| failed(&e))?;
        Ok(Box::new(PostgresDatabase {
            server,
            name,
            runtime,
            client,
        }))
    }
}

struct PostgresDatabase {
    server: &'static PostgresServer,
    name: String,
    runtime: Runtime,
    client: Client,
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let name = self.name.replace('"', "\"\"");
        // It goes with the server at the latest.
        let _ = self.server.query(
            "postgres",
            &format!("DROP DATABASE \"{name}\" WITH (FORCE);"),
        );
    }
}

impl Database for PostgresDatabase {
    fn catalog(&self) -> Result<Catalog, String> {
        self.runtime
            .block_on(palisade_postgres::catalog(&self.client))
            .map_err(|error| format!("there is no catalog: {error}"))
    }

    fn original(&self, sql: &str, timeout: Duration) -> Result<Answer, String> {
        self.run("BEGIN", sql, timeout).map_err(|e| message(&e))
    }

    fn rewritten(&self, statement: &RewrittenStatement) -> Result<Answer, BackendError> {
        let timeout = statement.limits().statement_timeout();
        self.run("BEGIN READ ONLY", statement.sql(), timeout)
            .map_err(|error| BackendError {
                kind: kind(&error),
                detail: message(&error),
            })
    }
}

impl PostgresDatabase {
    fn run(
        &self,
        begin: &str,
        sql: &str,
        timeout: Duration,
    ) -> Result<Answer, tokio_postgres::Error> {
        self.runtime.block_on(async {
            let client = &self.client;
            let setting = format!(
                "{begin}; SET LOCAL statement_timeout = {}; SET LOCAL TimeZone = 'UTC'",
                timeout.as_millis()
            );
            client.batch_execute(&setting).await?;
            let result = query(client, sql).await;
            client.batch_execute("ROLLBACK").await?;
            result
        })
    }
}

async fn query(client: &Client, sql: &str) -> Result<Answer, tokio_postgres::Error> {
    let prepared = client.prepare(sql).await?;
    let types: Vec<Type> = prepared
        .columns()
        .iter()
        .map(|column| column.type_().clone())
        .collect();
    let mut answer = Answer {
        columns: prepared
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .collect(),
        rows: Vec::new(),
    };
    for part in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = part {
            let cells = types
                .iter()
                .enumerate()
                .map(|(index, of)| value(of, row.get(index)))
                .collect();
            answer.rows.push(cells);
        }
    }
    Ok(answer)
}

/// A cell as the backend gives it, from the text that the server prints.
fn value(of: &Type, text: Option<&str>) -> Value {
    let Some(text) = text else {
        return Value::Null;
    };
    let plain = || Value::text(text);
    match *of {
        Type::BOOL => Value::Bool(text == "t"),
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => {
            text.parse().map_or_else(|_| plain(), Value::Integer)
        }
        Type::FLOAT4 | Type::FLOAT8 => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Real(number),
            Ok(_) | Err(_) => plain(),
        },
        _ => plain(),
    }
}

fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} {}", error.code().code(), error.message()),
        None => error.to_string(),
    }
}

fn kind(error: &tokio_postgres::Error) -> BackendErrorKind {
    let Some(state) = error.code().map(SqlState::code) else {
        return BackendErrorKind::Unavailable;
    };
    match state.get(..2) {
        _ if state == SqlState::QUERY_CANCELED.code() => BackendErrorKind::Timeout,
        Some("53" | "54") => BackendErrorKind::Resource,
        Some("08") => BackendErrorKind::Unavailable,
        Some("25") => BackendErrorKind::SecondLock,
        Some(_) | None => BackendErrorKind::Rejected,
    }
}
