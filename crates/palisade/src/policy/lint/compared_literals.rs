//! What the conditions of a policy compare with literals, by Cedar's JSON.

use serde_json::Value;

use crate::policy::load::source::Located;

/// The operators that hold or not by what literals they are given.
const OPERATORS: [&str; 5] = ["==", "!=", "contains", "containsAll", "containsAny"];

/// Gives each expression that a condition of `policy` compares with literals to `name`; what it calls those that are of interest, with
/// each literal.
pub(in crate::policy) fn collect_compared<N>(
    policy: &Located<'_>,
    name: impl Fn(&Value) -> Option<N>,
) -> Vec<(N, String)> {
    let mut found = Vec::new();
    // A policy that cannot be written down is not looked at here.
    if let Some(conditions) = policy.conditions() {
        collect(conditions, &name, &mut found);
    }
    found
}

fn collect<N>(json: &Value, name: &impl Fn(&Value) -> Option<N>, found: &mut Vec<(N, String)>) {
    let fields = match json {
        Value::Object(fields) => fields,
        Value::Array(items) => {
            items.iter().for_each(|item| collect(item, name, found));
            return;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for (operator, operands) in fields {
        if OPERATORS.contains(&operator.as_str())
            && let (Some(left), Some(right)) = (operands.get("left"), operands.get("right"))
        {
            for (compared, words) in [(left, right), (right, left)] {
                found.extend(
                    literals(words).filter_map(|word| Some((name(compared)?, word.to_owned()))),
                );
            }
        }
        collect(operands, name, found);
    }
}

/// The string literals that `json` is, or is a set of.
fn literals(json: &Value) -> impl Iterator<Item = &str> {
    let members = json.get("Set").and_then(Value::as_array);
    let members = members.map_or(std::slice::from_ref(json), Vec::as_slice);
    members
        .iter()
        .filter_map(|member| member.get("Value")?.as_str())
}
