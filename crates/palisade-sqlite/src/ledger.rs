//! The tables of receipts and of images of rows, which stand in the database itself. No statement of a principal reaches them.

use palisade::{
    change::{IMAGES, LEDGER, LedgerEntry},
    guard::Traces,
};
use rusqlite::{Connection, OptionalExtension as _, params};

/// Writes what a change leaves, where the file has the tables for it.
pub(crate) fn leave(conn: &Connection, left: &Traces) -> rusqlite::Result<()> {
    if has_table(conn, LEDGER)? {
        conn.execute(
            &format!("INSERT INTO main.{LEDGER} (change_id, receipt) VALUES (?1, ?2)"),
            [&left.change, &left.receipt],
        )?;
    }
    if has_table(conn, IMAGES)? {
        let mut insert = conn.prepare(&format!(
            "INSERT INTO main.{IMAGES} (change_id, part, kept_ms, image) VALUES (?1, ?2, ?3, ?4)"
        ))?;
        for (number, image) in (0_i64..).zip(&left.images) {
            insert.execute(params![
                left.change,
                number,
                milliseconds(left.kept_ms),
                image
            ])?;
        }
    }
    Ok(())
}

fn milliseconds(kept_ms: u64) -> i64 {
    i64::try_from(kept_ms).unwrap_or(i64::MAX)
}

fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT count(*) > 0 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1",
        [name],
        |row| row.get(0),
    )
}

/// The receipt of a change.
pub(crate) fn find_receipt(conn: &Connection, id: &str) -> rusqlite::Result<LedgerEntry> {
    if !has_table(conn, LEDGER)? {
        return Ok(LedgerEntry::NoLedger);
    }
    let sql = format!("SELECT receipt FROM main.{LEDGER} WHERE change_id = ?1");
    let found = conn.query_row(&sql, [id], |row| row.get(0)).optional()?;
    Ok(found.map_or(LedgerEntry::Absent, LedgerEntry::Found))
}

/// All receipts, where the file has a table for them.
pub(crate) fn list_receipts(
    conn: &mut Connection,
) -> rusqlite::Result<Option<Vec<(String, String)>>> {
    if !has_table(conn, LEDGER)? {
        return Ok(None);
    }
    let mut query = conn.prepare(&format!("SELECT change_id, receipt FROM main.{LEDGER}"))?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect::<rusqlite::Result<_>>().map(Some)
}

/// The images of a change's rows, where the file has a table for them.
pub(crate) fn read_images(conn: &Connection, id: &str) -> rusqlite::Result<Option<Vec<String>>> {
    if !has_table(conn, IMAGES)? {
        return Ok(None);
    }
    let sql = format!("SELECT image FROM main.{IMAGES} WHERE change_id = ?1 ORDER BY part");
    let mut query = conn.prepare(&sql)?;
    let parts = query.query_map([id], |row| row.get(0))?;
    parts.collect::<rusqlite::Result<_>>().map(Some)
}

/// Deletes images of changes that were kept before `kept_ms`, where the file has a table for them.
pub(crate) fn prune_images(conn: &Connection, kept_ms: u64) -> rusqlite::Result<Option<u64>> {
    if !has_table(conn, IMAGES)? {
        return Ok(None);
    }
    let sql = format!("DELETE FROM main.{IMAGES} WHERE kept_ms < ?1");
    conn.execute_batch("PRAGMA query_only=OFF")?;
    let deleted = conn.execute(&sql, [milliseconds(kept_ms)]);
    conn.execute_batch("PRAGMA query_only=ON")?;
    let count = deleted?;
    Ok(u64::try_from(count).ok())
}
