//! The weights: a table that was learned, as bytes.
//!
//! It is a header, and slots of four bytes: three tell features apart, and the last is the weight. A feature's slot is where
//! its hash says, or one of the next; a slot of zeros ends the search. So features without a slot were never learned, whereas
//! a weight of zero was.

/// What `cargo xtask train` wrote. `weights.md` beside it says from what.
static BYTES: &[u8] = include_bytes!("weights.bin");

/// The first bytes of a table.
#[cfg(feature = "train")]
pub(crate) const MAGIC: [u8; 4] = *b"PSW1";
/// Bytes before the slots: the magic, the bias, and four thresholds.
pub(crate) const HEADER: usize = 24;
/// Slots looked at for one feature.
pub(crate) const PROBES: usize = 16;

/// Scores from which on something is said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    /// A pattern that finds something is believed.
    pub(crate) support: i32,
    /// A text is possibly instruction-like, likely, certainly.
    pub(crate) possible: i32,
    pub(crate) likely: i32,
    pub(crate) certain: i32,
}

/// What is added to each score.
pub(crate) fn bias() -> i32 {
    header(0)
}

pub(crate) fn thresholds() -> Thresholds {
    Thresholds {
        support: header(1),
        possible: header(2),
        likely: header(3),
        certain: header(4),
    }
}

fn header(index: usize) -> i32 {
    BYTES
        .get(4 + index * 4..8 + index * 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, i32::from_le_bytes)
}

/// The weight of the feature with this hash, none if it was never learned.
#[inline]
pub(crate) fn weight(hash: u64) -> Option<i32> {
    let slots = BYTES.get(HEADER..).unwrap_or_default();
    let mask = (slots.len() / 4).checked_sub(1)?;
    let mut slot = slot_of(hash, mask);
    let [a, b, c] = tag_of(hash);
    let tag = u32::from_le_bytes([a, b, c, 0]);
    for _ in 0..PROBES {
        let four = slots.get(slot * 4..slot * 4 + 4)?.first_chunk::<4>()?;
        let found = u32::from_le_bytes(*four);
        if found & 0x00FF_FFFF == tag {
            let [_, _, _, weight] = *four;
            return Some(i32::from(i8::from_le_bytes([weight])));
        }
        if found == 0 {
            return None;
        }
        slot = (slot + 1) & mask;
    }
    None
}

/// The first slot of a feature in a table of `mask + 1` slots.
pub(crate) fn slot_of(hash: u64, mask: usize) -> usize {
    usize::try_from(hash & 0xFFFF_FFFF).unwrap_or(0) & mask
}

/// What tells features of a slot apart; never zeros.
pub(crate) fn tag_of(hash: u64) -> [u8; 3] {
    let [_, _, _, _, _, a, b, c] = hash.to_le_bytes();
    [a | 1, b, c]
}
