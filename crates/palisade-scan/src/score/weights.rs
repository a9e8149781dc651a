//! The weights: a table that was learned, as bytes.
//!
//! It is a header, and slots of four bytes: three that tell features apart and one that is the weight. A feature's slot is where
//! its hash says, or one of the next; an empty slot ends the search. So a feature that was never learned weighs nothing.

/// What `cargo xtask train` wrote. `weights.md` beside it says from what.
static BYTES: &[u8] = include_bytes!("weights.bin");

/// The first bytes of a table.
pub(crate) const MAGIC: [u8; 4] = *b"PSW1";
/// Bytes before the slots: the magic, the bias, and three thresholds.
pub(crate) const HEADER: usize = 20;
/// Slots looked at for one feature.
pub(crate) const PROBES: usize = 12;

/// What is added to each score.
pub(crate) fn bias() -> i32 {
    header(0)
}

/// The scores from which on a text is possibly, likely, and certainly instruction-like.
pub(crate) fn thresholds() -> [i32; 3] {
    [header(1), header(2), header(3)]
}

fn header(index: usize) -> i32 {
    BYTES
        .get(4 + index * 4..8 + index * 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, i32::from_le_bytes)
}

/// The weight of the feature with this hash, 0 if it has none.
pub(crate) fn weight(hash: u64) -> i32 {
    let slots = BYTES.get(HEADER..).unwrap_or_default();
    let mask = (slots.len() / 4).saturating_sub(1);
    let mut slot = slot_of(hash, mask);
    for _ in 0..PROBES {
        let Some([a, b, c, weight]) = slots.get(slot * 4..slot * 4 + 4) else {
            return 0;
        };
        if *weight == 0 {
            return 0;
        }
        if [*a, *b, *c] == tag_of(hash) {
            return i32::from(i8::from_le_bytes([*weight]));
        }
        slot = slot + 1 & mask;
    }
    0
}

/// The first slot of a feature in a table of `mask + 1` slots.
pub(crate) fn slot_of(hash: u64, mask: usize) -> usize {
    usize::try_from(hash & 0xFFFF_FFFF).unwrap_or(0) & mask
}

/// What tells features of a slot apart.
pub(crate) fn tag_of(hash: u64) -> [u8; 3] {
    let [_, _, _, _, _, a, b, c] = hash.to_le_bytes();
    [a, b, c]
}
