//! Connecting.

use std::{
    borrow::Cow,
    sync::OnceLock,
    time::{Duration, Instant},
};

use palisade::guard::BackendError;
use palisade_pool::{
    ConfigError, Found, NoServer, Opener, PATIENCE, PasswordSource, PoolError, STOPGAP_AGE,
    Servers, Standing, Trial, Wanted,
};
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};
use tokio_postgres::{Client, NoTls, SimpleQueryStream, error::SqlState, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    config::PostgresConfig,
    execute::{self, Kept},
    introspect::{IntrospectError, chain},
    tls::Tls,
    wire::{Excess, Limited, LimitedConnect, Place, Wire},
};

/// Why there is no connection, or no backend over it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The servers that let us in are not what the URL wants.
    #[error("cannot connect: {0}")]
    Unfit(Wanted),
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

impl From<NoServer<Self>> for ConnectError {
    fn from(error: NoServer<Self>) -> Self {
        match error {
            NoServer::Failed(error) => error,
            NoServer::Late(time) => Self::Late(time),
            NoServer::Unfit(wanted) => Self::Unfit(wanted),
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
    let connector = Connector::new(&PostgresConfig::from_url(url)?);
    Ok(connector.open(&Handle::current()).await?.client)
}

/// A connection to the database of `config`, which ends when the client is dropped. It writes: what `config` says of
/// that is for backends, and of several servers it is with the primary. Runs on the caller's runtime.
///
/// # Errors
/// If the server does not let us in.
pub async fn connect_by(config: &PostgresConfig) -> Result<Client, ConnectError> {
    let connector = Connector::for_changes(config);
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

/// How far a session is cleaned after a statement.
pub(crate) enum Cleaning {
    /// It is to be told to the server.
    Due,
    /// It was sent behind the statement's last rows, and those were read: this is what the server will say of it.
    Sent(SimpleQueryStream),
    /// The server has said that nothing is left.
    Done,
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
    pub(crate) cleaning: Cleaning,
    /// Until when its standby is recent enough for sure, where that is asked for.
    recent_until: Option<Instant>,
    /// When it ends since a better server may have come.
    ends: Option<Instant>,
}

/// What a server says of itself, and how old its data are: the last transaction that a standby has is that old. Where the
/// account may see the receiver, and it has nothing left to replay, they are as old as the last word of the primary. Null
/// where neither is known.
const STANDING: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
     pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on', \
     CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN 0 \
     WHEN a.seconds OPERATOR(pg_catalog.<) 0 THEN 0 ELSE a.seconds END \
     FROM (SELECT LEAST( \
         EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.pg_last_xact_replay_timestamp()), \
         (SELECT EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) r.last_msg_receipt_time) \
          FROM pg_catalog.pg_stat_get_wal_receiver() r \
          WHERE r.status OPERATOR(pg_catalog.=) 'streaming' \
          AND r.latest_end_lsn OPERATOR(pg_catalog.<=) pg_catalog.pg_last_wal_replay_lsn()))::pg_catalog.float8 \
     ) a (seconds)";

/// Makes sessions.
pub(crate) struct Connector {
    server: tokio_postgres::Config,
    servers: Servers<Place>,
    tls: Tls,
    /// How old the data of a standby may be.
    max_lag: Option<Duration>,
    /// Whether a server is asked what it is.
    asks: bool,
    /// Whether a pooler gives each transaction a session, and not each connection.
    is_pooled: bool,
    passwords: Option<PasswordSource>,
}

impl Connector {
    /// Sessions for reading, with servers as the URL wants them.
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        Self::with(config, config.wanted, config.max_lag)
    }

    /// Sessions for changes: with the primary, where the URL names several servers.
    pub(crate) fn for_changes(config: &PostgresConfig) -> Self {
        match config.is_spread() {
            true => Self::with(config, Wanted::Primary, None),
            false => Self::with(config, config.wanted, None),
        }
    }

    fn with(config: &PostgresConfig, wanted: Wanted, max_lag: Option<Duration>) -> Self {
        let places = Place::all(&config.server);
        Self {
            servers: Servers::new(places, wanted, config.connect_timeout),
            server: config.server.clone(),
            tls: config.tls.clone(),
            max_lag,
            asks: !wanted.is_any() || max_lag.is_some(),
            is_pooled: config.is_pooled,
            passwords: config.passwords.clone(),
        }
    }

    /// How to log in by now.
    fn login(&self) -> Cow<'_, tokio_postgres::Config> {
        let Some(password) = self.passwords.as_ref().and_then(PasswordSource::read) else {
            return Cow::Borrowed(&self.server);
        };
        let mut server = self.server.clone();
        server.password(password);
        Cow::Owned(server)
    }

    /// A new session, driven by a task on `runtime`.
    async fn open(&self, runtime: &Handle) -> Result<Session, ConnectError> {
        let opener = LogIn {
            connector: self,
            runtime,
        };
        let Found {
            mut session,
            is_stopgap,
        } = self.servers.find(&opener).await?;
        session.ends = is_stopgap.then(|| Instant::now() + STOPGAP_AGE);
        Ok(session)
    }

    /// What the server of `session` is, asked where it matters.
    async fn look(&self, session: &mut Session) -> Result<Standing, tokio_postgres::Error> {
        if !self.asks {
            return Ok(Standing {
                is_standby: false,
                is_read_only: false,
                is_late: false,
            });
        }
        let asked = Instant::now();
        let rows = session.client.query_typed(STANDING, &[]).await?;
        let (is_standby, is_read_only, lag): (_, _, Option<f64>) = match rows.first() {
            Some(row) => (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
            None => (true, true, None),
        };
        let is_late = match self.max_lag {
            Some(most) => {
                let lag = lag.and_then(|lag| Duration::try_from_secs_f64(lag).ok());
                let left = lag.and_then(|lag| most.checked_sub(lag));
                // A server falls behind no faster than time goes.
                session.recent_until = left.and_then(|left| asked.checked_add(left));
                left.is_none()
            }
            None => false,
        };
        Ok(Standing {
            is_standby,
            is_read_only,
            is_late,
        })
    }

    async fn log_in(
        &self,
        runtime: &Handle,
        place: &Place,
        wire: Wire,
    ) -> Result<Session, tokio_postgres::Error> {
        let excess = Excess::default();
        let server = self.login();
        let (client, driver) = match &self.tls {
            Tls::Plain => {
                let wire = Limited::new(wire, excess.clone());
                let (client, connection) = server.connect_raw(wire, NoTls).await?;
                (client, runtime.spawn(drive(connection)))
            }
            Tls::Encrypted(tls) => {
                let tls = LimitedConnect::new(tls_to(tls, place), excess.clone());
                let (client, connection) = server.connect_raw(wire, tls).await?;
                (client, runtime.spawn(drive(connection)))
            }
        };
        Ok(Session {
            client,
            driver,
            place: place.clone(),
            excess,
            kept: OnceLock::new(),
            cleaning: Cleaning::Due,
            recent_until: None,
            ends: None,
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

/// Logs in with servers, whose sessions are driven by tasks on the runtime.
struct LogIn<'a> {
    connector: &'a Connector,
    runtime: &'a Handle,
}

impl Opener<Place> for LogIn<'_> {
    type Session = Session;
    type Error = ConnectError;

    async fn open(&self, place: &Place) -> Result<(Session, Standing), Trial<ConnectError>> {
        let wire = place.open().await;
        let wire = wire.map_err(|why| Trial::Next(ConnectError::Network(why)))?;
        let session = self.connector.log_in(self.runtime, place, wire).await;
        let mut session = session.map_err(|error| trial(ConnectError::Engine(error)))?;
        let standing = self.connector.look(&mut session).await;
        let standing = standing.map_err(|error| trial(ConnectError::Engine(error)))?;
        Ok((session, standing))
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
        let is_over = session.ends.is_some_and(|end| end <= Instant::now());
        !self.is_pooled && !is_over && !session.client.is_closed()
    }

    async fn may_stay(&self, session: &mut Session) -> bool {
        if self.is_cleaning(session)
            && !matches!(timeout(PATIENCE, self.clean(session)).await, Ok(true))
        {
            return false;
        }
        let is_recent = |until: Option<Instant>| until.is_none_or(|until| Instant::now() < until);
        if self.max_lag.is_none() || is_recent(session.recent_until) {
            return true;
        }
        let standing = timeout(PATIENCE, self.look(session)).await;
        matches!(standing, Ok(Ok(standing)) if self.servers.admits(standing))
    }

    async fn clean(&self, session: &mut Session) -> bool {
        // Once: what uses the session next may leave something.
        let is_done = match std::mem::replace(&mut session.cleaning, Cleaning::Due) {
            Cleaning::Due => false,
            Cleaning::Sent(answer) => execute::drain(answer).await,
            Cleaning::Done => true,
        };
        let sql = cleaning(self.is_pooled);
        is_done || session.client.batch_execute(sql).await.is_ok()
    }

    fn is_cleaning(&self, session: &Session) -> bool {
        match &session.cleaning {
            Cleaning::Sent(_) => true,
            Cleaning::Due | Cleaning::Done => false,
        }
    }

    async fn end(&self, session: Session) -> bool {
        let Session {
            client,
            mut driver,
            place,
            excess: _,
            kept: _,
            cleaning: _,
            recent_until: _,
            ends: _,
        } = session;
        // Closing the socket alone would not do: the server looks at it when it has something to send.
        let told = timeout(PATIENCE, self.cancel(&client, &place)).await;
        drop(client);
        if timeout(PATIENCE, &mut driver).await.is_err() {
            driver.abort();
        }
        matches!(told, Ok(Ok(())))
    }

    fn close(&self, session: Session) {
        session.driver.abort();
    }
}

/// Whether another server may let us in where one does not: only an account, a password or a database that is refused
/// is the same everywhere.
fn trial(error: ConnectError) -> Trial<ConnectError> {
    let ConnectError::Engine(engine) = &error else {
        return Trial::Next(error);
    };
    let is_ours = engine.code().is_some_and(|code| {
        [
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ]
        .contains(code)
    });
    match is_ours {
        true => Trial::Last(error),
        false => Trial::Next(error),
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
