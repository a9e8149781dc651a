//! A small catalog and policy sets over it, for this module's tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use crate::policy::{
    ColumnFlow, Lint, PolicyErrors, PolicyFile, PolicySet, PolicySources,
    obligation::RelationDecision,
};
use crate::{
    catalog::{
        Catalog, ColumnDef, ColumnId, DefaultValue, RelationDef, RelationId, RelationKind,
        TypeClass,
    },
    dialect::Dialect,
    session::{Principal, Session},
};

/// A nullable column, `id` aside.
pub(in crate::policy) fn column(name: &str, class: TypeClass) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: String::new(),
        class,
        nullable: name != "id",
        collation: "BINARY".to_owned(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    }
}

/// A table; the class of a column goes by its name.
pub(in crate::policy) fn table(name: &str, columns: &[&str]) -> RelationDef {
    RelationDef {
        schema: "main".to_owned(),
        name: name.to_owned(),
        kind: RelationKind::Table,
        columns: columns
            .iter()
            .map(|name| column(name, class_of(name)))
            .collect(),
        strict: false,
        has_rowid: true,
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

fn class_of(name: &str) -> TypeClass {
    match name {
        "price" => TypeClass::Number,
        "active" | "open" => TypeClass::Boolean,
        id if id == "id" || id.ends_with("_id") || id == "level" => TypeClass::Integer,
        _ => TypeClass::Text,
    }
}

pub(in crate::policy) fn catalog() -> Catalog {
    let view = RelationDef {
        kind: RelationKind::View,
        ..table("contacts", &["address"])
    };
    let system = RelationDef {
        kind: RelationKind::System,
        ..table("sqlite_schema", &["sql"])
    };
    Catalog::builder(Dialect::Sqlite)
        .relation(table(
            "customers",
            &["id", "name", "email", "ssn", "tenant_id", "active"],
        ))
        .relation(table(
            "tickets",
            &[
                "id",
                "tenant_id",
                "owner_id",
                "title",
                "region",
                "level",
                "open",
                "active",
                "price",
            ],
        ))
        .relation(view)
        .relation(system)
        .build()
        .unwrap()
}

pub(in crate::policy) fn column_id(catalog: &Catalog, uid: &str) -> ColumnId {
    catalog
        .relations()
        .iter()
        .flat_map(crate::catalog::Relation::column_ids)
        .find(|(_, column)| column.uid == uid)
        .unwrap()
        .0
}

pub(in crate::policy) fn relation_id(name: &str) -> RelationId {
    catalog().find("main", name).unwrap().id
}

/// Sources of one policy file, with principals that have attributes.
pub(in crate::policy) fn sources(policies: &str) -> PolicySources {
    PolicySources {
        policies: vec![PolicyFile {
            name: "base.cedar".to_owned(),
            text: policies.to_owned(),
        }],
        principals_schema: Some(PRINCIPALS.to_owned()),
        entities: Some(ENTITIES.to_owned()),
        classification: Some(CLASSIFICATION.to_owned()),
        schemas: None,
        templates: None,
        secret: None,
        origin: None,
    }
}

pub(in crate::policy) fn load(sources: &PolicySources) -> Result<PolicySet, PolicyErrors> {
    PolicySet::load(sources, &Arc::new(catalog()), &ColumnFlow::default())
}

/// A loaded set; panics with the problems.
pub(in crate::policy) fn set(policies: &str) -> PolicySet {
    load(&sources(policies)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The warnings of policies that are tried on every relation; with these entities.
pub(in crate::policy) fn lint(policies: &str, entities: Option<&str>) -> Vec<String> {
    let own = sources(policies);
    let entities = entities.map(str::to_owned).or(own.entities.clone());
    lint_sources(&PolicySources { entities, ..own })
}

/// As [`lint`], of a classification.
pub(in crate::policy) fn lint_classified(classification: &str) -> Vec<String> {
    lint_sources(&PolicySources {
        classification: Some(classification.to_owned()),
        ..sources("permit(principal, action, resource);")
    })
}

fn lint_sources(sources: &PolicySources) -> Vec<String> {
    let catalog = Arc::new(catalog());
    let flow = ColumnFlow::default();
    let set = PolicySet::load_and_lint(sources, &catalog, &flow, Lint::EveryRelation);
    let set = set.unwrap_or_else(|errors| panic!("{errors}"));
    set.warnings().iter().map(ToString::to_string).collect()
}

pub(in crate::policy) fn agent(name: &str) -> Session {
    Session::new(Principal::new("Agent", name))
}

pub(in crate::policy) const PRINCIPALS: &str = "entity Role in [Role];
entity Agent in [Role] { tenant?: Long, regions?: Set<String> };
entity User in [Role] { level: Long };
";

pub(in crate::policy) const ENTITIES: &str = r#"[
  { "uid": { "type": "Role", "id": "analyst" }, "attrs": {}, "parents": [] },
  { "uid": { "type": "Role", "id": "dpo" }, "attrs": {}, "parents": [{ "type": "Role", "id": "analyst" }] },
  { "uid": { "type": "Agent", "id": "bot" }, "attrs": { "tenant": 42, "regions": ["eu", "us"] },
    "parents": [{ "type": "Role", "id": "analyst" }] },
  { "uid": { "type": "Agent", "id": "officer" }, "attrs": {}, "parents": [{ "type": "Role", "id": "dpo" }] }
]"#;

pub(in crate::policy) const CLASSIFICATION: &str = r#"
[[column]]
name = "main.customers.email"
tags = ["pii"]
[[column]]
pattern = "*.*.*ssn*"
tags = ["pii", "secret"]
"#;

/// Policies that permit reading everything.
pub(in crate::policy) const READ_ALL: &str =
    "permit(principal, action == Action::\"select\", resource);
permit(principal, action == Action::\"see\", resource);
permit(principal, action in Action::\"read\", resource);
";

/// What `policies` decide about a table for an agent.
pub(in crate::policy) fn decision(policies: &str, who: &str, table: &str) -> Arc<RelationDecision> {
    set(policies)
        .session(&agent(who))
        .relation(relation_id(table))
        .unwrap()
}
