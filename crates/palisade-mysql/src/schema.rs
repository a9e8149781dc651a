//! The schema as it was when the catalog was read, beside what it is.
//!
//! A statement is decided by a catalog in memory, and by the time that it runs somebody may have replaced a view
//! or added a column. So each statement looks again, in its own transaction: first at no row of each relation it
//! reads, which locks their definitions until the transaction ends, then at the definitions.

use std::collections::{HashMap, HashSet};

use mysql_async::Row;
use palisade::{
    catalog::{Catalog, ColumnDef, Relation, RelationKind},
    guard::BackendError,
};

use crate::{
    introspect::{IntrospectError, Name, Product, column, columns_sql, optional, text},
    settings::{identifier, literal},
};

/// How many cells a row has that is a view's definition.
const VIEW_CELLS: usize = 3;

/// How many cells a row has that is the name of a view where a table was.
const NAME_CELLS: usize = 2;

/// Statements of ours, each after a semicolon, whose rows [`verify`] takes.
///
/// One pair of queries for each relation: with one name in its condition, MariaDB opens one table and not all.
pub(crate) fn look(catalog: &Catalog, relations: &[String]) -> Result<String, BackendError> {
    let (mut locks, mut questions) = (String::new(), String::new());
    for uid in relations.iter().filter(|uid| !is_system(uid)) {
        let relation = find(catalog, uid)?;
        let (schema, name) = (&relation.schema, &relation.name);
        locks.push_str(&format!(
            "; SELECT 1 FROM {}.{} LIMIT 0",
            identifier(schema),
            identifier(name)
        ));
        let (schema, name) = (literal(schema), literal(name));
        questions.push_str("; ");
        questions.push_str(&columns_sql(&format!(
            "c.TABLE_SCHEMA = {schema} AND c.TABLE_NAME = {name}"
        )));
        questions.push_str(&match relation.kind {
            RelationKind::View => format!(
                "; SELECT v.TABLE_SCHEMA, v.TABLE_NAME, v.VIEW_DEFINITION FROM information_schema.VIEWS v \
                 WHERE v.TABLE_SCHEMA = {schema} AND v.TABLE_NAME = {name}"
            ),
            // That there is no view costs the server five times as much to say as that there is none among tables.
            RelationKind::Table
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => format!(
                "; SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t \
                 WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {name} AND t.TABLE_TYPE LIKE '%VIEW'"
            ),
        });
    }
    locks.push_str(&questions);
    Ok(locks)
}

/// Checks that the relations are those of the catalog, by the rows that [`look`] brought.
pub(crate) fn verify(
    catalog: &Catalog,
    product: Product,
    relations: &[String],
    rows: &[Row],
) -> Result<(), BackendError> {
    let Found {
        columns,
        views,
        no_tables,
    } = sort(product, rows).map_err(|e| BackendError::unavailable(e.to_string()))?;
    for uid in relations.iter().filter(|uid| !is_system(uid)) {
        let relation = find(catalog, uid)?;
        let name = (relation.schema.clone(), relation.name.clone());
        let found = columns.get(&name).map_or(&[][..], Vec::as_slice);
        let same_view = views.get(&name).map(Option::as_deref)
            == relation.definition.as_deref().map(Some)
            // Of a view that the server does not explain, the definition is empty.
            || (relation.definition.is_none() && views.get(&name) == Some(&None));
        if !same_view || no_tables.contains(&name) || !same_columns(relation, found) {
            return Err(BackendError::schema_changed("the schema changed"));
        }
    }
    Ok(())
}

fn find<'c>(catalog: &'c Catalog, uid: &str) -> Result<&'c Relation, BackendError> {
    catalog
        .relations()
        .iter()
        .find(|relation| relation.uid == uid)
        .ok_or_else(|| BackendError::second_lock(format!("`{uid}` is no relation")))
}

/// Whether a uid is of a relation of the server's own, which changes with its version only.
fn is_system(uid: &str) -> bool {
    uid.starts_with("information_schema.")
}

/// What the rows say.
#[derive(Default)]
struct Found {
    columns: HashMap<Name, Vec<ColumnDef>>,
    /// Definitions; none of a view that the server does not explain.
    views: HashMap<Name, Option<String>>,
    /// Views, where tables were.
    no_tables: HashSet<Name>,
}

fn sort(product: Product, rows: &[Row]) -> Result<Found, IntrospectError> {
    let mut found = Found::default();
    for row in rows {
        if row.len() == VIEW_CELLS {
            let definition = optional(row, 2)?.filter(|text| !text.is_empty());
            found
                .views
                .insert((text(row, 0)?, text(row, 1)?), definition);
            continue;
        }
        if row.len() == NAME_CELLS {
            found.no_tables.insert((text(row, 0)?, text(row, 1)?));
            continue;
        }
        let (relation, column) = column(row, product)?;
        found.columns.entry(relation).or_default().extend(column);
    }
    Ok(found)
}

/// Everything but the class, which the type's name decides, and MariaDB's JSON, which a condition does.
fn same_columns(relation: &Relation, found: &[ColumnDef]) -> bool {
    relation.columns.len() == found.len()
        && relation.columns.iter().zip(found).all(|(was, is)| {
            was.name == is.name
                && was.type_name == is.type_name
                && was.nullable == is.nullable
                && was.collation == is.collation
                && was.generated == is.generated
        })
}
