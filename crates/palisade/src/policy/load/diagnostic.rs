//! What is wrong with a policy folder, and where: file, line, column and a hint.

use std::{fmt, ops::Range};

use cedar_policy::ffi::DetailedError;
use serde::de::DeserializeOwned;

use crate::{did_you_mean, policy::rule::Rule};

/// One thing wrong with, or odd about, a policy folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The file's name as given in the sources.
    pub file: String,
    /// Line, from 1; `None` if the problem is with the file as a whole.
    pub line: Option<u32>,
    /// Column in characters, from 1; present exactly when `line` is.
    pub column: Option<u32>,
    /// Where in the file's text, for rendering a snippet.
    pub span: Option<SourceSpan>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Of a warning, the rule that it is of.
    pub rule: Option<Rule>,
}

/// A piece of a source text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceSpan {
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub length: usize,
}

/// Why a policy folder cannot be loaded: every problem found, never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyErrors {
    problems: Vec<PolicyProblem>,
}

impl PolicyErrors {
    pub(in crate::policy) fn new(problems: Vec<PolicyProblem>) -> Self {
        Self { problems }
    }

    pub(in crate::policy) fn one(problem: PolicyProblem) -> Self {
        Self::new(vec![problem])
    }

    /// The problems, in the order found.
    #[must_use]
    pub fn problems(&self) -> &[PolicyProblem] {
        &self.problems
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl PolicyProblem {
    /// Says of which rule it is, unless that is known.
    pub(crate) fn of_rule(mut self, rule: Rule) -> Self {
        self.rule = self.rule.or(Some(rule));
        self
    }

    /// Adds what to do about it.
    pub(crate) fn with_help(mut self, help: Option<impl Into<String>>) -> Self {
        self.help = help.map(Into::into).or(self.help);
        self
    }
}

/// The candidate that was probably meant by `wanted`: the closest, or one with letters swapped.
pub(in crate::policy) fn probably<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.to_lowercase().chars().collect();
        letters.sort_unstable();
        letters
    };
    let swapped = letters(wanted);
    let candidates: Vec<&str> = candidates.into_iter().collect();
    did_you_mean::closest(wanted, candidates.iter().copied()).or_else(|| {
        candidates
            .into_iter()
            .find(|candidate| letters(candidate) == swapped)
    })
}

/// A file's name and text, to which positions refer.
#[derive(Debug, Clone, Copy)]
pub(in crate::policy) struct Source<'a> {
    pub(in crate::policy) name: &'a str,
    pub(in crate::policy) text: &'a str,
}

impl Source<'_> {
    /// The file as TOML.
    pub(in crate::policy) fn toml<T: DeserializeOwned>(&self) -> Result<T, PolicyProblem> {
        toml::from_str(self.text).map_err(|error| match error.span() {
            Some(span) => self.at(span, error.message()),
            None => self.problem_of_file(error.message()),
        })
    }

    /// A problem with the file as a whole.
    pub(in crate::policy) fn problem_of_file(&self, message: impl Into<String>) -> PolicyProblem {
        PolicyProblem {
            file: self.name.to_owned(),
            line: None,
            column: None,
            span: None,
            message: message.into(),
            help: None,
            rule: None,
        }
    }

    /// A problem at a range of bytes; a range past the end points at the end.
    pub(in crate::policy) fn at(
        &self,
        range: Range<usize>,
        message: impl Into<String>,
    ) -> PolicyProblem {
        let start = range.start.min(self.text.len());
        let before = self.text.as_bytes().get(..start).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default()
            .iter()
            // Continuation bytes of UTF-8 begin no character.
            .filter(|byte| **byte & 0xC0 != 0x80)
            .count()
            + 1;
        let end = range.end.clamp(start, self.text.len());
        PolicyProblem {
            line: Some(u32::try_from(line).unwrap_or(u32::MAX)),
            column: Some(u32::try_from(column).unwrap_or(u32::MAX)),
            span: Some(SourceSpan {
                offset: start,
                length: end - start,
            }),
            ..self.problem_of_file(message)
        }
    }

    /// What Cedar reported over the piece of this text that begins at `base`; `fallback` is where to
    /// point when Cedar does not say.
    pub(in crate::policy) fn cedar_problems(
        &self,
        error: DetailedError,
        base: usize,
        fallback: Option<Range<usize>>,
    ) -> Vec<PolicyProblem> {
        let mut out = Vec::new();
        self.collect_cedar(error, base, fallback, &mut out);
        out
    }

    fn collect_cedar(
        &self,
        error: DetailedError,
        base: usize,
        fallback: Option<Range<usize>>,
        out: &mut Vec<PolicyProblem>,
    ) {
        let range = error
            .source_locations
            .first()
            .map(|label| base + label.loc.start..base + label.loc.end)
            .filter(|range| range.start <= self.text.len())
            .or_else(|| fallback.clone());
        let message = match error
            .source_locations
            .first()
            .and_then(|l| l.label.as_deref())
        {
            Some(label) if !label.is_empty() => {
                format!("{} ({})", error.message, shorten_expected(label))
            }
            Some(_) | None => error.message,
        };
        let problem = match range {
            Some(range) => self.at(range, message),
            None => self.problem_of_file(message),
        };
        out.push(problem.with_help(error.help));
        for related in error.related {
            self.collect_cedar(related, base, fallback.clone(), out);
        }
    }
}

/// Operators of Cedar between two values, as its parser lists what it expects.
const OPERATORS: [&str; 15] = [
    "`!=`", "`&&`", "`*`", "`+`", "`-`", "`<`", "`<=`", "`==`", "`>`", "`>=`", "`||`", "`has`",
    "`in`", "`is`", "`like`",
];

/// What Cedar's parser expects, with one word for operators where it lists many.
fn shorten_expected(label: &str) -> String {
    let Some(list) = label.strip_prefix("expected ") else {
        return label.to_owned();
    };
    let tokens: Vec<&str> = list
        .split(", ")
        .flat_map(|token| token.split(" or "))
        .map(|token| token.trim_start_matches("or ").trim())
        .filter(|token| !token.is_empty())
        .collect();
    let (operators, mut rest): (Vec<&str>, Vec<&str>) =
        tokens.iter().partition(|token| OPERATORS.contains(token));
    if operators.len() < 4 {
        return label.to_owned();
    }
    rest.insert(0, "an operator");
    let last = rest.pop().unwrap_or_default();
    match rest.as_slice() {
        [] => format!("expected {last}"),
        [first] => format!("expected {first} or {last}"),
        several => format!("expected {}, or {last}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, shorten_expected};

    #[test]
    fn many_operators_are_told_as_one_word() {
        for (label, shorter) in [
            ("expected `{`", "expected `{`"),
            ("expected `)` or `,`", "expected `)` or `,`"),
            (
                "expected `!=`, `)`, `,`, `:`, `<`, `<=`, `==`, `>`, `>=`, `in`, or `is`",
                "expected an operator, `)`, `,`, or `:`",
            ),
            (
                "expected `!=`, `<`, `==`, `>`, or `)`",
                "expected an operator or `)`",
            ),
            (
                "expected `!=`, `<`, `==`, or `)`",
                "expected `!=`, `<`, `==`, or `)`",
            ),
            (
                "expected `!=`, `&&`, `<`, `==`, `||`, or `}`",
                "expected an operator or `}`",
            ),
            ("not what is expected", "not what is expected"),
        ] {
            assert_eq!(shorten_expected(label), shorter);
        }
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = Source {
            name: "a.cedar",
            text: "ab\ncé d\n",
        };
        let problem = source.at(7..8, "bad");
        assert_eq!((problem.line, problem.column), (Some(2), Some(4)));
        assert_eq!(problem.to_string(), "a.cedar:2:4: bad");
        assert_eq!(source.at(999..1000, "end").line, Some(3));
    }
}
