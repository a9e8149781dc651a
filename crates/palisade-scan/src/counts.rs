//! Counts over bytes, in blocks small enough for counters of a byte: so they run many bytes at a time.

const BLOCK: usize = 128;

/// How many bytes are so.
pub(crate) fn count(text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    text.chunks(BLOCK)
        .map(|block| {
            usize::from(
                block
                    .iter()
                    .fold(0_u8, |sum, b| sum.wrapping_add(u8::from(is(*b)))),
            )
        })
        .sum()
}

/// How many bytes and the one after each are so.
pub(crate) fn count_pairs(text: &[u8], are: impl Fn(u8, u8) -> bool) -> usize {
    let next = text.get(1..).unwrap_or_default();
    let blocks = text.chunks(BLOCK).zip(next.chunks(BLOCK));
    blocks
        .map(|(first, second)| {
            let pairs = first.iter().zip(second);
            usize::from(pairs.fold(0_u8, |sum, (a, b)| sum.wrapping_add(u8::from(are(*a, *b)))))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_count_over_blocks() {
        let text = b"a b".repeat(1000);
        assert_eq!(count(&text, |b| b == b'a'), 1000);
        assert_eq!(count_pairs(&text, |a, b| (a, b) == (b'b', b'a')), 999);
        assert_eq!(count_pairs(b"a", |_, _| true), 0);
    }
}
