//! Expressions of Cedar in its JSON form, put together without a text in between.

use std::collections::BTreeSet;

use cedar_policy::{EntityUid, Policy};
use serde_json::{Value, json};

use crate::policy::cedar::context_use::{HAS_WHERE, is_context};

/// `true` or `false`.
pub(in crate::policy) fn truth(value: bool) -> Value {
    json!({ "Value": value })
}

fn as_truth(expression: &Value) -> Option<bool> {
    expression.get("Value").and_then(Value::as_bool)
}

/// All of `parts`, asked in their order.
pub(in crate::policy) fn all(parts: impl IntoIterator<Item = Value>) -> Value {
    join(parts, "&&", true)
}

/// Any of `parts`, asked in their order.
pub(in crate::policy) fn any(parts: impl IntoIterator<Item = Value>) -> Value {
    join(parts, "||", false)
}

/// `neutral` changes nothing beside another part; its opposite decides.
fn join(parts: impl IntoIterator<Item = Value>, operator: &str, neutral: bool) -> Value {
    let mut out: Option<Value> = None;
    for part in parts {
        match as_truth(&part) {
            Some(value) if value == neutral => continue,
            Some(decided) => return truth(decided),
            None => {}
        }
        out = Some(match out {
            None => part,
            Some(left) => json!({ operator: { "left": left, "right": part } }),
        });
    }
    out.unwrap_or_else(|| truth(neutral))
}

/// The opposite.
pub(in crate::policy) fn not(part: Value) -> Value {
    match as_truth(&part) {
        Some(value) => truth(!value),
        None => json!({ "!": { "arg": part } }),
    }
}

/// An entity by its name.
pub(in crate::policy) fn entity(uid: &EntityUid) -> Value {
    let (kind, id) = (uid.type_name().to_string(), uid.id().unescaped());
    json!({ "Value": { "__entity": { "type": kind, "id": id } } })
}

/// `principal in …`, which the entity itself is too.
pub(in crate::policy) fn principal_in(uid: &EntityUid) -> Value {
    json!({ "in": { "left": { "Var": "principal" }, "right": entity(uid) } })
}

/// `context has ATTRIBUTE`.
pub(in crate::policy) fn context_has(attribute: &str) -> Value {
    json!({ "has": { "left": { "Var": "context" }, "attr": attribute } })
}

/// `context.ATTRIBUTE == TEXT`.
pub(in crate::policy) fn context_is(attribute: &str, text: &str) -> Value {
    json!({ "==": {
        "left": { ".": { "left": { "Var": "context" }, "attr": attribute } },
        "right": { "Value": text },
    } })
}

/// `context.has_where`.
pub(in crate::policy) fn has_where() -> Value {
    json!({ ".": { "left": { "Var": "context" }, "attr": HAS_WHERE } })
}

/// True, and an error where `part` is one.
pub(in crate::policy) fn evaluates(part: &Value) -> Value {
    match as_truth(part) {
        Some(_) => truth(true),
        None => json!({ "==": { "left": part, "right": part } }),
    }
}

/// The conditions of a policy whose scope admits everything.
///
/// # Errors
/// Why it has none: it cannot be written down, or its scope says something.
pub(in crate::policy) fn conditions(policy: &Policy) -> Result<Value, String> {
    let id = policy.id();
    let json = policy
        .to_json()
        .map_err(|error| format!("`{id}` cannot be written down: {error}"))?;
    for scope in ["principal", "action", "resource"] {
        let operator = json.pointer(&format!("/{scope}/op"));
        if operator.and_then(Value::as_str) != Some("All") {
            return Err(format!("the scope of `{id}` is not evaluated"));
        }
    }
    let mut parts = Vec::new();
    for condition in json
        .get("conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let body = condition.get("body").cloned();
        let body = body.ok_or_else(|| format!("a condition of `{id}` has no body"))?;
        match condition.get("kind").and_then(Value::as_str) {
            Some("when") => parts.push(body),
            Some("unless") => parts.push(not(body)),
            Some(_) | None => return Err(format!("a condition of `{id}` is of no known kind")),
        }
    }
    Ok(all(parts))
}

/// `expression` with each `resource in ENTITY` decided: the resource is in `above` and in nothing else.
pub(in crate::policy) fn decide_membership(
    expression: &Value,
    is_above: &impl Fn(&str, &str) -> bool,
) -> Value {
    let decided = expression.get("in").and_then(|operands| {
        let left = operands.get("left")?.get("Var")?.as_str()?;
        let right = operands.get("right")?.get("Value")?.get("__entity")?;
        let text = |name: &str| right.get(name).and_then(Value::as_str);
        (left == "resource").then_some(is_above(text("type")?, text("id")?))
    });
    if let Some(decided) = decided {
        return truth(decided);
    }
    match expression {
        Value::Object(fields) => {
            let fields = fields.iter();
            let changed =
                fields.map(|(name, field)| (name.clone(), decide_membership(field, is_above)));
            Value::Object(changed.collect())
        }
        Value::Array(items) => {
            let items = items.iter();
            Value::Array(
                items
                    .map(|item| decide_membership(item, is_above))
                    .collect(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => expression.clone(),
    }
}

/// One of `attributes` that `expression` asks an entity for by `has`.
pub(in crate::policy) fn find_has(
    expression: &Value,
    attributes: &BTreeSet<String>,
) -> Option<String> {
    match expression {
        Value::Object(fields) => {
            let asked = fields.get("has").and_then(|has| {
                let left = has.get("left")?;
                // A row is there where it is asked about.
                let is_row = left.get("Var").and_then(Value::as_str) == Some("resource");
                if is_row || is_context(left) {
                    return None;
                }
                let names: Vec<&str> = match has.get("attr")? {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                    name => name.as_str().into_iter().collect(),
                };
                let mut names = names.into_iter();
                names
                    .find(|name| attributes.contains(*name))
                    .map(str::to_owned)
            });
            let mut below = fields.values();
            asked.or_else(|| below.find_map(|field| find_has(field, attributes)))
        }
        Value::Array(items) => items.iter().find_map(|item| find_has(item, attributes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_decided_is_left_out_and_what_decides_is_all() {
        let part = || json!({ "Var": "x" });
        assert_eq!(all([]), truth(true));
        assert_eq!(any([]), truth(false));
        assert_eq!(all([truth(true), part()]), part());
        assert_eq!(all([part(), truth(false)]), truth(false));
        assert_eq!(any([truth(false), part()]), part());
        assert_eq!(any([part(), truth(true)]), truth(true));
        assert_eq!(not(truth(true)), truth(false));
    }

    #[test]
    fn a_scope_that_says_something_is_no_condition() {
        let policy = |text: &str| Policy::parse(None, text).unwrap();
        let open =
            policy("permit(principal, action, resource) when { context.a } unless { context.b };");
        let told = conditions(&open).unwrap().to_string();
        assert!(told.starts_with("{\"&&\""), "{told}");
        let closed = policy("permit(principal == Agent::\"x\", action, resource);");
        assert!(conditions(&closed).is_err());
    }

    #[test]
    fn what_an_entity_is_asked_for_is_found() {
        let text =
            "permit(principal, action, resource) when { context has a || !(principal has b) };";
        let expression = conditions(&Policy::parse(None, text).unwrap()).unwrap();
        let find = |name: &str| find_has(&expression, &BTreeSet::from([name.to_owned()]));
        assert_eq!(find("b"), Some("b".to_owned()));
        assert_eq!(find("a"), None);
    }

    #[test]
    fn what_a_resource_is_in_is_known() {
        let text = "permit(principal, action, resource) when { resource in Table::\"a\" || principal in Table::\"a\" || resource in Table::\"b\" };";
        let policy = Policy::parse(None, text).unwrap();
        let above = |kind: &str, id: &str| (kind, id) == ("Table", "a");
        let told = decide_membership(&conditions(&policy).unwrap(), &above).to_string();
        assert!(
            told.contains("{\"Value\":true}") && told.contains("{\"Value\":false}"),
            "{told}"
        );
        assert!(
            told.contains("principal") && !told.contains("resource"),
            "{told}"
        );
    }
}
