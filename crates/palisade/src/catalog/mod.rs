//! The catalog: an immutable snapshot of what a database holds, as facts without policy.
//!
//! A backend fills a [`CatalogBuilder`]; the rest of the firewall looks things up by the keys of
//! [`Dialect::fold`]. Nothing here decides.

mod builder;
pub mod functions;

use std::collections::HashMap;

pub use builder::{CatalogBuilder, CatalogError, ColumnDef, RelationDef};

use crate::{dialect::Dialect, ident};

/// A relation's position in its catalog. Meaningless in another catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(pub(crate) u32);

/// A column of a relation, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId {
    /// The relation it belongs to.
    pub relation: RelationId,
    /// Its position in [`Relation::columns`].
    pub index: u16,
}

/// An immutable snapshot of a database's relations.
#[derive(Debug, Clone)]
pub struct Catalog {
    dialect: Dialect,
    database: String,
    relations: Vec<Relation>,
    by_key: HashMap<(String, String), RelationId>,
    version: String,
}

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RelationKind {
    /// A base table.
    Table,
    /// A view; [`Relation::definition`] holds its query.
    View,
    /// A virtual table, or a shadow table behind one. Not readable until its storage is modelled.
    Virtual,
    /// A relation of the engine's own, such as `sqlite_schema`. Not readable.
    System,
}

/// A table or view.
#[derive(Debug, Clone)]
pub struct Relation {
    /// Its id in this catalog.
    pub id: RelationId,
    /// The schema's name as declared.
    pub schema: String,
    /// Its name as declared.
    pub name: String,
    /// The qualified name that policies use (`main.customers`): folded, quoted where not plain.
    pub uid: String,
    /// What it is.
    pub kind: RelationKind,
    /// Its columns in the order `*` lists them, hidden ones left out.
    pub columns: Vec<Column>,
    /// Whether the engine enforces declared types (SQLite's STRICT tables).
    pub strict: bool,
    /// The column that `rowid`, `oid` and `_rowid_` are other names of (SQLite's INTEGER PRIMARY KEY).
    pub rowid_alias: Option<u16>,
    /// Whether the relation has a row id at all.
    pub has_rowid: bool,
    /// Positions of the primary key's columns, in key order.
    pub primary_key: Vec<u16>,
    /// Foreign keys: own columns, referenced relation's uid, referenced columns' names.
    pub foreign_keys: Vec<ForeignKey>,
    /// The query of a view, as text in the catalog's dialect; `None` for a table, or when unknown.
    pub definition: Option<String>,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Names of the referencing columns.
    pub columns: Vec<String>,
    /// The referenced table's name, as declared.
    pub table: String,
    /// Names of the referenced columns.
    pub references: Vec<String>,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name as declared.
    pub name: String,
    /// The key it is looked up by.
    pub key: String,
    /// The qualified name that policies use (`main.customers.email`).
    pub uid: String,
    /// The declared type, empty if none.
    pub type_name: String,
    /// What values of the type are, for policies and leak-proof comparisons.
    pub class: TypeClass,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation that comparisons use, upper-case (`BINARY`, `NOCASE`, …).
    pub collation: String,
    /// For a generated column, the expression's text, whose columns it is computed from.
    pub generated: Option<String>,
}

/// A class of types whose values compare among themselves without conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeClass {
    /// Whole numbers.
    Integer,
    /// Floating-point or unconstrained numbers.
    Number,
    /// Booleans; on SQLite, integers declared BOOLEAN.
    Boolean,
    /// Character strings.
    Text,
    /// Bytes.
    Blob,
    /// Anything else, or no declared type.
    Other,
}

impl Catalog {
    /// A builder for a catalog of `dialect`.
    #[must_use]
    pub fn builder(dialect: Dialect) -> CatalogBuilder {
        CatalogBuilder::new(dialect)
    }

    /// The dialect its texts are in.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The database's name, `Database::"…"` in policies.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// A digest of everything in the catalog: equal versions, equal contents.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Every relation, in the order of their ids.
    #[must_use]
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The relation called `schema.name`; both are folded here.
    #[must_use]
    pub fn find(&self, schema: &str, name: &str) -> Option<&Relation> {
        let key = (self.dialect.fold(schema), self.dialect.fold(name));
        self.by_key.get(&key).and_then(|id| self.relation(*id))
    }

    /// The relation with this id; `None` for an id of another catalog.
    #[must_use]
    pub fn relation(&self, id: RelationId) -> Option<&Relation> {
        self.relations.get(usize::try_from(id.0).ok()?)
    }

    /// The column with this id; `None` for an id of another catalog.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.relation(id.relation)?.column(id.index)
    }
}

impl Relation {
    /// The column at `index`.
    #[must_use]
    pub fn column(&self, index: u16) -> Option<&Column> {
        self.columns.get(usize::from(index))
    }

    /// The position of the column whose key is `key`.
    #[must_use]
    pub fn position(&self, key: &str) -> Option<u16> {
        self.columns
            .iter()
            .position(|c| c.key == key)
            .and_then(|i| u16::try_from(i).ok())
    }

    /// The ids of its columns with the columns.
    pub fn column_ids(&self) -> impl Iterator<Item = (ColumnId, &Column)> {
        (0u16..).zip(&self.columns).map(|(index, column)| {
            (
                ColumnId {
                    relation: self.id,
                    index,
                },
                column,
            )
        })
    }

    /// Its columns' uid, for a column named `key` in this relation.
    #[must_use]
    pub(crate) fn column_uid(dialect: Dialect, schema: &str, name: &str, column: &str) -> String {
        ident::qualified([
            dialect.fold(schema).as_str(),
            dialect.fold(name).as_str(),
            dialect.fold(column).as_str(),
        ])
    }
}
