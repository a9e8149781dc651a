//! MySQL's and MariaDB's schemas, as `mysqldump` and `mariadb-dump` print them and people write them.

mod column;
mod table;
mod trigger;

use crate::{
    DdlError,
    cursor::Cursor,
    lex::{Lexeme, Lexer},
    state::{Overload, SchemaState},
    view,
};
use palisade::catalog::{RelationDef, RelationKind, functions::Kinds};

/// Reads one statement. `lexer` follows the mode that decides what quotes mean.
pub(super) fn statement(
    statement: Cursor<'_>,
    state: &mut SchemaState,
    lexer: &mut Lexer<'_>,
) -> Result<(), DdlError> {
    let mut cursor = statement;
    let Some(word) = cursor.word() else {
        return Err(cursor.expected_error("a statement"));
    };
    cursor.bump();
    match word.as_str() {
        "create" => create(cursor, state),
        "alter" => alter(cursor, state),
        "drop" => drop(cursor, state),
        "set" => {
            set(cursor, lexer);
            Ok(())
        }
        "use" => {
            state.path = vec![cursor.ident()?];
            Ok(())
        }
        // Rows, rights, transactions, upkeep: none of it is in a catalog.
        "insert" | "replace" | "update" | "delete" | "load" | "truncate" | "grant" | "revoke"
        | "lock" | "unlock" | "start" | "begin" | "commit" | "select" | "show" | "flush"
        | "analyze" | "optimize" | "check" | "repair" | "do" | "values" | "explain"
        | "describe" | "desc" => Ok(()),
        _ => Err(statement.error(format!(
            "`{}` is not understood here",
            word.to_ascii_uppercase()
        ))),
    }
}

/// `sql_mode` decides what double quotes and backslashes mean in what follows.
fn set(cursor: Cursor<'_>, lexer: &mut Lexer<'_>) {
    for mut part in cursor.parts() {
        part.eat_any(&["session", "global", "@@session .", "@@global ."]);
        if part.eat_any(&["sql_mode", "@@sql_mode"]).is_none() {
            continue;
        }
        part.eat(":");
        part.eat(":=");
        part.eat("=");
        // A variable holds the mode from before.
        let mode = part
            .first()
            .filter(|token| token.lexeme == Lexeme::Text)
            .map(|token| part.spell_token(token).to_ascii_uppercase())
            .unwrap_or_default();
        let has = |name: &str| {
            mode.trim_matches(['\'', '"'])
                .split(',')
                .any(|m| m.trim() == name)
        };
        lexer.ansi_quotes = has("ANSI_QUOTES") || has("ANSI") || has("ORACLE") || has("POSTGRESQL");
        lexer.plain_backslash = has("NO_BACKSLASH_ESCAPES");
    }
}

const OBJECTS: &[&str] = &[
    "temporary table",
    "table",
    "view",
    "aggregate function",
    "function",
    "procedure",
    "trigger",
    "event",
    "sequence",
    "unique index",
    "fulltext index",
    "spatial index",
    "index",
    "database",
    "schema",
    "role",
    "user",
    "server",
    "tablespace",
    "logfile group",
    "package",
    "resource group",
    "vector index",
];

fn create(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    // ALGORITHM, DEFINER, SQL SECURITY: whose rights a view has is the server's business.
    cursor.until(OBJECTS);
    let Some(what) = cursor.eat_any(OBJECTS) else {
        return Err(cursor.expected_error("what to create"));
    };
    match what {
        "table" => table::create(cursor, state),
        "view" => create_view(cursor, state),
        "function" => routine(cursor, state, Kinds::SCALAR),
        "aggregate function" => {
            let kinds = Kinds {
                aggregate: true,
                ..Kinds::default()
            };
            routine(cursor, state, kinds)
        }
        "procedure" => {
            let kinds = Kinds {
                procedure: true,
                ..Kinds::default()
            };
            routine(cursor, state, kinds)
        }
        "trigger" => trigger::create(cursor, state),
        "unique index" => table::index(cursor, true, state),
        "index" => table::index(cursor, false, state),
        "package" => Err(cursor.error("packages are not understood")),
        // Temporary tables are a session's, the rest is in no catalog.
        _ => Ok(()),
    }
}

fn create_view(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let names = view::names(&mut cursor)?;
    cursor.expect("as")?;
    let tails = [
        "with cascaded check option",
        "with local check option",
        "with check option",
    ];
    let query = view::without_tail(cursor, &tails);
    let def = RelationDef::new(schema, name, RelationKind::View, Vec::new());
    view::put(def, query, &names, state)
}

fn routine(cursor: Cursor<'_>, state: &mut SchemaState, kinds: Kinds) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    // A function out of a library does not say what it takes.
    let args = if cursor.sees("(") {
        Some(cursor.group()?.parts().len())
    } else {
        None
    };
    let args = args.map(|count| u8::try_from(count).unwrap_or(u8::MAX));
    state.overloads.push(Overload {
        schema,
        name,
        kinds,
        extension: None,
        min_args: args.unwrap_or_default(),
        max_args: args,
        columns: Vec::new(),
        parameters: None,
        returns: None,
    });
    Ok(())
}

fn alter(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat_any(&["online", "ignore"]);
    if cursor.eat("table") {
        return table::alter(cursor, state);
    }
    let harmless = [
        "database",
        "schema",
        "event",
        "function",
        "procedure",
        "user",
        "server",
        "tablespace",
        "sequence",
        "instance",
    ];
    if harmless.iter().any(|word| cursor.sees(word)) {
        return Ok(());
    }
    // With ALGORITHM and the like before it.
    cursor.until(&["view"]);
    cursor.expect("view")?;
    create_view(cursor, state)
}

fn drop(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("temporary");
    let Some(what) = cursor.eat_any(&[
        "table",
        "view",
        "trigger",
        "event",
        "index",
        "user",
        "role",
        "server",
        "sequence",
        "database",
        "schema",
        "function",
        "procedure",
        "package",
    ]) else {
        return Err(cursor.expected_error("what to drop"));
    };
    let optional = cursor.eat("if exists");
    match what {
        "table" | "view" => {
            for mut part in cursor.until(&["cascade", "restrict"]).parts() {
                let name = part.name()?;
                if !state.remove(&name) && !optional {
                    return Err(part.error(format!("there is no `{}` to drop", name.name)));
                }
            }
            Ok(())
        }
        "index" => table::drop_index(cursor, state),
        "database" | "schema" => {
            let name = cursor.ident()?;
            let used = state.relations.iter().any(|t| t.def.schema == name);
            if used {
                return Err(cursor.error("dropping what was read is not understood"));
            }
            Ok(())
        }
        "trigger" => {
            state.disarm_anywhere(&cursor.name()?);
            Ok(())
        }
        "function" | "procedure" => {
            let name = cursor.name()?;
            if state.overloads.iter().any(|o| o.name == name.name) {
                return Err(cursor.error("dropping what was read is not understood"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
