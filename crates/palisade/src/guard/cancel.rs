//! A caller that no longer waits.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
};

/// Says that the caller of a statement has given up, so that the statement ends on the database too. Clones are one. A change
/// that is being kept is kept all the same.
///
/// ```
/// use palisade::guard::Cancel;
/// let cancel = Cancel::default();
/// let seen_by_the_backend = cancel.clone();
/// cancel.set();
/// assert!(seen_by_the_backend.is_set());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_set: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Cancel {
    /// Cancels, for ever.
    pub fn set(&self) {
        self.0.is_set.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting());
        for waker in waiting {
            waker.wake();
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::SeqCst)
    }

    /// Waits until it is cancelled.
    pub async fn wait(&self) {
        poll_fn(|context| {
            let mut waiting = self.waiting();
            // Looked at under the lock, so that no waker comes after those that are woken.
            if self.is_set() {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !waiting.iter().any(|other| other.will_wake(waker)) {
                waiting.push(waker.clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        // Nothing panics while it is held.
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
