//! Views that a permit lets be selected, and that are not there: what a view's query reads is read as the principal, who may not
//! select one of its tables.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::EntityUid;

use crate::catalog::{Relation, RelationId, RelationKind};
use crate::policy::{
    cedar::{
        entities::resource,
        request::{Subject, decide},
        schema,
        schema::PolicyAction,
    },
    lint::{list_names, place, show_principal},
    load::{diagnostic::PolicyProblem, source::Origins},
    rule::Rule,
    set::Loaded,
};

/// Views that can be selected, by the policies that permit it.
#[derive(Default)]
pub(in crate::policy) struct AbsentViews {
    /// By policy and view.
    found: BTreeMap<(String, String), Found>,
}

/// What is known of a view under one of the policies that let it be selected.
enum Found {
    /// It is there for one of those whom the policy permits it, or it is kept from them on purpose.
    There,
    /// Up to now it is there for no one: for whom it is not, and tables that this principal may not select.
    Absent(EntityUid, BTreeSet<String>),
}

impl AbsentViews {
    /// Looks at `relation`, which `policies` let `subject` select.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        policies: &[String],
    ) {
        if !is_view(relation) {
            return;
        }
        let missing = match find_below(loaded, subject, relation, &mut BTreeSet::new()) {
            Below::Missing(tables) => Some(tables),
            Below::There | Below::Forbidden => None,
        };
        for id in policies {
            let key = (id.clone(), relation.uid.clone());
            match &missing {
                None => {
                    self.found.insert(key, Found::There);
                }
                Some(tables) => {
                    let absent = || Found::Absent(subject.uid.clone(), tables.clone());
                    self.found.entry(key).or_insert_with(absent);
                }
            }
        }
    }

    /// The warnings: one for each policy.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        let mut by_policy: BTreeMap<String, (EntityUid, BTreeSet<String>, Vec<String>)> =
            BTreeMap::new();
        for ((policy, view), found) in self.found {
            if let Found::Absent(principal, missing) = found {
                let (_, tables, views) = by_policy
                    .entry(policy)
                    .or_insert_with(|| (principal, BTreeSet::new(), Vec::new()));
                tables.extend(missing);
                views.push(view);
            }
        }
        for (id, (principal, tables, views)) in by_policy {
            let tables: Vec<String> = tables.into_iter().collect();
            let principal = show_principal(&principal);
            let (views, tables) = (list_names(&views), list_names(&tables));
            let message = format!(
                "{views} can be selected by {principal}, but the query of the view reads {tables}, which this principal may not select: to it the view does not exist"
            );
            let help = format!(
                "a view is read with the permits of who asks: permit `select`, `see` and `read` on {tables} too; filters and masks there hold in the view"
            );
            let warning = place(origins, &id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::ViewAbsent));
        }
    }
}

fn is_view(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::View | RelationKind::Materialized => true,
        RelationKind::Table | RelationKind::Virtual | RelationKind::System => false,
    }
}

/// What becomes of a view by the tables below it.
enum Below {
    There,
    /// The principal may not select these tables.
    Missing(BTreeSet<String>),
    /// A forbid takes a table away, and so the view: it is hidden on purpose.
    Forbidden,
}

/// Looks at what the columns of a view are computed from, through views below it. A table that only joins or filters is not
/// known of here, and nothing is said of it.
fn find_below(
    loaded: &Loaded,
    subject: &Subject,
    view: &Relation,
    looked_at: &mut BTreeSet<RelationId>,
) -> Below {
    let mut bases = BTreeSet::new();
    for (id, _) in view.column_ids() {
        let from = loaded.flow.columns.get(&id).into_iter().flatten();
        bases.extend(from.map(|base| base.relation));
    }
    let mut missing = BTreeSet::new();
    for base in bases {
        if base == view.id || !looked_at.insert(base) {
            continue;
        }
        let Some(base) = loaded.catalog.relation(base) else {
            continue;
        };
        if base.system.is_some() || !schema::has_entity(base) {
            continue;
        }
        let select = resource("Table", &base.uid)
            .and_then(|table| decide(loaded, subject, PolicyAction::Select, base, table));
        let found = match select {
            Ok(select) if select.permitted => match is_view(base) {
                true => find_below(loaded, subject, base, looked_at),
                false => Below::There,
            },
            // Cedar names policies in a denial only if they forbid.
            Ok(select) if select.policies.is_empty() => {
                Below::Missing(BTreeSet::from([base.uid.clone()]))
            }
            // What fails is told by itself.
            Ok(_) | Err(_) => Below::Forbidden,
        };
        match found {
            Below::There => {}
            Below::Missing(tables) => missing.extend(tables),
            Below::Forbidden => return Below::Forbidden,
        }
    }
    match missing.is_empty() {
        true => Below::There,
        false => Below::Missing(missing),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::{
        catalog::test_ddl,
        firewall::Firewall,
        policy::{Lint, PolicySources},
    };

    const TABLES: &str = "CREATE TABLE deals (id int PRIMARY KEY, total int, owner int);
        CREATE TABLE people (id int PRIMARY KEY, name text);
        CREATE VIEW totals AS SELECT owner, sum(total) AS total FROM deals GROUP BY owner;
        CREATE VIEW named AS SELECT p.name, t.total FROM totals t JOIN people p ON p.id = t.owner;";

    const ENTITIES: &str = r#"[
      {"uid": {"type": "Role", "id": "reporting"}, "attrs": {}, "parents": []},
      {"uid": {"type": "Agent", "id": "rep"}, "attrs": {}, "parents": [{"type": "Role", "id": "reporting"}]},
      {"uid": {"type": "Agent", "id": "all"}, "attrs": {}, "parents": []}
    ]"#;

    fn told(policies: &str) -> Vec<String> {
        let catalog = test_ddl::postgres(TABLES, "main");
        let sources = PolicySources {
            entities: Some(ENTITIES.to_owned()),
            ..PolicySources::from_cedar("base.cedar", policies)
        };
        let firewall = Firewall::builder(catalog.unwrap(), sources).lint(Lint::EveryRelation);
        let firewall = firewall.build().unwrap();
        let told = firewall.policies().warnings().iter();
        let told = told.map(ToString::to_string);
        told.filter(|told| told.contains("to it the view does not exist"))
            .collect()
    }

    #[test]
    fn views_over_tables_that_are_not_permitted_are_warned_of() {
        let all = "permit(principal == Agent::\"all\", action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";
        let read = "permit(principal in Role::\"reporting\", action in [Action::\"see\", Action::\"read\"], resource);\n";
        let views = "permit(principal in Role::\"reporting\", action == Action::\"select\", resource) when { resource.kind == \"view\" };\n";
        let tables = |names: &[&str]| -> String {
            let permit = |name: &&str| {
                format!(
                    "permit(principal in Role::\"reporting\", action == Action::\"select\", resource == Table::\"public.{name}\");\n"
                )
            };
            names.iter().map(permit).collect()
        };
        let found = told(&format!("{all}{read}{views}"));
        assert_eq!(
            found,
            [
                "base.cedar:3:1: `public.named` and `public.totals` can be selected by `Agent::\"rep\"`, but the query of the view reads `public.deals` and `public.people`, which this principal may not select: to it the view does not exist\n  help: a view is read with the permits of who asks: permit `select`, `see` and `read` on `public.deals` and `public.people` too; filters and masks there hold in the view"
            ]
        );
        // Through a view below.
        let found = told(&format!(
            "{all}{read}{}",
            tables(&["named", "totals", "people"])
        ));
        assert_eq!(found.len(), 2, "{found:?}");
        for silent in [
            format!("{all}{read}{views}{}", tables(&["deals", "people"])),
            all.to_owned(),
            // A forbid of the table hides the view with it.
            format!(
                "{all}permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);
                 forbid(principal in Role::\"reporting\", action == Action::\"select\", resource == Table::\"public.deals\");"
            ),
            // It serves others whom it permits.
            format!(
                "{all}permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource == Table::\"public.totals\");"
            ),
        ] {
            assert_eq!(told(&silent), [""; 0], "{silent}");
        }
    }
}
