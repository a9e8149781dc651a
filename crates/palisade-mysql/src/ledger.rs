//! The tables of receipts and of images of rows, which stand in the connection's database. No statement of a principal reaches them.

use mysql_async::{Conn, prelude::Queryable as _};
use palisade::{
    catalog::Catalog,
    change::{IMAGES, LEDGER, LedgerEntry},
    guard::{BackendError, Traces},
};

use crate::{
    fault,
    settings::{identifier, literal},
};

/// A table of ours, if the connection's database has it.
///
/// # Errors
/// If it takes no part in transactions: then a change could be kept without its receipt.
async fn find_table(
    conn: &mut Conn,
    catalog: &Catalog,
    table: &str,
) -> Result<Option<String>, BackendError> {
    let schema = catalog.default_schema();
    let sql = format!(
        "SELECT t.ENGINE FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = {} AND t.TABLE_NAME = '{table}'",
        literal(schema)
    );
    let found: Option<Option<String>> =
        conn.query_first(sql).await.map_err(|e| fault::engine(&e))?;
    let name = format!("{}.{table}", identifier(schema));
    match found {
        None => Ok(None),
        Some(Some(engine)) if engine == "InnoDB" => Ok(Some(name)),
        Some(_) => Err(BackendError::rejected(format!(
            "{name} takes no part in transactions, so that nothing is changed: ALTER TABLE {name} ENGINE=InnoDB"
        ))),
    }
}

/// Writes what a change leaves, where the database has the tables for it.
pub(crate) async fn leave(
    conn: &mut Conn,
    catalog: &Catalog,
    left: Traces,
) -> Result<(), BackendError> {
    let Traces {
        change,
        receipt,
        kept_ms,
        images,
    } = left;
    if let Some(ledger) = find_table(conn, catalog, LEDGER).await? {
        let sql = format!("INSERT INTO {ledger} (change_id, receipt) VALUES (?, ?)");
        conn.exec_drop(sql, (&change, receipt))
            .await
            .map_err(|e| fault::engine(&e))?;
    }
    if let Some(table) = find_table(conn, catalog, IMAGES).await? {
        let sql =
            format!("INSERT INTO {table} (change_id, part, kept_ms, image) VALUES (?, ?, ?, ?)");
        for (number, image) in (0_u32..).zip(images) {
            conn.exec_drop(&sql, (&change, number, kept_ms, image))
                .await
                .map_err(|e| fault::engine(&e))?;
        }
    }
    Ok(())
}

/// The receipt of a change.
pub(crate) async fn find_receipt(
    conn: &mut Conn,
    catalog: &Catalog,
    id: &str,
) -> Result<LedgerEntry, BackendError> {
    let Some(ledger) = find_table(conn, catalog, LEDGER).await? else {
        return Ok(LedgerEntry::NoLedger);
    };
    let sql = format!("SELECT receipt FROM {ledger} WHERE change_id = ?");
    let found: Option<String> = conn
        .exec_first(sql, (id,))
        .await
        .map_err(|e| fault::engine(&e))?;
    Ok(found.map_or(LedgerEntry::Absent, LedgerEntry::Found))
}

/// All receipts, where the database has a table for them.
pub(crate) async fn list_receipts(
    conn: &mut Conn,
    catalog: &Catalog,
) -> Result<Option<Vec<(String, String)>>, BackendError> {
    let Some(ledger) = find_table(conn, catalog, LEDGER).await? else {
        return Ok(None);
    };
    let sql = format!("SELECT change_id, receipt FROM {ledger}");
    let found = conn.query(sql).await.map_err(|e| fault::engine(&e))?;
    Ok(Some(found))
}

/// The images of a change's rows, where the database has a table for them.
pub(crate) async fn read_images(
    conn: &mut Conn,
    catalog: &Catalog,
    id: &str,
) -> Result<Option<Vec<String>>, BackendError> {
    let Some(images) = find_table(conn, catalog, IMAGES).await? else {
        return Ok(None);
    };
    let sql = format!("SELECT image FROM {images} WHERE change_id = ? ORDER BY part");
    let parts = conn.exec(sql, (id,)).await;
    parts.map(Some).map_err(|e| fault::engine(&e))
}

/// Deletes images of changes that were kept before `kept_ms`, where the database has a table for them.
pub(crate) async fn prune_images(
    conn: &mut Conn,
    catalog: &Catalog,
    kept_ms: u64,
) -> Result<Option<u64>, BackendError> {
    let Some(images) = find_table(conn, catalog, IMAGES).await? else {
        return Ok(None);
    };
    // Sessions only read unless they are told otherwise.
    let begin = conn.query_drop("START TRANSACTION READ WRITE").await;
    begin.map_err(|e| fault::engine(&e))?;
    let sql = format!("DELETE FROM {images} WHERE kept_ms < ?");
    let deleted = conn.exec_drop(sql, (kept_ms,)).await;
    let count = conn.affected_rows();
    let end = match deleted {
        Ok(()) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    conn.query_drop(end).await.map_err(|e| fault::engine(&e))?;
    deleted.map(|()| Some(count)).map_err(|e| fault::engine(&e))
}
