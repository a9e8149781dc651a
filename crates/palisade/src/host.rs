//! What the core cannot know by itself: the clock and chance. The embedder lends them, so that the
//! core gives the same answer to the same input.

use std::time::Duration;

/// The outside world, as far as the firewall needs it.
pub trait Host: Send + Sync {
    /// Time since 1970-01-01 UTC, for audit records.
    fn unix_time(&self) -> Duration;

    /// Time since some fixed point, never going back, for durations.
    fn monotonic(&self) -> Duration;

    /// Sixteen bytes that cannot be guessed: for markers and incident ids.
    ///
    /// # Errors
    /// A text for the operator's log if there is no source of randomness.
    fn random(&self) -> Result<[u8; 16], String>;
}
