//! What a database says of its relations and types beside what they are: comments, and the labels of enumerations.
//!
//! Nothing is decided by it. So it is no part of a catalog's text or version.

use std::collections::BTreeMap;

/// Characters of a comment that are kept.
const MAX_COMMENT: usize = 500;
/// Labels of a type that are kept.
const MAX_LABELS: usize = 100;

/// Texts by the names of what they are about, as the server spells them.
#[derive(Debug, Clone, Default)]
pub(in crate::catalog) struct Descriptions {
    /// By schema, relation, and column where it is of one.
    comments: BTreeMap<(String, String, Option<String>), String>,
    /// By the type's qualified name.
    labels: BTreeMap<String, Vec<String>>,
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
