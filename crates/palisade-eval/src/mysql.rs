//! MySQL, as MariaDB speaks it: one throw-away server, a database for each schema.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Row, consts::ColumnType, prelude::Queryable as _};
use palisade::{
    catalog::Catalog,
    guard::{Backend as _, BackendError},
    rewrite::RewrittenStatement,
    value::Value,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::MariaDbServer;
use tokio::{runtime::Runtime, sync::Mutex};

use crate::{
    answer::Answer,
    engine::{Database, Engine},
};

/// The character set of bytes (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_character_set.html>).
const BINARY: u16 = 63;

/// The server, started when the first schema needs it; it ends with the process.
pub(crate) struct Mysql;

impl Engine for Mysql {
    fn load(&self, schema: &str, script: &str) -> Result<Box<dyn Database>, String> {
        let server = MariaDbServer::start_shared().map_err(|error| error.to_string())?;
        let failed = |error: &dyn std::error::Error| format!("the schema does not load: {error}");
        // The statements of this schema name their database.
        let name = if schema == "gms__main" {
            server.create_database("mydb").map_err(|e| failed(&e))?;
            "mydb".to_owned()
        } else {
            server.fresh_database(schema).map_err(|e| failed(&e))?
        };
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
        let url = server.url(&name);
        // The superuser: views and their definitions are whole, as they would be to their owner.
        let config = MysqlConfig::from_url(&url)
            .map_err(|e| failed(&e))?
            .accept_powerful();
        let backend = runtime
            .block_on(MysqlBackend::connect(config))
            .map_err(|e| format!("there is no catalog: {e}"))?;
        let conn = runtime
            .block_on(Conn::from_url(&url))
            .map_err(|e| failed(&e))?;
        Ok(Box::new(MysqlDatabase {
            server,
            name,
            conn: Mutex::new(conn),
            backend,
            runtime,
        }))
    }
}

struct MysqlDatabase {
    server: &'static MariaDbServer,
    name: String,
    conn: Mutex<Conn>,
    backend: MysqlBackend,
    // Last: connections end in it.
    runtime: Runtime,
}

impl Drop for MysqlDatabase {
    fn drop(&mut self) {
        let name = self.name.replace('`', "``");
        // It goes with the server at the latest.
        let _ = self
            .server
            .query("mysql", &format!("DROP DATABASE `{name}`;"));
    }
}

impl Database for MysqlDatabase {
    fn catalog(&self) -> Result<Catalog, String> {
        Ok(self.backend.catalog().clone())
    }

    fn original(&self, sql: &str, timeout: Duration) -> Result<Answer, String> {
        self.bare(sql, timeout).map_err(|error| error.to_string())
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

impl MysqlDatabase {
    fn bare(&self, sql: &str, timeout: Duration) -> Result<Answer, mysql_async::Error> {
        self.runtime.block_on(async {
            let mut conn = self.conn.lock().await;
            // A statement may have set variables.
            conn.reset().await?;
            conn.query_drop(format!(
                "USE `{}`; SET SESSION time_zone = '+00:00', max_statement_time = {}; \
                 START TRANSACTION",
                self.name.replace('`', "``"),
                timeout.as_secs_f64(),
            ))
            .await?;
            let result = query(&mut conn, sql).await;
            conn.query_drop("ROLLBACK").await?;
            result
        })
    }
}

async fn query(conn: &mut Conn, sql: &str) -> Result<Answer, mysql_async::Error> {
    let mut result = conn.exec_iter(sql, ()).await?;
    let columns = result
        .columns_ref()
        .iter()
        .map(|column| column.name_str().into_owned())
        .collect();
    let rows: Vec<Row> = result.collect().await?;
    result.drop_result().await?;
    Ok(Answer {
        columns,
        rows: rows.into_iter().map(values).collect(),
    })
}

/// The cells of a row as the backend gives them.
fn values(row: Row) -> Vec<Value> {
    let columns = row.columns();
    row.unwrap()
        .into_iter()
        .zip(columns.iter())
        .map(|(cell, column)| match cell {
            mysql_async::Value::NULL => Value::Null,
            mysql_async::Value::Int(n) => Value::Integer(n),
            mysql_async::Value::UInt(n) => {
                i64::try_from(n).map_or_else(|_| Value::text(n.to_string()), Value::Integer)
            }
            mysql_async::Value::Float(n) => Value::Real(n.to_string().parse().unwrap_or_default()),
            mysql_async::Value::Double(n) => Value::Real(n),
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
                        fraction(micros, column.decimals())
                    )),
                }
            }
            mysql_async::Value::Time(negative, days, h, m, s, micros) => Value::text(format!(
                "{}{:02}:{m:02}:{s:02}{}",
                if negative { "-" } else { "" },
                days * 24 + u32::from(h),
                fraction(micros, column.decimals())
            )),
        })
        .collect()
}

/// So many digits after the point of seconds; if that is not fixed, as many as there are.
fn fraction(micros: u32, digits: u8) -> String {
    match usize::from(digits) {
        0 => String::new(),
        n @ 1..=6 => format!(".{micros:06}").chars().take(n + 1).collect(),
        _ if micros == 0 => String::new(),
        _ => format!(".{micros:06}"),
    }
}
