//! Many literals in one pass, by the hash of their first four bytes.
//!
//! An automaton over thousands of literals walks memory that no cache holds. Here most bytes of a text cost a look at two flags,
//! and only where the first bytes are those of a literal are literals compared. A flag says two things: whether a literal may begin
//! where a word does, and whether one may begin inside of a word. Many words begin as a literal does. So before literals are compared,
//! their first six bytes are asked for too.

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
    /// For each key [`AT_WORD`] and [`IN_WORD`], if one of its literals may begin there.
    long: Box<[u8; HASHES]>,
    short: Box<[u8; SHORT_HASHES]>,
    /// A bit for the first six bytes of each literal that has them, and for each of three, and after those one for each key with a
    /// literal of another length.
    longer: Box<[u64; (BEGINNINGS + KEYS) / 64]>,
    /// For each key where its literals begin in `entries`, and the end of the last.
    starts: Vec<u16>,
    entries: Vec<Entry>,
    /// What follows the first sixteen bytes of each.
    rests: Vec<Box<[u8]>>,
    /// Those of one byte, which have no key, and what they are.
    single: Vec<(u8, Vec<usize>)>,
}

/// A literal, in the order of keys.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Its first eight bytes and the eight after them, and which of their bits count.
    first: u64,
    mask: u64,
    second: u64,
    second_mask: u64,
    len: usize,
    literal: usize,
}

/// Literals of four bytes or more have a hash of four as their key, those of two or three a hash of two after all of those.
const KEYS: usize = HASHES + SHORT_HASHES;
const HASHES: usize = 1 << 15;
const SHORT_HASHES: usize = 1 << 12;
/// Where a literal may begin.
const AT_WORD: u8 = 1;
const IN_WORD: u8 = 2;
/// Bits for beginnings of six bytes and of three.
const BEGINNINGS: usize = 1 << 16;

/// The key of a literal that begins with these four bytes, the first in the lowest bits.
fn long_key(four: u32) -> usize {
    usize::try_from(four.wrapping_mul(0x9E37_79B1) >> 17).unwrap_or(0)
}

/// The key of a literal of two or three bytes, without those of longer ones.
fn short_key(four: u32) -> usize {
    usize::try_from((four << 16).wrapping_mul(0x9E37_79B1) >> 20).unwrap_or(0)
}

/// The bit of the lowest six of these bytes.
fn six(eight: u64) -> usize {
    usize::try_from((eight << 16).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48).unwrap_or(0)
}

/// The bit of the lowest three of these bytes.
fn three(four: u32) -> usize {
    usize::try_from((four << 8).wrapping_mul(0x9E37_79B1) >> 16).unwrap_or(0)
}

/// For each byte what a place after it is.
static AFTER: [u8; 256] = {
    let mut after = [AT_WORD; 256];
    let mut byte = 0_u8;
    loop {
        #[expect(
            clippy::indexing_slicing,
            reason = "evaluated when compiled, and a byte is in bounds"
        )]
        if byte.is_ascii_alphanumeric() {
            after[byte as usize] = IN_WORD;
        }
        if byte == u8::MAX {
            break after;
        }
        byte += 1;
    }
};

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

/// Which bits count of so many bytes, eight at most.
fn mask_of(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        1..=7 => (1 << (8 * bytes)) - 1,
        8.. => u64::MAX,
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
        let mut long = Box::new([0_u8; HASHES]);
        let mut short = Box::new([0_u8; SHORT_HASHES]);
        let mut longer = Box::new([0_u64; (BEGINNINGS + KEYS) / 64]);
        let mut keyed = Vec::new();
        let mut single: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (literal, (text, at_word)) in literals.into_iter().enumerate() {
            let bytes = text.as_bytes();
            let (flags, key): (&mut [u8], _) = match *bytes {
                [] => return None,
                [one] => {
                    single.entry(one).or_default().push(literal);
                    continue;
                }
                [a, b] | [a, b, _] => (&mut *short, short_key(u32::from_le_bytes([a, b, 0, 0]))),
                [a, b, c, d, ..] => (&mut *long, long_key(u32::from_le_bytes([a, b, c, d]))),
            };
            *flags.get_mut(key)? |= AT_WORD | if at_word { 0 } else { IN_WORD };
            let key = if bytes.len() < 4 { HASHES + key } else { key };
            let bit = match *bytes {
                [a, b, c] => three(u32::from_le_bytes([a, b, c, 0])),
                [_, _, _, _, _, _, ..] => six(little_endian(bytes)),
                [..] => BEGINNINGS + key,
            };
            *longer.get_mut(bit / 64)? |= 1 << (bit % 64);
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
                mask: mask_of(bytes.len()),
                second: little_endian(bytes.get(8..).unwrap_or_default()),
                second_mask: mask_of(bytes.len().saturating_sub(8)),
                len: bytes.len(),
                literal,
            });
            rests.push(bytes.get(16..).unwrap_or_default().into());
        }
        let mut total = 0_u16;
        for start in &mut starts {
            total = total.checked_add(*start)?;
            *start = total;
        }
        Some(Self {
            long,
            short,
            longer,
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
        let mut here = AT_WORD;
        for (start, bytes) in text.windows(8).enumerate() {
            if let Some(eight) = bytes.first_chunk::<8>() {
                let eight = u64::from_le_bytes(*eight);
                self.look(text, start, eight, &mut here, &mut found);
            }
        }
        // At the end, shorter ones can still begin.
        for start in text.len().saturating_sub(7)..text.len() - 1 {
            let eight = little_endian(text.get(start..).unwrap_or_default());
            self.look(text, start, eight, &mut here, &mut found);
        }
        found.sort_unstable();
        found
    }

    /// Finds what begins with `eight` at `start`. `here` is what that place is, and then what the next one is.
    #[inline(always)]
    fn look(&self, text: &[u8], start: usize, eight: u64, here: &mut u8, found: &mut Vec<Found>) {
        let four = u32::try_from(eight & 0xFFFF_FFFF).unwrap_or(0);
        let (long, short) = (long_key(four), short_key(four));
        let has_long = self.long.get(long).unwrap_or(&0) & *here;
        let has_short = self.short.get(short).unwrap_or(&0) & *here;
        if has_long | has_short != 0 {
            if has_long != 0 && self.may_begin(long, six(eight)) {
                self.compare(text, start, eight, long, found);
            }
            let short = HASHES + short;
            if has_short != 0 && self.may_begin(short, three(four)) {
                self.compare(text, start, eight, short, found);
            }
        }
        let first = usize::from(four.to_le_bytes()[0]);
        *here = AFTER.get(first).copied().unwrap_or(AT_WORD);
    }

    /// Whether a literal with this key may begin as the bytes of `beginning` do.
    fn may_begin(&self, key: usize, beginning: usize) -> bool {
        let has = |bit: usize| self.longer.get(bit / 64).unwrap_or(&0) >> (bit % 64);
        (has(beginning) | has(BEGINNINGS + key)) & 1 != 0
    }

    /// Compares the literals of a key with what begins at `start`, of which eight bytes are given: zeros are past the end.
    #[inline(never)]
    fn compare(&self, text: &[u8], start: usize, eight: u64, key: usize, found: &mut Vec<Found>) {
        let (Some(from), Some(to)) = (self.starts.get(key), self.starts.get(key + 1)) else {
            return;
        };
        let (from, to) = (usize::from(*from), usize::from(*to));
        let rest = text.get(start..).unwrap_or_default();
        let after = rest.get(8..).unwrap_or_default();
        let second = match after.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => little_endian(after),
        };
        let entries = self.entries.get(from..to).unwrap_or_default();
        for (entry, index) in entries.iter().zip(from..) {
            if (eight & entry.mask ^ entry.first) | (second & entry.second_mask ^ entry.second) != 0
                || entry.len > rest.len()
            {
                continue;
            }
            let is_equal = entry.len <= 16
                || self.rests.get(index).is_some_and(|tail| {
                    rest.get(16..entry.len).is_some_and(|rest| *rest == **tail)
                });
            if is_equal {
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
