//! After the database: rows become an answer, within their budgets, searched for text that would instruct a model.
//!
//! `palisade-scan` searches, by the feature `scan`, which is on unless an embedder turns it off. Without the feature nothing
//! searches or spells out: answers have no findings, [`Action`] has no effect, and a `Guard` takes none. Budgets, tokens and marks
//! are the same.

#[cfg(feature = "scan")]
mod scanned;
#[cfg(not(feature = "scan"))]
mod unscanned;

mod cell;
pub mod envelope;
mod finding_rules;
mod line;
mod marker;
mod masked_use;
mod model_tokens;
mod quoted_text;
mod redact;
mod room;
mod row;
pub mod scan_session;
#[cfg(all(test, feature = "scan"))]
mod scan_session_tests;
mod split;
mod table;

pub use cell::Cell;
pub use envelope::{AsOf, CONTENT_POLICY, Envelope, ModelEnvelope};
pub use finding_rules::{
    Action, ExpectedByColumn, ExpectedFindings, ExpectedFindingsError, SeverityActions,
};
pub use marker::Marker;
pub(crate) use masked_use::{MaskedUse, Replacement, is_told};
pub(crate) use quoted_text::QuotedText;
pub use room::{Form, Room};
pub use row::ScannedRow;
pub use scan_session::{EmptyReason, Finding, Notice, ScanSession, ScannedRows, TruncationReason};
#[cfg(feature = "scan")]
pub use scanned::{Detector, Scanner, Sensitivity, Severity};
#[cfg(feature = "scan")]
pub(crate) use scanned::{detect, locate, spell_out};
#[cfg(not(feature = "scan"))]
pub use unscanned::{Detector, Scanner, Sensitivity, Severity};
#[cfg(not(feature = "scan"))]
pub(crate) use unscanned::{detect, locate, spell_out};

use std::sync::Arc;

use crate::{catalog::ColumnId, token::TokenKeys};

/// How an answer must be scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPlan {
    /// The columns the answer must have, in order.
    pub(crate) columns: Vec<OutputColumn>,
    /// Rows that may leave; one more is fetched to know of truncation.
    pub(crate) max_rows: u64,
    /// Who says how many, and what becomes of more.
    pub(crate) row_bound: RowBound,
    /// Bytes of all cells that may leave.
    pub(crate) max_result_bytes: usize,
    /// Bytes of one cell.
    pub(crate) max_cell_bytes: usize,
    /// What an answer without rows says: it follows from the row filters that policy put on relations below,
    /// and never from what they took.
    pub(crate) if_empty: EmptyReason,
    /// The masked columns that the statement used: a notice for each.
    pub(crate) masked_uses: Vec<MaskedUse>,
    /// Words in double quotes that name no column, and were read as texts: a notice for each.
    pub(crate) quoted_texts: Vec<QuotedText>,
    /// For each column, the one of a table or view that it is unchanged, if it is one.
    pub(crate) identities: Vec<Option<ColumnId>>,
    /// For each column that is one of tokens, its position and their keys.
    pub(crate) tokens: Vec<(usize, Arc<TokenKeys>)>,
}

/// Who says how many rows an answer may have, and what becomes of more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowBound {
    /// Whoever asks, or the configuration. More are cut off.
    Limit,
    /// Policy, so that a higher limit would give no more. More are cut off.
    Policy,
    /// Policy, and an answer with more is refused.
    PolicyOrRefusal,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OutputColumn {
    /// The name the engine gives it.
    pub name: Arc<str>,
    /// The declared type of the base column it is by identity, or what a mask makes of it; `token` where tokens stand for its
    /// values. Of an answer, what the engine tells of a column that is computed; empty where it tells nothing.
    #[serde(rename = "type")]
    pub type_name: Arc<str>,
    /// Whether a mask stands before any of the columns it comes from.
    pub masked: bool,
}

impl ScanPlan {
    /// What the reader of an answer is told of the statement, whatever comes back: masked columns that it used, and names that
    /// were read as texts. It follows from policy and schema alone.
    #[must_use]
    pub fn statement_notices(&self) -> Vec<Notice> {
        let masked = self.masked_uses.iter().map(MaskedUse::notice);
        let quoted = self.quoted_texts.iter().map(QuotedText::notice);
        masked.chain(quoted).collect()
    }
}
