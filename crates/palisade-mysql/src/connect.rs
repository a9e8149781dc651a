//! Connecting.

use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable as _};
use tokio::time::timeout;

use crate::{
    config::{ConfigError, MysqlConfig},
    introspect::IntrospectError,
    pool::Session,
};

/// Why there is no connection, or no backend over it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server cannot be reached, or does not let us in.
    #[error("cannot connect: {0}")]
    Engine(#[from] mysql_async::Error),
    /// The server took too long.
    #[error("cannot connect: no answer within {0:?}")]
    Late(Duration),
    /// The catalog cannot be read.
    #[error(transparent)]
    Introspect(#[from] IntrospectError),
    /// The account holds these privileges, which reach beyond tables.
    #[error(
        "the account holds {0}, which hardly any lock of the server's stops; log in as an account that may only \
         read"
    )]
    Powerful(String),
    /// Another reason.
    #[error("{0}")]
    Refused(String),
}

/// A read-only connection to the database at `url` (see [`MysqlConfig::from_url`]), with the settings under which
/// the firewall reads text. Runs on the caller's runtime.
///
/// # Errors
/// If `url` is no connection URL, or the server does not let us in.
pub async fn connect(url: &str) -> Result<Conn, ConnectError> {
    let connector = Connector::new(&MysqlConfig::from_url(url)?);
    Ok(connector.connect().await?.conn)
}

/// Makes sessions.
pub(crate) struct Connector {
    server: Opts,
    /// For a connection that only ends another: nothing to set up.
    bare: Opts,
    time: Duration,
}

impl Connector {
    pub(crate) fn new(config: &MysqlConfig) -> Self {
        let bare = OptsBuilder::from_opts(config.server.clone()).setup(Vec::<String>::new());
        Self {
            server: config.server.clone(),
            bare: bare.into(),
            time: config.connect_timeout,
        }
    }

    /// A new session.
    pub(crate) async fn connect(&self) -> Result<Session, ConnectError> {
        let conn = timeout(self.time, Conn::new(self.server.clone()))
            .await
            .map_err(|_| ConnectError::Late(self.time))??;
        Ok(Session::new(conn))
    }

    /// Ends the session with this id on the server, whatever it is doing. Ids are not used again, so that this
    /// hits nobody else if it comes late.
    pub(crate) async fn kill(&self, id: u32) -> Result<(), mysql_async::Error> {
        let mut conn = Conn::new(self.bare.clone()).await?;
        conn.query_drop(format!("KILL CONNECTION {id}")).await?;
        conn.disconnect().await
    }
}
