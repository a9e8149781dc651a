//! Foreign keys of tables.

use std::collections::{BTreeMap, HashMap};

use palisade::{
    catalog::{ForeignKey, ReferenceAction, RelationDef},
    dialect::Dialect,
};
use rusqlite::Connection;

use crate::introspect::{IntrospectError, pragma};

/// The foreign keys of `relation`, without what `REFERENCES parent` leaves out.
pub(super) fn read(conn: &Connection, relation: &str) -> Result<Vec<ForeignKey>, IntrospectError> {
    let action = |text: String| {
        ReferenceAction::from_sql(&text).ok_or_else(|| IntrospectError::Action {
            relation: relation.to_owned(),
            action: text,
        })
    };
    let mut statement = conn.prepare(&pragma("foreign_key_list", relation))?;
    let mut rows = statement.query([])?;
    // By number; the columns of each by position: its own, and the referenced one if the key names it.
    let mut keys: BTreeMap<i64, (ForeignKey, KeyColumns)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let key = ForeignKey {
            columns: Vec::new(),
            // A key never leaves its database file.
            schema: "main".to_owned(),
            table: row.get("table")?,
            references: Vec::new(),
            on_delete: action(row.get("on_delete")?)?,
            on_update: action(row.get("on_update")?)?,
        };
        let (_, columns) = keys
            .entry(row.get("id")?)
            .or_insert_with(|| (key, KeyColumns::new()));
        columns.insert(row.get("seq")?, (row.get("from")?, row.get("to")?));
    }
    Ok(keys
        .into_values()
        .map(|(mut key, pairs)| {
            let (columns, references): (Vec<_>, Vec<_>) = pairs.into_values().unzip();
            key.columns = columns;
            key.references = references.into_iter().flatten().collect();
            key
        })
        .collect())
}

type KeyColumns = BTreeMap<i64, (String, Option<String>)>;

/// Fills in what `REFERENCES parent` leaves out.
pub(super) fn complete(relations: &mut [RelationDef]) {
    let fold = |name: &str| Dialect::Sqlite.fold(name);
    let primary_keys: HashMap<String, Vec<String>> = relations
        .iter()
        .map(|r| (fold(&r.name), r.primary_key.clone()))
        .collect();
    for key in relations.iter_mut().flat_map(|r| &mut r.foreign_keys) {
        if key.references.is_empty() {
            key.references = primary_keys
                .get(&fold(&key.table))
                .cloned()
                .unwrap_or_default();
        }
    }
}
