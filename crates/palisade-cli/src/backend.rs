//! The engines behind one gate.

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Completion, RowSink},
    rewrite::RewrittenStatement,
};
use palisade_mysql::MysqlBackend;
use palisade_postgres::PostgresBackend;
use palisade_sqlite::SqliteBackend;

/// A database of any engine that is served.
pub(crate) enum AnyBackend {
    /// A file.
    Sqlite(SqliteBackend),
    /// A server's.
    Postgres(PostgresBackend),
    /// A server's.
    Mysql(MysqlBackend),
}

impl AnyBackend {
    /// What the database held when it was opened.
    pub(crate) fn catalog(&self) -> &Catalog {
        match self {
            Self::Sqlite(backend) => backend.catalog(),
            Self::Postgres(backend) => backend.catalog(),
            Self::Mysql(backend) => backend.catalog(),
        }
    }
}

impl Backend for AnyBackend {
    fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(backend) => backend.dialect(),
            Self::Postgres(backend) => backend.dialect(),
            Self::Mysql(backend) => backend.dialect(),
        }
    }

    async fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        match self {
            Self::Sqlite(backend) => backend.execute(statement, sink).await,
            Self::Postgres(backend) => backend.execute(statement, sink).await,
            Self::Mysql(backend) => backend.execute(statement, sink).await,
        }
    }
}
