//! How often something may happen.

use std::time::{Duration, Instant};

/// A bucket that fills with time: what it holds may happen at once, and then as fast as it fills.
pub(crate) struct Rate {
    /// Happenings that it holds at most.
    most: u32,
    /// In which one comes back.
    each: Duration,
    held: u32,
    since: Instant,
}

impl Rate {
    /// `most` at once, and `per_second` (of one at least) from then on.
    pub(crate) fn new(most: u32, per_second: u32, now: Instant) -> Self {
        Self {
            most,
            each: Duration::from_secs(1) / per_second.max(1),
            held: most,
            since: now,
        }
    }

    /// How long to wait for one; none if there is one.
    pub(crate) fn find_wait(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.since);
        let back = passed.as_nanos() / self.each.as_nanos().max(1);
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        self.held = self.held.saturating_add(back).min(self.most);
        if self.held == self.most {
            self.since = now;
        } else {
            self.since += self.each * back;
        }
        let waited = now.saturating_duration_since(self.since);
        (self.held == 0).then(|| self.each.saturating_sub(waited))
    }

    /// Takes one.
    pub(crate) fn take(&mut self) {
        self.held = self.held.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_time() {
        let start = Instant::now();
        let mut rate = Rate::new(2, 10, start);
        for _ in 0..2 {
            assert_eq!(rate.find_wait(start), None);
            rate.take();
        }
        assert_eq!(rate.find_wait(start), Some(Duration::from_millis(100)));
        assert_eq!(rate.find_wait(start + Duration::from_millis(100)), None);
        rate.take();
        let later = start + Duration::from_millis(150);
        assert_eq!(rate.find_wait(later), Some(Duration::from_millis(50)));
        let late = start + Duration::from_secs(60);
        for wait in [None, None, Some(Duration::from_millis(100))] {
            assert_eq!(rate.find_wait(late), wait);
            rate.take();
        }
    }
}
