//! PostgreSQL: one throw-away server, a database for each schema.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use palisade::{
    catalog::Catalog,
    guard::{Backend as _, BackendError},
    rewrite::RewrittenStatement,
    value::Value,
};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::PostgresServer;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, SimpleQueryMessage, types::Type};

use crate::{
    answer::Answer,
    engine::{Database, Engine},
};

/// The account that reads, which the backend takes where it would not take a superuser.
const READER: &str = "eval_reader";

/// Makes it. The dumps hold no grants.
const MAKE_READER: &str = "CREATE ROLE eval_reader LOGIN; GRANT pg_read_all_data TO eval_reader;";

/// The server, started when the first schema needs it; it ends with the process.
pub(crate) struct Postgres;

impl Engine for Postgres {
    fn load(&self, schema: &str, script: &str) -> Result<Box<dyn Database>, String> {
        let server = server()?;
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
        let url = server.url_as(READER, &name);
        let config = PostgresConfig::from_url(&url)
            .map_err(|e| failed(&e))?
            .connections(1, 1);
        let client = runtime
            .block_on(palisade_postgres::connect(&url))
            .map_err(|e| failed(&e))?;
        let backend = runtime
            .block_on(PostgresBackend::connect(config))
            .map_err(|e| failed(&e))?;
        Ok(Box::new(PostgresDatabase {
            server,
            name,
            runtime,
            client,
            backend,
        }))
    }
}

/// The server with its reader.
fn server() -> Result<&'static PostgresServer, String> {
    static SERVER: OnceLock<Result<&'static PostgresServer, String>> = OnceLock::new();
    SERVER
        .get_or_init(|| {
            let server = PostgresServer::start_shared().map_err(|error| error.to_string())?;
            server
                .query("postgres", MAKE_READER)
                .map_err(|error| error.to_string())?;
            Ok(server)
        })
        .clone()
}

struct PostgresDatabase {
    server: &'static PostgresServer,
    name: String,
    runtime: Runtime,
    /// The bare driver.
    client: Client,
    backend: PostgresBackend,
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
        Ok(self.backend.catalog().clone())
    }

    fn original(&self, sql: &str, timeout: Duration) -> Result<Answer, String> {
        self.runtime
            .block_on(async {
                let client = &self.client;
                // Points in time are printed in the zone of the session, which the backend pins.
                let opening = format!(
                    "BEGIN; SET LOCAL statement_timeout = {}; SET LOCAL TimeZone = 'UTC'",
                    timeout.as_millis()
                );
                client.batch_execute(&opening).await?;
                let result = query(client, sql).await;
                client.batch_execute("ROLLBACK").await?;
                result
            })
            .map_err(|error| message(&error))
    }

    fn rewritten(&self, statement: &Arc<RewrittenStatement>) -> Result<Answer, BackendError> {
        let mut answer = Answer::default();
        self.runtime.block_on(
            self.backend
                .execute(palisade::danger::ticket(statement), &mut answer),
        )?;
        Ok(answer)
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
