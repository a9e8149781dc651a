//! What of the rights that histories take an account lacks.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::{Conn, Error};
use palisade::past::{FROM, TO};

use super::{
    PLACE_QUERY, SEAL, SPANS, is_denied,
    script::{companion_name, lacks_until},
    triggers::{NUMBERS, PLACE, STATE, place_call, state_call},
};
use crate::{
    grants::Account,
    introspect::{IntrospectError, Product, optional, product, query, text},
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

/// How a server keeps histories, and what an account needs for it beside reading the past of its tables.
#[derive(Debug, PartialEq, Eq)]
pub struct HistoryKeeping {
    /// Whether the past stands in the table itself, with columns that say since and until when a row is so.
    pub is_in_table: bool,
    /// What the account needs.
    pub grants: &'static [HistoryGrant],
}

/// A right that an account needs for histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryGrant {
    /// What is granted.
    pub privileges: &'static str,
    /// On what.
    pub on: GrantedOn,
    /// What goes on without it, for the operator.
    pub without: &'static str,
}

/// What a right is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantedOn {
    /// A table of the connection's database.
    Table(&'static str),
    /// A function of it.
    Function(&'static str),
    /// The server.
    Server,
}

const READS_SPANS: HistoryGrant = HistoryGrant {
    privileges: "SELECT",
    on: GrantedOn::Table(SPANS),
    without: "without it it is not known since when histories are whole, and no past is read",
};

const NO_MOMENT: &str = "without it no moment is noted";

static VERSIONS: HistoryKeeping = HistoryKeeping {
    is_in_table: true,
    grants: &[
        READS_SPANS,
        HistoryGrant {
            privileges: "SELECT, UPDATE (n)",
            on: GrantedOn::Table(SEAL),
            without: NO_MOMENT,
        },
        HistoryGrant {
            privileges: "PROCESS",
            on: GrantedOn::Server,
            without: "without it no moment is noted, and no past is read; it shows the statements of all sessions",
        },
    ],
};

static TRIGGERS: HistoryKeeping = HistoryKeeping {
    is_in_table: false,
    grants: &[
        READS_SPANS,
        HistoryGrant {
            privileges: "SELECT, UPDATE (n, low)",
            on: GrantedOn::Table(SEAL),
            without: NO_MOMENT,
        },
        HistoryGrant {
            privileges: "SELECT, INSERT, DELETE",
            on: GrantedOn::Table(NUMBERS),
            without: NO_MOMENT,
        },
        HistoryGrant {
            privileges: "EXECUTE",
            on: GrantedOn::Function(STATE),
            without: "without it it is not known whether histories are whole, and no past is read",
        },
        HistoryGrant {
            privileges: "EXECUTE",
            on: GrantedOn::Function(PLACE),
            without: "without it no moment is noted, and no past is read",
        },
    ],
};

/// What an account may do with histories of the connection's database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryRights {
    /// The columns that it may read: of the tables, of what has their past, and of what says since when that is whole.
    pub readable: BTreeMap<String, BTreeSet<String>>,
    /// What it lacks beside.
    pub lacking: Vec<HistoryGrant>,
    /// Why no moment can be noted on this server, whatever is granted.
    pub obstacle: Option<String>,
}

/// How the server keeps histories.
///
/// # Errors
/// If the server does not answer.
pub async fn history_keeping(conn: &mut Conn) -> Result<&'static HistoryKeeping, IntrospectError> {
    Ok(match read_product(conn).await? {
        Product::MariaDb => &VERSIONS,
        Product::MySql => &TRIGGERS,
    })
}

async fn read_product(conn: &mut Conn) -> Result<Product, IntrospectError> {
    let rows = query(conn, "SELECT VERSION()".to_owned()).await?;
    let version = rows.first().map(|row| text(row, 0)).transpose()?;
    Ok(product(&version.unwrap_or_default()))
}

/// Those of `tables`, by name, of which history is kept in the connection's database.
///
/// # Errors
/// If the server does not answer.
pub async fn list_kept_tables(
    conn: &mut Conn,
    tables: &BTreeSet<String>,
) -> Result<Vec<KeptTable>, IntrospectError> {
    match read_product(conn).await? {
        Product::MariaDb => {}
        Product::MySql => return list_triggered_tables(conn, tables).await,
    }
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

/// Those that triggers keep a history of, as far as the account is told: by the table that has the past, or by the one of all histories.
async fn list_triggered_tables(
    conn: &mut Conn,
    tables: &BTreeSet<String>,
) -> Result<Vec<KeptTable>, IntrospectError> {
    let sql =
        "SELECT t.TABLE_NAME FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = DATABASE()";
    let shown = query(conn, sql.to_owned()).await?;
    let shown: Result<BTreeSet<String>, _> = shown.iter().map(|row| text(row, 0)).collect();
    let shown = shown?;
    let registered = format!("SELECT h.table_name FROM {} h", identifier(SPANS));
    let registered = match query(conn, registered).await {
        Ok(rows) => rows
            .iter()
            .map(|row| text(row, 0))
            .collect::<Result<_, _>>()?,
        // It may not read it, or there is none.
        Err(Error::Server(_)) => BTreeSet::new(),
        Err(error) => return Err(error.into()),
    };
    let kept = (tables.iter())
        .filter(|table| shown.contains(&companion_name(table)) || registered.contains(*table))
        .map(|table| KeptTable {
            table: table.clone(),
            companion: companion_name(table),
            lacks_until: false,
        });
    Ok(kept.collect())
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
    let mut readable: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut sealing = BTreeSet::new();
    for row in query(conn, sql.to_owned()).await? {
        let (table, column) = (text(&row, 0)?, text(&row, 1)?);
        let (reads, writes) = (text(&row, 2)? == "1", text(&row, 3)? == "1");
        if table == SEAL && reads && writes {
            sealing.insert(column.clone());
        }
        if reads {
            readable.entry(table).or_default().insert(column);
        }
    }
    let reads_spans = |needed: &[&str]| {
        let columns = readable.get(SPANS);
        columns.is_some_and(|columns| needed.iter().all(|one| columns.contains(*one)))
    };
    let (keeping, held, obstacle) = match read_product(conn).await? {
        Product::MariaDb => {
            let held = vec![
                reads_spans(&["table_name", "mark", "table_id", FROM, TO]),
                sealing.contains("n"),
                is_permitted(conn, "SHOW ENGINE INNODB STATUS".to_owned()).await?,
            ];
            let obstacle = ask_text(conn, PLACE_QUERY.to_owned()).await?;
            (&VERSIONS, held, obstacle)
        }
        Product::MySql => {
            let Some(own) = ask_text(conn, "SELECT DATABASE()".to_owned()).await? else {
                return Err(IntrospectError::NoDatabase);
            };
            let account = Account::read(conn).await?;
            let may = |privilege| account.may(&own, NUMBERS, privilege);
            let state = format!("SELECT {}", state_call(&own, ""));
            let place = format!("SELECT {}", place_call(&own));
            let calls_place = is_permitted(conn, place.clone()).await?;
            let held = vec![
                reads_spans(&["table_name", "state", FROM, "pruned"]),
                ["n", "low"].iter().all(|column| sealing.contains(*column)),
                ["SELECT", "INSERT", "DELETE"].into_iter().all(may),
                is_permitted(conn, state).await?,
                calls_place,
            ];
            let place = match calls_place {
                true => ask_text(conn, place).await?,
                false => Some(String::from(" ")),
            };
            let obstacle = match place.as_deref().and_then(|place| place.split_once(' ')) {
                Some((_, "")) => None,
                Some((_, obstacle)) => Some(obstacle.to_owned()),
                None => Some("what keeps history is not whole".to_owned()),
            };
            (&TRIGGERS, held, obstacle)
        }
    };
    let lacking = keeping.grants.iter().zip(held).filter(|(_, held)| !held);
    let lacking = lacking.map(|(grant, _)| *grant).collect();
    Ok(HistoryRights {
        readable,
        lacking,
        obstacle,
    })
}

/// Whether the account may ask a query.
async fn is_permitted(conn: &mut Conn, sql: String) -> Result<bool, IntrospectError> {
    match query(conn, sql).await {
        Ok(_) => Ok(true),
        Err(error) if is_denied(&error) => Ok(false),
        // To an account that may call nothing of a database, its functions do not exist (`ER_SP_DOES_NOT_EXIST`).
        Err(Error::Server(error)) if error.code == 1305 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The first cell of the first row.
async fn ask_text(conn: &mut Conn, sql: String) -> Result<Option<String>, IntrospectError> {
    let rows = query(conn, sql).await?;
    Ok(rows
        .first()
        .map(|row| optional(row, 0))
        .transpose()?
        .flatten())
}
