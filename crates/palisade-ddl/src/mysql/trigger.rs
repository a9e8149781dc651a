//! `CREATE TRIGGER`.

use std::collections::BTreeSet;

use crate::{
    DdlError,
    cursor::Cursor,
    state::SchemaState,
    trigger::{Armed, Runs, changes},
};

/// What stands after `CREATE … TRIGGER`.
pub(super) fn create(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.name()?.name;
    let mut events = cursor.until(&["on"]);
    events.eat_any(&["before", "after"]);
    cursor.expect("on")?;
    let table = cursor.name()?;
    let armed = Armed {
        name,
        runs: Runs::Body,
        on: changes(events),
        columns: BTreeSet::new(),
        each_row: true,
        enabled: true,
    };
    state.arm(&table, &armed);
    Ok(())
}
