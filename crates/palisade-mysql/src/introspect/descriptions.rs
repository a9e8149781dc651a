//! Comments on tables and columns, indexes that are no keys, and about how many rows there are.

use std::collections::BTreeMap;

use mysql_async::Conn;
use palisade::catalog::CatalogBuilder;

use super::{
    IntrospectError,
    read::{Server, of_users, optional, query, text},
};

/// Tells `builder` what the server says of itself, its tables and columns. A view's comment is the server's own word for a view.
pub(super) async fn read(
    conn: &mut Conn,
    server: &Server,
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
    let sql = format!(
        "SELECT s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.COLUMN_NAME FROM information_schema.STATISTICS s \
         WHERE s.NON_UNIQUE = 1 AND {} ORDER BY s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.SEQ_IN_INDEX",
        of_users("s.TABLE_SCHEMA")
    );
    let mut indexes: BTreeMap<[String; 3], Option<Vec<String>>> = BTreeMap::new();
    for row in query(conn, sql).await? {
        let name = [text(&row, 0)?, text(&row, 1)?, text(&row, 2)?];
        let columns = indexes.entry(name).or_insert_with(|| Some(Vec::new()));
        // A part that is an expression has no column.
        match (columns.as_mut(), optional(&row, 3)?) {
            (Some(columns), Some(column)) => columns.push(column),
            (Some(_) | None, _) => *columns = None,
        }
    }
    for ([schema, table, _], columns) in indexes {
        if let Some(columns) = columns {
            builder = builder.index(schema, table, columns);
        }
    }
    let sql = format!(
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, CAST(t.TABLE_ROWS AS CHAR) FROM information_schema.TABLES t \
         WHERE t.TABLE_TYPE = 'BASE TABLE' AND {}",
        of_users("t.TABLE_SCHEMA")
    );
    for row in query(conn, sql).await? {
        let rows = optional(&row, 2)?.and_then(|rows| rows.parse().ok());
        if let Some(rows) = rows {
            builder = builder.row_estimate(text(&row, 0)?, text(&row, 1)?, rows);
        }
    }
    Ok(builder.engine(&server.shown()))
}
