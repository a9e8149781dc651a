//! Which policies look at what of a request's context.

use cedar_policy::Policy;
use serde_json::Value;

/// The attributes of a statement as a whole and of how a column is used, which are known only after names have
/// been resolved: by then what exists is decided, so they can only forbid.
pub(super) const STATEMENT: &str = "statement";
pub(super) const USAGE: &str = "usage";

/// Whether the conditions of `policy` look at this attribute of the context, or at the context as a whole.
pub(super) fn looks_at(policy: &Policy, attribute: &str) -> bool {
    // One that cannot be written down may look at anything.
    policy
        .to_json()
        .map_or(true, |json| mentions(&json, attribute))
}

fn mentions(json: &Value, attribute: &str) -> bool {
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

fn is_context(json: &Value) -> bool {
    json.get("Var").and_then(Value::as_str) == Some("context")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

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
