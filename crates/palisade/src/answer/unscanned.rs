//! The same names without the feature `scan`: nothing is searched or spelled out.
//!
//! A gate then takes no actions on findings, which would have no effect:
//!
//! ```compile_fail,E0599
//! fn block(guard: palisade::Guard) {
//!     guard.with_finding_actions(palisade::answer::Action::Block);
//! }
//! ```

use std::{borrow::Cow, ops::Range};

use serde::{Serialize, Serializer};

/// How sure a finding is, and how bad. As in `palisade-scan`.
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

/// A kind of text that data should not hold. Without the feature `scan` there is none.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detector {
    /// The stable name on the wire, `category.kind`.
    pub id: &'static str,
    /// What it finds, in one sentence.
    pub finds: &'static str,
    /// How sure and how bad.
    pub severity: Severity,
}

impl Serialize for Detector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

/// How much is reported. As in `palisade-scan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sensitivity {
    /// Everything that a detector finds, and passages that may be instructions.
    Strict,
    /// What the score makes likely: patterns and wording together.
    #[default]
    Balanced,
    /// What the score makes certain.
    Quiet,
}

/// Finds nothing. As in `palisade-scan`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scanner;

impl Scanner {
    /// A scanner, whatever its sensitivity.
    #[must_use]
    pub fn with_sensitivity(_sensitivity: Sensitivity) -> Self {
        Self
    }

    /// Nothing.
    #[must_use]
    pub fn detect(self, _text: &[u8]) -> Vec<&'static Detector> {
        Vec::new()
    }
}

/// No detector finds anything.
pub(crate) fn detect(_text: &[u8], _sensitivity: Sensitivity) -> Vec<&'static Detector> {
    Vec::new()
}

/// The text as it is.
pub(crate) fn spell_out(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// Nothing is found anywhere.
pub(crate) fn locate(_text: &str, _scanner: Scanner) -> Vec<(&'static Detector, Range<usize>)> {
    Vec::new()
}
