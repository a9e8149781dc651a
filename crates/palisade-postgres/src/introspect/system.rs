//! Which columns the server's own relations have: other versions have others.

use palisade::{
    catalog::{CatalogBuilder, ColumnDef, DefaultValue, TypeClass, system_relation},
    dialect::Dialect,
};
use tokio_postgres::Client;

use super::IntrospectError;

/// Tells `builder` of every relation of the server's own that is known. A domain is what it narrows.
pub(super) async fn read(
    client: &Client,
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let sql = "SELECT n.nspname, c.relname, pg_catalog.array_agg(a.attname::text ORDER BY a.attnum), \
                pg_catalog.array_agg(pg_catalog.format_type( \
                    CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) ORDER BY a.attnum) \
         FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') \
         GROUP BY n.nspname, c.relname";
    for row in client.query_typed(sql, &[]).await? {
        let (schema, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        if system_relation(Dialect::Postgres, schema, name).is_none() {
            continue;
        }
        let (columns, types): (Vec<String>, Vec<String>) = (row.try_get(2)?, row.try_get(3)?);
        let columns = columns.into_iter().zip(types);
        let columns = columns.map(|(name, type_name)| ColumnDef {
            name,
            class: TypeClass::from_name(Dialect::Postgres, &type_name),
            type_name,
            nullable: true,
            collation: String::new(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        });
        builder = builder.system_relation(schema, name, columns.collect());
    }
    Ok(builder)
}
