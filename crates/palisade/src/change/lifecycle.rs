//! The life of a change: which step may follow which, as a table.

use serde::{Serialize, Serializer};

/// Where a change stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeState {
    /// It was decided about, and not run.
    Proposed,
    /// It was run and taken back, so that it is known what it does.
    Validated,
    /// Somebody else approved what it does.
    Approved,
    /// Somebody did not.
    Rejected,
    /// It is being kept. After a crash the outcome is unknown.
    Committing,
    /// It is kept.
    Committed,
    /// The database refused it when it was to be kept.
    Failed,
    /// It waited too long.
    Expired,
    /// It was kept, and another change undid it.
    Compensated,
}

impl ChangeState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Proposed,
        Self::Validated,
        Self::Approved,
        Self::Rejected,
        Self::Committing,
        Self::Committed,
        Self::Failed,
        Self::Expired,
        Self::Compensated,
    ];

    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Validated => "validated",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Committing => "committing",
            Self::Committed => "committed",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Compensated => "compensated",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether it still waits for something, and so can expire.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        apply(self, ChangeEvent::Expire).is_ok()
    }
}

impl Serialize for ChangeState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// What happens to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeEvent {
    /// It was run and taken back.
    Validate,
    /// It is approved.
    Approve,
    /// It is rejected.
    Reject,
    /// It is about to be kept, where no policy demands an approval.
    BeginUnapproved,
    /// It is about to be kept, where one is demanded.
    BeginApproved,
    /// It was kept.
    Keep,
    /// It did something else than was looked at, and was taken back.
    Conflict,
    /// Whether it was kept was not known, and it was not: it is looked at again.
    Release,
    /// It could not be tried, and nothing was changed: the commit may be tried again.
    PutBack,
    /// The same, where it was approved.
    PutBackApproved,
    /// The database refused it.
    Fail,
    /// Its time is over.
    Expire,
    /// Another change that undoes it was kept.
    Compensate,
}

impl ChangeEvent {
    /// Every event.
    pub const ALL: [Self; 13] = [
        Self::Validate,
        Self::Approve,
        Self::Reject,
        Self::BeginUnapproved,
        Self::BeginApproved,
        Self::Keep,
        Self::Conflict,
        Self::Release,
        Self::PutBack,
        Self::PutBackApproved,
        Self::Fail,
        Self::Expire,
        Self::Compensate,
    ];

    /// Its participle, for a refusal: "cannot be …".
    #[must_use]
    pub fn participle(self) -> &'static str {
        match self {
            Self::Validate => "validated",
            Self::Approve => "approved",
            Self::Reject => "rejected",
            Self::BeginUnapproved | Self::BeginApproved | Self::Keep => "committed",
            Self::Conflict | Self::Release | Self::PutBack | Self::PutBackApproved => "taken back",
            Self::Fail => "failed",
            Self::Expire => "expired",
            Self::Compensate => "compensated",
        }
    }
}

/// The steps there are. What is not here cannot happen.
///
/// A second validation drops an approval, since it may have found something else. What began to be kept was approved for that one
/// attempt: whatever comes of it, the approval is used up, unless nothing could be tried.
pub const TRANSITIONS: &[(ChangeState, ChangeEvent, ChangeState)] = &[
    (
        ChangeState::Proposed,
        ChangeEvent::Validate,
        ChangeState::Validated,
    ),
    (
        ChangeState::Proposed,
        ChangeEvent::Reject,
        ChangeState::Rejected,
    ),
    (
        ChangeState::Proposed,
        ChangeEvent::Expire,
        ChangeState::Expired,
    ),
    (
        ChangeState::Validated,
        ChangeEvent::Validate,
        ChangeState::Validated,
    ),
    (
        ChangeState::Validated,
        ChangeEvent::Approve,
        ChangeState::Approved,
    ),
    (
        ChangeState::Validated,
        ChangeEvent::Reject,
        ChangeState::Rejected,
    ),
    (
        ChangeState::Validated,
        ChangeEvent::BeginUnapproved,
        ChangeState::Committing,
    ),
    (
        ChangeState::Validated,
        ChangeEvent::Expire,
        ChangeState::Expired,
    ),
    (
        ChangeState::Approved,
        ChangeEvent::Validate,
        ChangeState::Validated,
    ),
    (
        ChangeState::Approved,
        ChangeEvent::Reject,
        ChangeState::Rejected,
    ),
    (
        ChangeState::Approved,
        ChangeEvent::BeginApproved,
        ChangeState::Committing,
    ),
    (
        ChangeState::Approved,
        ChangeEvent::Expire,
        ChangeState::Expired,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::Keep,
        ChangeState::Committed,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::Conflict,
        ChangeState::Proposed,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::Release,
        ChangeState::Proposed,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::PutBack,
        ChangeState::Validated,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::PutBackApproved,
        ChangeState::Approved,
    ),
    (
        ChangeState::Committing,
        ChangeEvent::Fail,
        ChangeState::Failed,
    ),
    (
        ChangeState::Committed,
        ChangeEvent::Compensate,
        ChangeState::Compensated,
    ),
];

/// A step that is not in the table. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a change that is {} cannot be {}: {}", state.word(), event.participle(), self.describe_next())]
pub struct WrongState {
    /// Where the change stands.
    pub state: ChangeState,
    /// What was to happen.
    pub event: ChangeEvent,
}

impl WrongState {
    /// What comes next instead.
    fn describe_next(self) -> &'static str {
        match self.state {
            ChangeState::Proposed => "it has to be validated first",
            ChangeState::Validated => {
                "an approval comes next, where policy demands one, and then the commit"
            }
            ChangeState::Approved => match self.event {
                // Policy demands another approval by now, or none.
                ChangeEvent::BeginUnapproved | ChangeEvent::BeginApproved => {
                    "it has to be validated again"
                }
                ChangeEvent::Validate
                | ChangeEvent::Approve
                | ChangeEvent::Reject
                | ChangeEvent::Keep
                | ChangeEvent::Conflict
                | ChangeEvent::Release
                | ChangeEvent::PutBack
                | ChangeEvent::PutBackApproved
                | ChangeEvent::Fail
                | ChangeEvent::Expire
                | ChangeEvent::Compensate => "the commit comes next",
            },
            ChangeState::Committing => "whether it was kept is not known yet",
            ChangeState::Committed => "nothing follows but another change that undoes it",
            ChangeState::Rejected
            | ChangeState::Failed
            | ChangeState::Expired
            | ChangeState::Compensated => "nothing follows; another change can be proposed",
        }
    }
}

/// Where `event` takes a change that stands in `state`.
///
/// # Errors
/// If it cannot happen there.
pub fn apply(state: ChangeState, event: ChangeEvent) -> Result<ChangeState, WrongState> {
    let step = TRANSITIONS
        .iter()
        .find(|(from, by, _)| (*from, *by) == (state, event));
    step.map(|(_, _, to)| *to)
        .ok_or(WrongState { state, event })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_refused_step_says_what_comes_next() {
        for (state, event, expected) in [
            (
                ChangeState::Proposed,
                ChangeEvent::BeginUnapproved,
                "a change that is proposed cannot be committed: it has to be validated first",
            ),
            (
                ChangeState::Approved,
                ChangeEvent::Compensate,
                "a change that is approved cannot be compensated: the commit comes next",
            ),
            (
                ChangeState::Committed,
                ChangeEvent::Validate,
                "a change that is committed cannot be validated: nothing follows but another change that undoes it",
            ),
            (
                ChangeState::Expired,
                ChangeEvent::BeginApproved,
                "a change that is expired cannot be committed: nothing follows; another change can be proposed",
            ),
        ] {
            let refused = apply(state, event).map_err(|wrong| wrong.to_string());
            assert_eq!(refused, Err(expected.to_owned()));
        }
    }

    /// A word of pseudo-random numbers.
    fn next(seed: &mut u64) -> usize {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        usize::try_from(*seed % 1_000_003).unwrap_or_default()
    }

    #[test]
    fn each_step_stands_once_and_every_state_is_reached() {
        let steps: BTreeSet<_> = TRANSITIONS
            .iter()
            .map(|(from, by, _)| (*from, format!("{by:?}")))
            .collect();
        assert_eq!(steps.len(), TRANSITIONS.len());
        let mut reached = BTreeSet::from([ChangeState::Proposed]);
        for _ in ChangeState::ALL {
            let more: Vec<_> = TRANSITIONS
                .iter()
                .filter(|(from, _, _)| reached.contains(from))
                .map(|(_, _, to)| *to)
                .collect();
            reached.extend(more);
        }
        assert_eq!(reached, BTreeSet::from(ChangeState::ALL));
        for state in ChangeState::ALL {
            assert_eq!(ChangeState::parse(state.word()), Some(state));
        }
    }

    /// Random walks: what is kept was validated right before it began, and approved where an approval is demanded.
    #[test]
    fn no_walk_keeps_what_was_not_looked_at() {
        let mut seed = 0x9E37_79B9_7F4A_7C15;
        let mut kept = [0, 0];
        for _ in 0..60_000 {
            let mut state = ChangeState::Proposed;
            let (mut validated, mut approved, mut began) = (false, false, None);
            for _ in 0..12 {
                let Some(event) = ChangeEvent::ALL.get(next(&mut seed) % ChangeEvent::ALL.len())
                else {
                    continue;
                };
                let Ok(to) = apply(state, *event) else {
                    continue;
                };
                match event {
                    ChangeEvent::Validate => (validated, approved) = (true, false),
                    ChangeEvent::Approve => approved = true,
                    ChangeEvent::BeginUnapproved => {
                        assert!(validated && !approved);
                        began = Some(0);
                    }
                    ChangeEvent::BeginApproved => {
                        assert!(validated && approved);
                        began = Some(1);
                    }
                    ChangeEvent::Conflict | ChangeEvent::Release => {
                        (validated, approved, began) = (false, false, None);
                    }
                    // By whichever way it began: the wrong one would approve it.
                    ChangeEvent::PutBack => (approved, began) = (false, None),
                    ChangeEvent::PutBackApproved => (approved, began) = (true, None),
                    ChangeEvent::Keep => {
                        let which = began.take();
                        assert!(which.is_some(), "kept without a beginning");
                        if let Some(count) = which.and_then(|at: usize| kept.get_mut(at)) {
                            *count += 1;
                        }
                    }
                    ChangeEvent::Reject | ChangeEvent::Fail | ChangeEvent::Expire => {
                        assert!(!to.is_waiting());
                    }
                    ChangeEvent::Compensate => {
                        assert_eq!((state, began), (ChangeState::Committed, None));
                    }
                }
                state = to;
            }
        }
        assert!(kept.iter().all(|count| *count > 100), "{kept:?}");
    }

    /// What is over stays so; what was kept can be undone, and nothing else.
    #[test]
    fn nothing_follows_an_end() {
        for state in [
            ChangeState::Rejected,
            ChangeState::Failed,
            ChangeState::Expired,
            ChangeState::Compensated,
        ] {
            for event in ChangeEvent::ALL {
                assert!(apply(state, event).is_err(), "{state:?} {event:?}");
            }
        }
        for event in ChangeEvent::ALL {
            let may = event == ChangeEvent::Compensate;
            assert_eq!(
                apply(ChangeState::Committed, event).is_ok(),
                may,
                "{event:?}"
            );
        }
    }
}
