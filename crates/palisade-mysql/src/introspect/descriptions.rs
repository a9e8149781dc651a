//! Comments on tables and columns.

use mysql_async::Conn;
use palisade::catalog::CatalogBuilder;

use super::{
    IntrospectError,
    read::{of_users, optional, query, text},
};

/// Tells `builder` what the database says of its tables and columns. A view's comment is the server's own word for a view.
pub(super) async fn read(
    conn: &mut Conn,
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let sql = format!(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, NULL, t.TABLE_COMMENT FROM information_schema.TABLES t \
         WHERE t.TABLE_COMMENT <> '' AND t.TABLE_TYPE <> 'VIEW' AND {} \
         UNION ALL SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_COMMENT \
         FROM information_schema.COLUMNS c WHERE c.COLUMN_COMMENT <> '' AND {}",
        of_users("t.TABLE_SCHEMA"),
        of_users("c.TABLE_SCHEMA")
    );
    for row in query(conn, sql).await? {
        let (schema, relation) = (text(&row, 0)?, text(&row, 1)?);
        builder = builder.comment(schema, relation, optional(&row, 2)?, &text(&row, 3)?);
    }
    Ok(builder)
}
