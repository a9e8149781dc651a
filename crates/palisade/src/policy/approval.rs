//! Approvals that permits demand of a person.

/// Whose approval is demanded. The later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalLevel {
    /// A person's; the agent's own client may ask for it.
    Required,
    /// An operator's, who shows it by what the agent's side does not hold.
    Operator,
}

impl ApprovalLevel {
    /// How a policy writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Operator => "operator",
        }
    }

    /// The level that is written so.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "required" => Some(Self::Required),
            "operator" => Some(Self::Operator),
            _ => None,
        }
    }
}

/// An approval that is demanded before a statement runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDemand {
    /// The strictest of the demanding policies.
    pub level: ApprovalLevel,
    /// Ids of the demanding policies, sorted.
    pub policies: Vec<String>,
    /// The part that policies of reading and calling demand.
    pub of_reading: Option<ReadingDemand>,
}

/// An approval that is demanded of what a statement reads and calls, templates included. Not even a run that is taken back may come
/// before it: what that shows, and whether it fails, tells what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingDemand {
    /// The strictest of the demanding policies.
    pub level: ApprovalLevel,
    /// Ids of the demanding policies, sorted.
    pub policies: Vec<String>,
}
