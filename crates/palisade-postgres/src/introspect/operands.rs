//! What the engine casts to the types that operators and functions of the database declare.

use std::collections::HashMap;

use palisade::{
    catalog::{OperandDef, TypeClass},
    dialect::Dialect,
};
use tokio_postgres::Client;

use super::IntrospectError;

/// What may be an operand or an argument of each type that operators and functions of the database declare, by the type's id.
pub(super) async fn read(client: &Client) -> Result<HashMap<u32, OperandDef>, IntrospectError> {
    let sql = "WITH declared AS ( \
             SELECT o.oprleft AS id FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 \
             UNION SELECT o.oprright FROM pg_catalog.pg_operator o WHERE o.oid >= 16384 \
             UNION SELECT pg_catalog.unnest(p.proargtypes) FROM pg_catalog.pg_proc p WHERE p.oid >= 16384), \
         settled AS ( \
             SELECT t.oid AS id, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS base \
             FROM declared d JOIN pg_catalog.pg_type t ON t.oid = d.id) \
         SELECT s.id, b.typtype IN ('p', 'd'), \
                pg_catalog.format_type(s.base, NULL) || ARRAY( \
                    SELECT pg_catalog.format_type(k.castsource, NULL) FROM pg_catalog.pg_cast k \
                    WHERE k.casttarget = s.base AND k.castcontext = 'i') \
         FROM settled s JOIN pg_catalog.pg_type b ON b.oid = s.base";
    let mut operands = HashMap::from([(0, OperandDef::Absent)]);
    for row in client.query_typed(sql, &[]).await? {
        let takes_any: bool = row.try_get(1)?;
        let sources: Vec<String> = row.try_get(2)?;
        let operand = if takes_any {
            OperandDef::Any
        } else {
            let mut classes: Vec<TypeClass> = sources
                .iter()
                .map(|name| TypeClass::from_name(Dialect::Postgres, name))
                .filter(|class| *class != TypeClass::Other)
                .collect();
            classes.sort_unstable();
            classes.dedup();
            OperandDef::Classes(classes)
        };
        operands.insert(row.try_get(0)?, operand);
    }
    Ok(operands)
}
