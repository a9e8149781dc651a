//! What a backend holds against the engine's estimates of a statement, before it runs.

use crate::{
    guard::backend_error::BackendError,
    limits::{Estimate, EstimateCaps},
    rewrite::RewrittenStatement,
};

/// What a statement demands of the engine's estimates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimates<'a> {
    /// What they may say at most.
    pub caps: Option<EstimateCaps>,
    /// The statement, if policies are to be asked once more with them.
    pub awaiting: Option<&'a RewrittenStatement>,
}

impl<'a> Estimates<'a> {
    /// What `statement` demands.
    #[must_use]
    pub fn from_statement(statement: &'a RewrittenStatement) -> Self {
        Self {
            caps: statement.estimate_caps(),
            awaiting: statement.awaits_estimate().then_some(statement),
        }
    }

    /// Whether the engine is to be asked for them.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.caps.is_some() || self.awaiting.is_some()
    }

    /// Refuses what is more than the caps, or what policies forbid then. To be asked in the transaction in which the
    /// statement would run.
    ///
    /// # Errors
    /// `Cost`, or `Forbidden`.
    pub fn admit(&self, estimate: Estimate) -> Result<(), BackendError> {
        if let Some(caps) = self.caps {
            BackendError::unless_within(caps, estimate)?;
        }
        match self.awaiting {
            Some(statement) => BackendError::unless_admitted(statement, estimate),
            None => Ok(()),
        }
    }
}
