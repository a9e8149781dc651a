//! `CREATE TRIGGER` and `CREATE RULE`, and what changes them.

use std::collections::BTreeSet;

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    state::SchemaState,
    trigger::{Armed, Runs, What, changes, columns},
};

/// What stands after `CREATE [OR REPLACE] [CONSTRAINT] TRIGGER`.
pub(super) fn trigger(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.ident()?;
    let mut events = cursor.until(&["on"]);
    events.eat_any(&["before", "after", "instead of"]);
    cursor.expect("on")?;
    let table = cursor.name()?;
    let each_row = cursor.has("for each row") || cursor.has("for row");
    cursor.until(&["execute"]);
    cursor.expect("execute")?;
    if cursor.eat_any(&["function", "procedure"]).is_none() {
        return Err(cursor.expected_error("`FUNCTION`"));
    }
    let (schema, function) = state.trigger_function(cursor.name()?);
    let armed = Armed {
        name,
        runs: Runs::Function(schema, function),
        on: changes(events),
        columns: columns(events),
        each_row,
        enabled: true,
    };
    state.arm(&table, &armed);
    Ok(())
}

/// What stands after `CREATE [OR REPLACE] RULE`.
pub(super) fn rule(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.ident()?;
    cursor.expect("as on")?;
    if cursor.sees("select") {
        return Err(cursor.error("a rule that makes a view of a table is not understood"));
    }
    let on = changes(cursor.until(&["to"]));
    cursor.expect("to")?;
    let table = cursor.name()?;
    let armed = Armed {
        name,
        runs: Runs::Rule,
        on,
        columns: BTreeSet::new(),
        each_row: false,
        enabled: true,
    };
    state.arm(&table, &armed);
    Ok(())
}

/// A trigger or a rule, by the word that stands before its name.
fn what<'n>(word: &str, name: &'n str) -> What<'n> {
    match word {
        "rule" => What::Rule(name),
        _ => What::Trigger(name),
    }
}

const KINDS: &[&str] = &["trigger", "rule"];

/// `DROP TRIGGER` and `DROP RULE`; whether it is one of them.
pub(super) fn drop(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<bool, DdlError> {
    let mut cursor = cursor;
    let Some(word) = cursor.eat_any(KINDS) else {
        return Ok(false);
    };
    cursor.eat("if exists");
    let name = cursor.ident()?;
    cursor.expect("on")?;
    state.disarm(&cursor.name()?, what(word, &name));
    Ok(true)
}

/// `ALTER TRIGGER` and `ALTER RULE`; whether it is one of them.
pub(super) fn alter(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<bool, DdlError> {
    let mut cursor = cursor;
    let Some(word) = cursor.eat_any(KINDS) else {
        return Ok(false);
    };
    let name = cursor.ident()?;
    cursor.expect("on")?;
    let table = cursor.name()?;
    if cursor.eat("rename to") {
        state.rename(&table, what(word, &name), &cursor.ident()?);
    }
    Ok(true)
}

/// `ENABLE` and `DISABLE` of a trigger or rule within `ALTER TABLE`; whether it is one of them.
pub(super) fn switch(
    part: Cursor<'_>,
    table: &Name,
    only: bool,
    state: &mut SchemaState,
) -> Result<bool, DdlError> {
    let mut part = part;
    let enabled = match part.eat_any(&["enable", "disable"]) {
        Some("enable") => true,
        Some(_) => false,
        None => return Ok(false),
    };
    // Those for a replica count too: the session decides whether it is one.
    part.eat_any(&["replica", "always"]);
    let Some(word) = part.eat_any(KINDS) else {
        return Ok(false);
    };
    if word == "trigger" && part.eat_any(&["all", "user"]).is_some() {
        state.switch(table, What::Triggers, enabled, only);
    } else {
        let name = part.ident()?;
        state.switch(table, what(word, &name), enabled, only);
    }
    Ok(true)
}
