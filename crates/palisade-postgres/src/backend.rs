//! The PostgreSQL side of the gate.

use std::{fmt, sync::Arc, time::Duration};

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, BackendErrorKind, Introspect, RowSink},
    rewrite::RewrittenStatement,
};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::Client;

use crate::{
    config::PostgresConfig,
    connect::{ConnectError, Connector},
    examine,
    execute::{self, Features, Task},
    fault,
    introspect::{self, IntrospectError},
    pool::{Lease, Pool, PoolError},
    schema::Schema,
    wire::MAX_MESSAGE_BYTES,
};

/// How long reading the catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// What a statement gets beyond its time, for the server to end it by its own clock: then the session can
/// be used again.
const GRACE: Duration = Duration::from_millis(200);

/// A PostgreSQL database as it was when its catalog was read.
///
/// A value never changes: when the schema of what a statement reads does, [`execute`](Backend::execute)
/// answers [`BackendErrorKind::SchemaChanged`] and [`refresh`](Self::refresh) makes a new value, to go with a new
/// firewall. So no statement that was checked against one catalog runs on another. Clones and refreshed values
/// share their connections.
#[derive(Clone)]
pub struct PostgresBackend {
    pool: Pool,
    config: Arc<PostgresConfig>,
    features: Features,
    schema: Arc<Schema>,
    catalog: Arc<Catalog>,
}

impl PostgresBackend {
    /// Connects to a database and reads its catalog. Connections run on the caller's runtime, which must
    /// drive input, output and time.
    ///
    /// # Errors
    /// If the database cannot be reached, the account is a superuser whom
    /// [`accept_superuser`](PostgresConfig::accept_superuser) does not admit, or the catalog cannot be read.
    pub async fn connect(config: PostgresConfig) -> Result<Self, ConnectError> {
        let pool = Pool::new(Connector::new(&config), config.size, Handle::current());
        let lease = lease(&pool).await?;
        let client = client(&lease)?;
        if !config.accepts_superuser
            && let Some(role) = examine::superuser(client).await?
        {
            return Err(ConnectError::Superuser(role));
        }
        let features = Features::read(client).await?;
        let (catalog, schema) = read(client).await?;
        lease.give_back().await;
        Ok(Self {
            pool,
            config: Arc::new(config),
            features,
            schema: Arc::new(schema),
            catalog: Arc::new(catalog),
        })
    }

    /// What the database held when its catalog was read.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The database as it is now, if its schema differs from the one this value was made with.
    ///
    /// # Errors
    /// If the catalog cannot be read any more.
    pub async fn refresh(&self) -> Result<Option<Self>, ConnectError> {
        let lease = lease(&self.pool).await?;
        let (catalog, schema) = read(client(&lease)?).await?;
        lease.give_back().await;
        if schema == *self.schema && catalog.version() == self.catalog.version() {
            return Ok(None);
        }
        Ok(Some(Self {
            schema: Arc::new(schema),
            catalog: Arc::new(catalog),
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
        let opening = execute::opening(self.catalog.search_path(), task.limits, self.features);
        let mut first = true;
        loop {
            let lease = timeout_at(deadline, self.pool.lease())
                .await
                .map_err(|_| fault::unavailable("no connection was free in time"))??;
            let running = self.attempt(&lease, &opening, task, sink);
            let Ok(result) = timeout_at(deadline, running).await else {
                lease.abandon().await;
                return Err(fault::timeout());
            };
            let result = result.map_err(|failed| failed.unless_too_large(&lease));
            let stale = lease.reused;
            lease.give_back().await;
            match result {
                Ok(()) => return Ok(()),
                // The server closed an idle session, for it was restarted: nothing has run yet.
                Err(Failed::Opening(error))
                    if first && stale && error.kind == BackendErrorKind::Unavailable =>
                {
                    self.pool.forget_idle();
                    first = false;
                }
                Err(Failed::Opening(error) | Failed::Running(error)) => return Err(error),
            }
        }
    }

    async fn attempt(
        &self,
        lease: &Lease,
        opening: &str,
        task: &Task<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), Failed> {
        let session = lease.session().map_err(Failed::Opening)?;
        let opened = execute::open(session, opening, task)
            .await
            .map_err(Failed::Opening)?;
        execute::answer(&session.client, &self.schema, opened, task, sink)
            .await
            .map_err(Failed::Running)
    }
}

impl Backend for PostgresBackend {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), BackendError> {
        self.run(&Task::from(statement), sink).await
    }
}

impl Introspect for PostgresBackend {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        let lease = self.pool.lease().await?;
        let reading = introspect::fingerprint(&lease.session()?.client);
        let read = match timeout(CATALOG_TIME, reading).await {
            Ok(Ok(read)) => Ok(read == self.schema.fingerprint()),
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

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBackend")
            .field("config", &self.config)
            .field("catalog", &self.catalog.version())
            .finish_non_exhaustive()
    }
}

/// A failure and how far the statement had come.
enum Failed {
    /// Nothing had run.
    Opening(BackendError),
    Running(BackendError),
}

impl Failed {
    /// Says so if the connection broke because we would not read what came.
    fn unless_too_large(self, lease: &Lease) -> Self {
        match lease.session() {
            Ok(session) if session.excess.happened() => Self::Running(BackendError {
                kind: BackendErrorKind::Resource,
                detail: format!("a row is larger than {MAX_MESSAGE_BYTES} bytes"),
            }),
            Ok(_) | Err(_) => self,
        }
    }
}

async fn lease(pool: &Pool) -> Result<Lease, ConnectError> {
    pool.lease().await.map_err(|error| match error {
        PoolError::Connect(error) => error,
        PoolError::Full | PoolError::Closed => {
            ConnectError::Refused(BackendError::from(error).detail)
        }
    })
}

fn client(lease: &Lease) -> Result<&Client, ConnectError> {
    lease
        .session()
        .map(|session| &session.client)
        .map_err(|error| ConnectError::Refused(error.detail))
}

async fn read(client: &Client) -> Result<(Catalog, Schema), ConnectError> {
    Ok(timeout(CATALOG_TIME, introspect::snapshot(client))
        .await
        .map_err(|_| IntrospectError::Inconsistent("no answer within a minute".to_owned()))??)
}

impl Features {
    async fn read(client: &Client) -> Result<Self, ConnectError> {
        let sql = "SELECT pg_catalog.current_setting('server_version_num')::int4";
        let rows = client.query_typed(sql, &[]).await?;
        let version = match rows.first() {
            Some(row) => row.try_get(0)?,
            None => 0,
        };
        // Refused with an error where the system cannot tell.
        let checks = "BEGIN; SET LOCAL client_connection_check_interval = 1000";
        let checks_connection = client.batch_execute(checks).await.is_ok();
        client.batch_execute("ROLLBACK").await?;
        Ok(Self {
            version,
            checks_connection,
        })
    }
}
