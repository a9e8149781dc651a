//! Searching, with the feature `scan`.

pub(in crate::answer) use palisade_scan::spell_out;
pub use palisade_scan::{Detector, Severity};

/// The detectors that find something in `text`.
pub(in crate::answer) fn detect(text: &[u8]) -> Vec<&'static Detector> {
    palisade_scan::Scanner::new().detect(text)
}
