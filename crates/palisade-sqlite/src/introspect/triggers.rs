//! Triggers, and what sets them off.

use std::collections::{BTreeSet, HashMap};

use palisade::{
    catalog::{Change, Trigger},
    dialect::Dialect,
};
use rusqlite::Connection;

use crate::{history, schema_text};

/// Triggers by the folded name of their table or view.
pub(super) fn read(conn: &Connection) -> rusqlite::Result<HashMap<String, Vec<Trigger>>> {
    let mut statement =
        conn.prepare("SELECT tbl_name, name, sql FROM main.sqlite_schema WHERE type = 'trigger'")?;
    let mut rows = statement.query([])?;
    let mut triggers: HashMap<String, Vec<Trigger>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let table: String = row.get(0)?;
        let name: String = row.get(1)?;
        if history::is_of_history(&name) {
            continue;
        }
        let text: Option<String> = row.get(2)?;
        let (on, columns) = match text.as_deref().and_then(schema_text::trigger_event) {
            Some((change, columns)) => (BTreeSet::from([change]), columns),
            None => (Change::ALL.into(), BTreeSet::new()),
        };
        triggers
            .entry(Dialect::Sqlite.fold(&table))
            .or_default()
            .push(Trigger {
                schema: "main".to_owned(),
                function: name,
                on,
                columns,
            });
    }
    Ok(triggers)
}
