//! Whose turn it is to write the file: one change at a time, in the order in which they came.
//!
//! The engine has one writer, and whoever tries at the right moment is next. Here none is passed over.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use palisade::guard::BackendError;

/// How long a change waits for its turn at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked at whether the caller still waits.
const LOOK: Duration = Duration::from_millis(20);

/// The changes of a file: first the one in hand, then all that wait.
#[derive(Debug, Default)]
pub(crate) struct WriteTurns {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    last: u64,
    waiting: VecDeque<u64>,
}

/// The turn to write. Dropped, it is the next one's.
#[derive(Debug)]
pub(crate) struct WriteTurn {
    turns: Arc<WriteTurns>,
    number: u64,
}

impl WriteTurns {
    /// Blocks until the turn comes, for `time` and the longest wait at most, and no longer than the caller waits.
    ///
    /// # Errors
    /// `Locked`.
    pub(crate) fn wait(
        self: &Arc<Self>,
        time: Duration,
        gives_up: impl Fn() -> bool,
    ) -> Result<WriteTurn, BackendError> {
        let began = Instant::now();
        let mut line = self.lock();
        line.last += 1;
        let turn = WriteTurn {
            turns: Arc::clone(self),
            number: line.last,
        };
        line.waiting.push_back(turn.number);
        while line.waiting.front() != Some(&turn.number) {
            if gives_up() || began.elapsed() >= time.min(LONGEST_WAIT) {
                // Its place is taken out under the same lock.
                drop(line);
                return Err(BackendError::locked(
                    "other changes of this file came first, and ran too long",
                ));
            }
            let waited = self.moved.wait_timeout(line, LOOK);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(line);
        Ok(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        // Whoever panicked left a list of numbers.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        let mut line = self.turns.lock();
        line.waiting.retain(|number| *number != self.number);
        drop(line);
        self.turns.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::thread;

    use palisade::guard::BackendErrorKind;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let turns = Arc::new(WriteTurns::default());
        let first = turns.wait(LONG, || false).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..4 {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            let place = turns.lock().waiting.len();
            let seen = Arc::clone(&turns);
            waiting.push(thread::spawn(move || {
                let turn = turns.wait(LONG, || false).unwrap();
                order.lock().unwrap().push(number);
                drop(turn);
            }));
            while seen.lock().waiting.len() == place {
                thread::yield_now();
            }
        }
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        for one in waiting {
            one.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn whoever_waits_no_more_is_out_of_the_line() {
        let turns = Arc::new(WriteTurns::default());
        let held = turns.wait(LONG, || false).unwrap();
        for (time, gives_up) in [(Duration::from_millis(30), false), (LONG, true)] {
            let late = turns.wait(time, || gives_up).unwrap_err();
            assert_eq!(late.kind, BackendErrorKind::Locked);
        }
        assert_eq!(turns.lock().waiting.len(), 1);
        drop(held);
        assert!(turns.wait(Duration::ZERO, || true).is_ok());
    }
}
