//! The databases of cases, on PostgreSQL.

use palisade::{catalog::Catalog, value::Value};
use palisade_postgres::{PostgresBackend, PostgresConfig, connect_by};
use tokio_postgres::{Client, SimpleQueryMessage, error::ErrorPosition, types::Type};

use crate::{
    fixture::Bare,
    server::ServerEngine,
    test_server::{TestServer, with_database},
};

/// How databases of cases are made on it.
pub(crate) struct Postgres;

impl ServerEngine for Postgres {
    type Backend = PostgresBackend;

    const IS_NAMED_IN_STATEMENTS: bool = false;

    fn catalog(backend: &PostgresBackend) -> &Catalog {
        backend.catalog()
    }

    async fn make(
        server: &TestServer,
        script: &str,
        (name, is_writable): (&str, bool),
    ) -> Result<PostgresBackend, String> {
        make(server, script, name, is_writable).await
    }

    async fn drop(server: &TestServer, name: &str) {
        drop_database(server, name).await;
    }

    async fn query(server: &TestServer, name: &str, sql: &str) -> Result<Bare, String> {
        let client = open(server, name).await?;
        query(&client, sql).await.map_err(|error| describe(&error))
    }

    async fn try_each(
        server: &TestServer,
        name: &str,
        statements: &[String],
    ) -> Result<Vec<bool>, String> {
        let client = open(server, name).await?;
        let mut taken = Vec::new();
        for statement in statements {
            let ran = client.batch_execute(statement).await;
            if client.is_closed() {
                return Err("the server closed the connection".to_owned());
            }
            taken.push(ran.is_ok());
        }
        Ok(taken)
    }
}

/// Logs in to the database `name` of `server`.
fn config(server: &TestServer, name: Option<&str>) -> Result<PostgresConfig, String> {
    let url = match name {
        Some(name) => with_database(&server.url, name).ok_or("the URL names no database")?,
        None => server.url.clone(),
    };
    let config = PostgresConfig::from_url(&url).map_err(|error| error.to_string())?;
    // The server holds nothing but tests, and is often a container with one account.
    let config = config.accept_superuser().connections(2, 8);
    Ok(match server.password()? {
        Some(password) => config.password(&password),
        None => config,
    })
}

async fn open(server: &TestServer, name: &str) -> Result<Client, String> {
    let client = connect_by(&config(server, Some(name))?)
        .await
        .map_err(|error| error.to_string())?;
    // Points in time are printed in the zone of the session, which the backend pins.
    client
        .batch_execute("SET TimeZone = 'UTC'")
        .await
        .map_err(|error| describe(&error))?;
    Ok(client)
}

async fn make(
    server: &TestServer,
    script: &str,
    name: &str,
    is_writable: bool,
) -> Result<PostgresBackend, String> {
    let admin = connect_by(&config(server, None)?)
        .await
        .map_err(|error| error.to_string())?;
    admin
        .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0"))
        .await
        .map_err(|error| describe(&error))?;
    let made = fill(server, script, name, is_writable).await;
    if made.is_err() {
        drop_database(server, name).await;
    }
    made
}

async fn fill(
    server: &TestServer,
    script: &str,
    name: &str,
    is_writable: bool,
) -> Result<PostgresBackend, String> {
    let client = open(server, name).await?;
    let script = blank_client_lines(script);
    client
        .batch_execute(&script)
        .await
        .map_err(|error| describe_in(&script, &error))?;
    // Costs and estimates are those of the rows that are there.
    client
        .batch_execute("ANALYZE")
        .await
        .map_err(|error| describe(&error))?;
    let config = config(server, Some(name))?;
    let config = if is_writable {
        config.writable()
    } else {
        config
    };
    PostgresBackend::connect(config)
        .await
        .map_err(|error| error.to_string())
}

/// `script` without the lines that `pg_dump` writes for the client around its statements, which no server understands.
/// Their line breaks stay, so that lines are those of the file.
fn blank_client_lines(script: &str) -> String {
    let is_clients = |line: &str| {
        let word = line.split_whitespace().next();
        line.starts_with('\\') && matches!(word, Some("\\restrict" | "\\unrestrict"))
    };
    let lines = script.split_inclusive('\n');
    let kept = lines.map(|line| match (is_clients(line), line.ends_with('\n')) {
        (true, true) => "\n",
        (true, false) => "",
        (false, _) => line,
    });
    kept.collect()
}

async fn drop_database(server: &TestServer, name: &str) {
    let Ok(config) = config(server, None) else {
        return;
    };
    if let Ok(admin) = connect_by(&config).await {
        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        let _ = admin.batch_execute(&drop).await;
    }
}

async fn query(client: &Client, sql: &str) -> Result<Bare, tokio_postgres::Error> {
    let prepared = client.prepare(sql).await?;
    let types: Vec<Type> = (prepared.columns().iter())
        .map(|column| column.type_().clone())
        .collect();
    let columns = (prepared.columns().iter())
        .map(|column| column.name().to_owned())
        .collect();
    let mut rows = Vec::new();
    for part in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = part {
            let cells = types.iter().enumerate();
            rows.push(cells.map(|(at, of)| value(of, row.get(at))).collect());
        }
    }
    Ok(Bare { columns, rows })
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

/// What the server says of a statement of `script`, with its line where the server tells it.
fn describe_in(script: &str, error: &tokio_postgres::Error) -> String {
    let told = describe(error);
    let position = error.as_db_error().and_then(|error| error.position());
    match position {
        Some(ErrorPosition::Original(at)) => format!("line {}: {told}", line_of(script, *at)),
        Some(ErrorPosition::Internal { .. }) | None => told,
    }
}

/// The line of the character at `position`, both from 1.
fn line_of(script: &str, position: u32) -> usize {
    let before = usize::try_from(position).unwrap_or(usize::MAX);
    let before = script.chars().take(before.saturating_sub(1));
    before.filter(|c| *c == '\n').count() + 1
}

/// What the server says.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} (SQLSTATE {})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_run_without_the_lines_of_its_client() {
        let dump = "-- a dump\n\\restrict aB3\n\nCREATE TABLE t (a text);\nINSERT INTO t VALUES ('\\restrict');\n\\unrestrict aB3";
        assert_eq!(
            blank_client_lines(dump),
            "-- a dump\n\n\nCREATE TABLE t (a text);\nINSERT INTO t VALUES ('\\restrict');\n"
        );
        // What else is for the client may lead to other files, and the server refuses it.
        assert_eq!(blank_client_lines("\\i other.sql\n"), "\\i other.sql\n");
    }

    #[test]
    fn a_position_is_told_as_a_line() {
        let script = "SELECT 'é';\nSELEC 1;";
        assert_eq!([1, 12, 13].map(|at| line_of(script, at)), [1, 1, 2]);
    }
}
