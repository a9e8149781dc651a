//! What learns the weights needs: the features of texts, and the form of the table. It may change with any version.

use crate::{
    matcher::{self, Hits},
    score::{self, features, weights},
};

/// A passage of a text: for each token the hashes and values of the features that it completes.
pub type Passage = Vec<Vec<(u64, i32)>>;

/// Bytes of a table before its slots.
pub const HEADER: usize = weights::HEADER;
/// Slots looked at for one feature.
pub const PROBES: usize = weights::PROBES;
/// The first bytes of a table.
pub const MAGIC: [u8; 4] = weights::MAGIC;
/// What is added to the squared norm of a window.
pub const LEAST_NORM: i32 = score::LEAST_NORM;

/// What is weighed of a text.
#[derive(Debug)]
pub struct Reading {
    /// The passages that may be instructions.
    pub passages: Vec<Passage>,
    /// The features of the text as a whole. The norm of a window does not divide them.
    pub whole: Vec<(u64, i32)>,
    /// The detectors that find something without the score.
    pub detectors: Vec<&'static crate::Detector>,
}

/// Reads `text` as the scanner does.
#[must_use]
pub fn read(text: &str) -> Reading {
    let mut hits = Hits::default();
    let mut passages = Vec::new();
    matcher::read_passages(text.as_bytes(), &mut hits, &mut |text, range, marks| {
        let tokens = features::tokens(text, range);
        let mut passage: Passage = vec![Vec::new(); tokens.len()];
        features::visit(text, &tokens, marks, |feature| {
            if let Some(token) = passage.get_mut(feature.token) {
                token.push((feature.hash, feature.value));
            }
        });
        passages.push(passage);
    });
    let mut detectors = hits.detectors();
    detectors.retain(|detector| !detector.is_leak());
    Reading {
        passages,
        whole: detectors
            .iter()
            .map(|d| (features::detector(d.id), score::DETECTOR_VALUE))
            .collect(),
        detectors,
    }
}

/// The windows over so many tokens.
pub fn windows(tokens: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    score::windows(tokens)
}

/// The first slot of a feature in a table of `slots`, a power of two, and what tells it from others there.
#[must_use]
pub fn place(hash: u64, slots: usize) -> (usize, [u8; 3]) {
    (
        weights::slot_of(hash, slots.saturating_sub(1)),
        weights::tag_of(hash),
    )
}

/// The literals that one pass finds, for baselines of benches.
#[must_use]
pub fn literals() -> Vec<String> {
    matcher::list_literals().into_keys().collect()
}
