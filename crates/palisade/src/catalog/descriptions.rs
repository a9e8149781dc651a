//! What a database says of its relations and types beside what they are: comments, the labels of enumerations, indexes, about how
//! many rows there are, and what engine it is.
//!
//! Nothing is decided by it. So it is no part of a catalog's text or version.

use std::collections::BTreeMap;

/// Characters of a comment that are kept.
const MAX_COMMENT: usize = 500;
/// Labels of a type that are kept.
const MAX_LABELS: usize = 100;
/// Characters of an engine's name and version.
const MAX_ENGINE: usize = 80;

/// Texts by the names of what they are about, as the server spells them.
#[derive(Debug, Clone, Default)]
pub(in crate::catalog) struct Descriptions {
    /// By schema, relation, and column where it is of one.
    comments: BTreeMap<(String, String, Option<String>), String>,
    /// By the type's qualified name.
    labels: BTreeMap<String, Vec<String>>,
    /// The columns of each index that is no key, by schema and table.
    indexes: BTreeMap<(String, String), Vec<Vec<String>>>,
    /// About how many rows a table has, by schema and table.
    rows: BTreeMap<(String, String), u64>,
    /// The engine and its version.
    engine: Option<String>,
}

impl Descriptions {
    /// Adds a comment; an empty text says nothing.
    pub(in crate::catalog) fn add_comment(
        &mut self,
        schema: String,
        relation: String,
        column: Option<String>,
        text: &str,
    ) {
        if text.trim().is_empty() {
            return;
        }
        let mut kept: String = text.chars().take(MAX_COMMENT).collect();
        if kept.len() < text.len() {
            kept.push('…');
        }
        self.comments.insert((schema, relation, column), kept);
    }

    /// Adds the labels of the enumeration with this qualified name.
    pub(in crate::catalog) fn add_labels(&mut self, name: String, mut labels: Vec<String>) {
        labels.truncate(MAX_LABELS);
        self.labels.insert(name, labels);
    }

    /// Adds an index of these columns, unless there is one of the same.
    pub(in crate::catalog) fn add_index(
        &mut self,
        schema: String,
        relation: String,
        columns: Vec<String>,
    ) {
        let indexes = self.indexes.entry((schema, relation)).or_default();
        if !columns.is_empty() && !indexes.contains(&columns) {
            indexes.push(columns);
        }
    }

    /// Adds about how many rows a table has.
    pub(in crate::catalog) fn add_rows(&mut self, schema: String, relation: String, rows: u64) {
        self.rows.insert((schema, relation), rows);
    }

    /// Says which engine it is.
    pub(in crate::catalog) fn set_engine(&mut self, engine: &str) {
        self.engine = Some(engine.chars().take(MAX_ENGINE).collect());
    }

    /// The columns of each index.
    pub(in crate::catalog) fn indexes(&self, schema: &str, relation: &str) -> &[Vec<String>] {
        let key = (schema.to_owned(), relation.to_owned());
        self.indexes.get(&key).map_or(&[], Vec::as_slice)
    }

    /// About how many rows there are.
    pub(in crate::catalog) fn rows(&self, schema: &str, relation: &str) -> Option<u64> {
        let key = (schema.to_owned(), relation.to_owned());
        self.rows.get(&key).copied()
    }

    /// The engine and its version.
    pub(in crate::catalog) fn engine(&self) -> Option<&str> {
        self.engine.as_deref()
    }

    /// What is said of a relation, or of a column of it.
    pub(in crate::catalog) fn comment(
        &self,
        schema: &str,
        relation: &str,
        column: Option<&str>,
    ) -> Option<&str> {
        let column = column.map(str::to_owned);
        let key = (schema.to_owned(), relation.to_owned(), column);
        self.comments.get(&key).map(String::as_str)
    }

    /// The labels of the enumeration with this name.
    pub(in crate::catalog) fn labels(&self, name: &str) -> Option<&[String]> {
        self.labels.get(name).map(Vec::as_slice)
    }
}
