//! Real database servers for tests: started in a temporary folder on a free port of 127.0.0.1, and
//! gone, process and folder, when they are dropped or when the test process ends in any way.
//!
//! A test binary shares one server and gives each test a database:
//!
//! ```no_run
//! # use palisade_testkit::servers::{PostgresServer, ServerError};
//! # fn main() -> Result<(), ServerError> {
//! let server = PostgresServer::start_shared()?;
//! let database = server.fresh_database("masks")?;
//! server.load(&database, "CREATE TABLE t (a int); INSERT INTO t VALUES (1);")?.clean()?;
//! assert_eq!(server.query(&database, "SELECT a FROM t")?, "1");
//! let url = server.url(&database);
//! # let _ = url;
//! # Ok(())
//! # }
//! ```
//!
//! The programs are those of the machine or what `cargo xtask test` fetched; a test that cannot have
//! its server fails. PostgreSQL 18, MySQL 9, PgBouncer and Galera cannot be had everywhere: a test over them has
//! `postgres_18`, `mysql_9`, `pgbouncer` or `galera` in its name and `#[ignore = "needs MySQL 9: cargo xtask test runs it"]`
//! or the like. Plain `cargo test` counts it as ignored; `cargo xtask test` runs it where the server
//! can be had, and prints `NOT RUN` where it cannot.
//!
//! No account has a password: these servers contain no data of value, live for seconds and
//! listen on this machine only.

mod account;
mod cutting;
mod error;
mod find;
mod galera;
mod losing;
mod mysql;
mod pgbouncer;
mod postgres;
mod process;
mod server;
mod template;

use std::{ops::Deref, sync::OnceLock};

use self::find::Kind;
pub(crate) use self::find::{libraries, tools};
pub use self::{
    cutting::CuttingProxy,
    error::ServerError,
    galera::GaleraCluster,
    losing::LosingProxy,
    server::{Loaded, Script, Server},
};

/// PostgreSQL 15 or later. Durability and autovacuum are off, the locale is `C`, the encoding UTF-8.
#[derive(Debug)]
pub struct PostgresServer(Server);

/// MariaDB 10.11 or later. No binary log, no performance schema, utf8mb4, `LOAD DATA LOCAL` off.
#[derive(Debug)]
pub struct MariaDbServer(Server);

impl PostgresServer {
    /// Starts a server of its own.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// Starts a server of its own with more settings, such as `shared_preload_libraries=pg_stat_statements`.
    ///
    /// # Errors
    /// As [`PostgresServer::start`]; a setting that the server does not know is among the reasons.
    pub fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        Server::start(postgres::engine(Kind::Postgres, settings)?).map(Self)
    }

    /// Starts a standby of `primary`, which follows it by streaming replication.
    ///
    /// # Errors
    /// As [`PostgresServer::start`]; or if `primary` gives no copy of its data.
    pub fn start_standby(primary: &Self) -> Result<Self, ServerError> {
        Server::start(postgres::standby(Kind::Postgres, primary.port())?).map(Self)
    }

    /// Starts PostgreSQL 18, which is optional: see [the module](self).
    ///
    /// # Errors
    /// If it was not fetched or does not start.
    pub fn start_second() -> Result<Self, ServerError> {
        Server::start(postgres::engine(Kind::SecondPostgres, &[])?).map(Self)
    }

    /// The server that all tests of this binary share; it ends with the process.
    ///
    /// # Errors
    /// As [`PostgresServer::start`]; the first failure is remembered.
    pub fn start_shared() -> Result<&'static Self, ServerError> {
        static SERVER: OnceLock<Result<PostgresServer, ServerError>> = OnceLock::new();
        SERVER
            .get_or_init(Self::start)
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// MySQL 9, which is optional: see [the module](self). No binary log, X protocol or performance
/// schema, utf8mb4, `LOAD DATA LOCAL` off.
#[derive(Debug)]
pub struct MySqlServer(Server);

impl MySqlServer {
    /// Starts a server of its own.
    ///
    /// # Errors
    /// If MySQL was not fetched or does not start.
    pub fn start() -> Result<Self, ServerError> {
        Server::start(mysql::mysql()?).map(Self)
    }

    /// The server that all tests of this binary share; it ends with the process.
    ///
    /// # Errors
    /// As [`MySqlServer::start`]; the first failure is remembered.
    pub fn start_shared() -> Result<&'static Self, ServerError> {
        static SERVER: OnceLock<Result<MySqlServer, ServerError>> = OnceLock::new();
        SERVER
            .get_or_init(Self::start)
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// PgBouncer in transaction mode, which is optional: see [the module](self). No account has a password.
#[derive(Debug)]
pub struct PgBouncer(Server);

impl PgBouncer {
    /// Starts one before `server`, for the accounts `users`, with more `lines` of its section `[pgbouncer]`.
    ///
    /// # Errors
    /// If PgBouncer was not fetched or does not start.
    pub fn start_before(
        server: &Server,
        users: &[&str],
        lines: &[&str],
    ) -> Result<Self, ServerError> {
        Server::start(pgbouncer::engine(server.port(), users, lines)?).map(Self)
    }
}

impl Deref for PgBouncer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Deref for MySqlServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl MariaDbServer {
    /// Starts a server of its own.
    ///
    /// # Errors
    /// If MariaDB is not installed or does not start.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// Starts a server of its own with more options, such as `--ssl-cert=FILE`.
    ///
    /// # Errors
    /// As [`MariaDbServer::start`]; an option that the server does not know is among the reasons.
    pub fn start_with(options: &[&str]) -> Result<Self, ServerError> {
        Server::start(mysql::mariadb(options)?).map(Self)
    }

    /// The server that all tests of this binary share; it ends with the process.
    ///
    /// # Errors
    /// As [`MariaDbServer::start`]; the first failure is remembered.
    pub fn start_shared() -> Result<&'static Self, ServerError> {
        static SERVER: OnceLock<Result<MariaDbServer, ServerError>> = OnceLock::new();
        SERVER
            .get_or_init(Self::start)
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl Deref for PostgresServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Deref for MariaDbServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
