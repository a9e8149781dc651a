//! Columns as a backend describes them.

use std::collections::BTreeMap;

use crate::catalog::{default::DefaultValue, types::TypeClass};

/// What a backend knows of a column.
#[derive(Debug, Clone)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// The declared type.
    pub type_name: String,
    /// The class of the type.
    pub class: TypeClass,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation.
    pub collation: String,
    /// A generated column's expression.
    pub generated: Option<String>,
    /// Whether a generated column is kept with its row, so that nothing is computed where it is read; false where that is not known.
    pub stored: bool,
    /// What a new row has in it that is given no value.
    pub filled: DefaultValue,
}

/// Columns of the server's own relations, by schema and name, folded.
pub(in crate::catalog) type SystemColumns = BTreeMap<(String, String), Vec<ColumnDef>>;
