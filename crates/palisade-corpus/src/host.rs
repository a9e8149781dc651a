//! A host whose clock stands still, so that equal cases give equal answers.

use std::time::Duration;

use palisade::host::Host;

pub(crate) struct StillHost;

impl Host for StillHost {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok(*b"palisade-corpus!")
    }
}
