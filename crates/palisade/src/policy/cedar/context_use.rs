//! Which policies look at what of a request's context.

use std::collections::BTreeSet;

use cedar_policy::{Effect, Policy};
use serde_json::{Value, json};

use crate::access::Usage;

/// The attributes of a statement as a whole and of how a column is used, which are known only after names have
/// been resolved: by then what exists is decided, so they can only forbid.
pub(in crate::policy) const STATEMENT: &str = "statement";
pub(in crate::policy) const USAGE: &str = "usage";

/// Of the statement, what the engine expects of it: known only in the transaction in which it would run.
pub(in crate::policy) const ESTIMATED_COST: &str = "estimated_cost";
pub(in crate::policy) const ESTIMATED_ROWS: &str = "estimated_rows";

/// The attribute of the context that changes while a session lasts.
pub(in crate::policy) const TIME: &str = "time";

/// The attribute of the context that says whether an `UPDATE` or `DELETE` has a condition.
pub(in crate::policy) const HAS_WHERE: &str = "has_where";

/// The words that conditions compare the use of a column with; none where they do not look at it.
pub(in crate::policy) fn find_usages(conditions: &Value) -> BTreeSet<Usage> {
    let mut found = BTreeSet::new();
    if mentions(conditions, USAGE) {
        collect_usages(conditions, &mut found);
    }
    found
}

fn collect_usages(json: &Value, found: &mut BTreeSet<Usage>) {
    match json {
        Value::String(text) => {
            found.extend(Usage::ALL.into_iter().find(|usage| usage.name() == text));
        }
        Value::Object(fields) => fields.values().for_each(|one| collect_usages(one, found)),
        Value::Array(items) => items.iter().for_each(|one| collect_usages(one, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether conditions look at what the engine expects of a statement.
pub(in crate::policy) fn looks_at_estimates(conditions: &Value) -> bool {
    collect_mentions(conditions).iter().any(|mention| {
        mention.attribute == STATEMENT
            && mention
                .part
                .as_deref()
                .is_some_and(|part| [ESTIMATED_COST, ESTIMATED_ROWS].contains(&part))
    })
}

/// Whether the conditions of `policy` look at this attribute of the context, or at the context as a whole.
pub(in crate::policy) fn looks_at(policy: &Policy, attribute: &str) -> bool {
    // One that cannot be written down may look at anything.
    policy.has_non_scope_constraint()
        && policy
            .to_json()
            .map_or(true, |json| mentions(&json, attribute))
}

/// `policy` as far as it is the same whatever the statement is. What a forbid says of the statement is taken to be otherwise
/// than the forbid needs it: `unless { context has statement && … }` forbids nothing before there is a statement.
pub(in crate::policy) fn whatever_the_statement(policy: &Policy) -> Policy {
    if policy.effect() == Effect::Permit || !policy.has_non_scope_constraint() {
        return policy.clone();
    }
    // One that cannot be written down, or read again, forbids as it stands.
    match policy.to_json() {
        Ok(json) if mentions(&json, STATEMENT) || mentions(&json, USAGE) => {
            keep_certain(policy, json).unwrap_or_else(|| policy.clone())
        }
        Ok(_) | Err(_) => policy.clone(),
    }
}

fn keep_certain(policy: &Policy, mut json: Value) -> Option<Policy> {
    for condition in json.get_mut("conditions")?.as_array_mut()? {
        let wanted = condition.get("kind")?.as_str()? == "when";
        let body = condition.get_mut("body")?;
        *body = replace_unknown(body, !wanted);
    }
    Policy::from_json(Some(policy.id().clone()), json).ok()
}

/// `json` with what looks at the statement replaced so that the whole is sooner `toward` than it would be.
fn replace_unknown(json: &Value, toward: bool) -> Value {
    if !(mentions(json, STATEMENT) || mentions(json, USAGE)) {
        return json.clone();
    }
    let operation = json.as_object().and_then(|fields| fields.iter().next());
    let Some((operator, operands)) = operation else {
        return json!({ "Value": toward });
    };
    let operand = |name: &str, toward: bool| {
        replace_unknown(operands.get(name).unwrap_or(&Value::Null), toward)
    };
    match operator.as_str() {
        "&&" | "||" => json!({ operator: {
            "left": operand("left", toward),
            "right": operand("right", toward),
        } }),
        "!" => json!({ "!": { "arg": operand("arg", !toward) } }),
        _ => json!({ "Value": toward }),
    }
}

/// An attribute of the context that a policy's conditions name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::policy) struct Mention {
    pub(in crate::policy) attribute: String,
    /// The attribute of that attribute, where it is a record.
    pub(in crate::policy) part: Option<String>,
}

/// The attributes of the context that conditions name.
pub(in crate::policy) fn collect_mentions(conditions: &Value) -> BTreeSet<Mention> {
    let mut out = BTreeSet::new();
    collect(conditions, &mut out);
    out
}

fn collect(json: &Value, out: &mut BTreeSet<Mention>) {
    match json {
        Value::Object(fields) => {
            if let Some(left) = fields.get("left")
                && let Some(path) = path(fields.get("attr"))
                && let Some(attr) = path.first()
            {
                if is_context(left) {
                    out.insert(Mention {
                        attribute: attr.clone(),
                        part: path.get(1).cloned(),
                    });
                } else if let Some(attribute) = context_attribute(left) {
                    out.insert(Mention {
                        attribute: attribute.to_owned(),
                        part: Some(attr.clone()),
                    });
                }
            }
            fields.values().for_each(|field| collect(field, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names in `has a` and `has a.b`.
fn path(attr: Option<&Value>) -> Option<Vec<String>> {
    match attr? {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The attribute that `context.attribute` is of.
fn context_attribute(json: &Value) -> Option<&str> {
    let access = json.get(".")?;
    if !is_context(access.get("left")?) {
        return None;
    }
    access.get("attr")?.as_str()
}

/// Whether a policy, as Cedar writes it down, looks at this attribute of the context, or at the context as a whole.
pub(in crate::policy) fn mentions(json: &Value, attribute: &str) -> bool {
    match json {
        Value::Object(fields) => {
            // `{".": {"left": {"Var": "context"}, "attr": …}}`, and the same of `has`.
            let of_context = fields.get("left").is_some_and(is_context);
            if of_context && let Some(Value::String(attr)) = fields.get("attr") {
                return attr == attribute;
            }
            is_context(json) || fields.values().any(|field| mentions(field, attribute))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, attribute)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub(in crate::policy) fn is_context(json: &Value) -> bool {
    json.get("Var").and_then(Value::as_str) == Some("context")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn attributes_are_found_wherever_they_stand() {
        let text = "forbid(principal, action, resource) when { context has statement && \
            (context.statement has rows || !(context.usage.contains(\"filter\") && resource.joins == 1)) } \
            unless { [context.statement.kind].contains(principal.kind) };";
        let policy = Policy::parse(None, text).unwrap();
        let found: Vec<String> = collect_mentions(&policy.to_json().unwrap())
            .into_iter()
            .map(|m| {
                [Some(m.attribute), m.part]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(".")
            })
            .collect();
        assert_eq!(
            found,
            ["statement", "statement.kind", "statement.rows", "usage"]
        );
    }

    #[test]
    fn before_there_is_a_statement_a_forbid_says_what_holds_of_all() {
        let of = |clauses: &str| {
            let text = format!("forbid(principal, action, resource) {clauses};");
            let policy = Policy::parse(None, text).unwrap();
            whatever_the_statement(&policy).to_json().unwrap()
        };
        for (clauses, like) in [
            (
                "when { context has statement && !context.statement.has_where }",
                "when { false && !true }",
            ),
            (
                "unless { context has statement && context.statement.has_where }",
                "unless { true && true }",
            ),
            (
                "when { principal == resource || context has usage && context.usage.contains(\"join\") }",
                "when { principal == resource || false && false }",
            ),
            (
                "when { if context has statement then true else false }",
                "when { false }",
            ),
            (
                "when { context.transport == \"cli\" } unless { [1, context.statement.joins].contains(1) }",
                "when { context.transport == \"cli\" } unless { true }",
            ),
        ] {
            assert_eq!(of(clauses), of(like), "{clauses}");
        }
    }

    #[test]
    fn only_attributes_of_the_context_count() {
        for (condition, looks) in [
            ("context.time < datetime(\"2020-01-01\")", true),
            ("context has time", true),
            ("context.transport == \"time\"", false),
            ("resource.time == 1", false),
            ("resource has time", false),
            ("context.statement.time == 1", false),
            ("context == {\"transport\": \"x\"}", true),
            ("[context].contains(principal)", true),
        ] {
            let text = format!("permit(principal, action, resource) when {{ {condition} }};");
            let policy = Policy::parse(None, text).unwrap();
            assert_eq!(looks_at(&policy, "time"), looks, "{condition}");
        }
    }
}
