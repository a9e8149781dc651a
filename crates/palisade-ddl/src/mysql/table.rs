//! `CREATE TABLE` and `ALTER TABLE`.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    state::{SchemaState, Table},
    unique_key::DeclaredKey,
    view, view_columns,
};
use palisade::catalog::{ColumnDef, DefaultValue, ForeignKey, RelationKind, TypeClass};
use palisade::dialect::Dialect;

use crate::mysql::column::{self, Declared, Reference};

pub(super) fn create(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let Some(mut new) = state.create(&mut cursor)? else {
        return Ok(());
    };
    if let Some(from) = like(cursor)? {
        let Some(from) = state.relation(&from) else {
            return Err(cursor.error(format!("there is no table `{}`", from.name)));
        };
        new.def.columns.clone_from(&from.def.columns);
        new.def.primary_key.clone_from(&from.def.primary_key);
        new.def.kind = from.def.kind;
        new.unique.clone_from(&from.unique);
        new.indexes.clone_from(&from.indexes);
        new.primary.clone_from(&from.primary);
        new.filled.clone_from(&from.filled);
        new.has_unknown_keys = from.has_unknown_keys;
        state.put(new);
        return Ok(());
    }
    let mut hidden = Vec::new();
    let mut charset = Vec::new();
    if cursor.sees("(") && !cursor.sees("( select") {
        for mut part in cursor.group()?.parts() {
            if key(part, &mut new)? {
                continue;
            }
            let declared = column::parse_column(&mut part)?;
            if !part.is_empty() {
                return Err(part.expected_error("the end of the column"));
            }
            if declared.is_hidden {
                hidden.push(declared.column.name.clone());
            }
            if declared.has_charset {
                charset.push(declared.column.name.clone());
            }
            add(declared, &mut new);
        }
    }
    options(cursor, &mut new, &charset);
    // What comes out of a query stands after what is declared.
    let mut query = cursor;
    query.until(&["as select", "as with", "as (", "select", "( select"]);
    if !query.is_empty() && !cursor.has("partition by") {
        query.eat("as");
        let Some(columns) = view::rename_columns(view_columns::columns(query, state), &[]) else {
            return Err(query.error("it is not certain which columns the table has"));
        };
        for column in columns {
            if !new
                .def
                .columns
                .iter()
                .any(|c| c.name.eq_ignore_ascii_case(&column.name))
            {
                new.def.columns.push(column);
            }
        }
    }
    new.def.columns.retain(|c| !hidden.contains(&c.name));
    state.put(new);
    Ok(())
}

fn column_mut<'t>(table: &'t mut Table, name: &str) -> Option<&'t mut ColumnDef> {
    let mut columns = table.def.columns.iter_mut();
    columns.find(|column| column.name.eq_ignore_ascii_case(name))
}

fn like(cursor: Cursor<'_>) -> Result<Option<Name>, DdlError> {
    let mut cursor = cursor;
    if cursor.sees("( like") {
        cursor = cursor.group()?;
    }
    if cursor.eat("like") {
        cursor.name().map(Some)
    } else {
        Ok(None)
    }
}

fn add(declared: Declared, table: &mut Table) {
    let name = declared.column.name.clone();
    if declared.is_key {
        table.def.primary_key = vec![name.clone()];
        table.primary = Some(primary(DeclaredKey::new(vec![name.clone()])));
    }
    if declared.is_unique {
        put_unique(table, DeclaredKey::new(vec![name.clone()]));
    }
    table.fill(&name, declared.is_filled);
    table.def.retimed.retain(|other| *other != name);
    if declared.is_retimed {
        table.def.retimed.push(name.clone());
    }
    if let Some(reference) = declared.references {
        foreign_key(table, None, vec![name], reference);
    }
    table.def.columns.push(declared.column);
}

/// As InnoDB names what has no name.
fn foreign_key(
    table: &mut Table,
    named: Option<String>,
    columns: Vec<String>,
    reference: Reference,
) {
    let number = table.foreign_keys.len() + 1;
    let named = named.unwrap_or_else(|| format!("{}_ibfk_{number}", table.def.name));
    let key = ForeignKey {
        columns,
        // Beside this table, wherever the session is.
        schema: (reference.table.schema).unwrap_or_else(|| table.def.schema.clone()),
        table: reference.table.name,
        references: reference.columns,
        on_delete: reference.actions.on_delete,
        on_update: reference.actions.on_update,
    };
    table.foreign_keys.push((named, key));
}

fn primary(key: DeclaredKey) -> DeclaredKey {
    key.with_name(Some("PRIMARY".to_owned()))
}

/// Puts a unique key in. A key without a name gets that of its first column, if nothing else has that name.
pub(super) fn put_unique(table: &mut Table, mut key: DeclaredKey) {
    let is_taken = |name: &str| {
        let keys =
            (table.unique.iter()).flat_map(|other| other.name.iter().chain(other.columns.first()));
        let references = table.foreign_keys.iter();
        let references =
            references.flat_map(|(own, key)| [own].into_iter().chain(key.columns.first()));
        keys.chain(references)
            .chain(&table.indexes)
            .any(|other| other.eq_ignore_ascii_case(name))
    };
    if key.name.is_none() && !key.has_texts() {
        let first = key.columns.first().filter(|name| !is_taken(name));
        key.name = first.cloned();
    }
    table.unique.push(key);
}

/// A key or a condition of the table as a whole; whether it is one.
fn key(part: Cursor<'_>, table: &mut Table) -> Result<bool, DdlError> {
    let mut part = part;
    let mut named = None;
    if part.eat("constraint") {
        let kinds = ["primary key", "foreign key", "unique", "check"];
        if !kinds.iter().any(|kind| part.sees(kind)) {
            named = Some(part.ident()?);
        }
    }
    if part.eat("primary key") {
        part.until(&["("]);
        let own = DeclaredKey::parse(&part.group()?, Dialect::Mysql)?;
        let columns = own.columns.clone();
        for name in &columns {
            let found = (table.def.columns.iter_mut()).find(|c| c.name.eq_ignore_ascii_case(name));
            if let Some(column) = found {
                column.nullable = false;
            }
        }
        table.def.primary_key = columns;
        table.primary = Some(primary(own));
        return Ok(true);
    }
    if part.eat("foreign key") {
        part.eat("if not exists");
        part.until(&["("]);
        let own = part.group()?.idents()?;
        part.expect("references")?;
        foreign_key(table, named, own, Reference::read(&mut part)?);
        return Ok(true);
    }
    if part.eat("unique") {
        part.eat_any(&["key", "index"]);
        part.eat("if not exists");
        let before = part.until(&["("]);
        let mut key = DeclaredKey::parse(&part.group()?, Dialect::Mysql)?;
        let mut written = before;
        key.name = match written.sees_name() && !written.sees("using") {
            true => Some(written.ident()?),
            false => named,
        };
        put_unique(table, key);
        return Ok(true);
    }
    if part
        .eat_any(&["key", "index", "fulltext", "spatial"])
        .is_some()
    {
        part.eat_any(&["key", "index"]);
        part.eat("if not exists");
        let mut written = part.until(&["("]);
        let name = match written.sees_name() && !written.sees("using") {
            true => written.ident()?,
            // Called as its first column, perhaps with a number.
            false => match DeclaredKey::parse(&part.group()?, Dialect::Mysql)?
                .columns
                .first()
            {
                Some(first) => first.clone(),
                None => return Ok(true),
            },
        };
        table.indexes.push(name);
        return Ok(true);
    }
    let others = ["check", "period for", "vector"];
    Ok(others.iter().any(|word| part.sees(word)))
}

/// Engines whose rows are not the table's own.
const FOREIGN: &[&str] = &[
    "connect",
    "federated",
    "spider",
    "merge",
    "mrg_myisam",
    "federatedx",
];

fn options(cursor: Cursor<'_>, table: &mut Table, charset: &[String]) {
    let mut rest = cursor;
    while !rest.is_empty() {
        if rest.eat("engine") {
            rest.eat("=");
            let engine = rest.word().unwrap_or_default();
            if FOREIGN.contains(&engine.as_str()) {
                table.def.kind = RelationKind::Virtual;
            }
        } else if rest.eat("collate") {
            rest.eat("=");
            let Some(name) = rest
                .first()
                .map(|token| rest.spell_token(token).to_ascii_lowercase())
            else {
                return;
            };
            for column in &mut table.def.columns {
                let text = matches!(column.class, TypeClass::Text | TypeClass::Enum);
                if text && column.collation.is_empty() && !charset.contains(&column.name) {
                    column.collation.clone_from(&name);
                }
            }
        } else if rest.sees("partition by") || rest.sees("as") || rest.sees("select") {
            return;
        }
        rest.bump();
    }
}

pub(super) fn alter(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if exists");
    let name = cursor.name()?;
    for part in cursor.parts() {
        let Some(table) = state.relation(&name) else {
            return Err(part.error(format!("there is no table `{}`", name.name)));
        };
        let mut table = table.clone();
        change(part, &mut table)?;
        state.put(table);
    }
    Ok(())
}

fn change(part: Cursor<'_>, table: &mut Table) -> Result<(), DdlError> {
    let mut part = part;
    if part.eat("add") {
        if key(part, table)? {
            return Ok(());
        }
        part.eat("column");
        part.eat("if not exists");
        if part.sees("(") {
            for mut inner in part.group()?.parts() {
                let declared = column::parse_column(&mut inner)?;
                place(declared, None, &mut inner, table)?;
            }
            return Ok(());
        }
        let declared = column::parse_column(&mut part)?;
        return place(declared, None, &mut part, table);
    }
    if part.eat("modify") {
        part.eat("column");
        part.eat("if exists");
        let mut name = part;
        let name = name.ident()?;
        let declared = column::parse_column(&mut part)?;
        return place(declared, Some(name), &mut part, table);
    }
    if part.eat("change") {
        part.eat("column");
        let old = part.ident()?;
        let declared = column::parse_column(&mut part)?;
        let new = declared.column.name.clone();
        let named = table
            .foreign_keys
            .iter_mut()
            .flat_map(|key| &mut key.1.columns);
        for name in named.chain(&mut table.def.primary_key) {
            if name.eq_ignore_ascii_case(&old) {
                name.clone_from(&new);
            }
        }
        for key in table.unique.iter_mut().chain(&mut table.primary) {
            key.rename_column(&old, &new, Dialect::Mysql);
        }
        return place(declared, Some(old), &mut part, table);
    }
    if part.eat("drop") {
        if part.eat("primary key") {
            table.def.primary_key.clear();
            table.primary = None;
            return Ok(());
        }
        if part.eat("foreign key") {
            part.eat("if exists");
            let name = part.ident()?;
            table.foreign_keys.retain(|key| key.0 != name);
            return Ok(());
        }
        if part.eat_any(&["index", "key", "constraint"]).is_some() {
            part.eat("if exists");
            let name = part.ident()?;
            if name.eq_ignore_ascii_case("PRIMARY") {
                table.def.primary_key.clear();
                table.primary = None;
            } else {
                table.drop_unique(&name);
            }
            return Ok(());
        }
        if ["check", "partition"].iter().any(|word| part.sees(word)) {
            return Ok(());
        }
        part.eat("column");
        part.eat("if exists");
        let name = part.ident()?;
        table
            .def
            .columns
            .retain(|c| !c.name.eq_ignore_ascii_case(&name));
        table
            .def
            .primary_key
            .retain(|c| !c.eq_ignore_ascii_case(&name));
        // The keys that had it go on without it.
        for key in table.unique.iter_mut().chain(&mut table.primary) {
            key.columns.retain(|c| !c.eq_ignore_ascii_case(&name));
        }
        table
            .unique
            .retain(|key| !key.columns.is_empty() || key.has_texts());
        table
            .foreign_keys
            .retain(|key| !key.1.columns.iter().any(|c| c.eq_ignore_ascii_case(&name)));
        return Ok(());
    }
    if part.eat("rename index") || part.eat("rename key") {
        let old = part.ident()?;
        part.expect("to")?;
        let new = part.ident()?;
        let is_old = |name: &&mut String| name.eq_ignore_ascii_case(&old);
        let mut names = table.unique.iter_mut().filter_map(|key| key.name.as_mut());
        match names.find(is_old) {
            Some(name) => *name = new,
            None => table.has_unknown_keys |= table.unique.iter().any(|key| key.name.is_none()),
        }
        return Ok(());
    }
    if !part.sees("alter index") && !part.sees("alter check") && part.eat("alter") {
        part.eat("column");
        let name = part.ident()?;
        if part.eat("set default") {
            table.fill(&name, !part.sees("null"));
            if let Some(column) = column_mut(table, &name) {
                column.filled = column::default(&mut part, column)?;
            }
        } else if part.eat("drop default") {
            table.fill(&name, false);
            if let Some(column) = column_mut(table, &name) {
                column.filled = DefaultValue::Null;
            }
        }
        return Ok(());
    }
    let harmless = [
        "disable keys",
        "enable keys",
        "auto_increment",
        "order by",
        "comment",
        "row_format",
        "algorithm",
        "lock",
        "alter index",
        "alter check",
        "discard tablespace",
        "import tablespace",
        "force",
        "default character set",
        "character set",
        "default charset",
        "partition by",
    ];
    if part.sees("engine") {
        options(part, table, &[]);
        return Ok(());
    }
    if harmless.iter().any(|words| part.sees(words)) {
        Ok(())
    } else {
        Err(part.expected_error("a change that is understood"))
    }
}

/// Puts a column where `FIRST` or `AFTER` says, in place of `old` if that is given.
fn place(
    declared: Declared,
    old: Option<String>,
    rest: &mut Cursor<'_>,
    table: &mut Table,
) -> Result<(), DdlError> {
    let position = |table: &Table, name: &str| {
        (table.def.columns.iter()).position(|c| c.name.eq_ignore_ascii_case(name))
    };
    let mut at = table.def.columns.len();
    if let Some(old) = old {
        let Some(found) = position(table, &old) else {
            return Err(rest.error(format!("there is no column `{old}`")));
        };
        table.def.columns.remove(found);
        at = found;
    }
    if rest.eat("first") {
        at = 0;
    } else if rest.eat("after") {
        let name = rest.ident()?;
        let Some(found) = position(table, &name) else {
            return Err(rest.error(format!("there is no column `{name}`")));
        };
        at = found + 1;
    }
    if !rest.is_empty() {
        return Err(rest.expected_error("the end of the column"));
    }
    let in_key =
        (table.def.primary_key.iter()).any(|name| name.eq_ignore_ascii_case(&declared.column.name));
    let hidden = declared.is_hidden;
    add(declared, table);
    let Some(mut column) = table.def.columns.pop() else {
        return Ok(());
    };
    column.nullable &= !in_key;
    if !hidden {
        table
            .def
            .columns
            .insert(at.min(table.def.columns.len()), column);
    }
    Ok(())
}

/// `CREATE UNIQUE INDEX`, `CREATE INDEX` and the like.
pub(super) fn index(
    cursor: Cursor<'_>,
    is_unique: bool,
    state: &mut SchemaState,
) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.ident()?;
    cursor.until(&["on"]);
    cursor.expect("on")?;
    let of = cursor.name()?;
    let columns = cursor.group()?;
    // One that is temporary is left out.
    let Some(table) = state.relation_mut(&of) else {
        return Ok(());
    };
    if is_unique {
        let mut key = DeclaredKey::parse(&columns, Dialect::Mysql)?;
        // `OR REPLACE`
        table
            .unique
            .retain(|other| other.name.as_ref() != Some(&name));
        key.name = Some(name);
        table.unique.push(key);
    } else {
        table.indexes.push(name);
    }
    Ok(())
}

/// `DROP INDEX name ON table`.
pub(super) fn drop_index(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.ident()?;
    cursor.expect("on")?;
    let of = cursor.name()?;
    let Some(table) = state.relation_mut(&of) else {
        return Ok(());
    };
    if name.eq_ignore_ascii_case("PRIMARY") {
        table.def.primary_key.clear();
        table.primary = None;
    } else {
        table.drop_unique(&name);
    }
    Ok(())
}
