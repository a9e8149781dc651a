//! How far long work is.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is counted: `cases`, `mutants`, …
    pub what: &'static str,
    /// How many are done.
    pub done: usize,
    /// How many there are.
    pub total: usize,
}

/// Who is told how far a run is. Without one, it is not told.
#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Arc<dyn Fn(Step) + Send + Sync>>);

impl Progress {
    pub(crate) fn new(tell: impl Fn(Step) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Begins to count.
    pub(crate) fn count(&self, what: &'static str, total: usize) -> Count<'_> {
        let count = Count {
            progress: self,
            what,
            total,
            done: AtomicUsize::new(0),
        };
        count.tell(0);
        count
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}

/// Things of one kind that are done one after another, on several threads too.
pub(crate) struct Count<'p> {
    progress: &'p Progress,
    what: &'static str,
    total: usize,
    done: AtomicUsize,
}

impl Count<'_> {
    /// One more is done.
    pub(crate) fn add_one(&self) {
        let before = self.done.fetch_add(1, Ordering::Relaxed);
        self.tell(before + 1);
    }

    fn tell(&self, done: usize) {
        if let Some(tell) = &self.progress.0 {
            tell(Step {
                what: self.what,
                done,
                total: self.total,
            });
        }
    }
}
