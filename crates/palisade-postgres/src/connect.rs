//! Connecting.

use std::{sync::OnceLock, time::Duration};

use palisade::guard::BackendError;
use palisade_pool::{ConfigError, PATIENCE, PoolError};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};
use tokio_postgres::{Client, NoTls, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    config::PostgresConfig,
    execute::Kept,
    introspect::{IntrospectError, chain},
    tls::Tls,
    wire::{Excess, Limited, LimitedConnect, Place, Wire},
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
    /// No server answers at that address.
    #[error("cannot connect: {0}")]
    Network(std::io::Error),
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

impl From<PoolError<Self>> for ConnectError {
    fn from(error: PoolError<Self>) -> Self {
        match error {
            PoolError::Connect(error) => error,
            full => BackendError::from(full).into(),
        }
    }
}

impl From<BackendError> for ConnectError {
    fn from(error: BackendError) -> Self {
        Self::Refused(error.detail)
    }
}

/// A connection to the database at `url` (see [`PostgresConfig::from_url`]), which ends when the client is
/// dropped. Runs on the caller's runtime.
///
/// # Errors
/// If `url` is no connection URL, or the server does not let us in.
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    connect_by(&PostgresConfig::from_url(url)?).await
}

/// A connection to the database of `config`, which ends when the client is dropped. It writes: what `config` says of
/// that is for backends. Runs on the caller's runtime.
///
/// # Errors
/// If the server does not let us in.
pub async fn connect_by(config: &PostgresConfig) -> Result<Client, ConnectError> {
    let connector = Connector::new(config);
    Ok(connector.open(&Handle::current()).await?.client)
}

/// Leaves nothing of a statement behind, whatever it did. The transaction first, which reverts settings and
/// roles; then what survives transactions: session-level locks above all.
const CLEAN: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// As [`CLEAN`], in the transaction of a statement behind a pooler. The pooler gives the session to the next client as
/// soon as that ends, and the whole text is one message to one session.
const CLEAN_POOLED: &str = "ROLLBACK; DEALLOCATE ALL; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// What leaves nothing of a statement behind.
pub(crate) fn cleaning(is_pooled: bool) -> &'static str {
    if is_pooled { CLEAN_POOLED } else { CLEAN }
}

/// A connection and the task that drives it.
pub(crate) struct Session {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    place: Place,
    /// Whether it ended for the size of a message.
    pub(crate) excess: Excess,
    /// Prepared with the first statement.
    pub(crate) kept: OnceLock<Kept>,
    /// Whether nothing of a statement is left in it, as the server has said.
    pub(crate) is_clean: bool,
}

/// Makes sessions.
pub(crate) struct Connector {
    server: tokio_postgres::Config,
    places: Vec<Place>,
    tls: Tls,
    time: Duration,
    /// Whether a pooler gives each transaction a session, and not each connection.
    is_pooled: bool,
}

impl Connector {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        Self {
            places: Place::all(&config.server),
            server: config.server.clone(),
            tls: config.tls.clone(),
            time: config.connect_timeout,
            is_pooled: config.is_pooled,
        }
    }

    /// A new session, driven by a task on `runtime`.
    async fn open(&self, runtime: &Handle) -> Result<Session, ConnectError> {
        // Over all: a server can take the connection and then say nothing.
        timeout(self.time, self.first(runtime))
            .await
            .map_err(|_| ConnectError::Late(self.time))?
    }

    /// A session with the first server that can be reached.
    async fn first(&self, runtime: &Handle) -> Result<Session, ConnectError> {
        let mut last = ConnectError::Refused("the connection URL names no host".to_owned());
        for place in &self.places {
            match place.open().await {
                Ok(wire) => return self.log_in(runtime, place, wire).await,
                Err(why) => last = ConnectError::Network(why),
            }
        }
        Err(last)
    }

    async fn log_in(
        &self,
        runtime: &Handle,
        place: &Place,
        wire: Wire,
    ) -> Result<Session, ConnectError> {
        let excess = Excess::default();
        let (client, driver) = match &self.tls {
            Tls::Plain => {
                let wire = Limited::new(wire, excess.clone());
                let (client, connection) = self.server.connect_raw(wire, NoTls).await?;
                (client, runtime.spawn(drive(connection)))
            }
            Tls::Encrypted(tls) => {
                let tls = LimitedConnect::new(tls_to(tls, place), excess.clone());
                let (client, connection) = self.server.connect_raw(wire, tls).await?;
                (client, runtime.spawn(drive(connection)))
            }
        };
        Ok(Session {
            client,
            driver,
            place: place.clone(),
            excess,
            kept: OnceLock::new(),
            is_clean: false,
        })
    }

    /// Asks the server to stop what `client` is doing.
    async fn cancel(&self, client: &Client, place: &Place) -> Result<(), ConnectError> {
        let wire = place.open().await.map_err(ConnectError::Network)?;
        let token = client.cancel_token();
        match &self.tls {
            Tls::Plain => token.cancel_query_raw(wire, NoTls).await?,
            Tls::Encrypted(tls) => token.cancel_query_raw(wire, tls_to(tls, place)).await?,
        }
        Ok(())
    }
}

impl palisade_pool::Connector for Connector {
    type Session = Session;
    type Error = ConnectError;

    async fn connect(&self, runtime: &Handle) -> Result<Session, ConnectError> {
        self.open(runtime).await
    }

    fn is_usable(&self, session: &Session) -> bool {
        // Behind a pooler, what the driver has prepared is somebody else's session's.
        !self.is_pooled && !session.client.is_closed()
    }

    async fn clean(&self, session: &mut Session) -> bool {
        // Once: what uses the session next may leave something.
        if std::mem::take(&mut session.is_clean) {
            return true;
        }
        let sql = cleaning(self.is_pooled);
        session.client.batch_execute(sql).await.is_ok()
    }

    async fn end(&self, session: Session) {
        let Session {
            client,
            mut driver,
            place,
            excess: _,
            kept: _,
            is_clean: _,
        } = session;
        // Closing the socket alone would not do: the server looks at it when it has something to send.
        let _ = timeout(PATIENCE, self.cancel(&client, &place)).await;
        drop(client);
        if timeout(PATIENCE, &mut driver).await.is_err() {
            driver.abort();
        }
    }

    fn close(&self, session: Session) {
        session.driver.abort();
    }
}

/// What makes a TLS connection to `place`.
fn tls_to(
    tls: &MakeRustlsConnect,
    place: &Place,
) -> <MakeRustlsConnect as MakeTlsConnect<Wire>>::TlsConnect {
    let Ok(tls) = MakeTlsConnect::<Wire>::make_tls_connect(&mut tls.clone(), place.name());
    tls
}

/// Why a connection ended, those who wait for an answer hear too.
async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    let _ = connection.await;
}
