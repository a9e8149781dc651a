//! How far a part of a pattern can reach: so a pattern is tried only as far from its words as a match can go.

use std::ops::Range;

use regex_syntax::hir::{Class, Hir, HirKind};

/// What a stretch of text holds at most. Without a number there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    bytes: Option<usize>,
    /// Words, as [`Reach::measure`] counts them.
    words: Option<usize>,
}

impl Reach {
    pub(crate) const NOTHING: Self = Self {
        bytes: Some(0),
        words: Some(0),
    };
    pub(crate) const ENDLESS: Self = Self {
        bytes: None,
        words: None,
    };

    /// So many bytes, of which each may be a word.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        Self {
            bytes: Some(bytes),
            words: Some(bytes),
        }
    }

    /// What `hir` matches at most, without letters beyond ASCII that a reader of case takes for others.
    pub(crate) fn from_hir(hir: &Hir) -> Self {
        Self {
            bytes: hir.properties().maximum_len(),
            words: most_words(hir),
        }
    }

    /// One after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        let add = |a: Option<usize>, b: Option<usize>| a?.checked_add(b?);
        Self {
            bytes: add(self.bytes, other.bytes),
            words: add(self.words, other.words),
        }
    }

    /// Either of them.
    pub(crate) fn or(self, other: Self) -> Self {
        let most = |a: Option<usize>, b: Option<usize>| Some(a?.max(b?));
        Self {
            bytes: most(self.bytes, other.bytes),
            words: most(self.words, other.words),
        }
    }

    pub(crate) fn is_endless(self) -> bool {
        self.bytes.is_none() && self.words.is_none()
    }

    /// How many of these bytes are within reach. A word is a run of letters, digits, `_` and quotes that is more than quotes.
    fn measure<'a>(self, bytes: impl Iterator<Item = &'a u8>) -> usize {
        let (mut words, mut in_word, mut len) = (0_usize, false, 0_usize);
        let most_words = self.words.unwrap_or(usize::MAX);
        for byte in bytes.take(self.bytes.unwrap_or(usize::MAX)) {
            match KINDS.get(usize::from(*byte)).copied().unwrap_or(OTHER) {
                WORD if !in_word => {
                    words += 1;
                    if words > most_words {
                        break;
                    }
                    in_word = true;
                }
                WORD | QUOTE => {}
                _ => in_word = false,
            }
            len += 1;
        }
        len
    }
}

/// The part of `within` that is no farther than `before` and `after` from `span`.
pub(crate) fn surroundings(
    text: &[u8],
    within: &Range<usize>,
    span: &Range<usize>,
    before: Reach,
    after: Reach,
) -> Range<usize> {
    let earlier = text.get(within.start..span.start).unwrap_or_default();
    let later = text.get(span.end..within.end).unwrap_or_default();
    let start = span.start - before.measure(earlier.iter().rev());
    let end = span.end + after.measure(later.iter());
    start.max(within.start)..end.min(within.end)
}

const OTHER: u8 = 0;
const WORD: u8 = 1;
const QUOTE: u8 = 2;

/// The kind of each byte; a table because whole surroundings are measured.
static KINDS: [u8; 256] = {
    let mut kinds = [OTHER; 256];
    let mut byte = 0_u8;
    loop {
        #[expect(
            clippy::indexing_slicing,
            reason = "evaluated when compiled, and a byte is in bounds"
        )]
        if is_word(byte) {
            kinds[byte as usize] = WORD;
        } else if is_quote(byte) {
            kinds[byte as usize] = QUOTE;
        }
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const fn is_quote(byte: u8) -> bool {
    matches!(byte, b'\'' | b'`')
}

fn most_words(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Literal(literal) => {
            let words = literal.0.split(|b| !is_word(*b));
            Some(words.filter(|word| !word.is_empty()).count())
        }
        HirKind::Class(class) => Some(usize::from(has(class, is_word))),
        HirKind::Capture(capture) => most_words(&capture.sub),
        HirKind::Concat(all) => all
            .iter()
            .try_fold(0_usize, |sum, hir| sum.checked_add(most_words(hir)?)),
        HirKind::Alternation(all) => all
            .iter()
            .try_fold(0, |most: usize, hir| Some(most.max(most_words(hir)?))),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.and_then(|max| usize::try_from(max).ok());
            match (repetition.sub.kind(), most_words(&repetition.sub)?) {
                (_, 0) => Some(0),
                (HirKind::Class(class), _) if !has(class, |b| !is_word(b) && !is_quote(b)) => {
                    Some(1)
                }
                // Between two words is a byte of none.
                (HirKind::Class(_), _) => Some(times?.div_ceil(2)),
                (_, words) => words.checked_mul(times?),
            }
        }
    }
}

/// Whether a byte of the class is so; of characters beyond ASCII it is no byte of a word.
fn has(class: &Class, is: impl Fn(u8) -> bool) -> bool {
    match class {
        Class::Bytes(bytes) => bytes
            .ranges()
            .iter()
            .any(|range| (range.start()..=range.end()).any(&is)),
        Class::Unicode(chars) => chars.ranges().iter().any(|range| {
            let beyond = u32::from(range.end()) > 0x7F;
            let ascii = u32::from(range.start())..=u32::from(range.end()).min(0x7F);
            beyond && is(0x80) || ascii.filter_map(|c| u8::try_from(c).ok()).any(&is)
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn reach(pattern: &str) -> Reach {
        let mut parser = regex_syntax::ParserBuilder::new()
            .unicode(false)
            .utf8(false)
            .build();
        Reach::from_hir(&parser.parse(pattern).unwrap())
    }

    #[test]
    fn words_are_counted_at_most() {
        for (pattern, bytes, words) in [
            ("", Some(0), Some(0)),
            (r"\bone two\b", Some(7), Some(2)),
            (r"[^\w]+", None, Some(0)),
            (r"[\w'`]+", None, Some(1)),
            (r"(?:[\w'`]+[^\w]+){0,4}?", None, Some(4)),
            (r".{0,9}", Some(9), Some(5)),
            (r".*", None, None),
            (r"(?:a b|c)x?", Some(4), Some(3)),
            (r"(?:a b){2,3}", Some(9), Some(6)),
            (r"(?:a b)+", None, None),
        ] {
            let expected = Reach { bytes, words };
            assert_eq!(reach(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn surroundings_end_before_a_word_too_many() {
        let text = b"one two, 'three' `four` KEY don't go on";
        let key = 24..27;
        let around = |before: Reach, after: Reach| {
            let all = 0..text.len();
            let range = surroundings(text, &all, &key, before, after);
            std::str::from_utf8(&text[range]).unwrap()
        };
        let words = |words| Reach {
            bytes: None,
            words: Some(words),
        };
        assert_eq!(around(words(0), words(0)), "` KEY ");
        assert_eq!(around(words(1), words(1)), "' `four` KEY don't ");
        assert_eq!(around(words(2), words(2)), ", 'three' `four` KEY don't go ");
        assert_eq!(around(Reach::of_bytes(2), Reach::NOTHING), "` KEY");
        assert_eq!(around(Reach::ENDLESS, Reach::ENDLESS).len(), text.len());
        let part = surroundings(text, &(20..30), &key, Reach::ENDLESS, words(9));
        assert_eq!(part, 20..30);
    }
}
