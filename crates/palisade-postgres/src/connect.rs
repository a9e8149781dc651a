//! Connecting.

use std::time::Duration;

use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{Client, NoTls};

use crate::{
    config::{ConfigError, PostgresConfig},
    introspect::{IntrospectError, chain},
    pool::Session,
    tls::Tls,
};

/// Why there is no connection, or no backend over it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server cannot be reached, or does not let us in.
    #[error("cannot connect: {}", chain(.0))]
    Engine(#[from] tokio_postgres::Error),
    /// The server took too long.
    #[error("cannot connect: no answer within {0:?}")]
    Late(Duration),
    /// The catalog cannot be read.
    #[error(transparent)]
    Introspect(#[from] IntrospectError),
    /// The account is a superuser, or a member of this role, which is one.
    #[error(
        "the account has the rights of superuser `{0}`, whom hardly any lock of the server's stops; log in as \
         an account that may only read"
    )]
    Superuser(String),
    /// Another reason.
    #[error("{0}")]
    Refused(String),
}

/// A connection to the database at `url` (see [`PostgresConfig::from_url`]), which ends when the client is
/// dropped. Runs on the caller's runtime.
///
/// # Errors
/// If `url` is no connection URL, or the server does not let us in.
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    let connector = Connector::new(&PostgresConfig::from_url(url)?);
    Ok(connector.connect(&Handle::current()).await?.client)
}

/// Makes sessions.
pub(crate) struct Connector {
    server: tokio_postgres::Config,
    tls: Tls,
    time: Duration,
}

impl Connector {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let mut server = config.server.clone();
        server.connect_timeout(config.connect_timeout);
        Self {
            server,
            tls: config.tls.clone(),
            time: config.connect_timeout,
        }
    }

    /// A new session, driven by a task on `runtime`.
    pub(crate) async fn connect(&self, runtime: &Handle) -> Result<Session, ConnectError> {
        // Over all: a server can take the connection and then say nothing.
        let late = |_| ConnectError::Late(self.time);
        let (client, driver) = match &self.tls {
            Tls::Plain => {
                let connecting = timeout(self.time, self.server.connect(NoTls));
                let (client, connection) = connecting.await.map_err(late)??;
                (client, runtime.spawn(drive(connection)))
            }
            Tls::Encrypted(tls) => {
                let connecting = timeout(self.time, self.server.connect(tls.clone()));
                let (client, connection) = connecting.await.map_err(late)??;
                (client, runtime.spawn(drive(connection)))
            }
        };
        Ok(Session::new(client, driver))
    }

    /// Asks the server to stop what `client`'s session is doing.
    pub(crate) async fn cancel(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let token = client.cancel_token();
        match &self.tls {
            Tls::Plain => token.cancel_query(NoTls).await,
            Tls::Encrypted(tls) => token.cancel_query(tls.clone()).await,
        }
    }
}

/// Why a connection ended, those who wait for an answer hear too.
async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    let _ = connection.await;
}
