//! Several databases at a time.

use std::{
    io::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{STACK, fault::Fault};

/// `work` over `items` on `jobs` threads, the results in the order of the items; says how far it is
/// on standard error.
///
/// # Errors
/// The first error of `work` in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(
    label: &str,
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, Fault> + Sync,
) -> Result<Vec<R>, Fault> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<R, Fault>)>> = Mutex::default();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            results
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((index, result));
            let done = done.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if done.is_multiple_of((items.len() / 10).max(1)) {
                // The output may be closed.
                let _ = writeln!(std::io::stderr(), "{label}: {done} of {}", items.len());
            }
        }
    };
    thread::scope(|scope| {
        let threads = (0..jobs.max(1))
            .map(|_| {
                thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, worker)
                    .map_err(Fault::Thread)
            })
            .collect::<Result<Vec<_>, _>>()?;
        for thread in threads {
            thread.join().map_err(|_| Fault::Worker)?;
        }
        Ok::<_, Fault>(())
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = map("test", &items, 4, |n| Ok(n * 2)).unwrap();
        assert_eq!(doubled, (0..100).map(|n| n * 2).collect::<Vec<_>>());
    }
}
