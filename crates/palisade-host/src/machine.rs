//! The clock and the randomness of this machine, lent to the core.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use palisade::host::Host;

/// The machine the program runs on.
#[derive(Debug)]
pub struct Machine {
    start: Instant,
}

impl Machine {
    /// Durations count from here.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Host for Machine {
    fn unix_time(&self) -> Duration {
        // A clock set before 1970 is wrong anyway; a record with time 0 shows it.
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> Result<[u8; 16], String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
        Ok(bytes)
    }
}
