//! Where tables are kept as they were.
//!
//! Statements of principals cannot name a companion: catalogs leave it out. A query that is asked as of a label reads it in the place of its
//! table.

use std::collections::BTreeMap;

/// The relation that holds every state of a table's rows: the table's columns, and the transactions from [`FROM`](crate::past::FROM) to
/// [`TO`](crate::past::TO).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Companion {
    /// Its schema, as declared.
    pub schema: String,
    /// Its name, as declared.
    pub name: String,
}

/// Companions by the schema and name of their tables, as the server spells them.
#[derive(Debug, Clone, Default)]
pub(in crate::catalog) struct Companions(BTreeMap<(String, String), Companion>);

impl Companions {
    /// Adds the companion of a table.
    pub(in crate::catalog) fn add(
        &mut self,
        schema: String,
        relation: String,
        companion: Companion,
    ) {
        self.0.insert((schema, relation), companion);
    }

    /// The companion of a table.
    pub(in crate::catalog) fn get(&self, schema: &str, relation: &str) -> Option<&Companion> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(schema.to_owned(), relation.to_owned()))
    }

    /// Whether there is none.
    pub(in crate::catalog) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
