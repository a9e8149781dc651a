//! Comments, the labels of enumerations, indexes that are no keys, about how many rows there are, and the server's version.

use palisade::catalog::CatalogBuilder;
use tokio_postgres::Client;

use super::{IntrospectError, read::USER_SCHEMA};

/// Tells `builder` what the database says of itself, its relations, columns and enumerations.
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
    // Of an index over expressions or a part of the rows, columns would not tell what it is good for.
    let sql = format!(
        "SELECT n.nspname::text, c.relname::text, \
                ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (attnum, at) \
                      JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
                      WHERE k.at <= i.indnkeyatts ORDER BY k.at) \
         FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE NOT i.indisunique AND NOT i.indisexclusion AND i.indisvalid \
           AND i.indexprs IS NULL AND i.indpred IS NULL AND {USER_SCHEMA} ORDER BY 1, 2, 3"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let (schema, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        builder = builder.index(schema, table, row.try_get(2)?);
    }
    let sql = format!(
        "SELECT n.nspname::text, c.relname::text, c.reltuples::bigint FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p') AND c.reltuples >= 0 AND {USER_SCHEMA}"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let (schema, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let rows: i64 = row.try_get(2)?;
        builder = builder.row_estimate(schema, table, u64::try_from(rows).unwrap_or_default());
    }
    let sql = "SELECT pg_catalog.split_part(pg_catalog.current_setting('server_version'), ' ', 1)";
    for row in client.query_typed(sql, &[]).await? {
        let version: &str = row.try_get(0)?;
        builder = builder.engine(&format!("PostgreSQL {version}"));
    }
    Ok(builder)
}
