//! Conditions that are never true: what one comparison admits, another beside it excludes.

use serde_json::Value;

use crate::policy::load::{diagnostic::PolicyProblem, source::Located};

/// A comparison with a literal that a condition makes.
struct Comparison<'j> {
    /// What is compared, as it is written.
    of: String,
    operator: &'j str,
    literal: &'j Value,
}

/// Warns of two comparisons of one attribute beside each other that are never true together.
pub(in crate::policy) fn check(located: &[Located<'_>], warnings: &mut Vec<PolicyProblem>) {
    for located in located {
        let mut found = Vec::new();
        if let Some(conditions) = located.conditions() {
            find_in(conditions, &mut found);
        }
        for (one, other) in found {
            let message = format!("`{one}` and `{other}` are never true together");
            let help =
                "write `||` between them if either is meant; otherwise one of the two is wrong";
            warnings.push(located.origin.problem(message).with_help(Some(help)));
        }
    }
}

/// Looks through each chain of `&&`.
fn find_in(json: &Value, found: &mut Vec<(String, String)>) {
    match json {
        Value::Object(fields) => {
            if fields.contains_key("&&") {
                let mut parts = Vec::new();
                flatten(json, &mut parts);
                find_among(&parts, found);
                // What is below a chain is no part of it.
                for part in parts {
                    find_in(part, found);
                }
                return;
            }
            for field in fields.values() {
                find_in(field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find_in(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn flatten<'j>(json: &'j Value, parts: &mut Vec<&'j Value>) {
    match json.get("&&") {
        Some(both) => {
            for side in ["left", "right"] {
                if let Some(part) = both.get(side) {
                    flatten(part, parts);
                }
            }
        }
        None => parts.push(json),
    }
}

fn find_among(parts: &[&Value], found: &mut Vec<(String, String)>) {
    let compared: Vec<Comparison<'_>> = parts.iter().filter_map(|part| read(part)).collect();
    for (index, one) in compared.iter().enumerate() {
        let later = compared.iter().skip(index.saturating_add(1));
        // One is told of each: the others may follow from it.
        if let Some(other) = later.into_iter().find(|other| excludes(one, other)) {
            found.push((one.describe(), other.describe()));
        }
    }
}

impl Comparison<'_> {
    fn describe(&self) -> String {
        let literal = match self.literal.get("__entity") {
            Some(entity) => {
                let text = |name| entity.get(name).and_then(Value::as_str).unwrap_or_default();
                format!("{}::{:?}", text("type"), text("id"))
            }
            None => self.literal.to_string(),
        };
        format!("{} {} {literal}", self.of, self.operator)
    }

    /// The whole numbers that it admits, the least and the greatest.
    fn range(&self) -> Option<(i64, i64)> {
        let number = self.literal.as_i64()?;
        match self.operator {
            "==" => Some((number, number)),
            "<" => Some((i64::MIN, number.checked_sub(1)?)),
            "<=" => Some((i64::MIN, number)),
            ">" => Some((number.checked_add(1)?, i64::MAX)),
            ">=" => Some((number, i64::MAX)),
            _ => None,
        }
    }
}

fn excludes(one: &Comparison<'_>, other: &Comparison<'_>) -> bool {
    if one.of != other.of {
        return false;
    }
    let is_same = one.literal == other.literal;
    match (one.operator, other.operator) {
        ("==", "==") => !is_same,
        ("==", "!=") | ("!=", "==") => is_same,
        _ => match (one.range(), other.range()) {
            (Some((low, high)), Some((other_low, other_high))) => {
                low.max(other_low) > high.min(other_high)
            }
            (Some(_), None) | (None, Some(_) | None) => false,
        },
    }
}

fn read(json: &Value) -> Option<Comparison<'_>> {
    let (operator, operands) = json.as_object()?.iter().next()?;
    let (left, right) = (operands.get("left")?, operands.get("right")?);
    let flipped = match operator.as_str() {
        "==" => "==",
        "!=" => "!=",
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        _ => return None,
    };
    if let (Some(of), Some(literal)) = (describe_path(left), right.get("Value")) {
        let operator = operator.as_str();
        return Some(Comparison {
            of,
            operator,
            literal,
        });
    }
    let (of, literal) = (describe_path(right)?, left.get("Value")?);
    Some(Comparison {
        of,
        operator: flipped,
        literal,
    })
}

/// A variable or an attribute of one, as it is written.
fn describe_path(json: &Value) -> Option<String> {
    if let Some(variable) = json.get("Var") {
        return variable.as_str().map(str::to_owned);
    }
    let access = json.get(".")?;
    let of = describe_path(access.get("left")?)?;
    let name = access.get("attr")?.as_str()?;
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    Some(if is_word {
        format!("{of}.{name}")
    } else {
        format!("{of}[{name:?}]")
    })
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
    fn conditions_that_are_never_true_are_warned_of() {
        for (condition, expected) in [
            (
                "resource.title == \"a\" && resource.title == \"b\"",
                Some("`resource.title == \"a\"` and `resource.title == \"b\"`"),
            ),
            (
                "resource.id > 5 && resource.id < 3",
                Some("`resource.id > 5` and `resource.id < 3`"),
            ),
            (
                "resource.id > 5 && resource.id < 6",
                Some("`resource.id > 5` and `resource.id < 6`"),
            ),
            (
                "resource.id == 1 && resource.id >= 2",
                Some("`resource.id == 1` and `resource.id >= 2`"),
            ),
            (
                "5 < resource.id && resource.id == 4",
                Some("`resource.id > 5` and `resource.id == 4`"),
            ),
            (
                "resource.id == 1 && resource.id != 1",
                Some("`resource.id == 1` and `resource.id != 1`"),
            ),
            (
                "principal == User::\"a\" && principal == User::\"b\"",
                Some("`principal == User::\"a\"` and `principal == User::\"b\"`"),
            ),
            (
                "resource.id == 9 || (resource.id == 1 && resource.title == \"a\" && resource.id == 2)",
                Some("`resource.id == 1` and `resource.id == 2`"),
            ),
            ("resource.title == \"a\" || resource.title == \"b\"", None),
            ("resource.id > 3 && resource.id < 5", None),
            ("resource.id >= 3 && resource.id <= 3", None),
            ("resource.title == \"a\" && resource.id == 1", None),
            ("resource.title == \"a\" && resource.title == \"a\"", None),
            ("resource.title != \"a\" && resource.title != \"b\"", None),
            (
                "(resource.id == 1 || resource.id == 2) && resource.id != 1",
                None,
            ),
        ] {
            let policy = format!(
                "permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource has title && resource has id && ({condition}) }};"
            );
            let told = lint(&policy, None);
            let told: Vec<_> = told
                .iter()
                .filter(|told| told.contains("never true together"))
                .collect();
            assert_eq!(
                told.len(),
                usize::from(expected.is_some()),
                "{condition}: {told:?}"
            );
            if let (Some(told), Some(expected)) = (told.first(), expected) {
                assert!(told.contains(expected), "{told}");
            }
        }
    }
}
