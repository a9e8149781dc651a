//! Requests of a client that have no answer yet, and the end of taking more.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::RequestId;
use tokio::sync::Notify;

/// What both a transport and whoever ends it look at. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flight(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Ids, as JSON.
    waiting: BTreeSet<String>,
    is_closed: bool,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request came.
    pub(crate) fn begin(&self, id: &RequestId) {
        self.lock().waiting.insert(id.to_string());
    }

    /// It was answered, or given up.
    pub(crate) fn end(&self, id: &RequestId) {
        self.lock().waiting.remove(&id.to_string());
        self.0.changed.notify_waiters();
    }

    /// Takes no more requests.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.0.changed.notify_waiters();
    }

    /// Waits until no more requests are taken.
    pub(crate) async fn closed(&self) {
        self.wait_for(|state| state.is_closed).await;
    }

    /// Waits until all that came is answered.
    pub(crate) async fn emptied(&self) {
        self.wait_for(|state| state.waiting.is_empty()).await;
    }

    async fn wait_for(&self, holds: impl Fn(&State) -> bool) {
        loop {
            // It hears of what changes from here on.
            let changed = self.0.changed.notified();
            if holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }
}
