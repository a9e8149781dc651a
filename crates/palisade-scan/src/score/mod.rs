//! One score for a passage: how much it reads like instructions to a model.
//!
//! Phrases are known or unknown; a score adds up. The words of the [lexicon](lexicon) are found in the pass that finds the
//! literals of the detectors. Where signals of two kinds stand near each other, the words around them are read, and each run of
//! [`WINDOW`] tokens is weighed with a table that was learned. All of it is integer arithmetic: every platform has the same score.
//!
//! The work is linear in the text: a token is read once, and has few features.

pub(crate) mod features;
pub(crate) mod lexicon;
pub(crate) mod signal;
pub(crate) mod weights;

use std::ops::Range;

use features::{Feature, Mark, Origin};
use signal::Signal;

/// Tokens that are weighed together: some two sentences.
pub(crate) const WINDOW: usize = 24;
/// Tokens from one window to the next.
pub(crate) const STEP: usize = 4;
/// Bytes without a signal that end a passage.
const GAP: usize = 200;
/// Bytes around a core signal that are read with it.
const REACH: usize = 160;
/// Texts of so many bytes are read for any one signal; in longer ones two must stand together, and one be a core signal.
const SHORT: usize = 512;
/// Signals of a passage; what follows is the next one.
const MOST_MARKS: usize = 256;
/// Signals that a passage shares with the one before it, if that was cut.
const SHARED_MARKS: usize = 6;
/// What the norm of a window is at least, squared: few words are no proof.
pub(crate) const LEAST_NORM: i32 = 12;

/// How much a detector that finds something counts.
pub(crate) const DETECTOR_VALUE: i32 = 4;

/// The best window of a passage.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    /// In sixteenths of a weight.
    pub(crate) score: i32,
    /// The window's bytes in the text.
    pub(crate) span: Range<usize>,
    /// The passage that it is in.
    passage: Range<usize>,
    /// Its tokens, counted from the beginning of the passage.
    window: Range<usize>,
}

/// Collects signals as they are found, and hands over passages.
#[derive(Debug, Default)]
pub(crate) struct Gatherer {
    marks: Vec<Mark>,
}

/// Takes each passage: the bytes that it is in, and its signals.
pub(crate) type Reader<'a> = dyn FnMut(&[u8], Range<usize>, &[Mark]) + 'a;

impl Gatherer {
    /// Adds a word of the lexicon, found in `text`. Ends must not go back.
    pub(crate) fn add(
        &mut self,
        text: &[u8],
        span: Range<usize>,
        signal: Signal,
        read: &mut Reader<'_>,
    ) {
        let before = |m: &Mark| span.start > m.span.end.saturating_add(GAP);
        if self.marks.last().is_some_and(before) {
            self.finish(text, read);
        } else if self.marks.len() >= MOST_MARKS {
            let shared = self.marks.split_off(MOST_MARKS - SHARED_MARKS);
            self.finish(text, read);
            self.marks = shared;
        }
        self.marks.push(Mark { span, signal });
    }

    /// Hands over what was gathered: the parts near a core signal, if they are worth reading.
    pub(crate) fn finish(&mut self, text: &[u8], read: &mut Reader<'_>) {
        let least = if text.len() <= SHORT { 1 } else { 2 };
        let is_short = text.len() <= SHORT;
        let mut rest = self.marks.as_slice();
        while let Some(core) = rest
            .iter()
            .position(|mark| is_short || mark.signal.is_core())
        {
            let (skipped, from_core) = rest.split_at(core);
            let Some(first) = from_core.first() else {
                break;
            };
            let start = first.span.start.saturating_sub(REACH);
            let before = skipped.iter().rev().take_while(|m| m.span.start >= start);
            let begin = core - before.count();
            // As far as core signals follow each other.
            let mut end = first.span.end.saturating_add(REACH);
            let mut count = 0;
            for mark in from_core {
                if mark.span.start > end {
                    break;
                }
                count += 1;
                if is_short || mark.signal.is_core() {
                    end = mark.span.end.saturating_add(REACH);
                }
            }
            let marks = rest.get(begin..core + count).unwrap_or_default();
            let kinds = marks.iter().fold(0_u32, |set, m| set | m.signal.bit());
            if kinds.count_ones() >= least {
                let from = floor(text, start);
                let to = floor(text, end.min(text.len()));
                read(text, from..to, marks);
            }
            rest = rest.get(core + count..).unwrap_or_default();
        }
        self.marks.clear();
    }
}

/// The beginning of the character that `at` is in.
fn floor(text: &[u8], mut at: usize) -> usize {
    while at > 0 && text.get(at).is_some_and(|b| b & 0xC0 == 0x80) {
        at -= 1;
    }
    at
}

/// The first and last tokens of each window over `count` tokens.
pub(crate) fn windows(count: usize) -> impl Iterator<Item = Range<usize>> {
    let last = count.saturating_sub(WINDOW).div_ceil(STEP);
    (0..=last)
        .map(move |i| i * STEP..(i * STEP + WINDOW).min(count))
        .filter(|range| !range.is_empty())
}

/// The best window of the passage of `text` in `passage`, none if it has no token.
pub(crate) fn judge(text: &[u8], passage: Range<usize>, marks: &[Mark]) -> Option<Judged> {
    let tokens = features::tokens(text, passage.clone());
    // Of the tokens before each: the sum of the weights, and of the squares of the values.
    let mut sums = vec![(0_i32, 0_i32); tokens.len() + 1];
    features::visit(text, &tokens, marks, |feature| {
        if let Some(weight) = weights::weight(feature.hash)
            && let Some((sum, norm)) = sums.get_mut(feature.token + 1)
        {
            *sum += weight * feature.value;
            *norm += feature.value * feature.value;
        }
    });
    let mut total = (0, 0);
    for (sum, norm) in &mut sums {
        total = (total.0 + *sum, total.1 + *norm);
        (*sum, *norm) = total;
    }
    let (score, window) = windows(tokens.len())
        .filter_map(|window| {
            let (before, upto) = (sums.get(window.start)?, sums.get(window.end)?);
            Some((scale(upto.0 - before.0, upto.1 - before.1), window))
        })
        .max_by_key(|(score, window)| (*score, std::cmp::Reverse(window.start)))?;
    let first = tokens.get(window.start)?;
    let last = tokens.get(window.end.checked_sub(1)?)?;
    Some(Judged {
        score: score.saturating_add(weights::bias()),
        span: first.span.start..last.span.end,
        passage,
        window,
    })
}

/// What weighed most in a window, at most three: names of signals, or `wording`.
pub(crate) fn explain(text: &[u8], judged: &Judged, marks: &[Mark]) -> Vec<&'static str> {
    let tokens = features::tokens(text, judged.passage.clone());
    let mut sums: Vec<(&'static str, i32)> = Vec::new();
    let mut add = |name: &'static str, weight: i32| match sums.iter_mut().find(|(n, _)| *n == name)
    {
        Some((_, sum)) => *sum += weight,
        None => sums.push((name, weight)),
    };
    features::visit(text, &tokens, marks, |feature| {
        let Feature {
            token,
            hash,
            value,
            origin,
        } = feature;
        if !judged.window.contains(&token) {
            return;
        }
        let weight = weights::weight(hash).unwrap_or(0) * value;
        match origin {
            Origin::Wording => add("wording", 2 * weight),
            Origin::One(signal) => add(signal.name(), 2 * weight),
            // Half for each.
            Origin::Two(first, second) => {
                add(first.name(), weight);
                add(second.name(), weight);
            }
        }
    });
    sums.retain(|(_, weight)| *weight > 0);
    sums.sort_by_key(|(name, weight)| (std::cmp::Reverse(*weight), *name));
    sums.into_iter().take(3).map(|(name, _)| name).collect()
}

/// What a detector that finds something adds to the score.
pub(crate) fn of_detector(id: &str) -> i32 {
    weights::weight(features::detector(id)).unwrap_or(0) * DETECTOR_VALUE * 16
}

/// The sum of weights over the root of the norm, in sixteenths of a weight.
fn scale(sum: i32, norm: i32) -> i32 {
    let squared = i64::from(norm.saturating_add(LEAST_NORM)) << 16;
    let root = squared.isqrt().max(1);
    i32::try_from(i64::from(sum) * 4096 / root).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn gather(text: &str, words: &[(&str, Signal)]) -> Vec<(Range<usize>, usize)> {
        let mut passages = Vec::new();
        let mut gatherer = Gatherer::default();
        let mut read = |_: &[u8], range: Range<usize>, marks: &[Mark]| {
            passages.push((range, marks.len()));
        };
        let mut found: Vec<_> = words
            .iter()
            .flat_map(|(word, signal)| {
                let places = text.match_indices(word);
                places.map(move |(at, _)| (at..at + word.len(), *signal))
            })
            .collect();
        found.sort_by_key(|(span, _)| span.end);
        for (span, signal) in found {
            gatherer.add(text.as_bytes(), span, signal, &mut read);
        }
        gatherer.finish(text.as_bytes(), &mut read);
        passages
    }

    #[test]
    fn a_long_text_is_read_around_core_signals_alone() {
        let words = [("prompt", Signal::Prompt), ("urgent", Signal::Urgency)];
        let filler = "x ".repeat(1000);
        let text = format!("{filler}urgent prompt {filler}urgent {filler}prompt {filler}");
        let at = filler.len();
        let range = at + 7 - REACH..at + 13 + REACH;
        assert_eq!(gather(&text, &words), [(range, 2)]);
        assert_eq!(gather("urgent", &words), [(0..6, 1)]);
    }

    #[test]
    fn a_passage_is_bounded() {
        let text = "prompt urgent ".repeat(1000);
        let passages = gather(
            &text,
            &[("prompt", Signal::Prompt), ("urgent", Signal::Urgency)],
        );
        assert!(passages.len() > 5);
        for (range, marks) in passages {
            assert!(marks <= MOST_MARKS);
            assert!(range.len() <= MOST_MARKS * 14 + 2 * REACH, "{range:?}");
        }
    }

    #[test]
    fn windows_cover_every_token() {
        for count in [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 10 * WINDOW + 3] {
            let mut next = 0;
            for window in windows(count) {
                assert!(window.start <= next && window.len() <= WINDOW);
                next = window.end;
            }
            assert_eq!(next, count);
        }
    }

    #[test]
    fn the_table_is_one() {
        let least = weights::thresholds();
        assert!(weights::bias() < least.support);
        assert!(least.support < least.possible && least.possible < least.likely);
        assert!(least.likely < least.certain);
        // An empty slot is told from a learned one.
        assert_eq!(weights::weight(0x0123_4567_89AB_CDEF), None);
        assert!(weights::weight(features::detector("instruction.override")).unwrap() > 0);
    }
}
