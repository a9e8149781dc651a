//! `CREATE TABLE`: columns, keys, parents.

use crate::catalog::{
    ColumnDef, ForeignKey, TypeKind,
    ddl::{
        DdlError,
        cursor::{Cursor, Name},
        draft::{Draft, Table, Typed, column},
        reference::{Actions, actions},
    },
};
use crate::ident;

use super::{types, view};

/// Words with which a constraint of a column, or its end, begins.
const CONSTRAINTS: &[&str] = &[
    "constraint",
    "not null",
    "null",
    "check",
    "default",
    "generated",
    "unique",
    "primary key",
    "references",
    "deferrable",
    "not deferrable",
    "initially",
];

pub(super) fn create(cursor: Cursor<'_>, draft: &mut Draft) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let Some(mut new) = draft.create(&mut cursor)? else {
        return Ok(());
    };
    if cursor.eat("partition of") {
        let parent = cursor.name()?;
        inherit(&mut new, &parent, draft, &cursor)?;
        new.is_partition = true;
        if cursor.sees("(") {
            for part in cursor.group()?.parts() {
                element(part, &mut new, draft, Kind::OfParent)?;
            }
        }
        let known = Name {
            schema: Some(new.def.schema.clone()),
            name: new.def.name.clone(),
        };
        draft.put(new);
        draft.arm_partition(&known, &parent);
        return Ok(());
    }
    if cursor.eat("of") {
        let of = cursor.name()?;
        let def = draft.type_named(&of).cloned();
        let Some(TypeKind::Composite(columns)) = def.map(|def| def.kind) else {
            return Err(cursor.error(format!("there is no row type `{}`", of.name)));
        };
        for (name, type_name) in columns {
            new.def.columns.push(column(name, typed(&type_name, draft)));
        }
        if cursor.sees("(") {
            for part in cursor.group()?.parts() {
                element(part, &mut new, draft, Kind::OfParent)?;
            }
        }
        draft.put(new);
        return Ok(());
    }
    // `CREATE TABLE t [(a, b)] … AS SELECT …`
    let before = cursor;
    if cursor.has("as") {
        return view::table_as(before, draft, new);
    }
    let own = cursor.group()?;
    if cursor.eat("inherits") {
        for mut part in cursor.group()?.parts() {
            let parent = part.name()?;
            inherit(&mut new, &parent, draft, &part)?;
        }
    }
    for part in own.parts() {
        element(part, &mut new, draft, Kind::Own)?;
    }
    draft.put(new);
    Ok(())
}

/// A type by the name a composite type has of it.
fn typed(spelt: &str, draft: &Draft) -> Typed {
    let class = draft
        .types
        .iter()
        .find(|def| ident::qualified([def.schema.as_str(), def.name.as_str()]) == spelt)
        .map_or_else(
            || crate::catalog::TypeClass::of(draft.dialect, spelt),
            |def| draft.class(def),
        );
    Typed {
        name: spelt.to_owned(),
        class,
    }
}

/// The columns of a parent, before a table's own.
pub(super) fn inherit(
    new: &mut Table,
    parent: &Name,
    draft: &Draft,
    at: &Cursor<'_>,
) -> Result<(), DdlError> {
    let Some(parent) = draft.relation(parent) else {
        return Err(at.error(format!("there is no parent `{}`", parent.name)));
    };
    for column in &parent.def.columns {
        merge(&mut new.def.columns, column.clone());
    }
    new.def
        .parents
        .push((parent.def.schema.clone(), parent.def.name.clone()));
    Ok(())
}

/// Columns of one name are one column.
fn merge(columns: &mut Vec<ColumnDef>, new: ColumnDef) {
    match columns.iter_mut().find(|c| c.name == new.name) {
        Some(old) => {
            old.nullable &= new.nullable;
            if new.generated.is_some() {
                old.generated = new.generated;
            }
        }
        None => columns.push(new),
    }
}

/// Whether columns are declared with their types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    OfParent,
}

/// A column or a constraint of the table.
pub(super) fn element(
    part: Cursor<'_>,
    table: &mut Table,
    draft: &Draft,
    kind: Kind,
) -> Result<(), DdlError> {
    let mut part = part;
    if part.eat("like") {
        return like(part, table, draft);
    }
    if constraint(part, table, draft)? {
        return Ok(());
    }
    let name = part.ident()?;
    let mut new = match kind {
        Kind::Own => {
            let declared = types::declared(&mut part, draft)?;
            let mut new = column(name.clone(), declared.typed);
            new.nullable = !declared.is_serial;
            new
        }
        Kind::OfParent => {
            part.eat("with options");
            let Some(old) = table.def.columns.iter().find(|c| c.name == name) else {
                return Err(part.error(format!("the parent has no column `{name}`")));
            };
            old.clone()
        }
    };
    let mut keys = Vec::new();
    column_constraints(part, &mut new, table, &mut keys, draft)?;
    merge(&mut table.def.columns, new);
    for key in keys {
        table.foreign_keys.push(key);
    }
    Ok(())
}

/// A foreign key and the name of its constraint.
type Key = (String, ForeignKey);

fn column_constraints(
    cursor: Cursor<'_>,
    new: &mut ColumnDef,
    table: &mut Table,
    keys: &mut Vec<Key>,
    draft: &Draft,
) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let mut named = None;
    while !cursor.is_empty() {
        if cursor.eat("constraint") {
            named = Some(cursor.ident()?);
        } else if cursor.eat("not null") {
            new.nullable = false;
            cursor.eat("no inherit");
        } else if cursor.eat("null") || cursor.eat("no inherit") {
        } else if cursor.eat("collate") {
            new.collation = collation(&cursor.name()?, draft);
        } else if cursor.eat("default") {
            // An expression is at least one word, which may be NULL.
            cursor.bump();
            cursor.until(CONSTRAINTS);
        } else if cursor.eat("generated always as identity")
            || cursor.eat("generated by default as identity")
        {
            new.nullable = false;
            if cursor.sees("(") {
                cursor.group()?;
            }
        } else if cursor.eat("generated always as") {
            let text = cursor.group()?.written().to_owned();
            new.generated = Some(text);
            cursor.eat_any(&["stored", "virtual"]);
        } else if cursor.eat("check") {
            cursor.group()?;
        } else if cursor.eat("primary key") {
            new.nullable = false;
            table.def.primary_key = vec![new.name.clone()];
            index_parameters(&mut cursor)?;
        } else if cursor.eat("unique") {
            cursor.eat_any(&["nulls not distinct", "nulls distinct"]);
            index_parameters(&mut cursor)?;
        } else if cursor.eat("references") {
            let own = vec![new.name.clone()];
            keys.push(reference(
                &mut cursor,
                own,
                named.take(),
                &table.def.name,
                draft,
            )?);
        } else if cursor
            .eat_any(&[
                "not deferrable",
                "deferrable",
                "initially deferred",
                "initially immediate",
            ])
            .is_some()
        {
        } else if cursor.eat_any(&["storage", "compression"]).is_some() {
            cursor.bump();
        } else if cursor.eat("options") {
            cursor.group()?;
        } else {
            return Err(cursor.expected("a constraint"));
        }
    }
    Ok(())
}

fn index_parameters(cursor: &mut Cursor<'_>) -> Result<(), DdlError> {
    if cursor.eat("include") || cursor.eat("with") {
        cursor.group()?;
        return index_parameters(cursor);
    }
    if cursor.eat("using index tablespace") {
        cursor.ident()?;
    }
    Ok(())
}

/// Empty unless equality under the collation may be something else than equality of bytes.
pub(super) fn collation(name: &Name, draft: &Draft) -> String {
    let known = |schema: &str| {
        draft
            .collations
            .get(&(schema.to_owned(), name.name.clone()))
    };
    match &name.schema {
        Some(schema) if schema == "pg_catalog" => String::new(),
        Some(schema) if known(schema) == Some(&true) => String::new(),
        // One that the text does not make, too: nobody knows it.
        Some(schema) => ident::qualified([schema.as_str(), name.name.as_str()]),
        None => (draft.path.iter())
            .find_map(|schema| known(schema).map(|same| (schema, same)))
            .filter(|(_, same)| !**same)
            .map(|(schema, _)| ident::qualified([schema.as_str(), name.name.as_str()]))
            .unwrap_or_default(),
    }
}

/// What stands after REFERENCES.
fn reference(
    cursor: &mut Cursor<'_>,
    own: Vec<String>,
    named: Option<String>,
    table: &str,
    draft: &Draft,
) -> Result<Key, DdlError> {
    let name = cursor.name()?;
    let references = if cursor.sees("(") {
        cursor.group()?.idents()?
    } else {
        Vec::new()
    };
    let Actions {
        on_delete,
        on_update,
    } = actions(cursor)?;
    // As the server names what has no name.
    let constraint = named.unwrap_or_else(|| format!("{table}_{}_fkey", own.join("_")));
    let schema = match (&name.schema, draft.relation(&name)) {
        (Some(schema), _) => schema.clone(),
        (None, Some(found)) => found.def.schema.clone(),
        // The table itself, perhaps, which stands in the first schema.
        (None, None) => draft.path.first().cloned().unwrap_or_default(),
    };
    let key = ForeignKey {
        columns: own,
        schema,
        table: name.name,
        references,
        on_delete,
        on_update,
    };
    Ok((constraint, key))
}

/// A constraint of the table as a whole; whether it is one.
pub(super) fn constraint(
    part: Cursor<'_>,
    table: &mut Table,
    draft: &Draft,
) -> Result<bool, DdlError> {
    let mut part = part;
    let named = if part.eat("constraint") {
        Some(part.ident()?)
    } else {
        None
    };
    if part.eat("primary key") {
        if part.eat("using index") {
            return Err(part.error("a key over an index that stands elsewhere is not understood"));
        }
        let columns = part.group()?.idents()?;
        for name in &columns {
            let Some(column) = table.def.columns.iter_mut().find(|c| c.name == *name) else {
                return Err(part.error(format!("there is no column `{name}` for the key")));
            };
            column.nullable = false;
        }
        table.def.primary_key = columns;
    } else if part.eat("foreign key") {
        let own = part.group()?.idents()?;
        part.expect("references")?;
        let key = reference(&mut part, own, named, &table.def.name, draft)?;
        table.foreign_keys.push(key);
    } else if part.eat("not null") {
        let name = part.ident()?;
        if let Some(column) = table.def.columns.iter_mut().find(|c| c.name == name) {
            column.nullable = false;
        }
    } else {
        return Ok(["check", "unique", "exclude"]
            .iter()
            .any(|word| part.sees(word)));
    }
    Ok(true)
}

fn like(cursor: Cursor<'_>, table: &mut Table, draft: &Draft) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let Some(from) = draft.relation(&name) else {
        return Err(cursor.error(format!("there is no relation `{}`", name.name)));
    };
    let includes = |what: &str| {
        (cursor.has(&format!("including {what}")) || cursor.has("including all"))
            && !cursor.has(&format!("excluding {what}"))
    };
    for column in &from.def.columns {
        let mut column = column.clone();
        if !includes("generated") {
            column.generated = None;
        }
        merge(&mut table.def.columns, column);
    }
    if includes("indexes") {
        table.def.primary_key.clone_from(&from.def.primary_key);
    }
    Ok(())
}
