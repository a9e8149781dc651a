//! The catalog: an immutable snapshot of what a database holds, as facts without policy.
//!
//! A backend fills a [`CatalogBuilder`], or a catalog is read from a snapshot ([`Catalog::from_snapshot`]).
//! The crate `palisade-ddl` reads one from the text of a schema.
//! The rest of the firewall looks things up by the keys of [`Dialect::fold`]. Nothing here decides.

mod builder;
mod cascades;
mod column_def;
mod companion;
mod default;
mod descriptions;
pub mod functions;
mod generated;
mod key_equality;
mod policy_names;
mod snapshot;
mod system_columns;
mod system_relations;
#[cfg(test)]
pub(crate) mod test_ddl;
mod triggers;
mod types;
mod unique_key;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

pub use builder::{CatalogBuilder, CatalogError, RelationDef, RoutineDef};
pub use cascades::Cascade;
pub use column_def::ColumnDef;
pub use companion::Companion;
pub use default::DefaultValue;
pub(crate) use generated::{computed_from, may_fail};
pub use policy_names::SchemaNameError;
pub use snapshot::SnapshotError;
pub use system_relations::{
    SystemClass, SystemRelation, system_relation, system_relations, system_schemas,
};
pub use triggers::{Change, ReferenceAction, Trigger};
pub use types::{CastDef, OperandDef, OperatorDef, TypeClass, TypeDef, TypeKind};
pub(crate) use types::{ClassSet, postgres_type_name, without_labels};
pub use unique_key::{UniqueKey, UniqueKeyDef, may_name, may_name_rows};

use self::functions::{FunctionDef, registry};
use serde::{Deserialize, Serialize};

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
    search_path: Vec<String>,
    /// The keys of the schemas in it.
    search_keys: Vec<String>,
    case_sensitive_relations: bool,
    plain_collations: bool,
    /// What columns of enumerations call their types, with and without the schema.
    enumerations: BTreeSet<String>,
    relations: Vec<Relation>,
    /// Those of each key, whatever their schemas.
    by_key: HashMap<Arc<str>, Vec<RelationId>>,
    functions: Vec<FunctionDef>,
    /// What the functions were made from.
    routines: Vec<RoutineDef>,
    types: Vec<TypeDef>,
    operators: Vec<OperatorDef>,
    casts: Vec<CastDef>,
    /// What the server's own relations are like, as far as it has told.
    system: Arc<column_def::SystemColumns>,
    descriptions: Arc<descriptions::Descriptions>,
    companions: Arc<companion::Companions>,
    /// What policies call schemas otherwise than the database, by keys.
    policy_schemas: BTreeMap<String, String>,
    version: String,
}

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationKind {
    /// A base table, partitioned ones and their partitions included.
    Table,
    /// A view; [`Relation::definition`] holds its query.
    View,
    /// A materialised view: rows that [`Relation::definition`] gave at some time.
    Materialized,
    /// A virtual table, or a shadow table behind one. Not readable until its storage is modelled.
    Virtual,
    /// A relation of the engine's own, such as `sqlite_schema`. Not readable, unless it is one whose contents are known
    /// ([`Relation::system`]) and policy names it.
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
    /// The keys that its schema and it are looked up by.
    pub schema_key: Arc<str>,
    /// See [`schema_key`](Self::schema_key).
    pub key: Arc<str>,
    /// What policies call its schema: the key, unless the policy folder says otherwise.
    pub policy_schema: Arc<str>,
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
    /// Unique keys of a table, its primary key among them; `None` where not all of them are known.
    pub unique_keys: Option<Vec<UniqueKey>>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// The query of a view, as text in the catalog's dialect; `None` for a table, or when unknown.
    pub definition: Option<String>,
    /// Relations whose rows include this one's: the parent of a partition, the parents of an inheriting
    /// table.
    pub parents: Vec<RelationId>,
    /// Whether its rows include those of others: partitions, and tables that inherit from it.
    pub has_children: bool,
    /// What the database runs by itself when rows change, each once, in their own order.
    pub triggers: Vec<Trigger>,
    /// Positions of columns that are given the time when their row is updated, unless the statement gives them a value (MySQL's
    /// ON UPDATE CURRENT_TIMESTAMP).
    pub retimed: Vec<u16>,
    /// What its rows tell of, for one of the engine's own.
    pub system: Option<&'static SystemRelation>,
    /// How many of its columns, the last ones, the server does not tell of: it is of another version, or the account may not read
    /// them. Policies may name them.
    pub(crate) untold: usize,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Names of the referencing columns.
    pub columns: Vec<String>,
    /// The referenced table's schema, as declared.
    pub schema: String,
    /// The referenced table's name, as declared.
    pub table: String,
    /// Names of the referenced columns.
    pub references: Vec<String>,
    /// What becomes of rows here when the row they reference is deleted.
    pub on_delete: ReferenceAction,
    /// What becomes of rows here when the key they reference changes.
    pub on_update: ReferenceAction,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name as declared.
    pub name: Arc<str>,
    /// The key it is looked up by.
    pub key: Arc<str>,
    /// The qualified name that policies use (`main.customers.email`).
    pub uid: String,
    /// The declared type, empty if none.
    pub type_name: Arc<str>,
    /// What values of the type are, for policies and leak-proof comparisons.
    pub class: TypeClass,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The collation that comparisons use, upper-case (`BINARY`, `NOCASE`, …).
    pub collation: String,
    /// For a generated column, the expression's text, whose columns it is computed from.
    pub generated: Option<String>,
    /// Whether a generated column is kept with its row, so that nothing is computed where it is read; false where that is not known.
    pub stored: bool,
    /// What a new row has in it that is given no value.
    pub filled: DefaultValue,
    /// Whether the account of the connection may not read it, though it may read other columns of the relation. It is hidden from
    /// everybody then, whatever policies say.
    pub withheld: bool,
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

    /// What the database says of `relation`, or of a column of it.
    #[must_use]
    pub fn comment(&self, relation: &Relation, column: Option<&str>) -> Option<&str> {
        self.descriptions
            .comment(&relation.schema, &relation.name, column)
    }

    /// Where `relation` is kept as it was, if its operator has history kept of it.
    #[must_use]
    pub fn companion(&self, relation: &Relation) -> Option<&Companion> {
        self.companions.get(&relation.schema, &relation.name)
    }

    /// Whether history is kept of any table.
    #[must_use]
    pub fn has_history(&self) -> bool {
        !self.companions.is_empty()
    }

    /// The columns of each index of `relation` that is no key, as far as the database has told.
    #[must_use]
    pub fn indexes(&self, relation: &Relation) -> &[Vec<String>] {
        self.descriptions.indexes(&relation.schema, &relation.name)
    }

    /// About how many rows `relation` had when the catalog was read, by the engine's own statistics. It tells of every row, hidden
    /// ones too.
    #[must_use]
    pub fn row_estimate(&self, relation: &Relation) -> Option<u64> {
        self.descriptions.rows(&relation.schema, &relation.name)
    }

    /// The engine and its version, `PostgreSQL 15.4`; none of a catalog that is of no server.
    #[must_use]
    pub fn engine(&self) -> Option<&str> {
        self.descriptions.engine()
    }

    /// The labels of the enumeration with this name, as the type of a column is spelled.
    #[must_use]
    pub fn enum_labels(&self, type_name: &str) -> Option<&[String]> {
        self.descriptions.labels(type_name)
    }

    /// Whether texts of all columns compare with each other, as far as collations go (PostgreSQL).
    #[must_use]
    pub fn has_plain_collations(&self) -> bool {
        self.plain_collations
    }

    /// Whether a type of this name, with or without its schema, is the enumeration of a column, and no column's type of another kind.
    #[must_use]
    pub(crate) fn is_enumeration(&self, type_name: &str) -> bool {
        self.enumerations.contains(type_name)
    }

    /// Where names without a schema are looked up, in order; never empty.
    #[must_use]
    pub fn search_path(&self) -> &[String] {
        &self.search_path
    }

    /// The first schema of the search path.
    #[must_use]
    pub fn default_schema(&self) -> &str {
        self.search_path.first().map_or("", String::as_str)
    }

    /// The key of a relation's or schema's name, as the catalog holds it.
    ///
    /// MySQL compares them with regard to case unless `lower_case_table_names` is set
    /// (<https://dev.mysql.com/doc/refman/8.4/en/identifier-case-sensitivity.html>).
    #[must_use]
    pub fn fold_relation(&self, name: &str) -> String {
        if self.case_sensitive_relations {
            name.to_owned()
        } else {
            self.dialect.fold(name)
        }
    }

    /// The key of a relation's or schema's name, as a statement spells it, quotes undone.
    #[must_use]
    pub fn fold_relation_written<'n>(&self, name: &'n str, quoted: bool) -> Cow<'n, str> {
        if self.case_sensitive_relations {
            Cow::Borrowed(name)
        } else {
            self.dialect.fold_written(name, quoted)
        }
    }

    /// The relation that `name`, a key, means without a schema.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Option<&Relation> {
        let mut schemas = self.search_keys.iter();
        schemas.find_map(|schema| self.find_by_key(schema, name))
    }

    /// Whether a relation is called `key` without regard to case, in whatever schema.
    #[must_use]
    pub(crate) fn has_relation_like(&self, key: &str) -> bool {
        if !self.case_sensitive_relations {
            return self.by_key.contains_key(key);
        }
        let folded = self.dialect.fold(key);
        let mut names = self.by_key.keys();
        names.any(|name| match name.is_ascii() {
            true => name.eq_ignore_ascii_case(&folded),
            false => self.dialect.fold(name) == folded,
        })
    }

    /// The relation called `schema.name`, both keys.
    #[must_use]
    pub(crate) fn find_by_key(&self, schema: &str, name: &str) -> Option<&Relation> {
        let named = self.by_key.get(name)?.iter();
        let mut named = named.filter_map(|id| self.relation(*id));
        named.find(|relation| *relation.schema_key == *schema)
    }

    /// The functions of the database that are not the engine's own.
    #[must_use]
    pub fn functions(&self) -> &[FunctionDef] {
        &self.functions
    }

    /// Every function, built in or not, that has this folded name, in every schema.
    pub fn functions_named(&self, name: &str) -> impl Iterator<Item = &FunctionDef> {
        registry(self.dialect)
            .find_by_name(name)
            .chain(self.functions.iter().filter(move |def| def.name == name))
    }

    /// Every function, built in or not.
    pub fn every_function(&self) -> impl Iterator<Item = &FunctionDef> {
        registry(self.dialect).all().iter().chain(&self.functions)
    }

    /// The function with this id.
    #[must_use]
    pub fn function(&self, uid: &str) -> Option<&FunctionDef> {
        registry(self.dialect)
            .get(uid)
            .or_else(|| self.functions.iter().find(|def| def.uid == uid))
    }

    /// The types of the database that are not the engine's own.
    #[must_use]
    pub fn types(&self) -> &[TypeDef] {
        &self.types
    }

    /// The operators of the database that are not the engine's own.
    #[must_use]
    pub fn operators(&self) -> &[OperatorDef] {
        &self.operators
    }

    /// Casts of the database that call functions.
    #[must_use]
    pub fn casts(&self) -> &[CastDef] {
        &self.casts
    }

    /// A digest of everything in the catalog, as [`to_snapshot`](Self::to_snapshot) writes it: equal
    /// versions, equal contents.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Every relation, in the order of their ids.
    #[must_use]
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The relation called `schema.name`, names as the catalog holds them; both are folded here.
    #[must_use]
    pub fn find(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.find_by_key(&self.fold_relation(schema), &self.fold_relation(name))
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
    /// What the database calls it (`main.customers`): folded, quoted where not plain.
    #[must_use]
    pub fn database_name(&self) -> String {
        ident::qualify([&*self.schema_key, &*self.key])
    }

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
            .position(|c| *c.key == *key)
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
}
