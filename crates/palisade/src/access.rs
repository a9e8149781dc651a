//! What a statement would do, as a set of (action, resource, usage): the question put to policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{ColumnId, RelationId};

/// How a column is used. One column may be used in several ways by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Usage {
    /// Its values reach the answer.
    Output,
    /// It decides which rows do (`WHERE`, `HAVING`, `FILTER`, `LIMIT`).
    Filter,
    /// It decides which rows meet (`ON`, `USING`, `NATURAL`).
    Join,
    /// It decides groups, partitions or distinctness.
    Group,
    /// It decides order.
    Order,
    /// It is read inside a view that the statement names.
    View,
}

impl Usage {
    /// The word for traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Filter => "filter",
            Self::Join => "join",
            Self::Group => "group",
            Self::Order => "order",
            Self::View => "view",
        }
    }
}

/// Everything a reading statement touches, views and what stands below them included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessSet {
    pub(crate) relations: BTreeSet<RelationId>,
    pub(crate) columns: BTreeMap<ColumnId, BTreeSet<Usage>>,
    pub(crate) functions: BTreeSet<String>,
    pub(crate) system: BTreeSet<(String, String)>,
}

impl AccessSet {
    /// The relations read.
    pub fn relations(&self) -> impl Iterator<Item = RelationId> {
        self.relations.iter().copied()
    }

    /// Schema and name of the engine's own relations that are read.
    pub fn system_relations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.system
            .iter()
            .map(|(schema, name)| (schema.as_str(), name.as_str()))
    }

    /// The columns read, each with how.
    pub fn columns(&self) -> impl Iterator<Item = (ColumnId, &BTreeSet<Usage>)> {
        self.columns.iter().map(|(id, usages)| (*id, usages))
    }

    /// Ids of the functions called, those behind operators and casts included.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(String::as_str)
    }

    /// Whether everything in `self` is in `other` too, usages aside.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.relations.is_subset(&other.relations)
            && self.functions.is_subset(&other.functions)
            && self.system.is_subset(&other.system)
            && self
                .columns
                .keys()
                .all(|column| other.columns.contains_key(column))
    }
}
