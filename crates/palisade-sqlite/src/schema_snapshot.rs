//! A snapshot of the stored schema, by which a change is noticed.

use rusqlite::{Connection, types::ValueRef};

/// The text of `sqlite_schema`. Equal snapshots mean equal catalogs: everything a catalog holds
/// follows from these texts.
///
/// The texts themselves and not only `PRAGMA schema_version`: a file that was replaced by another
/// can have the same number. SQLite parses all of them on every open anyway, so that comparing
/// costs little beside it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SchemaSnapshot(Vec<Vec<u8>>);

impl SchemaSnapshot {
    /// Reads the schema of `main` in the connection's current transaction.
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut statement = conn
            .prepare("SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY rowid")?;
        let mut rows = statement.query([])?;
        let mut cells = Vec::new();
        while let Some(row) = rows.next()? {
            for index in 0..4 {
                cells.push(match row.get_ref(index)? {
                    // An automatic index has no text; a text is never empty.
                    ValueRef::Null => Vec::new(),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                    ValueRef::Integer(n) => n.to_string().into_bytes(),
                    ValueRef::Real(n) => n.to_string().into_bytes(),
                });
            }
        }
        Ok(Self(cells))
    }

    /// Whether it has a trigger for whose name `fits` holds.
    pub(crate) fn has_trigger(&self, fits: impl Fn(&str) -> bool) -> bool {
        self.0.chunks(4).any(|row| match row {
            [kind, name, ..] => kind == b"trigger" && std::str::from_utf8(name).is_ok_and(&fits),
            _ => false,
        })
    }
}

/// `PRAGMA schema_version` of `main`.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA main.schema_version", [], |row| row.get(0))
}
