//! Texts as numbers: passages, tokens, and the features of each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use palisade_scan::training::{self, LEAST_NORM};

use crate::corpus::{Group, Row};

/// One text.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) injection: bool,
    /// How much it counts when it is learned from; 0 if it must not be.
    pub(crate) weight: f64,
    pub(crate) source: String,
    pub(crate) passages: Vec<Passage>,
    /// Features of the text as a whole.
    pub(crate) whole: Vec<(u32, f64)>,
    /// Whether a pattern finds something, whatever the score.
    pub(crate) by_pattern: bool,
    /// Whether one does that needs no support by the score.
    pub(crate) by_trusted: bool,
}

/// The features of each token, one list after another.
#[derive(Debug)]
pub(crate) struct Passage {
    features: Vec<(u32, u8)>,
    /// Where the features of each token begin in `features`, and their end.
    starts: Vec<u32>,
}

/// What is seen of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything.
    Whole,
    /// Signals without wording: as if it were in a language that was never seen.
    Signals,
}

/// A run of tokens of a text.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) example: usize,
    pub(crate) passage: usize,
    pub(crate) tokens: Range<usize>,
}

/// Everything that is learned from and judged.
#[derive(Debug)]
pub(crate) struct Examples {
    pub(crate) all: Vec<Example>,
    /// The hash of each feature that is used.
    pub(crate) hashes: Vec<u64>,
}

/// Texts that a feature must be in to be used.
const LEAST_TEXTS: u32 = 4;

impl Examples {
    /// Reads the features of all rows. Features that are rare among those to be learned from are left out.
    pub(crate) fn read(rows: &[Row]) -> Self {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        let read: Vec<_> = rows.iter().map(|row| training::read(&row.text)).collect();
        for (row, read) in rows.iter().zip(&read) {
            if weight(row) == 0.0 {
                continue;
            }
            let features: BTreeSet<u64> = read
                .passages
                .iter()
                .flatten()
                .flatten()
                .chain(&read.whole)
                .map(|(hash, _)| *hash)
                .collect();
            for hash in features {
                *seen.entry(hash).or_default() += 1;
            }
        }
        let mut hashes: Vec<u64> = seen
            .iter()
            .filter(|(_, texts)| **texts >= LEAST_TEXTS)
            .map(|(hash, _)| *hash)
            .collect();
        hashes.sort_unstable();
        let index: HashMap<u64, u32> = hashes
            .iter()
            .zip(0_u32..)
            .map(|(hash, index)| (*hash, index))
            .collect();
        let all = rows
            .iter()
            .zip(read)
            .map(|(row, read)| Example {
                injection: row.is_injection(),
                weight: weight(row),
                source: row.source(),
                passages: read
                    .passages
                    .iter()
                    .map(|p| Passage::new(p, &index))
                    .collect(),
                whole: read
                    .whole
                    .iter()
                    .filter_map(|(hash, value)| Some((*index.get(hash)?, f64::from(*value))))
                    .collect(),
                by_pattern: !read.detectors.is_empty(),
                by_trusted: read.detectors.iter().any(|d| !d.needs_support()),
            })
            .collect();
        Self { all, hashes }
    }

    /// The features of a window with their values, divided by its norm.
    pub(crate) fn vector(&self, window: &Window, view: View) -> Vec<(u32, f64)> {
        let Some(example) = self.all.get(window.example) else {
            return Vec::new();
        };
        let features = example
            .passages
            .get(window.passage)
            .map_or(&[][..], |p| p.features_of(&window.tokens));
        let mut values: BTreeMap<u32, f64> = BTreeMap::new();
        let mut norm = f64::from(LEAST_NORM);
        for (feature, value) in features {
            let value = f64::from(*value);
            if view == View::Signals && value < 2.0 {
                continue;
            }
            norm += value * value;
            *values.entry(*feature).or_default() += value;
        }
        let root = norm.sqrt();
        values
            .into_iter()
            .map(|(f, v)| (f, v / root))
            .chain(example.whole.iter().copied())
            .collect()
    }

    /// The window of a text with the highest score by `weights`, and the score without the bias.
    pub(crate) fn best(&self, example: usize, weights: &[f64]) -> Option<(f64, Window)> {
        let of = self.all.get(example)?;
        let weight = |feature: &u32| usize::try_from(*feature).ok().and_then(|f| weights.get(f));
        let whole: f64 = of
            .whole
            .iter()
            .map(|(f, value)| weight(f).unwrap_or(&0.0) * value)
            .sum();
        let nothing = Window {
            example,
            passage: usize::MAX,
            tokens: 0..0,
        };
        let mut best = (!of.whole.is_empty()).then_some((whole, nothing));
        for (number, passage) in of.passages.iter().enumerate() {
            for (score, tokens) in passage.scores(weights) {
                let score = score + whole;
                if best.as_ref().is_none_or(|(most, _)| score > *most) {
                    let window = Window {
                        example,
                        passage: number,
                        tokens,
                    };
                    best = Some((score, window));
                }
            }
        }
        best
    }

    /// Windows of a text that do not overlap.
    pub(crate) fn separate_windows(&self, example: usize) -> Vec<Window> {
        let Some(of) = self.all.get(example) else {
            return Vec::new();
        };
        let mut windows = Vec::new();
        if of.passages.is_empty() && !of.whole.is_empty() {
            windows.push(Window {
                example,
                passage: usize::MAX,
                tokens: 0..0,
            });
        }
        for (passage, tokens) in of.passages.iter().enumerate() {
            let mut end = 0;
            for window in training::windows(tokens.len()) {
                if window.start >= end {
                    end = window.end;
                    windows.push(Window {
                        example,
                        passage,
                        tokens: window,
                    });
                }
            }
        }
        windows
    }
}

impl Passage {
    fn new(tokens: &[Vec<(u64, i32)>], index: &HashMap<u64, u32>) -> Self {
        let mut passage = Self {
            features: Vec::new(),
            starts: vec![0],
        };
        for token in tokens {
            passage.features.extend(
                token.iter().filter_map(|(hash, value)| {
                    Some((*index.get(hash)?, u8::try_from(*value).ok()?))
                }),
            );
            let end = u32::try_from(passage.features.len()).unwrap_or(u32::MAX);
            passage.starts.push(end);
        }
        passage
    }

    /// How many tokens it has.
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn features_of(&self, tokens: &Range<usize>) -> &[(u32, u8)] {
        let at = |token: usize| {
            self.starts
                .get(token)
                .and_then(|start| usize::try_from(*start).ok())
                .unwrap_or(0)
        };
        self.features
            .get(at(tokens.start)..at(tokens.end))
            .unwrap_or_default()
    }

    /// The score of each window, without the bias.
    fn scores(&self, weights: &[f64]) -> Vec<(f64, Range<usize>)> {
        let mut sums = vec![(0.0, 0.0)];
        let mut total = (0.0, 0.0);
        for token in 0..self.len() {
            for (feature, value) in self.features_of(&(token..token + 1)) {
                let value = f64::from(*value);
                let weight = usize::try_from(*feature).ok().and_then(|f| weights.get(f));
                total.0 += weight.unwrap_or(&0.0) * value;
                total.1 += value * value;
            }
            sums.push(total);
        }
        training::windows(self.len())
            .filter_map(|window| {
                let (before, upto) = (sums.get(window.start)?, sums.get(window.end)?);
                let norm: f64 = upto.1 - before.1 + f64::from(LEAST_NORM);
                Some(((upto.0 - before.0) / norm.sqrt(), window))
            })
            .collect()
    }
}

/// What a sentence of our own counts: many are made of one line.
const PHRASE: f64 = 0.6;

/// What a row counts. Tool results and jailbreaks that read like ordinary requests teach little, and cost false alarms.
fn weight(row: &Row) -> f64 {
    if !row.may_be_learned() {
        return 0.0;
    }
    if row.is_phrase() {
        return PHRASE;
    }
    match row.group() {
        Group::Subtle => 0.0,
        Group::AboutAttacks => 0.2,
        // Encoded text is seldom harmless in data, however much of it is here.
        Group::HardBenign if row.kind == "encoded_benign" => 0.1,
        Group::Jailbreak => 0.3,
        // There are few of them, and none are nearer to attacks.
        Group::Prompt => 4.0,
        Group::Ordinary | Group::HardBenign => 1.0,
        Group::Direct | Group::Indirect | Group::Obfuscated | Group::OtherLanguage => 1.5,
    }
}
