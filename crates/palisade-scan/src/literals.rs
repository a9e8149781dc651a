//! Many literals in one pass, by the hash of their first four bytes.
//!
//! An automaton over thousands of literals walks memory that no cache holds. Here most bytes of a text cost a look at two bits,
//! and only where the first bytes are those of a literal are literals compared. The bits stand twice: for places where a word
//! begins, and for places inside words, where the literals that begin words need not be looked for.

use std::collections::BTreeMap;

/// A literal in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Past its last byte; first, so that matches are in the order in which a reader comes to their ends.
    pub(crate) end: usize,
    pub(crate) start: usize,
    /// Which one of those that the finder was made of.
    pub(crate) literal: usize,
}

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Literals {
    /// A bit for each key at the beginning of a word, and after those one for each key inside of words.
    bits: Box<[u64; 2 * WORDS]>,
    /// For each key where its literals begin in `entries`, and the end of the last.
    starts: Vec<u16>,
    entries: Vec<Entry>,
    /// What follows the first eight bytes of each.
    rests: Vec<Box<[u8]>>,
    /// Those of one byte, which have no key, and what they are.
    single: Vec<(u8, Vec<usize>)>,
}

/// A literal, in the order of keys.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Its first eight bytes, and which of them count.
    first: u64,
    mask: u64,
    len: usize,
    literal: usize,
}

/// Literals of four bytes or more have the hash of four as their key, those of two or three their first two after all hashes.
const KEYS: usize = HASHES + (1 << 16);
const HASHES: usize = 1 << 16;
const WORDS: usize = KEYS / 64;

/// The key of a literal that begins with these four bytes, the first in the lowest bits.
fn long_key(four: u32) -> usize {
    usize::try_from(four.wrapping_mul(0x9E37_79B1) >> 16).unwrap_or(0)
}

/// The key of a literal of two or three bytes.
fn short_key(four: u32) -> usize {
    usize::try_from(four & 0xFFFF).unwrap_or(0) + HASHES
}

/// For each byte before a place where its words of the table begin.
static AFTER: [usize; 256] = {
    let mut after = [0; 256];
    let mut byte = 0_u8;
    loop {
        #[expect(
            clippy::indexing_slicing,
            reason = "evaluated when compiled, and a byte is in bounds"
        )]
        if byte.is_ascii_alphanumeric() {
            after[byte as usize] = WORDS;
        }
        if byte == u8::MAX {
            break after;
        }
        byte += 1;
    }
};

/// The word of the table and the bit in it.
fn place(key: usize, in_word: bool) -> (usize, u64) {
    let word = key / 64 + if in_word { WORDS } else { 0 };
    (word, 1 << (key % 64))
}

/// Hands over each place of `byte`. Most stretches have none, and are searched many bytes at a time.
fn find_byte(text: &[u8], byte: u8, mut hand_over: impl FnMut(usize)) {
    const STRETCH: usize = 64;
    for (stretch, number) in text.chunks(STRETCH).zip(0..) {
        if stretch.contains(&byte) {
            for (at, _) in stretch.iter().enumerate().filter(|(_, b)| **b == byte) {
                hand_over(number * STRETCH + at);
            }
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .rev()
        .fold(0, |all, b| all << 8 | u64::from(*b))
}

impl Literals {
    /// Makes a finder of `literals` in lower case; those with `true` are looked for only where no letter or digit of ASCII is
    /// before them. None if there are too many, or one is empty.
    pub(crate) fn new<'a>(literals: impl IntoIterator<Item = (&'a str, bool)>) -> Option<Self> {
        let mut bits = Box::new([0_u64; 2 * WORDS]);
        let mut keyed = Vec::new();
        let mut single: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (literal, (text, at_word)) in literals.into_iter().enumerate() {
            let bytes = text.as_bytes();
            let key = match *bytes {
                [] => return None,
                [one] => {
                    single.entry(one).or_default().push(literal);
                    continue;
                }
                [a, b] | [a, b, _] => short_key(u32::from_le_bytes([a, b, 0, 0])),
                [a, b, c, d, ..] => long_key(u32::from_le_bytes([a, b, c, d])),
            };
            for in_word in [false, true] {
                if !(at_word && in_word) {
                    let (word, bit) = place(key, in_word);
                    *bits.get_mut(word)? |= bit;
                }
            }
            keyed.push((key, literal, bytes));
        }
        keyed.sort_unstable();
        let mut starts = vec![0_u16; KEYS + 1];
        let (mut entries, mut rests) = (Vec::new(), Vec::new());
        for (key, literal, bytes) in keyed {
            let count = starts.get_mut(key + 1)?;
            *count = count.checked_add(1)?;
            entries.push(Entry {
                first: little_endian(bytes),
                mask: u64::MAX >> (64 - 8 * bytes.len().min(8)),
                len: bytes.len(),
                literal,
            });
            rests.push(bytes.get(8..).unwrap_or_default().into());
        }
        let mut total = 0_u16;
        for start in &mut starts {
            total = total.checked_add(*start)?;
            *start = total;
        }
        Some(Self {
            bits,
            starts,
            entries,
            rests,
            single: single.into_iter().collect(),
        })
    }

    /// Every literal in `text`, which is in lower case, in the order of their ends; of equal ends the longest first.
    /// Those that must begin a word can be told inside of one too.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        for (byte, literals) in &self.single {
            find_byte(text, *byte, |start| {
                found.extend(literals.iter().map(|literal| Found {
                    end: start + 1,
                    start,
                    literal: *literal,
                }));
            });
        }
        if text.len() < 2 {
            return found;
        }
        let mut before = 0;
        let mut look = |start: usize, four: u32| {
            let bit = |key: usize| {
                let bits = self.bits.get(key / 64 + before).unwrap_or(&0);
                bits >> (key % 64) & 1
            };
            let (long, short) = (long_key(four), short_key(four));
            if bit(long) | bit(short) != 0 {
                self.compare_both(text, start, [long, short], before, &mut found);
            }
            let first = usize::from(four.to_le_bytes()[0]);
            before = AFTER.get(first).copied().unwrap_or(0);
        };
        for (start, bytes) in text.windows(4).enumerate() {
            if let [a, b, c, d] = *bytes {
                look(start, u32::from_le_bytes([a, b, c, d]));
            }
        }
        // At the end, one of two or three bytes can still begin.
        for start in text.len().saturating_sub(3)..text.len() - 1 {
            let at = |n: usize| text.get(start + n).copied().unwrap_or(0);
            look(start, u32::from_le_bytes([at(0), at(1), at(2), 0]));
        }
        found.sort_unstable();
        found
    }

    /// Compares the literals of those keys whose bits are set.
    #[inline(never)]
    fn compare_both(
        &self,
        text: &[u8],
        start: usize,
        keys: [usize; 2],
        before: usize,
        found: &mut Vec<Found>,
    ) {
        for key in keys {
            let bits = self.bits.get(key / 64 + before).unwrap_or(&0);
            if bits >> (key % 64) & 1 != 0 {
                self.compare(text, start, key, found);
            }
        }
    }

    fn compare(&self, text: &[u8], start: usize, key: usize, found: &mut Vec<Found>) {
        let (Some(from), Some(to)) = (self.starts.get(key), self.starts.get(key + 1)) else {
            return;
        };
        let (from, to) = (usize::from(*from), usize::from(*to));
        let rest = text.get(start..).unwrap_or_default();
        let first = match rest.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => little_endian(rest),
        };
        let entries = self.entries.get(from..to).unwrap_or_default();
        for (entry, index) in entries.iter().zip(from..) {
            if first & entry.mask != entry.first || entry.len > rest.len() {
                continue;
            }
            let tail = rest.get(8..entry.len).unwrap_or_default();
            if self.rests.get(index).is_some_and(|rest| **rest == *tail) {
                found.push(Found {
                    end: start + entry.len,
                    start,
                    literal: entry.literal,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use aho_corasick::AhoCorasick;

    use super::*;
    use crate::{detector::Detector, matcher};

    /// Those of `found` that stand where they may.
    fn at_words(literals: &[(String, bool)], text: &[u8], mut found: Vec<Found>) -> Vec<Found> {
        found.retain(|f| {
            let inside = f.start > 0 && text[f.start - 1].is_ascii_alphanumeric();
            !(literals[f.literal].1 && inside)
        });
        found
    }

    #[test]
    fn it_finds_what_an_automaton_finds() {
        let literals: Vec<(String, bool)> = matcher::list_literals()
            .into_iter()
            .map(|(text, owners)| (text, owners.iter().all(|owner| owner.begins_words())))
            .collect();
        let pairs = literals.iter().map(|(text, at_word)| (&**text, *at_word));
        let finder = Literals::new(pairs).unwrap();
        let mut texts: Vec<Vec<u8>> = Detector::ALL
            .iter()
            .flat_map(|d| d.positives.iter().chain(d.negatives))
            .map(|text| text.to_ascii_lowercase().into_bytes())
            .collect();
        // Every literal alone, cut, and between letters.
        for (text, _) in &literals {
            let text = text.as_bytes();
            texts.extend([text.to_vec(), text[..text.len() - 1].to_vec()]);
            texts.push([b"x", text, b"y"].concat());
            texts.push([b" ", text, text].concat());
        }
        let mut state = 7_u64;
        for _ in 0..400 {
            let mut text = Vec::new();
            for _ in 0..24 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let pick = usize::try_from(state >> 33).unwrap();
                let literal = literals[pick % literals.len()].0.as_bytes();
                text.extend(&literal[pick % 3 % literal.len()..]);
                text.extend([b" ", b"-", b"a", &b"\xC3"[..]][pick % 4]);
            }
            texts.push(text);
        }
        let automaton = AhoCorasick::new(literals.iter().map(|(text, _)| text)).unwrap();
        for text in texts {
            let mut all: Vec<_> = automaton
                .find_overlapping_iter(&text)
                .map(|m| Found {
                    end: m.end(),
                    start: m.start(),
                    literal: m.pattern().as_usize(),
                })
                .collect();
            all.sort_unstable();
            let expected = at_words(&literals, &text, all);
            let found = at_words(&literals, &text, finder.find(&text));
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn an_empty_literal_is_no_literal() {
        assert!(Literals::new([("", false)]).is_none());
        assert_eq!(Literals::new([("@", false)]).unwrap().find(b"").len(), 0);
        assert_eq!(
            Literals::new([("@", false)]).unwrap().find(b"a@b@").len(),
            2
        );
    }
}
