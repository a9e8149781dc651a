//! Sessions with the server: so many and no more, each clean when it is given out.
//!
//! A pool of our own, since each of its rules is a lock. Besides the number of connections it bounds the number
//! of those who wait for one. A session goes back only after the server has reset it and the settings stand
//! again; one that was abandoned in the middle is ended on the server and closed, never given out again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use mysql_async::Conn;
use palisade::guard::BackendError;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    connect::{ConnectError, Connector},
    fault,
};

/// How long a session is used before another takes its place: privileges granted to or taken from an account
/// reach some sessions only when they begin, and the server's memory for one grows.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// How long cleaning may take, ending, and closing.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// A connection.
pub(crate) struct Session {
    pub(crate) conn: Conn,
    born: Instant,
}

impl Session {
    pub(crate) fn new(conn: Conn) -> Self {
        Self {
            conn,
            born: Instant::now(),
        }
    }

    fn is_usable(&self) -> bool {
        !self.conn.is_disconnected() && self.born.elapsed() < MAX_AGE
    }
}

/// A session in use. Dropped instead of [given back](Self::give_back), it is ended and closed.
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
            None => (shared.connector.connect().await?, false),
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
        // Their driver says goodbye in tasks of its own.
        let _guard = self.shared.runtime.enter();
        drop(idle);
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
    /// The connection.
    pub(crate) fn conn(&mut self) -> Result<&mut Conn, BackendError> {
        match &mut self.held {
            Some((session, _)) => Ok(&mut session.conn),
            None => Err(fault::unavailable("the session was given back")),
        }
    }

    /// Puts the session back for others to use, if the server confirms that nothing is left in it: the reset
    /// rolls back, frees locks, prepared statements, temporary tables and variables, and then our settings
    /// are made anew.
    pub(crate) async fn give_back(mut self) {
        let cleaned = match self.conn() {
            Ok(conn) => timeout(PATIENCE, conn.reset()).await,
            Err(_) => return,
        };
        if let Ok(Ok(true)) = cleaned
            && let Some((session, permits)) = self.held.take()
        {
            self.shared.lock().push(session);
            drop(permits);
        }
    }

    /// Ends what runs, closes the session, and waits for that a little.
    pub(crate) async fn abandon(mut self) {
        if let Some(task) = self.close() {
            let _ = timeout(PATIENCE, task).await;
        }
    }

    fn close(&mut self) -> Option<JoinHandle<()>> {
        let (session, permits) = self.held.take()?;
        let shared = Arc::clone(&self.shared);
        Some(self.shared.runtime.spawn(async move {
            // Closing the socket alone would not do: the server looks at it when it has something to send, and
            // the driver would read what is still on its way.
            let _ = timeout(PATIENCE, shared.connector.kill(session.conn.id())).await;
            drop(session);
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
