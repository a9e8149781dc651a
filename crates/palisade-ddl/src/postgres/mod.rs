//! PostgreSQL's schemas, as `pg_dump` prints them and people write them.

mod alter;
mod object;
mod routine;
mod table;
mod trigger;
pub(super) mod types;
mod view;

use crate::{
    DdlError,
    cursor::{Cursor, Name},
    lex::Lexeme,
    state::SchemaState,
};

/// Words before TABLE and VIEW that change nothing here.
const PERSISTENCE: &[&str] = &[
    "unlogged",
    "global temporary",
    "global temp",
    "local temporary",
    "local temp",
    "temporary",
    "temp",
];

/// Reads one statement.
pub(super) fn statement(statement: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = statement;
    let Some(word) = cursor.word() else {
        return Err(cursor.expected_error("a statement"));
    };
    cursor.bump();
    match word.as_str() {
        "create" => {
            let is_index = cursor.sees("index") || cursor.sees("unique index");
            state.has_own_collations |= !is_index && names_collation(statement);
            create(cursor, state)
        }
        "alter" => {
            state.has_own_collations |= names_collation(statement);
            alter::statement(cursor, state)
        }
        "drop" => drop(cursor, state),
        "set" => {
            cursor.eat_any(&["session", "local"]);
            if cursor.eat("search_path") {
                cursor.eat_any(&["=", "to"]);
                state.path = path(cursor)?;
            }
            Ok(())
        }
        "reset" if cursor.sees("search_path") || cursor.sees("all") => {
            state.path = vec!["public".to_owned()];
            Ok(())
        }
        "select" => select(statement, state),
        // Rows, rights, comments, transactions, upkeep: none of it is in a catalog.
        "insert" | "update" | "delete" | "merge" | "copy" | "truncate" | "grant" | "revoke"
        | "comment" | "security" | "begin" | "start" | "commit" | "end" | "analyze" | "vacuum"
        | "lock" | "refresh" | "reset" | "show" | "reindex" | "cluster" | "reassign" | "notify"
        | "listen" | "checkpoint" | "discard" | "values" | "explain" => Ok(()),
        // A roll-back takes back what was read, and what runs code can do anything.
        _ => Err(statement.error(format!(
            "`{}` is not understood here",
            word.to_ascii_uppercase()
        ))),
    }
}

/// Whether a statement gives anything a collation that is neither the database's nor `"C"`.
fn names_collation(statement: Cursor<'_>) -> bool {
    let mut cursor = statement;
    while !cursor.is_empty() {
        if !cursor.eat("collate") {
            cursor.bump();
        } else if !(cursor.name()).is_ok_and(|name| matches!(name.name.as_str(), "C" | "default")) {
            return true;
        }
    }
    false
}

/// `SET search_path` and `set_config`.
fn path(cursor: Cursor<'_>) -> Result<Vec<String>, DdlError> {
    let mut path = Vec::new();
    for mut part in cursor.parts() {
        let name = match part
            .first()
            .map(|token| (&token.lexeme, part.spell_token(token)))
        {
            Some((Lexeme::Text, text)) => text.trim_matches('\'').to_owned(),
            Some(_) | None => part.ident()?,
        };
        if name == "default" {
            path.push("public".to_owned());
        } else if !matches!(name.as_str(), "" | "$user" | "pg_catalog" | "pg_temp") {
            path.push(name);
        }
    }
    Ok(path)
}

fn select(statement: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = statement;
    if cursor.eat("select pg_catalog . set_config (") || cursor.eat("select set_config (") {
        let Some(setting) = cursor.bump() else {
            return Err(cursor.expected_error("a setting"));
        };
        if cursor.spell_token(setting) == "'search_path'" && cursor.eat(",") {
            let value = cursor
                .bump()
                .map(|token| cursor.spell_token(token))
                .unwrap_or_default();
            let names = value.trim_matches('\'').split(',');
            state.path = names
                .map(|name| name.trim().trim_matches('"').to_owned())
                .filter(|name| !matches!(name.as_str(), "" | "$user" | "pg_catalog" | "pg_temp"))
                .collect();
        }
        return Ok(());
    }
    if statement.has("into") {
        return Err(statement.error("`SELECT INTO` is not understood; write `CREATE TABLE`"));
    }
    Ok(())
}

fn create(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("or replace");
    let is_temporary = cursor
        .eat_any(PERSISTENCE)
        .is_some_and(|word| word != "unlogged");
    if is_temporary
        && (cursor.sees("table") || cursor.sees("view") || cursor.sees("recursive view"))
    {
        return Ok(());
    }
    let Some(what) = cursor.eat_any(&[
        "table",
        "foreign table",
        "view",
        "recursive view",
        "materialized view",
        "type",
        "domain",
        "function",
        "procedure",
        "aggregate",
        "operator class",
        "operator family",
        "operator",
        "extension",
        "schema",
        "collation",
        "rule",
        "sequence",
        "index",
        "unique index",
        "trigger",
        "constraint trigger",
        "event trigger",
        "policy",
        "cast",
        "role",
        "user mapping",
        "user",
        "group",
        "database",
        "tablespace",
        "statistics",
        "publication",
        "subscription",
        "text search",
        "foreign data wrapper",
        "server",
        "language",
        "trusted language",
        "procedural language",
        "trusted procedural language",
        "access method",
        "conversion",
        "transform",
        "default conversion",
    ]) else {
        return Err(cursor.expected_error("what to create"));
    };
    match what {
        "table" | "foreign table" => table::create(cursor, state),
        "view" => view::view(cursor, state),
        "recursive view" => view::recursive(cursor, state),
        "materialized view" => view::create_materialized(cursor, state),
        "type" => object::create_type(cursor, state),
        "domain" => object::domain(cursor, state),
        "function" => routine::function(cursor, state, routine::Callable::Function),
        "procedure" => routine::function(cursor, state, routine::Callable::Procedure),
        "aggregate" => routine::aggregate(cursor, state),
        "operator" => object::operator(cursor, state),
        "cast" => object::cast(cursor, state),
        "extension" => object::extension(cursor, state),
        "collation" => object::collation(cursor, state),
        "schema" => object::schema(cursor),
        "unique index" => table::unique_index(cursor, state),
        "trigger" | "constraint trigger" => trigger::trigger(cursor, state),
        "rule" => trigger::rule(cursor, state),
        // None of these is in a catalog.
        _ => Ok(()),
    }
}

fn drop(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let relations = ["table", "foreign table", "view", "materialized view"];
    if cursor.eat_any(&relations).is_some() {
        let optional = cursor.eat("if exists");
        let names = cursor.until(&["cascade", "restrict"]);
        for mut part in names.parts() {
            let name = part.name()?;
            if !state.remove(&name) && !optional {
                return Err(part.error(format!("there is no `{}` to drop", name.name)));
            }
        }
        return Ok(());
    }
    if trigger::drop(cursor, state)? {
        return Ok(());
    }
    if cursor.eat("index") {
        cursor.eat("concurrently");
        cursor.eat("if exists");
        for mut part in cursor.until(&["cascade", "restrict"]).parts() {
            alter::drop_index(&part.name()?, state);
        }
        return Ok(());
    }
    let harmless = [
        "sequence",
        "policy",
        "publication",
        "role",
        "database",
        "statistics",
        "text search",
        "subscription",
        "event trigger",
        "user",
        "owned",
    ];
    if harmless.iter().any(|word| cursor.sees(word)) {
        return Ok(());
    }
    let Some(what) = cursor.eat_any(&[
        "type",
        "domain",
        "schema",
        "function",
        "procedure",
        "aggregate",
        "routine",
        "operator",
        "cast",
        "extension",
        "collation",
        "server",
        "foreign data wrapper",
        "language",
    ]) else {
        return Err(cursor.expected_error("what to drop"));
    };
    cursor.eat("if exists");
    if matches!(what, "server" | "foreign data wrapper" | "language") {
        return Ok(());
    }
    // `pg_dump --clean` drops first what it makes afterwards; nothing else is followed.
    let is_known = match what {
        "schema" => {
            let name = cursor.ident()?;
            state.relations.iter().any(|t| t.def.schema == name)
                || state.overloads.iter().any(|o| o.schema == name)
                || state.types.iter().any(|t| t.schema == name)
        }
        "type" | "domain" => state.type_named(&cursor.name()?).is_some(),
        "extension" => {
            let name = cursor.ident()?;
            state
                .overloads
                .iter()
                .any(|o| o.extension.as_ref() == Some(&name))
        }
        "operator" => !state.operators.is_empty(),
        "cast" => !state.casts.is_empty(),
        "collation" => !state.collations.is_empty(),
        _ => {
            let Name { schema, name } = cursor.name()?;
            (state.overloads.iter())
                .any(|o| o.name == name && schema.as_ref().is_none_or(|s| *s == o.schema))
        }
    };
    if is_known {
        return Err(cursor.error(format!(
            "`DROP {}` is not understood here",
            what.to_uppercase()
        )));
    }
    Ok(())
}
