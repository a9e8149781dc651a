//! What a gate decides and runs with, and how it is replaced while requests run.
//!
//! Firewall and backend are of one catalog and are replaced together: a request takes both when it begins
//! and keeps them to its end. So it is decided by one set of policies over one schema, whatever happens
//! meanwhile, and where the database is no longer of that schema the backend refuses it.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Backend, BackendError, Guard};
use crate::{error::Error, firewall::Firewall, policy::PolicySources};

/// The least time between two looks at the database that requests give rise to: one for a name that is
/// not there, for example. Whoever asks for such names again and again costs no more than that.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// A firewall and a backend of one catalog.
pub(super) struct Live<B> {
    pub(super) firewall: Arc<Firewall>,
    pub(super) backend: Arc<B>,
}

/// The pair in use.
pub(super) struct Current<B> {
    live: RwLock<Arc<Live<B>>>,
    /// Milliseconds of the host's clock, and 1, at the last look that a request gave rise to; 0 before the first.
    looked: AtomicU64,
}

impl<B> Current<B> {
    pub(super) fn new(live: Live<B>) -> Self {
        Self {
            live: RwLock::new(Arc::new(live)),
            looked: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> Arc<Live<B>> {
        // A poisoned lock guards a finished value; nothing panics while it is written.
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts `next` in the place of `seen`, unless another has come between.
    fn replace(&self, seen: &Arc<Live<B>>, next: Live<B>) -> bool {
        let next = Arc::new(next);
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let is_seen = Arc::ptr_eq(&live, seen);
        let old = is_seen.then(|| std::mem::replace(&mut *live, next));
        // What the old one remembers takes time to drop.
        drop(live);
        drop(old);
        is_seen
    }

    /// Whether a request may look at the database at `now`.
    fn is_due(&self, now: Duration) -> bool {
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

/// Why a gate goes on with what it had.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The database does not tell its schema.
    #[error("cannot read the schema: {0}")]
    Database(#[from] BackendError),
    /// The policies do not fit the schema as it is now.
    #[error(transparent)]
    Firewall(#[from] Error),
}

impl<B: Backend> Guard<B> {
    /// Decides by `policies` from the next request on; those that run end under the policies they began
    /// with. If something is wrong with them, those in force stay.
    ///
    /// They are read over the schema as it is now, or, where the database does not tell it, as it was.
    ///
    /// # Errors
    /// [`Error::Policies`] with every problem and its line.
    pub async fn reload(&self, policies: &PolicySources) -> Result<Arc<Firewall>, Error> {
        loop {
            let seen = self.current.get();
            let backend = match changed(&seen).await {
                Ok(Some(backend)) => backend,
                Ok(None) | Err(_) => Arc::clone(&seen.backend),
            };
            let firewall = seen
                .firewall
                .renewed(backend.catalog().clone(), policies.clone())?;
            if firewall.policies().version() == seen.firewall.policies().version() {
                return Ok(Arc::clone(&seen.firewall));
            }
            let firewall = Arc::new(firewall);
            let next = Live {
                firewall: Arc::clone(&firewall),
                backend,
            };
            if self.current.replace(&seen, next) {
                return Ok(firewall);
            }
        }
    }

    /// Looks whether the database's schema is another than statements are decided over, and if so decides
    /// over the new one, by the same policies, from the next request on. Says whether it was.
    ///
    /// # Errors
    /// If the schema cannot be read or the policies do not fit it; statements that read what changed stay
    /// refused then.
    pub async fn refresh(&self) -> Result<bool, RefreshError> {
        self.renew(true).await
    }

    /// As [`refresh_if_due`](Self::refresh_if_due), after the database has said that its schema is another than
    /// was decided over. What it holds is read then without the question whether it is current: a catalog that was read
    /// while a view became another and the first again would be taken for current for ever.
    pub(super) async fn reread_if_due(&self) -> Result<bool, RefreshError> {
        if self.current.is_due(self.host.monotonic()) {
            self.renew(false).await
        } else {
            Ok(false)
        }
    }

    async fn renew(&self, asks: bool) -> Result<bool, RefreshError> {
        loop {
            let seen = self.current.get();
            let backend = if asks {
                changed(&seen).await?
            } else {
                seen.backend.refreshed().await?.map(Arc::new)
            };
            let Some(backend) = backend else {
                return Ok(false);
            };
            let policies = seen.firewall.sources().clone();
            let firewall = seen.firewall.renewed(backend.catalog().clone(), policies)?;
            let next = Live {
                firewall: Arc::new(firewall),
                backend,
            };
            if self.current.replace(&seen, next) {
                return Ok(true);
            }
        }
    }

    /// As [`refresh`](Self::refresh), unless that was a moment ago: for requests, which may come as
    /// often as they like.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub async fn refresh_if_due(&self) -> Result<bool, RefreshError> {
        if self.current.is_due(self.host.monotonic()) {
            self.refresh().await
        } else {
            Ok(false)
        }
    }
}

/// The database as it is now, if that is something else.
async fn changed<B: Backend>(seen: &Live<B>) -> Result<Option<Arc<B>>, BackendError> {
    if seen.backend.is_current().await? {
        return Ok(None);
    }
    Ok(seen.backend.refreshed().await?.map(Arc::new))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

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
    fn requests_look_once_in_a_while() {
        let current = current();
        let looks = [0, 1, 999, 1000, 1001, 1999, 2000, 10_000]
            .map(|ms| current.is_due(Duration::from_millis(ms)));
        assert_eq!(looks, [true, false, false, true, false, false, true, true]);
    }
}
