//! Work that is shared between the cores.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::progress::Count;

/// What a thread has that asks Cedar, in bytes: policies may be nested deeply.
const STACK: usize = 16 * 1024 * 1024;

/// How much of the machine is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    All,
    /// A person works on the others.
    One,
}

/// What `work` gives for each of `items`, in their order; `count` counts them. It ends early once `work` gives none.
pub(crate) fn share<T: Sync, R: Send>(
    items: &[T],
    (cores, count): (Cores, &Count<'_>),
    work: impl Fn(&T) -> Option<R> + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let take = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = items.get(index).and_then(&work) else {
                return;
            };
            // A poisoned lock guards finished values; the panic was elsewhere.
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(index, result);
            drop(found);
            count.add_one();
        }
    };
    let threads = match cores {
        Cores::All => thread::available_parallelism().map_or(1, NonZero::get),
        Cores::One => 1,
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            // Where there is no other thread, this one does it all.
            let _ = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, take);
        }
        take();
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.into_values().collect()
}
