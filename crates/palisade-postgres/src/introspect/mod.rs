//! From a database to a catalog of facts.

mod columns;
mod descriptions;
mod operands;
mod read;
mod relations;
mod routines;
mod system;
mod triggers;
mod types;
mod unique;

use palisade::{
    catalog::{Catalog, CatalogBuilder, CatalogError},
    dialect::Dialect,
};
use tokio_postgres::Client;

pub(crate) use self::{
    columns::{Columns, from_withheld},
    read::USER_SCHEMA,
};
use crate::{history, schema_change::Schema, settings};

/// The oldest server that is read, as `server_version_num` counts.
const MIN_VERSION: i32 = 15_00_00;

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntrospectError {
    /// The server did not answer, or not as its documentation says.
    #[error("cannot read the schema: {}", chain(.0))]
    Engine(#[from] tokio_postgres::Error),
    /// The server is older than what is understood.
    #[error("the server is of version {0}; PostgreSQL 15 or later is needed")]
    Version(String),
    /// What was read contradicts itself, which a schema changed meanwhile can bring about.
    #[error("cannot read the schema: {0}")]
    Inconsistent(String),
    /// What was read contradicts itself.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// An error and its causes in one line: `tokio_postgres` prints only what it was doing.
pub(crate) fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// The catalog of the database that `client` is connected to.
///
/// * Schemas of the system (`pg_…`, `information_schema`) are left out, temporary ones with them; of known relations in them
///   the catalog has the columns that this server has.
/// * Tables, partitions and foreign tables are [`RelationKind::Table`], with the parents whose rows include theirs;
///   sequences and indexes are left out.
/// * A view's definition names every relation with its schema, except those of `pg_catalog`; so do
///   the expressions of generated columns.
/// * A column's collation is empty unless equality under it is something else than equality of
///   bytes; then it is the collation's name.
/// * A domain has the class of what it narrows; an enumeration is an
///   [`Enum`](palisade::catalog::TypeClass::Enum); every other type of the database is
///   [`Other`](palisade::catalog::TypeClass::Other).
/// * Functions are grouped by schema and name. A group counts as an extension's only if all of its
///   overloads came with that extension: whoever adds one to it takes the others' class away. Functions
///   for triggers, which no query can call, are left out.
/// * Triggers and rules count unless they are disabled, whatever the condition under which they run; a partition has
///   its parent's row triggers.
/// * The search path is the session's, without `pg_catalog`, which every session of ours searches first,
///   and without temporary schemas.
///
/// Everything is read in one transaction of its own, which is rolled back; `client` must not be in one.
/// If the future is dropped half-way, the client's session stays in that transaction: close it.
///
/// [`RelationKind::Table`]: palisade::catalog::RelationKind::Table
///
/// # Errors
/// If the server cannot be read, is older than PostgreSQL 15, or changes under our hands.
pub async fn catalog(client: &Client) -> Result<Catalog, IntrospectError> {
    Ok(in_transaction(client, async || read_all(client).await)
        .await?
        .0
        .build()?)
}

/// The catalog as the account of a backend has it, and what it was made from.
pub(crate) async fn snapshot(client: &Client) -> Result<(Catalog, Schema), IntrospectError> {
    in_transaction(client, async || {
        let (builder, schema) = read_all(client).await?;
        let builder = columns::read_withheld(client, builder).await?;
        Ok((builder.build()?, schema))
    })
    .await
}

/// The fingerprint of what [`snapshot`] would read.
pub(crate) async fn fingerprint(client: &Client) -> Result<String, IntrospectError> {
    in_transaction(client, async || {
        client.batch_execute(&settings::set_local()).await?;
        Schema::fingerprint_now(client).await
    })
    .await
}

/// Reads in a transaction that sees one state of the schema.
async fn in_transaction<T>(
    client: &Client,
    read: impl AsyncFnOnce() -> Result<T, IntrospectError>,
) -> Result<T, IntrospectError> {
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let result = read().await;
    let ended = client.batch_execute("ROLLBACK").await;
    let read = result?;
    ended?;
    Ok(read)
}

async fn read_all(client: &Client) -> Result<(CatalogBuilder, Schema), IntrospectError> {
    let database = read::database(client).await?;
    if database.version < MIN_VERSION {
        return Err(IntrospectError::Version(database.version_text));
    }
    // Names outside of pg_catalog are then printed with their schemas.
    client.batch_execute(&settings::set_local()).await?;
    let types = types::Types::read(client).await?;
    let columns = columns::Columns::read(client).await?;
    let relations = relations::read(client, &types, &columns).await?;
    let mut builder = Catalog::builder(Dialect::Postgres)
        .database(database.name)
        .search_path(database.search_path)
        .plain_collations(columns.plain_collations);
    for (schema, table, companion) in history::read_companions(client, &relations).await? {
        builder = builder.companion(schema, table, companion);
    }
    for relation in relations {
        builder = builder.relation(relation);
    }
    let operands = operands::read(client).await?;
    for routine in routines::routines(client, &columns, &operands).await? {
        builder = builder.routine(routine);
    }
    for def in types.definitions(&columns) {
        builder = builder.type_def(def);
    }
    for operator in routines::operators(client, &operands).await? {
        builder = builder.operator(operator);
    }
    for cast in routines::casts(client).await? {
        builder = builder.cast(cast);
    }
    builder = system::read(client, builder).await?;
    builder = descriptions::read(client, builder).await?;
    let schema = Schema::read(client, &columns).await?;
    Ok((builder, schema))
}
