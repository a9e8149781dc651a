//! Indexes that are no keys, and about how many rows there are.

use std::collections::HashMap;

use palisade::catalog::{CatalogBuilder, RelationDef, RelationKind};
use rusqlite::Connection;

use crate::introspect::pragma;

/// Tells `builder` what the database says of its tables.
pub(super) fn read(
    conn: &Connection,
    relations: &[RelationDef],
    mut builder: CatalogBuilder,
) -> rusqlite::Result<CatalogBuilder> {
    let estimates = match has_statistics(conn)? {
        true => row_estimates(conn)?,
        false => HashMap::new(),
    };
    for def in relations {
        match def.kind {
            RelationKind::Table => {}
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => continue,
        }
        for columns in indexes(conn, &def.name)? {
            builder = builder.index(&def.schema, &def.name, columns);
        }
        if let Some(rows) = estimates.get(&def.name) {
            builder = builder.row_estimate(&def.schema, &def.name, *rows);
        }
    }
    Ok(builder)
}

/// The columns of each index of whole rows that is not unique.
fn indexes(conn: &Connection, table: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = conn.prepare(&pragma("index_list", table))?;
    let mut rows = statement.query([])?;
    let mut names: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        if !row.get::<_, bool>("unique")? && !row.get::<_, bool>("partial")? {
            names.push(row.get("name")?);
        }
    }
    // The engine lists the newest first.
    names.sort();
    let mut indexes = Vec::new();
    for name in names {
        let mut statement = conn.prepare(&pragma("index_info", &name))?;
        let columns = statement
            .query_map([], |row| row.get::<_, Option<String>>("name"))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        // A part that is an expression has no name.
        indexes.extend(columns.into_iter().collect::<Option<Vec<String>>>());
    }
    Ok(indexes)
}

/// Whether ANALYZE has ever been run.
fn has_statistics(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'sqlite_stat1'")?
        .exists([])
}

/// What ANALYZE counted, by table: read at once, since the engine looks through all of it for each question.
fn row_estimates(conn: &Connection) -> rusqlite::Result<HashMap<String, u64>> {
    // An index of a part of the rows counts those alone.
    let mut statement = conn.prepare(
        "SELECT tbl, max(CAST(stat AS INTEGER)) FROM main.sqlite_stat1 WHERE typeof(tbl) = 'text' GROUP BY tbl",
    )?;
    let counted = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    let counted = counted.collect::<rusqlite::Result<Vec<_>>>()?;
    let rows = counted.into_iter().filter_map(|(table, rows)| {
        let rows = rows.and_then(|rows| u64::try_from(rows).ok())?;
        Some((table, rows))
    });
    Ok(rows.collect())
}
