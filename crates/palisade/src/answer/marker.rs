//! The marker around the rows of one answer, which no cell can guess.

use std::fmt;

/// A random mark for one answer, which data cannot hold because it was written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker([u8; 16]);

impl Marker {
    /// A marker from random bytes. The core has no source of randomness; the caller must not use
    /// bytes twice.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its first half, which is too long to be guessed as well.
    pub(crate) fn short(self) -> String {
        let (half, _) = self.0.split_at(self.0.len() / 2);
        half.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
