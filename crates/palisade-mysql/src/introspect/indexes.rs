//! Parts of indexes.

use std::collections::BTreeMap;

use mysql_async::{Conn, Row};
use palisade::catalog::CatalogBuilder;

use super::{
    IntrospectError, Product,
    read::{of_users, optional, query, text},
};

/// The query for the parts of indexes for which `condition` holds, `s` being a part.
pub(super) fn sql(condition: &str, product: Product) -> String {
    let expression = match product {
        Product::MariaDb => "NULL",
        Product::MySql => "s.EXPRESSION",
    };
    format!(
        "SELECT s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.COLUMN_NAME, s.SUB_PART, {expression}, s.NON_UNIQUE \
         FROM information_schema.STATISTICS s WHERE {condition} \
         ORDER BY s.TABLE_SCHEMA, s.TABLE_NAME, s.INDEX_NAME, s.SEQ_IN_INDEX"
    )
}

/// The parts of all indexes of users' tables, in order.
///
/// The server opens every table for such a question, so there is one for all that want to know.
pub(super) async fn ask(conn: &mut Conn, product: Product) -> Result<Vec<Row>, IntrospectError> {
    Ok(query(conn, sql(&of_users("s.TABLE_SCHEMA"), product)).await?)
}

/// Whether a part is one of a unique key.
pub(super) fn is_unique(row: &Row) -> Result<bool, IntrospectError> {
    Ok(text(row, 6)? == "0")
}

/// Tells `builder` of the indexes that are no keys, and have columns alone.
pub(super) fn describe(
    rows: &[Row],
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let mut indexes: BTreeMap<[String; 3], Option<Vec<String>>> = BTreeMap::new();
    for row in rows {
        if is_unique(row)? {
            continue;
        }
        let name = [text(row, 0)?, text(row, 1)?, text(row, 2)?];
        let columns = indexes.entry(name).or_insert_with(|| Some(Vec::new()));
        // A part that is an expression has no column.
        match (columns.as_mut(), optional(row, 3)?) {
            (Some(columns), Some(column)) => columns.push(column),
            (Some(_) | None, _) => *columns = None,
        }
    }
    for ([schema, table, _], columns) in indexes {
        if let Some(columns) = columns {
            builder = builder.index(schema, table, columns);
        }
    }
    Ok(builder)
}
