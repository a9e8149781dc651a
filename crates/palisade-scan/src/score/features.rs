//! What the score is made of: words, their neighbours, parts of words, and signals near each other, each as a number.
//!
//! Every feature belongs to the token that completes it. So the score of a stretch of tokens is a difference of two sums, and no
//! length of text makes a token dearer.

use std::ops::Range;

use crate::score::signal::Signal;

/// A word of the lexicon in a text.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) span: Range<usize>,
    pub(crate) signal: Signal,
}

/// Where a feature comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    Wording,
    One(Signal),
    Two(Signal, Signal),
}

/// One feature of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feature {
    /// The token's place in the stretch.
    pub(crate) token: usize,
    /// What it is: equal features of any text have the same hash, on every platform.
    pub(crate) hash: u64,
    /// How much it counts beside others.
    pub(crate) value: i32,
    pub(crate) origin: Origin,
}

/// Bytes between two signals that stand together, and that may belong together.
const NEAR: usize = 40;
const FAR: usize = 160;
/// Signals looked back at from each.
const LOOK_BACK: usize = 8;
/// How much a signal counts; a word counts 1.
const SIGNAL_VALUE: i32 = 2;
/// Longer words are codes or addresses, and all alike.
const LONGEST_WORD: usize = 40;

/// A word, a number, a mark of punctuation that tells something, or the end of a sentence.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) span: Range<usize>,
    hash: u64,
    /// Of its beginning; the same as `hash` for short words.
    stem: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of ASCII, all in capitals or not.
    Word { capitals: bool },
    /// With letters beyond ASCII.
    Foreign,
    /// A number or a sign.
    Other,
    /// The end of a sentence or line.
    Break,
}

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads `a` and `b` over all bits.
fn mix(a: u64, b: u64) -> u64 {
    let mut h = (a ^ b.rotate_left(29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h ^= h >> 31;
    h = h.wrapping_mul(0x94D0_49BB_1331_11EB);
    h ^ (h >> 29)
}

fn hash_bytes(bytes: impl Iterator<Item = u8>) -> u64 {
    let h = bytes.fold(SEED, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    h ^ (h >> 32)
}

/// The feature of a detector that finds something.
pub(crate) fn detector(id: &str) -> u64 {
    mix(20, hash_bytes(id.bytes()))
}

/// The features of `text` with its `marks`, which are in order of their ends, one after another.
pub(crate) fn visit(text: &[u8], tokens: &[Token], marks: &[Mark], mut visit: impl FnMut(Feature)) {
    for (token, at) in tokens.iter().enumerate() {
        let before = |n: usize| token.checked_sub(n).and_then(|i| tokens.get(i));
        let mut emit = |seed: u64, hash: u64| {
            visit(Feature {
                token,
                hash: mix(seed, hash),
                value: 1,
                origin: Origin::Wording,
            });
        };
        let is_break = at.kind == Kind::Break;
        if !is_break {
            emit(1, at.hash);
            if at.stem != at.hash {
                emit(2, at.stem);
            }
        }
        if at.kind == (Kind::Word { capitals: true }) {
            emit(3, at.hash);
        }
        let first = before(1).map_or(BREAK, |t| t.stem);
        if !(is_break && first == BREAK) {
            emit(4, mix(first, at.stem));
        }
        if let Some(second) = before(2)
            && !is_break
        {
            if first != BREAK {
                emit(5, mix(second.stem, at.stem));
            }
            emit(6, mix(mix(second.stem, first), at.stem));
        }
        if let Kind::Word { .. } = at.kind
            && at.span.len() >= 5
        {
            let word = text.get(at.span.clone()).unwrap_or_default();
            for gram in word.windows(4) {
                emit(8, hash_bytes(gram.iter().map(u8::to_ascii_lowercase)));
            }
        }
        if at.kind == Kind::Foreign {
            let word = text.get(at.span.clone()).unwrap_or_default();
            let starts: Vec<usize> = word
                .iter()
                .enumerate()
                .filter(|(_, b)| **b & 0xC0 != 0x80)
                .map(|(i, _)| i)
                .chain([word.len()])
                .collect();
            for gram in starts.windows(4) {
                if let [from, _, _, to] = gram
                    && let Some(gram) = word.get(*from..*to)
                {
                    emit(7, hash_bytes(gram.iter().map(u8::to_ascii_lowercase)));
                }
            }
        }
    }
    visit_signals(tokens, marks, visit);
}

fn visit_signals(tokens: &[Token], marks: &[Mark], mut visit: impl FnMut(Feature)) {
    for (index, mark) in marks.iter().enumerate() {
        let token = tokens
            .partition_point(|t| t.span.end <= mark.span.start)
            .min(tokens.len().saturating_sub(1));
        let mut emit = |hash: u64, origin: Origin| {
            visit(Feature {
                token,
                hash,
                value: SIGNAL_VALUE,
                origin,
            });
        };
        let own = mark.signal.number();
        // A record of many addresses says nothing more than one of two.
        let earlier = marks.get(..index).unwrap_or_default();
        let repeated = earlier
            .iter()
            .rev()
            .take(2)
            .any(|m| m.signal == mark.signal);
        if !repeated {
            emit(mix(10, own), Origin::One(mark.signal));
        }
        let mut seen = mark.signal.bit();
        let mut other: Option<Signal> = None;
        for before in earlier.iter().rev().take(LOOK_BACK) {
            let Some(gap) = mark.span.start.checked_sub(before.span.end) else {
                continue;
            };
            if gap > FAR {
                break;
            }
            if seen & before.signal.bit() != 0 {
                continue;
            }
            seen |= before.signal.bit();
            let pair = mix(before.signal.number(), own);
            let both = Origin::Two(before.signal, mark.signal);
            emit(mix(11, pair), both);
            if gap <= NEAR {
                emit(mix(12, pair), both);
            }
            match other {
                None => other = Some(before.signal),
                Some(middle) => {
                    if seen.count_ones() == 3 {
                        emit(
                            mix(13, mix(before.signal.number(), mix(middle.number(), own))),
                            both,
                        );
                    }
                }
            }
        }
    }
}

const BREAK: u64 = 0x0042_5245_414B;
const NUMBER: u64 = 0x4E_554D;
const LONG: u64 = 0x4C4F_4E47;

/// The tokens of `text` from `range`.
pub(crate) fn tokens(text: &[u8], range: Range<usize>) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(range.len() / 5 + 1);
    let mut at = range.start;
    while at < range.end {
        let Some(byte) = text.get(at).copied() else {
            break;
        };
        let end = match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                let (end, kind) = word_end(text, at, range.end);
                if kind == Kind::Break {
                    push_break(&mut tokens, at..end);
                } else if end > at {
                    tokens.push(word(text, at..end, kind));
                }
                end.max(at + 1)
            }
            b'.' | b'!' | b'?' | b';' | b'\n' => {
                push_break(&mut tokens, at..at + 1);
                at + 1
            }
            b':' | b'<' | b'>' | b'[' | b']' | b'{' | b'#' | b'*' | b'|' | b'"' | b'@' | b'`'
            | b'=' | b'/' => {
                let same = |t: &Token| t.hash == u64::from(byte) && t.span.end == at;
                if !tokens.last().is_some_and(same) {
                    tokens.push(Token {
                        span: at..at + 1,
                        hash: u64::from(byte),
                        stem: u64::from(byte),
                        kind: Kind::Other,
                    });
                } else if let Some(last) = tokens.last_mut() {
                    last.span.end = at + 1;
                }
                at + 1
            }
            _ => at + 1,
        };
        at = end;
    }
    tokens
}

fn push_break(tokens: &mut Vec<Token>, span: Range<usize>) {
    if tokens.last().is_none_or(|t| t.kind != Kind::Break) {
        tokens.push(Token {
            span,
            hash: BREAK,
            stem: BREAK,
            kind: Kind::Break,
        });
    }
}

/// What a character beyond ASCII is to a word.
enum Wide {
    Letter,
    /// Its script has no spaces between words: it is a token by itself.
    Syllable,
    Space,
    Stop,
}

fn wide(text: &[u8], at: usize) -> (usize, Wide) {
    let lead = text.get(at).copied().unwrap_or(0);
    let second = text.get(at + 1).copied().unwrap_or(0);
    let third = text.get(at + 2).copied().unwrap_or(0);
    let (len, class) = match (lead, second, third) {
        (0xC2, ..) => (2, Wide::Space),
        (0xE2, 0x80..=0xAF, _) => (3, Wide::Space),
        (0xE3, 0x80, 0x82) | (0xE0, 0xA5, 0xA4) => (3, Wide::Stop),
        (0xE3, 0x80, 0x80..=0xBF) | (0xEF, ..) => (3, Wide::Space),
        (0xE0, 0xB8..=0xBB, _) | (0xE1, 0x80..=0x82 | 0x9E | 0x9F, _) | (0xE2..=0xED, ..) => {
            (3, Wide::Syllable)
        }
        (0xE0..=0xE1, ..) => (3, Wide::Letter),
        (0xF0.., ..) => (4, Wide::Syllable),
        (0xC0..=0xDF, ..) => (2, Wide::Letter),
        _ => (1, Wide::Space),
    };
    (len, class)
}

/// The end of the word that begins at `at`, which is past `at` alone if there is one.
fn word_end(text: &[u8], at: usize, most: usize) -> (usize, Kind) {
    let mut end = at;
    let (mut capitals, mut letters, mut foreign) = (true, 0_usize, false);
    while end < most {
        match text.get(end).copied().unwrap_or(b' ') {
            b'a'..=b'z' => {
                capitals = false;
                letters += 1;
                end += 1;
            }
            b'A'..=b'Z' => {
                letters += 1;
                end += 1;
            }
            b'0'..=b'9' | b'_' => end += 1,
            b'\'' if end > at => end += 1,
            0x80.. => {
                let (len, class) = wide(text, end);
                match class {
                    Wide::Letter => {
                        foreign = true;
                        end += len;
                    }
                    Wide::Syllable if end == at => return ((end + len).min(most), Kind::Foreign),
                    Wide::Stop if end == at => return ((end + len).min(most), Kind::Break),
                    Wide::Space if end == at => return (end, Kind::Other),
                    Wide::Syllable | Wide::Stop | Wide::Space => break,
                }
            }
            _ => break,
        }
    }
    let kind = if foreign {
        Kind::Foreign
    } else if letters == 0 {
        Kind::Other
    } else {
        Kind::Word {
            capitals: capitals && letters > 2,
        }
    };
    (end.min(most), kind)
}

fn word(text: &[u8], span: Range<usize>, kind: Kind) -> Token {
    let bytes = text.get(span.clone()).unwrap_or_default();
    let (hash, stem) = if kind == Kind::Other {
        (NUMBER, NUMBER)
    } else if bytes.len() > LONGEST_WORD {
        (LONG, LONG)
    } else {
        let lower = || lower_case(bytes);
        let hash = hash_bytes(lower());
        let stem_len = if kind == Kind::Foreign { 14 } else { 8 };
        let stem = if bytes.len() > stem_len {
            hash_bytes(lower().take(stem_len))
        } else {
            hash
        };
        (hash, stem)
    };
    Token {
        span,
        hash,
        stem,
        kind,
    }
}

/// The bytes of a word in lower case, where it is Latin or Cyrillic.
fn lower_case(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut lead = 0_u8;
    bytes.iter().map(move |b| {
        let lower = match (lead, *b) {
            (0xC3, 0x80..=0x9E) => b + 0x20,
            (0xD0, 0x90..=0x9F) => b + 0x20,
            // Their lower case has another lead; the trail alone is telling enough.
            (0xD0, 0xA0..=0xAF) => b - 0x20,
            (0xD0, 0xB0..=0xBF) | (_, 0..=0x7F | 0x80..) => b.to_ascii_lowercase(),
        };
        lead = *b;
        lower
    })
}
