//! Permits that a forbid without a condition always beats.

use cedar_policy::{Effect, PrincipalConstraint, ResourceConstraint};

use crate::policy::{
    cedar::{by_action::covers, schema::PolicyAction},
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Warns of each permit for whose principals, actions and resources a forbid always applies.
pub(in crate::policy) fn check(located: &[Located<'_>], warnings: &mut Vec<PolicyProblem>) {
    let is_plain_forbid = |located: &&Located<'_>| {
        located.policy.effect() == Effect::Forbid && !located.policy.has_non_scope_constraint()
    };
    let forbids: Vec<&Located<'_>> = located.iter().filter(is_plain_forbid).collect();
    for permit in located {
        if permit.policy.effect() != Effect::Permit {
            continue;
        }
        let Some(forbid) = forbids.iter().find(|forbid| beats(forbid, permit)) else {
            continue;
        };
        let place = forbid.origin.problem("");
        let message = format!(
            "this permits nothing: the forbid `{}` ({}, line {}) always applies where it does",
            forbid.policy.id(),
            place.file,
            place.line.unwrap_or(1)
        );
        let help = "leave this permit out, or give the forbid an exception: `unless { … }`";
        warnings.push(permit.origin.problem(message).with_help(Some(help)));
    }
}

/// Whether `forbid`, which has no condition, is about all that `permit` is about.
fn beats(forbid: &Located<'_>, permit: &Located<'_>) -> bool {
    let (forbid, permit) = (&forbid.policy, &permit.policy);
    PolicyAction::ALL
        .iter()
        .all(|action| !covers(permit, *action) || covers(forbid, *action))
        && holds_principals(
            &forbid.principal_constraint(),
            &permit.principal_constraint(),
        )
        && holds_resources(&forbid.resource_constraint(), &permit.resource_constraint())
}

fn holds_principals(wide: &PrincipalConstraint, narrow: &PrincipalConstraint) -> bool {
    use PrincipalConstraint::{Any, Eq, In, Is, IsIn};
    match (wide, narrow) {
        (Any, _) => true,
        (Is(wide), Is(kind) | IsIn(kind, _)) => wide == kind,
        (Is(wide), Eq(one)) => wide == one.type_name(),
        (In(wide), In(group) | IsIn(_, group) | Eq(group)) | (Eq(wide), Eq(group)) => wide == group,
        (IsIn(wide, group), IsIn(kind, other)) => wide == kind && group == other,
        (Is(_) | In(_) | Eq(_) | IsIn(_, _), _) => false,
    }
}

fn holds_resources(wide: &ResourceConstraint, narrow: &ResourceConstraint) -> bool {
    use ResourceConstraint::{Any, Eq, In, Is, IsIn};
    match (wide, narrow) {
        (Any, _) => true,
        (Is(wide), Is(kind) | IsIn(kind, _)) => wide == kind,
        (Is(wide), Eq(one)) => wide == one.type_name(),
        (In(wide), In(group) | IsIn(_, group) | Eq(group)) | (Eq(wide), Eq(group)) => wide == group,
        (IsIn(wide, group), IsIn(kind, other)) => wide == kind && group == other,
        (Is(_) | In(_) | Eq(_) | IsIn(_, _), _) => false,
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

    use crate::policy::tests::fixture::lint;

    #[test]
    fn permits_that_always_lose_are_warned_of() {
        let permit = "permit(principal is Agent, action == Action::\"select\", resource == Table::\"main.tickets\") when { context.transport == \"stdio\" };";
        for (permit, forbid, is_beaten) in [
            (
                permit,
                "forbid(principal, action == Action::\"select\", resource);",
                true,
            ),
            (permit, "forbid(principal, action, resource);", true),
            (
                permit,
                "forbid(principal is Agent, action == Action::\"select\", resource == Table::\"main.tickets\");",
                true,
            ),
            (
                permit,
                "forbid(principal, action == Action::\"select\", resource is Table);",
                true,
            ),
            (
                permit,
                "forbid(principal is User, action == Action::\"select\", resource);",
                false,
            ),
            (
                permit,
                "forbid(principal, action == Action::\"insert\", resource);",
                false,
            ),
            (
                permit,
                "forbid(principal, action == Action::\"select\", resource == Table::\"main.customers\");",
                false,
            ),
            (
                permit,
                "forbid(principal, action == Action::\"select\", resource) unless { principal == User::\"a\" };",
                false,
            ),
            (
                "permit(principal, action in [Action::\"select\", Action::\"discover\"], resource);",
                "forbid(principal, action == Action::\"select\", resource);",
                false,
            ),
            (
                "permit(principal, action in Action::\"read\", resource);",
                "@mask(\"null\") forbid(principal, action == Action::\"read_plain\", resource);",
                false,
            ),
        ] {
            let told = lint(&format!("{permit}\n@id(\"no\") {forbid}"), None);
            let told: Vec<_> = told
                .iter()
                .filter(|told| told.contains("permits nothing"))
                .collect();
            assert_eq!(told.len(), usize::from(is_beaten), "{forbid}: {told:?}");
            assert!(
                told.iter()
                    .all(|told| told.contains("base.cedar:1:1")
                        && told.contains("the forbid `no` (")),
                "{told:?}"
            );
        }
    }
}
