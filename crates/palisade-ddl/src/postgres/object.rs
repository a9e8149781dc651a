//! Types, domains, operators, extensions, collations, schemas.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    operand::{DeclaredOperand, ImplicitCast},
    state::{DeclaredOperator, Overload, SchemaState},
};
use palisade::catalog::{
    CastDef, TypeDef, TypeKind,
    functions::{Kinds, registry},
};
use palisade::ident;

use crate::postgres::types;

/// Types that extensions bring; every other type of theirs does not exist for a catalog from text.
const EXTENSION_TYPES: &[(&str, &[&str])] = &[
    ("citext", &["citext"]),
    ("cube", &["cube"]),
    ("hstore", &["ghstore", "hstore"]),
    ("intarray", &["intbig_gkey", "query_int"]),
    (
        "isn",
        &[
            "ean13", "isbn", "isbn13", "ismn", "ismn13", "issn", "issn13", "upc",
        ],
    ),
    ("ltree", &["lquery", "ltree", "ltree_gist", "ltxtquery"]),
    ("pg_trgm", &["gtrgm"]),
    ("seg", &["seg"]),
    ("vector", &["halfvec", "sparsevec", "vector"]),
];

pub(super) fn create_type(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    if cursor.is_empty() {
        // Declared, to be made later; until then it cannot be used.
        return Ok(());
    }
    let kind = if cursor.eat("as enum") {
        TypeKind::Enum
    } else if cursor.eat("as range") {
        let multirange = option(cursor.group()?, "multirange_type_name")
            .and_then(|mut value| value.name().ok())
            .map(|name| (name.schema.unwrap_or_else(|| schema.clone()), name.name))
            .unwrap_or_else(|| (schema.clone(), multirange_name(&name)));
        constructors(state, (&schema, &name), &multirange);
        state.types.push(TypeDef {
            schema: multirange.0,
            name: multirange.1,
            kind: TypeKind::Range,
            extension: None,
        });
        TypeKind::Range
    } else if cursor.eat("as") {
        let mut columns = Vec::new();
        for mut part in cursor.group()?.parts() {
            let column = part.ident()?;
            columns.push((column, types::parse_type(&mut part, state)?.typed.name));
        }
        TypeKind::Composite(columns)
    } else {
        cursor.group()?;
        TypeKind::Base
    };
    state.types.push(TypeDef {
        schema,
        name,
        kind,
        extension: None,
    });
    Ok(())
}

/// As `makeMultirangeTypeName` makes it.
fn multirange_name(range: &str) -> String {
    match range.find("range") {
        Some(_) => range.replacen("range", "multirange", 1),
        None => format!("{range}_multirange"),
    }
}

/// A range type comes with functions of its name that make its values.
fn constructors(state: &mut SchemaState, range: (&str, &str), multirange: &(String, String)) {
    let mut add = |(schema, name): (&str, &str), min_args, max_args| {
        state.overloads.push(Overload {
            schema: schema.to_owned(),
            name: name.to_owned(),
            kinds: Kinds::SCALAR,
            extension: None,
            min_args,
            max_args,
            columns: Vec::new(),
            parameters: None,
            returns: None,
        });
    };
    add(range, 2, Some(3));
    add((&multirange.0, &multirange.1), 0, None);
}

/// The value of an option in a list of them.
fn option<'t>(list: Cursor<'t>, wanted: &str) -> Option<Cursor<'t>> {
    list.parts().into_iter().find_map(|mut part| {
        let found = part.eat(wanted);
        (found && part.eat("=")).then_some(part)
    })
}

pub(super) fn domain(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    cursor.eat("as");
    let base = types::parse_type(&mut cursor, state)?.typed.name;
    let mut checks: Vec<(String, String)> = Vec::new();
    while !cursor.is_empty() {
        if cursor.sees("constraint") || cursor.sees("check") {
            let named = constraint_name(cursor);
            if let Some(text) = check(&mut cursor)? {
                // As the server names what has no name.
                let unnamed = || match checks.len() {
                    0 => format!("{name}_check"),
                    more => format!("{name}_check{more}"),
                };
                checks.push((named.unwrap_or_else(unnamed), text));
            }
        } else if cursor.eat("collate") {
            cursor.name()?;
        } else if cursor.eat("default") {
            cursor.bump();
            cursor.until(&["constraint", "check", "not null", "null", "collate"]);
        } else if !cursor.eat("not null") && !cursor.eat("null") {
            return Err(cursor.expected_error("a condition"));
        }
    }
    checks.sort();
    let texts: Vec<String> = checks.into_iter().map(|(_, text)| text).collect();
    state.types.push(TypeDef {
        schema,
        name,
        kind: TypeKind::Domain {
            base,
            check: (!texts.is_empty()).then(|| texts.join(" ")),
        },
        extension: None,
    });
    Ok(())
}

fn constraint_name(cursor: Cursor<'_>) -> Option<String> {
    let mut cursor = cursor;
    cursor
        .eat("constraint")
        .then(|| cursor.ident().ok())
        .flatten()
}

/// Takes a condition of a domain; none if it is that values are not NULL.
pub(super) fn check(cursor: &mut Cursor<'_>) -> Result<Option<String>, DdlError> {
    if cursor.eat("constraint") {
        cursor.ident()?;
    }
    if cursor.eat("not null") || cursor.eat("null") {
        return Ok(None);
    }
    cursor.expect("check")?;
    let text = format!("CHECK ({})", cursor.group()?.written());
    cursor.eat("not valid");
    Ok(Some(text))
}

pub(super) fn operator(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let schema = if cursor.sees_name() {
        let schema = cursor.ident()?;
        cursor.expect(".")?;
        Some(schema)
    } else {
        None
    };
    let Some(symbol) = cursor.bump() else {
        return Err(cursor.expected_error("an operator"));
    };
    let name = Name {
        schema,
        name: cursor.spell_token(symbol).to_owned(),
    };
    let (schema, name) = state.place(&name, &cursor)?;
    let options = cursor.group()?;
    let Some(mut function) = option(options, "function").or_else(|| option(options, "procedure"))
    else {
        return Err(cursor.error("an operator without a function"));
    };
    let function = function_id(&function.name()?, state);
    let operand = |wanted| match option(options, wanted) {
        Some(mut declared) => DeclaredOperand::read(&mut declared, state),
        None => DeclaredOperand::Absent,
    };
    let (left, right) = (operand("leftarg"), operand("rightarg"));
    state.operators.push(DeclaredOperator {
        schema,
        name,
        function,
        left,
        right,
    });
    Ok(())
}

/// `CREATE CAST (source AS target) WITH FUNCTION f …`; one without a function calls none.
pub(super) fn cast(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let mut types = cursor.group()?;
    let source = cast_type(&mut types, state)?;
    types.expect("as")?;
    let target = cast_type(&mut types, state)?;
    if cursor.has("implicit") {
        state.implicit_casts.push(ImplicitCast {
            source: source.clone(),
            target: target.clone(),
        });
    }
    if !cursor.eat("with function") {
        return Ok(());
    }
    let function = function_id(&cursor.name()?, state);
    if cursor.sees("(") {
        cursor.group()?;
    }
    state.casts.push(CastDef {
        source,
        target,
        function,
        implicit: cursor.eat("as implicit"),
    });
    Ok(())
}

/// The schema and name of a type, as [`CastDef`] has them.
fn cast_type(cursor: &mut Cursor<'_>, state: &SchemaState) -> Result<(String, String), DdlError> {
    let declared = types::parse_type(cursor, state)?;
    let own = || ("pg_catalog".to_owned(), types::bare(&declared.typed.name));
    let Some(name) = &declared.named else {
        return Ok(own());
    };
    if let Some(def) = state.type_named(name) {
        return Ok((def.schema.clone(), def.name.clone()));
    }
    // A row type goes by its table's name.
    let row = state.relation(name).map(|table| &table.def.schema);
    Ok(match row.or(name.schema.as_ref()) {
        Some(schema) => (schema.clone(), name.name.clone()),
        None => own(),
    })
}

/// The id of the function that an operator or a cast names.
fn function_id(function: &Name, state: &SchemaState) -> String {
    let in_schema = match &function.schema {
        Some(schema) => schema.clone(),
        None => {
            let own = (state.path.iter()).find(|schema| {
                (state.overloads.iter()).any(|o| o.schema == **schema && o.name == function.name)
            });
            let builtin = registry(state.dialect)
                .find_by_name(&function.name)
                .any(|def| def.schema.as_deref() == Some("pg_catalog"));
            match own {
                Some(schema) if !builtin => schema.clone(),
                Some(_) | None => "pg_catalog".to_owned(),
            }
        }
    };
    ident::qualify([in_schema.as_str(), function.name.as_str()])
}

pub(super) fn extension(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.ident()?;
    cursor.eat("with");
    let schema = if cursor.eat("schema") {
        Some(cursor.ident()?)
    } else {
        None
    };
    let known = state
        .overloads
        .iter()
        .any(|o| o.extension.as_ref() == Some(&name));
    if known {
        return Ok(());
    }
    let schema = match schema.or_else(|| state.path.first().cloned()) {
        Some(schema) => schema,
        None => return Err(cursor.error(format!("`{name}` is in no schema"))),
    };
    let types = EXTENSION_TYPES
        .iter()
        .find(|(extension, _)| *extension == name)
        .map_or(&[][..], |(_, types)| types);
    state.extension(&name, &schema, types);
    Ok(())
}

pub(super) fn collation(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.name()?;
    let place = state.place(&name, &cursor)?;
    let same = if cursor.eat("from") {
        let of = cursor.name()?;
        let from = state.place(&of, &cursor)?;
        state.collations.get(&from).copied().unwrap_or(true)
    } else {
        match option(cursor.group()?, "deterministic") {
            None => true,
            Some(value) => ["true", "'true'", "on", "'on'", "1"]
                .iter()
                .any(|yes| value.written().eq_ignore_ascii_case(yes)),
        }
    };
    state.collations.insert(place, same);
    Ok(())
}

pub(super) fn schema(cursor: Cursor<'_>) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    if !cursor.sees("authorization") {
        cursor.ident()?;
    }
    if cursor.eat("authorization") {
        cursor.ident()?;
    }
    if cursor.is_empty() {
        Ok(())
    } else {
        Err(cursor.error("a schema made together with what it holds is not understood"))
    }
}
