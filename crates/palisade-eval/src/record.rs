//! What became of one row.

use palisade::dialect::Dialect;
use serde::Serialize;

use crate::args::Part;

/// One row of the data and the verdict on the firewall's verdict.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The part it belongs to.
    pub(crate) part: Part,
    /// Its engine; texts have none.
    pub(crate) engine: Option<Dialect>,
    /// The family, tier, kind, or what must become of it.
    pub(crate) family: String,
    /// What it is within the family.
    pub(crate) category: String,
    /// Its id in the data.
    pub(crate) id: String,
    /// The statement or text.
    pub(crate) text: String,
    /// Whether the firewall was right.
    pub(crate) judgement: Judgement,
    /// The rows beside those of the bare engine.
    pub(crate) rows: Rows,
    /// The code of the refusal, if it was refused.
    pub(crate) code: Option<&'static str>,
    /// Why it is as it is: the refusal's message, a difference, a leak.
    pub(crate) message: String,
}

/// Whether the firewall was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judgement {
    /// As it should be.
    Right,
    /// Not as it should be.
    Wrong,
    /// It could not be tried; the message says why.
    NotRun,
}

/// The rows of the rewritten statement beside those of the original on the bare driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rows {
    /// The same, column names included.
    Equal,
    /// Not the same, or only one of them ran.
    Differ,
    /// Refused, volatile, or not run.
    NotCompared,
}

impl Record {
    /// Whether it belongs on the list of disagreements.
    pub(crate) fn is_disagreement(&self) -> bool {
        self.judgement != Judgement::Right || self.rows == Rows::Differ
    }
}
