//! What of the rights that histories take an account lacks.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::{Conn, Error};
use palisade::past::{FROM, TO};

use super::{
    PLACE_QUERY, SEAL, SPANS,
    script::{companion_name, lacks_until},
};
use crate::{
    introspect::{IntrospectError, query, text},
    settings::{identifier, literal},
};

/// A table of the connection's database of which history is kept, as far as the account is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTable {
    /// Its name.
    pub table: String,
    /// The view that has every state of its rows.
    pub companion: String,
    /// Whether the account's plain queries of it fail, since it may not read until when a row is so (error 1143).
    pub lacks_until: bool,
}

/// What an account may do with histories of the connection's database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryRights {
    /// The columns that it may read: of the tables, of the views that have their past, and of what says since when that is whole.
    pub readable: BTreeMap<String, BTreeSet<String>>,
    /// Whether it may read since when histories are whole.
    pub reads_spans: bool,
    /// Whether it may write what is written after each moment.
    pub writes_seal: bool,
    /// Whether the server tells it of transactions.
    pub sees_transactions: bool,
    /// Why no moment can be noted on this server, whatever is granted.
    pub obstacle: Option<String>,
}

/// The name of the table that says since when histories of a database are whole, and of that whose row is written after each moment.
pub const HISTORY_TABLES: [&str; 2] = [SPANS, SEAL];

/// Those of `tables`, by name, of which history is kept in the connection's database.
///
/// # Errors
/// If the server does not answer.
pub async fn list_kept_tables(
    conn: &mut Conn,
    tables: &BTreeSet<String>,
) -> Result<Vec<KeptTable>, IntrospectError> {
    let sql = "SELECT t.TABLE_NAME FROM information_schema.TABLES t \
               WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_TYPE = 'SYSTEM VERSIONED'";
    let versioned = query(conn, sql.to_owned()).await?;
    let mut kept = Vec::new();
    for row in versioned {
        let table = text(&row, 0)?;
        if !tables.contains(&table) {
            continue;
        }
        let is_told = format!(
            "SELECT 'x' FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME = {0} AND c.COLUMN_NAME = '{TO}' \
             UNION ALL SELECT 'x' FROM information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = DATABASE() AND s.TABLE_NAME = {0} AND s.COLUMN_NAME = '{TO}'",
            literal(&table)
        );
        let is_told = !query(conn, is_told).await?.is_empty();
        let probe = format!("SELECT 1 FROM {} LIMIT 0", identifier(&table));
        let lacks_until = match query(conn, probe).await {
            Ok(_) => false,
            Err(Error::Server(error)) if lacks_until(error.code, &error.message) => true,
            // That it may read nothing of the table is told elsewhere.
            Err(Error::Server(_)) => false,
            Err(error) => return Err(error.into()),
        };
        if is_told || lacks_until {
            kept.push(KeptTable {
                companion: companion_name(&table),
                table,
                lacks_until,
            });
        }
    }
    Ok(kept)
}

/// What the account may do with histories.
///
/// # Errors
/// If the server does not answer.
pub async fn read_history_rights(conn: &mut Conn) -> Result<HistoryRights, IntrospectError> {
    let sql = "SELECT c.TABLE_NAME, c.COLUMN_NAME, \
               CAST(FIND_IN_SET('select', LOWER(c.PRIVILEGES)) > 0 AS CHAR), \
               CAST(FIND_IN_SET('update', LOWER(c.PRIVILEGES)) > 0 AS CHAR) \
               FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA = DATABASE()";
    let mut found = HistoryRights::default();
    for row in query(conn, sql.to_owned()).await? {
        let (table, column) = (text(&row, 0)?, text(&row, 1)?);
        let (reads, writes) = (text(&row, 2)? == "1", text(&row, 3)? == "1");
        if table == SEAL && column == "n" {
            found.writes_seal = reads && writes;
        }
        if reads {
            found.readable.entry(table).or_default().insert(column);
        }
    }
    let needed = ["table_name", "mark", "table_id", FROM, TO];
    found.reads_spans = found
        .readable
        .get(SPANS)
        .is_some_and(|columns| needed.iter().all(|one| columns.contains(*one)));
    found.sees_transactions = match query(conn, "SHOW ENGINE INNODB STATUS".to_owned()).await {
        Ok(_) => true,
        Err(Error::Server(_)) => false,
        Err(error) => return Err(error.into()),
    };
    let obstacle = query(conn, PLACE_QUERY.to_owned()).await?;
    found.obstacle = obstacle.first().map(|row| text(row, 0)).transpose()?;
    Ok(found)
}
