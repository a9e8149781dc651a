//! Forbids of one partition or child: since a row that is read through a parent is not told by where it is stored, they hold
//! for the whole parent.

use cedar_policy::Effect;

use crate::catalog::Catalog;
use crate::policy::{
    cedar::{by_action::covers_any, named_relations::NamedRelations, schema::PolicyAction},
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Whether a forbid of `action` is carried from a relation to its parents. One of tokens takes something from them only
/// where the plaintext is forbidden too.
fn is_inherited(action: PolicyAction) -> bool {
    action.is_read() && action != PolicyAction::ReadToken
}

/// Warns of each forbid whose scope names a relation with a parent.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    named: &NamedRelations<'_>,
    warnings: &mut Vec<PolicyProblem>,
) {
    for Located { policy, origin, .. } in located {
        if policy.effect() != Effect::Forbid || !covers_any(policy, is_inherited) {
            continue;
        }
        let named = named.in_scope(&policy.resource_constraint());
        let parent = named.and_then(|child| {
            let parent = catalog.relation(*child.parents.first()?)?;
            Some((child, parent))
        });
        if let Some((child, parent)) = parent {
            let message = format!(
                "rows of `{0}` are rows of `{1}`, and which of them are stored there is not told apart: this forbids as much of all of `{1}`",
                child.uid, parent.uid
            );
            let help = format!(
                "name `{}` where that is meant; where it is not, forbid `Action::\"see\"` by a condition on its columns",
                parent.uid
            );
            warnings.push(origin.problem(message).with_help(Some(help)));
        }
    }
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
        catalog::{Catalog, test_ddl},
        policy::{ColumnFlow, PolicyFile, PolicySet, PolicySources},
    };

    #[test]
    fn a_forbid_of_a_child_is_warned_of() {
        let schema =
            "CREATE TABLE logs (id integer PRIMARY KEY, year integer) PARTITION BY RANGE (id);
            CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (1) TO (9);";
        let catalog: Catalog = test_ddl::postgres(schema, "main").unwrap();
        let catalog = Arc::new(catalog);
        for (forbid, warned) in [
            (
                "action == Action::\"select\", resource == Table::\"public.logs_1\"",
                true,
            ),
            (
                "action == Action::\"see\", resource is row::public::logs_1",
                true,
            ),
            (
                "action == Action::\"read_plain\", resource == Column::\"public.logs_1.year\"",
                true,
            ),
            (
                "action == Action::\"select\", resource == Table::\"public.logs\"",
                false,
            ),
            (
                "action == Action::\"insert\", resource == Table::\"public.logs_1\"",
                false,
            ),
        ] {
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "base.cedar".to_owned(),
                    text: format!(
                        "permit(principal, action, resource);\nforbid(principal, {forbid});"
                    ),
                }],
                ..PolicySources::default()
            };
            let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap();
            let told: Vec<_> = set
                .warnings()
                .iter()
                .filter(|warning| {
                    warning
                        .message
                        .contains("rows of `public.logs_1` are rows of `public.logs`")
                })
                .map(|warning| warning.line)
                .collect();
            assert_eq!(
                told,
                if warned { vec![Some(2)] } else { vec![] },
                "{forbid}"
            );
        }
    }
}
