//! Indexes that are no keys, and about how many rows there are.

use palisade::catalog::{CatalogBuilder, RelationDef, RelationKind};
use rusqlite::{Connection, OptionalExtension as _};

use crate::introspect::pragma;

/// Tells `builder` what the database says of its tables.
pub(super) fn read(
    conn: &Connection,
    relations: &[RelationDef],
    mut builder: CatalogBuilder,
) -> rusqlite::Result<CatalogBuilder> {
    let has_statistics = has_statistics(conn)?;
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
        if has_statistics && let Some(rows) = row_estimate(conn, &def.name)? {
            builder = builder.row_estimate(&def.schema, &def.name, rows);
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

/// What ANALYZE counted.
fn row_estimate(conn: &Connection, table: &str) -> rusqlite::Result<Option<u64>> {
    // An index of a part of the rows counts those alone.
    let counted: Option<Option<i64>> = conn
        .query_row(
            "SELECT max(CAST(stat AS INTEGER)) FROM main.sqlite_stat1 WHERE tbl = ?1",
            [table],
            |row| row.get(0),
        )
        .optional()?;
    Ok(counted.flatten().and_then(|rows| u64::try_from(rows).ok()))
}
