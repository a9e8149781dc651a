//! Forbids that let a column pass where an aggregate is computed from it. They are written to show sums alone, and they show
//! every value: `sum(x) OVER ()`, `min(x) … GROUP BY id` and `array_agg(x)` are aggregates, too.

use cedar_policy::Effect;
use serde_json::Value;

use crate::policy::{
    cedar::context_use::USAGE,
    load::{diagnostic::PolicyProblem, source::Located},
};

/// The word of `context.usage` for what an aggregate is computed from.
const AGGREGATE: &str = "aggregate";

/// Reports each forbid that does not hold where the column is used in an aggregate.
pub(in crate::policy) fn check(located: &[Located<'_>], problems: &mut Vec<PolicyProblem>) {
    for located in located {
        let conditions = located.conditions().and_then(Value::as_array);
        let exempts = conditions.into_iter().flatten().any(|condition| {
            let is_wanted = condition.get("kind").and_then(Value::as_str) == Some("when");
            condition
                .get("body")
                .is_some_and(|body| exempts_aggregates(body, is_wanted))
        });
        if located.policy.effect() == Effect::Forbid && exempts {
            let message = "this forbid lets values pass that an aggregate is computed from, and aggregates show single values: \
                           sum(x) OVER (), min(x) with GROUP BY, array_agg(x)";
            let help = "let COUNT, SUM and AVG alone see it, over groups that are large enough: \
                        @aggregate_only(\"5\") forbid (…, action == Action::\"read_plain\", …)";
            problems.push(
                located
                    .origin
                    .at_text(AGGREGATE, message)
                    .with_help(Some(help)),
            );
        }
    }
}

/// Whether a part of `body` that has to be otherwise for the forbid to hold asks whether an aggregate is computed.
/// `is_wanted`: whether the forbid holds where `body` does.
fn exempts_aggregates(body: &Value, is_wanted: bool) -> bool {
    let Some((operator, operands)) = body.as_object().and_then(|fields| fields.iter().next())
    else {
        return false;
    };
    let operand = |name: &str, is_wanted: bool| {
        operands
            .get(name)
            .is_some_and(|operand| exempts_aggregates(operand, is_wanted))
    };
    match operator.as_str() {
        "&&" | "||" => operand("left", is_wanted) || operand("right", is_wanted),
        "!" => operand("arg", !is_wanted),
        "if-then-else" => {
            operands.get("if").is_some_and(asks_for_aggregates)
                || operand("then", is_wanted)
                || operand("else", is_wanted)
        }
        // Asked for a use beside others, it holds for other uses alone.
        "==" | "!=" => asks_for_aggregates(body),
        _ => !is_wanted && asks_for_aggregates(body),
    }
}

/// Whether `json` names `context.usage` and the word.
fn asks_for_aggregates(json: &Value) -> bool {
    names(json, USAGE) && names(json, AGGREGATE)
}

fn names(json: &Value, word: &str) -> bool {
    match json {
        Value::String(text) => text == word,
        Value::Object(fields) => fields.values().any(|field| names(field, word)),
        Value::Array(items) => items.iter().any(|item| names(item, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::{load, sources};

    #[test]
    fn forbids_with_an_exception_for_aggregates_are_errors() {
        for (condition, refused) in [
            (
                "unless { context has usage && context.usage.contains(\"aggregate\") }",
                true,
            ),
            (
                "when { context has usage && !context.usage.contains(\"aggregate\") }",
                true,
            ),
            (
                "when { context has usage && context.usage.contains(\"output\") && !context.usage.containsAny([\"aggregate\"]) }",
                true,
            ),
            (
                "unless { context has usage && context.usage == [\"aggregate\"] }",
                true,
            ),
            (
                "when { context has usage && context.usage.contains(\"aggregate\") }",
                false,
            ),
            (
                "when { context has usage && context.usage.contains(\"output\") }",
                false,
            ),
            (
                "unless { context has usage && context.usage.contains(\"filter\") }",
                false,
            ),
        ] {
            let policies = format!(
                "forbid(principal, action == Action::\"read_plain\", resource) {condition};"
            );
            let told = load(&sources(&policies))
                .map_or_else(|errors| errors.to_string(), |_| String::new());
            let found = told.contains("lets values pass that an aggregate");
            assert_eq!(found, refused, "{condition}: {told}");
        }
    }
}
