//! Databases that could not be opened when the server started.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use palisade::{dialect::Dialect, guard::Guard, limits::Limits};
use tokio::time::Instant;

use crate::{connections::Connection, options::ServeOptions};

/// How long after an attempt the next one is made.
const PAUSE: Duration = Duration::from_secs(2);

type Open = dyn Fn() -> Option<(Arc<Guard>, ServeOptions)> + Send + Sync;

/// A connection whose database is not there yet. It is opened by the first call that means it, once it can be.
#[derive(Clone)]
pub struct LateConnection {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    pub(crate) max_query_bytes: usize,
    open: Arc<Open>,
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
            max_query_bytes: limits.max_query_bytes,
            open: Arc::new(open),
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
    /// When it was tried last.
    tried: Mutex<Option<Instant>>,
}

impl Late {
    pub(crate) fn new(connection: LateConnection) -> Self {
        Self {
            connection,
            opened: OnceLock::new(),
            tried: Mutex::new(None),
        }
    }

    /// The connection, if it is open.
    pub(crate) fn opened(&self) -> Option<&Arc<Connection>> {
        self.opened.get()
    }

    /// Opens it, blocking; one caller at a time, and not at once after an attempt that failed.
    pub(crate) fn reach(&self) -> Option<Arc<Connection>> {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = self.opened.get() {
            return Some(Arc::clone(connection));
        }
        if tried.is_some_and(|at| at.elapsed() < PAUSE) {
            return None;
        }
        let opened = (self.connection.open)();
        *tried = Some(Instant::now());
        let (guard, options) = opened?;
        let connection = Arc::new(Connection::new(guard, options));
        Some(Arc::clone(self.opened.get_or_init(|| connection)))
    }
}
