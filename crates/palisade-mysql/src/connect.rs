//! Connecting.

use std::time::Duration;

use mysql_async::{
    Conn, DriverError, Error, IoError, Opts, OptsBuilder, Row, prelude::Queryable as _,
};
use palisade::guard::BackendError;
use palisade_pool::{ConfigError, PATIENCE, PoolError};
use tokio::{runtime::Handle, time::timeout};

use crate::{config::MysqlConfig, introspect::IntrospectError, settings::SETUP};

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
    let connector = Connector::new(config)?;
    connector.open(&connector.server).await
}

/// A connection that is set up when it is used, and not before. A new connection and a reset connection have the
/// server's own settings, and the statements that set ours go with the first question.
pub(crate) struct Session {
    conn: Conn,
    is_set_up: bool,
}

impl Session {
    fn new(conn: Conn) -> Self {
        Self {
            conn,
            is_set_up: false,
        }
    }

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

/// Makes sessions.
pub(crate) struct Connector {
    server: Opts,
    /// For a connection that is set up when it is used, or that only ends another.
    bare: Opts,
    time: Duration,
}

impl Connector {
    pub(crate) fn new(config: &MysqlConfig) -> Result<Self, ConfigError> {
        let server = config.opts()?;
        let bare = OptsBuilder::from_opts(server.clone()).setup(Vec::<String>::new());
        Ok(Self {
            server,
            bare: bare.into(),
            time: config.connect_timeout,
        })
    }

    /// A new connection.
    async fn open(&self, opts: &Opts) -> Result<Conn, ConnectError> {
        Ok(timeout(self.time, Conn::new(opts.clone()))
            .await
            .map_err(|_| ConnectError::Late(self.time))??)
    }

    /// Ends the session with this id on the server, whatever it is doing. Ids are not used again, so that a late call
    /// hits no other session.
    async fn kill(&self, id: u32) -> Result<(), mysql_async::Error> {
        let mut conn = Conn::new(self.bare.clone()).await?;
        conn.query_drop(format!("KILL CONNECTION {id}")).await?;
        conn.disconnect().await
    }
}

impl palisade_pool::Connector for Connector {
    type Session = Session;
    type Error = ConnectError;

    async fn connect(&self, _: &Handle) -> Result<Session, ConnectError> {
        Ok(Session::new(self.open(&self.bare).await?))
    }

    fn is_usable(&self, session: &Session) -> bool {
        !session.conn.is_disconnected()
    }

    /// The reset rolls back, frees locks, prepared statements, temporary tables and variables; our settings too, which
    /// whoever uses the session next makes anew.
    async fn clean(&self, session: &mut Session) -> bool {
        session.is_set_up = false;
        matches!(session.conn.reset().await, Ok(true))
    }

    async fn end(&self, session: Session) {
        // Closing the socket alone would not do: the server looks at it when it has something to send, and
        // the driver would read what is still on its way.
        let _ = timeout(PATIENCE, self.kill(session.conn.id())).await;
        drop(session);
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
