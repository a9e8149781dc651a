//! From a database to a catalog of facts.
//!
//! The engine is asked by pragma: by statements, not by the table-valued functions, whose names a table could shadow.
//! Text is cut only for what no pragma tells: a view's query, a generated column's expression, and what sets a trigger
//! off.

mod descriptions;
mod foreign_keys;
#[cfg(test)]
mod tests;
mod triggers;
mod unique_keys;

use std::collections::{BTreeSet, HashMap};

use palisade::{
    catalog::{
        Catalog, CatalogError, Change, ColumnDef, DefaultValue, RelationDef, RelationKind, Trigger,
        TypeClass,
    },
    change::{IMAGES, LEDGER},
    dialect::Dialect,
    ident,
};
use rusqlite::Connection;

use crate::{
    history,
    load::{self, LoadError},
    schema_text,
};

/// The collation of a column whose collation the engine does not tell, as those of views: compare
/// as if it were none of the known ones.
pub const UNKNOWN_COLLATION: &str = "UNKNOWN";

/// The trigger that stands for the removal of conflicting rows by a table's own constraints (`UNIQUE ON CONFLICT REPLACE`). No
/// statement shows the removal, and no policy of rows restricts it.
const REPLACES: &str = "replaced_rows";

/// The engine and its version, as catalogs name it: `SQLite 3.50.4`.
#[must_use]
pub fn engine() -> String {
    format!("SQLite {}", rusqlite::version())
}

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntrospectError {
    /// The schema's text did not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The engine did not answer.
    #[error("cannot read the schema: {0}")]
    Engine(#[from] rusqlite::Error),
    /// The stored text of a relation does not show what its pragmas say is there.
    #[error("cannot read the expression of generated column `{column}` of `{relation}`")]
    Generated {
        /// The table.
        relation: String,
        /// The column.
        column: String,
    },
    /// A foreign key does what no version of the engine is known to do.
    #[error("cannot read the foreign key of `{relation}`: `{action}` is unknown")]
    Action {
        /// The table.
        relation: String,
        /// What the engine says.
        action: String,
    },
    /// What was read contradicts itself.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// The catalog of schema `main` of `conn`, named `database`; attached and temporary databases are
/// not looked at.
///
/// * A generated column is kept with its expression; the hidden columns of virtual tables are not.
/// * Virtual tables and the shadow tables behind them are [`RelationKind::Virtual`], names that begin
///   with `sqlite_` are [`RelationKind::System`].
/// * A view that the engine cannot run (its table is gone) and a virtual table that it cannot describe
///   (its module is not compiled in) are kept without columns.
/// * View columns are nullable and of [`UNKNOWN_COLLATION`]; their names are those of the view,
///   which with `CREATE VIEW v(a, b)` differ from those of its query: match them by position.
/// * A trigger goes by its own name. If its text does not show what sets it off, everything does. A table whose constraints
///   say `ON CONFLICT REPLACE` has one called `replaced_rows`, which new and changed rows set off.
/// * A foreign key that names no columns gets those of the referenced table's primary key.
///
/// Call it in a transaction if others write to the database.
///
/// # Errors
/// If the database cannot be read, or holds names that are not UTF-8.
pub fn catalog(conn: &Connection, database: &str) -> Result<Catalog, IntrospectError> {
    let texts = stored_texts(conn)?;
    let triggers = triggers::read(conn)?;
    let mut relations = table_list(conn)?
        .into_iter()
        // Receipts, images of rows and history are the firewall's own.
        .filter(|listed| ![LEDGER, IMAGES].contains(&listed.name.as_str()))
        .filter(|listed| !history::is_of_history(&listed.name))
        .map(|listed| relation(conn, &texts, &listed))
        .collect::<Result<Vec<_>, _>>()?;
    for def in &mut relations {
        let found = triggers.get(&Dialect::Sqlite.fold(&def.name));
        def.triggers = found.cloned().unwrap_or_default();
        let text = texts.get(&Dialect::Sqlite.fold(&def.name));
        if def.kind == RelationKind::Table
            && text.is_some_and(|text| schema_text::replaces_rows(text))
        {
            def.triggers.push(Trigger {
                schema: "main".to_owned(),
                function: REPLACES.to_owned(),
                on: [Change::Insert, Change::Update].into(),
                columns: BTreeSet::new(),
            });
        }
    }
    relations.sort_by(|a, b| a.name.cmp(&b.name));
    foreign_keys::complete(&mut relations);
    let builder = Catalog::builder(Dialect::Sqlite)
        .database(database)
        .engine(&engine());
    let mut builder = descriptions::read(conn, &relations, builder)?;
    let kept = history::read_triggers(conn)?;
    for def in &relations {
        if let Some(companion) = history::find_companion(conn, &kept, def)? {
            builder = builder.companion("main", &def.name, companion);
        }
    }
    Ok(relations
        .into_iter()
        .fold(builder, |builder, def| builder.relation(def))
        .build()?)
}

/// The catalog that a script of statements makes: a schema file, or what `sqlite3 db .dump` prints.
///
/// The engine itself runs the script, in memory: tables may be altered, rows inserted. Statements
/// that reach files, other databases or code (ATTACH, VACUUM, temporary objects, unknown pragmas and
/// functions) are refused. Tables that the engine makes by itself, or the module of a virtual table of the script, are left out. A
/// virtual table that a dump writes into `sqlite_schema` is created.
///
/// # Errors
/// If a statement fails, with its line; if the script is too long or too slow.
pub fn catalog_from_ddl(ddl: &str, database: &str) -> Result<Catalog, IntrospectError> {
    catalog(&load::memory(ddl)?, database)
}

/// A row of `PRAGMA table_list`.
struct Listed {
    name: String,
    kind: RelationKind,
    without_rowid: bool,
    strict: bool,
}

fn table_list(conn: &Connection) -> Result<Vec<Listed>, IntrospectError> {
    let mut statement = conn.prepare("PRAGMA main.table_list")?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get_ref("schema")?.as_str().ok() != Some("main") {
            continue;
        }
        let name: String = row.get("name")?;
        let kind = match row.get_ref("type")?.as_str().unwrap_or_default() {
            _ if is_system(&name) => RelationKind::System,
            "table" => RelationKind::Table,
            "view" => RelationKind::View,
            // "virtual", "shadow", and whatever another version may add: not readable.
            _ => RelationKind::Virtual,
        };
        let without_rowid = row.get("wr")?;
        out.push(Listed {
            name,
            kind,
            without_rowid,
            strict: row.get("strict")?,
        });
    }
    Ok(out)
}

fn is_system(name: &str) -> bool {
    name.get(..7)
        .is_some_and(|prefix| prefix.eq_ignore_ascii_case("sqlite_"))
}

/// The stored texts of relations and indexes, by folded name: they have their names among them.
fn stored_texts(conn: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = conn.prepare(
        "SELECT name, sql FROM main.sqlite_schema WHERE type IN ('table', 'view', 'index') AND sql IS NOT NULL",
    )?;
    let texts = statement.query_map([], |row| {
        Ok((Dialect::Sqlite.fold(&row.get::<_, String>(0)?), row.get(1)?))
    })?;
    texts.collect()
}

/// A row of `PRAGMA table_xinfo`.
struct ColumnInfo {
    name: String,
    type_name: String,
    not_null: bool,
    key_position: i64,
    hidden: i64,
    /// Whether a new row has a value in it by itself.
    is_filled: bool,
    /// The expression of what a new row has in it.
    default: Option<String>,
}

fn relation(
    conn: &Connection,
    texts: &HashMap<String, String>,
    listed: &Listed,
) -> Result<RelationDef, IntrospectError> {
    let name = &listed.name;
    let text = texts.get(&Dialect::Sqlite.fold(name)).map(String::as_str);
    let columns = match (column_infos(conn, name), listed.kind) {
        (Ok(columns), RelationKind::View) if !is_sound_view(conn, name, columns.len()) => {
            Vec::new()
        }
        (Ok(columns), _) => columns,
        (Err(_), RelationKind::View | RelationKind::Materialized | RelationKind::Virtual) => {
            Vec::new()
        }
        (Err(error), RelationKind::Table | RelationKind::System) => return Err(error.into()),
    };
    let is_table = match listed.kind {
        RelationKind::Table => true,
        RelationKind::View
        | RelationKind::Materialized
        | RelationKind::Virtual
        | RelationKind::System => false,
    };
    let mut key: Vec<_> = columns.iter().filter(|c| c.key_position > 0).collect();
    key.sort_by_key(|c| c.key_position);
    let has_rowid = match listed.kind {
        RelationKind::View => false,
        RelationKind::Table
        | RelationKind::Materialized
        | RelationKind::Virtual
        | RelationKind::System => !listed.without_rowid,
    };
    let rowid_alias = match key.as_slice() {
        // An INTEGER PRIMARY KEY has no index of its own; `INTEGER PRIMARY KEY DESC`, which by an
        // old mistake is no alias, has one (<https://www.sqlite.org/lang_createtable.html#rowid>).
        [only]
            if is_table
                && has_rowid
                && only.type_name.eq_ignore_ascii_case("INTEGER")
                && !has_key_index(conn, name)? =>
        {
            Some(only.name.clone())
        }
        _ => None,
    };
    let primary_key = key.iter().map(|c| c.name.clone()).collect();
    let foreign_keys = if is_table {
        foreign_keys::read(conn, name)?
    } else {
        Vec::new()
    };
    let unique_keys = match is_table {
        true => Some(unique_keys::read(
            conn,
            texts,
            name,
            &columns,
            rowid_alias.as_deref(),
        )?),
        false => None,
    };
    let definition = match listed.kind {
        RelationKind::View => text.and_then(schema_text::view_query).map(str::to_owned),
        RelationKind::Table
        | RelationKind::Materialized
        | RelationKind::Virtual
        | RelationKind::System => None,
    };
    let columns = columns
        .into_iter()
        // 1 marks the hidden columns of virtual tables; 2 and 3 are generated columns.
        .filter(|column| column.hidden != 1)
        .map(|column| {
            let generated = match (column.hidden, text) {
                (0, _) => None,
                (_, text) => Some(
                    text.and_then(|text| schema_text::generated_expression(text, &column.name))
                        .ok_or_else(|| IntrospectError::Generated {
                            relation: name.clone(),
                            column: column.name.clone(),
                        })?
                        .to_owned(),
                ),
            };
            let is_rowid = rowid_alias.as_ref() == Some(&column.name);
            let class = TypeClass::from_name(Dialect::Sqlite, &column.type_name);
            Ok(ColumnDef {
                filled: match (&generated, &column.default) {
                    (Some(_), _) => DefaultValue::Unknown,
                    (None, _) if is_rowid => DefaultValue::Unknown,
                    (None, None) => DefaultValue::Null,
                    (None, Some(text)) => {
                        DefaultValue::by(text, class, &column.type_name, Dialect::Sqlite)
                    }
                },
                class,
                nullable: !(is_table && (column.not_null || is_rowid)),
                collation: collation(conn, listed, &column.name),
                stored: generated.is_some() && column.hidden == 3,
                generated,
                name: column.name,
                type_name: column.type_name,
            })
        })
        .collect::<Result<_, IntrospectError>>()?;
    Ok(RelationDef {
        schema: "main".to_owned(),
        name: name.clone(),
        kind: listed.kind,
        columns,
        strict: listed.strict,
        has_rowid,
        rowid_alias,
        primary_key,
        unique_keys,
        foreign_keys,
        definition,
        parents: Vec::new(),
        triggers: Vec::new(),
        retimed: Vec::new(),
    })
}

fn column_infos(conn: &Connection, relation: &str) -> rusqlite::Result<Vec<ColumnInfo>> {
    let mut statement = conn.prepare(&pragma("table_xinfo", relation))?;
    let infos = statement.query_map([], |row| {
        Ok(ColumnInfo {
            name: row.get("name")?,
            type_name: row.get("type")?,
            not_null: row.get("notnull")?,
            key_position: row.get("pk")?,
            hidden: row.get("hidden")?,
            is_filled: row
                .get_ref("dflt_value")?
                .as_str_or_null()
                .is_ok_and(|text| text.is_some_and(|text| !text.eq_ignore_ascii_case("null"))),
            default: row.get("dflt_value")?,
        })
    })?;
    infos.collect()
}

/// Whether the engine can run the view and gives it `width` columns: the pragma describes some views
/// that it cannot.
fn is_sound_view(conn: &Connection, view: &str, width: usize) -> bool {
    conn.prepare(&format!("SELECT * FROM main.{}", ident::quote(view)))
        .is_ok_and(|statement| statement.column_count() == width)
}

/// Whether an index implements the primary key.
fn has_key_index(conn: &Connection, relation: &str) -> rusqlite::Result<bool> {
    let mut statement = conn.prepare(&pragma("index_list", relation))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if row.get_ref("origin")?.as_str().ok() == Some("pk") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The collation of a column, upper-case.
fn collation(conn: &Connection, listed: &Listed, column: &str) -> String {
    match listed.kind {
        RelationKind::Table => {}
        RelationKind::View
        | RelationKind::Materialized
        | RelationKind::Virtual
        | RelationKind::System => {
            return UNKNOWN_COLLATION.to_owned();
        }
    }
    conn.column_metadata(Some("main"), listed.name.as_str(), column)
        .ok()
        .and_then(|(_, collation, ..)| collation.and_then(|c| c.to_str().ok()))
        .map_or_else(|| UNKNOWN_COLLATION.to_owned(), str::to_ascii_uppercase)
}

/// `PRAGMA main.name('argument')`.
fn pragma(name: &str, argument: &str) -> String {
    format!("PRAGMA main.{name}('{}')", argument.replace('\'', "''"))
}
