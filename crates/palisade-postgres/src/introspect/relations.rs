//! Tables and views, their keys, parents and triggers.

use std::collections::HashMap;

use palisade::{
    catalog::{ColumnDef, DefaultValue, ForeignKey, ReferenceAction, RelationDef, RelationKind},
    change::{IMAGES, LEDGER},
    dialect::Dialect,
};
use tokio_postgres::Client;

use super::{IntrospectError, columns::Columns, read::USER_SCHEMA, triggers, types::Types, unique};

/// Every relation that can be read, in order of schema and name.
pub(super) async fn read(
    client: &Client,
    types: &Types,
    columns: &Columns,
) -> Result<Vec<RelationDef>, IntrospectError> {
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind::text, \
                CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END \
         FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {USER_SCHEMA} AND c.relname NOT IN ('{LEDGER}', '{IMAGES}') \
         ORDER BY n.nspname, c.relname"
    );
    let mut relations = Vec::new();
    let mut by_oid = HashMap::new();
    for row in client.query_typed(&sql, &[]).await? {
        let oid: u32 = row.try_get(0)?;
        let name: String = row.try_get(2)?;
        let kind = match row.try_get::<_, String>(3)?.as_str() {
            "r" | "p" | "f" => RelationKind::Table,
            "v" => RelationKind::View,
            "m" => RelationKind::Materialized,
            other => {
                return Err(IntrospectError::Inconsistent(format!(
                    "relation `{name}` is of the unknown kind `{other}`"
                )));
            }
        };
        let mut def = RelationDef::new(
            row.try_get::<_, String>(1)?,
            name,
            kind,
            column_defs(types, columns, oid),
        );
        def.definition = row
            .try_get::<_, Option<&str>>(4)?
            .map(|text| text.trim_end().trim_end_matches(';').trim().to_owned());
        by_oid.insert(oid, relations.len());
        relations.push(def);
    }
    keys(client, columns, &by_oid, &mut relations).await?;
    unique::read(client, columns, &by_oid, &mut relations).await?;
    parents(client, &by_oid, &mut relations).await?;
    triggers::read(client, &by_oid, &mut relations).await?;
    Ok(relations)
}

fn column_defs(types: &Types, columns: &Columns, relation: u32) -> Vec<ColumnDef> {
    columns
        .columns(relation)
        .iter()
        .map(|facts| {
            let class = types.class(facts.type_oid, &facts.bare_type);
            ColumnDef {
                name: facts.name.clone(),
                type_name: facts.type_name.clone(),
                class,
                nullable: !facts.not_null,
                collation: facts.collation.clone(),
                generated: facts.generated.clone(),
                stored: facts.stored,
                filled: match &facts.default {
                    None => DefaultValue::Unknown,
                    Some(None) => DefaultValue::Null,
                    Some(Some(text)) => {
                        DefaultValue::by(text, class, &facts.type_name, Dialect::Postgres)
                    }
                },
            }
        })
        .collect()
}

/// Puts primary and foreign keys where they belong.
async fn keys(
    client: &Client,
    columns: &Columns,
    by_oid: &HashMap<u32, usize>,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let sql = format!(
        "SELECT k.conrelid, k.conkey, k.confrelid, k.confkey, f.relname, s.nspname, \
                k.confdeltype::text, k.confupdtype::text \
         FROM pg_catalog.pg_constraint k \
         JOIN pg_catalog.pg_class c ON c.oid = k.conrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_class f ON f.oid = k.confrelid \
         LEFT JOIN pg_catalog.pg_namespace s ON s.oid = f.relnamespace \
         WHERE k.contype IN ('p', 'f') AND {USER_SCHEMA} \
         ORDER BY k.conrelid, k.conname"
    );
    for row in client.query_typed(&sql, &[]).await? {
        let relation: u32 = row.try_get(0)?;
        let Some(def) = by_oid.get(&relation).and_then(|i| relations.get_mut(*i)) else {
            continue;
        };
        let own = columns.names(relation, &row.try_get::<_, Vec<i16>>(1)?)?;
        let referenced: u32 = row.try_get(2)?;
        match row.try_get::<_, Option<String>>(4)? {
            None => def.primary_key = own,
            // The referenced table can be one of the system's.
            Some(_) if columns.columns(referenced).is_empty() => {}
            Some(table) => def.foreign_keys.push(ForeignKey {
                columns: own,
                schema: row.try_get(5)?,
                table,
                references: columns.names(referenced, &row.try_get::<_, Vec<i16>>(3)?)?,
                on_delete: action(row.try_get(6)?)?,
                on_update: action(row.try_get(7)?)?,
            }),
        }
    }
    Ok(())
}

/// As `pg_constraint` spells it (<https://www.postgresql.org/docs/current/catalog-pg-constraint.html>).
fn action(letter: &str) -> Result<ReferenceAction, IntrospectError> {
    match letter {
        "a" | "r" => Ok(ReferenceAction::Refuse),
        "c" => Ok(ReferenceAction::Cascade),
        "n" => Ok(ReferenceAction::SetNull),
        "d" => Ok(ReferenceAction::SetDefault),
        other => Err(IntrospectError::Inconsistent(format!(
            "a foreign key does the unknown `{other}`"
        ))),
    }
}

/// Notes of partitions and inheriting tables whose rows they are too.
async fn parents(
    client: &Client,
    by_oid: &HashMap<u32, usize>,
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let sql = "SELECT i.inhrelid, i.inhparent FROM pg_catalog.pg_inherits i \
               ORDER BY i.inhrelid, i.inhseqno, i.inhparent";
    for row in client.query_typed(sql, &[]).await? {
        let (child, parent): (u32, u32) = (row.try_get(0)?, row.try_get(1)?);
        // Partitioned indexes and temporary tables stand here too.
        let Some(child) = by_oid.get(&child).copied() else {
            continue;
        };
        let Some(parent) = by_oid
            .get(&parent)
            .and_then(|i| relations.get(*i))
            .map(|def| (def.schema.clone(), def.name.clone()))
        else {
            return Err(IntrospectError::Inconsistent(
                "a table inherits from one that is not there".to_owned(),
            ));
        };
        if let Some(def) = relations.get_mut(child) {
            def.parents.push(parent);
        }
    }
    Ok(())
}
