//! From a database to a catalog of facts.
//!
//! Everything is asked of the engine by pragma (statements, not the table-valued functions, whose
//! names a table could shadow); text is cut only for what no pragma tells: a view's query, a
//! generated column's expression and what sets a trigger off.

mod keys;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade::{
    catalog::{
        Catalog, CatalogError, Change, ColumnDef, Filled, ForeignKey, ReferenceAction, RelationDef,
        RelationKind, Trigger, TypeClass,
    },
    dialect::Dialect,
    ident,
};
use rusqlite::Connection;

use crate::{
    ddl,
    load::{self, LoadError},
};

/// The collation of a column whose collation the engine does not tell, as those of views: compare
/// as if it were none of the known ones.
pub const UNKNOWN_COLLATION: &str = "UNKNOWN";

/// What stands for the removal of rows that are in the way, where a table's own constraints say so (`UNIQUE ON CONFLICT REPLACE`): no
/// statement shows it, and no policy of rows keeps it from any.
const REPLACES: &str = "replaced_rows";

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
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
    let triggers = triggers(conn)?;
    let mut relations = table_list(conn)?
        .into_iter()
        .map(|listed| relation(conn, &texts, &listed))
        .collect::<Result<Vec<_>, _>>()?;
    for def in &mut relations {
        let found = triggers.get(&Dialect::Sqlite.fold(&def.name));
        def.triggers = found.cloned().unwrap_or_default();
        let text = texts.get(&Dialect::Sqlite.fold(&def.name));
        if def.kind == RelationKind::Table && text.is_some_and(|text| ddl::replaces_rows(text)) {
            def.triggers.push(Trigger {
                schema: "main".to_owned(),
                function: REPLACES.to_owned(),
                on: [Change::Insert, Change::Update].into(),
                columns: BTreeSet::new(),
            });
        }
    }
    relations.sort_by(|a, b| a.name.cmp(&b.name));
    complete_foreign_keys(&mut relations);
    let builder = Catalog::builder(Dialect::Sqlite).database(database);
    Ok(relations
        .into_iter()
        .fold(builder, |builder, def| builder.relation(def))
        .build()?)
}

/// The catalog that a script of statements makes: a schema file, or what `sqlite3 db .dump` prints.
///
/// The engine itself runs the script, in memory: tables may be altered, rows inserted. Statements
/// that reach files, other databases or code (ATTACH, VACUUM, temporary objects, unknown pragmas and
/// functions) are refused. The dump of a virtual table writes into `sqlite_schema` and is refused too;
/// give its `CREATE VIRTUAL TABLE` instead.
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

/// The stored texts by folded relation name.
fn stored_texts(conn: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = conn.prepare(
        "SELECT name, sql FROM main.sqlite_schema WHERE type IN ('table', 'view') AND sql IS NOT NULL",
    )?;
    let texts = statement.query_map([], |row| {
        Ok((Dialect::Sqlite.fold(&row.get::<_, String>(0)?), row.get(1)?))
    })?;
    texts.collect()
}

/// Triggers by the folded name of their table or view.
fn triggers(conn: &Connection) -> rusqlite::Result<HashMap<String, Vec<Trigger>>> {
    let mut statement =
        conn.prepare("SELECT tbl_name, name, sql FROM main.sqlite_schema WHERE type = 'trigger'")?;
    let mut rows = statement.query([])?;
    let mut triggers: HashMap<String, Vec<Trigger>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let table: String = row.get(0)?;
        let text: Option<String> = row.get(2)?;
        let (on, columns) = match text.as_deref().and_then(ddl::trigger_event) {
            Some((change, columns)) => (BTreeSet::from([change]), columns),
            None => (Change::ALL.into(), BTreeSet::new()),
        };
        triggers
            .entry(Dialect::Sqlite.fold(&table))
            .or_default()
            .push(Trigger {
                schema: "main".to_owned(),
                function: row.get(1)?,
                on,
                columns,
            });
    }
    Ok(triggers)
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
        foreign_keys(conn, name)?
    } else {
        Vec::new()
    };
    let unique_keys = match is_table {
        true => Some(keys::read(conn, name, &columns, rowid_alias.as_deref())?),
        false => None,
    };
    let definition = match listed.kind {
        RelationKind::View => text.and_then(ddl::view_query).map(str::to_owned),
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
                    text.and_then(|text| ddl::generated_expression(text, &column.name))
                        .ok_or_else(|| IntrospectError::Generated {
                            relation: name.clone(),
                            column: column.name.clone(),
                        })?
                        .to_owned(),
                ),
            };
            let is_rowid = rowid_alias.as_ref() == Some(&column.name);
            let class = TypeClass::of(Dialect::Sqlite, &column.type_name);
            Ok(ColumnDef {
                filled: match (&generated, &column.default) {
                    (Some(_), _) => Filled::Unknown,
                    (None, _) if is_rowid => Filled::Unknown,
                    (None, None) => Filled::Null,
                    (None, Some(text)) => {
                        Filled::by(text, class, &column.type_name, Dialect::Sqlite)
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
    conn.prepare(&format!("SELECT * FROM main.{}", ident::quoted(view)))
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

fn foreign_keys(conn: &Connection, relation: &str) -> Result<Vec<ForeignKey>, IntrospectError> {
    let action = |text: String| {
        ReferenceAction::from_sql(&text).ok_or_else(|| IntrospectError::Action {
            relation: relation.to_owned(),
            action: text,
        })
    };
    let mut statement = conn.prepare(&pragma("foreign_key_list", relation))?;
    let mut rows = statement.query([])?;
    // By number; the columns of each by position: its own, and the referenced one if the key names it.
    let mut keys: BTreeMap<i64, (ForeignKey, KeyColumns)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let key = ForeignKey {
            columns: Vec::new(),
            // A key never leaves its database file.
            schema: "main".to_owned(),
            table: row.get("table")?,
            references: Vec::new(),
            on_delete: action(row.get("on_delete")?)?,
            on_update: action(row.get("on_update")?)?,
        };
        let (_, columns) = keys
            .entry(row.get("id")?)
            .or_insert_with(|| (key, KeyColumns::new()));
        columns.insert(row.get("seq")?, (row.get("from")?, row.get("to")?));
    }
    Ok(keys
        .into_values()
        .map(|(mut key, pairs)| {
            let (columns, references): (Vec<_>, Vec<_>) = pairs.into_values().unzip();
            key.columns = columns;
            key.references = references.into_iter().flatten().collect();
            key
        })
        .collect())
}

type KeyColumns = BTreeMap<i64, (String, Option<String>)>;

/// Fills in what `REFERENCES parent` leaves out.
fn complete_foreign_keys(relations: &mut [RelationDef]) {
    let fold = |name: &str| Dialect::Sqlite.fold(name);
    let primary_keys: HashMap<String, Vec<String>> = relations
        .iter()
        .map(|r| (fold(&r.name), r.primary_key.clone()))
        .collect();
    for key in relations.iter_mut().flat_map(|r| &mut r.foreign_keys) {
        if key.references.is_empty() {
            key.references = primary_keys
                .get(&fold(&key.table))
                .cloned()
                .unwrap_or_default();
        }
    }
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

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::collections::BTreeSet;

    use palisade::catalog::{Column, Relation};

    use super::*;

    fn load(ddl: &str) -> Catalog {
        catalog_from_ddl(ddl, "shop").unwrap()
    }

    fn uids(catalog: &Catalog, kind: RelationKind) -> BTreeSet<&str> {
        catalog
            .relations()
            .iter()
            .filter(|r| r.kind == kind)
            .map(|r| r.uid.as_str())
            .collect()
    }

    fn relation<'a>(catalog: &'a Catalog, name: &str) -> &'a Relation {
        catalog
            .find("main", name)
            .unwrap_or_else(|| panic!("no {name}"))
    }

    fn column<'a>(relation: &'a Relation, key: &str) -> &'a Column {
        relation.column(relation.position(key).unwrap()).unwrap()
    }

    #[test]
    fn a_table_with_everything() {
        let catalog = load(
            "CREATE TABLE Customers (
               id INTEGER PRIMARY KEY, Email TEXT NOT NULL COLLATE nocase, age INT, note,
               vip BOOLEAN, since DATETIME, price DECIMAL(10,2), weight DOUBLE PRECISION, raw BLOB,
               lower_email TEXT GENERATED ALWAYS AS (lower(Email)) STORED, twice AS (age * 2));
             CREATE TABLE \"Odd 'name\" (a ANY, b TEXT, PRIMARY KEY (b, a)) STRICT, WITHOUT ROWID;",
        );
        assert_eq!(catalog.database(), "shop");
        let customers = relation(&catalog, "CUSTOMERS");
        assert_eq!(customers.name, "Customers");
        assert_eq!(customers.uid, "main.customers");
        assert_eq!(customers.kind, RelationKind::Table);
        assert!(customers.has_rowid && !customers.strict && customers.definition.is_none());
        assert_eq!(customers.rowid_alias, Some(0));
        assert_eq!(customers.primary_key, [0]);
        let classes: Vec<_> = customers
            .columns
            .iter()
            .map(|c| (&*c.key, c.class))
            .collect();
        assert_eq!(
            classes,
            [
                ("id", TypeClass::Integer),
                ("email", TypeClass::Text),
                ("age", TypeClass::Integer),
                ("note", TypeClass::Other),
                ("vip", TypeClass::Boolean),
                ("since", TypeClass::Other),
                ("price", TypeClass::Number),
                ("weight", TypeClass::Number),
                ("raw", TypeClass::Blob),
                ("lower_email", TypeClass::Text),
                ("twice", TypeClass::Other),
            ]
        );
        assert!(!column(customers, "id").nullable);
        assert!(!column(customers, "email").nullable);
        assert!(column(customers, "age").nullable);
        assert_eq!(column(customers, "email").collation, "NOCASE");
        assert_eq!(column(customers, "note").collation, "BINARY");
        assert_eq!(
            column(customers, "lower_email").generated.as_deref(),
            Some("lower(Email)")
        );
        assert_eq!(
            column(customers, "twice").generated.as_deref(),
            Some("age * 2")
        );
        assert_eq!(column(customers, "age").generated, None);

        let odd = relation(&catalog, "odd 'name");
        assert!(odd.strict && !odd.has_rowid);
        assert_eq!(odd.rowid_alias, None);
        assert_eq!(odd.primary_key, [1, 0]);
        assert_eq!(column(odd, "a").class, TypeClass::Other);
        // The primary key of a table without row id cannot be NULL.
        assert!(!column(odd, "a").nullable && !column(odd, "b").nullable);
    }

    #[test]
    fn the_row_id_has_another_name_where_the_engine_says_so() {
        let check = |columns: &str, alias: Option<&str>, nullable: bool| {
            let ddl = format!("CREATE TABLE t ({columns}");
            let conn = load::memory(&ddl).unwrap();
            let catalog = super::catalog(&conn, "x").unwrap();
            let t = relation(&catalog, "t");
            let found = t.rowid_alias.and_then(|i| t.column(i)).map(|c| &*c.key);
            assert_eq!(found, alias, "{columns}");
            assert_eq!(t.columns[0].nullable, nullable, "{columns}");
            if t.has_rowid {
                // The engine names the column `rowid` stands for.
                let statement = conn.prepare("SELECT rowid FROM t").unwrap();
                assert_eq!(statement.column_name(0).unwrap(), alias.unwrap_or("rowid"));
            }
        };
        check("id INTEGER PRIMARY KEY)", Some("id"), false);
        check(
            "id integer primary key autoincrement, b)",
            Some("id"),
            false,
        );
        check("id INTEGER, b, PRIMARY KEY (id))", Some("id"), false);
        check("id INTEGER, b, PRIMARY KEY (id DESC))", Some("id"), false);
        check("id INTEGER UNIQUE PRIMARY KEY)", Some("id"), false);
        check("id INTEGER PRIMARY KEY DESC)", None, true);
        check("id INT PRIMARY KEY)", None, true);
        check("id BIGINT PRIMARY KEY)", None, true);
        check("id TEXT UNIQUE PRIMARY KEY)", None, true);
        check("id INTEGER, b, PRIMARY KEY (id, b))", None, true);
        check("id INTEGER PRIMARY KEY) WITHOUT ROWID", None, false);
        check("id INTEGER)", None, true);
    }

    #[test]
    fn unique_keys() {
        let check = |ddl: &str, expected: &[&str]| {
            let catalog = load(ddl);
            let t = relation(&catalog, "t");
            let names = |indexes: &[u16]| -> String {
                let names = indexes.iter().map(|i| &*t.column(*i).unwrap().name);
                names.collect::<Vec<_>>().join(",")
            };
            let mut found: Vec<String> = (t.unique_keys.as_ref().unwrap().iter())
                .map(|key| {
                    let name = key.name.as_deref().unwrap_or("-");
                    let sort = if key.plain { "plain" } else { "other" };
                    format!(
                        "{name} {} [{}] {sort}",
                        names(&key.columns),
                        names(&key.filled)
                    )
                })
                .collect();
            found.sort();
            assert_eq!(found, expected, "{ddl}");
        };
        check(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
            &["- id [] plain"],
        );
        check("CREATE TABLE t (a, b)", &[]);
        check(
            "CREATE TABLE t (id INT PRIMARY KEY DESC, a UNIQUE DEFAULT 3, b DEFAULT NULL, c, UNIQUE (c, b))",
            &["- a [a] plain", "- c,b [] plain", "- id [] plain"],
        );
        check(
            "CREATE TABLE t (a, b, PRIMARY KEY (b, a)) WITHOUT ROWID",
            &["- b,a [] plain"],
        );
        check(
            "CREATE TABLE t (a TEXT COLLATE NOCASE, b TEXT, \"c d\", e);
             CREATE UNIQUE INDEX one ON t (a); CREATE UNIQUE INDEX two ON t (a COLLATE BINARY);
             CREATE UNIQUE INDEX three ON t (lower(b), a DESC); CREATE UNIQUE INDEX four ON t (b) WHERE [c d] > 1;
             CREATE INDEX five ON t (e);",
            &["four b,c d [] other", "one a [] plain", "three a,b [] other", "two a [] other"],
        );
    }

    #[test]
    fn foreign_keys_in_order_of_their_ids() {
        let catalog = load(
            "CREATE TABLE p (a, b, PRIMARY KEY (a, b)); CREATE TABLE q (id INTEGER PRIMARY KEY);
             CREATE TABLE c (x, y, z REFERENCES Q, w REFERENCES gone(k), FOREIGN KEY (y, x) REFERENCES p (b, a), FOREIGN KEY (x, y) REFERENCES p);",
        );
        let mut keys: Vec<_> = relation(&catalog, "c")
            .foreign_keys
            .iter()
            .map(|k| {
                format!(
                    "{} -> {}({})",
                    k.columns.join(","),
                    k.table,
                    k.references.join(",")
                )
            })
            .collect();
        keys.sort();
        assert_eq!(
            keys,
            [
                "w -> gone(k)",
                "x,y -> p(a,b)",
                "y,x -> p(b,a)",
                "z -> Q(id)"
            ]
        );
    }

    #[test]
    fn what_foreign_keys_do() {
        let catalog = load(
            "CREATE TABLE p (a PRIMARY KEY);
             CREATE TABLE c (u REFERENCES p ON DELETE CASCADE ON UPDATE SET NULL, v REFERENCES p ON UPDATE SET DEFAULT ON DELETE RESTRICT,
                 w REFERENCES p ON DELETE NO ACTION ON UPDATE CASCADE, x REFERENCES p, FOREIGN KEY (x) REFERENCES p ON DELETE SET NULL);",
        );
        let mut keys: Vec<_> = relation(&catalog, "c")
            .foreign_keys
            .iter()
            .map(|k| {
                assert_eq!(k.schema, "main");
                format!("{} {:?} {:?}", k.columns[0], k.on_delete, k.on_update)
            })
            .collect();
        keys.sort();
        assert_eq!(
            keys,
            [
                "u Cascade SetNull",
                "v Refuse SetDefault",
                "w Refuse Cascade",
                "x Refuse Refuse",
                "x SetNull Refuse"
            ]
        );
    }

    #[test]
    fn triggers_and_what_sets_them_off() {
        let catalog = load(
            "CREATE TABLE T (a, b); CREATE TABLE u (a); CREATE VIEW v AS SELECT a FROM t;
             CREATE TRIGGER \"After Insert\" BEFORE DELETE ON t BEGIN INSERT INTO u VALUES (1); END;
             CREATE TRIGGER ins INSERT ON t WHEN NEW.a > 1 BEGIN DELETE FROM u; END;
             CREATE TRIGGER upd AFTER UPDATE OF a, b ON t BEGIN SELECT 1; END;
             CREATE TRIGGER instead INSTEAD OF UPDATE ON v BEGIN SELECT 1; END;
             CREATE TRIGGER gone AFTER INSERT ON u BEGIN SELECT 1; END; DROP TRIGGER gone;
             ALTER TABLE u RENAME TO w;
             CREATE TRIGGER after_u AFTER INSERT ON w BEGIN SELECT 1; END; ALTER TABLE w RENAME TO x;",
        );
        let of = |name: &str| -> Vec<(&str, Vec<&str>)> {
            relation(&catalog, name)
                .triggers
                .iter()
                .map(|t| {
                    assert_eq!(t.schema, "main");
                    (t.function.as_str(), t.on.iter().map(|c| c.name()).collect())
                })
                .collect()
        };
        assert_eq!(
            of("t"),
            [
                ("After Insert", vec!["delete"]),
                ("ins", vec!["insert"]),
                ("upd", vec!["update"])
            ]
        );
        assert_eq!(of("v"), [("instead", vec!["update"])]);
        assert_eq!(of("x"), [("after_u", vec!["insert"])]);
        assert!(catalog.function("main.\"after insert\"").is_some());
    }

    #[test]
    fn constraints_that_replace_rows_are_triggers() {
        let catalog = load(
            "CREATE TABLE t (a UNIQUE ON CONFLICT REPLACE, b); CREATE TABLE u (a UNIQUE ON CONFLICT ABORT);",
        );
        assert!(relation(&catalog, "u").triggers.is_empty());
        let [only] = relation(&catalog, "t").triggers.as_slice() else {
            panic!("{:?}", relation(&catalog, "t").triggers);
        };
        assert_eq!(only.function, "replaced_rows");
        let on: Vec<_> = only.on.iter().map(|change| change.name()).collect();
        assert_eq!(on, ["insert", "update"]);
    }

    #[test]
    fn views_keep_their_names_and_query() {
        let catalog = load(
            "CREATE TABLE t (a TEXT COLLATE NOCASE NOT NULL, b);
             CREATE VIEW v (x, \"y as (\") AS -- why
               SELECT a, b FROM t;
             CREATE VIEW w AS WITH c AS (SELECT a FROM t) SELECT * FROM c;
             CREATE VIEW broken AS SELECT * FROM gone;
             CREATE VIEW short (a, b) AS SELECT 1;",
        );
        let v = relation(&catalog, "v");
        assert_eq!(v.kind, RelationKind::View);
        let names: Vec<_> = v.columns.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["x", "y as ("]);
        assert_eq!(
            v.definition.as_deref(),
            Some("-- why\n               SELECT a, b FROM t")
        );
        assert!(!v.has_rowid && v.columns.iter().all(|c| c.nullable));
        assert_eq!(v.columns[0].collation, UNKNOWN_COLLATION);
        assert_eq!(v.columns[0].class, TypeClass::Text);
        assert_eq!(
            relation(&catalog, "w").definition.as_deref(),
            Some("WITH c AS (SELECT a FROM t) SELECT * FROM c")
        );
        for name in ["broken", "short"] {
            let broken = relation(&catalog, name);
            assert!(
                broken.columns.is_empty() && broken.definition.is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn virtual_shadow_and_system_tables_are_told_apart() {
        let catalog = load(
            "CREATE VIRTUAL TABLE notes USING fts5(body); CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
             CREATE TABLE s (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO s DEFAULT VALUES;
             CREATE INDEX i ON s (id); ANALYZE;",
        );
        assert_eq!(
            uids(&catalog, RelationKind::Table),
            BTreeSet::from(["main.s"])
        );
        let system = uids(&catalog, RelationKind::System);
        for name in [
            "main.sqlite_schema",
            "main.sqlite_sequence",
            "main.sqlite_stat1",
        ] {
            assert!(system.contains(name), "{name} in {system:?}");
        }
        let found = uids(&catalog, RelationKind::Virtual);
        for name in [
            "main.notes",
            "main.notes_content",
            "main.notes_data",
            "main.boxes",
            "main.boxes_node",
        ] {
            assert!(found.contains(name), "{name} in {found:?}");
        }
        // FTS5 hides columns named like the table and `rank`.
        let names: Vec<_> = relation(&catalog, "notes")
            .columns
            .iter()
            .map(|c| &*c.key)
            .collect();
        assert_eq!(names, ["body"]);
    }

    #[test]
    fn a_virtual_table_without_its_module_has_no_columns() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE t (a); PRAGMA writable_schema=ON;
             INSERT INTO sqlite_schema VALUES ('table', 'w', 'w', 0, 'CREATE VIRTUAL TABLE w USING nosuch(a)');
             PRAGMA writable_schema=RESET;",
        )
        .unwrap();
        let catalog = super::catalog(&conn, "x").unwrap();
        assert_eq!(relation(&catalog, "w").kind, RelationKind::Virtual);
        assert!(relation(&catalog, "w").columns.is_empty());
        assert_eq!(relation(&catalog, "t").columns.len(), 1);
    }

    #[test]
    fn attached_and_temporary_relations_are_not_listed() {
        let conn = load::memory("CREATE TABLE t (a, b)").unwrap();
        conn.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_ATTACHED, 2)
            .unwrap();
        conn.execute_batch(
            "ATTACH ':memory:' AS o; CREATE TABLE o.elsewhere (a); CREATE TEMP TABLE t (c); CREATE TEMP VIEW z AS SELECT 1;",
        )
        .unwrap();
        let catalog = super::catalog(&conn, "x").unwrap();
        assert_eq!(
            uids(&catalog, RelationKind::Table),
            BTreeSet::from(["main.t"])
        );
        assert!(uids(&catalog, RelationKind::View).is_empty());
        assert_eq!(relation(&catalog, "t").columns.len(), 2);
    }

    #[test]
    fn tables_called_like_pragmas_do_not_mislead() {
        let catalog = load(
            "CREATE TABLE pragma_table_list (schema, name, type, wr, strict);
             CREATE TABLE pragma_table_xinfo (name, type);",
        );
        assert_eq!(uids(&catalog, RelationKind::Table).len(), 2);
    }

    #[test]
    fn dumps_load() {
        let catalog = load(
            "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n\
             CREATE TABLE c (id INTEGER PRIMARY KEY AUTOINCREMENT, p REFERENCES parent(id), t TEXT);\n\
             INSERT INTO c VALUES(1,7,unistr('a\\u000ab')),(2,8,replace('x\\n','\\n',char(10)));\n\
             CREATE TABLE parent (id INTEGER PRIMARY KEY);\n\
             ANALYZE sqlite_schema;\nINSERT INTO sqlite_stat1 VALUES('c','i','2 1');\n\
             DELETE FROM sqlite_sequence;\nINSERT INTO sqlite_sequence VALUES('c',2);\n\
             CREATE VIEW v AS SELECT id FROM c;\n\
             CREATE TRIGGER g AFTER INSERT ON c BEGIN SELECT 1; UPDATE c SET t = 'x;' WHERE id = new.id; END;\n\
             CREATE INDEX i ON c (t);\nCOMMIT;\n",
        );
        assert_eq!(uids(&catalog, RelationKind::Table).len(), 2);
        assert_eq!(uids(&catalog, RelationKind::View).len(), 1);
    }

    #[test]
    fn alterations_are_followed() {
        let catalog = load(
            "CREATE TABLE a (x, y); CREATE VIEW v AS SELECT x FROM a;
             ALTER TABLE a RENAME TO b; ALTER TABLE b RENAME COLUMN x TO z;
             ALTER TABLE b ADD COLUMN g AS (z || ')'); ALTER TABLE b DROP COLUMN y;",
        );
        let b = relation(&catalog, "b");
        let names: Vec<_> = b.columns.iter().map(|c| &*c.key).collect();
        assert_eq!(names, ["z", "g"]);
        assert_eq!(column(b, "g").generated.as_deref(), Some("z || ')'"));
        let definition = relation(&catalog, "v").definition.as_deref();
        assert_eq!(definition, Some("SELECT z FROM \"b\""));
    }

    #[test]
    fn what_reaches_outside_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.db");
        let path = path.display();
        let check = |statement: &str, action: &str| {
            let ddl = format!("CREATE TABLE t (a);\n\n{statement};");
            match catalog_from_ddl(&ddl, "x").unwrap_err() {
                IntrospectError::Load(LoadError::Refused {
                    line: 3,
                    action: found,
                }) => {
                    assert_eq!(found, action, "{statement}");
                }
                other => panic!("{statement}: {other:?}"),
            }
        };
        check(&format!("ATTACH '{path}' AS o"), "ATTACH or VACUUM");
        check(&format!("VACUUM INTO '{path}'"), "ATTACH or VACUUM");
        check("SELECT load_extension('x')", "load_extension()");
        check("SELECT fts3_tokenizer('simple')", "fts3_tokenizer()");
        check("PRAGMA writable_schema=ON", "PRAGMA writable_schema");
        check(
            "PRAGMA temp_store_directory='/'",
            "PRAGMA temp_store_directory",
        );
        check("CREATE TEMP TABLE u (a)", "CREATE TEMP");
        check(
            "CREATE VIRTUAL TABLE u USING dbstat",
            "CREATE VIRTUAL TABLE … USING dbstat",
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn errors_name_the_line() {
        let error =
            catalog_from_ddl("CREATE TABLE t (a);\n\nCREATE TABLE t\n(a);", "x").unwrap_err();
        assert_eq!(error.to_string(), "line 3: table t already exists");
        let error = catalog_from_ddl("\nSELEC 1;", "x").unwrap_err();
        assert_eq!(error.to_string(), "line 2: near \"SELEC\": syntax error");
        let large = " ".repeat(load::MAX_SCRIPT_BYTES + 1);
        assert!(matches!(
            catalog_from_ddl(&large, "x"),
            Err(IntrospectError::Load(LoadError::TooLarge { .. }))
        ));
    }

    #[test]
    fn many_rows_load_in_linear_time() {
        let mut ddl = String::from("CREATE TABLE t (a, b);BEGIN;");
        for i in 0..20_000 {
            ddl.push_str(&format!(
                "INSERT INTO t VALUES({i},'some text of a row');\n"
            ));
        }
        ddl.push_str("COMMIT;");
        assert_eq!(
            load(&ddl)
                .relations()
                .iter()
                .filter(|r| r.kind == RelationKind::Table)
                .count(),
            1
        );
    }

    #[test]
    fn the_same_schema_has_the_same_version() {
        let ddl = "CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t;";
        assert_eq!(load(ddl).version(), load(ddl).version());
        assert_ne!(load(ddl).version(), load("CREATE TABLE t (a);").version());
    }
}
