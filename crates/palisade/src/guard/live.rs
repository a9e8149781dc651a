//! What a gate decides and runs with, and how it is replaced while requests run.
//!
//! Firewall and backend are of one catalog and are replaced together: a request takes both when it begins
//! and keeps them to its end. So it is decided by one set of policies over one schema, whatever happens
//! meanwhile, and where the database is no longer of that schema the backend refuses it.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::firewall::Firewall;

/// The least time between two looks at the database that requests give rise to: one for a name that is
/// not there, for example. Whoever asks for such names again and again costs no more than that.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// A firewall and a backend of one catalog.
pub(in crate::guard) struct Live<B: ?Sized> {
    pub(in crate::guard) firewall: Arc<Firewall>,
    pub(in crate::guard) backend: Arc<B>,
}

/// The pair in use.
pub(in crate::guard) struct Current<B: ?Sized> {
    live: RwLock<Arc<Live<B>>>,
    /// Milliseconds of the host's clock, and 1, at the last look that a request gave rise to; 0 before the first.
    looked: AtomicU64,
    /// Why the policies do not fit the schema as it was at the last look, where they do not.
    misfit: Mutex<Option<String>>,
}

impl<B: ?Sized> Current<B> {
    pub(in crate::guard) fn new(live: Live<B>) -> Self {
        Self {
            live: RwLock::new(Arc::new(live)),
            looked: AtomicU64::new(0),
            misfit: Mutex::new(None),
        }
    }

    pub(in crate::guard) fn get(&self) -> Arc<Live<B>> {
        // A poisoned lock guards a finished value; nothing panics while it is written.
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts `next` in the place of `seen`, unless another has come between.
    pub(in crate::guard) fn replace(&self, seen: &Arc<Live<B>>, next: Live<B>) -> bool {
        let next = Arc::new(next);
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let is_seen = Arc::ptr_eq(&live, seen);
        let old = is_seen.then(|| std::mem::replace(&mut *live, next));
        if is_seen {
            self.note_misfit(None);
        }
        // What the old one remembers takes time to drop.
        drop(live);
        drop(old);
        is_seen
    }

    /// Keeps why the policies do not fit the schema, or that they do.
    pub(in crate::guard) fn note_misfit(&self, why: Option<String>) {
        *self.misfit.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Why the policies do not fit the schema, where that is known.
    pub(in crate::guard) fn misfit(&self) -> Option<String> {
        let misfit = self.misfit.lock().unwrap_or_else(PoisonError::into_inner);
        misfit.clone()
    }

    /// How long it takes from `now` until a request may look at the database.
    pub(in crate::guard) fn time_to_look(&self, now: Duration) -> Duration {
        let last = self.looked.load(Ordering::Relaxed);
        match last.checked_sub(1) {
            Some(looked) => {
                let next = Duration::from_millis(looked).saturating_add(BETWEEN_LOOKS);
                next.saturating_sub(now)
            }
            None => Duration::ZERO,
        }
    }

    /// Whether a request may look at the database at `now`.
    pub(in crate::guard) fn is_due(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let between = u64::try_from(BETWEEN_LOOKS.as_millis()).unwrap_or(u64::MAX);
        let last = self.looked.load(Ordering::Relaxed);
        (last == 0 || now.saturating_sub(last) >= between)
            && self
                .looked
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::policy::PolicySources;

    fn current() -> Current<u8> {
        let catalog = crate::catalog::Catalog::builder(crate::dialect::Dialect::Sqlite);
        let firewall =
            Firewall::builder(catalog.build().unwrap(), PolicySources::default()).build();
        Current::new(Live {
            firewall: Arc::new(firewall.unwrap()),
            backend: Arc::new(1),
        })
    }

    fn with(live: &Live<u8>, backend: u8) -> Live<u8> {
        Live {
            firewall: Arc::clone(&live.firewall),
            backend: Arc::new(backend),
        }
    }

    #[test]
    fn what_has_been_replaced_is_not_replaced_again() {
        let current = current();
        let seen = current.get();
        assert!(current.replace(&seen, with(&seen, 2)));
        assert!(!current.replace(&seen, with(&seen, 3)));
        assert_eq!((*current.get().backend, *seen.backend), (2, 1));
    }

    #[test]
    fn what_fits_puts_an_end_to_a_misfit() {
        let current = current();
        current.note_misfit(Some("no column".to_owned()));
        let seen = current.get();
        assert!(current.replace(&seen, with(&seen, 2)));
        assert_eq!(current.misfit(), None);
        // What came too late says nothing.
        current.note_misfit(Some("no column".to_owned()));
        assert!(!current.replace(&seen, with(&seen, 3)));
        assert_eq!(current.misfit().as_deref(), Some("no column"));
    }

    #[test]
    fn requests_look_once_in_a_while() {
        let current = current();
        let looks = [0, 1, 999, 1000, 1001, 1999, 2000, 10_000]
            .map(|ms| current.is_due(Duration::from_millis(ms)));
        assert_eq!(looks, [true, false, false, true, false, false, true, true]);
        let left = [10_000, 10_400, 11_000, 20_000]
            .map(|ms| current.time_to_look(Duration::from_millis(ms)).as_millis());
        assert_eq!(left, [1000, 600, 0, 0]);
    }
}
