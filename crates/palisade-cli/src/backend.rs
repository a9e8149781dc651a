//! The engines behind one gate.

use palisade::{
    catalog::Catalog,
    dialect::Dialect,
    guard::{Backend, BackendError, Completion, Introspect, RowSink, Ticket},
    limits::Limits,
};

use crate::{mysql, postgres, sqlite};

/// A database of any engine that is served.
pub(crate) enum AnyBackend {
    /// A file.
    Sqlite(sqlite::Backend),
    /// A server's.
    Postgres(postgres::Backend),
    /// A server's.
    Mysql(mysql::Backend),
}

impl AnyBackend {
    /// Whether the engine gives the estimates that `limits` cap; which it does not, if not.
    pub(crate) fn estimates(&self, limits: &Limits) -> Result<(), String> {
        let Some(caps) = limits.estimate_caps() else {
            return Ok(());
        };
        let gives = match self {
            Self::Sqlite(_) => (false, false),
            Self::Postgres(_) => (true, true),
            Self::Mysql(backend) => (mysql::estimates_cost(backend), true),
        };
        let lacks = |key| Err(format!("this database gives no estimate for `{key}`"));
        match (caps.cost, caps.rows, gives) {
            (Some(_), _, (false, _)) => lacks("max_cost"),
            (_, Some(_), (_, false)) => lacks("max_estimated_rows"),
            (_, _, _) => Ok(()),
        }
    }
}

impl Introspect for AnyBackend {
    fn catalog(&self) -> &Catalog {
        match self {
            Self::Sqlite(backend) => backend.catalog(),
            Self::Postgres(backend) => backend.catalog(),
            Self::Mysql(backend) => backend.catalog(),
        }
    }

    async fn is_current(&self) -> Result<bool, BackendError> {
        match self {
            Self::Sqlite(backend) => backend.is_current().await,
            Self::Postgres(backend) => backend.is_current().await,
            Self::Mysql(backend) => backend.is_current().await,
        }
    }

    async fn refreshed(&self) -> Result<Option<Self>, BackendError> {
        Ok(match self {
            Self::Sqlite(backend) => backend.refreshed().await?.map(Self::Sqlite),
            Self::Postgres(backend) => backend.refreshed().await?.map(Self::Postgres),
            Self::Mysql(backend) => backend.refreshed().await?.map(Self::Mysql),
        })
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
        ticket: Ticket<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> Result<Completion, BackendError> {
        match self {
            Self::Sqlite(backend) => backend.execute(ticket, sink).await,
            Self::Postgres(backend) => backend.execute(ticket, sink).await,
            Self::Mysql(backend) => backend.execute(ticket, sink).await,
        }
    }
}
