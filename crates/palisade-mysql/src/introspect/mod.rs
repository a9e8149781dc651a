//! From a server to a catalog of facts.

mod columns;
mod fingerprint;
mod indexes;
mod keys;
mod read;
mod relations;
mod routines;
mod system;
mod triggers;
mod unique;

use mysql_async::Conn;
use palisade::{
    catalog::{Catalog, CatalogError},
    dialect::Dialect,
};

use crate::{grants::Account, history};

pub(crate) use self::{
    columns::{Described, Name, column, sql as columns_sql},
    fingerprint::read as fingerprint,
    read::{optional, product, query, text},
    triggers::{UNSEEN as UNSEEN_TRIGGERS, by_table as triggers_of},
    unique::are_as_known as keys_are_known,
};

/// The oldest MariaDB that is read.
const MIN_MARIADB: (u16, u16) = (10, 11);

/// The oldest MySQL that is read.
const MIN_MYSQL: (u16, u16) = (8, 0);

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntrospectError {
    /// The server did not answer.
    #[error("cannot read the schema: {0}")]
    Engine(#[from] mysql_async::Error),
    /// The server is older than what is understood.
    #[error("the server is of version {0}; MariaDB 10.11 or MySQL 8.0, or later, is needed")]
    Version(String),
    /// The session has no database that names without one would belong to.
    #[error("the connection names no database")]
    NoDatabase,
    /// What was read contradicts itself or the documentation, which a schema changed meanwhile can bring
    /// about.
    #[error("cannot read the schema: {0}")]
    Inconsistent(String),
    /// What was read contradicts itself.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Which of the two products a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    MariaDb,
    MySql,
}

impl Product {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        }
    }
}

/// The catalog of all databases of the server that `conn`'s account sees.
///
/// * A schema is a database; those of the server itself (`information_schema`, `mysql`,
///   `performance_schema`, `sys`) are left out, but for the columns that known relations in them have. The catalog's database, the only one of its search path, is the
///   session's.
/// * Sequences are left out. A table that shows other tables' rows (engine `MRG_MyISAM`) is
///   [`Virtual`](palisade::catalog::RelationKind::Virtual).
/// * Invisible columns are left out, for `*` does not list them: no statement can name one.
/// * What keeps [history](palisade::past) is left out: it is read in the place of tables as they were, and in no other way.
/// * A view's definition names every relation with its database. Without the privilege `SHOW VIEW` the server
///   does not tell it; then it is unknown.
/// * A column's collation is empty if its values are compared as numbers, times or bytes.
/// * MariaDB's `JSON`, a `longtext` with a condition, is of the class [`Json`](palisade::catalog::TypeClass::Json).
/// * A foreign key whose action the server does not tell counts as `CASCADE`.
/// * Unique keys are known of tables on which the account has a right as a whole: of others the server leaves out what is of
///   columns that it does not show.
/// * A trigger goes by its own name. Of a table on which the account has not the privilege `TRIGGER` MySQL tells
///   none, nor does MariaDB before 10.11.19; there is one called `unseen_triggers` then, of the table's database, that every change of rows sets off.
/// * Functions and procedures are those that the account may execute. Whether a function is an aggregate, the
///   server does not tell: all are taken for scalar ones. Loadable functions are left out, and so are MariaDB's
///   packages.
///
/// The server has no snapshot of its schema, so whoever runs statements looks again at what they read.
/// `conn` must have the settings that [`connect`](crate::connect()) makes: under others definitions are printed
/// otherwise.
///
/// # Errors
/// If the server cannot be read, is older than MariaDB 10.11 and MySQL 8.0, or changes under our hands; if the
/// session has no database.
pub async fn catalog(conn: &mut Conn) -> Result<Catalog, IntrospectError> {
    Ok(snapshot(conn).await?.catalog)
}

/// Whether the server tells of the triggers of a table to whoever may change it, and not only to who may make them.
///
/// # Errors
/// If the server does not answer.
pub async fn tells_triggers(conn: &mut Conn) -> Result<bool, IntrospectError> {
    Ok(read::server(conn).await?.tells_triggers())
}

/// A catalog and what it was made from.
pub(crate) struct Snapshot {
    pub(crate) catalog: Catalog,
    pub(crate) product: Product,
}

/// Reads everything.
pub(crate) async fn snapshot(conn: &mut Conn) -> Result<Snapshot, IntrospectError> {
    let server = read::server(conn).await?;
    server.check()?;
    let account = Account::read(conn).await?;
    let column_rows = columns::ask(conn).await?;
    let table_rows = relations::ask(conn).await?;
    let estimates = relations::ask_estimates(conn, table_rows.len()).await?;
    let index_rows = indexes::ask(conn, server.product).await?;
    let columns = columns::read(conn, server.product, &column_rows).await?;
    let mut relations = relations::read(&table_rows, columns)?;
    let companions = history::take_companions(&mut relations, &server.database, server.product);
    keys::read(conn, &mut relations).await?;
    unique::read(
        server.product,
        &account,
        &column_rows,
        &index_rows,
        &mut relations,
    )?;
    triggers::read(conn, &server, &account, &mut relations).await?;
    let mut builder = Catalog::builder(Dialect::Mysql)
        .search_path([server.database.clone()])
        .database(server.database.clone())
        .case_sensitive_relations(server.case_sensitive_relations);
    for relation in relations {
        builder = builder.relation(relation);
    }
    for (schema, table, companion) in companions {
        builder = builder.companion(schema, table, companion);
    }
    for routine in routines::read(conn).await? {
        builder = builder.routine(routine);
    }
    builder = system::read(conn, server.product, builder).await?;
    builder = relations::describe(&table_rows, &estimates, builder)?;
    builder = columns::describe(&column_rows, builder)?;
    builder = indexes::describe(&index_rows, builder)?;
    Ok(Snapshot {
        catalog: builder.engine(&server.shown()).build()?,
        product: server.product,
    })
}
