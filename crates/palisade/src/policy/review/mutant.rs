//! Policies changed in one place at a time: whoever tests a policy folder learns from each change that no test notices.

use std::{fmt, ops::Range};

use cedar_policy::Policy;
use serde_json::{Value, json};

use crate::policy::{
    cedar::schema::PolicyAction,
    load::{
        diagnostic::{PolicyProblem, Source},
        source::{Located, parse},
    },
    sources::PolicySources,
};

/// What is done to a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// It is taken away.
    Removed,
    /// It applies where it did not, and the other way round; without a condition its effect is the other.
    Negated,
    /// It applies to more.
    Widened,
    /// It applies to less.
    Narrowed,
}

impl Mutation {
    /// As a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Negated => "negated",
            Self::Widened => "widened",
            Self::Narrowed => "narrowed",
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One policy, changed in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The policy's id.
    pub policy: String,
    /// What is done to it.
    pub mutation: Mutation,
    /// How it differs, on one line: ``without `principal has tenant` ``.
    pub change: String,
    /// The policy's file, as the sources name it.
    pub file: String,
    /// The line of the policy's first token, from 1.
    pub line: u32,
    /// Which of the sources' files.
    index: usize,
    /// Where in it the policy stands, in bytes.
    range: Range<usize>,
    /// What stands there instead, on as many lines.
    text: String,
}

impl Mutant {
    /// What is done, and how the policy differs: `widened, for every principal`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.mutation {
            Mutation::Removed => self.change.clone(),
            mutation @ (Mutation::Negated | Mutation::Widened | Mutation::Narrowed) => {
                format!("{mutation}, {}", self.change)
            }
        }
    }

    /// A problem at the place of the policy that it was made from, in `sources`.
    pub(crate) fn problem(&self, sources: &PolicySources, message: &str) -> PolicyProblem {
        let text = sources.policies.get(self.index).map(|file| &*file.text);
        let source = Source {
            name: &self.file,
            text: text.unwrap_or_default(),
        };
        source.at(self.range.clone(), message)
    }

    /// The sources that it was made from, changed in this one place.
    #[must_use]
    pub fn apply(&self, sources: &PolicySources) -> PolicySources {
        let mut sources = sources.clone();
        if let Some(file) = sources.policies.get_mut(self.index)
            && file.text.get(self.range.clone()).is_some()
        {
            file.text.replace_range(self.range.clone(), &self.text);
        }
        sources
    }
}

/// Every mutant of `sources`, by file and line. What does not parse has none. A mutant need not load.
#[must_use]
pub fn mutate(sources: &PolicySources) -> Vec<Mutant> {
    let mut out = Vec::new();
    for (index, file) in sources.policies.iter().enumerate() {
        let source = Source {
            name: &file.name,
            text: &file.text,
        };
        for located in parse(source, &mut Vec::new()) {
            let place = located.origin.problem("");
            let mut add = |mutation, change: String, text: String| {
                let range = located.origin.range.clone();
                let lines = located.origin.text().matches('\n').count();
                out.push(Mutant {
                    policy: located.policy.id().to_string(),
                    mutation,
                    change,
                    file: file.name.clone(),
                    line: place.line.unwrap_or(1),
                    index,
                    range,
                    // Lines stay where they are: they name policies without an id.
                    text: text.replace('\n', " ") + &"\n".repeat(lines),
                });
            };
            add(Mutation::Removed, "taken away".to_owned(), String::new());
            for changed in find_changes(&located) {
                if let Some(text) = print(&changed.json) {
                    add(changed.mutation, changed.change, text);
                }
            }
        }
    }
    out
}

/// A policy as Cedar writes it down, changed.
struct Changed {
    mutation: Mutation,
    change: String,
    json: Value,
}

pub(in crate::policy) fn print(json: &Value) -> Option<String> {
    Policy::from_json(None, json.clone()).ok()?.to_cedar()
}

fn find_changes(located: &Located<'_>) -> Vec<Changed> {
    let Some(json) = &located.json else {
        return Vec::new();
    };
    let mut out = Vec::new();
    change_conditions(json, &mut out);
    change_scope(json, &mut out);
    change_annotations(json, &mut out);
    out
}

/// Negates, drops and varies what stands after `when` and `unless`; negates the effect where there is neither.
fn change_conditions(json: &Value, out: &mut Vec<Changed>) {
    let conditions = json.get("conditions").and_then(Value::as_array);
    let conditions = conditions.map_or(&[][..], Vec::as_slice);
    if conditions.is_empty() {
        let (effect, other) = match json.get("effect").and_then(Value::as_str) {
            Some("permit") => ("permit", "forbid"),
            Some(_) | None => ("forbid", "permit"),
        };
        out.push(Changed {
            mutation: Mutation::Negated,
            change: format!("`{other}` for `{effect}`"),
            json: with(json, &["effect"], json!(other)),
        });
    }
    for (index, condition) in conditions.iter().enumerate() {
        let is_when = condition.get("kind").and_then(Value::as_str) == Some("when");
        let (kind, other) = if is_when {
            ("when", "unless")
        } else {
            ("unless", "when")
        };
        let Some(body) = condition.get("body") else {
            continue;
        };
        let shown = describe(body);
        let replaced = |with: Option<Value>| {
            let mut conditions = conditions.to_vec();
            match with {
                Some(with) => conditions.iter_mut().skip(index).take(1).for_each(|one| {
                    *one = with.clone();
                }),
                None => drop(conditions.remove(index)),
            }
            let mut json = json.clone();
            if let Some(place) = json.get_mut("conditions") {
                *place = Value::Array(conditions);
            }
            json
        };
        out.push(Changed {
            mutation: Mutation::Negated,
            change: format!("`{other} {{ {shown} }}`"),
            json: replaced(Some(json!({"kind": other, "body": body}))),
        });
        out.push(Changed {
            mutation: Mutation::Widened,
            change: format!("without `{kind} {{ {shown} }}`"),
            json: replaced(None),
        });
        for variant in vary(body) {
            out.push(Changed {
                mutation: match variant.holds == is_when {
                    true => Mutation::Widened,
                    false => Mutation::Narrowed,
                },
                change: variant.change,
                json: replaced(Some(json!({"kind": kind, "body": variant.expr}))),
            });
        }
    }
}

/// An expression that holds more often, or less.
struct Variant {
    /// More often.
    holds: bool,
    change: String,
    expr: Value,
}

/// The expressions that are `expr` less one part.
fn vary(expr: &Value) -> Vec<Variant> {
    let mut out = Vec::new();
    for (operator, holds) in [("&&", true), ("||", false)] {
        let Some(sides) = expr.get(operator) else {
            continue;
        };
        let (Some(left), Some(right)) = (sides.get("left"), sides.get("right")) else {
            continue;
        };
        for (dropped, kept) in [(left, right), (right, left)] {
            // Of `a && b && c` each is dropped alone.
            if dropped.get(operator).is_none() {
                out.push(Variant {
                    holds,
                    change: format!("without `{}`", describe(dropped)),
                    expr: kept.clone(),
                });
            }
        }
        for side in ["left", "right"] {
            vary_within(expr, &[operator, side], true, &mut out);
        }
    }
    vary_within(expr, &["!", "arg"], false, &mut out);
    for (operator, side, holds) in [
        ("contains", "left", false),
        ("containsAny", "left", false),
        ("containsAny", "right", false),
        ("containsAll", "left", false),
        ("containsAll", "right", true),
        ("in", "right", false),
    ] {
        let set = expr.pointer(&format!("/{operator}/{side}/Set"));
        let Some(elements) = set.and_then(Value::as_array).filter(|all| all.len() > 1) else {
            continue;
        };
        for (index, element) in elements.iter().enumerate() {
            let mut rest = elements.clone();
            rest.remove(index);
            out.push(Variant {
                holds,
                change: format!("without `{}`", describe(element)),
                expr: with(expr, &[operator, side, "Set"], Value::Array(rest)),
            });
        }
    }
    out
}

/// The variants of the part of `expr` at `path`. Where a part holds more often, the whole does, or the other way round, as `alike` says.
fn vary_within(expr: &Value, path: &[&str], alike: bool, out: &mut Vec<Variant>) {
    let Some(part) = expr.pointer(&format!("/{}", path.join("/"))) else {
        return;
    };
    out.extend(vary(part).into_iter().map(|variant| Variant {
        holds: variant.holds == alike,
        change: variant.change,
        expr: with(expr, path, variant.expr),
    }));
}

/// Opens the scope for all, and narrows its actions.
fn change_scope(json: &Value, out: &mut Vec<Changed>) {
    for (part, any) in [
        ("principal", "for every principal"),
        ("resource", "for every resource"),
        ("action", "for every action"),
    ] {
        let operator = json.pointer(&format!("/{part}/op")).and_then(Value::as_str);
        if operator.is_some_and(|operator| operator != "All") {
            out.push(Changed {
                mutation: Mutation::Widened,
                change: any.to_owned(),
                json: with(json, &[part], json!({"op": "All"})),
            });
        }
    }
    let only = |names: Vec<Value>| match names.as_slice() {
        [one] => json!({"op": "==", "entity": one}),
        several => json!({"op": "in", "entities": several}),
    };
    let action = |name: &str| json!({"type": "Action", "id": name});
    let entities = json.pointer("/action/entities").and_then(Value::as_array);
    for (index, left_out) in entities.into_iter().flatten().enumerate() {
        let mut rest = entities.cloned().unwrap_or_default();
        rest.remove(index);
        if rest.is_empty() {
            continue;
        }
        let name = left_out.get("id").and_then(Value::as_str);
        out.push(Changed {
            mutation: Mutation::Narrowed,
            change: format!("without the action `{}`", name.unwrap_or_default()),
            json: with(json, &["action"], only(rest)),
        });
    }
    let group = json.pointer("/action/entity/id").and_then(Value::as_str);
    let members = PolicyAction::ALL.iter().filter(|one| {
        let of = one.group();
        of.is_some() && of == group
    });
    let members: Vec<&str> = members.map(|one| one.name()).collect();
    for left_out in &members {
        let rest = members.iter().filter(|one| *one != left_out);
        out.push(Changed {
            mutation: Mutation::Narrowed,
            change: format!("without the action `{left_out}`"),
            json: with(
                json,
                &["action"],
                only(rest.map(|one| action(one)).collect()),
            ),
        });
    }
}

/// Takes demands away. A permit then gives more; a forbid without its mask hides the column, which forbids more.
fn change_annotations(json: &Value, out: &mut Vec<Changed>) {
    let is_permit = json.get("effect").and_then(Value::as_str) == Some("permit");
    let annotations = json.get("annotations").and_then(Value::as_object);
    for name in ["max_rows", "max_time", "approval", "mask", "aggregate_only"] {
        let Some(mut rest) = annotations.filter(|all| all.contains_key(name)).cloned() else {
            continue;
        };
        rest.remove(name);
        let is_mask = matches!(name, "mask" | "aggregate_only");
        out.push(Changed {
            mutation: match is_mask && is_permit {
                // What is permitted masked, and by no mask, is NULL.
                true => Mutation::Narrowed,
                false => Mutation::Widened,
            },
            change: format!("without `@{name}`"),
            json: with(json, &["annotations"], Value::Object(rest)),
        });
    }
}

/// `json` with another value at `path`; the same where there is no such place.
fn with(json: &Value, path: &[&str], value: Value) -> Value {
    let mut json = json.clone();
    if let Some(place) = json.pointer_mut(&format!("/{}", path.join("/"))) {
        *place = value;
    }
    json
}

/// An expression as a policy has it, on one line.
pub(in crate::policy) fn describe(expr: &Value) -> String {
    let scope = json!({"op": "All"});
    let policy = json!({
        "effect": "permit", "principal": scope, "action": scope, "resource": scope,
        "conditions": [{"kind": "when", "body": expr}],
    });
    let text = print(&policy).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let inner = text.split_once("when {").map_or("", |(_, rest)| rest);
    let inner = inner.trim_end_matches(';').trim_end();
    inner.strip_suffix('}').unwrap_or(inner).trim().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::{Mutation, mutate};
    use crate::policy::sources::PolicySources;

    fn told(text: &str) -> Vec<String> {
        let sources = PolicySources::from_cedar("a.cedar", text);
        let mutants = mutate(&sources);
        for mutant in &mutants {
            let changed = mutant.apply(&sources);
            let lines = |text: &str| text.matches('\n').count();
            assert_eq!(lines(&changed.policies[0].text), lines(text), "{mutant:?}");
            assert_ne!(changed, sources);
        }
        let told = mutants.iter();
        told.map(|m| format!("{} {} {}", m.policy, m.mutation, m.change))
            .collect()
    }

    #[test]
    fn each_part_of_a_policy_is_changed_alone() {
        let text = "// One.\n@id(\"a\") @max_rows(\"5\") permit (principal in Role::\"r\",\n action in Action::\"read\", resource)\n\
            when { principal has tenant && resource.tags.containsAny([\"x\", \"y\"]) };\n\
            forbid (principal, action in [Action::\"see\", Action::\"add\"], resource);\n";
        assert_eq!(
            told(text),
            [
                "a removed taken away",
                "a negated `unless { (principal has tenant) && resource.tags.containsAny([\"x\", \"y\"]) }`",
                "a widened without `when { (principal has tenant) && resource.tags.containsAny([\"x\", \"y\"]) }`",
                "a widened without `principal has tenant`",
                "a widened without `resource.tags.containsAny([\"x\", \"y\"])`",
                "a narrowed without `\"x\"`",
                "a narrowed without `\"y\"`",
                "a widened for every principal",
                "a widened for every action",
                "a narrowed without the action `read_plain`",
                "a narrowed without the action `read_masked`",
                "a widened without `@max_rows`",
                "a.cedar:5 removed taken away",
                "a.cedar:5 negated `permit` for `forbid`",
                "a.cedar:5 widened for every action",
                "a.cedar:5 narrowed without the action `see`",
                "a.cedar:5 narrowed without the action `add`",
            ]
        );
    }

    #[test]
    fn less_of_an_exception_is_more_of_the_policy() {
        let of = |text: &str| {
            let all = told(text);
            all.into_iter()
                .filter(|one| one.contains("`1 == 2`"))
                .collect::<Vec<_>>()
        };
        let scope = "@id(\"a\") permit (principal, action, resource)";
        for (condition, mutation) in [
            ("when { 1 == 2 && 2 == 3 }", Mutation::Widened),
            ("when { 1 == 2 || 2 == 3 }", Mutation::Narrowed),
            ("unless { 1 == 2 && 2 == 3 }", Mutation::Narrowed),
            ("unless { 1 == 2 || 2 == 3 }", Mutation::Widened),
            ("when { !(1 == 2 && 2 == 3) }", Mutation::Narrowed),
        ] {
            let found = of(&format!("{scope} {condition};"));
            assert_eq!(
                found,
                [format!("a {mutation} without `1 == 2`")],
                "{condition}"
            );
        }
    }

    #[test]
    fn conditions_keep_their_parentheses() {
        let text = r#"permit (principal, action, resource) when { (principal.a == "(") && (principal.b == ")") };"#;
        let whole = r#"without `when { (principal.a == "(") && (principal.b == ")") }`"#;
        let all = told(text);
        assert!(all.iter().any(|told| told.contains(whole)), "{all:#?}");
    }
}
