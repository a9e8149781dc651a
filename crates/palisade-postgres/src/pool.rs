//! Sessions with the server: so many and no more, each clean when it is given out.
//!
//! A pool of our own, since each of its rules is a lock. Besides the number of connections it bounds the number
//! of those who wait for one. A session goes back only after the server has confirmed that nothing is left in
//! it; one that was abandoned in the middle is cancelled on the server and closed, never given out again,
//! so that a cancellation that comes late finds nothing else to hit.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use palisade::guard::BackendError;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::Client;

use crate::{
    connect::{ConnectError, Connector},
    fault,
    schema::Look,
};

/// How long a session is used before another takes its place: settings of roles and databases come into force
/// in new sessions only, and the server's memory for one grows.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// How long cleaning may take, cancelling, and closing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Leaves nothing of a statement behind, whatever it did. The transaction first, which reverts settings and
/// roles; then what survives transactions: session-level locks above all.
const CLEAN: &str = "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";

/// How many sessions there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    /// Sessions at a time.
    pub(crate) connections: usize,
    /// Statements that may wait for one.
    pub(crate) waiting: usize,
}

/// Sessions, shared by all clones.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    idle: Mutex<Vec<Session>>,
    /// One for each session that may be.
    slots: Arc<Semaphore>,
    /// One for each statement that may run or wait.
    places: Arc<Semaphore>,
    runtime: Handle,
}

/// A connection and the task that drives it.
pub(crate) struct Session {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    born: Instant,
    /// Prepared with the first statement.
    pub(crate) look: OnceLock<Look>,
}

impl Session {
    /// A session of `client`, driven by `driver`.
    pub(crate) fn new(client: Client, driver: JoinHandle<()>) -> Self {
        Self {
            client,
            driver,
            born: Instant::now(),
            look: OnceLock::new(),
        }
    }

    fn is_usable(&self) -> bool {
        !self.client.is_closed() && self.born.elapsed() < MAX_AGE
    }
}

/// A session in use. Dropped instead of [given back](Self::give_back), it is cancelled and closed.
pub(crate) struct Lease {
    held: Option<(Session, Permits)>,
    shared: Arc<Shared>,
    /// Whether it has been used before, so that the server may have closed it unnoticed.
    pub(crate) reused: bool,
}

/// Held as long as the session is.
struct Permits {
    _slot: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    /// An empty pool. Its tasks run on `runtime`.
    pub(crate) fn new(connector: Connector, size: PoolSize, runtime: Handle) -> Self {
        let connections = size.connections.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = size.waiting.min(Semaphore::MAX_PERMITS / 2);
        Self {
            shared: Arc::new(Shared {
                connector,
                idle: Mutex::new(Vec::new()),
                slots: Arc::new(Semaphore::new(connections)),
                places: Arc::new(Semaphore::new(connections.saturating_add(waiting))),
                runtime,
            }),
        }
    }

    /// A session, after a wait if all are in use.
    pub(crate) async fn lease(&self) -> Result<Lease, PoolError> {
        let shared = &self.shared;
        let closed = |_| PoolError::Closed;
        let place = Arc::clone(&shared.places)
            .try_acquire_owned()
            .map_err(|_| PoolError::Full)?;
        let slot = Arc::clone(&shared.slots)
            .acquire_owned()
            .await
            .map_err(closed)?;
        let permits = Permits {
            _slot: slot,
            _place: place,
        };
        let (session, reused) = match shared.usable() {
            Some(session) => (session, true),
            None => (shared.connector.connect(&shared.runtime).await?, false),
        };
        Ok(Lease {
            held: Some((session, permits)),
            shared: Arc::clone(shared),
            reused,
        })
    }

    /// Closes the sessions that are not in use: they may be of a server that is no more.
    pub(crate) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.shared.lock());
        for session in idle {
            session.driver.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        // Whoever panicked left a vector of sessions.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session used last, if there is one that can be used.
    fn usable(&self) -> Option<Session> {
        let mut idle = self.lock();
        idle.retain(Session::is_usable);
        idle.pop()
    }
}

impl Lease {
    /// The session.
    pub(crate) fn session(&self) -> Result<&Session, BackendError> {
        match &self.held {
            Some((session, _)) => Ok(session),
            None => Err(fault::unavailable("the session was given back")),
        }
    }

    /// Puts the session back for others to use, if the server confirms that nothing is left in it.
    pub(crate) async fn give_back(mut self) {
        let cleaned = match self.session() {
            Ok(session) => timeout(PATIENCE, session.client.batch_execute(CLEAN)).await,
            Err(_) => return,
        };
        if let Ok(Ok(())) = cleaned
            && let Some((session, permits)) = self.held.take()
        {
            self.shared.lock().push(session);
            drop(permits);
        }
    }

    /// Cancels what runs, closes the session, and waits for that a little.
    pub(crate) async fn abandon(mut self) {
        if let Some(task) = self.close() {
            let _ = timeout(PATIENCE, task).await;
        }
    }

    fn close(&mut self) -> Option<JoinHandle<()>> {
        let (session, permits) = self.held.take()?;
        let shared = Arc::clone(&self.shared);
        Some(self.shared.runtime.spawn(async move {
            let Session {
                client,
                mut driver,
                born: _,
                look: _,
            } = session;
            // Closing the socket alone would not do: the server looks at it when it has something to send.
            let _ = timeout(PATIENCE, shared.connector.cancel(&client)).await;
            drop(client);
            if timeout(PATIENCE, &mut driver).await.is_err() {
                driver.abort();
            }
            drop(permits);
        }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum PoolError {
    /// As many wait already as may.
    Full,
    /// The pool is gone.
    Closed,
    /// There is no connection.
    Connect(ConnectError),
}

impl From<ConnectError> for PoolError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<PoolError> for BackendError {
    fn from(error: PoolError) -> Self {
        fault::unavailable(match error {
            PoolError::Full => "too many statements wait for a connection".to_owned(),
            PoolError::Closed => "there is no pool of connections".to_owned(),
            PoolError::Connect(error) => error.to_string(),
        })
    }
}
