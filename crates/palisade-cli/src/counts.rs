//! Counts of what a server writes and what waits in it, for whoever measures.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::audit::{AuditRecord, AuditSink};
use palisade_state::ApprovalStore;

/// Counts of all databases of a server. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    written: AtomicU64,
    failed: AtomicU64,
    stores: Mutex<Stores>,
}

/// Where requests wait: connections can share a store.
#[derive(Debug, Default)]
struct Stores {
    /// By what tells one from another.
    shared: BTreeMap<String, Arc<ApprovalStore>>,
    in_memory: Vec<Arc<ApprovalStore>>,
}

impl Counts {
    /// Audit records that were written.
    pub(crate) fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Audit records that could not be written, so that their calls were not answered.
    pub(crate) fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// `sink`, counted.
    pub(crate) fn count_records(&self, sink: Arc<dyn AuditSink>) -> Arc<dyn AuditSink> {
        Arc::new(CountedSink {
            sink,
            counts: self.clone(),
        })
    }

    /// Counts what waits in `store`, which has a `name` if others share it.
    pub(crate) fn add_store(&self, name: Option<String>, store: &Arc<ApprovalStore>) {
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        match name {
            Some(name) => drop(stores.shared.insert(name, Arc::clone(store))),
            None => stores.in_memory.push(Arc::clone(store)),
        }
    }

    /// Requests that wait for a person; none where a store cannot be read.
    pub(crate) fn waiting(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        let stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = stores.shared.values().chain(&stores.in_memory);
        all.try_fold(0_u64, |sum, store| {
            Some(sum.saturating_add(store.count_waiting(now).ok()?))
        })
    }
}

/// Counts what it hands on.
struct CountedSink {
    sink: Arc<dyn AuditSink>,
    counts: Counts,
}

impl AuditSink for CountedSink {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        let kept = self.sink.record(record);
        let count = match &kept {
            Ok(()) => &self.counts.0.written,
            Err(_) => &self.counts.0.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        kept
    }

    fn records_at_once(&self) -> bool {
        self.sink.records_at_once()
    }
}
