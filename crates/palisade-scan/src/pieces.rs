//! Long texts in parts that overlap, so that what is looked for in one of them costs as much for each byte as in a short text.

use crate::decode::may_encode;

/// How long parts are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a part.
    piece: usize,
    /// Bytes that it shares with the next.
    overlap: usize,
}

#[cfg(test)]
impl Sizes {
    /// Parts of another length, for tests.
    pub(crate) fn new(piece: usize, overlap: usize) -> Self {
        Self { piece, overlap }
    }
}

/// For patterns and passages: they share more than any of those reaches over.
pub(crate) const MATCHED: Sizes = Sizes {
    piece: 32 << 10,
    overlap: 1 << 10,
};

/// For decoders: a part is decoded as a whole if it has a sign of an encoding.
pub(crate) const DECODED: Sizes = Sizes {
    piece: 8 << 10,
    overlap: 1 << 10,
};

/// The parts of `text`. A part begins at the beginning of a character, and within a run of Base64 or hexadecimal at a multiple of four
/// digits.
pub(crate) fn pieces(text: &[u8], sizes: Sizes) -> impl Iterator<Item = &[u8]> {
    let Sizes { piece, overlap } = sizes;
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let rest = text.get(from..)?;
        let Some(part) = rest.get(..piece).filter(|_| rest.len() > piece + overlap) else {
            start = None;
            return Some(rest);
        };
        let mut next = piece - overlap;
        while next > 1 && part.get(next).is_some_and(|b| b & 0xC0 == 0x80) {
            next -= 1;
        }
        let run = part.get(..next).unwrap_or_default().iter().rev();
        next -= run.take_while(|b| may_encode(**b)).count() % 4;
        start = Some(from + next);
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    const PIECE: usize = DECODED.piece;
    const OVERLAP: usize = DECODED.overlap;

    /// Where each part begins.
    fn starts(text: &[u8]) -> Vec<usize> {
        let all: Vec<&[u8]> = pieces(text, DECODED).collect();
        let first = all[0].as_ptr() as usize;
        let starts: Vec<usize> = all.iter().map(|p| p.as_ptr() as usize - first).collect();
        // They cover the text, and overlap.
        assert_eq!(starts[0], 0);
        for (at, piece) in all.iter().enumerate() {
            let end = starts[at] + piece.len();
            match starts.get(at + 1) {
                Some(next) => assert!(next + OVERLAP <= end && piece.len() <= PIECE),
                None => assert_eq!(end, text.len()),
            }
        }
        starts
    }

    #[test]
    fn a_short_text_is_one_part() {
        assert_eq!(starts(b"x"), [0]);
        assert_eq!(starts(&[b' '; PIECE + OVERLAP]), [0]);
    }

    #[test]
    fn a_part_begins_where_digits_and_characters_do() {
        let step = PIECE - OVERLAP;
        assert_eq!(starts(&[b' '; 2 * PIECE]), [0, step]);
        for before in 0..9 {
            let run = [vec![b' '; before], vec![b'A'; 3 * PIECE]].concat();
            for start in &starts(&run)[1..] {
                assert_eq!((start - before) % 4, 0, "{before}");
            }
        }
        let wide = format!("x{}", "ü".repeat(2 * PIECE));
        for start in starts(wide.as_bytes()) {
            assert!(wide.is_char_boundary(start));
        }
    }
}
