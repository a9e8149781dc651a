//! Refusals of statements that did not become what was decided: faults of ours, which the agent sees as `internal`.

use crate::{code::Code, rejection::Rejection};

/// The fault that `detail` tells the operator.
pub(in crate::rewrite) fn not_as_decided(detail: &str) -> Rejection {
    Rejection::new(Code::Internal, "the rewritten statement is not as decided")
        .with_operator_detail(detail)
}

/// The refusal of a text of ours that does not resolve. `limit.work` stays what it is: what we add to a statement counts as work on it.
pub(in crate::rewrite) fn refuse_unresolved(inner: Rejection) -> Rejection {
    match inner.code() {
        Code::LimitWork => inner,
        _ => not_as_decided(&inner.to_string()),
    }
}
