//! Filling a catalog: a backend, a test or an embedder says what there is.

use std::collections::{HashMap, HashSet};

use super::{Catalog, Column, ForeignKey, Relation, RelationId, RelationKind, TypeClass};
use crate::{dialect::Dialect, digest::sha256_hex, ident};

/// A catalog that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Two relations with one name.
    #[error("the catalog names relation `{0}` twice")]
    DuplicateRelation(String),
    /// Two columns with one name.
    #[error("the catalog names column `{0}` twice")]
    DuplicateColumn(String),
    /// More relations or columns than ids.
    #[error("the catalog is too large: {0}")]
    TooLarge(String),
}

/// What a backend knows of a relation.
#[derive(Debug, Clone)]
pub struct RelationDef {
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: RelationKind,
    /// Its columns in order.
    pub columns: Vec<ColumnDef>,
    /// Whether declared types are enforced.
    pub strict: bool,
    /// Whether it has a row id.
    pub has_rowid: bool,
    /// Name of the column that is the row id.
    pub rowid_alias: Option<String>,
    /// Names of the primary key's columns.
    pub primary_key: Vec<String>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// A view's query.
    pub definition: Option<String>,
}

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
}

/// Collects relations and makes an immutable [`Catalog`] of them.
#[derive(Debug, Clone)]
pub struct CatalogBuilder {
    dialect: Dialect,
    database: String,
    relations: Vec<RelationDef>,
}

impl CatalogBuilder {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            database: dialect.default_schema().to_owned(),
            relations: Vec::new(),
        }
    }

    /// Names the database (`Database::"…"` in policies); the default schema's name if not called.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = name.into();
        self
    }

    /// Adds a relation.
    #[must_use]
    pub fn relation(mut self, relation: RelationDef) -> Self {
        self.relations.push(relation);
        self
    }

    /// The catalog.
    ///
    /// # Errors
    /// If two relations, or two columns of one relation, have the same key.
    pub fn build(self) -> Result<Catalog, CatalogError> {
        let dialect = self.dialect;
        let version = sha256_hex(format!("{self:?}").as_bytes());
        let mut relations = Vec::with_capacity(self.relations.len());
        let mut by_key = HashMap::new();
        for (index, def) in self.relations.into_iter().enumerate() {
            let id = RelationId(
                u32::try_from(index).map_err(|_| CatalogError::TooLarge("relations".to_owned()))?,
            );
            let key = (dialect.fold(&def.schema), dialect.fold(&def.name));
            let uid = ident::qualified([key.0.as_str(), key.1.as_str()]);
            if by_key.insert(key, id).is_some() {
                return Err(CatalogError::DuplicateRelation(uid));
            }
            relations.push(relation(dialect, id, uid, def)?);
        }
        Ok(Catalog {
            dialect,
            database: self.database,
            relations,
            by_key,
            version,
        })
    }
}

fn relation(
    dialect: Dialect,
    id: RelationId,
    uid: String,
    def: RelationDef,
) -> Result<Relation, CatalogError> {
    if def.columns.len() > usize::from(u16::MAX) {
        return Err(CatalogError::TooLarge(uid));
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::with_capacity(def.columns.len());
    for column in def.columns {
        let key = dialect.fold(&column.name);
        let column_uid = Relation::column_uid(dialect, &def.schema, &def.name, &column.name);
        if !seen.insert(key.clone()) {
            return Err(CatalogError::DuplicateColumn(column_uid));
        }
        columns.push(Column {
            name: column.name,
            key,
            uid: column_uid,
            type_name: column.type_name,
            class: column.class,
            nullable: column.nullable,
            collation: column.collation,
            generated: column.generated,
        });
    }
    let position = |name: &str| {
        let key = dialect.fold(name);
        columns
            .iter()
            .position(|c| c.key == key)
            .and_then(|i| u16::try_from(i).ok())
    };
    Ok(Relation {
        id,
        uid,
        rowid_alias: def.rowid_alias.as_deref().and_then(position),
        primary_key: def
            .primary_key
            .iter()
            .filter_map(|name| position(name))
            .collect(),
        schema: def.schema,
        name: def.name,
        kind: def.kind,
        columns,
        strict: def.strict,
        has_rowid: def.has_rowid,
        foreign_keys: def.foreign_keys,
        definition: def.definition,
    })
}
