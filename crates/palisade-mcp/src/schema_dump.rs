//! The answer of `schema_dump`: what exists for the principal, as CREATE statements.
//!
//! They are written from what the metadata tools tell, and not from the database's own text, which names what is hidden.

use palisade::{
    dialect::Dialect,
    firewall::{VisibleColumn, VisibleForeignKey, VisibleRelation},
    ident,
    rejection::Rejection,
};
use serde::Serialize;

use crate::{
    lists::{Page, Scope},
    metadata::{NameFinding, find_all, json_bytes},
};

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct SchemaDump<'a> {
    /// One statement each, whole.
    statements: Vec<String>,
    table_count: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    scope: &'a Scope,
    findings: Vec<NameFinding<'a>>,
}

/// A page of the tables and views within `scope`. A table that no page has room for is only named.
pub(crate) fn dump<'a>(
    relations: &'a [VisibleRelation],
    scope: &'a Scope,
    dialect: Dialect,
    page: Page,
    seal: impl Fn(usize) -> Result<String, Rejection>,
) -> Result<SchemaDump<'a>, Rejection> {
    let within: Vec<_> = relations
        .iter()
        .filter(|relation| scope.has_table(relation))
        .collect();
    let statement = |relation: &&VisibleRelation| {
        let text = create(relation, dialect);
        if json_bytes(&text) > page.room {
            format!(
                "-- {}: {} columns, described page by page by describe_table",
                name_of(relation, dialect),
                relation.columns.len()
            )
        } else {
            text
        }
    };
    let (statements, next) = page.take(within.iter().map(statement).collect());
    let mut findings = Vec::new();
    for relation in within.iter().skip(page.from).take(statements.len()) {
        find_all(&mut findings, relation);
    }
    Ok(SchemaDump {
        statements,
        table_count: within.len(),
        truncated: next.is_some(),
        next_cursor: next.map(seal).transpose()?,
        scope,
        findings,
    })
}

/// A relation as a statement would make it.
fn create(relation: &VisibleRelation, dialect: Dialect) -> String {
    let name = name_of(relation, dialect);
    if !relation.readable {
        return format!("-- {name}: a {} that cannot be read", relation.kind);
    }
    let is_view = relation.kind == "view";
    let mut parts: Vec<String> = relation
        .columns
        .iter()
        .map(|column| column_part(column, dialect))
        .collect();
    let columns = |names: &[String]| {
        let quoted = names.iter().map(|name| quote(name, dialect));
        quoted.collect::<Vec<_>>().join(", ")
    };
    if !relation.primary_key.is_empty() {
        parts.push(format!("PRIMARY KEY ({})", columns(&relation.primary_key)));
    }
    for key in &relation.unique_keys {
        parts.push(format!("UNIQUE ({})", columns(key)));
    }
    for VisibleForeignKey {
        columns: own,
        schema,
        table,
        references,
    } in &relation.foreign_keys
    {
        parts.push(format!(
            "FOREIGN KEY ({}) REFERENCES {}.{} ({})",
            columns(own),
            quote(schema, dialect),
            quote(table, dialect),
            columns(references)
        ));
    }
    let body = parts.join(",\n  ");
    let mut text = if is_view {
        // Its query may name what is hidden.
        format!("-- a view, without its query\nCREATE TABLE {name} (\n  {body}\n);")
    } else {
        format!("CREATE TABLE {name} (\n  {body}\n);")
    };
    for index in &relation.indexes {
        text.push_str(&format!("\nCREATE INDEX ON {name} ({});", columns(index)));
    }
    text
}

fn column_part(column: &VisibleColumn, dialect: Dialect) -> String {
    let mut part = quote(&column.name, dialect);
    if !column.type_name.is_empty() {
        part.push(' ');
        part.push_str(&column.type_name);
    }
    if !column.nullable {
        part.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        part.push_str(" DEFAULT ");
        part.push_str(default);
    }
    if column.generated {
        // Its expression may name what is hidden.
        part.push_str(" /* generated */");
    }
    match &column.mask {
        Some(mask) => part.push_str(&format!(" /* masked: {mask} */")),
        None if column.masked => part.push_str(" /* masked */"),
        None => {}
    }
    part
}

fn name_of(relation: &VisibleRelation, dialect: Dialect) -> String {
    format!(
        "{}.{}",
        quote(&relation.schema, dialect),
        quote(&relation.name, dialect)
    )
}

/// Words that stand for no name without quotes in one dialect or another, as far as columns are called so.
const RESERVED: &[&str] = &[
    "all",
    "analyze",
    "and",
    "any",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "condition",
    "constraint",
    "create",
    "cross",
    "current_date",
    "current_time",
    "current_timestamp",
    "default",
    "delete",
    "desc",
    "distinct",
    "drop",
    "else",
    "end",
    "except",
    "exists",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "groups",
    "having",
    "in",
    "index",
    "inner",
    "insert",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "key",
    "keys",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "of",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "primary",
    "range",
    "rank",
    "references",
    "right",
    "row",
    "rows",
    "select",
    "session_user",
    "set",
    "system",
    "table",
    "then",
    "to",
    "trigger",
    "true",
    "union",
    "unique",
    "update",
    "user",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
];

/// A name as the dialect takes it, in quotes unless it is a plain word in small letters.
fn quote(name: &str, dialect: Dialect) -> String {
    if ident::is_plain(name) && !RESERVED.contains(&name) {
        return name.to_owned();
    }
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
        Dialect::Mysql => format!("`{}`", name.replace('`', "``")),
    }
}
