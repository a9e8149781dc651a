//! What to write where a policy is written in the habits of SQL or of another language, and Cedar says only what it expects.

use crate::dialect::Dialect;
use crate::policy::load::diagnostic::PolicyProblem;

/// How long a piece of a policy is that a help repeats.
const REPEATED: usize = 100;

/// A mistake in the grammar of the policy in `text`, with what to write.
pub(in crate::policy) fn explain_grammar(problem: PolicyProblem, text: &str) -> PolicyProblem {
    let help = grammar_help(&problem, text);
    problem.with_help(help)
}

fn grammar_help(problem: &PolicyProblem, text: &str) -> Option<String> {
    let span = problem.span?;
    let before = text.get(..span.offset)?.trim_end();
    let rest = text.get(span.offset..)?;
    let found = rest.get(..span.length)?;
    let message = problem.message.as_str();
    if message.contains("found set of entity uids") {
        let variable = before
            .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
            .find(|word| matches!(*word, "principal" | "resource"))?;
        let set = match found.len() <= REPEATED {
            true => found,
            false => "[…]",
        };
        return Some(format!(
            "the scope takes one: write `{variable}` there, and behind it `when {{ {variable} in {set} }}`"
        ));
    }
    let token = message
        .strip_prefix("unexpected token `")
        .and_then(|rest| rest.split_once('`'))
        .map(|(token, _)| token)?;
    match token.to_ascii_lowercase().as_str() {
        "and" => return Some("write `&&`".to_owned()),
        "or" => return Some("write `||`".to_owned()),
        ">" if before.ends_with('<') => return Some("write `!=`".to_owned()),
        _ => {}
    }
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next();
    if word.is_some_and(|word| word.eq_ignore_ascii_case("not")) {
        return Some("write `!` for `not`: `!(…)`".to_owned());
    }
    if message.contains("expected string literal") {
        let name = before.strip_suffix('(')?.trim_end();
        let name = name.get(name.rfind('@')?..)?;
        let is_name = name
            .chars()
            .skip(1)
            .all(|c| c.is_alphanumeric() || c == '_');
        let value = value_of_annotation(rest)?;
        return is_name.then(|| format!("its value stands in quotes: `{name}(\"{value}\")`"));
    }
    // A number with a point: Cedar reads the point as the access to an attribute.
    let whole = before.strip_suffix('.')?;
    let digits = whole.len() - whole.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let whole = whole.get(whole.len() - digits..)?;
    let is_number = !whole.is_empty() && found.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| format!("write `decimal(\"{whole}.{found}\")`"))
}

/// What stands up to the parenthesis that ends the annotation, where it is short and on one line.
fn value_of_annotation(rest: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices().take(REPEATED) {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return rest.get(..at).map(str::trim),
            ')' => depth -= 1,
            '\n' | '"' | '\\' => return None,
            _ => {}
        }
    }
    None
}

/// What to write where types do not fit: `sides` are those that are compared, where Cedar names both.
pub(in crate::policy) fn explain_types(
    problem: &PolicyProblem,
    sides: Option<(&str, &str)>,
    text: &str,
    dialect: Dialect,
) -> Option<String> {
    let span = problem.span?;
    let found = text.get(span.offset..span.offset + span.length)?;
    if found.len() > REPEATED {
        return None;
    }
    if let Some((left, right)) = sides {
        let (left_text, right_text) = found.split_once("==").or_else(|| found.split_once("!="))?;
        let is = |one: &str, other: &str| {
            (left == one && right == other) || (left == other && right == one)
        };
        let literal = [left_text.trim(), right_text.trim()];
        if is("Long", "decimal") {
            let number = literal.into_iter().find(|text| is_whole_number(text))?;
            return Some(format!("write `decimal(\"{number}.0\")`"));
        }
        if is("String", "datetime") {
            let moment = literal.into_iter().find(|text| is_moment(text))?;
            return Some(format!("write `datetime({moment})`"));
        }
        return None;
    }
    let (_, types) = problem.message.split_once("unexpected type: expected ")?;
    let (expected, saw) = types.split_once(" but saw ")?;
    match saw {
        "decimal" if expected.contains("Long") && !found.starts_with("decimal(") => {
            let behind = text.get(span.offset + span.length..)?.trim_start();
            let (method, behind) = METHODS
                .into_iter()
                .find_map(|(operator, method)| Some((method, behind.strip_prefix(operator)?)))
                .unwrap_or(("greaterThan", ""));
            let digits = behind.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let number = digits.get(..end.unwrap_or(digits.len()))?;
            let number = match number {
                "" => "1000",
                number => number,
            };
            Some(format!(
                "decimals are compared by methods: write `{found}.{method}(decimal(\"{number}.0\"))`"
            ))
        }
        "String" if expected.contains("datetime") && is_moment(found) => {
            Some(format!("write `datetime({found})`"))
        }
        "Long" if expected == "Bool" => Some(match dialect {
            Dialect::Mysql => format!("BOOLEAN is a number there: write `{found} == 1`"),
            Dialect::Postgres | Dialect::Sqlite => {
                format!("a number is no truth value: write `{found} == 1`")
            }
        }),
        _ => None,
    }
}

/// The methods of decimals, in the place of operators; the longer operators first.
const METHODS: [(&str, &str); 4] = [
    (">=", "greaterThanOrEqual"),
    ("<=", "lessThanOrEqual"),
    (">", "greaterThan"),
    ("<", "lessThan"),
];

/// Whether a literal looks like a date, with a time of day or without.
fn is_moment(literal: &str) -> bool {
    let text = literal.strip_prefix('"').unwrap_or_default();
    let year = text.split('-').next().unwrap_or_default();
    text.contains('-') && year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit())
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::sync::Arc;

    use crate::{
        catalog::{Catalog, test_ddl},
        policy::{ColumnFlow, PolicySet, PolicySources},
    };

    fn help(catalog: &Arc<Catalog>, text: &str) -> Option<String> {
        let sources = PolicySources::from_cedar("a.cedar", text);
        let errors = PolicySet::load(&sources, catalog, &ColumnFlow::default()).unwrap_err();
        errors.problems()[0].help.clone()
    }

    #[test]
    fn habits_of_other_languages_say_what_to_write() {
        let postgres = "CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,2) NOT NULL, made timestamptz NOT NULL);";
        let postgres = Arc::new(test_ddl::postgres(postgres, "main").unwrap());
        let mysql = "CREATE TABLE t (id int PRIMARY KEY, ok tinyint(1) NOT NULL);";
        let mysql = Arc::new(test_ddl::mysql(mysql, "main").unwrap());
        let when = |schema: &str, condition: &str| {
            format!(
                "permit(principal, action == Action::\"see\", resource is row::{schema}::t) when {{ {condition} }};"
            )
        };
        for (condition, expected) in [
            (
                "resource.amount > 1000",
                "decimals are compared by methods: write `resource.amount.greaterThan(decimal(\"1000.0\"))`",
            ),
            (
                "resource.amount <= 5",
                "decimals are compared by methods: write `resource.amount.lessThanOrEqual(decimal(\"5.0\"))`",
            ),
            (
                "1000 < resource.amount",
                "decimals are compared by methods: write `resource.amount.greaterThan(decimal(\"1000.0\"))`",
            ),
            ("resource.amount == 10", "write `decimal(\"10.0\")`"),
            ("resource.amount == 10.5", "write `decimal(\"10.5\")`"),
            (
                "resource.made > \"2026-01-01\"",
                "write `datetime(\"2026-01-01\")`",
            ),
            (
                "resource.made == \"2026-01-01\"",
                "write `datetime(\"2026-01-01\")`",
            ),
            (
                "resource.id",
                "a number is no truth value: write `resource.id == 1`",
            ),
            ("resource.id == 1 and resource.id == 2", "write `&&`"),
            ("resource.id == 1 OR resource.id == 2", "write `||`"),
            ("not resource.id == 1", "write `!` for `not`: `!(…)`"),
            ("resource.id <> 1", "write `!=`"),
        ] {
            let found = help(&postgres, &when("public", condition));
            assert_eq!(found.as_deref(), Some(expected), "{condition}");
        }
        assert_eq!(
            help(&mysql, &when("main", "!resource.ok")).as_deref(),
            Some("BOOLEAN is a number there: write `resource.ok == 1`")
        );
        for (policy, expected) in [
            (
                "@mask(last(4)) forbid(principal, action == Action::\"read_plain\", resource);",
                "its value stands in quotes: `@mask(\"last(4)\")`",
            ),
            (
                "@max_rows(100) permit(principal, action == Action::\"select\", resource);",
                "its value stands in quotes: `@max_rows(\"100\")`",
            ),
            (
                "permit(principal, action == Action::\"select\", resource in [Table::\"a\", Table::\"b\"]);",
                "the scope takes one: write `resource` there, and behind it `when { resource in [Table::\"a\", Table::\"b\"] }`",
            ),
            (
                "permit(principal in [Role::\"a\", Role::\"b\"], action, resource);",
                "the scope takes one: write `principal` there, and behind it `when { principal in [Role::\"a\", Role::\"b\"] }`",
            ),
        ] {
            assert_eq!(help(&postgres, policy).as_deref(), Some(expected));
        }
    }
}
