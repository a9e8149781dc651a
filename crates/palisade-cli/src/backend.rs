//! The engines behind one gate.

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Introspect, RowSink},
    rewrite::RewrittenStatement,
};
use palisade_postgres::PostgresBackend;
use palisade_sqlite::SqliteBackend;

/// A database of any engine that is served.
pub(crate) enum AnyBackend {
    /// A file.
    Sqlite(SqliteBackend),
    /// A server.
    Postgres(PostgresBackend),
}

impl Introspect for AnyBackend {
    fn catalog(&self) -> &Catalog {
        match self {
            Self::Sqlite(backend) => backend.catalog(),
            Self::Postgres(backend) => backend.catalog(),
        }
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        match self {
            Self::Sqlite(backend) => backend.is_current().await,
            Self::Postgres(backend) => backend.is_current().await,
        }
    }

    async fn refreshed(&self) -> Result<Option<Self>, BackendError> {
        Ok(match self {
            Self::Sqlite(backend) => backend.refreshed().await?.map(Self::Sqlite),
            Self::Postgres(backend) => backend.refreshed().await?.map(Self::Postgres),
        })
    }
}

impl Backend for AnyBackend {
    fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(backend) => backend.dialect(),
            Self::Postgres(backend) => backend.dialect(),
        }
    }

    async fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<(), BackendError> {
        match self {
            Self::Sqlite(backend) => backend.execute(statement, sink).await,
            Self::Postgres(backend) => backend.execute(statement, sink).await,
        }
    }
}
