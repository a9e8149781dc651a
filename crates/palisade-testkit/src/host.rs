//! Hosts without time and chance.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use palisade::host::Host;

/// A clock that stands still and random bytes that never vary: the same input gives the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Still;

impl Host for Still {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}

/// As [`Still`], with a clock on which a millisecond passes between two looks.
#[derive(Debug, Default)]
pub struct Ticking(AtomicU64);

impl Host for Ticking {
    fn unix_time(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([7; 16])
    }
}
