//! Permits of all tables where the account can read several databases: on MySQL and MariaDB a schema is a database.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::PolicyId;

use crate::policy::{
    cedar::{
        entities,
        request::decide,
        schema::{self, PolicyAction},
    },
    lint::probe,
    load::{diagnostic::PolicyProblem, source::Origins},
    set::Loaded,
};
use crate::{catalog::Relation, dialect::Dialect};

/// The permits of `select` that reach tables of other databases than the connection's own and name neither these nor their
/// databases, each with the databases.
pub(in crate::policy) fn check(loaded: &Loaded, origins: &Origins<'_>) -> Vec<PolicyProblem> {
    if loaded.catalog.dialect() != Dialect::Mysql {
        return Vec::new();
    }
    let own = loaded.catalog.default_schema();
    let mut first: BTreeMap<&str, &Relation> = BTreeMap::new();
    for relation in loaded.catalog.relations() {
        let is_other = relation.schema != own && relation.system.is_none();
        if is_other && schema::has_entity(relation) {
            first.entry(&relation.schema).or_insert(relation);
        }
    }
    if own.is_empty() || first.is_empty() {
        return Vec::new();
    }
    let mut reached: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for subject in probe::subjects(loaded, false) {
        // One table stands for its database: what names none reaches all alike, tags aside.
        for (database, relation) in &first {
            let Some(table) = entities::uid("Table", &relation.uid) else {
                continue;
            };
            let select = decide(loaded, &subject, PolicyAction::Select, relation, table);
            let Some(select) = select.ok().filter(|select| select.permitted) else {
                continue;
            };
            for id in select.policies {
                if !names_a_place(loaded, &id) {
                    reached.entry(id).or_default().insert(database);
                }
            }
        }
    }
    let mut out = Vec::new();
    for (id, databases) in reached {
        let Some(origin) = origins.get(&id) else {
            continue;
        };
        let names: Vec<String> = databases.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "this permits tables of other databases, which the account can read: {}",
            names.join(", ")
        );
        let schema = schema::schema_id(&loaded.catalog, own);
        let help = format!(
            "write `resource in Schema::{schema:?}` in the scope for this database alone, and name each other one that is meant"
        );
        out.push(origin.problem(message).with_help(Some(help)));
    }
    out
}

/// Whether a policy says of which databases or tables it is.
fn names_a_place(loaded: &Loaded, id: &str) -> bool {
    let policies = loaded.policies.for_action(PolicyAction::Select);
    let policy = policies.and_then(|policies| policies.policy(&PolicyId::new(id)));
    policy.is_some_and(|policy| {
        let mut literals = policy.entity_literals().into_iter();
        literals.any(|uid| matches!(uid.type_name().to_string().as_str(), "Schema" | "Table"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::sync::Arc;

    use crate::{
        catalog::{Catalog, RelationDef, RelationKind, TypeClass},
        dialect::Dialect,
        policy::{ColumnFlow, PolicySet, PolicySources, tests::fixture},
    };

    /// What is told of `policies` over a database `shop`, beside which the account reads `hr`.
    fn told(policies: &str, classification: &str) -> Vec<String> {
        let table = |schema: &str, name: &str| {
            let columns = vec![fixture::column("id", TypeClass::Integer)];
            RelationDef::new(schema, name, RelationKind::Table, columns)
        };
        let catalog = Catalog::builder(Dialect::Mysql)
            .search_path(["shop".to_owned()])
            .relation(table("shop", "orders"))
            .relation(table("hr", "people"))
            .build()
            .unwrap();
        let sources = PolicySources {
            classification: Some(classification.to_owned()),
            ..fixture::sources(policies)
        };
        let set = PolicySet::load(&sources, &Arc::new(catalog), &ColumnFlow::default());
        let set = set.unwrap_or_else(|errors| panic!("{errors}"));
        let told = set.permits_beyond_the_database();
        assert!(told.iter().all(|told| set.warnings().contains(told)));
        told.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn permits_of_all_databases_are_warned_of() {
        let rest = "permit(principal, action == Action::\"see\", resource); permit(principal, action in Action::\"read\", resource);";
        let elsewhere = "[[table]]\nelsewhere = true\ntags = [\"other-database\"]\n";
        for (select, classification, expected) in [
            (
                "permit(principal, action == Action::\"select\", resource);",
                "",
                1,
            ),
            ("permit(principal, action, resource);", "", 1),
            (
                "permit(principal, action == Action::\"select\", resource in Schema::\"shop\");",
                "",
                0,
            ),
            (
                "permit(principal, action == Action::\"select\", resource in Schema::\"hr\");",
                "",
                0,
            ),
            (
                "permit(principal, action == Action::\"select\", resource == Table::\"hr.people\");",
                "",
                0,
            ),
            (
                "permit(principal, action == Action::\"select\", resource) unless { resource.tags.contains(\"other-database\") };",
                elsewhere,
                0,
            ),
        ] {
            let told = told(&format!("{select} {rest}"), classification);
            assert_eq!(told.len(), expected, "{select}: {told:?}");
            for told in told {
                assert!(
                    told.contains("which the account can read: `hr`")
                        && told.contains("write `resource in Schema::\"shop\"`"),
                    "{told}"
                );
            }
        }
    }
}
