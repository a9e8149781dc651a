//! Primary and foreign keys.

use std::collections::HashMap;

use mysql_async::Conn;
use palisade::{
    catalog::{ColumnDef, ForeignKey, ReferenceAction, RelationDef},
    past::TO,
};

use super::{
    IntrospectError, Name,
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
                k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME, k.REFERENCED_TABLE_SCHEMA \
         FROM information_schema.KEY_COLUMN_USAGE k \
         WHERE (k.CONSTRAINT_NAME = 'PRIMARY' OR k.REFERENCED_TABLE_NAME IS NOT NULL) AND {} \
         ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION",
        of_users("k.TABLE_SCHEMA")
    );
    let mut last = None;
    let rows = query(conn, sql).await?;
    let mut actions = HashMap::new();
    if rows
        .iter()
        .map(|row| optional(row, 4))
        .any(|table| !matches!(table, Ok(None)))
    {
        actions = read_actions(conn).await?;
    }
    for row in rows {
        let name = (text(&row, 0)?, text(&row, 1)?);
        let Some(def) = by_name.get(&name).and_then(|i| relations.get_mut(*i)) else {
            continue;
        };
        let column = text(&row, 3)?;
        let (Some(table), Some(referenced)) = (optional(&row, 4)?, optional(&row, 5)?) else {
            if !is_end_of_row(&column, &def.columns) {
                def.primary_key.push(column);
            }
            continue;
        };
        let constraint = (name, text(&row, 2)?);
        if last.as_ref() == Some(&constraint)
            && let Some(key) = def.foreign_keys.last_mut()
        {
            key.columns.push(column);
            key.references.push(referenced);
        } else {
            // MariaDB does not tell it to whoever may only read the table; the most that it can do is taken for it.
            let most = (ReferenceAction::Cascade, ReferenceAction::Cascade);
            let (on_delete, on_update) = actions.get(&constraint).copied().unwrap_or(most);
            def.foreign_keys.push(ForeignKey {
                columns: vec![column],
                schema: text(&row, 6)?,
                table,
                references: vec![referenced],
                on_delete,
                on_update,
            });
        }
        last = Some(constraint);
    }
    Ok(())
}

/// Whether a column of a key is the one by which past rows are told apart: the server puts it last into each unique key of a table
/// with history. No statement can name it.
pub(super) fn is_end_of_row(column: &str, columns: &[ColumnDef]) -> bool {
    column.eq_ignore_ascii_case(TO) && !columns.iter().any(|one| one.name.eq_ignore_ascii_case(TO))
}

/// What each foreign key does on deletes and updates, by its table and name.
async fn read_actions(
    conn: &mut Conn,
) -> Result<HashMap<(Name, String), (ReferenceAction, ReferenceAction)>, IntrospectError> {
    let sql = format!(
        "SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, r.DELETE_RULE, r.UPDATE_RULE \
         FROM information_schema.REFERENTIAL_CONSTRAINTS r WHERE {}",
        of_users("r.CONSTRAINT_SCHEMA")
    );
    let action = |text: String| {
        ReferenceAction::from_sql(&text).ok_or_else(|| {
            IntrospectError::Inconsistent(format!("a foreign key does the unknown `{text}`"))
        })
    };
    let mut actions = HashMap::new();
    for row in query(conn, sql).await? {
        let key = ((text(&row, 0)?, text(&row, 1)?), text(&row, 2)?);
        actions.insert(key, (action(text(&row, 3)?)?, action(text(&row, 4)?)?));
    }
    Ok(actions)
}
