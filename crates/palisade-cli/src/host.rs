//! The clock and the randomness of this machine, lent to the core.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use palisade::{host::Host, session::Session};
use tokio::runtime::{Builder, Runtime};

use crate::{STACK, exit::Failure};

/// What drives connections and waits, on the thread that asks.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|error| Failure::Internal(format!("cannot start: {error}")))
}

/// `session` as a gate on this machine would ask for it, for a decision without one.
pub(crate) fn now(session: &Session) -> Session {
    session.clone().at(Machine::new().unix_time())
}

/// The machine the program runs on.
#[derive(Debug)]
pub(crate) struct Machine {
    start: Instant,
}

impl Machine {
    /// Durations count from here.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
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
