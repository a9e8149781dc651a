//! Which of several servers a session is with.

use std::{
    fmt::{self, Display},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// How long a server that could not be reached is asked after all others.
const SHUNNED: Duration = Duration::from_secs(10);

/// The least time that a server has for a connection, where there are several.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// How long a session lasts with a server that was not the first choice.
pub const STOPGAP_AGE: Duration = Duration::from_secs(30);

/// What a server must be for a session: `target_session_attrs`
/// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TARGET-SESSION-ATTRS>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Any that lets us in.
    #[default]
    Any,
    /// A server whose sessions may write.
    ReadWrite,
    /// A server whose sessions only read.
    ReadOnly,
    /// A server that is no standby.
    Primary,
    /// A standby.
    Standby,
    /// A standby, and where there is none, any.
    PreferStandby,
}

/// The option of a connection URL that says it.
pub const TARGET_OPTION: &str = "target_session_attrs";

/// The values of it, for who writes another.
pub const TARGETS: &str =
    "it must be `any`, `read-write`, `read-only`, `primary`, `standby` or `prefer-standby`";

impl Wanted {
    /// The value of `target_session_attrs` with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "read-write" => Self::ReadWrite,
            "read-only" => Self::ReadOnly,
            "primary" => Self::Primary,
            "standby" => Self::Standby,
            "prefer-standby" => Self::PreferStandby,
            _ => return None,
        })
    }

    /// Whether any server will do, so that none needs to be asked what it is.
    #[must_use]
    pub fn is_any(self) -> bool {
        self == Self::Any
    }

    fn fit(self, standing: Standing) -> Fit {
        let fits = match self {
            Self::Any => true,
            Self::ReadWrite => !standing.is_read_only,
            Self::ReadOnly => standing.is_read_only,
            Self::Primary => !standing.is_standby,
            Self::Standby => standing.is_standby,
            Self::PreferStandby if !standing.is_standby => return Fit::Stopgap,
            Self::PreferStandby => true,
        };
        match (standing.is_late, fits) {
            (false, true) => Fit::Good,
            (true, _) | (false, false) => Fit::Unfit,
        }
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether it follows another server.
    pub is_standby: bool,
    /// Whether its sessions may only read.
    pub is_read_only: bool,
    /// Whether its data are older than is accepted.
    pub is_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Good,
    /// Where there is no better one.
    Stopgap,
    Unfit,
}

/// Why there is no session with a server.
#[derive(Debug)]
pub enum Trial<E> {
    /// Another server may let us in.
    Next(E),
    /// No other server would: the account or the database is the trouble.
    Last(E),
}

/// Why there is no session with any server.
#[derive(Debug)]
pub enum NoServer<E> {
    /// What the last one said.
    Failed(E),
    /// None answered within this time.
    Late(Duration),
    /// Those that let us in are not what is wanted.
    Unfit(Wanted),
}

impl Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "no server has data that are recent enough (`max_lag`)",
            Self::ReadWrite => "no server lets sessions write (`target_session_attrs`)",
            Self::ReadOnly => {
                "no server has sessions that only read, recent enough (`target_session_attrs`)"
            }
            Self::Primary => "no server is the primary (`target_session_attrs`)",
            Self::Standby | Self::PreferStandby => {
                "no server is a standby that is recent enough (`target_session_attrs`)"
            }
        })
    }
}

/// A session, and whether a server that is wanted more may come.
#[derive(Debug)]
pub struct Found<S> {
    /// The session.
    pub session: S,
    /// Whether it is with a server that is not the first choice: it lasts [`STOPGAP_AGE`].
    pub is_stopgap: bool,
}

/// Makes a session with a server.
pub trait Opener<P> {
    /// The session.
    type Session: Send;
    /// Why there is none.
    type Error: Send;

    /// A session with the server at `place`, and what that server is.
    fn open(
        &self,
        place: &P,
    ) -> impl Future<Output = Result<(Self::Session, Standing), Trial<Self::Error>>> + Send;
}

/// The servers of a connection, in the order that the operator gave them.
#[derive(Debug)]
pub struct Servers<P> {
    places: Vec<P>,
    wanted: Wanted,
    time: Duration,
    /// When each could not be reached the last time.
    failed: Mutex<Vec<Option<Instant>>>,
}

impl<P> Servers<P> {
    /// Sessions with those of `places` that are what is `wanted`. One takes at most `time` to come about; of several
    /// servers each has its share of it, and at least a second.
    #[must_use]
    pub fn new(places: Vec<P>, wanted: Wanted, time: Duration) -> Self {
        let failed = Mutex::new(vec![None; places.len()]);
        Self {
            places,
            wanted,
            time,
            failed,
        }
    }

    /// The indexes of places in the order in which they are tried: those that failed of late come last.
    fn order(&self) -> Vec<usize> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|index| {
            let last = failed.get(*index).copied().flatten();
            last.is_some_and(|last| last.elapsed() < SHUNNED)
        });
        order
    }

    fn note(&self, index: usize, failed_at: Option<Instant>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = failed.get_mut(index) {
            *one = failed_at;
        }
    }

    /// How long each has.
    fn share(&self) -> Duration {
        let count = u32::try_from(self.places.len()).unwrap_or(u32::MAX).max(1);
        (self.time / count).max(LEAST_TIME).min(self.time)
    }

    /// Whether a session with a server that says this of itself may stay.
    #[must_use]
    pub fn admits(&self, standing: Standing) -> bool {
        match self.wanted.fit(standing) {
            Fit::Good | Fit::Stopgap => true,
            Fit::Unfit => false,
        }
    }

    /// A session with the first server that is what is wanted.
    ///
    /// # Errors
    /// If no server lets us in, or none is what is wanted.
    pub async fn find<O: Opener<P>>(
        &self,
        opener: &O,
    ) -> Result<Found<O::Session>, NoServer<O::Error>> {
        let (mut stopgap, mut last) = (None, NoServer::Unfit(self.wanted));
        for index in self.order() {
            let Some(place) = self.places.get(index) else {
                continue;
            };
            // Over all: a server can take the connection and then say nothing.
            match timeout(self.share(), opener.open(place)).await {
                Ok(Ok((session, standing))) => {
                    self.note(index, None);
                    match self.wanted.fit(standing) {
                        Fit::Good => {
                            let is_stopgap = false;
                            return Ok(Found {
                                session,
                                is_stopgap,
                            });
                        }
                        Fit::Stopgap if stopgap.is_none() => stopgap = Some(session),
                        Fit::Stopgap => {}
                        Fit::Unfit => last = NoServer::Unfit(self.wanted),
                    }
                }
                Ok(Err(Trial::Last(error))) => return Err(NoServer::Failed(error)),
                Ok(Err(Trial::Next(error))) => {
                    self.note(index, Some(Instant::now()));
                    last = NoServer::Failed(error);
                }
                Err(_) => {
                    self.note(index, Some(Instant::now()));
                    last = NoServer::Late(self.share());
                }
            }
        }
        match stopgap {
            Some(session) => Ok(Found {
                session,
                is_stopgap: true,
            }),
            None => Err(last),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::future::pending;

    use super::*;

    #[derive(Clone, Copy)]
    enum Kind {
        Primary,
        Standby,
        /// A primary whose sessions only read.
        Closed,
        Late,
        Gone,
        Silent,
        Locked,
    }

    /// Notes which servers were asked.
    #[derive(Default)]
    struct Asked(Mutex<Vec<usize>>);

    impl Opener<(usize, Kind)> for Asked {
        type Session = usize;
        type Error = &'static str;

        async fn open(
            &self,
            (number, kind): &(usize, Kind),
        ) -> Result<(usize, Standing), Trial<&'static str>> {
            self.0.lock().unwrap().push(*number);
            let (is_standby, is_read_only, is_late) = match kind {
                Kind::Primary => (false, false, false),
                Kind::Standby => (true, true, false),
                Kind::Closed => (false, true, false),
                Kind::Late => (true, true, true),
                Kind::Gone => return Err(Trial::Next("gone")),
                Kind::Locked => return Err(Trial::Last("locked")),
                Kind::Silent => pending().await,
            };
            let standing = Standing {
                is_standby,
                is_read_only,
                is_late,
            };
            Ok((*number, standing))
        }
    }

    /// The number of the server that is found, `~` before it for a stopgap; and which were asked.
    async fn find_server(servers: &Servers<(usize, Kind)>) -> (String, Vec<usize>) {
        let asked = Asked::default();
        let text = match servers.find(&asked).await {
            Ok(Found {
                session,
                is_stopgap,
            }) => format!("{}{session}", if is_stopgap { "~" } else { "" }),
            Err(NoServer::Failed(why)) => why.to_owned(),
            Err(NoServer::Late(_)) => "late".to_owned(),
            Err(NoServer::Unfit(wanted)) => wanted.to_string(),
        };
        (text, asked.0.into_inner().unwrap())
    }

    const TIME: Duration = Duration::from_millis(50);

    fn servers(wanted: Wanted, kinds: &[Kind]) -> Servers<(usize, Kind)> {
        let places = kinds.iter().copied().enumerate().collect();
        Servers::new(places, wanted, TIME)
    }

    #[tokio::test]
    async fn the_first_server_that_is_wanted_is_found() {
        use Kind::{Closed, Gone, Late, Locked, Primary, Standby};
        for (wanted, kinds, expected) in [
            (Wanted::Any, &[Standby, Primary][..], "0"),
            (Wanted::Any, &[Gone, Primary], "1"),
            (Wanted::Any, &[Late, Primary], "1"),
            (Wanted::Any, &[Late], "no server has data"),
            (Wanted::Any, &[Gone], "gone"),
            (Wanted::Any, &[Locked, Primary], "locked"),
            (Wanted::Primary, &[Standby, Closed, Primary], "1"),
            (Wanted::Primary, &[Standby, Gone], "gone"),
            (
                Wanted::Primary,
                &[Gone, Standby],
                "no server is the primary",
            ),
            (Wanted::ReadWrite, &[Standby, Closed, Primary], "2"),
            (Wanted::ReadOnly, &[Primary, Closed, Standby], "1"),
            (Wanted::Standby, &[Primary, Standby], "1"),
            (Wanted::Standby, &[Primary, Late], "no server is a standby"),
            (Wanted::PreferStandby, &[Primary, Standby], "1"),
            (Wanted::PreferStandby, &[Gone, Primary, Late, Primary], "~1"),
            (Wanted::PreferStandby, &[Late], "no server is a standby"),
        ] {
            let (text, _) = find_server(&servers(wanted, kinds)).await;
            assert!(text.starts_with(expected), "{wanted:?}: {text}");
        }
    }

    #[tokio::test]
    async fn a_server_that_failed_is_asked_last_for_a_while() {
        let servers = servers(Wanted::Any, &[Kind::Silent, Kind::Gone, Kind::Primary]);
        assert_eq!(find_server(&servers).await, ("2".to_owned(), vec![0, 1, 2]));
        assert_eq!(find_server(&servers).await, ("2".to_owned(), vec![2]));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_takes_its_share() {
        let alone = servers(Wanted::Any, &[Kind::Silent]);
        assert_eq!(find_server(&alone).await.0, "late");
        for (count, time, share) in [(1, 5, 5), (2, 6, 3), (4, 2, 1)] {
            let places = vec![(0, Kind::Primary); count];
            let several = Servers::new(places, Wanted::Any, Duration::from_secs(time));
            assert_eq!(several.share(), Duration::from_secs(share));
        }
    }

    #[test]
    fn every_name_is_understood() {
        let names = TARGETS.split('`').skip(1).step_by(2);
        assert_eq!(names.clone().count(), 6);
        assert!(names.clone().all(|name| Wanted::from_name(name).is_some()));
        assert_eq!(Wanted::from_name("master"), None);
    }
}
