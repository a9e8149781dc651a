//! Turns on the thread that reads the messages of several clients: whoever decides a query there keeps the others waiting.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What a query may keep the thread at a time. If one keeps it longer, those that come next are decided aside,
const QUICK: Duration = Duration::from_millis(2);

/// for so long.
const REST: Duration = Duration::from_secs(1);

/// Whose turn it is. Clones count as one.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<State>);

#[derive(Debug)]
struct State {
    began: Instant,
    is_taken: AtomicBool,
    /// When the rest ends, in milliseconds since the beginning.
    rested: AtomicU64,
}

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(State {
            began: Instant::now(),
            is_taken: AtomicBool::new(false),
            rested: AtomicU64::new(0),
        }))
    }
}

impl Turns {
    /// A turn; none while another has one, or if somebody kept the thread for long a moment ago.
    pub(crate) fn take(&self) -> Option<Turn> {
        let is_free = self.0.rested.load(Ordering::Relaxed) <= self.milliseconds()
            && !self.0.is_taken.swap(true, Ordering::Acquire);
        is_free.then(|| Turn(self.clone()))
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes how long the thread was kept.
    fn note(&self, kept: Duration) {
        if kept > QUICK {
            let rest = u64::try_from(REST.as_millis()).unwrap_or(u64::MAX);
            let until = self.milliseconds().saturating_add(rest);
            self.0.rested.store(until, Ordering::Relaxed);
        }
    }
}

/// A turn, which ends with this value.
#[derive(Debug)]
pub(crate) struct Turn(Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.is_taken.store(false, Ordering::Release);
    }
}

impl Turn {
    /// Does `work` in it, and looks how long each step keeps the thread.
    pub(crate) async fn run<F: Future>(self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let began = Instant::now();
            let polled = work.as_mut().poll(context);
            self.0.note(began.elapsed());
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::thread;

    use super::*;

    #[test]
    fn one_at_a_time_has_a_turn() {
        let turns = Turns::default();
        let first = turns.take().unwrap();
        assert!(turns.clone().take().is_none());
        drop(first);
        assert!(turns.take().is_some());
    }

    #[tokio::test]
    async fn who_keeps_the_thread_for_long_ends_the_turns_for_a_while() {
        let turns = Turns::default();
        turns.note(QUICK);
        let turn = turns.take().unwrap();
        turn.run(async { thread::sleep(QUICK * 2) }).await;
        assert!(turns.take().is_none());
        // As if the while were over.
        turns.0.rested.store(0, Ordering::Relaxed);
        assert!(turns.take().is_some());
    }
}
