//! A host whose clock stands still at the moment of a case, so that equal cases give equal answers.

use std::time::Duration;

use palisade::host::Host;

/// It is always this long since 1970.
pub(crate) struct StillHost(pub(crate) Duration);

impl Host for StillHost {
    fn unix_time(&self) -> Duration {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok(*b"palisade-corpus!")
    }
}
