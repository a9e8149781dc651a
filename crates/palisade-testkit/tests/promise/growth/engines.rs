//! How long engines take to prepare what the firewall lets through.

use std::{fs, ops::Deref, thread, time::Duration};

use palisade::dialect::Dialect;
use palisade_testkit::servers::{MariaDbServer, PostgresServer, Server};
use rusqlite::{Connection, limits::Limit};

use super::{SCHEMA, own_time};

/// The database, as catalogs call it.
pub(crate) const DATABASE: &str = "growth";

/// Ticks of the processor's time in a second, as Linux counts them for processes.
const TICKS: u64 = 100;

/// An engine with the tables of [`SCHEMA`].
pub(crate) enum Engine {
    Sqlite(Box<Connection>),
    /// A server that no other test uses: the time of its processes is measured.
    Server(Box<dyn Deref<Target = Server>>, Dialect),
}

impl Engine {
    pub(crate) fn sqlite() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        // As the backend's.
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 16 * 1024 * 1024),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 1000),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 500),
            (Limit::SQLITE_LIMIT_VDBE_OP, 100_000),
        ] {
            connection.set_limit(limit, value).unwrap();
        }
        Self::Sqlite(Box::new(connection))
    }

    pub(crate) fn postgres() -> Self {
        Self::server(PostgresServer::start().unwrap(), Dialect::Postgres)
    }

    pub(crate) fn mariadb() -> Self {
        Self::server(MariaDbServer::start().unwrap(), Dialect::Mysql)
    }

    fn server(server: impl Deref<Target = Server> + 'static, dialect: Dialect) -> Self {
        server.create_database(DATABASE).unwrap();
        let loaded = server.load(DATABASE, SCHEMA).unwrap();
        assert!(loaded.clean().is_ok());
        Self::Server(Box::new(server), dialect)
    }

    /// How long `sql` takes to be prepared, and what is said of it where it is not.
    pub(crate) fn prepare(&self, sql: &str) -> (Duration, String) {
        match self {
            Self::Sqlite(connection) => {
                let start = own_time();
                let prepared = connection.prepare(sql).map(drop);
                let took = own_time() - start;
                (
                    took,
                    prepared
                        .err()
                        .map_or_else(String::new, |why| shortened(&why.to_string())),
                )
            }
            Self::Server(server, dialect) => {
                let has_parameters = match dialect {
                    Dialect::Postgres => sql.contains("$1"),
                    Dialect::Mysql | Dialect::Sqlite => sql.contains('?'),
                };
                // What the server plans, it explains; with parameters it reads it alone. As the backends do, a time is set
                // for that.
                let asked = match (has_parameters, dialect) {
                    (false, Dialect::Postgres) => {
                        format!("SET statement_timeout = 5000; EXPLAIN {sql}")
                    }
                    (false, Dialect::Mysql | Dialect::Sqlite) => {
                        format!("SET max_statement_time = 5; EXPLAIN {sql}")
                    }
                    (true, Dialect::Postgres) => format!("PREPARE p AS {sql}"),
                    (true, Dialect::Mysql | Dialect::Sqlite) => {
                        let text = sql.replace('\\', "\\\\").replace('\'', "''");
                        format!("PREPARE p FROM '{text}'")
                    }
                };
                let start = server_time(server);
                let asked = server.query(DATABASE, &asked);
                // A session's time is counted when its process has ended.
                thread::sleep(Duration::from_millis(20));
                let took = server_time(server).saturating_sub(start);
                (
                    took,
                    asked
                        .err()
                        .map_or_else(String::new, |why| shortened(&why.to_string())),
                )
            }
        }
    }
}

fn shortened(text: &str) -> String {
    let end = text.find("ERROR").unwrap_or_default();
    text.chars()
        .skip(end)
        .take(70)
        .collect::<String>()
        .replace('\n', " ")
}

/// Time of the processor that a server has taken, with those of its processes that have ended.
fn server_time(server: &Server) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.process_id())).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    // utime, stime, cutime, cstime: the 14th to the 17th of all, of which two stand before.
    let ticks: u64 = fields
        .skip(11)
        .take(4)
        .map(|n| n.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}
