//! The tables of receipts and of images of rows, which stand in the database itself. No statement of a principal reaches them.

use palisade::{
    catalog::Catalog,
    change::{IMAGES, LEDGER, LedgerEntry},
    dialect::Dialect,
    guard::{BackendError, Traces},
};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use crate::fault;

/// A table of ours, in the first schema of the search path.
fn name_table(catalog: &Catalog, table: &str) -> String {
    format!(
        "{}.{table}",
        Dialect::Postgres.identifier(catalog.default_schema())
    )
}

async fn has_table(client: &Client, name: &str) -> Result<bool, BackendError> {
    let sql = "SELECT pg_catalog.to_regclass($1) IS NOT NULL";
    let rows = client
        .query_typed(sql, &[(&name as &(dyn ToSql + Sync), Type::TEXT)])
        .await
        .map_err(|e| fault::engine(&e))?;
    match rows.first() {
        Some(row) => row.try_get(0).map_err(|e| fault::engine(&e)),
        None => Ok(false),
    }
}

/// Writes what a change leaves, where the database has the tables for it.
pub(crate) async fn leave(
    client: &Client,
    catalog: &Catalog,
    left: &Traces,
) -> Result<(), BackendError> {
    let ledger = name_table(catalog, LEDGER);
    if has_table(client, &ledger).await? {
        let sql = format!("INSERT INTO {ledger} (change_id, receipt) VALUES ($1, $2)");
        let bound: [(&(dyn ToSql + Sync), Type); 2] =
            [(&left.change, Type::TEXT), (&left.receipt, Type::TEXT)];
        client
            .query_typed(&sql, &bound)
            .await
            .map_err(|e| fault::engine(&e))?;
    }
    let images = name_table(catalog, IMAGES);
    if has_table(client, &images).await? {
        let sql = format!(
            "INSERT INTO {images} (change_id, part, kept_ms, image) VALUES ($1, $2, $3, $4)"
        );
        let kept_ms = milliseconds(left.kept_ms);
        for (number, image) in (0_i32..).zip(&left.images) {
            let bound: [(&(dyn ToSql + Sync), Type); 4] = [
                (&left.change, Type::TEXT),
                (&number, Type::INT4),
                (&kept_ms, Type::INT8),
                (image, Type::TEXT),
            ];
            client
                .query_typed(&sql, &bound)
                .await
                .map_err(|e| fault::engine(&e))?;
        }
    }
    Ok(())
}

fn milliseconds(kept_ms: u64) -> i64 {
    i64::try_from(kept_ms).unwrap_or(i64::MAX)
}

/// The receipt of a change.
pub(crate) async fn find_receipt(
    client: &Client,
    catalog: &Catalog,
    id: &str,
) -> Result<LedgerEntry, BackendError> {
    let ledger = name_table(catalog, LEDGER);
    if !has_table(client, &ledger).await? {
        return Ok(LedgerEntry::NoLedger);
    }
    let sql = format!("SELECT receipt::pg_catalog.text FROM {ledger} WHERE change_id = $1");
    let rows = client
        .query_typed(&sql, &[(&id as &(dyn ToSql + Sync), Type::TEXT)])
        .await
        .map_err(|e| fault::engine(&e))?;
    match rows.first() {
        Some(row) => Ok(LedgerEntry::Found(
            row.try_get(0).map_err(|e| fault::engine(&e))?,
        )),
        None => Ok(LedgerEntry::Absent),
    }
}

/// All receipts, where the database has a table for them.
pub(crate) async fn list_receipts(
    client: &Client,
    catalog: &Catalog,
) -> Result<Option<Vec<(String, String)>>, BackendError> {
    let ledger = name_table(catalog, LEDGER);
    if !has_table(client, &ledger).await? {
        return Ok(None);
    }
    let sql = format!("SELECT change_id::pg_catalog.text, receipt::pg_catalog.text FROM {ledger}");
    let rows = client
        .query_typed(&sql, &[])
        .await
        .map_err(|e| fault::engine(&e))?;
    let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let rows: Result<Vec<_>, tokio_postgres::Error> = rows.iter().map(read).collect();
    rows.map(Some).map_err(|e| fault::engine(&e))
}

/// The images of a change's rows, where the database has a table for them.
pub(crate) async fn read_images(
    client: &Client,
    catalog: &Catalog,
    id: &str,
) -> Result<Option<Vec<String>>, BackendError> {
    let images = name_table(catalog, IMAGES);
    if !has_table(client, &images).await? {
        return Ok(None);
    }
    let sql =
        format!("SELECT image::pg_catalog.text FROM {images} WHERE change_id = $1 ORDER BY part");
    let rows = client
        .query_typed(&sql, &[(&id as &(dyn ToSql + Sync), Type::TEXT)])
        .await
        .map_err(|e| fault::engine(&e))?;
    let parts: Result<Vec<String>, tokio_postgres::Error> =
        rows.iter().map(|row| row.try_get(0)).collect();
    parts.map(Some).map_err(|e| fault::engine(&e))
}

/// Deletes images of changes that were kept before `kept_ms`, where the database has a table for them.
pub(crate) async fn prune_images(
    client: &Client,
    catalog: &Catalog,
    kept_ms: u64,
) -> Result<Option<u64>, BackendError> {
    let images = name_table(catalog, IMAGES);
    if !has_table(client, &images).await? {
        return Ok(None);
    }
    let engine = |e: tokio_postgres::Error| fault::engine(&e);
    // Sessions only read unless they are told otherwise.
    client
        .batch_execute("START TRANSACTION READ WRITE")
        .await
        .map_err(engine)?;
    let sql = format!("DELETE FROM {images} WHERE kept_ms < $1");
    let kept_ms = milliseconds(kept_ms);
    let deleted = client.execute_typed(&sql, &[(&kept_ms, Type::INT8)]).await;
    let end = match deleted {
        Ok(_) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    client.batch_execute(end).await.map_err(engine)?;
    deleted.map(Some).map_err(engine)
}
