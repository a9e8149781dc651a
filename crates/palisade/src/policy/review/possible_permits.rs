//! Whether what a principal does could be permitted, or wait for an approval: for lists and hints, before there is a statement.

use cedar_policy::{
    Decision, Effect, PartialEntityUid, PartialRequest, Policy, PolicySet, PrincipalConstraint,
};

use crate::policy::{
    cedar::{entities::action_uid, failure::Failure, request::Subject, schema::PolicyAction},
    set::Loaded,
};

/// Whether an action decides about what statements read and call.
pub(in crate::policy) fn is_of_reading(action: PolicyAction) -> bool {
    action.is_read() || action == PolicyAction::Call
}

/// Whether an action decides about statements that change anything, beside what they read.
pub(in crate::policy) fn is_of_changing(action: PolicyAction) -> bool {
    action.is_change() || action.is_definition()
}

/// Whether a permit of an action that `is_asked` could apply to the subject, whatever the resource. What cannot be told counts as yes.
pub(in crate::policy) fn could_permit(
    loaded: &Loaded,
    subject: &Subject,
    is_asked: impl Fn(PolicyAction) -> bool,
) -> bool {
    could_any(loaded, subject, is_asked, |policy| {
        policy.effect() == Effect::Permit
    })
}

/// Whether a permit of an action that `is_asked` demands an approval and could apply to the subject, whatever the resource. What cannot
/// be told counts as yes.
pub(in crate::policy) fn could_demand(
    loaded: &Loaded,
    subject: &Subject,
    is_asked: impl Fn(PolicyAction) -> bool,
) -> bool {
    if !loaded.demands_approval {
        return false;
    }
    could_any(loaded, subject, is_asked, |policy| {
        let id: &str = policy.id().as_ref();
        let annotations = loaded.annotations.get(id);
        annotations.is_some_and(|found| found.approval.is_some())
    })
}

/// Whether a policy that `is_meant` could apply to the subject.
fn could_any(
    loaded: &Loaded,
    subject: &Subject,
    is_asked: impl Fn(PolicyAction) -> bool,
    is_meant: impl Fn(&Policy) -> bool,
) -> bool {
    PolicyAction::filter(is_asked).any(|action| {
        let policies = loaded.policies.for_action(action).into_iter();
        let mut meant = policies
            .flat_map(PolicySet::policies)
            .filter(|policy| is_meant(policy));
        meant.any(|policy| could_apply(loaded, subject, action, policy).unwrap_or(true))
    })
}

/// Whether `policy` could apply to some resource: by its scope and, where resources have types of their own, by its conditions
/// on the principal too.
fn could_apply(
    loaded: &Loaded,
    subject: &Subject,
    action: PolicyAction,
    policy: &Policy,
) -> Result<bool, Failure> {
    if !admits(policy.principal_constraint(), subject) {
        return Ok(false);
    }
    // Each table's rows are of a type of their own, and there may be thousands.
    if action.is_of_rows() {
        return Ok(true);
    }
    let schema = &loaded.schemas.fixed;
    let policies = PolicySet::from_policies([policy.clone()]).map_err(Failure::new)?;
    let uid = action_uid(action)?;
    for kind in schema.resources_for_action(&uid).into_iter().flatten() {
        let request = PartialRequest::new(
            PartialEntityUid::from_concrete(subject.uid.clone()),
            uid.clone(),
            PartialEntityUid::new(kind.clone(), None),
            None,
            schema,
        )
        .map_err(Failure::new)?;
        let response = policies
            .tpe(&request, &subject.partial, schema)
            .map_err(Failure::new)?;
        if response.decision() != Some(Decision::Deny) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a scope speaks of the subject.
fn admits(constraint: PrincipalConstraint, subject: &Subject) -> bool {
    let is_in = |uid| {
        let mut above = subject
            .entities
            .ancestors(&subject.uid)
            .into_iter()
            .flatten();
        subject.uid == uid || above.any(|one| *one == uid)
    };
    match constraint {
        PrincipalConstraint::Any => true,
        PrincipalConstraint::Eq(uid) => subject.uid == uid,
        PrincipalConstraint::In(uid) => is_in(uid),
        PrincipalConstraint::Is(kind) => *subject.uid.type_name() == kind,
        PrincipalConstraint::IsIn(kind, uid) => *subject.uid.type_name() == kind && is_in(uid),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::policy::tests::fixture::{READ_ALL, agent, set};

    /// Whether reads and changes of `bot` could wait, by all reads and `policy`.
    fn check(policy: &str, reads: bool, changes: bool) {
        let set = set(&format!("{READ_ALL}{policy}"));
        let view = set.session(&agent("bot"));
        assert_eq!(view.reads_may_wait(), reads, "{policy}");
        assert_eq!(view.changes_may_wait(), changes, "{policy}");
        // What the time decides is not known beforehand.
        let timed = set.session(&agent("bot").at(std::time::Duration::from_secs(1)));
        assert_eq!(timed.changes_may_wait(), changes, "{policy}");
    }

    #[test]
    fn who_could_change_anything_is_told_by_principal() {
        let could = |policy: &str| {
            let set = set(&format!("{READ_ALL}{policy}"));
            let timed = agent("bot").at(std::time::Duration::from_secs(1));
            let both = [agent("bot"), timed].map(|session| set.session(&session).could_change());
            assert_eq!(both[0], both[1], "{policy}");
            both[0]
        };
        for (policy, expected) in [
            ("", false),
            (
                "permit(principal == Agent::\"bot\", action == Action::\"update\", resource);",
                true,
            ),
            (
                "permit(principal == Agent::\"x\", action == Action::\"update\", resource);",
                false,
            ),
            (
                "permit(principal in Role::\"boss\", action, resource);",
                false,
            ),
            (
                "forbid(principal, action == Action::\"update\", resource);",
                false,
            ),
            (
                "permit(principal, action == Action::\"drop\", resource) when { principal == Agent::\"x\" };",
                false,
            ),
            (
                "permit(principal, action == Action::\"drop\", resource) when { principal == Agent::\"bot\" };",
                true,
            ),
            (
                "permit(principal, action == Action::\"change\", resource);",
                false,
            ),
        ] {
            assert_eq!(could(policy), expected, "{policy}");
        }
    }

    #[test]
    fn what_could_wait_is_told_by_principal_and_action() {
        let by = |scope: &str, condition: &str| {
            format!("@approval(\"required\") permit({scope}) when {{ {condition} }};")
        };
        check("", false, false);
        check(
            "permit(principal, action == Action::\"delete\", resource);",
            false,
            false,
        );
        let delete = "principal, action == Action::\"delete\", resource == Table::\"main.tickets\"";
        check(&by(delete, "true"), false, true);
        check(&by(delete, "context.has_where"), false, true);
        check(
            &by(
                delete,
                "context has time && context.time < datetime(\"1970-01-02\")",
            ),
            false,
            true,
        );
        check(&by(delete, "principal == Agent::\"bot\""), false, true);
        check(&by(delete, "principal == Agent::\"other\""), false, false);
        check(
            &by(
                &delete.replace("principal", "principal == Agent::\"bot\""),
                "true",
            ),
            false,
            true,
        );
        check(
            &by(
                &delete.replace("principal", "principal == Agent::\"x\""),
                "true",
            ),
            false,
            false,
        );
        check(
            &by(&delete.replace("principal", "principal is User"), "true"),
            false,
            false,
        );
        check(
            &by(
                &delete.replace("principal", "principal in Role::\"boss\""),
                "true",
            ),
            false,
            false,
        );
        check(
            &by("principal, action == Action::\"select\", resource", "true"),
            true,
            false,
        );
        check(
            &by("principal, action == Action::\"change\", resource", "true"),
            false,
            true,
        );
        check(
            &by(
                "principal, action == Action::\"call\", resource",
                "resource.safety == \"pure\"",
            ),
            true,
            false,
        );
        check(&by("principal, action, resource", "true"), true, true);
    }
}
