//! What the other readers share.

use tokio_postgres::Client;

use super::IntrospectError;

/// The schemas that hold what people made; history, and what waits for approval, are the firewall's own. The prefix `pg_` is the system's
/// (<https://www.postgresql.org/docs/current/ddl-schemas.html#DDL-SCHEMAS-CATALOG>).
///
/// Spliced into queries where `n` is `pg_namespace`.
pub(crate) const USER_SCHEMA: &str = "(n.nspname NOT IN ('information_schema', 'palisade_history', 'palisade_state') AND NOT starts_with(n.nspname::text, 'pg_'))";

/// The database as a whole.
pub(super) struct Database {
    pub(super) name: String,
    /// `server_version_num`.
    pub(super) version: i32,
    /// `server_version`.
    pub(super) version_text: String,
    pub(super) search_path: Vec<String>,
}

/// Reads it; before the search path is set to something else.
pub(super) async fn database(client: &Client) -> Result<Database, IntrospectError> {
    let sql = "SELECT pg_catalog.current_database()::text, \
               pg_catalog.current_setting('server_version_num')::int4, \
               pg_catalog.current_setting('server_version'), \
               ARRAY(SELECT s::text \
                     FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS t(s, i) \
                     WHERE NOT pg_catalog.starts_with(s::text, 'pg_') ORDER BY i)";
    let rows = client.query_typed(sql, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(IntrospectError::Inconsistent(
            "the server does not say which database this is".to_owned(),
        ));
    };
    Ok(Database {
        name: row.try_get(0)?,
        version: row.try_get(1)?,
        version_text: row.try_get(2)?,
        search_path: row.try_get(3)?,
    })
}
