//! `[scan]`: what an operator looks for in answers beside the detectors.

use std::ops::Range;

use palisade::answer::Severity;
use palisade_scan::{Rule, Rules};
use serde::Deserialize;
use toml::Spanned;

/// `[scan]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scan {
    /// What is looked for, at most 200 rules.
    #[serde(default)]
    rules: Vec<ScanRule>,
}

/// `[[scan.rules]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScanRule {
    /// Its name: lower-case letters, digits and `-`. Findings have it after `operator.`.
    name: Spanned<String>,
    /// How bad a finding is. Without it, `"medium"`.
    severity: Option<RuleSeverity>,
    /// Texts any of which is a finding, in any case, each of 3 to 256 bytes.
    #[serde(default)]
    literals: Vec<String>,
    /// A regular expression that is a finding, in the syntax of Rust's `regex`. What could cost too much is refused.
    pattern: Option<String>,
}

/// [`Severity`] as it is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RuleSeverity {
    Low,
    Medium,
    High,
}

impl Scan {
    /// The rules ready to search with; none if there are none.
    ///
    /// # Errors
    /// What is wrong with one, and where its name stands.
    pub(crate) fn check(self) -> Result<Option<&'static Rules>, (String, Option<Range<usize>>)> {
        if self.rules.is_empty() {
            return Ok(None);
        }
        let mut spans = Vec::new();
        let rules: Vec<Rule> = self
            .rules
            .into_iter()
            .map(|rule| {
                let ScanRule {
                    name,
                    severity,
                    literals,
                    pattern,
                } = rule;
                spans.push((name.get_ref().clone(), name.span()));
                Rule {
                    name: name.into_inner(),
                    severity: match severity {
                        Some(RuleSeverity::Low) => Severity::Low,
                        Some(RuleSeverity::Medium) | None => Severity::Medium,
                        Some(RuleSeverity::High) => Severity::High,
                    },
                    literals,
                    pattern,
                }
            })
            .collect();
        match Rules::new(&rules) {
            Ok(rules) => Ok(Some(rules.keep())),
            Err(error) => {
                // Of a name that is there twice, the second.
                let named = spans.into_iter().rev();
                let span = named.into_iter().find(|(name, _)| *name == error.rule);
                Err((error.to_string(), span.map(|(_, span)| span)))
            }
        }
    }
}
