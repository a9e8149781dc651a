//! Searching, with the feature `scan`.

use std::ops::Range;

pub(crate) use palisade_scan::spell_out;
pub use palisade_scan::{Detector, Scanner, Sensitivity, Severity};

/// The detectors that find something in `text`.
pub(crate) fn detect(text: &[u8], sensitivity: Sensitivity) -> Vec<&'static Detector> {
    Scanner::with_sensitivity(sensitivity).detect(text)
}

/// Where each detector that finds something in `text` finds it: bytes of the text.
pub(crate) fn locate(text: &str, scanner: Scanner) -> Vec<(&'static Detector, Range<usize>)> {
    let found = scanner.scan(text).into_iter();
    found
        .map(|finding| (finding.detector, finding.span))
        .collect()
}
