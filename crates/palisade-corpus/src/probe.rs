//! Statements that tell two policy sets apart: what a cell of the access table allows, asked of a table.

use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    dialect::Dialect,
    ident::is_plain,
};

/// Words that have to be quoted as names in some dialect.
const RESERVED: &[&str] = &[
    "all",
    "as",
    "by",
    "case",
    "check",
    "column",
    "default",
    "desc",
    "end",
    "for",
    "from",
    "group",
    "grant",
    "in",
    "index",
    "into",
    "is",
    "join",
    "key",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "primary",
    "references",
    "select",
    "set",
    "table",
    "to",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// Tables that are asked about beyond cells.
const MAX_TABLES: usize = 20;

/// A place at which two policy sets differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// As policies name it.
    pub(crate) table: String,
    pub(crate) column: Option<String>,
    pub(crate) action: &'static str,
}

impl Place {
    /// The table, with the column where there is one.
    pub(crate) fn resource(&self) -> String {
        match &self.column {
            Some(column) => format!("{}.{column}", self.table),
            None => self.table.clone(),
        }
    }
}

/// The relation that policies name so.
pub(crate) fn find_relation<'c>(catalog: &'c Catalog, uid: &str) -> Option<&'c Relation> {
    catalog
        .relations()
        .iter()
        .find(|relation| relation.uid == uid)
}

/// Statements that a difference at `place` shows in, the plainest first. `readable` are the columns that one of the two lets
/// be read.
pub(crate) fn statements(catalog: &Catalog, place: &Place, readable: &[String]) -> Vec<String> {
    let dialect = catalog.dialect();
    let Some(relation) = find_relation(catalog, &place.table) else {
        return Vec::new();
    };
    let table = name_table(dialect, relation, catalog);
    let column = place.column.as_deref().map(|name| name_in(dialect, name));
    let all: Vec<String> = readable.iter().map(|one| name_in(dialect, one)).collect();
    let listed = match all.as_slice() {
        [] => "COUNT(*)".to_owned(),
        all => all.join(", "),
    };
    let key = all.first().cloned();
    // A change has to compare a column with a value, of which kind its type says.
    let conditions = key.map_or(vec!["1 = 1".to_owned()], |key| {
        vec![format!("{key} = 0"), format!("{key} = '0'")]
    });
    // Any column may be the one that may be written.
    let every: Vec<String> = relation
        .columns
        .iter()
        .take(8)
        .map(|one| name_in(dialect, &one.name))
        .collect();
    let update = |column: &String| {
        let conditions = conditions.iter();
        let each =
            conditions.map(|one| format!("UPDATE {table} SET {column} = {column} WHERE {one}"));
        each.collect::<Vec<_>>()
    };
    let insert = |column: &String| {
        [
            format!("INSERT INTO {table} ({column}) SELECT {column} FROM {table} WHERE 1 = 0"),
            format!("INSERT INTO {table} ({column}) VALUES (NULL)"),
        ]
    };
    let delete = || {
        let conditions = conditions.iter();
        conditions.map(|one| format!("DELETE FROM {table} WHERE {one}"))
    };
    match place.action {
        "read" => {
            let column = column.unwrap_or_default();
            vec![
                format!("SELECT {column} FROM {table} LIMIT 3"),
                format!("SELECT {column} FROM {table}"),
                format!("SELECT COUNT(*) FROM {table} WHERE {column} IS NOT NULL"),
                format!("SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}"),
            ]
        }
        "select" | "see" => vec![
            format!("SELECT {listed} FROM {table} LIMIT 3"),
            format!("SELECT {listed} FROM {table}"),
            format!("SELECT COUNT(*) FROM {table}"),
        ],
        "write" => {
            let column = column.unwrap_or_default();
            let mut out = update(&column);
            out.extend(insert(&column));
            out
        }
        "insert" => every.iter().flat_map(insert).collect(),
        "update" => every.iter().flat_map(update).collect(),
        "delete" => delete().collect(),
        "change" => every.iter().flat_map(update).chain(delete()).collect(),
        "add" => {
            let inserts = every.iter().flat_map(insert);
            every.iter().flat_map(update).chain(inserts).collect()
        }
        "truncate" => vec![format!("TRUNCATE TABLE {table}")],
        // Templates are run by name.
        _ => Vec::new(),
    }
}

/// A query of up to three rows of the table at `place`.
pub(crate) fn sample(catalog: &Catalog, place: &Place, readable: &[String]) -> Option<String> {
    let dialect = catalog.dialect();
    let relation = find_relation(catalog, &place.table)?;
    let mut columns: Vec<&str> = readable.iter().map(String::as_str).collect();
    let own = place.column.as_deref();
    columns.extend(own.filter(|own| !readable.iter().any(|one| one == own)));
    if columns.is_empty() {
        return None;
    }
    let columns: Vec<String> = columns
        .into_iter()
        .map(|one| name_in(dialect, one))
        .collect();
    let table = name_table(dialect, relation, catalog);
    Some(format!(
        "SELECT {} FROM {table} LIMIT 3",
        columns.join(", ")
    ))
}

/// Statements beyond cells: a function of each kind of safety, definitions, and a query of each table.
pub(crate) fn calls(catalog: &Catalog) -> Vec<String> {
    let dialect = catalog.dialect();
    let calls: &[&str] = match dialect {
        Dialect::Sqlite => &["upper('a')", "random()", "changes()", "load_extension('x')"],
        Dialect::Postgres => &[
            "upper('a')",
            "random()",
            "pg_backend_pid()",
            "pg_read_file('x')",
            "current_user",
        ],
        Dialect::Mysql => &[
            "upper('a')",
            "rand()",
            "connection_id()",
            "load_file('x')",
            "current_user()",
        ],
    };
    let mut out: Vec<String> = calls.iter().map(|call| format!("SELECT {call}")).collect();
    out.push("CREATE TABLE palisade_probe (id INTEGER)".to_owned());
    let own = catalog
        .relations()
        .iter()
        .filter(|relation| match relation.kind {
            RelationKind::Table => true,
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => false,
        });
    for relation in own.take(MAX_TABLES) {
        let table = name_table(dialect, relation, catalog);
        out.push(format!("SELECT COUNT(*) FROM {table}"));
        out.push(format!("DROP TABLE {table}"));
        out.push(format!(
            "ALTER TABLE {table} ADD COLUMN palisade_probe INTEGER"
        ));
    }
    out
}

/// A name as the dialect writes it, quoted where it must be.
pub(crate) fn name_in(dialect: Dialect, name: &str) -> String {
    if is_plain(name) && !RESERVED.contains(&name.to_lowercase().as_str()) {
        name.to_owned()
    } else {
        dialect.identifier(name)
    }
}

/// The table's name, with its schema where another has the name too.
pub(crate) fn name_table(dialect: Dialect, relation: &Relation, catalog: &Catalog) -> String {
    let name = name_in(dialect, &relation.name);
    // A database of MySQL has another name on each server.
    let is_default = match dialect {
        Dialect::Sqlite | Dialect::Postgres => relation.schema == dialect.default_schema(),
        Dialect::Mysql => relation.schema == catalog.database(),
    };
    let alike = catalog
        .relations()
        .iter()
        .filter(|one| one.name == relation.name);
    if is_default || alike.count() == 1 && dialect == Dialect::Sqlite {
        return name;
    }
    format!("{}.{name}", name_in(dialect, &relation.schema))
}
