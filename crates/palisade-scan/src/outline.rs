//! What the bytes of a text and their neighbours say of spelled-out words, in one pass without branches: it runs over everything.

use crate::decode::{MIN_LEET, MIN_MARKED, MIN_RUN, MIN_SPACED};

/// Counts over bytes and the one or two after each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    digits: usize,
    /// Digits after something else.
    numbers: usize,
    /// Letters alone between two spaces.
    spaced: usize,
    /// Letters alone between two marks, as in `i.g.n.o.r.e`.
    marked: usize,
    /// Letters after a space.
    starts: usize,
    /// Places where a letter and a digit meet, or a sign joins them to what follows.
    joined: usize,
    /// Where [`RUN_BLOCK`] characters of Base64 stand, at multiples of so many bytes.
    run_blocks: Vec<usize>,
}

/// A run of [`MIN_RUN`] characters fills a block of so many bytes.
pub(crate) const RUN_BLOCK: usize = MIN_RUN / 2;

/// Bytes that are looked at together: few enough for counters of a byte.
const BLOCK: usize = 128;
/// Bytes of the next block that are looked at with one.
const AHEAD: usize = 2;

const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const SPACE: u8 = 4;
/// A sign that joins words to a longer run.
const SIGN: u8 = 8;
/// The last byte of a mark, and its first.
const MARK_ENDS: u8 = 16;
const MARK_BEGINS: u8 = 32;

/// What a byte can be, a bit each. Comparisons alone: no jump, and no table.
fn kinds(byte: u8) -> u8 {
    let bit = |is: bool, bit: u8| u8::from(is) * bit;
    let mark = is_mark(byte);
    let sign = (byte == b'+') | (byte == b'/') | (byte == b'=') | (byte == b'_') | (byte == b'-');
    bit((byte | 0x20).wrapping_sub(b'a') < 26, LETTER)
        | bit(byte.wrapping_sub(b'0') < 10, DIGIT)
        | bit(byte == b' ', SPACE)
        | bit(sign, SIGN)
        | bit(mark | (byte == 0xB7) | (byte == 0xA2), MARK_ENDS)
        | bit(mark | (byte == 0xC2) | (byte == 0xE2), MARK_BEGINS)
}

/// Whether a byte stands between letters that are spelled out.
pub(crate) fn is_mark(byte: u8) -> bool {
    // `*` to `/` are `*`, `+`, `,`, `-`, `.` and `/`.
    (byte.wrapping_sub(b'*') < 6) | (byte == b'_') | (byte == b'|') | (byte == b'~')
}

/// Whether all bytes of these kinds are of Base64, in one number.
fn is_of_run(block: &[u8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let all = block.first_chunk::<RUN_BLOCK>();
    let kinds = all.map_or(0, |block| u64::from_le_bytes(*block));
    let of_run = [LETTER, DIGIT, SIGN]
        .iter()
        .fold(0, |any, kind| any | kinds >> kind.trailing_zeros());
    of_run & EACH == EACH
}

impl Outline {
    pub(crate) fn measure(text: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut all = [0_u8; BLOCK + AHEAD];
        let mut rest = text;
        let mut at = 0;
        while !rest.is_empty() {
            // What is past the end is nothing.
            all.fill(0);
            for (kinds_of, byte) in all.iter_mut().zip(rest) {
                *kinds_of = kinds(*byte);
            }
            outline.add(&all);
            for (block, number) in all.chunks_exact(RUN_BLOCK).take(BLOCK / RUN_BLOCK).zip(0..) {
                if is_of_run(block) {
                    outline.run_blocks.push(at + number * RUN_BLOCK);
                }
            }
            at += BLOCK;
            rest = rest.get(BLOCK..).unwrap_or_default();
        }
        outline
    }

    /// Adds a block whose last bytes belong to the next.
    fn add(&mut self, all: &[u8; BLOCK + AHEAD]) {
        let (mut digits, mut numbers, mut spaced) = (0_u8, 0_u8, 0_u8);
        let (mut marked, mut starts, mut joined) = (0_u8, 0_u8, 0_u8);
        let (_, second) = all.split_at(1);
        let (_, third) = all.split_at(2);
        for ((a, b), c) in all.iter().take(BLOCK).zip(second).zip(third) {
            let has = |kinds: &u8, kind: u8| kinds & kind != 0;
            digits = digits.wrapping_add(u8::from(has(a, DIGIT)));
            let is_first = !has(a, DIGIT) & has(b, DIGIT);
            numbers = numbers.wrapping_add(u8::from(is_first));
            let after_space = has(a, SPACE) & has(b, LETTER);
            starts = starts.wrapping_add(u8::from(after_space));
            spaced = spaced.wrapping_add(u8::from(after_space & has(c, SPACE)));
            let is_marked = has(a, MARK_ENDS) & has(b, LETTER) & has(c, MARK_BEGINS);
            marked = marked.wrapping_add(u8::from(is_marked));
            let meet = has(a, LETTER) & has(b, DIGIT)
                | has(a, DIGIT | SIGN) & has(b, LETTER)
                | has(a, SIGN) & has(b, DIGIT);
            joined = joined.wrapping_add(u8::from(meet));
        }
        self.digits += usize::from(digits);
        self.numbers += usize::from(numbers);
        self.spaced += usize::from(spaced);
        self.marked += usize::from(marked);
        self.starts += usize::from(starts);
        self.joined += usize::from(joined);
    }

    /// Where the blocks are that only runs of Base64 or hexadecimal fill.
    pub(crate) fn run_blocks(&self) -> &[usize] {
        &self.run_blocks
    }

    /// Whether there are about as many single letters between spaces as spelled-out words have.
    pub(crate) fn may_be_spaced(&self) -> bool {
        // The first and the last have a space on one side alone.
        self.spaced + 2 >= MIN_SPACED
    }

    /// Whether enough single letters stand between marks.
    pub(crate) fn may_be_marked(&self) -> bool {
        self.marked >= MIN_MARKED
    }

    /// Whether as many words may have letters and digits as a text needs in which every third does.
    pub(crate) fn may_be_leet(&self) -> bool {
        // Such a word has the first digit of a number. That of the text has nothing before it.
        let most = self.joined.min(self.numbers + 1);
        self.digits >= MIN_LEET && most >= MIN_LEET && most * 3 >= self.starts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    /// The same, one byte after another.
    fn measure_simply(text: &[u8]) -> Outline {
        let mut outline = Outline::default();
        for at in 0..text.len() {
            let of = |n: usize| text.get(at + n).map_or(0, |b| kinds(*b));
            let [a, b, c] = [of(0), of(1), of(2)];
            outline.digits += usize::from(text[at].is_ascii_digit());
            outline.numbers += usize::from(a & DIGIT == 0 && b & DIGIT != 0);
            outline.starts += usize::from(a & SPACE != 0 && b & LETTER != 0);
            outline.spaced += usize::from(a & SPACE != 0 && b & LETTER != 0 && c & SPACE != 0);
            let marked = a & MARK_ENDS != 0 && b & LETTER != 0 && c & MARK_BEGINS != 0;
            outline.marked += usize::from(marked);
            let meet = a & LETTER != 0 && b & DIGIT != 0
                || a & DIGIT != 0 && b & LETTER != 0
                || a & SIGN != 0 && b & (LETTER | DIGIT) != 0;
            outline.joined += usize::from(meet);
            let is_run = (0..RUN_BLOCK).all(|n| of(n) & (LETTER | DIGIT | SIGN) != 0);
            if at % RUN_BLOCK == 0 && is_run {
                outline.run_blocks.push(at);
            }
        }
        outline
    }

    #[test]
    fn blocks_count_as_single_bytes_do() {
        let text = "i.g.n.o.r.e a l l 1gn0re pr3vi0us a_b = c4 \u{b7}x\u{b7} ";
        let text = text.repeat(40);
        for len in [
            0,
            1,
            2,
            3,
            127,
            128,
            129,
            130,
            255,
            256,
            257,
            1000,
            text.len(),
        ] {
            let part = &text.as_bytes()[..len];
            assert_eq!(Outline::measure(part), measure_simply(part), "{len}");
        }
        for before in 0..40 {
            for run in [MIN_RUN - 1, MIN_RUN, MIN_RUN + 1] {
                let text = format!("{}{}.", ".".repeat(before), "x1-/".repeat(run));
                let text = &text[..before + run];
                let outline = Outline::measure(text.as_bytes());
                assert_eq!(outline, measure_simply(text.as_bytes()), "{before}");
                assert!(run < MIN_RUN || !outline.run_blocks.is_empty(), "{before}");
            }
        }
    }

    #[test]
    fn bytes_are_told_apart() {
        for byte in 0..=u8::MAX {
            assert_eq!(kinds(byte) & LETTER != 0, byte.is_ascii_alphabetic());
            assert_eq!(kinds(byte) & DIGIT != 0, byte.is_ascii_digit());
            assert_eq!(is_mark(byte), b".-_*|~/,+".contains(&byte), "{byte}");
        }
    }
}
