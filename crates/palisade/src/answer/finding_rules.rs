//! What an operator says of findings: what becomes of a cell, by how bad they are, and which of them are no news where they are.

use crate::{
    answer::{Detector, ScanPlan, Severity},
    catalog::Catalog,
};

/// What becomes of a cell in which a detector finds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Action {
    /// It stays; the finding says where it is.
    #[default]
    Flag,
    /// Of a text, `[redacted: detector]` stands for what is found: from the beginning of its sentence to the end of the paragraph. What
    /// is no text is replaced as a whole.
    Redact,
    /// It becomes null and a notice says so.
    Withhold,
    /// The whole answer is refused.
    Block,
}

/// What becomes of a cell, by the severity of what a detector finds in it. Of several findings the strictest action counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeverityActions {
    /// Of findings that are at times innocent.
    pub low: Action,
    /// Of findings that are innocent in texts about such things.
    pub medium: Action,
    /// Of findings that are hardly ever innocent.
    pub high: Action,
}

impl From<Action> for SeverityActions {
    fn from(action: Action) -> Self {
        Self {
            low: action,
            medium: action,
            high: action,
        }
    }
}

impl SeverityActions {
    /// What becomes of what has this severity.
    #[must_use]
    pub fn choose(self, severity: Severity) -> Action {
        match severity {
            Severity::Low => self.low,
            Severity::Medium => self.medium,
            Severity::High => self.high,
        }
    }

    /// What becomes of a cell in which all of these find something.
    pub(in crate::answer) fn choose_strictest(self, found: &[&'static Detector]) -> Action {
        let actions = found.iter().map(|detector| self.choose(detector.severity));
        actions.max().unwrap_or_default()
    }
}

/// Columns in whose cells an operator expects findings, as a table of mails holds mails about passwords. Such findings are counted, and
/// nothing else becomes of them. What is computed of such a column is searched as ever, and so are names of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFindings {
    column: [Pattern; 3],
    detectors: Vec<Pattern>,
}

/// Why a rule of expected findings is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpectedFindingsError {
    /// A column is not written as a schema, a table and a column.
    #[error("`{0}` is no column; write `SCHEMA.TABLE.COLUMN`, each of which may hold `*`")]
    Column(String),
    /// It would expect everything.
    #[error("it expects findings of every detector, or of none; name detectors, as `leak.*`")]
    Detectors,
}

impl ExpectedFindings {
    /// Findings of `detectors` in the column that `column` names, as `main.mails.body`. Each part of it may hold `*` for any characters,
    /// and so may the names of detectors. Letters are compared in any case.
    ///
    /// # Errors
    /// A column that is not three parts; no detectors, or all of them at once.
    pub fn new<T: AsRef<str>>(
        column: &str,
        detectors: &[T],
    ) -> Result<Self, ExpectedFindingsError> {
        let parts: Vec<Pattern> = column.split('.').map(Pattern::read).collect();
        let parts: [Pattern; 3] = parts
            .try_into()
            .map_err(|_| ExpectedFindingsError::Column(column.to_owned()))?;
        if parts.iter().any(Pattern::is_empty) {
            return Err(ExpectedFindingsError::Column(column.to_owned()));
        }
        let detectors: Vec<Pattern> = detectors
            .iter()
            .map(|name| Pattern::read(name.as_ref()))
            .collect();
        if detectors.is_empty() || detectors.iter().any(Pattern::names_nothing) {
            return Err(ExpectedFindingsError::Detectors);
        }
        Ok(Self {
            column: parts,
            detectors,
        })
    }

    /// Its column as it was named, in lower case.
    #[must_use]
    pub fn name_column(&self) -> String {
        let [schema, table, column] = &self.column;
        format!("{}.{}.{}", schema.text, table.text, column.text)
    }

    /// Whether `catalog` has a column that it names. Where it has none, the rule has no effect there.
    #[must_use]
    pub fn has_column_in(&self, catalog: &Catalog) -> bool {
        let [schema, table, column] = &self.column;
        let mut relations = catalog
            .relations()
            .iter()
            .filter(|relation| schema.fits(&relation.schema) && table.fits(&relation.name));
        relations.any(|relation| relation.columns.iter().any(|one| column.fits(&one.name)))
    }

    /// Whether any of its names of detectors fits none of `known`, and which.
    #[must_use]
    pub fn find_unknown<'k>(
        &self,
        mut known: impl Iterator<Item = &'k str> + Clone,
    ) -> Option<&str> {
        let fits_none = |pattern: &&Pattern| !known.by_ref().clone().any(|name| pattern.fits(name));
        let unknown = self.detectors.iter().find(fits_none);
        unknown.map(|pattern| pattern.text.as_str())
    }
}

/// What is expected in each column of one answer.
#[derive(Debug, Clone, Default)]
pub struct ExpectedByColumn {
    columns: Vec<Vec<ExpectedFindings>>,
}

impl ExpectedByColumn {
    /// Of `rules`, those of each column of an answer. A column counts that is one of a table or view, unchanged.
    pub(crate) fn find(rules: &[ExpectedFindings], plan: &ScanPlan, catalog: &Catalog) -> Self {
        if rules.is_empty() {
            return Self::default();
        }
        let columns = plan.identities.iter().map(|identity| {
            let named = identity.and_then(|id| {
                let relation = catalog.relation(id.relation)?;
                Some((relation, relation.column(id.index)?))
            });
            let Some((relation, column)) = named else {
                return Vec::new();
            };
            let names = [&*relation.schema, &*relation.name, &*column.name];
            let fits = |rule: &&ExpectedFindings| {
                let mut parts = rule.column.iter().zip(names);
                parts.all(|(pattern, name)| pattern.fits(name))
            };
            rules.iter().filter(fits).cloned().collect()
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// Whether `detector` is expected in cells of this column.
    pub(in crate::answer) fn has(&self, column: usize, detector: &Detector) -> bool {
        let rules = self.columns.get(column);
        let mut rules = rules.into_iter().flatten();
        rules.any(|rule| rule.detectors.iter().any(|name| name.fits(detector.id)))
    }
}

/// A name in which `*` stands for any characters, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: String,
}

impl Pattern {
    fn read(text: &str) -> Self {
        Self {
            text: text.to_lowercase(),
        }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn names_nothing(&self) -> bool {
        !self.text.contains(char::is_alphanumeric)
    }

    /// Whether it is `name`, in time that is linear in both for each `*`.
    fn fits(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut parts = self.text.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, fitting, other) in [
            ("body", &["body", "BODY"][..], &["body2", "xbody", ""][..]),
            ("*", &["", "body"], &[]),
            ("b*y", &["by", "body", "b-y-y"], &["b", "bod", "ay"]),
            ("*_text", &["_text", "mail_text"], &["mail_texts", "text"]),
            ("leak.*", &["leak.card"], &["leak", "xleak.card"]),
            ("a*b*c", &["abc", "a-b-b-c"], &["ac", "acb", "ab"]),
            ("aba*aba", &["abaaba", "abaxaba"], &["aba", "ababa"]),
        ] {
            let pattern = Pattern::read(pattern);
            for name in fitting {
                assert!(pattern.fits(name), "{pattern:?} {name}");
            }
            for name in other {
                assert!(!pattern.fits(name), "{pattern:?} {name}");
            }
        }
    }

    #[test]
    fn a_rule_names_one_column_and_some_detectors() {
        for column in ["body", "mails.body", "a.b.c.d", "main..body", ""] {
            let error = ExpectedFindings::new(column, &["leak.*"]).unwrap_err();
            assert_eq!(error, ExpectedFindingsError::Column(column.to_owned()));
        }
        for detectors in [&[][..], &["*"], &["leak.card", "**"], &["*.*"], &[""]] {
            let error = ExpectedFindings::new("main.mails.body", detectors).unwrap_err();
            assert_eq!(error, ExpectedFindingsError::Detectors);
        }
        let rule = ExpectedFindings::new("main.*.body", &["leak.*", "score.likly"]).unwrap();
        let known = ["leak.card", "score.likely"].into_iter();
        assert_eq!(rule.find_unknown(known), Some("score.likly"));
    }
}
