//! Encodings that hide text from a reader and that a model reads without being asked to.
//!
//! Each decoder turns a text into at most one text that is not longer; the caller looks at that
//! again, to a fixed depth, so that work stays linear in the size of a cell.

use std::sync::LazyLock;

use crate::outline::{Outline, is_mark};
use aho_corasick::AhoCorasick;

/// How a text hides what it says. Each is a detector of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Unicode tag characters outside of a flag.
    TagCharacters,
    /// Invisible characters between Latin letters.
    ZeroWidth,
    /// Characters that reverse the direction of display.
    BidiOverride,
    /// Words of Latin letters and look-alikes from other scripts.
    MixedScript,
    /// Full-width forms of Latin letters.
    FullWidth,
    /// Letters with spaces between them.
    LetterSpacing,
    /// Digits for letters.
    Leet,
    /// Words written backwards.
    Reversed,
    /// Letters moved by thirteen.
    Rot13,
    /// Prose in Base64, hexadecimal, Morse code, or escapes where plain letters would do.
    EncodedProse,
}

impl Sign {
    /// The detector it belongs to.
    pub(crate) fn detector(self) -> &'static str {
        match self {
            Self::TagCharacters => "hidden.tag-characters",
            Self::ZeroWidth => "hidden.zero-width",
            Self::BidiOverride => "hidden.bidi-override",
            Self::MixedScript => "obfuscation.mixed-script",
            Self::FullWidth => "obfuscation.full-width",
            Self::LetterSpacing => "obfuscation.letter-spacing",
            Self::Leet => "obfuscation.leet",
            Self::Reversed => "obfuscation.reversed",
            Self::Rot13 => "obfuscation.rot13",
            Self::EncodedProse => "obfuscation.encoded-prose",
        }
    }
}

/// What a text was decoded to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// To be looked at like the text it came from.
    pub(crate) text: Vec<u8>,
    /// Set if the encoding alone is a finding.
    pub(crate) sign: Option<Sign>,
}

/// The shortest run that is tried as Base64 or hexadecimal, in characters.
pub(crate) const MIN_RUN: usize = 16;
/// Letters spelled with spaces between them, at least.
pub(crate) const MIN_SPACED: usize = 10;
/// Letters spelled with marks between them, at least.
pub(crate) const MIN_MARKED: usize = 6;
/// Words with digits for letters, at least.
pub(crate) const MIN_LEET: usize = 3;
/// Letters written as escapes that need none, at least.
const MIN_NEEDLESS_ESCAPES: usize = 8;

/// An encoding that shows by literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Percent escapes, character references, `\u` and `\x`.
    Escapes,
    Morse,
    Reversed,
    Rot13,
}

const ENCODINGS: [Encoding; 4] = [
    Encoding::Escapes,
    Encoding::Morse,
    Encoding::Reversed,
    Encoding::Rot13,
];

/// A set of encodings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Encodings(u8);

impl Encodings {
    /// All of them.
    pub(crate) const ALL: Self = Self(u8::MAX);

    pub(crate) fn add(&mut self, encoding: Encoding) {
        self.0 |= 1 << encoding as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds those of `other`.
    pub(crate) fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Those that a part of the text may be in, in lower case.
    pub(crate) fn of_part(self, part: &[u8]) -> Self {
        static FINDERS: LazyLock<[Option<AhoCorasick>; 4]> = LazyLock::new(|| {
            ENCODINGS.map(|encoding| {
                let of_it = LITERALS.iter().filter(|(_, of)| *of == encoding);
                AhoCorasick::new(of_it.map(|(literal, _)| literal)).ok()
            })
        });
        let mut of_part = Self::default();
        for (encoding, finder) in ENCODINGS.iter().zip(FINDERS.iter()) {
            let is_there = || finder.as_ref().is_none_or(|finder| finder.is_match(part));
            if self.has(*encoding) && is_there() {
                of_part.add(*encoding);
            }
        }
        of_part
    }

    fn has(self, encoding: Encoding) -> bool {
        self.0 & 1 << encoding as u8 != 0
    }
}

/// Literals one of which must be in a text for [`by_literal`] to find anything in that encoding: the
/// caller looks for them in the same pass as for the words of the detectors.
pub(crate) const LITERALS: &[(&str, Encoding)] = &[
    ("%2", Encoding::Escapes),
    ("%4", Encoding::Escapes),
    ("%6", Encoding::Escapes),
    ("%7", Encoding::Escapes),
    ("&#", Encoding::Escapes),
    ("\\u00", Encoding::Escapes),
    ("\\x", Encoding::Escapes),
    (".-", Encoding::Morse),
    ("-.", Encoding::Morse),
    ("eht", Encoding::Reversed),
    ("uoy", Encoding::Reversed),
    ("taht", Encoding::Reversed),
    ("ruoy", Encoding::Reversed),
    ("tahw", Encoding::Reversed),
    ("siht", Encoding::Reversed),
    ("htiw", Encoding::Reversed),
    ("erehw", Encoding::Reversed),
    ("tuoba", Encoding::Reversed),
    ("drowssap", Encoding::Reversed),
    ("tpmorp", Encoding::Reversed),
    ("erongi", Encoding::Reversed),
    ("suoiverp", Encoding::Reversed),
    ("noitcurtsni", Encoding::Reversed),
    (" gur ", Encoding::Rot13),
    ("lbh", Encoding::Rot13),
    ("gung", Encoding::Rot13),
    ("jung ", Encoding::Rot13),
    ("cnffjbeq", Encoding::Rot13),
    ("vtaber", Encoding::Rot13),
    ("cerivbhf", Encoding::Rot13),
    ("vafgehpgvba", Encoding::Rot13),
    ("flfgrz", Encoding::Rot13),
    ("cebzcg", Encoding::Rot13),
];

/// What the decoders of `encodings` find.
pub(crate) fn by_literal(text: &[u8], encodings: Encodings) -> Vec<Decoded> {
    type Decoder = fn(&[u8]) -> Option<Decoded>;
    let decoders: [(Encoding, Decoder); 4] = [
        (Encoding::Escapes, escapes),
        (Encoding::Morse, morse),
        (Encoding::Reversed, reverse_text),
        (Encoding::Rot13, rot13),
    ];
    decoders
        .iter()
        .filter(|(encoding, _)| encodings.has(*encoding))
        .filter_map(|(_, decode)| decode(text))
        .collect()
}

/// What the decoders find that go by the shape of the words.
pub(crate) fn by_shape(text: &[u8]) -> Vec<Decoded> {
    if text.len() < MIN_RUN {
        return Vec::new();
    }
    let mut found = Vec::new();
    let outline = Outline::measure(text);
    found.extend(runs(text, outline.run_blocks()));
    if outline.may_be_marked() {
        found.push(join_marked(text));
    }
    let may_be_spaced = outline.may_be_spaced() && may_hold_singles(text);
    if !may_be_spaced && !outline.may_be_leet() {
        return found;
    }
    let shape = Shape::measure(text);
    if shape.most_singles >= MIN_SPACED {
        found.extend(join_spaced(text));
    }
    if shape.leet >= MIN_LEET && shape.leet * 3 >= shape.words {
        found.extend(leet(text));
    }
    found
}

/// Whether a byte can be of Base64 or hexadecimal.
pub(crate) fn may_encode(byte: u8) -> bool {
    matches!(class(byte), LETTER | DIGIT | BASE64)
}

/// Counts over the words of a text, in one pass.
struct Shape {
    /// The most single letters in a row with only spaces between them.
    most_singles: usize,
    /// Words that mix letters with digits that stand for letters.
    leet: usize,
    words: usize,
}

const OTHER: u8 = 0;
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const BASE64: u8 = 3;
const SPACE: u8 = 4;

/// The class of each byte; a table because this runs over everything.
static CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte = 0_u8;
    loop {
        #[expect(
            clippy::indexing_slicing,
            reason = "evaluated when compiled, and a byte is in bounds"
        )]
        {
            classes[byte as usize] = match byte {
                b'a'..=b'z' | b'A'..=b'Z' => LETTER,
                b'0'..=b'9' => DIGIT,
                b'+' | b'/' | b'=' | b'_' | b'-' => BASE64,
                b' ' => SPACE,
                _ => OTHER,
            };
        }
        if byte == u8::MAX {
            break classes;
        }
        byte += 1;
    }
};

fn class(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(OTHER)
}

impl Shape {
    fn measure(text: &[u8]) -> Self {
        let mut shape = Self {
            most_singles: 0,
            leet: 0,
            words: 0,
        };
        let (mut run, mut letters, mut digits, mut singles) = (0_usize, 0_usize, 0_usize, 0_usize);
        for class in text.iter().map(|b| class(*b)).chain([OTHER]) {
            match class {
                LETTER => {
                    run += 1;
                    letters += 1;
                }
                DIGIT => {
                    run += 1;
                    digits += 1;
                }
                BASE64 => run += 1,
                // SPACE and OTHER end a word.
                _ => {
                    if run != 0 {
                        shape.words += usize::from(letters + digits != 0);
                        shape.leet += usize::from(letters != 0 && digits != 0);
                        singles = if letters == 1 && run == 1 {
                            singles + 1
                        } else {
                            0
                        };
                        shape.most_singles = shape.most_singles.max(singles);
                        (run, letters, digits) = (0, 0, 0);
                    }
                    if class == OTHER {
                        // A table of one-letter cells is not spelling.
                        singles = 0;
                    }
                }
            }
        }
        shape
    }
}

/// Whether as many letters as spelled-out words have follow each other with spaces alone between them. Such a run has a byte at a
/// multiple of its length, so that most bytes are not looked at.
fn may_hold_singles(text: &[u8]) -> bool {
    let mut seen = 0;
    // Letters and spaces, of which no two letters are neighbours.
    let count = |bytes: &mut dyn Iterator<Item = &u8>, mut after_letter: bool| {
        let (mut len, mut letters) = (0_usize, 0_usize);
        for byte in bytes {
            let is_letter = class(*byte) == LETTER;
            if !(is_letter && !after_letter || class(*byte) == SPACE) {
                break;
            }
            len += 1;
            letters += usize::from(is_letter);
            after_letter = is_letter;
        }
        (len, letters)
    };
    (0..text.len()).step_by(2 * MIN_SPACED - 1).any(|at| {
        if at < seen {
            return false;
        }
        let (before, after) = text.split_at_checked(at).unwrap_or_default();
        let (len, letters) = count(&mut after.iter(), false);
        if len == 0 {
            return false;
        }
        seen = at + len;
        let starts_with_letter = after.first().is_some_and(|b| class(*b) == LETTER);
        let (_, letters_before) = count(&mut before.iter().rev(), starts_with_letter);
        letters + letters_before >= MIN_SPACED
    })
}

/// The runs of characters of Base64 that are long enough. Each fills one of these blocks.
fn long_runs<'t>(text: &'t [u8], blocks: &[usize]) -> Vec<&'t [u8]> {
    let mut runs = Vec::new();
    let mut seen = 0;
    for at in blocks {
        if *at < seen {
            continue;
        }
        let (before, after) = text.split_at_checked(*at).unwrap_or_default();
        let start = at - before.iter().rev().take_while(|b| may_encode(**b)).count();
        seen = at + after.iter().take_while(|b| may_encode(**b)).count();
        runs.extend(text.get(start..seen).filter(|run| run.len() >= MIN_RUN));
    }
    runs
}

/// Base64 and hexadecimal runs.
fn runs(text: &[u8], blocks: &[usize]) -> Vec<Decoded> {
    long_runs(text, blocks)
        .into_iter()
        .flat_map(|run| [hex(run), base64(run)])
        .flatten()
        .filter(|bytes| is_text(bytes))
        .map(|text| Decoded {
            sign: is_prose(&text).then_some(Sign::EncodedProse),
            text,
        })
        .collect()
}

fn hex(run: &[u8]) -> Option<Vec<u8>> {
    let digits = run
        .strip_prefix(b"0x")
        .or_else(|| run.strip_prefix(b"0X"))
        // As PostgreSQL writes bytes: `\x49…`, whose backslash ends the run before it.
        .or_else(|| run.strip_prefix(b"x"))
        .unwrap_or(run);
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
            _ => None,
        })
        .collect()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|n| u8::try_from(n).ok())
}

/// Both alphabets; padding and what follows it end the text.
fn base64(run: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(run.len() / 4 * 3 + 2);
    let (mut bits, mut filled) = (0_u32, 0_u32);
    for digit in run.iter().take_while(|d| **d != b'=') {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push(u8::try_from(bits >> filled & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

/// `%41`, `&#65;`, `&#x41;`, `\u0041`, `\x41`, decoded in place.
fn escapes(text: &[u8]) -> Option<Decoded> {
    let mut decoded = Vec::with_capacity(text.len());
    let (mut escapes, mut needless) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if matches!(first, b'%' | b'&' | b'\\')
            && let Some((c, after)) = escape(rest)
        {
            escapes += 1;
            needless += usize::from(c.is_ascii_alphabetic());
            match u8::try_from(u32::from(c)) {
                // Percent escapes are bytes of UTF-8, the others code points.
                Ok(byte) if byte.is_ascii() || *first == b'%' => decoded.push(byte),
                _ => decoded.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            rest = after;
            continue;
        }
        decoded.push(*first);
        rest = tail;
    }
    (escapes >= 3).then(|| Decoded {
        sign: (needless >= MIN_NEEDLESS_ESCAPES && is_prose(&decoded))
            .then_some(Sign::EncodedProse),
        text: decoded,
    })
}

fn escape(text: &[u8]) -> Option<(char, &[u8])> {
    let fixed = |prefix: &[u8], len: usize| {
        let (digits, after) = text.strip_prefix(prefix)?.split_at_checked(len)?;
        Some((number(digits, 16)?, after))
    };
    let entity = |prefix: &[u8], radix: u32| {
        let rest = text.strip_prefix(prefix)?;
        let len = rest.iter().take(8).position(|b| *b == b';')?;
        let (digits, after) = rest.split_at_checked(len)?;
        Some((number(digits, radix)?, after.strip_prefix(b";")?))
    };
    fixed(b"%", 2)
        .or_else(|| fixed(b"\\u", 4))
        .or_else(|| fixed(b"\\x", 2))
        .or_else(|| entity(b"&#x", 16))
        .or_else(|| entity(b"&#X", 16))
        .or_else(|| entity(b"&#", 10))
}

fn number(digits: &[u8], radix: u32) -> Option<char> {
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, radix)
        .ok()
        .and_then(char::from_u32)
}

/// The longest stretch of dots and dashes.
fn morse(text: &[u8]) -> Option<Decoded> {
    let stretch = text
        .split(|b| !matches!(b, b'.' | b'-' | b' ' | b'/'))
        .filter(|s| s.contains(&b'.') && s.contains(&b'-'))
        .max_by_key(|s| s.len())
        .filter(|s| s.len() >= MIN_RUN)?;
    let mut decoded = Vec::new();
    for word in stretch.split(|b| *b == b'/') {
        decoded.extend(word.split(|b| *b == b' ').filter_map(morse_letter));
        decoded.push(b' ');
    }
    let sign = is_prose(&decoded).then_some(Sign::EncodedProse);
    Some(Decoded {
        text: decoded,
        sign,
    })
}

fn morse_letter(code: &[u8]) -> Option<u8> {
    Some(match code {
        b".-" => b'a',
        b"-..." => b'b',
        b"-.-." => b'c',
        b"-.." => b'd',
        b"." => b'e',
        b"..-." => b'f',
        b"--." => b'g',
        b"...." => b'h',
        b".." => b'i',
        b".---" => b'j',
        b"-.-" => b'k',
        b".-.." => b'l',
        b"--" => b'm',
        b"-." => b'n',
        b"---" => b'o',
        b".--." => b'p',
        b"--.-" => b'q',
        b".-." => b'r',
        b"..." => b's',
        b"-" => b't',
        b"..-" => b'u',
        b"...-" => b'v',
        b".--" => b'w',
        b"-..-" => b'x',
        b"-.--" => b'y',
        b"--.." => b'z',
        _ => return None,
    })
}

/// English words that are none when read backwards, or shifted, as [`reversed`] and [`rot13`] see them.
const COMMON: &[&str] = &[
    "the", "you", "that", "your", "what", "this", "with", "where", "about", "can", "and", "are",
    "tell", "write",
];
/// Words one of which is enough to look closer.
const TELLING: &[&str] = &[
    "ignore",
    "previous",
    "password",
    "prompt",
    "instruction",
    "instructions",
    "disregard",
    "reveal",
    "secret",
];

fn reverse_text(text: &[u8]) -> Option<Decoded> {
    let backwards: Vec<u8> = text.iter().rev().copied().collect();
    reveal_disguise(text, backwards, Sign::Reversed)
}

fn rot13(text: &[u8]) -> Option<Decoded> {
    let shifted = text
        .iter()
        .map(|b| match b {
            b'a'..=b'm' | b'A'..=b'M' => b + 13,
            b'n'..=b'z' | b'N'..=b'Z' => b - 13,
            _ => *b,
        })
        .collect();
    reveal_disguise(text, shifted, Sign::Rot13)
}

/// `plain` if it reads more like English than `text` does.
fn reveal_disguise(text: &[u8], plain: Vec<u8>, sign: Sign) -> Option<Decoded> {
    let (common, telling) = known_words(&plain);
    let (common_before, telling_before) = known_words(text);
    let certain = common + 2 * telling >= 2 && common + telling > common_before + telling_before;
    (certain || telling > telling_before).then_some(Decoded {
        text: plain,
        sign: certain.then_some(sign),
    })
}

fn known_words(text: &[u8]) -> (usize, usize) {
    let (mut common, mut telling) = (0, 0);
    for word in text
        .split(|b| class(*b) != LETTER)
        .filter(|w| (3..=12).contains(&w.len()))
    {
        common += usize::from(
            COMMON
                .iter()
                .any(|known| word.eq_ignore_ascii_case(known.as_bytes())),
        );
        telling += usize::from(
            TELLING
                .iter()
                .any(|known| word.eq_ignore_ascii_case(known.as_bytes())),
        );
    }
    (common, telling)
}

/// `i g n o r e   t h i s`: single spaces vanish, longer gaps become one.
fn join_spaced(text: &[u8]) -> Option<Decoded> {
    let mut plain = Vec::with_capacity(text.len());
    let mut spaces = 0_usize;
    for byte in text {
        if *byte == b' ' {
            spaces += 1;
            continue;
        }
        if spaces > 1 {
            plain.push(b' ');
        }
        spaces = 0;
        plain.push(*byte);
    }
    let sign = is_prose(&plain).then_some(Sign::LetterSpacing);
    Some(Decoded { text: plain, sign })
}

/// `i.g.n.o.r.e t.h.i.s`: marks between single letters vanish.
fn join_marked(text: &[u8]) -> Decoded {
    let letter = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let len = match text.get(at..) {
            Some([first, ..]) if is_mark(*first) => 1,
            Some([0xC2, 0xB7, ..]) => 2,
            Some([0xE2, 0x80, 0xA2, ..]) => 3,
            Some(_) | None => 0,
        };
        let end = at + len;
        let joins = len != 0
            && letter(at.checked_sub(1))
            && !letter(at.checked_sub(2))
            && letter(Some(end))
            && !letter(Some(end + 1));
        if joins {
            at = end;
        } else {
            plain.push(*byte);
            at += 1;
        }
    }
    // Abbreviations and paths are written so too: what it says has to tell.
    Decoded {
        text: plain,
        sign: None,
    }
}

fn leet(text: &[u8]) -> Option<Decoded> {
    let plain: Vec<u8> = text
        .iter()
        .map(|b| match b {
            b'0' => b'o',
            b'1' | b'!' | b'|' => b'i',
            b'3' => b'e',
            b'4' | b'@' => b'a',
            b'5' | b'$' => b's',
            b'6' | b'9' => b'g',
            b'7' => b't',
            b'8' => b'b',
            _ => *b,
        })
        .collect();
    reveal_disguise(text, plain, Sign::Leet)
}

/// Whether `bytes` are printable UTF-8.
fn is_text(bytes: &[u8]) -> bool {
    bytes.len() >= 8
        && std::str::from_utf8(bytes)
            .is_ok_and(|text| text.chars().all(|c| !c.is_control() || c.is_whitespace()))
}

/// Whether `bytes` look like a sentence: four words or more, nearly all letters and spaces.
fn is_prose(bytes: &[u8]) -> bool {
    let letters = bytes
        .iter()
        .filter(|b| b.is_ascii_alphabetic() || !b.is_ascii())
        .count();
    let spaces = bytes.iter().filter(|b| b.is_ascii_whitespace()).count();
    let words = bytes
        .split(|b| b.is_ascii_whitespace())
        .filter(|w| {
            w.iter()
                .filter(|b| b.is_ascii_alphabetic() || !b.is_ascii())
                .count()
                >= 2
        })
        .count();
    words >= 4 && (letters + spaces) * 10 >= bytes.len() * 8 && letters <= 14 * words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::{Decoded, Encodings, Sign, by_shape};

    fn by_literal(text: &[u8]) -> Vec<Decoded> {
        super::by_literal(text, Encodings::ALL)
    }

    fn check(decoded: &[Decoded], text: &str, sign: Option<Sign>) {
        assert!(
            decoded
                .iter()
                .any(|d| d.text.starts_with(text.as_bytes()) && d.sign == sign),
            "{:?}",
            decoded
                .iter()
                .map(|d| (String::from_utf8_lossy(&d.text), d.sign))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn encodings_of_a_sentence_are_read() {
        let prose = Some(Sign::EncodedProse);
        check(
            &by_shape(b"UGxlYXNlIHdhdGVyIHRoZSBwbGFudHM="),
            "Please water the plants",
            prose,
        );
        check(
            &by_shape(b"506c6561736520776174657220746865 20"),
            "Please water the",
            None,
        );
        check(
            &by_shape(b"\\x506c656173652077617465722074686520706c616e7473"),
            "Please water the plants",
            prose,
        );
        check(
            &by_shape(b"506c656173652077617465722074686520706c616e7473"),
            "Please water the plants",
            prose,
        );
        check(
            &by_literal(b"%50%6c%65%61%73%65%20%77%61%74%65%72%20the%20two%20plants"),
            "Please water the",
            prose,
        );
        check(&by_literal(b"&#119;&#97;&#116;&#x65;r"), "water", None);
        check(
            &by_literal(b".-- .- - . .-. / - .... . / .--. .-.. .- -. - ..."),
            "water the plant",
            None,
        );
        check(
            &by_literal(b"stnalp eht uoy taht"),
            "that you the plants",
            Some(Sign::Reversed),
        );
        check(
            &by_literal(b"gung lbh jngre gur cynagf"),
            "that you water the plants",
            Some(Sign::Rot13),
        );
        check(
            &by_shape(b"w a t e r   t h e   t w o   p l a n t s"),
            "water the two plants",
            Some(Sign::LetterSpacing),
        );
        for text in ["w.a.t.e.r t.h.e p.l.a.n.t.s", "w·a·t·e·r t·h·e p·l·a·n·t·s"] {
            check(&by_shape(text.as_bytes()), "water the plants", None);
        }
        check(
            &by_shape(b"wh47 y0u w4n7 7h3 pl4n75"),
            "what you want the plants",
            Some(Sign::Leet),
        );
    }

    #[test]
    fn codes_and_tables_are_not_taken_for_sentences() {
        for text in [
            "SKU A4B7-C3D1, A5B8-C3D2, A6B9-C3D3",
            "d41d8cd98f00b204e9800998ecf8427e",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
            "https://example.com/a%20b%2Fc?q=1%262",
            "A B C D E F G H I J K L M",
            "| --- | --- | .- |",
        ] {
            let decoded: Vec<_> = by_shape(text.as_bytes())
                .into_iter()
                .chain(by_literal(text.as_bytes()))
                .collect();
            assert!(
                decoded.iter().all(|d| d.sign.is_none()),
                "{text}: {decoded:?}"
            );
        }
    }
}
