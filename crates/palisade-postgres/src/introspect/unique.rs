//! Unique keys, and what excludes rows in other ways.

use std::collections::HashMap;

use palisade::{
    catalog::{RelationDef, RelationKind, UniqueKeyDef, may_name, may_name_rows},
    dialect::Dialect,
};
use tokio_postgres::Client;

use super::{IntrospectError, columns::Columns, read::USER_SCHEMA};

/// Puts the keys where they belong. A constraint goes by the name of its index, which is its own.
pub(super) async fn read(
    client: &Client,
    columns: &Columns,
    by_oid: &HashMap<u32, usize>,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    for def in &mut *relations {
        def.unique_keys = match def.kind {
            RelationKind::Table => Some(Vec::new()),
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => None,
        };
    }
    // What an index only includes stands after its keys. An expression has the number 0.
    let keys = "(SELECT k.attnum FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (attnum, at) \
                 WHERE k.at <= i.indnkeyatts AND k.attnum > 0 ORDER BY k.at)";
    let filled = format!(
        "(SELECT a.attnum FROM pg_catalog.pg_attribute a \
          LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
          JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
          WHERE a.attrelid = i.indrelid AND a.attnum IN {keys} AND a.attgenerated = '' \
            AND (pg_catalog.pg_get_expr(d.adbin, d.adrelid) NOT LIKE 'nextval(%' \
                 OR t.typtype = 'd' AND t.typdefault IS NOT NULL) ORDER BY a.attnum)"
    );
    // As the columns compare: by their own collations, and by what their types are compared by elsewhere. Texts can be
    // given the class that others have by default.
    let others = "EXISTS (SELECT FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) AS at \
                   JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[at] \
                   JOIN pg_catalog.pg_type ot ON ot.oid = o.opcintype \
                   LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[at] \
                   LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
                   WHERE NOT o.opcdefault OR a.attcollation IS DISTINCT FROM i.indcollation[at] \
                     OR ot.typname = 'bpchar' AND t.typtype <> 'd' AND t.oid <> ot.oid)";
    // The columns that are compared so, whatever else the key has.
    let equal = "(SELECT k.attnum FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (attnum, at) \
                  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
                  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
                  JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[(k.at - 1)::pg_catalog.int4] \
                  JOIN pg_catalog.pg_type ot ON ot.oid = o.opcintype \
                  WHERE k.at <= i.indnkeyatts AND k.attnum > 0 \
                    AND i.indisunique AND NOT i.indisexclusion AND NOT i.indnullsnotdistinct \
                    AND o.opcdefault AND a.attcollation = i.indcollation[(k.at - 1)::pg_catalog.int4] \
                    AND NOT (ot.typname = 'bpchar' AND t.typtype <> 'd' AND t.oid <> ot.oid) ORDER BY k.at)";
    let sql = format!(
        "SELECT i.indrelid, x.relname, ARRAY{keys}, ARRAY{filled}, \
                i.indisunique AND NOT i.indisexclusion AND NOT i.indnullsnotdistinct \
                AND i.indexprs IS NULL AND i.indpred IS NULL AND NOT {others}, \
                pg_catalog.concat_ws(' ', pg_catalog.pg_get_expr(i.indexprs, i.indrelid), \
                                     pg_catalog.pg_get_expr(i.indpred, i.indrelid)), \
                ARRAY{equal} \
         FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid \
         JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE (i.indisunique OR i.indisexclusion) AND {USER_SCHEMA} \
         ORDER BY i.indrelid, x.relname"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let relation: u32 = row.try_get(0)?;
        let Some(def) = by_oid.get(&relation).and_then(|i| relations.get_mut(*i)) else {
            continue;
        };
        let text: &str = row.try_get(5)?;
        let mut key = UniqueKeyDef {
            name: Some(row.try_get(1)?),
            columns: columns.names(relation, &row.try_get::<_, Vec<i16>>(2)?)?,
            filled: columns.names(relation, &row.try_get::<_, Vec<i16>>(3)?)?,
            equal: columns.names(relation, &row.try_get::<_, Vec<i16>>(6)?)?,
            plain: row.try_get(4)?,
        };
        if !text.is_empty() {
            let every = may_name_rows(text, &def.name, Dialect::Postgres);
            let named = (def.columns.iter())
                .filter(|c| every || may_name(text, &c.name, Dialect::Postgres));
            key.columns.extend(named.map(|c| c.name.clone()));
        }
        if let Some(keys) = &mut def.unique_keys {
            keys.push(key);
        }
    }
    Ok(())
}
