//! Weights as the bytes that the scanner reads.

use palisade_scan::training::{HEADER, MAGIC, PROBES, place};

use crate::learn::Model;

/// Slots of the table: a power of two, at least twice as many as there are weights.
const SLOTS: usize = 1 << 18;
/// Scores are in sixteenths of a weight.
const SIXTEENTHS: f64 = 16.0;

/// A table, and what became of the weights in it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) bytes: Vec<u8>,
    /// Features that found a slot.
    pub(crate) kept: usize,
    /// The whole number that stands for 1.
    pub(crate) unit: f64,
}

impl Table {
    /// Makes whole numbers of weights, thresholds and bias: the largest weight is 127.
    pub(crate) fn quantise(model: &Model, hashes: &[u64], thresholds: [f64; 4]) -> Self {
        let largest = model
            .weights
            .iter()
            .fold(0.0_f64, |most, w| most.max(w.abs()));
        let unit = 127.0 / largest;
        let mut bytes = vec![0_u8; HEADER + SLOTS * 4];
        let mut header = MAGIC.to_vec();
        for value in [&[model.bias][..], &thresholds].concat() {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "scores are far below the range"
            )]
            let whole = (value * unit * SIXTEENTHS).round() as i32;
            header.extend(whole.to_le_bytes());
        }
        if let Some(start) = bytes.get_mut(..HEADER) {
            start.copy_from_slice(&header);
        }
        let mut weights: Vec<(i8, u64)> = model
            .weights
            .iter()
            .zip(hashes)
            .map(|(weight, hash)| {
                #[expect(clippy::cast_possible_truncation, reason = "at most 127")]
                let whole = (weight * unit).round() as i8;
                (whole, *hash)
            })
            .collect();
        // The heaviest first: if a slot is not found, little is lost.
        weights.sort_by_key(|(weight, hash)| (std::cmp::Reverse(weight.unsigned_abs()), *hash));
        let mut kept = 0;
        for (weight, hash) in weights {
            let (first, tag) = place(hash, SLOTS);
            let free = (0..PROBES)
                .map(|step| HEADER + ((first + step) & (SLOTS - 1)) * 4)
                .find(|at| bytes.get(*at..at + 4) == Some(&[0; 4]));
            if let Some(at) = free
                && let Some(slot) = bytes.get_mut(at..at + 4)
            {
                let [a, b, c] = tag;
                slot.copy_from_slice(&[a, b, c, weight.to_le_bytes()[0]]);
                kept += 1;
            }
        }
        Self { bytes, kept, unit }
    }
}
