//! What listens: looks at who connects, greets, and serves.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade_mcp::PalisadeServer;
use serde_json::json;
use tokio::{
    net::{UnixListener, UnixStream, unix::UCred},
    sync::oneshot,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{
    handshake::{Ask, HELLO_TIME, Welcome, read_hello, write_line},
    layout::{Layout, Secrets},
    membership::{Memberships, list_groups},
    peer::{Opened, Peer, PeerRules, Process},
    places::{Owner, Places},
    private::PrivateError,
    rate::Rate,
    sessions::{SessionTimes, Sessions},
};

/// Handshakes at once, and in a second: what a flood takes of a core, a tenth at most.
const HANDSHAKES: (u32, u32) = (64, 2000);

/// Connections that have not said their secret, at a time. The oldest makes place. At the rate of handshakes it had a tenth of a second
/// by then, and a relay says its secret at once.
const GREETING: usize = 256;

/// Refusals that are remembered.
const REFUSALS: usize = 16;

/// The time that connections are given to end, beside that of what they run: cancelled statements are waited for.
const ENDING: Duration = Duration::from_secs(10);

/// What a broker is made of.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// Its folders.
    pub layout: Layout,
    /// Who may connect.
    pub rules: PeerRules,
    /// How long sessions last.
    pub times: SessionTimes,
    /// Connections that are served at a time.
    pub connections: usize,
    /// How long what runs may still take when the broker is to end. Then it is cancelled on the database.
    pub drain: Duration,
    /// Whether [memory is locked](crate::lock_memory), for who asks.
    pub is_memory_locked: bool,
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// A folder or a file is not private, or the system refuses.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// Another broker has the folder.
    #[error(
        "another broker runs in `{0}`\n  help: stop it, or name another `directory` under `[broker]`"
    )]
    Running(PathBuf),
    /// No system takes the socket's path.
    #[error(
        "`{path}` is longer than the {most} bytes that a socket's path may have\n  help: name a shorter `directory` under `[broker]`"
    )]
    LongPath {
        /// The path.
        path: PathBuf,
        /// The most bytes that its path may have.
        most: usize,
    },
    /// The file of sessions is of another form, or damaged.
    #[error("{0}")]
    Sessions(String),
    /// There is no randomness.
    #[error("no random numbers: {0}")]
    Random(String),
}

/// A broker that listens.
pub struct Broker {
    listener: UnixListener,
    shared: Arc<Shared>,
    socket: PathBuf,
    // Other brokers of the folder wait for its end.
    _lock: File,
}

/// What all connections look at.
struct Shared {
    rules: PeerRules,
    secrets: Secrets,
    /// Connections that are served at a time.
    most: usize,
    drain: Duration,
    own: u32,
    is_memory_locked: bool,
    state: Mutex<State>,
}

struct State {
    sessions: Sessions,
    /// Those that have not said their secret.
    greeting: VecDeque<(u64, AbortHandle)>,
    /// What ends each that is served: in a time, or at once when it is dropped.
    served: BTreeMap<u64, oneshot::Sender<Duration>>,
    places: Places,
    memberships: Memberships,
    refusals: VecDeque<serde_json::Value>,
    refused: u64,
}

impl Broker {
    /// Makes the folders private, and listens. It must be called on a Tokio runtime.
    ///
    /// # Errors
    /// If a folder is another's, others may use it, or another broker runs in it.
    pub fn open(options: BrokerOptions) -> Result<Self, BrokerError> {
        let BrokerOptions {
            layout,
            rules,
            times,
            connections,
            drain,
            is_memory_locked,
        } = options;
        let names = rules.enrolments.iter().map(|one| one.name.as_str());
        let (lock, secrets) = layout.prepare(&names.collect::<Vec<_>>())?;
        let sessions = Sessions::open(Some(layout.admin().join("sessions.json")), times)
            .map_err(|error| BrokerError::Sessions(error.to_string()))?;
        let listener = layout.listen()?;
        let places = Places::new(connections, rules.count_owners());
        Ok(Self {
            listener,
            socket: Layout::socket_in(&layout.run()),
            shared: Arc::new(Shared {
                rules,
                is_memory_locked,
                secrets,
                most: connections,
                drain,
                own: rustix::process::geteuid().as_raw(),
                state: Mutex::new(State {
                    sessions,
                    greeting: VecDeque::new(),
                    served: BTreeMap::new(),
                    places,
                    memberships: Memberships::default(),
                    refusals: VecDeque::new(),
                    refused: 0,
                }),
            }),
            _lock: lock,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Serves until `stop` is there. Each request brings a [`Peer`], for the server's principals.
    pub async fn serve(self, server: PalisadeServer, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            shared,
            socket,
            _lock: lock,
        } = self;
        let mut stop = pin!(stop);
        let mut tasks = JoinSet::new();
        let mut rate = Rate::new(HANDSHAKES.0, HANDSHAKES.1, Instant::now());
        let mut ticks = interval(Duration::from_secs(5));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number: u64 = 0;
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                Some(_) = tasks.join_next() => continue,
                _ = ticks.tick() => {
                    let mut state = shared.lock();
                    for connection in state.sessions.expire(now()) {
                        state.served.remove(&connection);
                    }
                    continue;
                }
                accepted = accept(&listener, &mut rate) => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    // Descriptors have run out, for example.
                    tracing::error!("no connection can be taken: {error}");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            number = number.wrapping_add(1);
            let connection = Connection {
                number,
                shared: Arc::clone(&shared),
            };
            // It holds the lock, so that the task does not look before it is in the list.
            let mut state = shared.lock();
            let handle = tasks.spawn(connection.run(stream, server.clone()));
            state.greeting.push_back((number, handle));
            if state.greeting.len() > GREETING
                && let Some((_, oldest)) = state.greeting.pop_front()
            {
                oldest.abort();
            }
        }
        tracing::info!(
            seconds = shared.drain.as_secs(),
            "no more connections are taken; what runs may still end"
        );
        drop(listener);
        // So that whoever comes now is told that none listens.
        let _ = std::fs::remove_file(&socket);
        {
            let mut state = shared.lock();
            for (_, stopper) in std::mem::take(&mut state.served) {
                // Its connection has ended if this fails.
                let _ = stopper.send(shared.drain);
            }
            for (_, greeting) in state.greeting.drain(..) {
                greeting.abort();
            }
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        if timeout(shared.drain + ENDING, all).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
        drop(lock);
    }
}

/// Takes a connection, no faster than handshakes may come.
async fn accept(listener: &UnixListener, rate: &mut Rate) -> io::Result<UnixStream> {
    // It may be given up at any time, and then no connection may have been taken.
    while let Some(wait) = rate.find_wait(Instant::now()) {
        sleep(wait).await;
    }
    let (stream, _) = listener.accept().await?;
    rate.take();
    Ok(stream)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `status` tells.
    fn describe(&self, server: &PalisadeServer) -> serde_json::Value {
        let databases = server.list_loads().into_iter().map(|one| {
            json!({
                "name": one.name,
                "engine": one.engine,
                "reached": one.load.is_some(),
                "running": one.load.map(|load| load.running),
                "waiting": one.load.map(|load| load.waiting),
            })
        });
        let databases: Vec<_> = databases.collect();
        let state = self.lock();
        let sessions = state.sessions.list().into_iter().map(|(info, connected)| {
            json!({
                "id": info.id,
                "principal": info.principal,
                "enrolment": info.enrolment,
                "user": info.user,
                "created": info.created,
                "seen": info.seen,
                "connected": connected,
            })
        });
        json!({
            "user": self.own,
            "posture": describe_posture(&self.rules),
            "memory_locked": self.is_memory_locked,
            "connections": state.served.len(),
            "most_connections": self.most,
            "databases": databases,
            "refused": state.refused,
            "last_refusals": state.refusals,
            "enrolments": self.rules.enrolments.iter().map(|one| &one.name).collect::<Vec<_>>(),
            "sessions": sessions.collect::<Vec<_>>(),
        })
    }
}

/// What stands between agents and the broker, as far as it can know.
fn describe_posture(rules: &PeerRules) -> &'static str {
    match rules.group {
        Some(_) => {
            "agents of a group connect; those of other users than the broker's cannot reach its files or memory"
        }
        None => {
            "agents run as the broker's own user: in a sandbox they cannot reach its files; without one this protects from accident only"
        }
    }
}

/// Whom to serve.
struct Greeted {
    peer: Peer,
    /// Whose connection it is, among those that are served.
    owner: Owner,
    /// The secret of the session that is asked for.
    resume: Option<String>,
}

/// One connection.
struct Connection {
    number: u64,
    shared: Arc<Shared>,
}

impl Connection {
    async fn run(self, mut stream: UnixStream, server: PalisadeServer) {
        let Some(Greeted {
            peer,
            owner,
            resume,
        }) = self.greet(&mut stream, &server).await
        else {
            return;
        };
        let (stopper, stopped) = oneshot::channel();
        let begun = {
            let mut state = self.shared.lock();
            if state.places.take(&owner) {
                let begun = state
                    .sessions
                    .begin(&peer, resume.as_deref(), self.number, now());
                if let Ok(begun) = &begun {
                    if let Some(before) = begun.before {
                        state.served.remove(&before);
                    }
                    state.served.insert(self.number, stopper);
                } else {
                    state.places.leave(&owner);
                }
                Some(begun)
            } else {
                None
            }
        };
        let begun = match begun {
            Some(Ok(begun)) => begun,
            Some(Err(error)) => {
                tracing::error!("no session: {error}");
                let told = "the session cannot be stored; the broker's log says why";
                return self.refuse(&mut stream, "broker.state", told).await;
            }
            None => {
                let told = "as many connections are served as may be; try again later";
                return self.refuse(&mut stream, "broker.busy", told).await;
            }
        };
        let leaving = Leaving {
            number: self.number,
            owner,
            shared: &self.shared,
        };
        let welcome = Welcome::Serve {
            session: begun.id.clone(),
            resume: begun.resume,
            resumed: begun.resumed,
        };
        if !matches!(
            timeout(HELLO_TIME, write_line(&mut stream, &welcome)).await,
            Ok(Ok(()))
        ) {
            return;
        }
        let session = begun.id;
        tracing::info!(
            session,
            user = peer.user,
            resumed = begun.resumed,
            "a relay connected"
        );
        let (read, write) = stream.into_split();
        let until = async { stopped.await.unwrap_or_default() };
        let peer = Peer {
            session: Some(session.clone()),
            ..peer
        };
        // A session that is resumed is the same in records.
        let server = server.with_session_name(&session);
        if let Err(error) = palisade_mcp::serve_peer(server, (read, write), peer, until).await {
            tracing::warn!(session, "{error}");
        }
        tracing::info!(session, "a relay left");
        drop(leaving);
    }

    /// Looks at who it is, and answers an operator. Whom to serve, and the session that is asked for.
    async fn greet(&self, stream: &mut UnixStream, server: &PalisadeServer) -> Option<Greeted> {
        let credentials = stream.peer_cred().ok()?;
        let process = self.identify(&credentials).await;
        if !self.shared.rules.admit(self.shared.own, &process) {
            self.remember(&credentials, "broker.user");
            let told = "processes of this user may not connect";
            self.refuse(stream, "broker.user", told).await;
            return None;
        }
        let hello = match timeout(HELLO_TIME, read_hello(stream)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(_)) => {
                self.remember(&credentials, "broker.handshake");
                let told = "the first line is not that of a relay of this version";
                self.refuse(stream, "broker.handshake", told).await;
                return None;
            }
            Err(_) => {
                self.remember(&credentials, "broker.slow");
                self.refuse(stream, "broker.slow", "the first line took too long")
                    .await;
                return None;
            }
        };
        let opened = self
            .shared
            .rules
            .open(&self.shared.secrets, &hello.token, &process);
        let answer = match (opened, hello.ask) {
            (Some((Opened::Serve(peer), owner)), Ask::Serve { resume }) => {
                self.leave_greeting();
                return Some(Greeted {
                    peer,
                    owner,
                    resume,
                });
            }
            (Some((Opened::Admin, _)), Ask::Status {}) => {
                Welcome::Status(self.shared.describe(server))
            }
            (Some((Opened::Admin, _)), Ask::End { session }) => {
                let mut state = self.shared.lock();
                let (ended, saved) = state.sessions.end(&session);
                if let Some(Some(connection)) = ended {
                    state.served.remove(&connection);
                }
                match saved {
                    Ok(()) => Welcome::Ended(ended.is_some()),
                    Err(error) => {
                        tracing::error!("a session's end is not stored: {error}");
                        Welcome::Refused {
                            code: "broker.state".to_owned(),
                            message: "the session has ended, and would come back with the next broker, because its end cannot be stored; make room on the disk, and end it again".to_owned(),
                        }
                    }
                }
            }
            (Some((Opened::Admin, _)), Ask::Serve { .. })
            | (Some((Opened::Serve(_), _)), Ask::Status {} | Ask::End { .. })
            | (None, Ask::Serve { .. } | Ask::Status {} | Ask::End { .. }) => {
                self.remember(&credentials, "broker.token");
                let told = "the secret is not one of this broker's, or not for this; read it anew";
                self.refuse(stream, "broker.token", told).await;
                return None;
            }
        };
        let _ = timeout(HELLO_TIME, write_line(stream, &answer)).await;
        self.leave_greeting();
        None
    }

    /// The process at the other end, with its user's groups where they make a difference.
    async fn identify(&self, credentials: &UCred) -> Process {
        let (user, group) = (credentials.uid(), credentials.gid());
        let mut process = Process {
            user,
            group,
            groups: Vec::new(),
        };
        if !self.shared.rules.need_groups(self.shared.own, user, group) {
            return process;
        }
        let known = self.shared.lock().memberships.find(user, Instant::now());
        process.groups = match known {
            Some(groups) => groups,
            None => {
                let groups = tokio::task::spawn_blocking(move || list_groups(user)).await;
                // A task that fails has found none.
                let groups = groups.unwrap_or_default();
                let mut state = self.shared.lock();
                state.memberships.keep(user, groups.clone(), Instant::now());
                groups
            }
        };
        process
    }

    /// Tells whoever it is why, in a time.
    async fn refuse(&self, stream: &mut UnixStream, code: &str, message: &str) {
        let refused = Welcome::Refused {
            code: code.to_owned(),
            message: message.to_owned(),
        };
        let _ = timeout(HELLO_TIME, write_line(stream, &refused)).await;
        self.leave_greeting();
    }

    fn leave_greeting(&self) {
        let mut state = self.shared.lock();
        state.greeting.retain(|(number, _)| *number != self.number);
    }

    /// Remembers a refusal, without anything that the peer said.
    fn remember(&self, credentials: &UCred, code: &'static str) {
        let (user, process) = (credentials.uid(), credentials.pid());
        let mut state = self.shared.lock();
        state.refused = state.refused.saturating_add(1);
        // A flood would fill the log.
        if state.refused <= REFUSALS as u64 || state.refused.is_multiple_of(1000) {
            tracing::warn!(
                code,
                user,
                process,
                refused = state.refused,
                "a connection is refused"
            );
        }
        if state.refusals.len() >= REFUSALS {
            state.refusals.pop_front();
        }
        let refusal = json!({"code": code, "user": user, "process": process, "time": now()});
        state.refusals.push_back(refusal);
    }
}

/// Says that a connection has ended, however it does.
struct Leaving<'s> {
    number: u64,
    owner: Owner,
    shared: &'s Shared,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.served.remove(&self.number);
        state.places.leave(&self.owner);
        state.sessions.leave(self.number, now());
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
