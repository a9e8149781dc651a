//! Conditions that are never true: what one comparison admits, another beside it excludes.

use cedar_policy::{
    Context, Entities, EntityUid, EvalResult, Expression, Request, eval_expression,
};
use serde_json::Value;

use crate::policy::load::{diagnostic::PolicyProblem, source::Located};

/// What a part of a condition says of one value.
struct Part<'j> {
    /// The value, as it is written.
    of: String,
    says: Says<'j>,
    /// The whole, as it is written.
    text: String,
}

enum Says<'j> {
    /// It stands so to a literal.
    Is(&'j str, Literal<'j>),
    /// It is one of these, or none of these.
    Among(Vec<Literal<'j>>),
    NotAmong(Vec<Literal<'j>>),
    /// As a set, it holds all of these, or one of them, or none.
    HasAll(Vec<Literal<'j>>),
    HasAny(Vec<Literal<'j>>),
    HasNone(Vec<Literal<'j>>),
    /// As a set, it holds nothing.
    Empty,
    NotEmpty,
}

#[derive(Clone, Copy, PartialEq)]
enum Literal<'j> {
    /// A number, or the milliseconds of a moment or a span of time, or the ten thousandths of a decimal.
    Number(i64),
    Other(&'j Value),
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
    let said: Vec<Part<'_>> = parts.iter().filter_map(|part| read(part)).collect();
    for (index, one) in said.iter().enumerate() {
        let later = said.iter().skip(index.saturating_add(1));
        // One is told of each: the others may follow from it.
        if let Some(other) = later.into_iter().find(|other| excludes(one, other)) {
            found.push((one.text.clone(), other.text.clone()));
        }
    }
}

fn excludes(one: &Part<'_>, other: &Part<'_>) -> bool {
    one.of == other.of && (one.says.excludes(&other.says) || other.says.excludes(&one.says))
}

impl Says<'_> {
    /// Whether nothing is both. It is asked both ways round.
    fn excludes(&self, other: &Says<'_>) -> bool {
        match (self, other) {
            (Self::Is("==", this), Says::Is(operator, that)) => !is_so(*this, operator, *that),
            (Self::Is(..), Says::Is(..)) => match (self.range(), other.range()) {
                (Some((low, high)), Some((other_low, other_high))) => {
                    low.max(other_low) > high.min(other_high)
                }
                (Some(_), None) | (None, Some(_) | None) => false,
            },
            (Self::Among(these), Says::Is(operator, that)) => {
                !these.iter().any(|this| is_so(*this, operator, *that))
            }
            (Self::Among(these), Says::Among(those)) => {
                !these.iter().any(|this| those.contains(this))
            }
            (Self::Among(these), Says::NotAmong(those)) => {
                these.iter().all(|this| those.contains(this))
            }
            (Self::NotAmong(these), Says::Is("==", that)) => these.contains(that),
            (Self::HasAll(these), Says::HasNone(those)) => {
                these.iter().any(|this| those.contains(this))
            }
            (Self::HasAny(these), Says::HasNone(those)) => {
                these.iter().all(|this| those.contains(this))
            }
            (Self::HasAll(these), Says::Empty) => !these.is_empty(),
            (Self::HasAny(_) | Self::NotEmpty, Says::Empty) => true,
            (
                Self::Is(..)
                | Self::Among(_)
                | Self::NotAmong(_)
                | Self::HasAll(_)
                | Self::HasAny(_)
                | Self::HasNone(_)
                | Self::Empty
                | Self::NotEmpty,
                _,
            ) => false,
        }
    }

    /// The numbers that it admits, the least and the greatest.
    fn range(&self) -> Option<(i64, i64)> {
        let Self::Is(operator, Literal::Number(number)) = self else {
            return None;
        };
        let number = *number;
        match *operator {
            "==" => Some((number, number)),
            "<" => Some((i64::MIN, number.checked_sub(1)?)),
            "<=" => Some((i64::MIN, number)),
            ">" => Some((number.checked_add(1)?, i64::MAX)),
            ">=" => Some((number, i64::MAX)),
            _ => None,
        }
    }
}

/// Whether a literal stands so to another; what is not known may be.
fn is_so(this: Literal<'_>, operator: &str, that: Literal<'_>) -> bool {
    match (operator, this, that) {
        ("==", _, _) => this == that,
        ("!=", _, _) => this != that,
        ("<", Literal::Number(this), Literal::Number(that)) => this < that,
        ("<=", Literal::Number(this), Literal::Number(that)) => this <= that,
        (">", Literal::Number(this), Literal::Number(that)) => this > that,
        (">=", Literal::Number(this), Literal::Number(that)) => this >= that,
        (_, _, _) => true,
    }
}

fn read(json: &Value) -> Option<Part<'_>> {
    let (operator, operands) = json.as_object()?.iter().next()?;
    if operator == "!" {
        let part = read(operands.get("arg")?)?;
        return part.negate();
    }
    match operator.as_str() {
        "==" | "!=" | "<" | "<=" | ">" | ">=" => read_comparison(operator, operands),
        // Decimals are compared by methods.
        "lessThan" => read_method("<", operands),
        "lessThanOrEqual" => read_method("<=", operands),
        "greaterThan" => read_method(">", operands),
        "greaterThanOrEqual" => read_method(">=", operands),
        "contains" => read_contains(operands),
        "containsAll" => read_contains_several(operator, Says::HasAll, operands),
        "containsAny" => read_contains_several(operator, Says::HasAny, operands),
        "isEmpty" => {
            let of = describe_value(operands.get("arg")?)?;
            let text = format!("{of}.isEmpty()");
            let says = Says::Empty;
            Some(Part { of, says, text })
        }
        // An attribute by itself is true.
        "." => {
            let of = describe_value(json)?;
            let (text, says) = (
                of.clone(),
                Says::Is("==", Literal::Other(&Value::Bool(true))),
            );
            Some(Part { of, says, text })
        }
        _ => None,
    }
}

fn sides(operands: &Value) -> Option<(&Value, &Value)> {
    Some((operands.get("left")?, operands.get("right")?))
}

/// A comparison with a literal on either side.
fn read_comparison<'j>(operator: &'j str, operands: &'j Value) -> Option<Part<'j>> {
    let (left, right) = sides(operands)?;
    if let (Some(of), Some((literal, text))) = (describe_value(left), read_literal(right)) {
        return Some(Part::compare(of, operator, literal, &text));
    }
    let (of, (literal, text)) = (describe_value(right)?, read_literal(left)?);
    Some(Part::compare(of, turn(operator), literal, &text))
}

/// A comparison by a method that stands for `operator`.
fn read_method<'j>(operator: &'static str, operands: &'j Value) -> Option<Part<'j>> {
    let [left, right] = operands.as_array()?.as_slice() else {
        return None;
    };
    let (of, (literal, text)) = (describe_value(left)?, read_literal(right)?);
    Some(Part::compare(of, operator, literal, &text))
}

/// `contains`: a value among literals, or a literal in a set.
fn read_contains(operands: &Value) -> Option<Part<'_>> {
    let (left, right) = sides(operands)?;
    if let (Some((literals, text)), Some(of)) = (read_set(left), describe_value(right)) {
        let text = format!("{text}.contains({of})");
        let says = Says::Among(literals);
        return Some(Part { of, says, text });
    }
    let (of, (literal, text)) = (describe_value(left)?, read_literal(right)?);
    let text = format!("{of}.contains({text})");
    let says = Says::HasAll(vec![literal]);
    Some(Part { of, says, text })
}

/// `containsAll` and `containsAny` of literals, of which `say` makes what they say.
fn read_contains_several<'j>(
    method: &str,
    say: fn(Vec<Literal<'j>>) -> Says<'j>,
    operands: &'j Value,
) -> Option<Part<'j>> {
    let (left, right) = sides(operands)?;
    let (of, (literals, text)) = (describe_value(left)?, read_set(right)?);
    let text = format!("{of}.{method}({text})");
    let says = say(literals);
    Some(Part { of, says, text })
}

/// The operator with its sides exchanged.
fn turn(operator: &str) -> &'static str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        "!=" => "!=",
        _ => "==",
    }
}

impl<'j> Part<'j> {
    fn compare(of: String, operator: &'j str, literal: Literal<'j>, text: &str) -> Self {
        Self {
            text: format!("{of} {operator} {text}"),
            says: Says::Is(operator, literal),
            of,
        }
    }

    /// What its negation says; none where that is no part of one kind.
    fn negate(self) -> Option<Self> {
        let text = match &self.says {
            Says::Is(..) if self.text != self.of => format!("!({})", self.text),
            _ => format!("!{}", self.text),
        };
        let says = match self.says {
            Says::Is(operator, literal) => {
                let operator = match operator {
                    "==" => "!=",
                    "!=" => "==",
                    "<" => ">=",
                    "<=" => ">",
                    ">" => "<=",
                    ">=" => "<",
                    _ => return None,
                };
                Says::Is(operator, literal)
            }
            Says::Among(literals) => Says::NotAmong(literals),
            Says::NotAmong(literals) => Says::Among(literals),
            Says::HasAny(literals) => Says::HasNone(literals),
            Says::HasNone(literals) => Says::HasAny(literals),
            Says::HasAll(literals) => match literals.as_slice() {
                [_] => Says::HasNone(literals),
                _ => return None,
            },
            Says::Empty => Says::NotEmpty,
            Says::NotEmpty => Says::Empty,
        };
        Some(Self {
            of: self.of,
            says,
            text,
        })
    }
}

/// A literal, and as it is written.
fn read_literal(json: &Value) -> Option<(Literal<'_>, String)> {
    if let Some(value) = json.get("Value") {
        let literal = value
            .as_i64()
            .map_or(Literal::Other(value), Literal::Number);
        return Some((literal, describe_literal(value)));
    }
    let (function, arguments) = json.as_object()?.iter().next()?;
    let [argument] = arguments.as_array()?.as_slice() else {
        return None;
    };
    let text = argument.get("Value")?.as_str()?;
    let written = format!("{function}({text:?})");
    let number = match function.as_str() {
        "datetime" => evaluate(&format!(
            "{written}.durationSince(datetime(\"1970-01-01\")).toMilliseconds()"
        ))?,
        "duration" => evaluate(&format!("{written}.toMilliseconds()"))?,
        "decimal" => read_decimal(text)?,
        _ => return None,
    };
    Some((Literal::Number(number), written))
}

fn describe_literal(value: &Value) -> String {
    match value.get("__entity") {
        Some(entity) => {
            let text = |name| entity.get(name).and_then(Value::as_str).unwrap_or_default();
            format!("{}::{:?}", text("type"), text("id"))
        }
        None => value.to_string(),
    }
}

/// A set of literals, and as it is written.
fn read_set(json: &Value) -> Option<(Vec<Literal<'_>>, String)> {
    let items = json.get("Set")?.as_array()?;
    let read: Option<Vec<_>> = items.iter().map(read_literal).collect();
    let (literals, texts): (Vec<_>, Vec<_>) = read?.into_iter().unzip();
    Some((literals, format!("[{}]", texts.join(", "))))
}

/// The number that an expression without variables has.
fn evaluate(text: &str) -> Option<i64> {
    let parsed: Expression = text.parse().ok()?;
    let any: EntityUid = "Agent::\"any\"".parse().ok()?;
    let request = Request::new(any.clone(), any.clone(), any, Context::empty(), None).ok()?;
    match eval_expression(&request, &Entities::empty(), &parsed).ok()? {
        EvalResult::Long(number) => Some(number),
        _ => None,
    }
}

/// The ten thousandths of a decimal: Cedar's have up to four digits behind the point.
fn read_decimal(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 4 {
        return None;
    }
    format!("{whole}{part:0<4}").parse().ok()
}

/// Methods that give one value of another, without further values.
const METHODS: [&str; 7] = [
    "toTime",
    "toDate",
    "toMilliseconds",
    "toSeconds",
    "toMinutes",
    "toHours",
    "toDays",
];

/// A variable, an attribute of one, or what a method gives of it, as it is written.
fn describe_value(json: &Value) -> Option<String> {
    if let Some(variable) = json.get("Var") {
        return variable.as_str().map(str::to_owned);
    }
    for method in METHODS {
        if let Some(arguments) = json.get(method) {
            let [of] = arguments.as_array()?.as_slice() else {
                return None;
            };
            return Some(format!("{}.{method}()", describe_value(of)?));
        }
    }
    let access = json.get(".")?;
    let of = describe_value(access.get("left")?)?;
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

    /// Checks of which two comparisons in `condition` is warned, if of any.
    fn check(condition: &str, expected: Option<&str>) {
        let policy = format!(
            "permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource has title && resource has id && context has time && ({condition}) }};"
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

    #[test]
    fn comparisons_that_exclude_one_another_are_warned_of() {
        for (condition, expected) in [
            (
                "resource.title == \"a\" && resource.title == \"b\"",
                "`resource.title == \"a\"` and `resource.title == \"b\"`",
            ),
            (
                "resource.id > 5 && resource.id < 3",
                "`resource.id > 5` and `resource.id < 3`",
            ),
            (
                "resource.id > 5 && resource.id < 6",
                "`resource.id > 5` and `resource.id < 6`",
            ),
            (
                "resource.id == 1 && resource.id >= 2",
                "`resource.id == 1` and `resource.id >= 2`",
            ),
            (
                "5 < resource.id && resource.id == 4",
                "`resource.id > 5` and `resource.id == 4`",
            ),
            (
                "resource.id == 1 && resource.id != 1",
                "`resource.id == 1` and `resource.id != 1`",
            ),
            (
                "principal == User::\"a\" && principal == User::\"b\"",
                "`principal == User::\"a\"` and `principal == User::\"b\"`",
            ),
            (
                "resource.id == 9 || (resource.id == 1 && resource.title == \"a\" && resource.id == 2)",
                "`resource.id == 1` and `resource.id == 2`",
            ),
            (
                "resource.id > 5 && !(resource.id > 3)",
                "`resource.id > 5` and `!(resource.id > 3)`",
            ),
        ] {
            check(condition, Some(expected));
        }
    }

    #[test]
    fn literals_that_exclude_one_another_are_warned_of() {
        for (condition, expected) in [
            (
                "[\"a\", \"b\"].contains(resource.title) && resource.title == \"c\"",
                "`[\"a\", \"b\"].contains(resource.title)` and `resource.title == \"c\"`",
            ),
            (
                "[\"a\", \"b\"].contains(resource.title) && [\"c\"].contains(resource.title)",
                "`[\"a\", \"b\"].contains(resource.title)` and `[\"c\"].contains(resource.title)`",
            ),
            (
                "[1, 2].contains(resource.id) && resource.id > 2",
                "`[1, 2].contains(resource.id)` and `resource.id > 2`",
            ),
            (
                "![\"a\", \"b\"].contains(resource.title) && resource.title == \"a\"",
                "`![\"a\", \"b\"].contains(resource.title)` and `resource.title == \"a\"`",
            ),
            (
                "[\"a\"].contains(resource.title) && ![\"a\", \"b\"].contains(resource.title)",
                "`[\"a\"].contains(resource.title)` and `![\"a\", \"b\"].contains(resource.title)`",
            ),
        ] {
            check(condition, Some(expected));
        }
    }

    #[test]
    fn times_that_exclude_one_another_are_warned_of() {
        for (condition, expected) in [
            (
                "context.time < datetime(\"2026-01-01\") && context.time > datetime(\"2026-06-01\")",
                "`context.time < datetime(\"2026-01-01\")` and `context.time > datetime(\"2026-06-01\")`",
            ),
            (
                "context.time.toTime() > duration(\"17h\") && context.time.toTime() < duration(\"9h\")",
                "`context.time.toTime() > duration(\"17h\")` and `context.time.toTime() < duration(\"9h\")`",
            ),
        ] {
            check(condition, Some(expected));
        }
    }

    #[test]
    fn conditions_that_may_be_true_are_not_warned_of() {
        for condition in [
            "context.time > datetime(\"2026-01-01\") && context.time < datetime(\"2026-06-01\")",
            "context.time.toTime() > duration(\"17h\") || context.time.toTime() < duration(\"9h\")",
            "[\"a\", \"b\"].contains(resource.title) && [\"b\"].contains(resource.title)",
            "[\"a\", \"b\"].contains(resource.title) && resource.title != \"a\"",
            "resource.title == \"a\" || resource.title == \"b\"",
            "resource.id > 3 && resource.id < 5",
            "resource.id >= 3 && resource.id <= 3",
            "resource.title == \"a\" && resource.id == 1",
            "resource.title == \"a\" && resource.title == \"a\"",
            "resource.title != \"a\" && resource.title != \"b\"",
            "(resource.id == 1 || resource.id == 2) && resource.id != 1",
        ] {
            check(condition, None);
        }
    }

    /// Sets of usages, truth values and decimals, as Cedar has them.
    #[test]
    fn sets_truth_values_and_decimals_exclude_one_another() {
        let find = |condition: &str| {
            let text = format!("permit(principal, action, resource) when {{ {condition} }};");
            let policy = cedar_policy::Policy::parse(None, text).unwrap();
            let json = policy.to_json().unwrap();
            let mut found = Vec::new();
            super::find_in(&json["conditions"], &mut found);
            found
        };
        for condition in [
            "context.usage.contains(\"filter\") && !context.usage.contains(\"filter\")",
            "context.usage.containsAll([\"a\", \"b\"]) && !context.usage.containsAny([\"b\", \"c\"])",
            "context.usage.containsAny([\"a\"]) && !context.usage.contains(\"a\")",
            "context.usage.isEmpty() && context.usage.contains(\"a\")",
            "context.usage.isEmpty() && !context.usage.isEmpty()",
            "principal.external && !principal.external",
            "principal.external && principal.external == false",
            "principal.score.lessThan(decimal(\"1.5\")) && principal.score.greaterThan(decimal(\"1.50\"))",
            "principal.limit == decimal(\"1.5\") && principal.limit == decimal(\"-0.5\")",
        ] {
            assert_eq!(find(condition).len(), 1, "{condition}");
        }
        for condition in [
            "context.usage.contains(\"a\") && context.usage.contains(\"b\")",
            "context.usage.contains(\"a\") && !context.usage.contains(\"b\")",
            "context.usage.containsAny([\"a\", \"b\"]) && !context.usage.contains(\"a\")",
            "context.usage.containsAll([\"a\", \"b\"]) && !context.usage.containsAll([\"b\", \"c\"])",
            "context.usage.isEmpty() && !context.usage.contains(\"a\")",
            "principal.external && !resource.external",
            "principal.limit == decimal(\"1.5\") && principal.limit == decimal(\"1.50\")",
            "principal.score.lessThan(decimal(\"1.5\")) && principal.score.greaterThan(decimal(\"1.4\"))",
            "context.time == datetime(\"2026-01-01\") && context.time == datetime(\"2026-01-01T00:00:00Z\")",
            "[\"a\"].contains(resource.title) && context.usage.contains(resource.title)",
        ] {
            assert_eq!(find(condition), [], "{condition}");
        }
    }
}
