//! Comments and the labels of enumerations.

use palisade::catalog::CatalogBuilder;
use tokio_postgres::Client;

use super::{IntrospectError, read::USER_SCHEMA};

/// Tells `builder` what the database says of its relations, columns and enumerations.
pub(super) async fn read(
    client: &Client,
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    let sql = format!(
        "SELECT n.nspname::text, c.relname::text, a.attname::text, d.description \
         FROM pg_catalog.pg_description d \
         JOIN pg_catalog.pg_class c ON c.oid = d.objoid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 \
         WHERE d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass \
           AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {USER_SCHEMA}"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let (schema, relation): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        builder = builder.comment(schema, relation, row.try_get(2)?, row.try_get(3)?);
    }
    let sql = format!(
        "SELECT n.nspname::text, t.typname::text, pg_catalog.array_agg(e.enumlabel::text ORDER BY e.enumsortorder) \
         FROM pg_catalog.pg_enum e \
         JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid \
         JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
         WHERE {USER_SCHEMA} GROUP BY n.nspname, t.typname"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let (schema, name): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        builder = builder.enum_labels(schema, name, row.try_get(2)?);
    }
    Ok(builder)
}
