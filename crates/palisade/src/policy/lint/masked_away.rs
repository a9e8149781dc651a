//! Columns that a mask is to stand for and that are not there at all: who has `read_plain` alone loses it to the forbid, and
//! without `read_masked` there is nothing in its place.

use std::collections::BTreeMap;

use cedar_policy::{Authorizer, Decision, Effect, EntityUid, PolicyId, PolicySet, Request};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        entities::{action_uid, resource},
        request::{Subject, decide},
        schema::PolicyAction,
    },
    lint::{place, show_principal},
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::{ColumnDecision, ColumnLevel},
    rule::Rule,
    set::Loaded,
};

/// Columns that a forbid masks away.
#[derive(Default)]
pub(in crate::policy) struct MaskedAway {
    /// By the forbid with the mask and the permit of `read_plain` that it takes away: a column, and for whom.
    found: BTreeMap<(String, String), (String, EntityUid)>,
}

impl MaskedAway {
    /// Looks at the columns of `relation`, as they are decided for `subject`.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        decisions: &[ColumnDecision],
    ) {
        for (column, decided) in relation.columns.iter().zip(decisions) {
            if decided.level != ColumnLevel::Hidden {
                continue;
            }
            let is_masking = |id: &&String| {
                let of = loaded.annotations.get(*id);
                of.is_some_and(|of| of.mask.is_some())
                    && is_forbid(loaded, PolicyAction::ReadPlain, id)
            };
            let mut policies = decided.policies.iter();
            let Some(forbid) = policies.clone().find(is_masking) else {
                continue;
            };
            // What another forbid takes away whole is hidden on purpose.
            if policies.any(|id| is_forbid(loaded, PolicyAction::ReadMasked, id)) {
                continue;
            }
            // Where it fails, that is told by itself.
            let Some(permit) = find_permit(loaded, subject, relation, &column.uid) else {
                continue;
            };
            let subject = || (column.uid.clone(), subject.uid.clone());
            self.found
                .entry((forbid.clone(), permit))
                .or_insert_with(subject);
        }
    }

    /// The warnings.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for ((forbid, permit), (column, principal)) in self.found {
            let of = place(origins, &permit, String::new());
            let message = format!(
                "`{column}` is to be masked by this for {}, which has no `read_masked`: the column does not exist to it",
                show_principal(&principal)
            );
            let help = format!(
                "the permit `{permit}` ({}, line {}) gives `read_plain` alone: write `action in Action::\"read\"`, or permit `Action::\"read_masked\"` as well",
                of.file,
                of.line.unwrap_or(1)
            );
            let warning = match origins.get(&forbid) {
                Some(origin) => {
                    let masks = ["mask", "aggregate_only"];
                    let written = masks
                        .into_iter()
                        .find(|name| origin.text().contains(&format!("@{name}")));
                    origin.at_annotation(written.unwrap_or("mask"), message)
                }
                None => place(origins, &forbid, message),
            };
            warnings.push(warning.with_help(Some(help)).of_rule(Rule::MaskHides));
        }
    }
}

fn is_forbid(loaded: &Loaded, action: PolicyAction, id: &str) -> bool {
    let policies = loaded.policies.for_action(action);
    let policy = policies.and_then(|policies| policies.policy(&PolicyId::new(id)));
    policy.is_some_and(|policy| policy.effect() == Effect::Forbid)
}

/// The first policy that would let `subject` read the column plain, of a table that it may select, if nothing forbade it.
fn find_permit(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    column: &str,
) -> Option<String> {
    let table = resource("Table", &relation.uid).ok()?;
    let select = decide(loaded, subject, PolicyAction::Select, relation, table).ok()?;
    if !select.permitted {
        return None;
    }
    let column = resource("Column", column).ok()?;
    let entities = subject.entities_about(loaded, relation).ok()?;
    let action = PolicyAction::ReadPlain;
    let policies = loaded
        .policies
        .about(action, &column, &entities, false)
        .ok()?;
    let permits = policies
        .policies()
        .filter(|policy| policy.effect() == Effect::Permit)
        .cloned();
    let permits = PolicySet::from_policies(permits).ok()?;
    let request = Request::new(
        subject.uid.clone(),
        action_uid(action).ok()?,
        column,
        subject.context.clone(),
        Some(&loaded.schemas.fixed),
    )
    .ok()?;
    let response = Authorizer::new().is_authorized(&request, &permits, &entities);
    match response.decision() {
        Decision::Allow => response
            .diagnostics()
            .reason()
            .map(ToString::to_string)
            .min(),
        Decision::Deny => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use crate::policy::tests::fixture::lint;

    #[test]
    fn masks_that_leave_nothing_are_warned_of() {
        let told = |policies: &str| -> Vec<String> {
            let told = lint(policies, None).into_iter();
            told.filter(|told| told.contains("is to be masked by this"))
                .collect()
        };
        let plain = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read_plain\"], resource);\n";
        let mask = "@mask(\"email\")\nforbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.email\");\n";
        let found = told(&format!("{plain}{mask}"));
        let [found] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(
            found.starts_with("base.cedar:2:1: `main.customers.email` is to be masked by this for `Agent::\"bot\"`, which has no `read_masked`")
                && found.contains("the permit `base.cedar:1` (base.cedar, line 1) gives `read_plain` alone: write `action in Action::\"read\"`"),
            "{found}"
        );
        let aggregates = mask.replace("@mask(\"email\")", "@aggregate_only(\"5\")");
        assert_eq!(told(&format!("{plain}{aggregates}")).len(), 1);
        for silent in [
            // The mask is read.
            format!("{}{mask}", plain.replace("[Action", "[Action::\"read_masked\", Action")),
            // It is hidden on purpose.
            format!("{plain}{}", mask.replace("@mask(\"email\")\n", "")),
            format!(
                "{plain}{mask}forbid(principal, action == Action::\"read_masked\", resource == Column::\"main.customers.email\");"
            ),
            // Whoever is not permitted to read it loses nothing by the mask.
            format!(
                "permit(principal, action in [Action::\"select\", Action::\"see\"], resource);
                 permit(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.name\");\n{mask}"
            ),
            // The table is not there either.
            format!("{}{mask}", plain.replace("Action::\"select\", ", "")),
        ] {
            assert_eq!(told(&silent), [""; 0], "{silent}");
        }
    }
}
