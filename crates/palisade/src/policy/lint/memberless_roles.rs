//! Roles that policies speak of and in which no principal is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cedar_policy::{Entity, EntityTypeName, EntityUid, PrincipalConstraint};
use serde_json::Value;

use crate::policy::{
    cedar::entities,
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Warns of each role that a policy asks for, that is among the entities `given`, and in which none of the types of
/// principals is.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    given: &[Entity],
    principals: &HashSet<EntityTypeName>,
    warnings: &mut Vec<PolicyProblem>,
) {
    let known: HashMap<EntityUid, HashSet<EntityUid>> = given
        .iter()
        .map(|entity| {
            let (uid, _, parents) = entity.clone().into_inner();
            (uid, parents)
        })
        .collect();
    let mut with_members: HashSet<&EntityUid> = HashSet::new();
    let of_principals = |uid: &&EntityUid| principals.contains(uid.type_name());
    let mut pending: Vec<&EntityUid> = known.keys().filter(of_principals).collect();
    while let Some(uid) = pending.pop() {
        for parent in known.get(uid).into_iter().flatten() {
            if with_members.insert(parent) {
                pending.push(parent);
            }
        }
    }
    let mut told = BTreeMap::new();
    for located in located {
        for role in asked_roles(located) {
            let is_empty = known.contains_key(&role)
                && !principals.contains(role.type_name())
                && !with_members.contains(&role);
            if is_empty {
                told.entry(role.to_string()).or_insert((role, located));
            }
        }
    }
    for (shown, (role, located)) in told {
        let kind = role.type_name().to_string();
        let id = role.id().unescaped();
        let message = format!("`{shown}` has no members in entities.json");
        let help = format!(
            "add it to the parents of those who are in it: {{\"type\": {kind:?}, \"id\": {id:?}}}"
        );
        let problem = located.origin.at_entity(&kind, id, message);
        warnings.push(problem.with_help(Some(help)));
    }
}

/// The entities in which a policy asks whether the principal is.
fn asked_roles(located: &Located<'_>) -> BTreeSet<EntityUid> {
    let mut out = BTreeSet::new();
    match located.policy.principal_constraint() {
        PrincipalConstraint::In(role) | PrincipalConstraint::IsIn(_, role) => {
            out.insert(role);
        }
        PrincipalConstraint::Any | PrincipalConstraint::Is(_) | PrincipalConstraint::Eq(_) => {}
    }
    if let Some(conditions) = located.conditions() {
        collect_asked(conditions, &mut out);
    }
    out
}

/// Collects the entities of which `json` asks whether the principal is in them.
pub(in crate::policy) fn collect_asked(json: &Value, out: &mut BTreeSet<EntityUid>) {
    match json {
        Value::Object(fields) => {
            for (operator, operands) in fields {
                let left = operands.get("left").and_then(|left| left.get("Var"));
                if left.and_then(Value::as_str) == Some("principal") {
                    let inside = match operator.as_str() {
                        "in" => operands.get("right"),
                        "is" => operands.get("in"),
                        _ => None,
                    };
                    if let Some(inside) = inside {
                        entities::collect_uids(inside, out);
                    }
                }
                collect_asked(operands, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_asked(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
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
    fn roles_without_members_are_warned_of() {
        let entities = r#"[
            {"uid": {"type": "Role", "id": "empty"}, "attrs": {}, "parents": []},
            {"uid": {"type": "Role", "id": "staff"}, "attrs": {}, "parents": []},
            {"uid": {"type": "Role", "id": "support"}, "attrs": {}, "parents": [{"type": "Role", "id": "staff"}]},
            {"uid": {"type": "Agent", "id": "bot"}, "attrs": {}, "parents": [{"type": "Role", "id": "support"}]}
        ]"#;
        let scope =
            |scope: &str| format!("permit({scope}, action == Action::\"select\", resource);");
        let when = |condition: &str| {
            format!(
                "forbid(principal, action == Action::\"select\", resource) unless {{ {condition} }};"
            )
        };
        for (policy, is_told) in [
            (scope("principal in Role::\"empty\""), true),
            (scope("principal is Agent in Role::\"empty\""), true),
            (when("principal in Role::\"empty\""), true),
            (
                when("principal in [Role::\"staff\", Role::\"empty\"]"),
                true,
            ),
            (scope("principal in Role::\"support\""), false),
            (scope("principal in Role::\"staff\""), false),
            (scope("principal == Agent::\"bot\""), false),
        ] {
            let told = lint(&policy, Some(entities));
            let told: Vec<_> = told
                .iter()
                .filter(|told| told.contains("has no members"))
                .collect();
            assert_eq!(told.len(), usize::from(is_told), "{policy}: {told:?}");
            assert!(
                told.iter()
                    .all(|told| told.contains("`Role::\"empty\"` has no members")),
                "{told:?}"
            );
        }
    }
}
