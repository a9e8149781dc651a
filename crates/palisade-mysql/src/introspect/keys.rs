//! Primary and foreign keys.

use std::collections::HashMap;

use mysql_async::Conn;
use palisade::catalog::{ForeignKey, RelationDef};

use super::{
    IntrospectError,
    read::{of_users, optional, query, text},
};

/// Puts the keys where they belong.
pub(super) async fn read(
    conn: &mut Conn,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let by_name: HashMap<_, _> = relations
        .iter()
        .enumerate()
        .map(|(index, def)| ((def.schema.clone(), def.name.clone()), index))
        .collect();
    let sql = format!(
        "SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.COLUMN_NAME, \
                k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME \
         FROM information_schema.KEY_COLUMN_USAGE k \
         WHERE (k.CONSTRAINT_NAME = 'PRIMARY' OR k.REFERENCED_TABLE_NAME IS NOT NULL) AND {} \
         ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION",
        of_users("k.TABLE_SCHEMA")
    );
    let mut last = None;
    for row in query(conn, sql).await? {
        let name = (text(&row, 0)?, text(&row, 1)?);
        let Some(def) = by_name.get(&name).and_then(|i| relations.get_mut(*i)) else {
            continue;
        };
        let column = text(&row, 3)?;
        let (Some(table), Some(referenced)) = (optional(&row, 4)?, optional(&row, 5)?) else {
            def.primary_key.push(column);
            continue;
        };
        let constraint = Some((name, text(&row, 2)?));
        if constraint == last
            && let Some(key) = def.foreign_keys.last_mut()
        {
            key.columns.push(column);
            key.references.push(referenced);
        } else {
            def.foreign_keys.push(ForeignKey {
                columns: vec![column],
                table,
                references: vec![referenced],
                on_delete: palisade::catalog::ReferenceAction::Refuse,
                on_update: palisade::catalog::ReferenceAction::Refuse,
            });
        }
        last = constraint;
    }
    Ok(())
}
