//! Searching, with the feature `scan`.

pub(crate) use palisade_scan::spell_out;
pub use palisade_scan::{Detector, Scanner, Sensitivity, Severity};

/// The detectors that find something in `text`.
pub(crate) fn detect(text: &[u8], sensitivity: Sensitivity) -> Vec<&'static Detector> {
    Scanner::with_sensitivity(sensitivity).detect(text)
}
