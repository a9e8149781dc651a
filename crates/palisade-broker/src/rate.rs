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

    /// Takes one; how long to wait for it if there is none.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.since);
        let back = passed.as_nanos() / self.each.as_nanos().max(1);
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        self.held = self.held.saturating_add(back).min(self.most);
        if self.held == self.most {
            self.since = now;
        } else {
            self.since += self.each * back;
        }
        if self.held == 0 {
            return Err(self
                .each
                .saturating_sub(now.saturating_duration_since(self.since)));
        }
        self.held -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_time() {
        let start = Instant::now();
        let mut rate = Rate::new(2, 10, start);
        assert!(rate.take(start).is_ok() && rate.take(start).is_ok());
        assert_eq!(rate.take(start), Err(Duration::from_millis(100)));
        assert!(rate.take(start + Duration::from_millis(100)).is_ok());
        assert!(rate.take(start + Duration::from_millis(150)).is_err());
        let late = start + Duration::from_secs(60);
        assert!(rate.take(late).is_ok() && rate.take(late).is_ok() && rate.take(late).is_err());
    }
}
