//! What the evaluation needs of an engine: load a schema, read its catalog, run a statement as it was
//! written and as it was rewritten.

use std::{sync::Arc, time::Duration};

use palisade::{
    catalog::Catalog, dialect::Dialect, guard::BackendError, rewrite::RewrittenStatement,
};

use crate::{answer::Answer, fault::Fault, mysql::Mysql, postgres::Postgres, sqlite::Sqlite};

/// An engine that makes throw-away databases.
pub(crate) trait Engine: Sync {
    /// Makes a database from `script`, which is called `schema` in messages.
    ///
    /// # Errors
    /// A text for the table: why nothing of this schema could be measured.
    fn load(&self, schema: &str, script: &str) -> Result<Box<dyn Database>, String>;
}

/// A database that is gone when dropped.
pub(crate) trait Database {
    /// What it holds, as the backend reads it.
    ///
    /// # Errors
    /// A text for the table.
    fn catalog(&self) -> Result<Catalog, String>;

    /// Runs `sql` on the bare driver, without the firewall's locks.
    ///
    /// # Errors
    /// The engine's message.
    fn original(&self, sql: &str, timeout: Duration) -> Result<Answer, String>;

    /// Runs `statement` through the backend, under its locks.
    ///
    /// # Errors
    /// As the backend gives it.
    fn rewritten(&self, statement: &Arc<RewrittenStatement>) -> Result<Answer, BackendError>;
}

/// The engines at hand.
pub(crate) struct Engines {
    sqlite: Sqlite,
    mysql: Mysql,
    postgres: Postgres,
}

impl Engines {
    /// Those that are compiled in.
    ///
    /// # Errors
    /// If there is no place for databases.
    pub(crate) fn new() -> Result<Self, Fault> {
        Ok(Self {
            sqlite: Sqlite::new()?,
            mysql: Mysql,
            postgres: Postgres,
        })
    }

    /// The engine of `dialect`.
    pub(crate) fn for_dialect(&self, dialect: Dialect) -> &dyn Engine {
        match dialect {
            Dialect::Sqlite => &self.sqlite,
            Dialect::Postgres => &self.postgres,
            Dialect::Mysql => &self.mysql,
        }
    }
}
