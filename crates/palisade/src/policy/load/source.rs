//! Policy files as text: one piece a policy, so that every policy keeps its file and line.

use std::{collections::BTreeMap, ops::Range};

use cedar_policy::{Policy, PolicyId, ffi::DetailedError};
use serde_json::Value;

use crate::policy::load::{
    diagnostic::{PolicyProblem, Source},
    written_help,
};

/// A policy as it stands in its file.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Origin<'a> {
    /// The file.
    pub(in crate::policy) source: Source<'a>,
    /// Where in it the policy stands, from its first token to its semicolon.
    pub(in crate::policy) range: Range<usize>,
}

/// A parsed policy with its origin.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Located<'a> {
    pub(in crate::policy) policy: Policy,
    /// As Cedar writes it down, where it can.
    pub(in crate::policy) json: Option<Value>,
    pub(in crate::policy) origin: Origin<'a>,
}

impl Located<'_> {
    /// Its conditions, as Cedar writes them down; none where it cannot.
    pub(in crate::policy) fn conditions(&self) -> Option<&Value> {
        self.json.as_ref()?.get("conditions")
    }
}

/// Where policies stand, by their ids.
pub(in crate::policy) type Origins<'a> = BTreeMap<String, Origin<'a>>;

/// The policies of a file, named by `@id`, or by file and line (`base.cedar:12`); what does not parse becomes a problem.
pub(in crate::policy) fn parse<'a>(
    source: Source<'a>,
    problems: &mut Vec<PolicyProblem>,
) -> Vec<Located<'a>> {
    let file = file_name(source.name);
    let mut out = Vec::new();
    let (mut line, mut counted, mut last) = (1_usize, 0, String::new());
    for range in split(source.text) {
        let Some(text) = source.text.get(range.clone()) else {
            continue;
        };
        let between = source.text.get(counted..range.start).unwrap_or_default();
        line += between.matches('\n').count();
        counted = range.start;
        let mut id = format!("{file}:{line}");
        // A second one on the line of another.
        while id == last || last.starts_with(&format!("{id}+")) {
            id = format!("{last}+");
        }
        last.clone_from(&id);
        match Policy::parse(Some(PolicyId::new(id)), text) {
            Ok(policy) => {
                let policy = match policy.annotation("id") {
                    Some(id) => policy.new_id(PolicyId::new(id)),
                    None => policy,
                };
                out.push(Located {
                    json: policy.to_json().ok(),
                    policy,
                    origin: Origin { source, range },
                });
            }
            Err(errors) => {
                let error = DetailedError::from(&errors);
                let found = source.cedar_problems(error, range.start, Some(range));
                let explain = |problem| written_help::explain_grammar(problem, source.text);
                problems.extend(found.into_iter().map(explain));
            }
        }
    }
    out
}

impl Origin<'_> {
    /// A problem at the policy's beginning.
    pub(in crate::policy) fn problem(&self, message: impl Into<String>) -> PolicyProblem {
        self.source.at(self.range.clone(), message)
    }

    /// A problem at the annotation `name`.
    pub(in crate::policy) fn at_annotation(
        &self,
        name: &str,
        message: impl Into<String>,
    ) -> PolicyProblem {
        let found = self.tokens().find(|token| {
            token.kind == Kind::Annotation
                && token.text.strip_prefix('@').map(str::trim) == Some(name)
        });
        match found {
            Some(token) => self.source.at(token.range, message),
            None => self.problem(message),
        }
    }

    /// A problem at the entity literal `kind::"id"`.
    pub(in crate::policy) fn at_entity(
        &self,
        kind: &str,
        id: &str,
        message: impl Into<String>,
    ) -> PolicyProblem {
        let base = self.range.start;
        let found = self.tokens().find_map(|token| {
            let before = self.source.text.get(base..token.range.start)?.trim_end();
            let before = before.strip_suffix("::")?.trim_end().strip_suffix(kind)?;
            (token.kind == Kind::Text && unescape(token.text) == id)
                .then_some(base + before.len()..token.range.end)
        });
        match found {
            Some(range) => self.source.at(range, message),
            None => self.problem(message),
        }
    }

    /// A problem at the string literal `word`.
    pub(in crate::policy) fn at_text(
        &self,
        word: &str,
        message: impl Into<String>,
    ) -> PolicyProblem {
        let found = self
            .tokens()
            .find(|token| token.kind == Kind::Text && unescape(token.text) == word);
        match found {
            Some(token) => self.source.at(token.range, message),
            None => self.problem(message),
        }
    }

    /// A problem where the policy says `context.name` or `context has name`, or any of its attributes is called so.
    pub(in crate::policy) fn at_attribute(
        &self,
        name: &str,
        message: impl Into<String>,
    ) -> PolicyProblem {
        let is_end = |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
        let found = self.tokens().find_map(|token| {
            let before = self.source.text.get(..token.range.start)?;
            let rest = self.source.text.get(token.range.start..)?;
            let after = rest.strip_prefix(name)?;
            let is_word = is_end(before.chars().next_back()) && is_end(after.chars().next());
            (token.kind == Kind::Other && is_word)
                .then_some(token.range.start..token.range.start + name.len())
        });
        match found {
            Some(range) => self.source.at(range, message),
            None => self.problem(message),
        }
    }

    /// The policy's text.
    pub(in crate::policy) fn text(&self) -> &str {
        self.source.text.get(self.range.clone()).unwrap_or_default()
    }

    fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        let base = self.range.start;
        tokens(self.text()).into_iter().map(move |token| Token {
            range: token.range.start + base..token.range.end + base,
            ..token
        })
    }
}

/// A file's name without folders.
fn file_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// Where each policy stands: from its first token to its semicolon. A semicolon ends a policy
/// wherever it is outside of strings and comments. What follows the last one is a piece too, if it
/// holds a token, so that a missing semicolon is an error and no policy is lost.
fn split(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut start = None;
    for token in tokens(text) {
        let begin = *start.get_or_insert(token.range.start);
        if token.kind == Kind::Semicolon {
            out.push(begin..token.range.end);
            start = None;
        }
    }
    out.extend(start.map(|begin| begin..text.len()));
    out
}

/// Where the conditions of a policy stand in its text: each from its `when` or `unless` to its closing brace.
pub(in crate::policy) fn clause_ranges(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let (mut depth, mut start) = (0_usize, None);
    for token in tokens(text) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.extend(start.take().map(|start| start..token.range.end));
                }
            }
            "w" | "u" if depth == 0 && start.is_none() => {
                let rest = text.get(token.range.start..).unwrap_or_default();
                let is_first = ["when", "unless"].iter().any(|word| rest.starts_with(word));
                start = is_first.then_some(token.range.start);
            }
            _ => {}
        }
    }
    out
}

/// The comments of a text, each without the blanks around it, in their order.
pub(in crate::policy) fn comments(text: &str) -> impl Iterator<Item = &str> {
    let comments = lex(text).into_iter();
    comments
        .filter(|token| token.kind == Kind::Comment)
        .map(|token| token.text.trim())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Kind {
    Semicolon,
    /// From `//` to the end of its line.
    Comment,
    /// A string literal, quotes included.
    Text,
    /// `@name`.
    Annotation,
    Other,
}

#[derive(Debug, Clone)]
pub(in crate::policy) struct Token<'a> {
    pub(in crate::policy) kind: Kind,
    pub(in crate::policy) range: Range<usize>,
    pub(in crate::policy) text: &'a str,
}

/// The tokens that matter for finding places: comments and blanks left out, words not joined.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = lex(text);
    tokens.retain(|token| token.kind != Kind::Comment);
    tokens
}

/// As [`tokens`], with the comments.
pub(in crate::policy) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut out = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let kind = match c {
            '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => {
                while chars
                    .next_if(|(_, next)| !matches!(next, '\n' | '\r'))
                    .is_some()
                {}
                Kind::Comment
            }
            c if c.is_whitespace() => continue,
            '"' => {
                while let Some((_, inner)) = chars.next() {
                    match inner {
                        '\\' => drop(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                Kind::Text
            }
            '@' => {
                while chars.next_if(|(_, next)| next.is_whitespace()).is_some() {}
                while chars
                    .next_if(|(_, next)| next.is_alphanumeric() || *next == '_')
                    .is_some()
                {}
                Kind::Annotation
            }
            ';' => Kind::Semicolon,
            _ => Kind::Other,
        };
        let end = chars.peek().map_or(text.len(), |(i, _)| *i);
        let piece = text.get(start..end).unwrap_or_default();
        out.push(Token {
            kind,
            range: start..end,
            text: piece,
        });
    }
    out
}

/// The value of a string literal, as far as entity ids need it.
pub(in crate::policy) fn unescape(literal: &str) -> String {
    let inner = literal
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(literal);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            other => out.push(other),
        }
    }
    out
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

    use super::*;

    #[test]
    fn policies_are_split_outside_of_strings_and_comments() {
        let text = "// a; comment\npermit(principal, action, resource)\n  when { \"a;\\\"b\" == \"//\" };\n\n// x\nforbid(principal, action, resource); // end;\n";
        let pieces: Vec<_> = split(text).into_iter().map(|r| &text[r]).collect();
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].starts_with("permit") && pieces[0].ends_with("};"));
        assert_eq!(pieces[1], "forbid(principal, action, resource);");
    }

    #[test]
    fn clauses_are_found_outside_of_strings_and_annotations() {
        let text = "@message(\"when { x }\")\nforbid (principal, action, resource)\nwhen { {a: \"}\"}.a == \"unless\" } // when {\nunless { true };";
        let clauses: Vec<_> = clause_ranges(text).into_iter().map(|r| &text[r]).collect();
        assert_eq!(
            clauses,
            ["when { {a: \"}\"}.a == \"unless\" }", "unless { true }"]
        );
        // A type that begins like one is in the scope, and no clause.
        let text = "permit (principal is whenever, action, resource) when { true };";
        let clauses: Vec<_> = clause_ranges(text).into_iter().map(|r| &text[r]).collect();
        assert_eq!(clauses, ["when { true }"]);
    }

    #[test]
    fn ids_come_from_the_annotation_or_the_place() {
        let source = Source {
            name: "dir/base.cedar",
            text: "permit(principal, action, resource);\n@id(\"x\") forbid(principal, action, resource);\n\n// y\npermit(principal, action, resource); permit(principal, action, resource); permit(principal, action, resource);",
        };
        let mut problems = Vec::new();
        let ids: Vec<_> = parse(source, &mut problems)
            .iter()
            .map(|l| l.policy.id().to_string())
            .collect();
        assert_eq!(
            ids,
            [
                "base.cedar:1",
                "x",
                "base.cedar:5",
                "base.cedar:5+",
                "base.cedar:5++"
            ]
        );
        assert!(problems.is_empty());
    }

    #[test]
    fn a_syntax_error_points_into_the_right_policy() {
        let source = Source {
            name: "a.cedar",
            text: "permit(principal, action, resource);\n\nforbid(principal, action,\n  resorce);\n",
        };
        let mut problems = Vec::new();
        assert_eq!(parse(source, &mut problems).len(), 1);
        assert_eq!(problems[0].line, Some(4), "{problems:?}");
    }

    #[test]
    fn a_missing_semicolon_and_templates_are_errors() {
        for text in [
            "permit(principal, action, resource)",
            "permit(principal, action, resource) permit(principal, action, resource);",
            "permit(principal == ?principal, action, resource);",
            "permit(principal, action, resource);;",
        ] {
            let mut problems = Vec::new();
            parse(
                Source {
                    name: "a.cedar",
                    text,
                },
                &mut problems,
            );
            assert!(!problems.is_empty(), "{text}");
        }
    }
}
