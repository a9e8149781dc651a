//! A catalog as text: versioned JSON that says everything the catalog says, and nothing twice.
//!
//! The text is a function of the catalog's contents alone, and its digest is
//! [`Catalog::version`](super::Catalog::version). Reading is strict: an unknown key, another version or a
//! contradiction is an error.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    CastDef, Catalog, CatalogBuilder, CatalogError, Change, ColumnDef, Companion, DefaultValue,
    ForeignKey, OperandDef, OperatorDef, ReferenceAction, RelationDef, RelationKind, RoutineDef,
    Trigger, TypeClass, TypeDef, TypeKind, UniqueKeyDef, functions::Kinds,
};
use crate::{dialect::Dialect, ident};

/// The version that is written, and the only version that is read.
const FORMAT: u32 = 2;

/// Why a text is no catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Not JSON of the form; the message has line and column.
    #[error("the snapshot cannot be read: {0}")]
    Format(#[from] serde_json::Error),
    /// Written by another version.
    #[error("`palisade_catalog` is {found}; this version reads {FORMAT}")]
    Version {
        /// What the text says.
        found: u32,
    },
    /// It names something that it does not hold.
    #[error("{place}: {message}")]
    Contradiction {
        /// The relation, routine or type.
        place: String,
        /// What is wrong there.
        message: String,
    },
    /// What it holds cannot be together.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    palisade_catalog: u32,
    dialect: Dialect,
    database: String,
    search_path: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    case_sensitive_relations: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    plain_collations: bool,
    relations: Vec<RelationText>,
    #[serde(default, skip_serializing_if = "is_default")]
    routines: Vec<RoutineText>,
    #[serde(default, skip_serializing_if = "is_default")]
    types: Vec<TypeText>,
    #[serde(default, skip_serializing_if = "is_default")]
    operators: Vec<OperatorText>,
    #[serde(default, skip_serializing_if = "is_default")]
    casts: Vec<CastText>,
}

/// The version alone, so that a text of another version is told from a wrong one.
#[derive(Deserialize)]
struct Header {
    palisade_catalog: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationText {
    schema: String,
    name: String,
    kind: RelationKind,
    strict: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    has_rowid: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    rowid_alias: Option<String>,
    columns: Vec<ColumnText>,
    #[serde(default, skip_serializing_if = "is_default")]
    primary_key: Vec<String>,
    /// Left out where not all are known, as by versions that knew of none.
    #[serde(default, skip_serializing_if = "is_default")]
    unique_keys: Option<Vec<UniqueKeyText>>,
    #[serde(default, skip_serializing_if = "is_default")]
    foreign_keys: Vec<ForeignKeyText>,
    #[serde(default, skip_serializing_if = "is_default")]
    parents: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "is_default")]
    triggers: Vec<TriggerText>,
    #[serde(default, skip_serializing_if = "is_default")]
    retimed: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    definition: Option<String>,
    /// The schema and the name of its companion.
    #[serde(default, skip_serializing_if = "is_default")]
    history: Option<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnText {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    class: TypeClass,
    nullable: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    collation: String,
    #[serde(default, skip_serializing_if = "is_default")]
    generated: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    stored: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    filled: DefaultValue,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UniqueKeyText {
    #[serde(default, skip_serializing_if = "is_default")]
    name: Option<String>,
    columns: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    filled: Vec<String>,
    /// Left out of a plain key, of which it is all columns.
    #[serde(default, skip_serializing_if = "is_default")]
    equal: Vec<String>,
    plain: bool,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignKeyText {
    columns: Vec<String>,
    schema: String,
    table: String,
    references: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    on_delete: ReferenceAction,
    #[serde(default, skip_serializing_if = "is_default")]
    on_update: ReferenceAction,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggerText {
    schema: String,
    function: String,
    on: BTreeSet<Change>,
    #[serde(default, skip_serializing_if = "is_default")]
    columns: BTreeSet<String>,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutineText {
    schema: String,
    name: String,
    kinds: Vec<KindText>,
    #[serde(default, skip_serializing_if = "is_default")]
    extensions: Vec<String>,
    min_args: u8,
    /// `null` for any number, so that a key left out is an error.
    max_args: Limit,
    #[serde(default, skip_serializing_if = "is_default")]
    columns: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_default")]
    parameters: Vec<Vec<OperandDef>>,
}

/// `serde` takes a missing `Option` for none.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Limit {
    Any,
    #[serde(untagged)]
    Most(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindText {
    Scalar,
    Niladic,
    Aggregate,
    Window,
    Table,
    Ordered,
    Procedure,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeText {
    schema: String,
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    extension: Option<String>,
    kind: TypeKindText,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum TypeKindText {
    Enum,
    Domain {
        base: String,
        #[serde(default, skip_serializing_if = "is_default")]
        check: Option<String>,
    },
    Composite(Vec<(String, String)>),
    Range,
    Base,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorText {
    schema: String,
    name: String,
    function: String,
    #[serde(default, skip_serializing_if = "is_default")]
    confined: bool,
    #[serde(default = "any", skip_serializing_if = "is_any")]
    left: OperandDef,
    #[serde(default = "any", skip_serializing_if = "is_any")]
    right: OperandDef,
}

fn any() -> OperandDef {
    OperandDef::Any
}

fn is_any(operand: &OperandDef) -> bool {
    *operand == OperandDef::Any
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CastText {
    source: (String, String),
    target: (String, String),
    function: String,
    implicit: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Catalog {
    /// The catalog as JSON, one thing a line, for files that are kept and compared. Equal catalogs give
    /// equal texts; [`from_snapshot`](Self::from_snapshot) gives the catalog back.
    #[must_use]
    pub fn to_snapshot(&self) -> String {
        let snapshot = Snapshot {
            palisade_catalog: FORMAT,
            dialect: self.dialect,
            database: self.database.clone(),
            search_path: self.search_path.clone(),
            case_sensitive_relations: self.case_sensitive_relations,
            plain_collations: self.plain_collations,
            // What policies name of the server's own is no part of what the database holds.
            relations: (self.relations.iter())
                .filter(|relation| relation.system.is_none())
                .map(|relation| self.write_relation(relation))
                .collect(),
            routines: self.routines.iter().map(RoutineText::new).collect(),
            types: self.types.iter().map(TypeText::new).collect(),
            operators: self
                .operators
                .iter()
                .map(|def| OperatorText {
                    schema: def.schema.clone(),
                    name: def.name.clone(),
                    function: def.function.clone(),
                    confined: def.confined,
                    left: def.left.clone(),
                    right: def.right.clone(),
                })
                .collect(),
            casts: self
                .casts
                .iter()
                .map(|def| CastText {
                    source: def.source.clone(),
                    target: def.target.clone(),
                    function: def.function.clone(),
                    implicit: def.implicit,
                })
                .collect(),
        };
        // Strings, numbers and lists: nothing in there can fail to be written.
        serde_json::to_string_pretty(&snapshot).unwrap_or_default() + "\n"
    }

    /// The catalog that [`to_snapshot`](Self::to_snapshot) wrote, of the same
    /// [`version`](Self::version).
    ///
    /// # Errors
    /// If the text is not of the form, of another version of it, or contradicts itself: two things of one
    /// name, a key over a column that is not there, a parent that is not there.
    pub fn from_snapshot(text: &str) -> Result<Self, SnapshotError> {
        let Header { palisade_catalog } = serde_json::from_str(text)?;
        if palisade_catalog != FORMAT {
            return Err(SnapshotError::Version {
                found: palisade_catalog,
            });
        }
        let snapshot: Snapshot = serde_json::from_str(text)?;
        builder(snapshot)?.build().map_err(Into::into)
    }

    fn write_relation(&self, relation: &super::Relation) -> RelationText {
        let name_of = |index: u16| relation.column(index).map(|column| column.name.to_string());
        RelationText {
            schema: relation.schema.clone(),
            name: relation.name.clone(),
            kind: relation.kind,
            strict: relation.strict,
            has_rowid: relation.has_rowid,
            rowid_alias: relation.rowid_alias.and_then(name_of),
            columns: relation
                .columns
                .iter()
                .map(|column| ColumnText {
                    name: column.name.to_string(),
                    type_name: column.type_name.to_string(),
                    class: column.class,
                    nullable: column.nullable,
                    collation: column.collation.clone(),
                    generated: column.generated.clone(),
                    stored: column.stored,
                    filled: column.filled.clone(),
                })
                .collect(),
            primary_key: relation
                .primary_key
                .iter()
                .filter_map(|index| name_of(*index))
                .collect(),
            unique_keys: relation.unique_keys.as_ref().map(|keys| {
                let names = |indexes: &[u16]| indexes.iter().copied().filter_map(name_of).collect();
                keys.iter()
                    .map(|key| UniqueKeyText {
                        name: key.name.clone(),
                        columns: names(&key.columns),
                        filled: names(&key.filled),
                        equal: match key.plain {
                            true => Vec::new(),
                            false => names(&key.equal),
                        },
                        plain: key.plain,
                    })
                    .collect()
            }),
            foreign_keys: relation
                .foreign_keys
                .iter()
                .map(|key| ForeignKeyText {
                    columns: key.columns.clone(),
                    schema: key.schema.clone(),
                    table: key.table.clone(),
                    references: key.references.clone(),
                    on_delete: key.on_delete,
                    on_update: key.on_update,
                })
                .collect(),
            triggers: relation
                .triggers
                .iter()
                .map(|trigger| TriggerText {
                    schema: trigger.schema.clone(),
                    function: trigger.function.clone(),
                    on: trigger.on.clone(),
                    columns: trigger.columns.clone(),
                })
                .collect(),
            parents: relation
                .parents
                .iter()
                .filter_map(|id| self.relation(*id))
                .map(|parent| (parent.schema.clone(), parent.name.clone()))
                .collect(),
            retimed: (relation.retimed.iter())
                .filter_map(|index| name_of(*index))
                .collect(),
            definition: relation.definition.clone(),
            history: (self.companion(relation))
                .map(|found| (found.schema.clone(), found.name.clone())),
        }
    }
}

fn builder(snapshot: Snapshot) -> Result<CatalogBuilder, SnapshotError> {
    if snapshot.search_path.is_empty() {
        return Err(contradiction("search_path", "names no schema"));
    }
    let dialect = snapshot.dialect;
    let mut builder = Catalog::builder(dialect)
        .database(snapshot.database)
        .search_path(snapshot.search_path)
        .case_sensitive_relations(snapshot.case_sensitive_relations)
        .plain_collations(snapshot.plain_collations);
    for relation in snapshot.relations {
        if let Some((schema, name)) = relation.history.clone() {
            let companion = Companion { schema, name };
            builder = builder.companion(&relation.schema, &relation.name, companion);
        }
        builder = builder.relation(relation.into_def(dialect)?);
    }
    let mut seen = HashSet::new();
    for routine in snapshot.routines {
        let place = ident::qualify([routine.schema.as_str(), routine.name.as_str()]);
        if !seen.insert(place.clone()) {
            return Err(contradiction(&place, "is a routine twice"));
        }
        builder = builder.routine(routine.into_def(&place)?);
    }
    seen.clear();
    for def in snapshot.types {
        let place = ident::qualify([def.schema.as_str(), def.name.as_str()]);
        if !seen.insert(place.clone()) {
            return Err(contradiction(&place, "is a type twice"));
        }
        builder = builder.type_def(def.into_def());
    }
    for operator in snapshot.operators {
        builder = builder.operator(OperatorDef {
            schema: operator.schema,
            name: operator.name,
            function: operator.function,
            confined: operator.confined,
            left: operator.left,
            right: operator.right,
        });
    }
    for cast in snapshot.casts {
        builder = builder.cast(CastDef {
            source: cast.source,
            target: cast.target,
            function: cast.function,
            implicit: cast.implicit,
        });
    }
    Ok(builder)
}

fn contradiction(place: &str, message: impl Into<String>) -> SnapshotError {
    SnapshotError::Contradiction {
        place: format!("`{place}`"),
        message: message.into(),
    }
}

impl RelationText {
    fn into_def(self, dialect: Dialect) -> Result<RelationDef, SnapshotError> {
        let place = ident::qualify([self.schema.as_str(), self.name.as_str()]);
        let keys: HashSet<String> = self.columns.iter().map(|c| dialect.fold(&c.name)).collect();
        let named = (self.primary_key.iter())
            .chain(&self.rowid_alias)
            .chain(
                self.unique_keys
                    .iter()
                    .flatten()
                    .flat_map(|key| key.columns.iter().chain(&key.filled).chain(&key.equal)),
            )
            .chain(self.foreign_keys.iter().flat_map(|key| &key.columns));
        for name in named {
            if !keys.contains(&dialect.fold(name)) {
                return Err(contradiction(
                    &place,
                    format!("a key names column `{name}`, which is not there"),
                ));
            }
        }
        if let Some(key) = self
            .foreign_keys
            .iter()
            .find(|key| !key.references.is_empty() && key.references.len() != key.columns.len())
        {
            return Err(contradiction(
                &place,
                format!(
                    "a foreign key has {} columns and references {}",
                    key.columns.len(),
                    key.references.len()
                ),
            ));
        }
        let takes_definition = match self.kind {
            RelationKind::View | RelationKind::Materialized => true,
            RelationKind::Table | RelationKind::Virtual | RelationKind::System => false,
        };
        if self.definition.is_some() && !takes_definition {
            return Err(contradiction(&place, "is no view and has a definition"));
        }
        Ok(RelationDef {
            schema: self.schema,
            name: self.name,
            kind: self.kind,
            columns: self
                .columns
                .into_iter()
                .map(|column| ColumnDef {
                    name: column.name,
                    type_name: column.type_name,
                    class: column.class,
                    nullable: column.nullable,
                    collation: column.collation,
                    generated: column.generated,
                    stored: column.stored,
                    filled: column.filled,
                })
                .collect(),
            triggers: self
                .triggers
                .into_iter()
                .map(|trigger| Trigger {
                    schema: trigger.schema,
                    function: trigger.function,
                    on: trigger.on,
                    columns: trigger.columns,
                })
                .collect(),
            strict: self.strict,
            has_rowid: self.has_rowid,
            rowid_alias: self.rowid_alias,
            primary_key: self.primary_key,
            unique_keys: self.unique_keys.map(|keys| {
                keys.into_iter()
                    .map(|key| UniqueKeyDef {
                        name: key.name,
                        columns: key.columns,
                        filled: key.filled,
                        equal: key.equal,
                        plain: key.plain,
                    })
                    .collect()
            }),
            foreign_keys: self
                .foreign_keys
                .into_iter()
                .map(|key| ForeignKey {
                    columns: key.columns,
                    schema: key.schema,
                    table: key.table,
                    references: key.references,
                    on_delete: key.on_delete,
                    on_update: key.on_update,
                })
                .collect(),
            definition: self.definition,
            parents: self.parents,
            retimed: self.retimed,
        })
    }
}

impl RoutineText {
    fn new(def: &RoutineDef) -> Self {
        let Kinds {
            scalar,
            niladic,
            aggregate,
            window,
            table,
            ordered,
            procedure,
        } = def.kinds;
        let kinds = [
            (scalar, KindText::Scalar),
            (niladic, KindText::Niladic),
            (aggregate, KindText::Aggregate),
            (window, KindText::Window),
            (table, KindText::Table),
            (ordered, KindText::Ordered),
            (procedure, KindText::Procedure),
        ];
        Self {
            schema: def.schema.clone(),
            name: def.name.clone(),
            kinds: kinds
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, k)| *k)
                .collect(),
            extensions: def.extensions.clone(),
            min_args: def.min_args,
            max_args: def.max_args.map_or(Limit::Any, Limit::Most),
            columns: def.columns.clone(),
            parameters: def.parameters.clone(),
        }
    }

    fn into_def(self, place: &str) -> Result<RoutineDef, SnapshotError> {
        let max_args = match self.max_args {
            Limit::Any => None,
            Limit::Most(most) if most < self.min_args => {
                return Err(contradiction(place, "takes fewer arguments than it needs"));
            }
            Limit::Most(most) => Some(most),
        };
        let mut kinds = Kinds::default();
        for kind in &self.kinds {
            let member = match kind {
                KindText::Scalar => &mut kinds.scalar,
                KindText::Niladic => &mut kinds.niladic,
                KindText::Aggregate => &mut kinds.aggregate,
                KindText::Window => &mut kinds.window,
                KindText::Table => &mut kinds.table,
                KindText::Ordered => &mut kinds.ordered,
                KindText::Procedure => &mut kinds.procedure,
            };
            *member = true;
        }
        Ok(RoutineDef {
            schema: self.schema,
            name: self.name,
            kinds,
            extensions: self.extensions,
            min_args: self.min_args,
            max_args,
            columns: self.columns,
            parameters: self.parameters,
        })
    }
}

impl TypeText {
    fn new(def: &TypeDef) -> Self {
        Self {
            schema: def.schema.clone(),
            name: def.name.clone(),
            extension: def.extension.clone(),
            kind: match &def.kind {
                TypeKind::Enum => TypeKindText::Enum,
                TypeKind::Domain { base, check } => TypeKindText::Domain {
                    base: base.clone(),
                    check: check.clone(),
                },
                TypeKind::Composite(columns) => TypeKindText::Composite(columns.clone()),
                TypeKind::Range => TypeKindText::Range,
                TypeKind::Base => TypeKindText::Base,
            },
        }
    }

    fn into_def(self) -> TypeDef {
        TypeDef {
            schema: self.schema,
            name: self.name,
            extension: self.extension,
            kind: match self.kind {
                TypeKindText::Enum => TypeKind::Enum,
                TypeKindText::Domain { base, check } => TypeKind::Domain { base, check },
                TypeKindText::Composite(columns) => TypeKind::Composite(columns),
                TypeKindText::Range => TypeKind::Range,
                TypeKindText::Base => TypeKind::Base,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn small() -> Catalog {
        let column = |name: &str| ColumnDef {
            name: name.to_owned(),
            type_name: "integer".to_owned(),
            class: TypeClass::Integer,
            nullable: true,
            collation: String::new(),
            generated: None,
            stored: false,
            filled: DefaultValue::Null,
        };
        let mut parent = RelationDef::new("app", "p", RelationKind::Table, vec![column("a")]);
        parent.primary_key = vec!["a".to_owned()];
        parent.unique_keys = Some(vec![UniqueKeyDef {
            columns: vec!["a".to_owned()],
            ..UniqueKeyDef::default()
        }]);
        let mut child = RelationDef::new("app", "c", RelationKind::Table, vec![column("a")]);
        child.parents = vec![("app".to_owned(), "p".to_owned())];
        Catalog::builder(Dialect::Postgres)
            .database("d")
            .relation(parent)
            .relation(child)
            .routine(RoutineDef {
                schema: "app".to_owned(),
                name: "f".to_owned(),
                kinds: Kinds::SCALAR,
                extensions: Vec::new(),
                min_args: 1,
                max_args: None,
                columns: Vec::new(),
                parameters: Vec::new(),
            })
            .build()
            .unwrap()
    }

    #[test]
    fn a_snapshot_is_read_back() {
        let text = small().to_snapshot();
        let again = Catalog::from_snapshot(&text).unwrap();
        assert_eq!(again.version(), small().version());
        assert_eq!(again.to_snapshot(), text);
        assert!(text.starts_with("{\n  \"palisade_catalog\": 2,\n  \"dialect\": \"postgres\""));
        assert_eq!(
            format!("{:?}", again.relations()),
            format!("{:?}", small().relations())
        );
        assert_eq!(again.functions(), small().functions());
    }

    #[test]
    fn what_a_snapshot_does_not_say_of_new_rows_is_not_known() {
        let text = small().to_snapshot();
        let earlier = text.replace(",\n          \"filled\": \"null\"", "");
        assert_ne!(earlier, text);
        let filled = |text: &str| {
            let catalog = Catalog::from_snapshot(text).unwrap();
            let mut columns = catalog.relations().iter().flat_map(|r| &r.columns);
            columns.next().unwrap().filled.clone()
        };
        assert_eq!(filled(&text), DefaultValue::Null);
        assert_eq!(filled(&earlier), DefaultValue::Unknown);
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_place() {
        let text = small().to_snapshot();
        for (from, to, part) in [
            (
                "\"palisade_catalog\": 2",
                "\"palisade_catalog\": 1",
                "is 1; this version reads 2",
            ),
            ("\"database\"", "\"databse\"", "unknown field `databse`"),
            (
                "\"palisade_catalog\": 2,\n",
                "",
                "missing field `palisade_catalog`",
            ),
            ("\"strict\": true", "\"strict\": 1", "line 13 column"),
            (
                "\"max_args\": \"any\"",
                "\"max_args\": 0",
                "`app.f`: takes fewer",
            ),
            (
                "\"min_args\": 1,\n      \"max_args\": \"any\"",
                "\"min_args\": 1",
                "missing field",
            ),
            (
                "\"primary_key\": [\n        \"a\"",
                "\"primary_key\": [\n        \"b\"",
                "`app.p`: a key names column `b`",
            ),
            (
                "\"unique_keys\": [\n        {\n          \"columns\": [\n            \"a\"",
                "\"unique_keys\": [\n        {\n          \"columns\": [\n            \"b\"",
                "`app.p`: a key names column `b`",
            ),
            (
                "\"name\": \"c\"",
                "\"name\": \"p\"",
                "names relation `app.p` twice",
            ),
            (
                "\"app\",\n          \"p\"",
                "\"app\",\n          \"q\"",
                "names `q` as a parent",
            ),
            (
                "[\n    \"public\"\n  ]",
                "[]",
                "`search_path`: names no schema",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let message = Catalog::from_snapshot(&text.replacen(from, to, 1))
                .unwrap_err()
                .to_string();
            assert!(message.contains(part), "{to}: {message}");
        }
    }
}
