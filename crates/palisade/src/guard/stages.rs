//! How long each stage of a request took, by the host's clock.

use std::time::Duration;

/// A part of what the gate does for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateStage {
    /// Reads the statement and decides about it: from the text to the text that runs. A schema that is out of date is read anew.
    Decide,
    /// Looks for a person's approval.
    Approve,
    /// Runs it, and scans the rows as they come.
    Run,
    /// Records it.
    Record,
}

impl GateStage {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Approve => "approve",
            Self::Run => "run",
            Self::Record => "record",
        }
    }
}

/// The time of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// Which.
    pub stage: GateStage,
    /// Since the request began.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}
