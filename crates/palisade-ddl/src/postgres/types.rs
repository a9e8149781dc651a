//! Types as a column declares them, spelt as `format_type` spells them.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    state::{SchemaState, Typed},
};
use palisade::{catalog::TypeClass, dialect::Dialect, ident};

/// A type, and what else its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) typed: Typed,
    /// Of a serial type: an integer that is never NULL.
    pub(crate) is_serial: bool,
    /// As it is called without its modifier, for types of the database.
    pub(crate) named: Option<Name>,
}

/// Takes a type.
///
/// # Errors
/// If none comes next.
pub(crate) fn parse_type(
    cursor: &mut Cursor<'_>,
    state: &SchemaState,
) -> Result<Declared, DdlError> {
    let mut serial = false;
    let mut named = None;
    let mut typed = match keyword(cursor)? {
        Some((name, is_serial)) => {
            serial = is_serial;
            builtin(name)
        }
        None => {
            let name = cursor.name()?;
            let modifier = modifier(cursor)?;
            let typed = other(&name, &modifier, state);
            named = Some(name);
            typed
        }
    };
    let mut array = cursor.eat("array");
    while cursor.eat("[") {
        array = true;
        if !cursor.sees("]") {
            cursor.bump();
        }
        cursor.expect("]")?;
    }
    if array {
        typed.name.push_str("[]");
        typed.class = TypeClass::Other;
        named = None;
    }
    Ok(Declared {
        typed,
        is_serial: serial,
        named,
    })
}

/// A type's name without its modifier.
pub(crate) fn bare(name: &str) -> String {
    match name.split_once('(') {
        Some((head, tail)) => {
            let after = tail.split_once(')').map_or("", |(_, after)| after);
            format!("{}{after}", head.trim_end())
        }
        None => name.to_owned(),
    }
}

fn builtin(name: String) -> Typed {
    // The class is that of the type without its fields.
    let bare = if name.starts_with("interval ") {
        "interval"
    } else {
        &name
    };
    Typed {
        class: TypeClass::from_name(Dialect::Postgres, bare),
        name,
    }
}

/// `(10,2)` without blanks, or nothing.
fn modifier(cursor: &mut Cursor<'_>) -> Result<String, DdlError> {
    if !cursor.sees("(") {
        return Ok(String::new());
    }
    let group = cursor.group()?;
    let parts: Vec<String> = group
        .parts()
        .iter()
        .map(|part| part.written().split_whitespace().collect())
        .collect();
    Ok(format!("({})", parts.join(",")))
}

/// A type that the grammar knows, or whose name is another one's alias.
fn keyword(cursor: &mut Cursor<'_>) -> Result<Option<(String, bool)>, DdlError> {
    let start = *cursor;
    if cursor.sees("pg_catalog .") {
        cursor.eat("pg_catalog .");
    }
    let qualified = start.len() != cursor.len();
    let quoted = cursor.word().is_none();
    if quoted && cursor.sees_name() {
        let name = cursor.ident()?;
        if name == "char" {
            return Ok(Some(("\"char\"".to_owned(), false)));
        }
        if qualified {
            return Ok(Some((name, false)));
        }
        *cursor = start;
        return Ok(None);
    }
    let Some(word) = cursor.word() else {
        return Err(cursor.expected_error("a type"));
    };
    // `pg_catalog.char` is the type whose bare name is in quotes.
    if qualified && word == "char" {
        cursor.bump();
        return Ok(Some(("\"char\"".to_owned(), false)));
    }
    if !qualified && start.prefix(2).len() == 2 && {
        let mut after = start;
        after.bump();
        after.sees(".")
    } {
        return Ok(None);
    }
    let mut serial = false;
    cursor.bump();
    let name = match word.as_str() {
        "int" | "int4" | "integer" => "integer".to_owned(),
        "int2" | "smallint" => "smallint".to_owned(),
        "int8" | "bigint" => "bigint".to_owned(),
        "serial" | "serial4" | "smallserial" | "serial2" | "bigserial" | "serial8" => {
            serial = true;
            match word.as_str() {
                "smallserial" | "serial2" => "smallint",
                "bigserial" | "serial8" => "bigint",
                _ => "integer",
            }
            .to_owned()
        }
        "float4" | "real" => "real".to_owned(),
        "float8" => "double precision".to_owned(),
        "double" => {
            cursor.expect("precision")?;
            "double precision".to_owned()
        }
        "float" => match modifier(cursor)?.trim_matches(['(', ')']).parse::<u8>() {
            Ok(bits) if bits <= 24 => "real".to_owned(),
            Ok(_) | Err(_) => "double precision".to_owned(),
        },
        "bool" | "boolean" => "boolean".to_owned(),
        "dec" | "decimal" | "numeric" => {
            let modifier = modifier(cursor)?;
            match modifier.strip_suffix(')') {
                Some(digits) if !modifier.contains(',') => format!("numeric{digits},0)"),
                Some(_) | None => format!("numeric{modifier}"),
            }
        }
        "varchar" => format!("character varying{}", modifier(cursor)?),
        "bpchar" => match modifier(cursor)?.as_str() {
            "" => "bpchar".to_owned(),
            length => format!("character{length}"),
        },
        "character" | "char" | "nchar" | "national" => {
            if word == "national" && cursor.eat_any(&["character", "char"]).is_none() {
                return Err(cursor.expected_error("`CHARACTER`"));
            }
            if cursor.eat("varying") {
                format!("character varying{}", modifier(cursor)?)
            } else {
                let length = modifier(cursor)?;
                let length = if length.is_empty() { "(1)" } else { &length };
                format!("character{length}")
            }
        }
        "varbit" => format!("bit varying{}", modifier(cursor)?),
        "bit" if cursor.eat("varying") => format!("bit varying{}", modifier(cursor)?),
        "bit" => {
            let length = modifier(cursor)?;
            let length = if length.is_empty() { "(1)" } else { &length };
            format!("bit{length}")
        }
        "timestamp" | "time" | "timestamptz" | "timetz" => {
            let precision = modifier(cursor)?;
            let zone = cursor.eat("with time zone") || word.ends_with("tz");
            cursor.eat("without time zone");
            let kind = word.trim_end_matches("tz");
            let with = if zone { "with" } else { "without" };
            format!("{kind}{precision} {with} time zone")
        }
        "interval" => interval(cursor)?,
        _ if qualified || is_plain(&word) => format!("{word}{}", modifier(cursor)?),
        _ => {
            *cursor = start;
            return Ok(None);
        }
    };
    Ok(Some((name, serial)))
}

fn interval(cursor: &mut Cursor<'_>) -> Result<String, DdlError> {
    let fields = [
        "year to month",
        "day to hour",
        "day to minute",
        "day to second",
        "hour to minute",
        "hour to second",
        "minute to second",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
    ];
    let mut name = "interval".to_owned();
    if let Some(found) = cursor.eat_any(&fields) {
        name.push(' ');
        name.push_str(found);
    }
    Ok(name + &modifier(cursor)?)
}

/// PostgreSQL's own types whose names are no keywords: they come before those of the database.
fn is_plain(word: &str) -> bool {
    TypeClass::from_name(Dialect::Postgres, word) != TypeClass::Other
        || matches!(
            word,
            "money"
                | "xml"
                | "point"
                | "line"
                | "lseg"
                | "box"
                | "path"
                | "polygon"
                | "circle"
                | "oid"
                | "xid"
                | "xid8"
                | "cid"
                | "tid"
                | "tsvector"
                | "tsquery"
                | "pg_lsn"
                | "record"
                | "void"
                | "int4range"
                | "int8range"
                | "numrange"
                | "tsrange"
                | "tstzrange"
                | "daterange"
                | "int4multirange"
                | "int8multirange"
                | "nummultirange"
                | "tsmultirange"
                | "tstzmultirange"
                | "datemultirange"
                | "oidvector"
                | "int2vector"
                | "regclass"
                | "regproc"
                | "regprocedure"
                | "regtype"
                | "regrole"
                | "regnamespace"
                | "regconfig"
                | "regdictionary"
                | "regoper"
                | "regoperator"
                | "regcollation"
                | "jsonpath"
                | "txid_snapshot"
                | "pg_snapshot"
                | "aclitem"
                | "refcursor"
                | "cstring"
                | "anyelement"
                | "anyarray"
                | "anynonarray"
                | "anyenum"
                | "anyrange"
        )
}

/// A type of the database or of an extension.
fn other(name: &Name, modifier: &str, state: &SchemaState) -> Typed {
    if let Some(def) = state.type_named(name) {
        return Typed {
            name: ident::qualify([def.schema.as_str(), def.name.as_str()]) + modifier,
            class: state.class(def),
        };
    }
    let spelt = match state.relation(name) {
        Some(row) => ident::qualify([row.def.schema.as_str(), row.def.name.as_str()]),
        None => ident::qualify(
            name.schema
                .as_deref()
                .into_iter()
                .chain([name.name.as_str()]),
        ),
    };
    Typed {
        name: spelt + modifier,
        class: TypeClass::Other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::lex::Lexer;

    #[test]
    fn types_are_spelt_as_the_server_spells_them() {
        let state = SchemaState::new(Dialect::Postgres, "d");
        for (written, spelt) in [
            ("int", "integer"),
            ("pg_catalog.int4", "integer"),
            ("varchar(20)", "character varying(20)"),
            ("CHARACTER VARYING", "character varying"),
            ("char", "character(1)"),
            ("\"char\"", "\"char\""),
            ("national character varying ( 3 )", "character varying(3)"),
            ("numeric(10, 2)", "numeric(10,2)"),
            ("decimal(10)", "numeric(10,0)"),
            ("float(24)", "real"),
            ("float", "double precision"),
            ("timestamptz(3)", "timestamp(3) with time zone"),
            ("time", "time without time zone"),
            ("interval day to second(3)", "interval day to second(3)"),
            ("text[][]", "text[]"),
            ("int ARRAY[4]", "integer[]"),
            ("bit", "bit(1)"),
            (
                "public.geometry(Point, 4326)",
                "public.geometry(Point,4326)",
            ),
            ("bigserial", "bigint"),
        ] {
            let statement = Lexer::new(written, Dialect::Postgres)
                .statement()
                .unwrap()
                .unwrap();
            let mut cursor = Cursor::new(written, &statement.tokens, Dialect::Postgres);
            let found = parse_type(&mut cursor, &state).unwrap();
            assert_eq!(found.typed.name, spelt, "{written}");
            assert!(cursor.is_empty(), "{written}");
            assert_eq!(found.is_serial, written.contains("serial"));
        }
    }
}
