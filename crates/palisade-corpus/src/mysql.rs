//! The databases of cases, on MySQL and MariaDB.

use mysql_async::{Conn, Row, consts::ColumnType, prelude::Queryable as _};
use palisade::{catalog::Catalog, value::Value};
use palisade_mysql::{MysqlBackend, MysqlConfig, connect};

use crate::{
    fixture::Bare,
    server::ServerEngine,
    test_server::{TestServer, with_database},
};

/// The character set of bytes (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_character_set.html>).
const BINARY: u16 = 63;

/// A session as a script expects it: it writes, and has the server's own modes.
const WRITE: &str = "SET SESSION sql_mode = DEFAULT, SESSION lock_wait_timeout = DEFAULT; \
     SET SESSION TRANSACTION READ WRITE";

/// How databases of cases are made on it.
pub(crate) struct Mysql;

impl ServerEngine for Mysql {
    type Backend = MysqlBackend;

    const IS_NAMED_IN_STATEMENTS: bool = true;

    fn catalog(backend: &MysqlBackend) -> &Catalog {
        backend.catalog()
    }

    async fn make(
        server: &TestServer,
        script: &str,
        (name, is_writable): (&str, bool),
    ) -> Result<MysqlBackend, String> {
        make(server, script, name, is_writable).await
    }

    async fn drop(server: &TestServer, name: &str) {
        drop_database(server, name).await;
    }

    async fn query(server: &TestServer, name: &str, sql: &str) -> Result<Bare, String> {
        let config = config(server, Some(name))?;
        let mut conn = connect(&config).await.map_err(|error| error.to_string())?;
        query(&mut conn, sql)
            .await
            .map_err(|error| error.to_string())
    }

    async fn try_each(
        server: &TestServer,
        name: &str,
        statements: &[String],
    ) -> Result<Vec<bool>, String> {
        let mut conn = open_to_write(server, Some(name)).await?;
        let mut taken = Vec::new();
        for statement in statements {
            match conn.query_drop(statement).await {
                Ok(()) => taken.push(true),
                Err(mysql_async::Error::Server(_)) => taken.push(false),
                Err(other) => return Err(other.to_string()),
            }
        }
        Ok(taken)
    }
}

fn config(server: &TestServer, name: Option<&str>) -> Result<MysqlConfig, String> {
    let url = match name {
        Some(name) => with_database(&server.url, name).ok_or("the URL names no database")?,
        None => server.url.clone(),
    };
    let config = MysqlConfig::from_url(&url).map_err(|error| error.to_string())?;
    // The server holds nothing but tests, and is often a container with one account.
    let config = config.accept_powerful().connections(2, 8);
    Ok(match server.password()? {
        Some(password) => config.password(&password),
        None => config,
    })
}

async fn open_to_write(server: &TestServer, name: Option<&str>) -> Result<Conn, String> {
    let mut conn = connect(&config(server, name)?)
        .await
        .map_err(|error| error.to_string())?;
    conn.query_drop(WRITE)
        .await
        .map_err(|error| error.to_string())?;
    Ok(conn)
}

async fn make(
    server: &TestServer,
    script: &str,
    name: &str,
    is_writable: bool,
) -> Result<MysqlBackend, String> {
    let mut admin = open_to_write(server, None).await?;
    admin
        .query_drop(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"))
        .await
        .map_err(|error| error.to_string())?;
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
) -> Result<MysqlBackend, String> {
    let mut conn = open_to_write(server, Some(name)).await?;
    conn.query_drop(script)
        .await
        .map_err(|error| error.to_string())?;
    let config = config(server, Some(name))?;
    let config = if is_writable {
        config.writable()
    } else {
        config
    };
    MysqlBackend::connect(config)
        .await
        .map_err(|error| error.to_string())
}

async fn drop_database(server: &TestServer, name: &str) {
    if let Ok(mut admin) = open_to_write(server, None).await {
        let drop = format!("DROP DATABASE IF EXISTS {name}");
        let _ = admin.query_drop(drop).await;
    }
}

async fn query(conn: &mut Conn, sql: &str) -> Result<Bare, mysql_async::Error> {
    let mut result = conn.exec_iter(sql, ()).await?;
    let columns = (result.columns_ref().iter())
        .map(|column| column.name_str().into_owned())
        .collect();
    let rows: Vec<Row> = result.collect().await?;
    result.drop_result().await?;
    Ok(Bare {
        columns,
        rows: rows.into_iter().map(values).collect(),
    })
}

/// The cells of a row as the backend gives them.
fn values(row: Row) -> Vec<Value> {
    let columns = row.columns();
    (row.unwrap().into_iter().zip(columns.iter()))
        .map(|(cell, column)| match cell {
            mysql_async::Value::NULL => Value::Null,
            mysql_async::Value::Int(number) => Value::Integer(number),
            mysql_async::Value::UInt(number) => i64::try_from(number)
                .map_or_else(|_| Value::text(number.to_string()), Value::Integer),
            mysql_async::Value::Float(number) => {
                Value::Real(number.to_string().parse().unwrap_or_default())
            }
            mysql_async::Value::Double(number) => Value::Real(number),
            mysql_async::Value::Bytes(bytes) => match column.column_type() {
                ColumnType::MYSQL_TYPE_BIT => {
                    let number = bytes.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
                    i64::try_from(number)
                        .map_or_else(|_| Value::text(number.to_string()), Value::Integer)
                }
                ColumnType::MYSQL_TYPE_DECIMAL
                | ColumnType::MYSQL_TYPE_NEWDECIMAL
                | ColumnType::MYSQL_TYPE_JSON => Value::Text(bytes),
                _ if column.character_set() == BINARY => Value::Blob(bytes),
                _ => Value::Text(bytes),
            },
            mysql_async::Value::Date(year, month, day, h, m, s, micros) => {
                let date = format!("{year:04}-{month:02}-{day:02}");
                match column.column_type() {
                    ColumnType::MYSQL_TYPE_DATE => Value::text(date),
                    _ => Value::text(format!(
                        "{date} {h:02}:{m:02}:{s:02}{}",
                        print_fraction(micros, column.decimals())
                    )),
                }
            }
            mysql_async::Value::Time(is_negative, days, h, m, s, micros) => Value::text(format!(
                "{}{:02}:{m:02}:{s:02}{}",
                if is_negative { "-" } else { "" },
                days * 24 + u32::from(h),
                print_fraction(micros, column.decimals())
            )),
        })
        .collect()
}

/// So many digits after the point of seconds; if that is not fixed, as many as there are.
fn print_fraction(micros: u32, digits: u8) -> String {
    match usize::from(digits) {
        0 => String::new(),
        n @ 1..=6 => format!(".{micros:06}").chars().take(n + 1).collect(),
        _ if micros == 0 => String::new(),
        _ => format!(".{micros:06}"),
    }
}
