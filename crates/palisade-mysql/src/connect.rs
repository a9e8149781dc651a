//! Connecting.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use mysql_async::{
    Conn, DriverError, Error, IoError, Opts, OptsBuilder, Row, prelude::Queryable as _,
};
use palisade::guard::BackendError;
use palisade_pool::{
    ConfigError, Found, NoServer, Opener, PATIENCE, PasswordSource, PoolError, STOPGAP_AGE,
    Servers, Standing, Trial, Wanted,
};
use tokio::{runtime::Handle, time::timeout};

use crate::{config::MysqlConfig, introspect::IntrospectError, settings::SETUP, weaknesses};

/// Why there is no connection, or no backend over it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The servers that let us in are not what the URL wants.
    #[error("cannot connect: {0}")]
    Unfit(Wanted),
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

/// Why there is no connection, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The password, or that there is none; or where the account may log in from.
    Login,
    /// The account is locked.
    Locked,
    /// There is no such database, or the account may use nothing in it.
    Database,
    /// The server does not encrypt.
    NoTls,
    /// The server's certificate or ours.
    Certificate,
    /// The server refuses for another reason.
    Server,
    /// No server answers.
    Silence,
}

impl ConnectError {
    /// The obstacle, if the failure is the connection itself.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        match self {
            Self::Engine(error) => Some(obstacle(error)),
            Self::Late(_) => Some(Obstacle::Silence),
            Self::Unfit(_) => Some(Obstacle::Server),
            Self::Config(_) | Self::Introspect(_) | Self::Powerful(_) | Self::Refused(_) => None,
        }
    }
}

/// By the server's number (`ER_ACCESS_DENIED_ERROR` and its kin) or by what the driver says.
fn obstacle(error: &mysql_async::Error) -> Obstacle {
    match error {
        Error::Server(server) => match server.code {
            1045 | 1698 | 1130 | 1862 => Obstacle::Login,
            3118 | 4151 => Obstacle::Locked,
            1044 | 1049 => Obstacle::Database,
            _ => Obstacle::Server,
        },
        Error::Driver(DriverError::NoClientSslFlagFromServer) => Obstacle::NoTls,
        Error::Io(IoError::Tls(_)) => Obstacle::Certificate,
        Error::Io(IoError::Io(error)) => {
            let text = error.to_string().to_ascii_lowercase();
            if ["certificate", "tls", "handshake"]
                .iter()
                .any(|word| text.contains(word))
            {
                Obstacle::Certificate
            } else {
                Obstacle::Silence
            }
        }
        Error::Driver(_) | Error::Other(_) | Error::Url(_) => Obstacle::Server,
    }
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

/// A read-only connection to a database, with the settings under which the firewall reads text. Runs on the
/// caller's runtime.
///
/// # Errors
/// If a file that `config` names cannot be used, or the server does not let us in.
pub async fn connect(config: &MysqlConfig) -> Result<Conn, ConnectError> {
    // Whoever looks at an account may find that it is.
    let connector = Connector::new(&config.clone().accept_powerful())?;
    let mut session = connector.open().await?;
    session.ready().await?;
    Ok(session.conn)
}

/// A connection that is set up when it is used, and not before. A new connection and a reset connection have the
/// server's own settings, and the statements that set ours go with the first question.
pub(crate) struct Session {
    conn: Conn,
    is_set_up: bool,
    /// Of a connection that only ends another.
    bare: Opts,
    /// Until when its standby is recent enough for sure, where that is asked for.
    recent_until: Option<Instant>,
    /// When it ends since a better server may have come.
    ends: Option<Instant>,
}

/// What a server says of itself. A node of a cluster that is not ready refuses what reads tables.
const STANDING: &str = "SELECT UPPER(CAST(@@global.read_only AS CHAR)) NOT IN ('0', 'OFF'); SHOW STATUS LIKE 'wsrep_ready'";

/// What replicates to a server, of each product: the column that says how far behind it is has the same place in neither.
const REPLICA: [&str; 2] = ["SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS"];

/// The columns that say how many seconds a server is behind.
const BEHIND: [&str; 2] = ["Seconds_Behind_Master", "Seconds_Behind_Source"];

/// The code of a server that does not understand a statement.
const SYNTAX: u16 = 1064;

impl Session {
    /// The connection with our settings.
    pub(crate) async fn ready(&mut self) -> Result<&mut Conn, Error> {
        if !self.is_set_up {
            self.conn.query_drop(SETUP).await?;
            self.is_set_up = true;
        }
        Ok(&mut self.conn)
    }

    /// The rows of all statements of a text of ours, under our settings.
    pub(crate) async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        let mut result = if self.is_set_up {
            self.conn.query_iter(sql).await?
        } else {
            // The first is done before the next is read.
            self.conn.query_iter(format!("{SETUP}; {sql}")).await?
        };
        let mut rows = Vec::new();
        while !result.is_empty() {
            rows.extend(result.collect::<Row>().await?);
        }
        drop(result);
        self.is_set_up = true;
        Ok(rows)
    }
}

/// Makes sessions, which are set up when they are used.
pub(crate) struct Connector {
    servers: Servers<Opts>,
    /// How far behind a standby may be.
    max_lag: Option<Duration>,
    /// Whether a server is asked what it is.
    asks: bool,
    /// Whether it is asked before each use, for changes.
    changes: bool,
    /// Whether the account may hold privileges that no lock stops, whichever server it is of.
    accepts_powerful: bool,
    /// Those that it may hold in any case.
    meant: BTreeSet<(String, String)>,
    passwords: Option<PasswordSource>,
}

impl Connector {
    /// Sessions for reading, with servers as the URL wants them.
    pub(crate) fn new(config: &MysqlConfig) -> Result<Self, ConfigError> {
        Self::with(config, config.wanted, config.max_lag)
    }

    /// Sessions for changes: with the primary, where the URL names several servers.
    pub(crate) fn for_changes(config: &MysqlConfig) -> Result<Self, ConfigError> {
        match config.is_spread() {
            true => Self::with(config, Wanted::Primary, None),
            false => Self::with(config, config.wanted, None),
        }
    }

    fn with(
        config: &MysqlConfig,
        wanted: Wanted,
        max_lag: Option<Duration>,
    ) -> Result<Self, ConfigError> {
        let bare = |server| OptsBuilder::from_opts(server).setup(Vec::<String>::new());
        let servers: Vec<Opts> = config.opts()?.into_iter().map(|o| bare(o).into()).collect();
        Ok(Self {
            changes: servers.len() > 1 && wanted == Wanted::Primary,
            asks: servers.len() > 1 || !wanted.is_any() || max_lag.is_some(),
            servers: Servers::new(servers, wanted, config.connect_timeout),
            max_lag,
            accepts_powerful: config.accepts_powerful,
            meant: config.meant(),
            passwords: config.passwords.clone(),
        })
    }

    /// How to log in with `place` by now.
    fn login(&self, place: &Opts) -> Opts {
        let password = self.passwords.as_ref().and_then(PasswordSource::read);
        match password {
            Some(password) => OptsBuilder::from_opts(place.clone())
                .pass(Some(password))
                .into(),
            None => place.clone(),
        }
    }

    /// A new connection.
    async fn open(&self) -> Result<Session, ConnectError> {
        let Found {
            mut session,
            is_stopgap,
        } = self.servers.find(self).await?;
        session.ends = is_stopgap.then(|| Instant::now() + STOPGAP_AGE);
        Ok(session)
    }

    /// What the server of `session` is, asked where it matters.
    async fn look(&self, session: &mut Session) -> Result<Standing, ConnectError> {
        if !self.asks {
            return Ok(Standing {
                is_standby: false,
                is_read_only: false,
                is_late: false,
            });
        }
        let rows = ask(&mut session.conn, STANDING).await?;
        let mut rows = rows.into_iter();
        let is_read_only: bool = rows.next().and_then(|row| row.get(0)).unwrap_or(true);
        let is_ready = match rows.next().and_then(|row| row.get::<String, _>(1)) {
            Some(ready) => ready.eq_ignore_ascii_case("ON"),
            // It is no node of a cluster; outside of one MariaDB says so too.
            None => true,
        };
        if !is_ready && is_clustered(&mut session.conn).await? {
            return Err(ConnectError::Refused(
                "the node of the cluster is not ready".to_owned(),
            ));
        }
        let is_late = match self.max_lag {
            Some(most) => self.is_late(session, most, is_read_only).await?,
            None => false,
        };
        Ok(Standing {
            is_standby: is_read_only,
            is_read_only,
            is_late,
        })
    }

    /// Refuses an account that no lock stops, where there are several servers: each has accounts of its own.
    async fn refuse_powerful(&self, session: &mut Session) -> Result<(), ConnectError> {
        if !self.asks || self.accepts_powerful {
            return Ok(());
        }
        match weaknesses::powerful(session.ready().await?, &self.meant).await? {
            Some(privileges) => Err(ConnectError::Powerful(privileges)),
            None => Ok(()),
        }
    }

    /// Whether the server of `session` is a standby that is further behind than `most`, or does not follow.
    async fn is_late(
        &self,
        session: &mut Session,
        most: Duration,
        is_standby: bool,
    ) -> Result<bool, ConnectError> {
        let asked = Instant::now();
        let behind = match is_standby {
            true => read_lag(&mut session.conn).await?,
            false => Some(Duration::ZERO),
        };
        // A server falls behind no faster than time goes, a primary that becomes a standby too.
        let left = behind.and_then(|behind| most.checked_sub(behind));
        session.recent_until = left.and_then(|left| asked.checked_add(left));
        Ok(left.is_none())
    }

    /// Ends the session with this id on its server, whatever it is doing. Ids are not used again, so that a late call
    /// hits no other session.
    async fn kill(bare: Opts, id: u32) -> Result<(), mysql_async::Error> {
        let mut conn = Conn::new(bare).await?;
        conn.query_drop(format!("KILL CONNECTION {id}")).await?;
        conn.disconnect().await
    }
}

impl Opener<Opts> for Connector {
    type Session = Session;
    type Error = ConnectError;

    async fn open(&self, place: &Opts) -> Result<(Session, Standing), Trial<ConnectError>> {
        let conn = Conn::new(self.login(place)).await;
        let conn = conn.map_err(|error| trial(ConnectError::Engine(error)))?;
        let mut session = Session {
            conn,
            is_set_up: false,
            bare: place.clone(),
            recent_until: None,
            ends: None,
        };
        let standing = self.look(&mut session).await.map_err(trial)?;
        self.refuse_powerful(&mut session).await.map_err(trial)?;
        Ok((session, standing))
    }
}

/// The rows of all statements of `sql`.
async fn ask(conn: &mut Conn, sql: &str) -> Result<Vec<Row>, Error> {
    let mut result = conn.query_iter(sql).await?;
    let mut rows = Vec::new();
    while !result.is_empty() {
        rows.extend(result.collect::<Row>().await?);
    }
    Ok(rows)
}

/// Whether the server is a node of a cluster: all others have nothing that makes them one.
async fn is_clustered(conn: &mut Conn) -> Result<bool, Error> {
    let rows = ask(conn, "SHOW VARIABLES LIKE 'wsrep_on'").await?;
    let value = rows.first().and_then(|row| row.get::<String, _>(1));
    Ok(value.is_some_and(|value| value.eq_ignore_ascii_case("ON")))
}

/// How far behind the server is; none if it follows no other, or does not know.
async fn read_lag(conn: &mut Conn) -> Result<Option<Duration>, Error> {
    for sql in REPLICA {
        match ask(conn, sql).await {
            Ok(rows) => {
                let behind = |row: &Row| {
                    let named = |name: &&str| row.get_opt::<Option<u64>, _>(*name);
                    let told = BEHIND.iter().find_map(named);
                    told.and_then(Result::ok).flatten()
                };
                // Of several that it follows, the slowest counts; one of whom it does not know counts more.
                let each: Option<Vec<u64>> = rows.iter().map(behind).collect();
                let most = each.and_then(|each| each.into_iter().max());
                return Ok(most.map(Duration::from_secs));
            }
            Err(Error::Server(error)) if error.code == SYNTAX => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether another server may let us in where one does not: only an account, a password or a database that is refused
/// is the same everywhere, and so is what the account may not ask.
fn trial(error: ConnectError) -> Trial<ConnectError> {
    let is_ours = match &error {
        ConnectError::Engine(Error::Server(server)) => {
            [1044, 1045, 1049, 1130, 1227, 1698, 1862, 3118, 4151].contains(&server.code)
        }
        ConnectError::Engine(_)
        | ConnectError::Refused(_)
        | ConnectError::Late(_)
        | ConnectError::Unfit(_)
        | ConnectError::Introspect(_)
        | ConnectError::Powerful(_)
        | ConnectError::Config(_) => false,
    };
    match is_ours {
        true => Trial::Last(error),
        false => Trial::Next(error),
    }
}

impl palisade_pool::Connector for Connector {
    type Session = Session;
    type Error = ConnectError;

    async fn connect(&self, _: &Handle) -> Result<Session, ConnectError> {
        self.open().await
    }

    fn is_usable(&self, session: &Session) -> bool {
        let is_over = session.ends.is_some_and(|end| end <= Instant::now());
        !is_over && !session.conn.is_disconnected()
    }

    async fn may_stay(&self, session: &mut Session) -> bool {
        let is_recent = |until: Option<Instant>| until.is_none_or(|until| Instant::now() < until);
        // A primary becomes a standby under its sessions.
        if !self.changes && (self.max_lag.is_none() || is_recent(session.recent_until)) {
            return true;
        }
        let standing = timeout(PATIENCE, self.look(session)).await;
        matches!(standing, Ok(Ok(standing)) if self.servers.admits(standing))
    }

    /// The reset rolls back, frees locks, prepared statements, temporary tables and variables; our settings too, which
    /// whoever uses the session next makes anew.
    async fn clean(&self, session: &mut Session) -> bool {
        session.is_set_up = false;
        matches!(session.conn.reset().await, Ok(true))
    }

    async fn end(&self, session: Session) -> bool {
        // Closing the socket alone would not do: the server looks at it when it has something to send, and
        // the driver would read what is still on its way.
        let told = timeout(
            PATIENCE,
            Self::kill(self.login(&session.bare), session.conn.id()),
        )
        .await;
        drop(session);
        match told {
            Ok(Ok(())) => true,
            // Whoever has no such session any more answers too.
            Ok(Err(error)) => matches!(error, Error::Server(_)),
            Err(_) => false,
        }
    }

    fn close(&self, session: Session) {
        // The driver says goodbye in a task of its own.
        drop(session);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use mysql_async::ServerError;

    use super::*;

    fn server(code: u16) -> ConnectError {
        let error = ServerError {
            code,
            message: String::new(),
            state: String::new(),
        };
        ConnectError::Engine(error.into())
    }

    fn io(kind: io::ErrorKind, text: &str) -> ConnectError {
        ConnectError::Engine(Error::Io(IoError::Io(io::Error::new(
            kind,
            text.to_owned(),
        ))))
    }

    #[test]
    fn what_stands_between_us_and_the_server_is_told_by_its_error() {
        for (error, obstacle) in [
            (server(1045), Some(Obstacle::Login)),
            (server(1698), Some(Obstacle::Login)),
            (server(1130), Some(Obstacle::Login)),
            (server(1862), Some(Obstacle::Login)),
            (server(3118), Some(Obstacle::Locked)),
            (server(4151), Some(Obstacle::Locked)),
            (server(1044), Some(Obstacle::Database)),
            (server(1049), Some(Obstacle::Database)),
            (server(1040), Some(Obstacle::Server)),
            (
                ConnectError::Engine(Error::Driver(DriverError::NoClientSslFlagFromServer)),
                Some(Obstacle::NoTls),
            ),
            (
                ConnectError::Engine(Error::Driver(DriverError::ConnectionClosed)),
                Some(Obstacle::Server),
            ),
            (
                io(io::ErrorKind::InvalidData, "invalid peer Certificate"),
                Some(Obstacle::Certificate),
            ),
            (
                io(io::ErrorKind::Other, "TLS alert"),
                Some(Obstacle::Certificate),
            ),
            (
                io(io::ErrorKind::UnexpectedEof, "handshake eof"),
                Some(Obstacle::Certificate),
            ),
            (
                io(io::ErrorKind::ConnectionRefused, "refused"),
                Some(Obstacle::Silence),
            ),
            (
                ConnectError::Late(Duration::from_secs(1)),
                Some(Obstacle::Silence),
            ),
            (ConnectError::Refused("no".to_owned()), None),
            (ConnectError::Powerful("FILE".to_owned()), None),
            (ConnectError::Config(ConfigError::Url(String::new())), None),
        ] {
            assert_eq!(error.obstacle(), obstacle, "{error:?}");
        }
    }

    #[test]
    fn a_full_pool_is_no_obstacle_of_the_server() {
        let full = ConnectError::from(PoolError::<ConnectError>::Full);
        assert!(matches!(full, ConnectError::Refused(_)), "{full:?}");
        let late = ConnectError::from(PoolError::Connect(server(1045)));
        assert_eq!(late.obstacle(), Some(Obstacle::Login));
    }
}
