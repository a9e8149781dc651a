//! `ALTER`: what changes a catalog is followed, what cannot is passed over, the rest is an error.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    state::{SchemaState, Table},
    unique_key::DeclaredKey,
};
use palisade::catalog::{DefaultValue, RelationKind, TypeKind};

use crate::postgres::{
    table::{self, Kind},
    trigger, types,
};

/// Of a table or view: rights, storage, row security.
const HARMLESS: &[&str] = &[
    "owner to",
    "enable",
    "disable",
    "force row level security",
    "no force row level security",
    "replica identity",
    "cluster on",
    "set without",
    "set logged",
    "set unlogged",
    "set tablespace",
    "set access method",
    "set (",
    "reset (",
    "validate constraint",
    "options",
    "alter constraint",
    "depends on",
    "no depends on",
];

pub(super) fn statement(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    if cursor
        .eat_any(&["table", "foreign table", "view", "materialized view"])
        .is_some()
    {
        return relation(cursor, state);
    }
    if trigger::alter(cursor, state)? {
        return Ok(());
    }
    if cursor.eat("database") {
        cursor.ident()?;
        if cursor.eat("set search_path") {
            cursor.eat_any(&["to", "="]);
            state.session_path = Some(super::path(cursor)?);
        }
        return Ok(());
    }
    if cursor.eat("domain") {
        let name = cursor.name()?;
        if cursor.eat("add") {
            let text = super::object::check(&mut cursor)?;
            return match domain_check(state, &name) {
                Some(check) => {
                    *check = [check.take(), text]
                        .into_iter()
                        .flatten()
                        .reduce(|a, b| a + " " + &b);
                    Ok(())
                }
                None => Err(cursor.error(format!("there is no domain `{}`", name.name))),
            };
        }
        let harmless = [
            "owner to",
            "set default",
            "drop default",
            "set not null",
            "drop not null",
            "validate constraint",
            "rename constraint",
        ];
        return refuse_unless(&cursor, &harmless);
    }
    if cursor
        .eat_any(&[
            "function",
            "procedure",
            "aggregate",
            "routine",
            "operator class",
            "operator family",
            "operator",
            "type",
            "schema",
            "extension",
            "collation",
        ])
        .is_some()
    {
        let moves = [
            "rename",
            "set schema",
            "add attribute",
            "drop attribute",
            "alter attribute",
        ];
        return match moves.iter().find(|word| cursor.has(word)) {
            Some(word) => {
                Err(cursor.error(format!("`{}` is not understood here", word.to_uppercase())))
            }
            None => Ok(()),
        };
    }
    if cursor.eat("index") {
        cursor.eat("if exists");
        let name = cursor.name()?;
        if cursor.eat("rename to") {
            rename_key(&name, &cursor.ident()?, state);
        }
        return Ok(());
    }
    let harmless = [
        "sequence",
        "default privileges",
        "role",
        "user",
        "group",
        "system",
        "server",
        "policy",
        "publication",
        "subscription",
        "language",
        "event trigger",
        "statistics",
        "text search",
        "large object",
        "tablespace",
        "foreign data wrapper",
        "conversion",
        "procedural language",
    ];
    refuse_unless(&cursor, &harmless)
}

fn refuse_unless(cursor: &Cursor<'_>, harmless: &[&str]) -> Result<(), DdlError> {
    if harmless.iter().any(|words| cursor.sees(words)) {
        Ok(())
    } else {
        Err(cursor.expected_error("a change that is understood"))
    }
}

fn domain_check<'d>(state: &'d mut SchemaState, name: &Name) -> Option<&'d mut Option<String>> {
    let (schema, name) = state
        .type_named(name)
        .map(|def| (def.schema.clone(), def.name.clone()))?;
    state
        .types
        .iter_mut()
        .find(|def| def.schema == schema && def.name == name)
        .and_then(|def| match &mut def.kind {
            TypeKind::Domain { base: _, check } => Some(check),
            TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => None,
        })
}

fn relation(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let optional = cursor.eat("if exists");
    let only = cursor.eat("only");
    let name = cursor.name()?;
    cursor.eat("*");
    let Some(table) = state.relation(&name) else {
        // Dumps change sequences and indexes by these words too.
        return if optional || cursor.parts().iter().all(|part| harmless(part)) {
            Ok(())
        } else {
            Err(cursor.error(format!("there is no relation `{}`", name.name)))
        };
    };
    let name = Name {
        schema: Some(table.def.schema.clone()),
        name: table.def.name.clone(),
    };
    for part in cursor.parts() {
        if !trigger::switch(part, &name, only, state)? && !harmless(&part) {
            change(part, &name, only, state)?;
        }
    }
    Ok(())
}

fn harmless(part: &Cursor<'_>) -> bool {
    HARMLESS.iter().any(|words| part.sees(words))
}

/// One change of a relation, and of those that inherit from it unless it is only for itself.
fn change(
    part: Cursor<'_>,
    name: &Name,
    only: bool,
    state: &mut SchemaState,
) -> Result<(), DdlError> {
    let mut part = part;
    if part.eat("attach partition") {
        let child_name = part.name()?;
        let place = name
            .schema
            .clone()
            .map(|schema| (schema, name.name.clone()));
        let Some(child) = state.relation_mut(&child_name) else {
            return Err(part.error(format!("there is no relation `{}`", child_name.name)));
        };
        child.def.parents.extend(place);
        child.is_partition = true;
        state.arm_partition(&child_name, name);
        return Ok(());
    }
    if part.eat("detach partition") {
        let child = part.name()?;
        return orphan(state, &child, name, &part);
    }
    if part.eat("inherit") {
        let parent = part.name()?;
        let place = state
            .relation(&parent)
            .map(|t| (t.def.schema.clone(), t.def.name.clone()));
        return match (place, state.relation_mut(name)) {
            (Some(place), Some(table)) => {
                table.def.parents.push(place);
                Ok(())
            }
            (None, _) | (_, None) => {
                Err(part.error(format!("there is no relation `{}`", parent.name)))
            }
        };
    }
    if part.eat("no inherit") {
        let parent = part.name()?;
        let parent = state.relation(&parent).map(|t| Name {
            schema: Some(t.def.schema.clone()),
            name: t.def.name.clone(),
        });
        return match parent {
            Some(parent) => orphan(state, name, &parent, &part),
            None => Err(part.expected_error("a parent")),
        };
    }
    if part.eat("rename to") || part.sees("set schema") {
        return rename_relation(part, name, state);
    }
    let position = state.position(name);
    let Some(mut table) = state.relation(name).cloned() else {
        return Err(part.expected_error("a relation"));
    };
    apply(part, &mut table, state)?;
    if let Some(old) = position.and_then(|position| state.relations.get_mut(position)) {
        *old = table;
    }
    let of_its_own = [
        "add constraint",
        "add unique",
        "add exclude",
        "rename constraint",
    ];
    if !only && !of_its_own.iter().any(|words| part.sees(words)) {
        for child in children(state, name) {
            change(part, &child, only, state)?;
        }
    }
    Ok(())
}

fn children(state: &SchemaState, name: &Name) -> Vec<Name> {
    state
        .relations
        .iter()
        .filter(|t| {
            (t.def.parents.iter())
                .any(|(schema, table)| name.schema.as_ref() == Some(schema) && name.name == *table)
        })
        .map(|t| Name {
            schema: Some(t.def.schema.clone()),
            name: t.def.name.clone(),
        })
        .collect()
}

fn orphan(
    state: &mut SchemaState,
    child: &Name,
    parent: &Name,
    at: &Cursor<'_>,
) -> Result<(), DdlError> {
    match state.relation_mut(child) {
        Some(table) => {
            table.is_partition = false;
            table.def.parents.retain(|(schema, name)| {
                parent.schema.as_ref() != Some(schema) || parent.name != *name
            });
            Ok(())
        }
        None => Err(at.error(format!("there is no relation `{}`", child.name))),
    }
}

/// A relation under another name, where nothing hangs on the one it has.
fn rename_relation(part: Cursor<'_>, name: &Name, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut part = part;
    let referenced = state
        .relations
        .iter()
        .any(|t| t.foreign_keys.iter().any(|k| k.1.table == name.name));
    let has_views = state.relations.iter().any(|t| t.def.definition.is_some());
    if referenced || has_views || !children(state, name).is_empty() {
        return Err(part.error("a new name for what others name is not understood"));
    }
    let schema = part.eat("set schema");
    let new = part.ident()?;
    if let Some(table) = state.relation_mut(name) {
        if schema {
            table.def.schema = new;
        } else {
            table.def.name = new;
        }
    }
    Ok(())
}

/// A change of columns or keys.
fn apply(part: Cursor<'_>, table: &mut Table, state: &SchemaState) -> Result<(), DdlError> {
    let mut part = part;
    if part.eat("add") {
        if table::constraint(part, table, state)? {
            return Ok(());
        }
        part.eat("column");
        if part.eat("if not exists") {
            let mut name = part;
            let name = name.ident()?;
            if table.def.columns.iter().any(|c| c.name == name) {
                return Ok(());
            }
        }
        return table::element(part, table, state, Kind::Own);
    }
    if part.eat("drop constraint") {
        part.eat("if exists");
        let constraint = part.ident()?;
        table.foreign_keys.retain(|key| key.0 != constraint);
        let is_primary = match table.primary.as_ref().and_then(|key| key.name.as_ref()) {
            Some(name) => constraint == *name,
            None => constraint == format!("{}_pkey", table.def.name),
        };
        if is_primary {
            table.def.primary_key.clear();
            table.primary = None;
        } else {
            table.drop_unique(&constraint);
        }
        return Ok(());
    }
    if part.eat("drop") {
        part.eat("column");
        part.eat("if exists");
        let column = part.ident()?;
        table.def.columns.retain(|c| c.name != column);
        table
            .foreign_keys
            .retain(|key| !key.1.columns.contains(&column));
        if table.def.primary_key.contains(&column) {
            table.def.primary_key.clear();
            table.primary = None;
        }
        let dialect = state.dialect;
        table.unique.retain(|key| !key.has(&column, dialect));
        return Ok(());
    }
    if part.eat("rename constraint") {
        let old = part.ident()?;
        part.expect("to")?;
        let new = part.ident()?;
        let is_old = |key: &&mut DeclaredKey| key.name.as_ref() == Some(&old);
        match table
            .unique
            .iter_mut()
            .chain(&mut table.primary)
            .find(is_old)
        {
            Some(key) => key.name = Some(new),
            None => table.has_unknown_keys |= table.unique.iter().any(|key| key.name.is_none()),
        }
        return Ok(());
    }
    if part.eat("rename") {
        part.eat("column");
        let old = part.ident()?;
        part.expect("to")?;
        let new = part.ident()?;
        if table.def.kind != RelationKind::Table
            || table.def.columns.iter().any(|c| c.generated.is_some())
        {
            return Err(part.error("a new name for a column that others name is not understood"));
        }
        let names = (table.def.columns.iter_mut().map(|c| &mut c.name))
            .chain(&mut table.def.primary_key)
            .chain(
                table
                    .foreign_keys
                    .iter_mut()
                    .flat_map(|key| &mut key.1.columns),
            );
        for name in names.filter(|name| **name == old) {
            name.clone_from(&new);
        }
        // The engine follows the name; here every update counts.
        for armed in &mut table.triggers {
            armed.columns.clear();
        }
        for name in table.filled.iter_mut().filter(|name| **name == old) {
            name.clone_from(&new);
        }
        for key in table.unique.iter_mut().chain(&mut table.primary) {
            key.rename_column(&old, &new, state.dialect);
        }
        return Ok(());
    }
    part.expect("alter")?;
    part.eat("column");
    let name = part.ident()?;
    let Some(column) = table.def.columns.iter_mut().find(|c| c.name == name) else {
        return Err(part.error(format!("there is no column `{name}`")));
    };
    if part.eat("set default") {
        column.filled = table::default_value(part.written(), column);
        let is_filled = table::is_filled(&part);
        table.fill(&name, is_filled);
    } else if part.eat("drop default") {
        column.filled = DefaultValue::Null;
        table.fill(&name, false);
    } else if part.eat("set not null") {
        column.nullable = false;
    } else if part.eat("add generated") {
        (column.nullable, column.filled) = (false, DefaultValue::Unknown);
    } else if part.eat("drop not null") {
        column.nullable = true;
    } else if part.eat("drop expression") {
        (column.generated, column.stored, column.filled) = (None, false, DefaultValue::Null);
    } else if part.eat("set expression as") {
        column.generated = Some(part.group()?.written().to_owned());
    } else if part.eat("set data type") || part.eat("type") {
        let typed = types::parse_type(&mut part, state)?.typed;
        (column.type_name, column.class) = (typed.name, typed.class);
        // A default is converted.
        if column.filled != DefaultValue::Null {
            column.filled = DefaultValue::Unknown;
        }
        column.collation = if part.eat("collate") {
            table::collation(&part.name()?, state)
        } else {
            String::new()
        };
    } else {
        let harmless = [
            "set statistics",
            "set storage",
            "set compression",
            "set (",
            "reset (",
            "drop identity",
            "set generated",
            "restart",
            "set sequence",
            "options",
            "set",
        ];
        return refuse_unless(&part, &harmless);
    }
    Ok(())
}

/// Takes out the unique index called so, in whatever table of the schema.
pub(super) fn drop_index(name: &Name, state: &mut SchemaState) {
    let path = state.path.clone();
    for table in in_schema(name, &path, state) {
        let unique = table.unique.iter();
        if unique
            .clone()
            .any(|key| key.name.as_ref() == Some(&name.name) || key.name.is_none())
        {
            table.drop_unique(&name.name);
        }
    }
}

fn rename_key(old: &Name, new: &str, state: &mut SchemaState) {
    let path = state.path.clone();
    let mut is_found = false;
    for table in in_schema(old, &path, state) {
        let keys = table.unique.iter_mut().chain(&mut table.primary);
        let mut names = keys.filter_map(|key| key.name.as_mut());
        if let Some(name) = names.find(|name| **name == old.name) {
            new.clone_into(name);
            is_found = true;
        }
    }
    for table in in_schema(old, &path, state) {
        table.has_unknown_keys |= !is_found && table.unique.iter().any(|key| key.name.is_none());
    }
}

/// The tables beside which an index called so may stand.
fn in_schema<'d>(
    name: &Name,
    path: &[String],
    state: &'d mut SchemaState,
) -> impl Iterator<Item = &'d mut Table> {
    let schemas: Vec<String> = match &name.schema {
        Some(schema) => vec![schema.clone()],
        None => path.to_vec(),
    };
    (state.relations.iter_mut()).filter(move |table| schemas.contains(&table.def.schema))
}
