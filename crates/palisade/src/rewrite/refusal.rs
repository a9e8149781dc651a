//! Refusals of statements that did not become what was decided: faults of ours, which the agent sees as `internal`.

use crate::{code::Code, rejection::Rejection};

pub(in crate::rewrite) use crate::resolve::not_as_decided;

/// The refusal of a text of ours that does not resolve. `limit.work` stays what it is: what we add to a statement counts as work on it.
pub(in crate::rewrite) fn refuse_unresolved(inner: Rejection) -> Rejection {
    match inner.code() {
        Code::LimitWork => inner,
        _ => not_as_decided(&inner.to_string()),
    }
}
