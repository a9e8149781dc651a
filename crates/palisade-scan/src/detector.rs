//! What a detector is.

use serde::{Serialize, Serializer};

use crate::detectors::registry::DETECTORS;

/// How sure a finding is, and how bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Unusual in data, at times innocent.
    Low,
    /// Addresses a model or hides text; innocent in texts about such things.
    Medium,
    /// Hardly ever innocent.
    High,
}

/// How much is reported: what is missed beside how often honest text is flagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sensitivity {
    /// Everything that a detector finds, and passages that may be instructions.
    Strict,
    /// What patterns find, some of them only with the score, and elsewhere what the score makes likely.
    #[default]
    Balanced,
    /// What the score makes certain.
    Quiet,
}

/// A kind of text that data should not hold: an entry of the registry.
#[derive(Debug)]
pub struct Detector {
    /// The stable name on the wire, `category.kind`.
    pub id: &'static str,
    /// What it finds, in one sentence.
    pub finds: &'static str,
    /// How sure and how bad.
    pub severity: Severity,
    /// Lower-case words; every match of a pattern has at least one of them. Empty for a detector that goes by how text is
    /// hidden, and not by what it says.
    pub(crate) anchors: &'static [&'static str],
    /// Regular expressions without Unicode classes, case-insensitive, any of which is a finding.
    pub(crate) patterns: &'static [&'static str],
    /// Texts it finds.
    pub positives: &'static [&'static str],
    /// Texts like those that it must pass.
    pub negatives: &'static [&'static str],
}

impl Detector {
    /// Every detector.
    pub const ALL: &'static [Self] = DETECTORS;

    /// What kind of attack it finds: the part of its id before the dot, such as `instruction` or `hidden`.
    #[must_use]
    pub fn category(&self) -> &'static str {
        self.id
            .split_once('.')
            .map_or(self.id, |(category, _)| category)
    }

    /// Whether it finds a value that an answer should not hold, such as a key, and no text that would instruct. The score and the
    /// sensitivity say nothing about those.
    #[must_use]
    pub fn is_leak(&self) -> bool {
        self.category() == "leak"
    }

    /// Whether it is believed only with the score, unless [`Sensitivity::Strict`] asks for everything: role-play, requests for an
    /// answer of some form, and orders to use a tool are in honest texts too.
    #[must_use]
    pub fn needs_support(&self) -> bool {
        matches!(
            self.category(),
            "role" | "output" | "tool" | "authority" | "delimiter"
        )
    }
}

impl PartialEq for Detector {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Detector {}

impl Serialize for Detector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}
