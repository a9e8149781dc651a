//! A database for one test: filled by a script, opened as a backend, and read without the gate.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{fmt, path::PathBuf};

use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer, Server, ServerError};
use tempfile::TempDir;

/// A database of its own on a server that the tests of the binary share. As text it is its name, which on MySQL is that of
/// its schema too.
pub(crate) struct TestDatabase<'s> {
    server: &'s Server,
    name: String,
}

impl TestDatabase<'static> {
    /// As [`TestDatabase::on`] the shared PostgreSQL.
    pub(crate) fn postgres(label: &str, script: &str) -> Self {
        Self::on(PostgresServer::start_shared().unwrap(), label, script)
    }

    /// As [`TestDatabase::on`] the shared MariaDB.
    pub(crate) fn mariadb(label: &str, script: &str) -> Self {
        Self::on(MariaDbServer::start_shared().unwrap(), label, script)
    }

    /// As [`TestDatabase::on`] the shared MySQL.
    pub(crate) fn mysql(label: &str, script: &str) -> Self {
        Self::on(MySqlServer::start_shared().unwrap(), label, script)
    }
}

impl<'s> TestDatabase<'s> {
    /// A new database of `server`, whose name begins with `label`, after `script`.
    pub(crate) fn on(server: &'s Server, label: &str, script: &str) -> Self {
        let name = server.fresh_database(label).unwrap();
        let database = Self { server, name };
        database.load(script);
        database
    }

    pub(crate) fn server(&self) -> &'s Server {
        self.server
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// For the superuser.
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// For an account of its own, as [`TestDatabase::url`].
    pub(crate) fn url_as(&self, account: &str) -> String {
        self.server.url_as(account, &self.name)
    }

    /// As [`TestDatabase::url`], over another port: that of a proxy.
    pub(crate) fn url_through(&self, port: u16) -> String {
        let own = format!(":{}/", self.server.port());
        self.url().replace(&own, &format!(":{port}/"))
    }

    /// The output of the server's own client for `sql`, which the superuser runs.
    pub(crate) fn query(&self, sql: &str) -> String {
        self.try_query(sql).unwrap()
    }

    /// As [`TestDatabase::query`].
    ///
    /// # Errors
    /// If a statement fails.
    pub(crate) fn try_query(&self, sql: &str) -> Result<String, ServerError> {
        self.server.query(&self.name, sql)
    }

    /// Runs every statement of `script`.
    pub(crate) fn load(&self, script: &str) {
        self.try_load(script).unwrap();
    }

    /// As [`TestDatabase::load`].
    ///
    /// # Errors
    /// If a statement fails.
    pub(crate) fn try_load(&self, script: &str) -> Result<(), ServerError> {
        self.server.load(&self.name, script).unwrap().clean()
    }

    /// A backend that may change rows, if the database is PostgreSQL's. It has one connection, and another that looks
    /// at the schema.
    pub(crate) async fn postgres_backend(&self) -> PostgresBackend {
        Self::connect_postgres(&self.url()).await
    }

    /// As [`TestDatabase::postgres_backend`], by this URL of the superuser's.
    pub(crate) async fn connect_postgres(url: &str) -> PostgresBackend {
        let config = PostgresConfig::from_url(url).unwrap().accept_superuser();
        let config = config.writable().connections(1, 8);
        PostgresBackend::connect(config).await.unwrap()
    }

    /// The engine without the gate, if the database is PostgreSQL's.
    pub(crate) async fn postgres_client(&self) -> tokio_postgres::Client {
        palisade_postgres::connect(&self.url()).await.unwrap()
    }

    /// A backend that only reads, if the database is PostgreSQL's.
    pub(crate) async fn postgres_reader(&self) -> PostgresBackend {
        PostgresBackend::connect(self.postgres_config())
            .await
            .unwrap()
    }

    /// A backend that may change rows, if the database is MySQL's or MariaDB's.
    pub(crate) async fn mysql_backend(&self) -> MysqlBackend {
        Self::connect_mysql(&self.url()).await
    }

    /// As [`TestDatabase::mysql_backend`], by this URL of the superuser's.
    pub(crate) async fn connect_mysql(url: &str) -> MysqlBackend {
        let config = MysqlConfig::from_url(url).unwrap().accept_powerful();
        MysqlBackend::connect(config.writable()).await.unwrap()
    }

    /// The engine without the gate, if the database is MySQL's or MariaDB's.
    pub(crate) async fn mysql_client(&self) -> mysql_async::Conn {
        let options = mysql_async::Opts::from_url(&self.url()).unwrap();
        mysql_async::Conn::new(options).await.unwrap()
    }

    /// A backend that only reads, if the database is MySQL's or MariaDB's.
    pub(crate) async fn mysql_reader(&self) -> MysqlBackend {
        MysqlBackend::connect(self.mysql_config()).await.unwrap()
    }

    fn postgres_config(&self) -> PostgresConfig {
        PostgresConfig::from_url(&self.url())
            .unwrap()
            .accept_superuser()
    }

    fn mysql_config(&self) -> MysqlConfig {
        MysqlConfig::from_url(&self.url())
            .unwrap()
            .accept_powerful()
    }
}

impl fmt::Display for TestDatabase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A file of SQLite's in a folder that goes with it.
pub(crate) struct TestFile {
    folder: TempDir,
}

impl TestFile {
    /// A new file, after `script`.
    pub(crate) fn new(script: &str) -> Self {
        let file = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        create_database(file.path(), script).unwrap();
        file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("main.db")
    }

    /// A backend that may change rows.
    pub(crate) fn backend(&self) -> SqliteBackend {
        self.reader().writable()
    }

    /// A backend that only reads.
    pub(crate) fn reader(&self) -> SqliteBackend {
        SqliteBackend::open_file(self.path(), "main").unwrap()
    }

    /// The engine without the gate.
    pub(crate) fn open_bare(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}
