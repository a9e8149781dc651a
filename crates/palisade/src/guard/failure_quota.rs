//! How often the engine refused what a principal asked of filtered relations.
//!
//! Which rows an expression fails on is a question that an answer of no rows still answers. The fence keeps hidden values out of
//! it; the number of hidden rows can still choose a plan. So such failures are counted, and bounded.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{code::Code, rejection::Rejection, session::Principal};

/// How long a failure counts, from the first of a principal's.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// Principals that are counted at a time. The operator names principals, and an agent cannot: no more are expected to fail within
/// an hour.
const PRINCIPALS: usize = 10_000;

/// The failures of one principal.
#[derive(Debug, Clone, Copy)]
struct Count {
    since: Duration,
    failures: u32,
}

impl Count {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= WINDOW
    }
}

/// The failures of each principal within [`WINDOW`].
#[derive(Debug, Default)]
pub(in crate::guard) struct Failures {
    counts: Mutex<HashMap<Principal, Count>>,
}

impl Failures {
    /// Counts a failure of `principal`.
    pub(in crate::guard) fn count(&self, principal: &Principal, now: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= PRINCIPALS && !counts.contains_key(principal) {
            counts.retain(|_, count| !count.is_over(now));
            let oldest = counts.iter().min_by_key(|(_, count)| count.since);
            if counts.len() >= PRINCIPALS
                && let Some(oldest) = oldest.map(|(principal, _)| principal.clone())
            {
                counts.remove(&oldest);
            }
        }
        let fresh = Count {
            since: now,
            failures: 0,
        };
        let count = counts.entry(principal.clone()).or_insert(fresh);
        if count.is_over(now) {
            *count = fresh;
        }
        count.failures = count.failures.saturating_add(1);
    }

    /// Takes back a failure of `principal`.
    pub(in crate::guard) fn take_back(&self, principal: &Principal) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(principal) {
            count.failures = count.failures.saturating_sub(1);
        }
    }

    /// Refuses a further statement of `principal` that may fail, after `most` that did.
    ///
    /// # Errors
    /// `limit.failures`, which says after how long the next may run.
    pub(in crate::guard) fn admit(
        &self,
        principal: &Principal,
        most: u32,
        now: Duration,
    ) -> Result<(), Rejection> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get(principal).filter(|count| !count.is_over(now)) else {
            return Ok(());
        };
        if count.failures < most {
            return Ok(());
        }
        let left = WINDOW.saturating_sub(now.saturating_sub(count.since));
        let minutes = left.as_secs().div_ceil(60).max(1);
        Err(Rejection::new(
            Code::LimitFailures,
            format!(
                "{} statements of yours over filtered tables ended without an answer within an hour; \
                 statements over them that are more than comparisons in one table run again in {minutes} minutes",
                count.failures
            ),
        )
        .with_operator_detail(format!(
            "{principal} had {} failures over filtered relations within an hour: it may be reading hidden values by them",
            count.failures
        )))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn principal(id: usize) -> Principal {
        Principal::new("Agent", format!("a{id}"))
    }

    #[test]
    fn failures_are_bounded_by_principal_within_an_hour() {
        let failures = Failures::default();
        let at = Duration::from_secs(100);
        for _ in 0..3 {
            assert!(failures.admit(&principal(1), 3, at).is_ok());
            failures.count(&principal(1), at);
        }
        let refused = failures.admit(&principal(1), 3, at + HOUR / 2).unwrap_err();
        assert_eq!(refused.code(), Code::LimitFailures);
        assert!(refused.message().contains("30 minutes"), "{refused}");
        assert!(failures.admit(&principal(2), 3, at).is_ok());
        assert!(failures.admit(&principal(1), 3, at + HOUR).is_ok());
        failures.count(&principal(1), at + HOUR);
        assert!(failures.admit(&principal(1), 3, at + HOUR).is_ok());
        assert!(failures.admit(&principal(1), 1, at + HOUR).is_err());
    }

    #[test]
    fn memory_is_bounded() {
        let failures = Failures::default();
        for id in 0..PRINCIPALS + 10 {
            let now = Duration::from_millis(u64::try_from(id).unwrap());
            failures.count(&principal(id), now);
        }
        assert_eq!(failures.counts.lock().unwrap().len(), PRINCIPALS);
        let now = Duration::from_secs(20);
        assert!(failures.admit(&principal(0), 1, now).is_ok());
        assert!(failures.admit(&principal(PRINCIPALS), 1, now).is_err());
    }
}
