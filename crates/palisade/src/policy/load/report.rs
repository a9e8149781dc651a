//! What loading has found so far.

use crate::policy::load::diagnostic::{PolicyErrors, PolicyProblem};

/// What is wrong with the sources, and what is only odd about them.
#[derive(Default)]
pub(super) struct LoadReport {
    pub(super) problems: Vec<PolicyProblem>,
    pub(super) warnings: Vec<PolicyProblem>,
}

impl LoadReport {
    /// The value of a stage up to which nothing is wrong.
    ///
    /// # Errors
    /// With every problem so far.
    pub(super) fn require<T>(&mut self, value: Option<T>) -> Result<T, PolicyErrors> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            Some(_) | None => Err(PolicyErrors::new(std::mem::take(&mut self.problems))),
        }
    }
}
