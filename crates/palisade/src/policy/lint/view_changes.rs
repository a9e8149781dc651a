//! Permits of changes that name a view: nothing is changed through views, so that they permit nothing.

use cedar_policy::Effect;

use crate::catalog::RelationKind;
use crate::policy::{
    cedar::{by_action::covers_only, named_relations::NamedRelations, schema::PolicyAction},
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Warns of each permit of changes, and of nothing else, whose scope names a view.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    named: &NamedRelations<'_>,
    warnings: &mut Vec<PolicyProblem>,
) {
    for Located { policy, origin, .. } in located {
        if policy.effect() != Effect::Permit || !covers_only(policy, PolicyAction::is_change) {
            continue;
        }
        let view = named
            .in_scope(&policy.resource_constraint())
            .filter(|relation| {
                matches!(
                    relation.kind,
                    RelationKind::View | RelationKind::Materialized
                )
            });
        if let Some(view) = view {
            let message = format!(
                "`{}` is a view, and nothing is changed through views: this permits nothing",
                view.uid
            );
            let help = "name the table that the view reads";
            warnings.push(origin.problem(message).with_help(Some(help)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::set;

    #[test]
    fn permits_of_changing_views_are_warned_of() {
        for (scope, warned) in [
            (
                "action == Action::\"insert\", resource == Table::\"main.contacts\"",
                true,
            ),
            (
                "action in [Action::\"update\", Action::\"delete\"], resource == Table::\"main.contacts\"",
                true,
            ),
            (
                "action == Action::\"write\", resource in Table::\"main.contacts\"",
                true,
            ),
            (
                "action == Action::\"write\", resource == Column::\"main.contacts.address\"",
                true,
            ),
            (
                "action == Action::\"add\", resource is row::main::contacts",
                true,
            ),
            ("action, resource == Table::\"main.contacts\"", false),
            (
                "action == Action::\"select\", resource == Table::\"main.contacts\"",
                false,
            ),
            (
                "action == Action::\"insert\", resource == Table::\"main.tickets\"",
                false,
            ),
            ("action == Action::\"insert\", resource", false),
        ] {
            let set = set(&format!("permit(principal, {scope});"));
            let told: Vec<String> = set
                .warnings()
                .iter()
                .map(ToString::to_string)
                .filter(|warning| warning.contains("through views"))
                .collect();
            let expected = "`main.contacts` is a view, and nothing is changed through views: this permits nothing\n  help: name the table that the view reads";
            assert_eq!(told.len(), usize::from(warned), "{scope}: {told:?}");
            assert!(told.iter().all(|told| told.ends_with(expected)), "{told:?}");
        }
    }
}
