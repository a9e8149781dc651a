//! The schema as it was when the catalog was read, beside what it is.
//!
//! A statement is decided by a catalog in memory, and by the time that it runs somebody may have replaced a view
//! or added a column. So each statement looks again, in its own transaction: first at no row of each relation it
//! reads, which locks their definitions until the transaction ends, then at the definitions.
//!
//! What `information_schema` says of a table takes the server ten times as long as the text that would make the table
//! anew. So a backend remembers that text of each table whose columns were found to be the catalog's while its
//! definition was locked: as long as it is the same, so are they. Where it is another (other indexes would do), or not
//! told, `information_schema` is asked.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use mysql_async::{Conn, Error, Row};
use palisade::{
    catalog::{Catalog, Relation, RelationKind, system_schemas},
    dialect::Dialect,
    guard::BackendError,
};

use crate::{
    introspect::{
        Described, IntrospectError, Name, Product, column, columns_sql, optional, query as rows_of,
        text,
    },
    settings::{identifier, literal},
};

/// How many cells a row has that is a view's definition.
const VIEW_CELLS: usize = 3;

/// How many cells a row has that is the name of a view where a table was.
const NAME_CELLS: usize = 2;

/// The texts that would make tables anew, by uid, of tables that were found to be the catalog's.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, Told>>);

/// What the server told of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Text(Arc<str>),
    /// That it is none of the account's business.
    Nothing,
}

impl Known {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Told>> {
        // Whoever panicked left a map of texts, each whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, uid: &str) -> Option<Told> {
        self.lock().get(uid).cloned()
    }

    /// The text that would make the table with this uid anew, as long as its definition is locked and was looked at.
    pub(crate) fn text(&self, uid: &str) -> Option<Arc<str>> {
        match self.get(uid)? {
            Told::Text(text) => Some(text),
            Told::Nothing => None,
        }
    }
}

/// What is asked of the relations of a statement.
pub(crate) struct Look<'a> {
    /// Statements of ours, each after a semicolon, whose rows [`verify`](Self::verify) takes.
    pub(crate) sql: String,
    /// Tables of which only the text is asked, in this order, with the texts that are known.
    brief: Vec<(&'a str, Arc<str>)>,
    /// The others.
    whole: Vec<&'a Relation>,
}

/// What a look found, if it is not that something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// A text is another than it was; whether that matters has to be asked.
    Unsure,
}

impl<'a> Look<'a> {
    /// A look at `relations`: a brief one at those whose texts are `known`.
    pub(crate) fn at(
        catalog: &'a Catalog,
        known: Option<&Known>,
        relations: &'a [String],
    ) -> Result<Self, BackendError> {
        let (mut sql, mut questions) = (String::new(), String::new());
        let (mut brief, mut whole) = (Vec::new(), Vec::new());
        for uid in relations.iter().filter(|uid| !is_system(uid)) {
            let relation = find(catalog, uid)?;
            let name = qualified_name(relation);
            sql.push_str(&format!("; SELECT 1 FROM {name} LIMIT 0"));
            match known.and_then(|known| known.get(uid)) {
                Some(Told::Text(text)) => {
                    questions.push_str(&format!("; SHOW CREATE TABLE {name}"));
                    brief.push((uid.as_str(), text));
                }
                Some(Told::Nothing) | None => {
                    questions.push_str(&ask_whole(relation));
                    whole.push(relation);
                }
            }
        }
        sql.push_str(&questions);
        Ok(Self { sql, brief, whole })
    }

    /// Whether anything was asked that the account may be told no more.
    pub(crate) fn is_brief(&self) -> bool {
        !self.brief.is_empty()
    }

    /// Forgets what was known of the tables that were looked at briefly.
    pub(crate) fn forget(&self, known: &Known) {
        let mut known = known.lock();
        for (uid, _) in &self.brief {
            known.remove(*uid);
        }
    }

    /// Checks that the relations are those of the catalog, by the rows that came.
    pub(crate) fn verify(&self, product: Product, rows: &[Row]) -> Result<Verdict, BackendError> {
        let Found {
            columns,
            views,
            no_tables,
            texts,
        } = sort(product, rows).map_err(|e| BackendError::unavailable(e.to_string()))?;
        for relation in &self.whole {
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
        let known = self.brief.iter().map(|(_, text)| &**text);
        if texts.len() == self.brief.len() && known.eq(texts.iter().map(String::as_str)) {
            Ok(Verdict::Same)
        } else {
            Ok(Verdict::Unsure)
        }
    }

    /// Learns the texts of the tables whose columns were found to be the catalog's, and whose definitions are still
    /// locked.
    pub(crate) async fn learn(&self, conn: &mut Conn, known: &Known) -> Result<(), Error> {
        for relation in &self.whole {
            if relation.kind != RelationKind::Table || known.get(&relation.uid).is_some() {
                continue;
            }
            let sql = format!("SHOW CREATE TABLE {}", qualified_name(relation));
            let told = match rows_of(conn, sql).await {
                Ok(rows) => match rows.first().and_then(create_table) {
                    Some(text) => Told::Text(text.into()),
                    None => Told::Nothing,
                },
                Err(Error::Server(_)) => Told::Nothing,
                Err(error) => return Err(error),
            };
            known.lock().insert(relation.uid.clone(), told);
        }
        Ok(())
    }
}

/// One pair of queries for each relation: with one name in its condition, MariaDB opens one table and not all.
fn ask_whole(relation: &Relation) -> String {
    let (schema, name) = (literal(&relation.schema), literal(&relation.name));
    let mut questions = format!(
        "; {}",
        columns_sql(&format!(
            "c.TABLE_SCHEMA = {schema} AND c.TABLE_NAME = {name}"
        ))
    );
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
    questions
}

/// The name of a relation with its database, quoted.
fn qualified_name(relation: &Relation) -> String {
    format!(
        "{}.{}",
        identifier(&relation.schema),
        identifier(&relation.name)
    )
}

fn find<'c>(catalog: &'c Catalog, uid: &str) -> Result<&'c Relation, BackendError> {
    catalog
        .relations()
        .iter()
        .find(|relation| relation.uid == uid)
        .ok_or_else(|| BackendError::second_lock(format!("`{uid}` is no relation")))
}

/// Whether a uid is of a relation of the server's own, which changes with its version only.
pub(crate) fn is_system(uid: &str) -> bool {
    let mut schemas = system_schemas(Dialect::Mysql).iter();
    schemas.any(|schema| {
        let rest = uid.strip_prefix(schema);
        rest.is_some_and(|rest| rest.starts_with('.'))
    })
}

/// What the rows say.
#[derive(Default)]
struct Found {
    columns: HashMap<Name, Vec<Described>>,
    /// Definitions; none of a view that the server does not explain.
    views: HashMap<Name, Option<String>>,
    /// Views, where tables were.
    no_tables: HashSet<Name>,
    /// Texts that would make tables anew, in the order in which they came; empty where that is no table.
    texts: Vec<String>,
}

fn sort(product: Product, rows: &[Row]) -> Result<Found, IntrospectError> {
    let mut found = Found::default();
    for row in rows {
        if answers_create(row) {
            found.texts.push(create_table(row).unwrap_or_default());
            continue;
        }
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

/// Whether a row is an answer to `SHOW CREATE TABLE`, which of a view and of a sequence has another form.
fn answers_create(row: &Row) -> bool {
    let columns = row.columns_ref();
    columns
        .get(1)
        .is_some_and(|column| column.name_str().starts_with("Create "))
}

/// The text that would make a table anew, but for the next number that it gives.
fn create_table(row: &Row) -> Option<String> {
    let columns = row.columns_ref();
    if columns.len() != 2 || columns.get(1)?.name_str() != "Create Table" {
        return None;
    }
    Some(without_next_number(&text(row, 1).ok()?))
}

/// Without the first ` AUTO_INCREMENT=n` after the columns: rows that come change it. There, a table has its engine,
/// collation and comment.
fn without_next_number(text: &str) -> String {
    const NEXT: &str = " AUTO_INCREMENT=";
    let number = || {
        let (columns, rest) = text.rsplit_once("\n) ")?;
        let (options, after) = rest.split_once(NEXT)?;
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        Some(format!("{columns}\n) {options}{after}"))
    };
    number().unwrap_or_else(|| text.to_owned())
}

/// Everything but the class, which the type's name decides, and MariaDB's JSON, which a condition does.
fn same_columns(relation: &Relation, found: &[Described]) -> bool {
    relation.columns.len() == found.len()
        && relation
            .column_ids()
            .zip(found)
            .all(|((id, was), described)| {
                let Described {
                    column: is,
                    is_retimed,
                } = described;
                *was.name == *is.name
                    && *was.type_name == *is.type_name
                    && was.nullable == is.nullable
                    && was.collation == is.collation
                    && was.generated == is.generated
                    && was.stored == is.stored
                    && (relation.kind != RelationKind::Table || was.filled == is.filled)
                    && relation.retimed.contains(&id.index) == *is_retimed
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_of_the_servers_own_are_in_its_schemas() {
        for (uid, expected) in [
            ("information_schema.TABLES", true),
            ("mysql.user", true),
            ("sys.session", true),
            ("mysqlx.user", false),
            ("mysql", false),
            ("shop.mysql", false),
        ] {
            assert_eq!(is_system(uid), expected, "{uid}");
        }
    }

    #[test]
    fn the_next_number_is_left_out() {
        for (text, expected) in [
            (
                "CREATE TABLE `t` (\n  `a` int COMMENT ' AUTO_INCREMENT=3'\n) ENGINE=InnoDB AUTO_INCREMENT=71 COMMENT='x'",
                "CREATE TABLE `t` (\n  `a` int COMMENT ' AUTO_INCREMENT=3'\n) ENGINE=InnoDB COMMENT='x'",
            ),
            (
                "CREATE TABLE `t` (\n  `a` int\n)",
                "CREATE TABLE `t` (\n  `a` int\n)",
            ),
        ] {
            assert_eq!(without_next_number(text), expected);
        }
    }
}
