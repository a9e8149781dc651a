//! The resources that permits name. What reaches beyond the data needs a permit that names it, so that none is reached by
//! chance.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{EntityUid, ResourceConstraint};
use serde_json::Value;

use crate::policy::{cedar::entities, load::source::Located};

/// By policy id, what each names: by `resource == …` in its scope, and of functions also by a condition that admits no other.
pub(in crate::policy) fn collect(located: &[Located<'_>]) -> HashMap<String, BTreeSet<EntityUid>> {
    let mut out: HashMap<String, BTreeSet<EntityUid>> = HashMap::new();
    for located in located {
        let mut named = BTreeSet::new();
        match located.policy.resource_constraint() {
            ResourceConstraint::Eq(uid) => {
                named.insert(uid);
            }
            ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                named.extend(Some(uid).filter(is_function));
            }
            ResourceConstraint::Any | ResourceConstraint::Is(_) => {}
        }
        let conditions = located.conditions().and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let is_wanted = condition.get("kind").and_then(Value::as_str) == Some("when");
            let body = condition.get("body").filter(|_| is_wanted);
            let functions = body.and_then(list_admitted).unwrap_or_default();
            named.extend(functions.into_iter().filter(is_function));
        }
        if !named.is_empty() {
            out.insert(located.policy.id().to_string(), named);
        }
    }
    out
}

fn is_function(uid: &EntityUid) -> bool {
    uid.type_name().to_string() == "Function"
}

/// The resources among which the resource is wherever the condition holds; none if it may be any.
fn list_admitted(condition: &Value) -> Option<BTreeSet<EntityUid>> {
    let (operator, operands) = condition.as_object()?.iter().next()?;
    let (left, right) = (operands.get("left")?, operands.get("right")?);
    match operator.as_str() {
        // Both hold, so that either says enough.
        "&&" => list_admitted(left).or_else(|| list_admitted(right)),
        "||" => {
            let (mut one, other) = (list_admitted(left)?, list_admitted(right)?);
            one.extend(other);
            Some(one)
        }
        "==" if is_resource(left) => list_literals(right),
        "==" if is_resource(right) => list_literals(left),
        "in" if is_resource(left) => list_literals(right),
        "contains" if is_resource(right) => list_literals(left),
        _ => None,
    }
}

fn is_resource(json: &Value) -> bool {
    json.get("Var").and_then(Value::as_str) == Some("resource")
}

/// The entities that are written there, alone or as a set, if nothing else is.
fn list_literals(json: &Value) -> Option<BTreeSet<EntityUid>> {
    let members = json.get("Set").and_then(Value::as_array);
    let members = members.map_or(std::slice::from_ref(json), Vec::as_slice);
    let mut out = BTreeSet::new();
    for member in members {
        let before = out.len();
        if !matches!(member.get("Value"), Some(Value::Object(_))) {
            return None;
        }
        entities::collect_uids(member, &mut out);
        if out.len() == before && members.len() == 1 {
            return None;
        }
    }
    Some(out)
}
