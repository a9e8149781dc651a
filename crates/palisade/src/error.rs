//! Faults that are not the agent's.

use crate::policy::PolicyErrors;

/// The operator's fault or ours. The agent sees an opaque incident id.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The policies, entities or classification do not load.
    #[error("the policies do not load:\n{0}")]
    Policies(#[from] PolicyErrors),
    /// An invariant of the firewall did not hold; nothing was run.
    #[error("{0}")]
    Internal(String),
}
