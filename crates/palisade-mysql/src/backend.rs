//! The MySQL side of the gate.

use std::{fmt, sync::Arc, time::Duration};

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Introspect, RowSink},
    rewrite::RewrittenStatement,
};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    config::MysqlConfig,
    connect::{ConnectError, Connector},
    examine,
    execute::{self, Ended, Facts, Task, Unopened},
    fault,
    introspect::{self, IntrospectError, Product, Snapshot},
    pool::{Lease, Pool, PoolError},
};

/// How long reading the catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// What a statement gets beyond its time, for the server to end it by its own clock: then the session can
/// be used again.
const GRACE: Duration = Duration::from_millis(200);

/// A MySQL or MariaDB server as it was when its catalog was read.
///
/// A value never changes: when the schema of what a statement reads does, [`execute`](Backend::execute)
/// answers [`SchemaChanged`](palisade::guard::BackendErrorKind::SchemaChanged) and [`refresh`](Self::refresh) makes a new value, to go with a new
/// firewall. So no statement that was checked against one catalog runs on another. Stored functions, which a policy
/// permits by name, are not looked at again. Clones and refreshed values share their connections.
#[derive(Clone)]
pub struct MysqlBackend {
    pool: Pool,
    config: Arc<MysqlConfig>,
    product: Product,
    catalog: Arc<Catalog>,
    fingerprint: Arc<str>,
}

impl MysqlBackend {
    /// Connects to a database and reads the server's catalog. Connections run on the caller's runtime, which
    /// must drive input, output and time.
    ///
    /// # Errors
    /// If the database cannot be reached, the account has privileges that
    /// [`accept_powerful`](MysqlConfig::accept_powerful) does not admit, or the catalog cannot be read.
    pub async fn connect(config: MysqlConfig) -> Result<Self, ConnectError> {
        let pool = Pool::new(Connector::new(&config), config.size, Handle::current());
        let mut lease = lease(&pool).await?;
        if !config.accepts_powerful
            && let Some(privileges) = examine::powerful(conn(&mut lease)?).await?
        {
            return Err(ConnectError::Powerful(privileges));
        }
        let snapshot = read(&mut lease).await?;
        lease.give_back().await;
        Ok(Self {
            pool,
            config: Arc::new(config),
            product: snapshot.product,
            catalog: Arc::new(snapshot.catalog),
            fingerprint: snapshot.fingerprint.into(),
        })
    }

    /// What the server held when its catalog was read.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The server as it is now, if its schema differs from the one this value was made with.
    ///
    /// # Errors
    /// If the catalog cannot be read any more.
    pub async fn refresh(&self) -> Result<Option<Self>, ConnectError> {
        let mut lease = lease(&self.pool).await?;
        let snapshot = read(&mut lease).await?;
        lease.give_back().await;
        if snapshot.catalog.version() == self.catalog.version()
            && *snapshot.fingerprint == *self.fingerprint
        {
            return Ok(None);
        }
        Ok(Some(Self {
            product: snapshot.product,
            catalog: Arc::new(snapshot.catalog),
            fingerprint: snapshot.fingerprint.into(),
            ..self.clone()
        }))
    }

    /// Runs `task` within its time.
    pub(crate) async fn run(
        &self,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), BackendError> {
        let deadline = Instant::now() + task.limits.statement_timeout() + GRACE;
        let mut first = true;
        loop {
            let mut lease = timeout_at(deadline, self.pool.lease())
                .await
                .map_err(|_| fault::unavailable("no connection was free in time"))??;
            let running = self.attempt(&mut lease, task, sink);
            let Ok(result) = timeout_at(deadline, running).await else {
                lease.abandon().await;
                return Err(fault::timeout());
            };
            let stale = lease.reused;
            match result {
                Ok(Ended::Clean) => {
                    lease.give_back().await;
                    return Ok(());
                }
                Ok(Ended::Overrun) => {
                    // Nobody waits for it.
                    drop(lease);
                    return Ok(());
                }
                // The server closed an idle session, for it was restarted: nothing has run yet.
                Err(Failed::Lost(_)) if first && stale => {
                    drop(lease);
                    self.pool.forget_idle();
                    first = false;
                }
                Err(Failed::Lost(error) | Failed::Running(error)) => {
                    lease.give_back().await;
                    return Err(error);
                }
            }
        }
    }

    async fn attempt(
        &self,
        lease: &mut Lease,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Ended, Failed> {
        let facts = Facts {
            product: self.product,
            catalog: &self.catalog,
        };
        let conn = lease.conn().map_err(Failed::Running)?;
        execute::open(conn, facts, task)
            .await
            .map_err(|error| match error {
                Unopened::Lost(error) => Failed::Lost(error),
                Unopened::Refused(error) => Failed::Running(error),
            })?;
        execute::answer(conn, facts, task, sink)
            .await
            .map_err(Failed::Running)
    }
}

impl Backend for MysqlBackend {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    async fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), BackendError> {
        self.run(&Task::from(statement), sink).await
    }
}

impl Introspect for MysqlBackend {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        let mut lease = self.pool.lease().await?;
        let reading = introspect::fingerprint(lease.conn()?);
        let read = match timeout(CATALOG_TIME, reading).await {
            Ok(Ok(read)) => Ok(*read == *self.fingerprint),
            Ok(Err(error)) => Err(fault::unavailable(error.to_string())),
            Err(_) => {
                lease.abandon().await;
                return Err(fault::timeout());
            }
        };
        lease.give_back().await;
        read
    }

    async fn refreshed(&self) -> Result<Option<Self>, BackendError> {
        self.refresh()
            .await
            .map_err(|error| fault::unavailable(error.to_string()))
    }
}

impl fmt::Debug for MysqlBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlBackend")
            .field("config", &self.config)
            .field("catalog", &self.catalog.version())
            .finish_non_exhaustive()
    }
}

/// A failure and how far the statement had come.
enum Failed {
    /// The session was gone before anything ran.
    Lost(BackendError),
    Running(BackendError),
}

async fn lease(pool: &Pool) -> Result<Lease, ConnectError> {
    pool.lease().await.map_err(|error| match error {
        PoolError::Connect(error) => error,
        PoolError::Full | PoolError::Closed => {
            ConnectError::Refused(BackendError::from(error).detail)
        }
    })
}

fn conn(lease: &mut Lease) -> Result<&mut mysql_async::Conn, ConnectError> {
    lease
        .conn()
        .map_err(|error| ConnectError::Refused(error.detail))
}

async fn read(lease: &mut Lease) -> Result<Snapshot, ConnectError> {
    Ok(timeout(CATALOG_TIME, introspect::snapshot(conn(lease)?))
        .await
        .map_err(|_| IntrospectError::Inconsistent("no answer within a minute".to_owned()))??)
}
