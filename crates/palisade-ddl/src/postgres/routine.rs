//! Functions, procedures and aggregates: where they may stand, and what they take and give.

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    lex::Lexeme,
    operand::DeclaredOperand,
    state::{Overload, SchemaState},
};
use palisade::catalog::functions::Kinds;

use crate::postgres::types;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callable {
    Function,
    Procedure,
}

/// What a routine's parameters say together.
#[derive(Default)]
struct Parameters {
    /// That a call gives.
    inputs: u8,
    /// That it may leave out.
    optional: u8,
    variadic: bool,
    /// Names of what it gives; empty for what has none.
    outputs: Vec<String>,
    /// Types of what a call gives.
    operands: Vec<DeclaredOperand>,
}

impl Parameters {
    /// Their types, unless there can be any number of them.
    fn types(&self) -> Option<Vec<DeclaredOperand>> {
        (!self.variadic).then(|| self.operands.clone())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    In,
    Out,
    InOut,
    Variadic,
}

pub(super) fn function(
    cursor: Cursor<'_>,
    state: &mut SchemaState,
    callable: Callable,
) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let mut parameters = read(cursor.group()?, state)?;
    let mut kinds = Kinds::default();
    let mut returns = None;
    let mut is_set = false;
    if cursor.eat("returns") {
        // What an event calls, no query can; what a trigger calls, a change of rows does.
        if cursor.sees("trigger")
            || cursor.sees("event_trigger")
            || cursor.sees("pg_catalog . trigger")
            || cursor.sees("pg_catalog . event_trigger")
        {
            state.trigger_functions.push((schema, name));
            return Ok(());
        }
        if cursor.eat("table") {
            is_set = true;
            for mut part in cursor.group()?.parts() {
                parameters.outputs.push(part.ident()?);
            }
        } else {
            is_set = cursor.eat("setof");
            if let Ok(declared) = types::parse_type(&mut cursor, state) {
                returns = declared.named;
            }
        }
    }
    let window = {
        let mut options = cursor;
        options.until(&["as"]);
        let count = cursor.len() - options.len();
        cursor.prefix(count).has("window")
    };
    match callable {
        Callable::Procedure => kinds.procedure = true,
        Callable::Function if window => kinds.window = true,
        Callable::Function if is_set => kinds.table = true,
        Callable::Function => kinds.scalar = true,
    }
    let (columns, returns) = match parameters.outputs.as_slice() {
        [] => (Vec::new(), returns),
        // One is no row; its name, where it has one, is the column's.
        [only] if only.is_empty() => (Vec::new(), None),
        [only] => (vec![vec![only.clone()]], None),
        several => (vec![number_names(several)], None),
    };
    state.overloads.push(Overload {
        schema,
        name,
        kinds,
        extension: None,
        min_args: parameters.inputs.saturating_sub(parameters.optional),
        max_args: (!parameters.variadic).then_some(parameters.inputs),
        columns,
        parameters: parameters.types(),
        returns: returns.and_then(|row: Name| {
            let (schema, name) = state.relation(&row).map_or_else(
                || {
                    state
                        .type_named(&row)
                        .map(|def| (def.schema.clone(), def.name.clone()))
                },
                |t| Some((t.def.schema.clone(), t.def.name.clone())),
            )?;
            Some(Name {
                schema: Some(schema),
                name,
            })
        }),
    });
    Ok(())
}

/// As `build_function_result_tupdesc_d` names what has no name.
fn number_names(names: &[String]) -> Vec<String> {
    (1..)
        .zip(names)
        .map(|(i, name)| match name.as_str() {
            "" => format!("column{i}"),
            _ => name.clone(),
        })
        .collect()
}

fn read(list: Cursor<'_>, state: &SchemaState) -> Result<Parameters, DdlError> {
    let mut read = Parameters::default();
    for mut part in list.parts() {
        let mode = mode(&mut part);
        let name = name(&mut part);
        // A mode can stand after the name too.
        let mode = if mode == Mode::In {
            self::mode(&mut part)
        } else {
            mode
        };
        let operand = DeclaredOperand::read(&mut { part }, state);
        let default = part.has("default") || has_equals(part);
        let counts = match mode {
            Mode::In | Mode::InOut | Mode::Variadic => true,
            Mode::Out => false,
        };
        if counts {
            read.operands.push(operand);
        }
        read.inputs = read.inputs.saturating_add(u8::from(counts));
        read.optional = read.optional.saturating_add(u8::from(default));
        read.variadic |= mode == Mode::Variadic;
        if matches!(mode, Mode::Out | Mode::InOut) {
            read.outputs.push(name.unwrap_or_default());
        }
    }
    Ok(read)
}

fn mode(part: &mut Cursor<'_>) -> Mode {
    match part.eat_any(&["in out", "inout", "in", "out", "variadic"]) {
        Some("in out" | "inout") => Mode::InOut,
        Some("out") => Mode::Out,
        Some("variadic") => Mode::Variadic,
        Some(_) | None => Mode::In,
    }
}

/// Takes the parameter's name, if it has one: two words that are no type together.
fn name(part: &mut Cursor<'_>) -> Option<String> {
    let two = [
        "double precision",
        "character varying",
        "char varying",
        "bit varying",
        "national character",
        "national char",
        "time with",
        "time without",
        "timestamp with",
        "timestamp without",
        "interval year",
        "interval month",
        "interval day",
        "interval hour",
        "interval minute",
        "interval second",
    ];
    if two.iter().any(|words| part.sees(words)) {
        return None;
    }
    let mut rest = *part;
    let name = rest.ident().ok()?;
    if !rest.sees_name() || rest.sees("default") || rest.sees("array") {
        return None;
    }
    *part = rest;
    Some(name)
}

fn has_equals(part: Cursor<'_>) -> bool {
    let mut part = part;
    while let Some(token) = part.bump() {
        if token.lexeme == Lexeme::Symbol
            && matches!(part.spell_token(token), "=" | ":=" | "=-" | "=+")
        {
            return true;
        }
    }
    false
}

pub(super) fn aggregate(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let mut list = cursor.group()?;
    // The old form says its type among the options.
    let old = cursor.is_empty();
    let mut kinds = Kinds::default();
    let direct = if old { list } else { list.until(&["order by"]) };
    let is_ordered = !old && list.eat("order by");
    let mut read = if old || direct.sees("*") {
        let inputs = u8::from(old && !direct.has("'any'") && !direct.written().contains("\"any\""));
        Parameters {
            inputs,
            ..Parameters::default()
        }
    } else {
        read(direct, state)?
    };
    if is_ordered {
        kinds.ordered = true;
        read.variadic |= list.parts().iter().any(|part| part.has("variadic"));
        read.optional = u8::from(read.variadic);
    } else {
        kinds.aggregate = true;
    }
    state.overloads.push(Overload {
        schema,
        name,
        kinds,
        extension: None,
        min_args: read.inputs.saturating_sub(read.optional),
        max_args: (!read.variadic).then_some(read.inputs),
        columns: Vec::new(),
        parameters: None,
        returns: None,
    });
    Ok(())
}
