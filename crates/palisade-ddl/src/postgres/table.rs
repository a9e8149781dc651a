//! `CREATE TABLE`: columns, keys, parents.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    foreign_key::{Actions, actions},
    state::{SchemaState, Table, Typed, column},
    unique_key::DeclaredKey,
};
use palisade::catalog::{ColumnDef, DefaultValue, ForeignKey, TypeKind};
use palisade::{dialect::Dialect, ident};

use crate::postgres::{types, view};

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

pub(super) fn create(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let Some(mut new) = state.create(&mut cursor)? else {
        return Ok(());
    };
    if cursor.eat("partition of") {
        let parent = cursor.name()?;
        inherit(&mut new, &parent, state, &cursor)?;
        new.is_partition = true;
        if cursor.sees("(") {
            for part in cursor.group()?.parts() {
                element(part, &mut new, state, Kind::OfParent)?;
            }
        }
        let known = Name {
            schema: Some(new.def.schema.clone()),
            name: new.def.name.clone(),
        };
        state.put(new);
        state.arm_partition(&known, &parent);
        return Ok(());
    }
    if cursor.eat("of") {
        let of = cursor.name()?;
        let def = state.type_named(&of).cloned();
        let Some(TypeKind::Composite(columns)) = def.map(|def| def.kind) else {
            return Err(cursor.error(format!("there is no row type `{}`", of.name)));
        };
        for (name, type_name) in columns {
            new.def
                .columns
                .push(column(name, type_by_name(&type_name, state)));
        }
        if cursor.sees("(") {
            for part in cursor.group()?.parts() {
                element(part, &mut new, state, Kind::OfParent)?;
            }
        }
        state.put(new);
        return Ok(());
    }
    // `CREATE TABLE t [(a, b)] … AS SELECT …`
    let before = cursor;
    if cursor.has("as") {
        return view::table_as(before, state, new);
    }
    let own = cursor.group()?;
    if cursor.eat("inherits") {
        for mut part in cursor.group()?.parts() {
            let parent = part.name()?;
            inherit(&mut new, &parent, state, &part)?;
        }
    }
    for part in own.parts() {
        element(part, &mut new, state, Kind::Own)?;
    }
    state.put(new);
    Ok(())
}

/// A type by the name a composite type has of it.
fn type_by_name(spelt: &str, state: &SchemaState) -> Typed {
    let class = state
        .types
        .iter()
        .find(|def| ident::qualify([def.schema.as_str(), def.name.as_str()]) == spelt)
        .map_or_else(
            || palisade::catalog::TypeClass::from_name(state.dialect, spelt),
            |def| state.class(def),
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
    state: &SchemaState,
    at: &Cursor<'_>,
) -> Result<(), DdlError> {
    let Some(parent) = state.relation(parent) else {
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
            if old.filled != new.filled {
                old.filled = DefaultValue::Unknown;
            }
            if new.generated.is_some() {
                (old.generated, old.stored) = (new.generated, new.stored);
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
    state: &SchemaState,
    kind: Kind,
) -> Result<(), DdlError> {
    let mut part = part;
    if part.eat("like") {
        return like(part, table, state);
    }
    if constraint(part, table, state)? {
        return Ok(());
    }
    let name = part.ident()?;
    let mut new = match kind {
        Kind::Own => {
            let declared = types::parse_type(&mut part, state)?;
            let mut new = column(name.clone(), declared.typed);
            if declared.is_serial {
                (new.nullable, new.filled) = (false, DefaultValue::Unknown);
            }
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
    let inherited = table.def.columns.iter().find(|c| c.name == name);
    let inherited = inherited.map(|column| column.filled.clone());
    let says_default = part.has("default");
    column_constraints(part, &mut new, table, &mut keys, state)?;
    let filled = match inherited {
        Some(filled) if !says_default => filled,
        Some(_) | None => new.filled.clone(),
    };
    merge(&mut table.def.columns, new);
    if let Some(column) = table.def.columns.iter_mut().find(|c| c.name == name) {
        column.filled = filled;
    }
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
    state: &SchemaState,
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
            new.collation = collation(&cursor.name()?, state);
        } else if cursor.eat("default") {
            table.fill(&new.name, is_filled(&cursor));
            let before = cursor;
            // An expression is at least one word, which may be NULL.
            cursor.bump();
            cursor.until(CONSTRAINTS);
            new.filled = default_value(before.text_before(&cursor), new);
        } else if cursor.eat("generated always as identity")
            || cursor.eat("generated by default as identity")
        {
            (new.nullable, new.filled) = (false, DefaultValue::Unknown);
            if cursor.sees("(") {
                cursor.group()?;
            }
        } else if cursor.eat("generated always as") {
            let text = cursor.group()?.written().to_owned();
            (new.generated, new.filled) = (Some(text), DefaultValue::Unknown);
            new.stored = cursor.eat("stored");
            cursor.eat("virtual");
        } else if cursor.eat("check") {
            cursor.group()?;
        } else if cursor.eat("primary key") {
            new.nullable = false;
            let key = DeclaredKey::new(vec![new.name.clone()]);
            put_primary(table, key, named.take());
            index_parameters(&mut cursor)?;
        } else if cursor.eat("unique") {
            let mut key = DeclaredKey::new(vec![new.name.clone()]);
            if cursor.eat("nulls not distinct") {
                key.compare_otherwise();
            }
            cursor.eat("nulls distinct");
            let including = including(&cursor);
            put_unique(table, key, named.take().ok_or(including), None);
            index_parameters(&mut cursor)?;
        } else if cursor.eat("references") {
            let own = vec![new.name.clone()];
            keys.push(reference(
                &mut cursor,
                own,
                named.take(),
                &table.def.name,
                state,
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
            return Err(cursor.expected_error("a constraint"));
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
pub(super) fn collation(name: &Name, state: &SchemaState) -> String {
    let known = |schema: &str| {
        state
            .collations
            .get(&(schema.to_owned(), name.name.clone()))
    };
    match &name.schema {
        Some(schema) if schema == "pg_catalog" => String::new(),
        Some(schema) if known(schema) == Some(&true) => String::new(),
        // One that the text does not make, too: it is not known.
        Some(schema) => ident::qualify([schema.as_str(), name.name.as_str()]),
        None => (state.path.iter())
            .find_map(|schema| known(schema).map(|same| (schema, same)))
            .filter(|(_, same)| !**same)
            .map(|(schema, _)| ident::qualify([schema.as_str(), name.name.as_str()]))
            .unwrap_or_default(),
    }
}

/// What stands after REFERENCES.
fn reference(
    cursor: &mut Cursor<'_>,
    own: Vec<String>,
    named: Option<String>,
    table: &str,
    state: &SchemaState,
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
    let schema = match (&name.schema, state.relation(&name)) {
        (Some(schema), _) => schema.clone(),
        (None, Some(found)) => found.def.schema.clone(),
        // The table itself, perhaps, which stands in the first schema.
        (None, None) => state.path.first().cloned().unwrap_or_default(),
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
    state: &SchemaState,
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
        put_primary(table, DeclaredKey::new(columns), named);
    } else if part.eat("foreign key") {
        let own = part.group()?.idents()?;
        part.expect("references")?;
        let key = reference(&mut part, own, named, &table.def.name, state)?;
        table.foreign_keys.push(key);
    } else if part.eat("not null") {
        let name = part.ident()?;
        if let Some(column) = table.def.columns.iter_mut().find(|c| c.name == name) {
            column.nullable = false;
        }
    } else if part.eat("unique") {
        if part.eat("using index") {
            // The index takes the constraint's name.
            let index = part.ident()?;
            let mut keys = table.unique.iter_mut();
            match keys.find(|key| key.name.as_ref() == Some(&index)) {
                Some(key) => key.name = named.or(Some(index)),
                None => table.has_unknown_keys = true,
            }
            return Ok(true);
        }
        let distinct = !part.eat("nulls not distinct");
        part.eat("nulls distinct");
        let mut key = DeclaredKey::parse(&part.group()?, Dialect::Postgres)?;
        if !distinct {
            key.compare_otherwise();
        }
        put_unique(table, key, named.ok_or(including(&part)), None);
    } else if part.eat("exclude") {
        part.until(&["("]);
        let mut key = DeclaredKey::parse(&part.group()?, Dialect::Postgres)?;
        key.compare_otherwise();
        part.until(&["where"]);
        let condition = (!part.is_empty()).then(|| part.written());
        put_unique(table, key, named.ok_or(Some("excl")), condition);
    } else {
        return Ok(part.sees("check"));
    }
    Ok(true)
}

/// What `column` of a new row has by itself where this is the default.
pub(super) fn default_value(default: &str, column: &ColumnDef) -> DefaultValue {
    DefaultValue::by(default, column.class, &column.type_name, Dialect::Postgres)
}

/// Whether a new row has something by itself where this is the default.
pub(super) fn is_filled(default: &Cursor<'_>) -> bool {
    let mut default = *default;
    default.eat("pg_catalog .");
    !default.sees("null") && !default.sees("nextval (")
}

fn put_primary(table: &mut Table, mut key: DeclaredKey, named: Option<String>) {
    key.name = named.or_else(|| key.postgres_name(&table.def.name, "pkey", &table.unique));
    table.def.primary_key.clone_from(&key.columns);
    table.primary = Some(key);
}

/// The last word of the name that the server gives a constraint; none where the columns that it includes are in the name too.
fn including(rest: &Cursor<'_>) -> Option<&'static str> {
    (!rest.has("include")).then_some("key")
}

/// Puts in a unique key of the rows for which `condition` holds. Its name is the written one, else what the server makes of its
/// columns and a last word, if that is known.
fn put_unique(
    table: &mut Table,
    mut key: DeclaredKey,
    named: Result<String, Option<&'static str>>,
    condition: Option<&str>,
) {
    key.name = match named {
        Ok(name) => Some(name),
        Err(kind) => kind.and_then(|kind| key.postgres_name(&table.def.name, kind, &table.unique)),
    };
    if let Some(condition) = condition {
        key.add_expression(condition);
    }
    table.unique.push(key);
}

/// `CREATE UNIQUE INDEX [CONCURRENTLY] [[IF NOT EXISTS] name] ON [ONLY] table [USING method] (…) … [WHERE …]`
pub(super) fn unique_index(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("concurrently");
    let optional = cursor.eat("if not exists");
    let named = match cursor.sees("on") {
        true => None,
        false => Some(cursor.ident()?),
    };
    cursor.expect("on")?;
    cursor.eat("only");
    let of = cursor.name()?;
    cursor.until(&["("]);
    let mut key = DeclaredKey::parse(&cursor.group()?, Dialect::Postgres)?;
    if cursor.has("nulls not distinct") {
        key.compare_otherwise();
    }
    let kind = (!cursor.has("include")).then_some("idx");
    cursor.until(&["where"]);
    let condition = (!cursor.is_empty()).then(|| cursor.written());
    // One that is temporary is left out.
    if let Some(table) = state.relation_mut(&of) {
        let is_there = (table.unique.iter()).any(|other| named.is_some() && other.name == named);
        if !(optional && is_there) {
            put_unique(table, key, named.ok_or(kind), condition);
        }
    }
    Ok(())
}

fn like(cursor: Cursor<'_>, table: &mut Table, state: &SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let Some(from) = state.relation(&name) else {
        return Err(cursor.error(format!("there is no relation `{}`", name.name)));
    };
    let includes = |what: &str| {
        (cursor.has(&format!("including {what}")) || cursor.has("including all"))
            && !cursor.has(&format!("excluding {what}"))
    };
    for column in &from.def.columns {
        let mut column = column.clone();
        if !includes("generated") && column.generated.take().is_some() {
            (column.stored, column.filled) = (false, DefaultValue::Null);
        }
        // What is counted up is so by an identity of its own perhaps.
        if !includes("defaults") && column.filled != DefaultValue::Unknown {
            column.filled = DefaultValue::Null;
        }
        merge(&mut table.def.columns, column);
    }
    if includes("indexes") {
        table.def.primary_key.clone_from(&from.def.primary_key);
        let keys = from.unique.iter().cloned();
        table.unique.extend(keys.map(|key| key.with_name(None)));
        table.has_unknown_keys |= from.has_unknown_keys;
    }
    if includes("defaults") {
        table.filled.extend(from.filled.iter().cloned());
    }
    Ok(())
}
