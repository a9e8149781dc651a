//! Who has a session, and who waits for one.

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use palisade::guard::BackendError;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    statement_task::Task,
    turns::{Turn, Turns},
};

/// How long a session is used before another takes its place: settings and privileges of accounts come into
/// force in new sessions only, and the server's memory for one grows.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// How long cleaning a session may take, and each step of ending it.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// How long ending a session is waited for: two steps, and a little.
const ENDING: Duration = Duration::from_millis(4500);

/// Sessions at a time, by default.
const CONNECTIONS: usize = 8;

/// Statements waiting for a session, by default.
const WAITING: usize = 64;

/// Makes sessions with a server, and ends them.
pub trait Connector: Send + Sync + 'static {
    /// A connection and what is kept beside it.
    type Session: Send + 'static;
    /// Why there is no session.
    type Error: fmt::Display + Send;

    /// A new session. Tasks that drive it run on `runtime`.
    fn connect(
        &self,
        runtime: &Handle,
    ) -> impl Future<Output = Result<Self::Session, Self::Error>> + Send;

    /// Whether the connection stands, as far as can be told without asking the server.
    fn is_usable(&self, session: &Self::Session) -> bool;

    /// Whether a session that has been used may be used once more, asking its server where that must say.
    fn may_stay(&self, session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Has the server take back whatever a statement left in the session; whether it confirmed that.
    fn clean(&self, session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Whether the server was told to clean the session, and runs nothing before that. It does so whatever becomes of us, so that no
    /// caller waits for its word: [`may_stay`](Self::may_stay) does, before the session is used again.
    fn is_cleaning(&self, _session: &Self::Session) -> bool {
        false
    }

    /// Ends what runs in the session, and closes it; whether the server took the order. Each step takes [`PATIENCE`] at most.
    fn end(&self, session: Self::Session) -> impl Future<Output = bool> + Send;

    /// Closes a session in which nothing runs, within the runtime and without waiting.
    fn close(&self, session: Self::Session);
}

/// How many sessions there may be: by default 8, and 64 statements that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Sessions at a time; at least one.
    pub connections: usize,
    /// Statements that may wait for one.
    pub waiting: usize,
}

impl Default for PoolSize {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            waiting: WAITING,
        }
    }
}

/// Sessions, shared by all clones.
pub struct Pool<C: Connector> {
    shared: Arc<Shared<C>>,
}

impl<C: Connector> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C: Connector> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("free", &self.shared.slots.available_permits())
            .finish_non_exhaustive()
    }
}

struct Shared<C: Connector> {
    connector: C,
    idle: Mutex<Vec<Aged<C::Session>>>,
    /// One for each session that may be.
    slots: Arc<Semaphore>,
    /// One for each statement that may run or wait.
    places: Arc<Semaphore>,
    turns: Turns,
    runtime: Handle,
}

/// A session and when it began.
struct Aged<S> {
    session: S,
    born: Instant,
}

/// A session in use. Dropped instead of [given back](Self::give_back), it is ended and closed.
pub struct Lease<C: Connector> {
    held: Option<(Aged<C::Session>, Permits)>,
    shared: Arc<Shared<C>>,
    reused: bool,
}

impl<C: Connector> fmt::Debug for Lease<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("reused", &self.reused)
            .finish_non_exhaustive()
    }
}

/// Held as long as the session is.
struct Permits {
    _slot: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl<C: Connector> Pool<C> {
    /// An empty pool. Its tasks run on `runtime`, which must drive input, output and time.
    pub fn new(connector: C, size: PoolSize, runtime: Handle) -> Self {
        let connections = size.connections.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = size.waiting.min(Semaphore::MAX_PERMITS / 2);
        Self {
            shared: Arc::new(Shared {
                connector,
                idle: Mutex::new(Vec::new()),
                slots: Arc::new(Semaphore::new(connections)),
                places: Arc::new(Semaphore::new(connections.saturating_add(waiting))),
                turns: Turns::default(),
                runtime,
            }),
        }
    }

    /// The turn to write what `tasks` write; at once where they only read. Its wait is within the time of the first.
    ///
    /// # Errors
    /// `Locked` if it does not come in time, or `Cancelled`.
    pub async fn take_turn(&self, tasks: &[Task<'_>]) -> Result<Option<Turn>, BackendError> {
        let tables = tasks.iter().flat_map(Task::written_tables);
        let tables: BTreeSet<&str> = tables.collect();
        match tasks.first() {
            Some(first) if !tables.is_empty() => {
                let time = first.limits.statement_timeout();
                let turn = self.shared.turns.wait(&tables, time, first.cancel);
                turn.await.map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// A session, after a wait if all are in use.
    ///
    /// # Errors
    /// If as many wait already as may, or there is no connection.
    pub async fn lease(&self) -> Result<Lease<C>, PoolError<C::Error>> {
        let shared = &self.shared;
        let closed = |_| PoolError::Closed;
        let place = Arc::clone(&shared.places)
            .try_acquire_owned()
            .map_err(|_| PoolError::Full)?;
        let slot = Arc::clone(&shared.slots)
            .acquire_owned()
            .await
            .map_err(closed)?;
        let mut permits = Permits {
            _slot: slot,
            _place: place,
        };
        while let Some(aged) = shared.usable() {
            let mut lease = Lease {
                held: Some((aged, permits)),
                shared: Arc::clone(shared),
                reused: true,
            };
            if lease.may_stay().await {
                return Ok(lease);
            }
            match lease.close() {
                Some(held) => permits = held,
                None => return Err(PoolError::Closed),
            }
            // Each would be asked in vain, and wait for that.
            shared.forget_idle();
        }
        Ok(Lease {
            held: Some((shared.fresh().await?, permits)),
            shared: Arc::clone(shared),
            reused: false,
        })
    }

    /// Closes the sessions that are not in use: they may be of a server that is no more.
    pub fn forget_idle(&self) {
        self.shared.forget_idle();
    }
}

impl<C: Connector> Shared<C> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Aged<C::Session>>> {
        // Whoever panicked left a vector of sessions.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session used last, if there is a usable session.
    fn usable(&self) -> Option<Aged<C::Session>> {
        let mut idle = self.lock();
        idle.retain(|aged| {
            aged.born.elapsed() < MAX_AGE && self.connector.is_usable(&aged.session)
        });
        idle.pop()
    }

    fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.lock());
        let _guard = self.runtime.enter();
        for aged in idle {
            self.connector.close(aged.session);
        }
    }

    async fn fresh(&self) -> Result<Aged<C::Session>, PoolError<C::Error>> {
        let session = self.connector.connect(&self.runtime).await;
        Ok(Aged {
            session: session.map_err(PoolError::Connect)?,
            born: Instant::now(),
        })
    }
}

impl<C: Connector> Lease<C> {
    /// The session.
    ///
    /// # Errors
    /// None as long as the lease is there.
    pub fn session(&mut self) -> Result<&mut C::Session, BackendError> {
        match &mut self.held {
            Some((aged, _)) => Ok(&mut aged.session),
            None => Err(BackendError::unavailable("the session was given back")),
        }
    }

    /// Whether it has been used before, so that the server may have closed it unnoticed.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    async fn may_stay(&mut self) -> bool {
        match &mut self.held {
            Some((aged, _)) => self.shared.connector.may_stay(&mut aged.session).await,
            None => false,
        }
    }

    /// Closes the session, in which nothing runs.
    fn close(&mut self) -> Option<Permits> {
        let (aged, permits) = self.held.take()?;
        let _guard = self.shared.runtime.enter();
        self.shared.connector.close(aged.session);
        Some(permits)
    }

    /// Puts the session back for others to use, if the server confirms that nothing is left in it, or [will](Connector::is_cleaning);
    /// else abandons it.
    pub async fn give_back(mut self) {
        let Some((aged, _)) = &mut self.held else {
            return;
        };
        if !self.shared.connector.is_cleaning(&aged.session) {
            let cleaning = self.shared.connector.clean(&mut aged.session);
            if !matches!(timeout(PATIENCE, cleaning).await, Ok(true)) {
                return self.abandon().await;
            }
        }
        if let Some((aged, permits)) = self.held.take() {
            self.shared.lock().push(aged);
            drop(permits);
        }
    }

    /// Ends what runs, closes the session, and waits for that a little: as long as it takes to find that the server is silent, so
    /// that the caller's next statement is given no other session with it.
    pub async fn abandon(mut self) {
        if let Some(task) = self.end() {
            let _ = timeout(ENDING, task).await;
        }
    }

    fn end(&mut self) -> Option<JoinHandle<()>> {
        let (aged, permits) = self.held.take()?;
        let shared = Arc::clone(&self.shared);
        Some(self.shared.runtime.spawn(async move {
            if !shared.connector.end(aged.session).await {
                // A server that is gone without a word has left the others as they are.
                shared.forget_idle();
            }
            drop(permits);
        }))
    }
}

impl<C: Connector> Drop for Lease<C> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Why there is no session.
#[derive(Debug)]
pub enum PoolError<E> {
    /// As many wait already as may.
    Full,
    /// The pool is gone.
    Closed,
    /// There is no connection.
    Connect(E),
}

impl<E: fmt::Display> From<PoolError<E>> for BackendError {
    fn from(error: PoolError<E>) -> Self {
        match error {
            PoolError::Full => Self::busy("too many statements wait for a connection"),
            PoolError::Closed => Self::unavailable("there is no pool of connections"),
            PoolError::Connect(error) => Self::unavailable(error.to_string()),
        }
    }
}
