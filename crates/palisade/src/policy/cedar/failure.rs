//! A question to Cedar that has no answer.

use crate::{code::Code, rejection::Rejection};

/// A question without an answer: nothing is permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Failure {
    /// What Cedar says, for the operator.
    pub(in crate::policy) detail: String,
    /// The policies that failed, sorted.
    pub(in crate::policy) policies: Vec<String>,
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        let code = Code::PolicyEvaluationFailed;
        Self::new(code, code.summary())
            .with_operator_detail(failure.detail)
            .with_policies(failure.policies)
    }
}

impl Failure {
    pub(in crate::policy) fn new(detail: impl ToString) -> Self {
        Self {
            detail: detail.to_string(),
            policies: Vec::new(),
        }
    }
}
