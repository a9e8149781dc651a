//! A look at the schema from another session.
//!
//! A transaction that sees one state of the database takes its locks after that: a definition that was committed in between
//! holds in it and is not seen by its queries. Who begins later sees it. So the marks are read by a session that does nothing
//! else, while the locks are held, under which no later definition is made.

use palisade::guard::BackendError;
use palisade_pool::{Pool, PoolSize, Task};
use tokio::runtime::Handle;
use tokio_postgres::Client;

use crate::{
    config::PostgresConfig,
    connect::Connector,
    fault,
    schema_change::{self, Look, Schema},
    settings,
};

/// The session, opened when it is first needed, shared by all clones. Whoever uses it holds another one: of the same pool,
/// all could be held by those who wait for one.
#[derive(Clone)]
pub(crate) struct Outside(Pool<Connector>);

impl Outside {
    /// For the databases of `config`. To be called within the runtime that drives its connections.
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        let size = PoolSize {
            connections: 1,
            waiting: config.size.connections,
        };
        Self(Pool::new(
            Connector::for_changes(config),
            size,
            Handle::current(),
        ))
    }

    /// As [`Schema::verify`], for the transaction of `inside`, which has its locks.
    pub(crate) async fn verify(
        &self,
        inside: &Client,
        schema: &Schema,
        task: &Task<'_>,
    ) -> Result<(), BackendError> {
        let here = schema_change::server(inside).await?;
        let time = task.limits.statement_timeout();
        self.0
            .look(time, async |session| {
                let client = &session.client;
                Ok::<_, BackendError>(verify(client, &here, schema, task).await)
            })
            .await?
    }
}

async fn verify(
    client: &Client,
    here: &str,
    schema: &Schema,
    task: &Task<'_>,
) -> Result<(), BackendError> {
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {}",
        settings::set_local()
    );
    client
        .batch_execute(&begin)
        .await
        .map_err(|e| fault::engine(&e))?;
    // Where a URL names several servers, what one has locked holds on no other.
    if schema_change::server(client).await? != here {
        return Err(BackendError::unavailable(
            "the session that looks at the schema is with another server",
        ));
    }
    let look = Look::prepare(client).await?;
    schema
        .verify(client, &look, task.relations, task.functions)
        .await
}
