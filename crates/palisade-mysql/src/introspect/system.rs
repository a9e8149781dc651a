//! Which columns the server's own relations have: other products and versions have others.

use std::collections::BTreeMap;

use mysql_async::Conn;
use palisade::{
    catalog::{CatalogBuilder, ColumnDef, system_relation},
    dialect::Dialect,
};

use super::{
    IntrospectError, Name, Product, columns,
    read::{of_users, query},
};

/// Tells `builder` of every relation of the server's own that is known and that the account may read; the server does not tell of
/// others.
pub(super) async fn read(
    conn: &mut Conn,
    product: Product,
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let mut found: BTreeMap<Name, Vec<ColumnDef>> = BTreeMap::new();
    let condition = format!("NOT ({})", of_users("c.TABLE_SCHEMA"));
    for row in query(conn, columns::sql(&condition)).await? {
        let (relation, column) = columns::column(&row, product)?;
        found
            .entry(relation)
            .or_default()
            .extend(column.map(|described| described.column));
    }
    for ((schema, name), columns) in found {
        let (schema, name) = (schema.to_lowercase(), name.to_lowercase());
        if system_relation(Dialect::Mysql, &schema, &name).is_some() {
            builder = builder.system_relation(schema, name, columns);
        }
    }
    Ok(builder)
}
