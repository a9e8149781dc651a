//! Views that a permit lets be selected, and that no statement can read, since their definition is not understood.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Relation;
use crate::policy::{
    lint::{list_names, place},
    load::{diagnostic::PolicyProblem, source::Origins},
    rule::Rule,
    set::Loaded,
};

/// Such views, by the policies that let them be selected.
#[derive(Default)]
pub(in crate::policy) struct UnreadViews {
    found: BTreeMap<String, BTreeSet<String>>,
    /// Why, by view.
    reasons: BTreeMap<String, String>,
}

impl UnreadViews {
    /// Looks at `relation`, which `policies` let somebody select.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        relation: &Relation,
        policies: &[String],
    ) {
        let Some(reason) = loaded.flow.unread.get(&relation.id) else {
            return;
        };
        self.reasons.insert(relation.uid.clone(), reason.clone());
        for id in policies {
            let views = self.found.entry(id.clone()).or_default();
            views.insert(relation.uid.clone());
        }
    }

    /// The warnings: one for each policy.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for (id, views) in self.found {
            let views: Vec<String> = views.into_iter().collect();
            let first = views.first();
            let reason = first.and_then(|view| self.reasons.get(view).map(|why| (view, why)));
            let reason = reason.map(|(view, why)| format!(": of `{view}`, {why}"));
            let message = format!(
                "{} can be selected, and no statement can read such a view, since its definition is not understood{}",
                list_names(&views),
                reason.unwrap_or_default()
            );
            let help =
                "permit the tables that it reads, or define the view without what is named here";
            let warning = place(origins, &id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::ViewUnread));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::{
        catalog::test_ddl,
        firewall::Firewall,
        policy::{Lint, PolicyFile, PolicySources},
    };

    const TABLES: &str = "CREATE TABLE deals (id int PRIMARY KEY, total int);
        CREATE VIEW sampled AS SELECT id FROM deals WHERE total IN (SELECT total FROM nowhere);
        CREATE VIEW plain AS SELECT id FROM deals;";

    #[test]
    fn views_that_are_not_understood_are_warned_of() {
        let catalog = test_ddl::postgres(TABLES, "main").unwrap();
        let told = |policies: &str| -> Vec<String> {
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "base.cedar".to_owned(),
                    text: policies.to_owned(),
                }],
                ..PolicySources::default()
            };
            let firewall = Firewall::builder(catalog.clone(), sources).lint(Lint::EveryRelation);
            let firewall = firewall.build().unwrap();
            let told = firewall.policies().warnings().iter();
            let told = told.map(ToString::to_string);
            told.filter(|told| told.contains("is not understood"))
                .collect()
        };
        let found = told("permit(principal, action, resource);");
        assert_eq!(found.len(), 1, "{found:?}");
        let found = found.first().unwrap();
        assert!(
            found.starts_with("base.cedar:1:1: `public.sampled` can be selected, and no statement"),
            "{found}"
        );
        assert!(found.contains("nowhere"), "{found}");
        let table =
            r#"permit(principal, action == Action::"select", resource == Table::"public.deals");"#;
        assert_eq!(told(table), [""; 0]);
    }
}
