//! `[scan]`: what an operator looks for in answers beside the detectors.

use std::ops::Range;

use palisade::{
    answer::{Action, ExpectedFindings, Severity, SeverityActions},
    catalog::Catalog,
    did_you_mean,
};
use palisade_scan::{Detector, Rule, Rules};
use serde::Deserialize;
use toml::Spanned;

use crate::config::OnFinding;

/// `[scan]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scan {
    /// What is looked for, at most 200 rules.
    #[serde(default)]
    rules: Vec<ScanRule>,
    /// Columns in whose cells findings are no news.
    #[serde(default)]
    expected: Vec<ScanExpected>,
    /// What becomes of a cell in which only findings of low severity are. Without it, and at a connection with an `on_finding` of its own, as `on_finding`.
    on_low: Option<OnFinding>,
    /// The same of medium severity.
    on_medium: Option<OnFinding>,
    /// The same of high severity. Of several findings in a cell the strictest action counts.
    on_high: Option<OnFinding>,
}

/// `[[scan.expected]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScanExpected {
    /// The columns, as `SCHEMA.TABLE.COLUMN`; each part may hold `*` for any characters.
    columns: Vec<Spanned<String>>,
    /// Ids of the detectors whose findings are expected there, in which `*` may stand for any characters, as `leak.*`.
    detectors: Vec<Spanned<String>>,
    /// The connection of these columns. Without it, every connection.
    connection: Option<Spanned<String>>,
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

/// `[scan]` as it is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scanning {
    /// What is looked for beside the detectors, if anything is.
    pub(crate) rules: Option<&'static Rules>,
    expected: Vec<Expected>,
    low: Option<Action>,
    medium: Option<Action>,
    high: Option<Action>,
}

/// Findings that are no news.
#[derive(Debug, Clone)]
struct Expected {
    /// The connection whose answers they are in; of every one without it.
    connection: Option<String>,
    /// Whether it is for a single connection, named or the only one. Its columns have to be there, then.
    is_for_one: bool,
    findings: ExpectedFindings,
}

impl Scanning {
    /// What becomes of cells where the configuration says nothing of a severity but `on_finding`.
    pub(crate) fn actions(&self, on_finding: Action) -> SeverityActions {
        SeverityActions {
            low: self.low.unwrap_or(on_finding),
            medium: self.medium.unwrap_or(on_finding),
            high: self.high.unwrap_or(on_finding),
        }
    }

    /// The same where `on_finding` of a connection says what becomes of every finding.
    pub(crate) fn without_severities(self) -> Self {
        Self {
            low: None,
            medium: None,
            high: None,
            ..self
        }
    }

    /// What is no news in answers of this connection.
    pub(crate) fn list_expected(&self, connection: Option<&str>) -> Vec<ExpectedFindings> {
        let of_it = self.list_expected_of(connection);
        of_it.map(|one| one.findings.clone()).collect()
    }

    /// What has no effect because `catalog`, which is of this connection, lacks the column, each as a sentence.
    pub(crate) fn list_without_column(
        &self,
        connection: Option<&str>,
        catalog: &Catalog,
    ) -> Vec<String> {
        let absent = self
            .list_expected_of(connection)
            .filter(|one| one.is_for_one && !one.findings.has_column_in(catalog));
        let mut names: Vec<String> = absent.map(|one| one.findings.name_column()).collect();
        names.dedup();
        let columns: Vec<String> = if names.is_empty() {
            Vec::new()
        } else {
            list_columns(catalog)
        };
        let told = names.iter().map(|name| {
            let known = columns.iter().map(String::as_str);
            let meant = did_you_mean::closest(name, known)
                .map_or_else(String::new, |close| format!("; did you mean `{close}`?"));
            format!(
                "`[[scan.expected]]` names `{name}`, and the database has no such column{meant}"
            )
        });
        told.collect()
    }

    fn list_expected_of(&self, connection: Option<&str>) -> impl Iterator<Item = &Expected> {
        self.expected
            .iter()
            .filter(move |one| match &one.connection {
                None => true,
                Some(named) => connection == Some(named.as_str()),
            })
    }
}

/// What is wrong with `[scan]`, where it stands, and what helps.
type ScanFault = (String, Option<Range<usize>>, String);

impl Scan {
    /// The same ready to search with. `connections` are those that there are.
    ///
    /// # Errors
    /// What is wrong with it, and where that stands.
    pub(crate) fn check<'c>(
        self,
        connections: impl Iterator<Item = &'c str>,
    ) -> Result<Scanning, ScanFault> {
        let connections: Vec<&str> = connections.collect();
        let operators: Vec<String> = (self.rules.iter())
            .map(|rule| format!("operator.{}", rule.name.get_ref()))
            .collect();
        let ids = Detector::ALL.iter().map(|detector| detector.id);
        let known: Vec<&str> = ids.chain(operators.iter().map(String::as_str)).collect();
        let mut expected = Vec::new();
        for one in self.expected {
            let connection = one
                .connection
                .map(|name| check_connection(name, &connections));
            let connection = connection.transpose()?;
            let detectors: Vec<&str> = (one.detectors.iter())
                .map(|name| name.get_ref().as_str())
                .collect();
            if one.columns.is_empty() {
                let at = one.detectors.first().map(Spanned::span);
                let what = "a table of `[[scan.expected]]` names no column".to_owned();
                return Err((
                    what,
                    at,
                    "write `columns = [\"main.mails.body\"]`".to_owned(),
                ));
            }
            for column in &one.columns {
                let rule = ExpectedFindings::new(column.get_ref(), &detectors).map_err(|error| {
                    let help = "a table of `[[scan.expected]]` has `columns = [\"main.mails.body\"]` and `detectors = [\"leak.*\"]`";
                    (error.to_string(), Some(column.span()), help.to_owned())
                })?;
                if let Some(unknown) = rule.find_unknown(known.iter().copied()) {
                    let at = (one.detectors.iter())
                        .find(|name| name.get_ref().eq_ignore_ascii_case(unknown));
                    let help = match did_you_mean::closest(unknown, known.iter().copied()) {
                        Some(close) => format!("did you mean `{close}`?"),
                        None => "the manual's page of detectors lists them".to_owned(),
                    };
                    let what = format!("there is no detector `{unknown}`");
                    return Err((what, at.map(Spanned::span), help));
                }
                expected.push(Expected {
                    is_for_one: connection.is_some() || connections.len() == 1,
                    connection: connection.clone(),
                    findings: rule,
                });
            }
        }
        Ok(Scanning {
            rules: check_rules(self.rules)?,
            expected,
            low: self.on_low.map(Action::from),
            medium: self.on_medium.map(Action::from),
            high: self.on_high.map(Action::from),
        })
    }
}

/// All columns, as the configuration names them.
fn list_columns(catalog: &Catalog) -> Vec<String> {
    let columns = catalog.relations().iter().flat_map(|relation| {
        let columns = relation.columns.iter();
        columns.map(|column| format!("{}.{}.{}", relation.schema, relation.name, column.name))
    });
    columns.collect()
}

fn check_connection(name: Spanned<String>, connections: &[&str]) -> Result<String, ScanFault> {
    if connections.contains(&name.get_ref().as_str()) {
        return Ok(name.into_inner());
    }
    let help = match did_you_mean::closest(name.get_ref(), connections.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None => "name one of `[connections]`".to_owned(),
    };
    let what = format!("there is no connection `{}`", name.get_ref());
    Err((what, Some(name.span()), help))
}

/// The rules ready to search with; none if there are none.
fn check_rules(rules: Vec<ScanRule>) -> Result<Option<&'static Rules>, ScanFault> {
    if rules.is_empty() {
        return Ok(None);
    }
    let mut spans = Vec::new();
    let rules: Vec<Rule> = rules
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
            let help = "`[[scan.rules]]` has a name, and `literals`, a `pattern` or both; the manual's page on scanning shows one";
            Err((
                error.to_string(),
                span.map(|(_, span)| span),
                help.to_owned(),
            ))
        }
    }
}
