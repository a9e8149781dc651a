//! How to reach a database, and how much of it to use.

use std::{fmt, str::FromStr, time::Duration};

use crate::pool::PoolSize;

/// Connections at a time, if nobody says otherwise.
const CONNECTIONS: usize = 8;

/// Statements waiting for a connection, if nobody says otherwise.
const WAITING: usize = 64;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is no connection URL. The reason does not repeat it: it can hold a password.
    #[error("the connection URL cannot be read: {0}")]
    Url(String),
}

/// How to reach a database, and how much of it to use.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    pub(crate) size: PoolSize,
    pub(crate) connect_timeout: Duration,
    pub(crate) accepts_superuser: bool,
}

impl PostgresConfig {
    /// The database at `url`, `postgres://user:password@host:port/database?option=value`
    /// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS>).
    ///
    /// # Errors
    /// If `url` is no such URL, or has options that are not understood.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(ConfigError::Url(
                "it does not begin with `postgres://`".to_owned(),
            ));
        }
        let mut server = tokio_postgres::Config::from_str(url)
            .map_err(|error| ConfigError::Url(crate::introspect::chain(&error)))?;
        if server.get_application_name().is_none() {
            server.application_name("palisade");
        }
        Ok(Self {
            server,
            size: PoolSize {
                connections: CONNECTIONS,
                waiting: WAITING,
            },
            connect_timeout: CONNECT_TIMEOUT,
            accepts_superuser: false,
        })
    }

    /// At most this many connections (at least one), and this many statements that wait for one: the next
    /// is refused. 8 and 64 if not called.
    #[must_use]
    pub fn connections(mut self, connections: usize, waiting: usize) -> Self {
        self.size = PoolSize {
            connections,
            waiting,
        };
        self
    }

    /// How long a connection may take to come about, logging in included. Five seconds if not called.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// Starts even if the account is a superuser, whom hardly one of the server's own locks stops. Never in
    /// production.
    #[must_use]
    pub fn accept_superuser(mut self) -> Self {
        self.accepts_superuser = true;
        self
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("hosts", &self.server.get_hosts())
            .field("database", &self.server.get_dbname())
            .field("user", &self.server.get_user())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
