//! Whether a statement may change anything.

/// Whether a statement may change anything at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// A policy permits somebody to change something.
    Permitted,
    /// Only queries are taken here.
    NotHere,
    /// No policy permits anybody to change anything.
    Unpermitted,
}
