//! Whose turn it is to write a table: one change at a time, in the order in which they came.
//!
//! The server's own locks let whoever asks at the right moment go first, and end those that wait after a second. Here none is passed over.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use palisade::guard::{BackendError, Cancel};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// How long a change waits for its turn at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The tables for which changes wait, by their uids.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<Semaphore>>>);

/// The turn to write some tables. Dropped, it is the next one's.
#[derive(Debug)]
pub struct Turn {
    /// One for each table.
    _held: Vec<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for the turn to write `tables`, within `time` and the longest wait.
    ///
    /// # Errors
    /// `Locked`, or `Cancelled`.
    pub(crate) async fn wait(
        &self,
        tables: &BTreeSet<&str>,
        time: Duration,
        cancel: &Cancel,
    ) -> Result<Turn, BackendError> {
        let deadline = Instant::now() + time.min(LONGEST_WAIT);
        let mut held = Vec::with_capacity(tables.len());
        // All take them in the same order, so that no two wait for each other.
        for table in tables {
            let waiting = timeout_at(deadline, self.lane(table).acquire_owned());
            let turn = tokio::select! {
                biased;
                turn = waiting => turn,
                () = cancel.wait() => return Err(BackendError::cancelled()),
            };
            let turn = turn.map_err(|_| {
                BackendError::locked(format!(
                    "other changes of {table} came first, and ran too long"
                ))
            })?;
            held.push(turn.map_err(|_| BackendError::unavailable("there are no turns"))?);
        }
        Ok(Turn { _held: held })
    }

    /// Where those wait that write `table`.
    fn lane(&self, table: &str) -> Arc<Semaphore> {
        // Whoever panicked left a map of lanes.
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(table).and_then(Weak::upgrade) {
            return lane;
        }
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let lane = Arc::new(Semaphore::new(1));
        lanes.insert(table.to_owned(), Arc::downgrade(&lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::guard::BackendErrorKind;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn set_of<'t>(tables: &[&'t str]) -> BTreeSet<&'t str> {
        tables.iter().copied().collect()
    }

    #[tokio::test]
    async fn turns_come_in_the_order_of_asking() {
        let turns = Arc::new(Turns::default());
        let first = turns
            .wait(&set_of(&["a", "b"]), LONG, &Cancel::default())
            .await
            .unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (number, tables) in [["b", "c"], ["b", "b"], ["a", "b"]].into_iter().enumerate() {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let turn = turns.wait(&set_of(&tables), LONG, &Cancel::default()).await;
                order.lock().unwrap().push(number);
                tokio::task::yield_now().await;
                turn.map(drop)
            }));
            tokio::task::yield_now().await;
        }
        // Another table is free meanwhile.
        let other = turns.wait(&set_of(&["d"]), LONG, &Cancel::default()).await;
        assert!(other.is_ok() && order.lock().unwrap().is_empty());
        drop(first);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        // What is not waited for is not kept in mind.
        drop(other);
        drop(turns.lane("e"));
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_turn_that_does_not_come_is_told() {
        let turns = Turns::default();
        let held = turns.wait(&set_of(&["a"]), LONG, &Cancel::default()).await;
        let short = Duration::from_millis(50);
        let late = turns.wait(&set_of(&["a"]), short, &Cancel::default()).await;
        assert_eq!(late.unwrap_err().kind, BackendErrorKind::Locked);
        let cancel = Cancel::default();
        cancel.set();
        let given_up = turns.wait(&set_of(&["a"]), LONG, &cancel).await;
        assert_eq!(given_up.unwrap_err().kind, BackendErrorKind::Cancelled);
        drop(held);
        assert!(
            turns
                .wait(&set_of(&["a"]), LONG, &Cancel::default())
                .await
                .is_ok()
        );
    }
}
