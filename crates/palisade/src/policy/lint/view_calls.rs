//! Views that a permit lets be selected, and that call a function which those who may select them may not call.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::EntityUid;

use crate::catalog::Relation;
use crate::policy::{
    cedar::request::Subject,
    decide::functions,
    lint::{list_names, place, show_principal},
    load::{diagnostic::PolicyProblem, source::Origins},
    rule::Rule,
    set::Loaded,
};

/// Views that can be selected, by the policies that permit it.
#[derive(Default)]
pub(in crate::policy) struct ViewCalls {
    /// By policy and view.
    found: BTreeMap<(String, String), Found>,
}

/// What is known of a view under one of the policies that let it be selected.
enum Found {
    /// One of those whom the policy permits it reads it.
    Read,
    /// Up to now no one does: one who does not, and functions that this principal may not call.
    Refused(EntityUid, BTreeSet<String>),
}

impl ViewCalls {
    /// Looks at `relation`, which `policies` let `subject` select.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        policies: &[String],
    ) {
        let Some(calls) = loaded.flow.calls.get(&relation.id) else {
            return;
        };
        let is_refused = |uid: &&String| {
            let def = loaded.catalog.function(uid);
            let decision = def.map(|def| functions::decide_call(loaded, subject, def));
            // What fails is told by itself.
            matches!(decision, Some(Ok(decision)) if !decision.permitted)
        };
        let refused: BTreeSet<String> = calls.iter().filter(is_refused).cloned().collect();
        for id in policies {
            let key = (id.clone(), relation.uid.clone());
            if refused.is_empty() {
                self.found.insert(key, Found::Read);
            } else {
                let found = || Found::Refused(subject.uid.clone(), refused.clone());
                self.found.entry(key).or_insert_with(found);
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
            if let Found::Refused(principal, refused) = found {
                let (_, calls, views) = by_policy
                    .entry(policy)
                    .or_insert_with(|| (principal, BTreeSet::new(), Vec::new()));
                calls.extend(refused);
                views.push(view);
            }
        }
        for (id, (principal, calls, views)) in by_policy {
            let calls: Vec<String> = calls.into_iter().collect();
            let principal = show_principal(&principal);
            let (views, calls) = (list_names(&views), list_names(&calls));
            let message = format!(
                "{views} can be selected by {principal}, but the query of the view calls {calls}, which this principal may not call: each statement that reads the view is refused"
            );
            let help = format!(
                "a view is read with the permits of who asks: permit `call` of {calls} too, by name where the class of the function needs it"
            );
            let warning = place(origins, &id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::ViewCalls));
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
        CREATE FUNCTION price_of(id int) RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE VIEW priced AS SELECT id, price_of(id) AS price FROM deals;
        CREATE VIEW above AS SELECT id FROM priced;
        CREATE VIEW plain AS SELECT id, abs(total) AS total FROM deals;";

    fn told(policies: &str) -> Vec<String> {
        let catalog = test_ddl::postgres(TABLES, "main");
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text: policies.to_owned(),
            }],
            ..PolicySources::default()
        };
        let firewall = Firewall::builder(catalog.unwrap(), sources).lint(Lint::EveryRelation);
        let firewall = firewall.build().unwrap();
        let told = firewall.policies().warnings().iter();
        let told = told.map(ToString::to_string);
        told.filter(|told| told.contains("each statement that reads the view"))
            .collect()
    }

    #[test]
    fn views_with_calls_that_are_not_permitted_are_warned_of() {
        let all = "permit(principal, action, resource);\n";
        let found = told(all);
        assert_eq!(found.len(), 1, "{found:?}");
        let found = found.first().unwrap();
        assert!(
            found.starts_with(
                "base.cedar:1:1: `public.above` and `public.priced` can be selected by"
            ),
            "{found}"
        );
        assert!(found.contains("calls `public.price_of`, which"), "{found}");
        let named = r#"permit(principal, action == Action::"call", resource == Function::"public.price_of");"#;
        assert_eq!(told(&format!("{all}{named}")), [""; 0]);
    }
}
