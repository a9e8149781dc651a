//! What is told of a statement that undoes a change, and is refused or fails.

use crate::{code::Code, guard::BackendErrorKind, rejection::Rejection};

/// A refusal of a statement that undoes a change, as whoever undoes it may know of it.
pub(super) fn hide_refusal(rejection: Rejection) -> Rejection {
    let says_nothing_of_it = [Code::Internal, Code::LimitBudget, Code::LimitBusy];
    if says_nothing_of_it.contains(&rejection.code()) {
        return rejection;
    }
    Rejection::new(
        Code::ChangeNotCompensable,
        "policy does not permit you to set back all that it changed",
    )
}

/// A failure of a statement that undoes a change: what the engine refuses is how things are now.
pub(super) fn hide_failure(rejection: Rejection, kind: BackendErrorKind) -> Rejection {
    match kind {
        BackendErrorKind::Rejected
        | BackendErrorKind::NameNotFound
        | BackendErrorKind::Constraint
        | BackendErrorKind::NotAdmitted
        | BackendErrorKind::Forbidden => Rejection::new(
            Code::ChangeConflict,
            "the change cannot be undone as things are now: the database or a policy does not take its rows as they were; nor does a database take unique values one by one that rows have exchanged",
        ),
        BackendErrorKind::Timeout
        | BackendErrorKind::Cancelled
        | BackendErrorKind::Resource
        | BackendErrorKind::NotGranted
        | BackendErrorKind::SecondLock
        | BackendErrorKind::Conflict
        | BackendErrorKind::Locked
        | BackendErrorKind::Cost
        | BackendErrorKind::AffectedRows
        | BackendErrorKind::NotPreviewable
        | BackendErrorKind::ReadOnly
        | BackendErrorKind::NotTaken
        | BackendErrorKind::Busy
        | BackendErrorKind::SchemaChanged
        | BackendErrorKind::NoMoment
        | BackendErrorKind::Unavailable
        | BackendErrorKind::OutcomeUnknown => rejection,
    }
}
