//! Unique keys of tables.

use std::collections::HashMap;

use palisade::{
    catalog::{UniqueKeyDef, may_name, may_name_rows},
    dialect::Dialect,
};
use rusqlite::Connection;

use crate::introspect::{ColumnInfo, pragma};

/// The unique keys of `table`, of which `rowid` may be the row id; `texts` made its indexes, by folded name.
pub(super) fn read(
    conn: &Connection,
    texts: &HashMap<String, String>,
    table: &str,
    columns: &[ColumnInfo],
    rowid: Option<&str>,
) -> rusqlite::Result<Vec<UniqueKeyDef>> {
    let mut keys = Vec::new();
    // It has no index of its own, and is counted up where it is given nothing.
    if let Some(rowid) = rowid {
        keys.push(UniqueKeyDef {
            name: None,
            columns: vec![rowid.to_owned()],
            filled: Vec::new(),
            equal: Vec::new(),
            plain: true,
        });
    }
    for (index, partial) in indexes(conn, table)? {
        let text = texts.get(&Dialect::Sqlite.fold(&index)).map(String::as_str);
        keys.push(key(conn, (table, columns), (&index, text), partial)?);
    }
    Ok(keys)
}

/// The unique indexes: their names, and whether they are of a part of the rows.
fn indexes(conn: &Connection, table: &str) -> rusqlite::Result<Vec<(String, bool)>> {
    let mut statement = conn.prepare(&pragma("index_list", table))?;
    let mut rows = statement.query([])?;
    let mut indexes = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get("unique")? {
            indexes.push((row.get("name")?, row.get("partial")?));
        }
    }
    Ok(indexes)
}

fn key(
    conn: &Connection,
    (table, columns): (&str, &[ColumnInfo]),
    (index, text): (&str, Option<&str>),
    partial: bool,
) -> rusqlite::Result<UniqueKeyDef> {
    let mut statement = conn.prepare(&pragma("index_xinfo", index))?;
    let mut rows = statement.query([])?;
    let mut key = UniqueKeyDef {
        // The engine's own names are none that a schema says.
        name: (!index.starts_with("sqlite_autoindex_")).then(|| index.to_owned()),
        plain: !partial,
        ..UniqueKeyDef::default()
    };
    let mut has_text = partial;
    while let Some(row) = rows.next()? {
        // What else an index holds is not compared.
        if !row.get::<_, bool>("key")? {
            continue;
        }
        let Some(name) = row.get::<_, Option<String>>("name")? else {
            has_text = true;
            continue;
        };
        let collation: Option<String> = row.get("coll")?;
        let own = conn
            .column_metadata(Some("main"), table, name.as_str())
            .ok()
            .and_then(|(_, own, ..)| own.map(|own| own.to_string_lossy().into_owned()));
        let is_equal = match (collation, own) {
            (Some(one), Some(other)) => one.eq_ignore_ascii_case(&other),
            (Some(_) | None, _) => false,
        };
        key.plain &= is_equal;
        if is_equal {
            key.equal.push(name.clone());
        }
        key.columns.push(name);
    }
    if has_text {
        key.plain = false;
        // What stands before is the index's name and the table's.
        let text = text.and_then(|text| text.split_once('('));
        for column in columns {
            let named = text.is_none_or(|(_, text)| {
                may_name(text, &column.name, Dialect::Sqlite)
                    || may_name_rows(text, table, Dialect::Sqlite)
            });
            if named {
                key.columns.push(column.name.clone());
            }
        }
    }
    let filled = columns.iter().filter(|column| column.is_filled);
    key.filled = filled
        .map(|column| column.name.clone())
        .filter(|name| key.columns.contains(name))
        .collect();
    Ok(key)
}
