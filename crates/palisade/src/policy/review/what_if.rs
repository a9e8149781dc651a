//! What policies permit in some circumstances, for whoever gives an account what it needs in any of them.
//!
//! The time, the transport, a client and the statement are not known before somebody asks. So each condition on them is
//! supposed to hold, or not to, whichever permits more: permits then permit whatever they do at any time, and forbids only what
//! they do at all of them. That leaves out columns which are read where less is permitted: those that a row filter looks at, and those
//! that a mask leaves a part of. So each policy that looks at circumstances, of an action that has such, is supposed on its
//! own, too.

use std::{cell::Cell, collections::BTreeSet};

use cedar_policy::{Effect, Policy, PolicyId};
use serde_json::{Value, json};

use crate::{
    access::Usage,
    policy::cedar::{
        by_action::Slices,
        context_use::{self, is_context},
        schema::PolicyAction,
    },
};

/// Whether policies of `action` say of columns that they are read to decide about others, or in part. Those are filters of
/// rows, and forbids of the plaintext that demand a mask.
fn reads_beside(action: PolicyAction) -> bool {
    action.is_of_rows() || action == PolicyAction::ReadPlain
}

/// So many conditions of one policy are supposed each on its own.
const EACH: usize = 5;

/// The attribute that is known: which templates there are is.
const TEMPLATE: &str = "template";

/// How the policies of one action are supposed to be.
enum Supposed<'a> {
    /// Permits as narrow as they get, and forbids too.
    Least,
    /// This policy by what is said of its conditions; every other of the action as it is when it reads least.
    One(&'a PolicyId, Effect, Said),
}

/// What is said of conditions.
#[derive(Clone, Copy)]
enum Said {
    /// What makes the whole true, or false.
    Whole(bool),
    /// The first of them by the bits, what makes the whole true of others.
    Each(u32),
}

/// The suppositions over `policies`, that which permits most first.
///
/// # Errors
/// If a policy cannot be written down.
pub(in crate::policy) fn suppose_circumstances(policies: &Slices) -> Result<Vec<Slices>, String> {
    let mut found = vec![policies.map(|_, policy| suppose(policy, permit_most(policy.effect())))?];
    for action in PolicyAction::filter(reads_beside) {
        let looking = policies
            .for_action(action)
            .into_iter()
            .flat_map(|p| p.policies());
        let mut permits = false;
        for policy in looking {
            let conditions = conditions_of(policy)?;
            let masks = action == PolicyAction::ReadPlain;
            if conditions.is_empty() || masks && policy.effect() == Effect::Permit {
                continue;
            }
            permits |= policy.effect() == Effect::Permit;
            for bits in 0..1_u32 << conditions.len().min(EACH) {
                let one = Supposed::One(policy.id(), policy.effect(), Said::Each(bits));
                found.push(suppose_action(policies, action, &one)?);
            }
        }
        if permits {
            found.push(suppose_action(policies, action, &Supposed::Least)?);
        }
    }
    Ok(found)
}

/// The policies with every condition on circumstances supposed: of permits to hold or not, and of forbids to hold or not. What is
/// decided alike by all four is decided so in any circumstances. None if no policy looks at circumstances.
///
/// # Errors
/// If a policy cannot be written down.
pub(in crate::policy) fn suppose_corners(policies: &Slices) -> Result<Vec<Slices>, String> {
    let looks = Cell::new(false);
    policies.map(|_, policy| {
        looks.set(looks.get() || !conditions_of(policy)?.is_empty());
        Ok(policy.clone())
    })?;
    if !looks.get() {
        return Ok(Vec::new());
    }
    [(true, false), (true, true), (false, false), (false, true)]
        .into_iter()
        .map(|(permits, forbids)| {
            policies.map(|_, policy| {
                suppose(
                    policy,
                    Said::Whole(match policy.effect() {
                        Effect::Permit => permits,
                        Effect::Forbid => forbids,
                    }),
                )
            })
        })
        .collect()
}

/// Every policy, once for each action that it is of.
pub(in crate::policy) fn each(policies: &Slices) -> impl Iterator<Item = &Policy> {
    PolicyAction::ALL
        .iter()
        .filter_map(|action| policies.for_action(*action))
        .flat_map(|slice| slice.policies())
}

/// Whether a policy looks at circumstances. A policy that cannot be read does.
pub(in crate::policy) fn looks_at_circumstances(policy: &Policy) -> bool {
    !conditions_of(policy).is_ok_and(|found| found.is_empty())
}

/// The conditions of the policy called `id`, on one line; none if it looks at no circumstances.
pub(in crate::policy) fn describe_circumstances(policies: &Slices, id: &str) -> Option<String> {
    let policy = each(policies).find(|policy| policy.id().as_ref() as &str == id)?;
    if conditions_of(policy).is_ok_and(|found| found.is_empty()) {
        return None;
    }
    let text = policy.to_cedar()?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let begin = [") when {", ") unless {"]
        .iter()
        .filter_map(|begin| text.find(begin))
        .min()?;
    let conditions = text.get(begin + 2..)?;
    Some(conditions.trim_end_matches(';').to_owned())
}

/// The ids of all policies.
pub(in crate::policy) fn find_ids(policies: &Slices) -> BTreeSet<String> {
    each(policies)
        .map(|policy| policy.id().to_string())
        .collect()
}

/// The uses of columns that policies tell apart by name.
pub(in crate::policy) fn find_usages(policies: &Slices) -> BTreeSet<Usage> {
    let written = each(policies).filter_map(|policy| policy.to_json().ok());
    written
        .filter_map(|json| json.get("conditions").map(context_use::find_usages))
        .flatten()
        .collect()
}

/// The entities that policies name, as type and id.
pub(in crate::policy) fn find_entities(policies: &Slices) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for policy in each(policies) {
        if let Ok(json) = policy.to_json() {
            collect_entities(&json, &mut found);
        }
    }
    found
}

/// The entities that a policy names, as type and id.
pub(in crate::policy) fn find_entities_of(policy: &Policy) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    if let Ok(json) = policy.to_json() {
        collect_entities(&json, &mut found);
    }
    found
}

fn collect_entities(json: &Value, found: &mut BTreeSet<(String, String)>) {
    match json {
        Value::Object(fields) => {
            if let (Some(Value::String(kind)), Some(Value::String(id))) =
                (fields.get("type"), fields.get("id"))
            {
                found.insert((kind.clone(), id.clone()));
            }
            fields
                .values()
                .for_each(|field| collect_entities(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_entities(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn permit_most(effect: Effect) -> Said {
    Said::Whole(effect == Effect::Permit)
}

/// The policies of `action` as supposed, and of all others those that permit most.
fn suppose_action(
    policies: &Slices,
    action: PolicyAction,
    supposed: &Supposed<'_>,
) -> Result<Slices, String> {
    policies.map(|other, policy| {
        let said = match supposed {
            _ if other != action => permit_most(policy.effect()),
            Supposed::One(id, _, said) if *id == policy.id() => *said,
            // A permit of every row would leave nothing of another's condition.
            Supposed::Least | Supposed::One(_, Effect::Permit, _) => Said::Whole(false),
            Supposed::One(_, Effect::Forbid, _) => permit_most(policy.effect()),
        };
        suppose(policy, said)
    })
}

/// The policy with what is said of its conditions in their place.
fn suppose(policy: &Policy, said: Said) -> Result<Policy, String> {
    let mut json = policy.to_json().map_err(|error| error.to_string())?;
    if !is_circumstance(&json) {
        return Ok(policy.clone());
    }
    let mut seen = Vec::new();
    for (body, holds) in bodies(&mut json) {
        replace(body, holds, said, &mut seen);
    }
    Policy::from_json(Some(policy.id().clone()), json).map_err(|error| error.to_string())
}

/// The conditions on circumstances of a policy.
fn conditions_of(policy: &Policy) -> Result<Vec<Value>, String> {
    let mut json = policy.to_json().map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    for (body, holds) in bodies(&mut json) {
        replace(body, holds, Said::Whole(true), &mut seen);
    }
    Ok(seen)
}

/// What stands after `when` and `unless`, each with what it must be for the policy to apply.
fn bodies(json: &mut Value) -> Vec<(&mut Value, bool)> {
    let conditions = json.get_mut("conditions").and_then(Value::as_array_mut);
    let conditions = conditions.into_iter().flatten();
    let mut found = Vec::new();
    for condition in conditions {
        let applies = condition.get("kind").and_then(Value::as_str) == Some("when");
        if let Some(body) = condition.get_mut("body") {
            found.push((body, applies));
        }
    }
    found
}

/// Puts what is said in the place of each condition on circumstances below `expr`. The whole is true where `expr` is `holds`.
fn replace(expr: &mut Value, holds: bool, said: Said, seen: &mut Vec<Value>) {
    if !is_circumstance(expr) {
        return;
    }
    for operator in ["&&", "||"] {
        if let Some(sides) = expr.get_mut(operator).and_then(Value::as_object_mut) {
            sides
                .values_mut()
                .for_each(|side| replace(side, holds, said, seen));
            return;
        }
    }
    if let Some(inner) = expr.get_mut("!").and_then(|not| not.get_mut("arg")) {
        replace(inner, !holds, said, seen);
        return;
    }
    if let Some(Value::Object(branches)) = expr.get("if-then-else") {
        let of = |name| branches.get(name).cloned().unwrap_or_default();
        let branch = |condition, then| json!({"&&": {"left": condition, "right": then}});
        let otherwise = json!({"!": {"arg": of("if")}});
        *expr = json!({"||": {"left": branch(of("if"), of("then")), "right": branch(otherwise, of("else"))}});
        replace(expr, holds, said, seen);
        return;
    }
    let place = seen.iter().position(|known| known == expr);
    let place = place.unwrap_or_else(|| {
        seen.push(expr.clone());
        seen.len() - 1
    });
    let value = match said {
        Said::Whole(whole) => holds == whole,
        // What compares a row with them reads it, and any session has some time and client.
        Said::Each(_) if is_of_row(expr) => return,
        Said::Each(bits) if place < EACH => bits >> place & 1 == 1,
        Said::Each(_) => holds,
    };
    *expr = json!({ "Value": value });
}

/// Whether an expression looks at what is asked about, which of a row is its columns.
fn is_of_row(json: &Value) -> bool {
    match json {
        Value::Object(fields) => {
            fields.get("Var").and_then(Value::as_str) == Some("resource")
                || fields.values().any(is_of_row)
        }
        Value::Array(items) => items.iter().any(is_of_row),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether an expression looks at the context beyond the template.
fn is_circumstance(json: &Value) -> bool {
    match json {
        Value::Object(fields) => {
            let of_context = fields.get("left").is_some_and(is_context);
            if of_context && let Some(Value::String(attribute)) = fields.get("attr") {
                return attribute != TEMPLATE;
            }
            is_context(json) || fields.values().any(is_circumstance)
        }
        Value::Array(items) => items.iter().any(is_circumstance),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
