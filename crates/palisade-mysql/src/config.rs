//! How to reach a server, and how much of it to use.

use std::{fmt, time::Duration};

use mysql_async::{Opts, OptsBuilder};

use crate::{pool::PoolSize, settings};

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

/// How to reach a server, and how much of it to use.
#[derive(Clone)]
pub struct MysqlConfig {
    pub(crate) server: Opts,
    pub(crate) size: PoolSize,
    pub(crate) connect_timeout: Duration,
    pub(crate) accepts_powerful: bool,
}

impl MysqlConfig {
    /// The database at `url`, `mysql://user:password@host:port/database?option=value`
    /// (<https://docs.rs/mysql_async/latest/mysql_async/#tls-support> names the options for TLS). It must name a
    /// database. `LOAD DATA LOCAL` has no handler, so the server gets no file of ours.
    ///
    /// # Errors
    /// If `url` is no such URL, or has options that are not understood.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let opts = Opts::from_url(url).map_err(|error| ConfigError::Url(error.to_string()))?;
        let database = opts.db_name().is_some_and(|name| !name.is_empty());
        if !database {
            return Err(ConfigError::Url("it names no database".to_owned()));
        }
        let server = OptsBuilder::from_opts(opts)
            // Otherwise the driver leaves the address it was given where the server has a socket.
            .prefer_socket(false)
            .init(Vec::<String>::new())
            .setup(vec![settings::SETUP])
            .stmt_cache_size(0)
            .into();
        Ok(Self {
            server,
            size: PoolSize {
                connections: CONNECTIONS,
                waiting: WAITING,
            },
            connect_timeout: CONNECT_TIMEOUT,
            accepts_powerful: false,
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

    /// Starts even if the account may read and write the server's files (`FILE`) or administer the server
    /// (`SUPER` and its like), whom hardly one of the server's own locks stops. Never in production.
    #[must_use]
    pub fn accept_powerful(mut self) -> Self {
        self.accepts_powerful = true;
        self
    }
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlConfig")
            .field("host", &self.server.ip_or_hostname())
            .field("port", &self.server.tcp_port())
            .field("database", &self.server.db_name())
            .field("user", &self.server.user())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_does_not_show_its_password() {
        let config = MysqlConfig::from_url("mysql://u:geheim@127.0.0.1:1/d").unwrap();
        assert!(!format!("{config:?}").contains("geheim"));
        for url in [
            "mysql://u:geheim@127.0.0.1:1",
            "postgres://u:geheim@h/d",
            "x",
        ] {
            let error = MysqlConfig::from_url(url).unwrap_err().to_string();
            assert!(!error.contains("geheim"), "{error}");
        }
    }
}
