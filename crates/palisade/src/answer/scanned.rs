//! Searching, with the feature `scan`.

pub(crate) use palisade_scan::spell_out;
pub use palisade_scan::{Detector, Severity};

/// The detectors that find something in `text`.
pub(crate) fn detect(text: &[u8]) -> Vec<&'static Detector> {
    palisade_scan::Scanner::new().detect(text)
}
