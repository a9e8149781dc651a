//! Databases that are opened while the server answers already: behind its start, or once they can be reached.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use palisade::{
    audit::AuditSink,
    dialect::Dialect,
    guard::Guard,
    limits::Limits,
    session::{Session, Transport},
};
use rmcp::model::Extensions;
use tokio::{
    sync::watch::{Receiver, channel},
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    connections::Connection,
    options::{PrincipalSource, ServeOptions, session_of},
    server::PalisadeServer,
};

/// How long after an attempt the next one is made.
const PAUSE: Duration = Duration::from_secs(2);

/// How long a call waits for its database: past the time that a connection may take, short of a client's own limit.
const CALL_PATIENCE: Duration = Duration::from_secs(15);

/// How long a list waits for databases that were not tried before. Clients wait for it at their start.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

type Open = dyn Fn() -> Option<(Arc<Guard>, ServeOptions)> + Send + Sync;

/// A connection whose database is not open yet. It is opened by [`PalisadeServer::warm`], or by the first call that means it, once
/// it can be.
#[derive(Clone)]
pub struct LateConnection {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) engine: Option<String>,
    pub(crate) max_query_bytes: usize,
    /// Whether the operator lets the server change anything there.
    pub(crate) is_writable: bool,
    /// Whether the list of tools is the same before and after it is open.
    has_fixed_tools: bool,
    recorder: Option<Recorder>,
    open: Arc<Open>,
}

/// Where calls are recorded while no gate is open, and who asks.
#[derive(Clone)]
struct Recorder {
    audit: Arc<dyn AuditSink>,
    principal: PrincipalSource,
    transport: Transport,
}

impl LateConnection {
    /// The connection called `name`, which `open` opens. It may block, and gives nothing where the database still cannot be
    /// reached; to log why is its own part. `limits` are those of its gate.
    pub fn new(
        name: impl Into<String>,
        dialect: Dialect,
        limits: &Limits,
        open: impl Fn() -> Option<(Arc<Guard>, ServeOptions)> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            dialect,
            engine: None,
            max_query_bytes: limits.max_query_bytes,
            is_writable: false,
            has_fixed_tools: false,
            recorder: None,
            open: Arc::new(open),
        }
    }

    /// The same of an engine whose version is known before the database is open, as `SQLite 3.50.4`.
    #[must_use]
    pub fn with_engine(self, engine: impl Into<String>) -> Self {
        Self {
            engine: Some(engine.into()),
            ..self
        }
    }

    /// The same, where the operator lets the server change what policies permit.
    #[must_use]
    pub fn writable(self) -> Self {
        Self {
            is_writable: true,
            ..self
        }
    }

    /// The same, where nothing of the database or of its policies decides which tools are listed: it is for reading, and there is
    /// neither a template nor a policy that demands an approval. Lists of tools do not wait for it then.
    #[must_use]
    pub fn with_fixed_tools(self) -> Self {
        Self {
            has_fixed_tools: true,
            ..self
        }
    }

    /// The same, where calls that come before any database is open are recorded in `audit`, as asked by `principal`.
    #[must_use]
    pub fn recording(
        self,
        audit: Arc<dyn AuditSink>,
        principal: PrincipalSource,
        transport: Transport,
    ) -> Self {
        Self {
            recorder: Some(Recorder {
                audit,
                principal,
                transport,
            }),
            ..self
        }
    }
}

impl fmt::Debug for LateConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateConnection")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A late connection, and what became of it.
pub(crate) struct Late {
    pub(crate) connection: LateConnection,
    opened: OnceLock<Arc<Connection>>,
    attempts: Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    /// That which goes on. It says when it has ended.
    current: Option<Receiver<bool>>,
    /// When the last one ended.
    tried: Option<Instant>,
}

/// What came of waiting for a database.
pub(crate) enum Reached {
    /// It is open.
    Open(Arc<Connection>),
    /// It is still being opened.
    Opening,
    /// It could not be opened.
    Unreachable,
}

impl Late {
    pub(crate) fn new(connection: LateConnection) -> Self {
        Self {
            connection,
            opened: OnceLock::new(),
            attempts: Mutex::default(),
        }
    }

    /// The connection, if it is open.
    pub(crate) fn opened(&self) -> Option<&Arc<Connection>> {
        self.opened.get()
    }

    /// Opens it, and waits for that as long as a call does.
    pub(crate) async fn reach(self: &Arc<Self>) -> Reached {
        let Some(mut ended) = self.attempt() else {
            return self.reached();
        };
        match timeout(CALL_PATIENCE, ended.wait_for(|ended| *ended)).await {
            Ok(_) => self.reached(),
            Err(_) => Reached::Opening,
        }
    }

    /// Begins to open it, and does not wait for that; whether it is open already.
    pub(crate) fn begin_opening(self: &Arc<Self>) -> bool {
        let _ = self.attempt();
        self.opened().is_some()
    }

    fn reached(&self) -> Reached {
        match self.opened() {
            Some(connection) => Reached::Open(Arc::clone(connection)),
            None => Reached::Unreachable,
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first attempt, begun unless it was; none after it has ended.
    fn first_attempt(self: &Arc<Self>) -> Option<Receiver<bool>> {
        let was_tried = self.attempts().tried.is_some();
        if was_tried { None } else { self.attempt() }
    }

    /// The attempt that goes on: never two of them, and the next some time after a failure.
    fn attempt(self: &Arc<Self>) -> Option<Receiver<bool>> {
        let mut attempts = self.attempts();
        if self.opened().is_some() {
            return None;
        }
        // What broke off has no sender any more.
        let current = attempts.current.as_ref();
        if let Some(current) = current.filter(|current| current.has_changed().is_ok()) {
            return Some(current.clone());
        }
        if attempts.tried.is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        let (ended, receiver) = channel(false);
        attempts.current = Some(receiver.clone());
        let late = Arc::clone(self);
        // Callers come and go; the attempt goes on.
        drop(spawn_blocking(move || {
            if let Some((guard, options)) = (late.connection.open)() {
                let connection = Arc::new(Connection::new(guard, options));
                late.opened.get_or_init(|| connection);
            }
            let mut attempts = late.attempts();
            attempts.current = None;
            attempts.tried = Some(Instant::now());
            drop(attempts);
            ended.send_replace(true);
        }));
        Some(receiver)
    }

    /// Where calls are recorded while it is not open, and the session of a request.
    pub(crate) fn recorder(&self, request: &Extensions) -> Option<(Arc<dyn AuditSink>, Session)> {
        let Recorder {
            audit,
            principal,
            transport,
        } = self.connection.recorder.as_ref()?;
        let session = session_of(principal.asker(request)?, *transport);
        Some((Arc::clone(audit), session))
    }
}

impl PalisadeServer {
    /// Opens every database that is not open, and waits until each was tried once. Calls that need one wait for it by themselves, so
    /// that a server can answer before this ends.
    pub async fn warm(&self) {
        let all = self.connections.unopened();
        let begun: Vec<_> = all.iter().filter_map(Late::first_attempt).collect();
        for mut ended in begun {
            // An attempt that broke off has ended too.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Whether any database is open.
    #[must_use]
    pub fn has_open_database(&self) -> bool {
        !self.connections.opened().is_empty()
    }

    /// Waits until every database was tried once, for 5 seconds at most.
    pub async fn settle(&self) {
        wait_for_first(&self.connections.unopened()).await;
    }

    /// As [`settle`](Self::settle), for those that decide which tools are listed.
    pub(crate) async fn settle_tools(&self) {
        let mut deciding = self.connections.unopened();
        deciding.retain(|late| !late.connection.has_fixed_tools);
        wait_for_first(&deciding).await;
    }
}

async fn wait_for_first(all: &[Arc<Late>]) {
    let deadline = Instant::now() + LIST_PATIENCE;
    let begun: Vec<_> = all.iter().filter_map(Late::first_attempt).collect();
    for mut ended in begun {
        let waited = timeout_at(deadline, ended.wait_for(|ended| *ended)).await;
        if waited.is_err() {
            return;
        }
    }
}
