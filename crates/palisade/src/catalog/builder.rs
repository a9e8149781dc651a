//! Filling a catalog: a backend, a test or an embedder says what there is.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    CastDef, Catalog, Column, DefaultValue, ForeignKey, OperandDef, OperatorDef, Relation,
    RelationId, RelationKind, Trigger, TypeClass, TypeDef, UniqueKey, UniqueKeyDef, functions,
    functions::{FunctionDef, Kinds, Safety},
};
use crate::catalog::{
    column_def::{ColumnDef, SystemColumns},
    companion::{Companion, Companions},
    descriptions::Descriptions,
    system_relations::system_relation,
};
use crate::{dialect::Dialect, digest::sha256_hex, ident};

/// A catalog that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Two relations with one name.
    #[error("the catalog names relation `{0}` twice")]
    DuplicateRelation(String),
    /// Two columns with one name.
    #[error("the catalog names column `{0}` twice")]
    DuplicateColumn(String),
    /// A parent that is no relation.
    #[error("the catalog names `{0}` as a parent, which is no relation")]
    UnknownParent(String),
    /// A dialect that this build leaves out.
    #[error("this program is built without {0}: build `palisade` with the feature `{0}`")]
    NotBuiltIn(&'static str),
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
    /// Unique keys of a table, its primary key among them; `None` where not all of them are known.
    pub unique_keys: Option<Vec<UniqueKeyDef>>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// A view's query.
    pub definition: Option<String>,
    /// Schema and name of each relation whose rows include this one's.
    pub parents: Vec<(String, String)>,
    /// What the database runs by itself when rows change.
    pub triggers: Vec<Trigger>,
    /// Names of columns that are given the time when their row is updated (MySQL's ON UPDATE CURRENT_TIMESTAMP).
    pub retimed: Vec<String>,
}

impl RelationDef {
    /// A relation without keys, parents or definition. Its unique keys are unknown.
    #[must_use]
    pub fn new(
        schema: impl Into<String>,
        name: impl Into<String>,
        kind: RelationKind,
        columns: Vec<ColumnDef>,
    ) -> Self {
        Self {
            schema: schema.into(),
            name: name.into(),
            kind,
            columns,
            strict: true,
            has_rowid: false,
            rowid_alias: None,
            primary_key: Vec::new(),
            unique_keys: None,
            foreign_keys: Vec::new(),
            definition: None,
            parents: Vec::new(),
            triggers: Vec::new(),
            retimed: Vec::new(),
        }
    }
}

/// What a backend knows of a function, procedure or aggregate of the database: one for each name,
/// overloads taken together.
#[derive(Debug, Clone)]
pub struct RoutineDef {
    /// The schema it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Where it may stand.
    pub kinds: Kinds,
    /// The extensions its overloads came with, whose functions the registry may know; empty where one came with none.
    pub extensions: Vec<String>,
    /// The fewest arguments.
    pub min_args: u8,
    /// The most arguments; `None` for any number.
    pub max_args: Option<u8>,
    /// Names of the columns it gives in `FROM`, one list for each overload; empty for a scalar.
    pub columns: Vec<Vec<String>>,
    /// What each overload takes for its parameters, where that is known of all of them; else empty. An overload that takes
    /// any number of arguments is not known.
    pub parameters: Vec<Vec<OperandDef>>,
}

/// Collects relations and makes an immutable [`Catalog`] of them.
#[derive(Debug, Clone)]
pub struct CatalogBuilder {
    dialect: Dialect,
    database: String,
    search_path: Vec<String>,
    case_sensitive_relations: bool,
    plain_collations: bool,
    relations: Vec<RelationDef>,
    routines: Vec<RoutineDef>,
    types: Vec<TypeDef>,
    operators: Vec<OperatorDef>,
    casts: Vec<CastDef>,
    pub(super) system: SystemColumns,
    pub(super) descriptions: Descriptions,
    companions: Companions,
    withheld: BTreeSet<(String, String, String)>,
}

impl CatalogBuilder {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            database: dialect.default_schema().to_owned(),
            search_path: Vec::new(),
            case_sensitive_relations: false,
            plain_collations: false,
            relations: Vec::new(),
            routines: Vec::new(),
            types: Vec::new(),
            operators: Vec::new(),
            casts: Vec::new(),
            system: SystemColumns::new(),
            descriptions: Descriptions::default(),
            companions: Companions::default(),
            withheld: BTreeSet::new(),
        }
    }

    /// Names the database (`Database::"…"` in policies); the default schema's name if not called.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = name.into();
        self
    }

    /// Where names without a schema are looked up, in order. If not called: the database on MySQL,
    /// the default schema elsewhere. PostgreSQL's `pg_catalog` comes first whether named or not.
    #[must_use]
    pub fn search_path(mut self, schemas: impl IntoIterator<Item = String>) -> Self {
        self.search_path = schemas.into_iter().collect();
        self
    }

    /// Whether names of relations that differ in case are different names (MySQL with
    /// `lower_case_table_names = 0`). Not if not called.
    #[must_use]
    pub fn case_sensitive_relations(mut self, sensitive: bool) -> Self {
        self.case_sensitive_relations = sensitive;
        self
    }

    /// Says whether every column of a relation has its database's collation, that of `"C"`, or none (PostgreSQL). Texts of such
    /// columns compare whatever they are. Not so if not called.
    #[must_use]
    pub fn plain_collations(mut self, plain: bool) -> Self {
        self.plain_collations = plain;
        self
    }

    /// Says that the account of the connection may not read a column, though it may read others of its relation. No text of a catalog
    /// holds that: it is of one account.
    #[must_use]
    pub fn withheld_column(mut self, schema: &str, relation: &str, column: &str) -> Self {
        let names = (schema.to_owned(), relation.to_owned(), column.to_owned());
        self.withheld.insert(names);
        self
    }

    /// Adds a function, procedure or aggregate.
    #[must_use]
    pub fn routine(mut self, routine: RoutineDef) -> Self {
        self.routines.push(routine);
        self
    }

    /// Adds a type that the database defines.
    #[must_use]
    pub fn type_def(mut self, def: TypeDef) -> Self {
        self.types.push(def);
        self
    }

    /// Adds an operator that the database defines.
    #[must_use]
    pub fn operator(mut self, def: OperatorDef) -> Self {
        self.operators.push(def);
        self
    }

    /// Adds a cast that the database defines by a function.
    #[must_use]
    pub fn cast(mut self, def: CastDef) -> Self {
        self.casts.push(def);
        self
    }

    /// Adds what the database says of a relation, or of a column of it. An empty text says nothing.
    #[must_use]
    pub fn comment(
        mut self,
        schema: impl Into<String>,
        relation: impl Into<String>,
        column: Option<String>,
        text: &str,
    ) -> Self {
        let (schema, relation) = (schema.into(), relation.into());
        self.descriptions
            .add_comment(schema, relation, column, text);
        self
    }

    /// Adds the labels of an enumeration, in their order.
    #[must_use]
    pub fn enum_labels(mut self, schema: &str, name: &str, labels: Vec<String>) -> Self {
        let name = ident::qualify([schema, name]);
        self.descriptions.add_labels(name, labels);
        self
    }

    /// Adds an index of a table that is no key, by its columns in order.
    #[must_use]
    pub fn index(
        mut self,
        schema: impl Into<String>,
        relation: impl Into<String>,
        columns: Vec<String>,
    ) -> Self {
        self.descriptions
            .add_index(schema.into(), relation.into(), columns);
        self
    }

    /// Adds about how many rows a table has, as the engine's statistics say.
    #[must_use]
    pub fn row_estimate(
        mut self,
        schema: impl Into<String>,
        relation: impl Into<String>,
        rows: u64,
    ) -> Self {
        self.descriptions
            .add_rows(schema.into(), relation.into(), rows);
        self
    }

    /// Says where a table is kept as it was.
    #[must_use]
    pub fn companion(
        mut self,
        schema: impl Into<String>,
        relation: impl Into<String>,
        companion: Companion,
    ) -> Self {
        self.companions
            .add(schema.into(), relation.into(), companion);
        self
    }

    /// Says which engine it is, with its version: `PostgreSQL 15.4`.
    #[must_use]
    pub fn engine(mut self, engine: &str) -> Self {
        self.descriptions.set_engine(engine);
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
    pub fn build(mut self) -> Result<Catalog, CatalogError> {
        let dialect = self.dialect;
        if !dialect.is_built_in() {
            return Err(CatalogError::NotBuiltIn(dialect.name()));
        }
        for def in &mut self.relations {
            def.triggers.sort();
            def.triggers.dedup();
        }
        let mut search_path = self.search_path;
        if search_path.is_empty() {
            search_path.push(match dialect {
                Dialect::Sqlite | Dialect::Postgres => dialect.default_schema().to_owned(),
                Dialect::Mysql => self.database.clone(),
            });
        }
        let mut catalog = Catalog {
            dialect,
            database: self.database,
            search_path,
            search_keys: Vec::new(),
            case_sensitive_relations: self.case_sensitive_relations,
            plain_collations: self.plain_collations,
            enumerations: list_enumerations(&self.relations),
            relations: Vec::with_capacity(self.relations.len()),
            by_key: HashMap::new(),
            functions: functions_of(dialect, &self.routines, &self.relations),
            routines: self.routines,
            types: self.types,
            operators: self.operators,
            casts: self.casts,
            system: Arc::new(self.system),
            descriptions: Arc::new(self.descriptions),
            companions: Arc::new(self.companions),
            policy_schemas: BTreeMap::new(),
            version: String::new(),
        };
        let keys = catalog.search_path.iter();
        catalog.search_keys = keys.map(|schema| catalog.fold_relation(schema)).collect();
        let mut parents = Vec::new();
        for (index, mut def) in self.relations.into_iter().enumerate() {
            let id = RelationId(
                u32::try_from(index).map_err(|_| CatalogError::TooLarge("relations".to_owned()))?,
            );
            let schema: Arc<str> = catalog.fold_relation(&def.schema).into();
            let key: Arc<str> = catalog.fold_relation(&def.name).into();
            let uid = ident::qualify([&*schema, &*key]);
            if catalog.find_by_key(&schema, &key).is_some() {
                return Err(CatalogError::DuplicateRelation(uid));
            }
            let named = catalog.by_key.entry(Arc::clone(&key)).or_default();
            named.push(id);
            parents.push(std::mem::take(&mut def.parents));
            catalog
                .relations
                .push(relation(dialect, id, uid, (schema, key), def)?);
        }
        for (index, names) in parents.into_iter().enumerate() {
            let mut ids = Vec::with_capacity(names.len());
            for (schema, name) in names {
                let Some(parent) = catalog.find(&schema, &name) else {
                    return Err(CatalogError::UnknownParent(name));
                };
                ids.push(parent.id);
            }
            for parent in &ids {
                let parent = usize::try_from(parent.0).ok();
                let parent = parent.and_then(|index| catalog.relations.get_mut(index));
                if let Some(parent) = parent {
                    parent.has_children = true;
                }
            }
            if let Some(relation) = catalog.relations.get_mut(index) {
                relation.parents = ids;
            }
        }
        let mut text = catalog.to_snapshot();
        for (schema, relation, column) in &self.withheld {
            text.push_str(&format!("\nwithheld {schema:?} {relation:?} {column:?}"));
            let names = (schema.as_str(), relation.as_str());
            let found = (catalog.relations.iter_mut())
                .find(|one| (&*one.schema, &*one.name) == names)
                .and_then(|one| one.columns.iter_mut().find(|one| *one.name == **column));
            if let Some(found) = found {
                found.withheld = true;
            }
        }
        catalog.version = sha256_hex(text.as_bytes());
        Ok(catalog)
    }
}

/// What the registry knows of a function whose overloads came with one extension or several: of several the worst. `None`
/// where it does not know all of them.
fn known_overloads(dialect: Dialect, routine: &RoutineDef, name: &str) -> Option<FunctionDef> {
    let overloads: Option<Vec<&FunctionDef>> = routine
        .extensions
        .iter()
        .map(|extension| functions::extension(dialect, extension, name))
        .collect();
    let overloads = overloads?;
    let mut worst = (*overloads.first()?).clone();
    for overload in &overloads {
        if overload.bound != worst.bound {
            return None;
        }
        worst.safety = worst.safety.max(overload.safety);
        worst.grows |= overload.grows;
        worst.format |= overload.format;
    }
    Some(worst)
}

/// The functions a database adds: of the registry's class where they came with an extension it
/// knows, else of none.
fn functions_of(
    dialect: Dialect,
    routines: &[RoutineDef],
    relations: &[RelationDef],
) -> Vec<FunctionDef> {
    let mut functions: Vec<FunctionDef> = routines
        .iter()
        .map(|routine| {
            let name = dialect.fold(&routine.name);
            let known = known_overloads(dialect, routine, &name);
            FunctionDef {
                uid: ident::qualify([routine.schema.as_str(), name.as_str()]),
                schema: Some(routine.schema.clone()),
                kinds: routine.kinds,
                safety: known.as_ref().map_or(Safety::Unknown, |def| def.safety),
                min_args: routine.min_args,
                max_args: routine.max_args,
                columns: routine.columns.clone(),
                parameters: routine.parameters.clone(),
                bound: known.as_ref().and_then(|def| def.bound),
                grows: known.as_ref().is_some_and(|def| def.grows),
                format: known.as_ref().is_some_and(|def| def.format),
                name,
            }
        })
        .collect();
    let mut known: HashSet<String> = functions.iter().map(|def| def.uid.clone()).collect();
    // What no statement can call, and policies must be able to name.
    for trigger in relations.iter().flat_map(|relation| &relation.triggers) {
        let uid = trigger.uid(dialect);
        if known.insert(uid.clone()) {
            functions.push(FunctionDef {
                uid,
                schema: Some(trigger.schema.clone()),
                name: dialect.fold(&trigger.function),
                kinds: Kinds::default(),
                safety: Safety::Unknown,
                min_args: 0,
                max_args: Some(0),
                columns: Vec::new(),
                parameters: Vec::new(),
                bound: None,
                grows: false,
                format: false,
            });
        }
    }
    functions
}

pub(super) fn relation(
    dialect: Dialect,
    id: RelationId,
    uid: String,
    (schema_key, key): (Arc<str>, Arc<str>),
    def: RelationDef,
) -> Result<Relation, CatalogError> {
    if def.columns.len() > usize::from(u16::MAX) {
        return Err(CatalogError::TooLarge(uid));
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::with_capacity(def.columns.len());
    for column in def.columns {
        let column_key: Arc<str> = dialect.fold(&column.name).into();
        let column_uid = ident::qualify([&*schema_key, &*key, &*column_key]);
        if !seen.insert(Arc::clone(&column_key)) {
            return Err(CatalogError::DuplicateColumn(column_uid));
        }
        columns.push(Column {
            name: column.name.into(),
            key: column_key,
            uid: column_uid,
            type_name: column.type_name.into(),
            class: column.class,
            nullable: column.nullable,
            collation: column.collation,
            generated: column.generated,
            stored: column.stored,
            filled: match def.kind {
                RelationKind::Table => column.filled,
                RelationKind::View
                | RelationKind::Materialized
                | RelationKind::Virtual
                | RelationKind::System => DefaultValue::Unknown,
            },
            withheld: false,
        });
    }
    let position = |name: &str| {
        let key = dialect.fold(name);
        columns
            .iter()
            .position(|c| *c.key == *key)
            .and_then(|i| u16::try_from(i).ok())
    };
    let retimed = def
        .retimed
        .iter()
        .filter_map(|name| position(name))
        .collect();
    let system = match def.kind {
        RelationKind::System => system_relation(dialect, &schema_key, &key),
        RelationKind::Table
        | RelationKind::View
        | RelationKind::Materialized
        | RelationKind::Virtual => None,
    };
    Ok(Relation {
        id,
        uid,
        policy_schema: Arc::clone(&schema_key),
        schema_key,
        key,
        rowid_alias: def.rowid_alias.as_deref().and_then(position),
        primary_key: def
            .primary_key
            .iter()
            .filter_map(|name| position(name))
            .collect(),
        unique_keys: def
            .unique_keys
            .and_then(|keys| unique_keys(keys, &position)),
        schema: def.schema,
        name: def.name,
        kind: def.kind,
        columns,
        strict: def.strict,
        has_rowid: def.has_rowid,
        foreign_keys: def.foreign_keys,
        definition: def.definition,
        parents: Vec::new(),
        has_children: false,
        triggers: def.triggers,
        retimed,
        system,
        untold: 0,
    })
}

/// The keys in an order of their own; none if one of them is over a column that is not there.
/// The names of types that only columns of enumerations have, with and without their schemas.
fn list_enumerations(relations: &[RelationDef]) -> BTreeSet<String> {
    let names = |is_wanted: fn(TypeClass) -> bool| -> BTreeSet<String> {
        let columns = relations.iter().flat_map(|relation| &relation.columns);
        let wanted = columns.filter(|column| is_wanted(column.class));
        let written = wanted.flat_map(|column| {
            let name = column.type_name.as_str();
            let bare = name.rsplit_once('.').map_or(name, |(_, bare)| bare);
            [name.to_owned(), bare.to_owned()]
        });
        written.collect()
    };
    let others = names(|class| class != TypeClass::Enum);
    let mut found = names(|class| class == TypeClass::Enum);
    found.retain(|name| !others.contains(name));
    found
}

fn unique_keys(
    keys: Vec<UniqueKeyDef>,
    position: &impl Fn(&str) -> Option<u16>,
) -> Option<Vec<UniqueKey>> {
    let mut keys: Vec<UniqueKey> = keys
        .into_iter()
        .map(|key| UniqueKey::from_def(key, position))
        .collect::<Option<_>>()?;
    keys.sort_by(|a, b| {
        let parts = |key: &UniqueKey| (key.columns.clone(), key.plain, key.name.clone());
        (parts(a), &a.filled, &a.equal).cmp(&(parts(b), &b.filled, &b.equal))
    });
    keys.dedup();
    Some(keys)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_dialect_that_is_left_out_has_no_catalog() {
        for dialect in Dialect::ALL {
            let built = CatalogBuilder::new(dialect).build();
            assert_eq!(built.is_ok(), dialect.is_built_in(), "{}", dialect.name());
            let has_functions = !functions::registry(dialect).all().is_empty();
            assert_eq!(has_functions, dialect.is_built_in(), "{}", dialect.name());
        }
    }

    #[test]
    fn a_row_estimate_is_told_of_its_own_table() {
        let table = |schema: &str, name: &str| {
            RelationDef::new(schema, name, RelationKind::Table, Vec::new())
        };
        let catalog = CatalogBuilder::new(Dialect::Postgres)
            .relation(table("app", "t"))
            .relation(table("app", "u"))
            .relation(table("hr", "t"))
            .row_estimate("app", "t", 7)
            .build()
            .unwrap();
        for (schema, name, expected) in
            [("app", "t", Some(7)), ("app", "u", None), ("hr", "t", None)]
        {
            let relation = catalog.find(schema, name).unwrap();
            assert_eq!(catalog.row_estimate(relation), expected, "{schema}.{name}");
        }
    }

    #[test]
    fn overloads_of_several_extensions_are_of_the_worst_class() {
        let class = |name: &str, extensions: &[&str]| {
            let routine = RoutineDef {
                schema: "public".to_owned(),
                name: name.to_owned(),
                kinds: Kinds::SCALAR,
                extensions: extensions.iter().map(|name| (*name).to_owned()).collect(),
                min_args: 1,
                max_args: Some(1),
                columns: Vec::new(),
                parameters: Vec::new(),
            };
            let functions = functions_of(Dialect::Postgres, &[routine], &[]);
            functions.first().map(|def| def.safety)
        };
        assert_eq!(
            class("text", &["postgis", "ip4r", "semver"]),
            Some(Safety::Pure)
        );
        assert_eq!(
            class("text", &["postgis", "somebody"]),
            Some(Safety::Unknown)
        );
        assert_eq!(class("text", &[]), Some(Safety::Unknown));
        assert_eq!(
            class("http_get", &["http", "pg_net"]),
            Some(Safety::Network)
        );
    }
}
