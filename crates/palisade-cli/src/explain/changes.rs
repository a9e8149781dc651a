//! What the rewritten statement changes of the original, word by word.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// The longest time that the smallest difference is looked for; then a larger one is shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// The words that differ, as ranges of bytes, in order.
pub(super) struct Changes {
    /// Those of the original that are gone.
    pub(super) gone: Vec<Range<usize>>,
    /// Those of the rewritten text that are new.
    pub(super) new: Vec<Range<usize>>,
}

impl Changes {
    pub(super) fn find(original: &str, rewritten: &str) -> Self {
        let (old, new) = (words(original), words(rewritten));
        let texts = |ranges: &[Range<usize>], text: &str| -> Vec<String> {
            let texts = ranges.iter().map(|range| text.get(range.clone()));
            texts
                .map(|word| word.unwrap_or_default().to_owned())
                .collect()
        };
        let (old_texts, new_texts) = (texts(&old, original), texts(&new, rewritten));
        let deadline = Some(Instant::now() + PATIENCE);
        let mut changes = Self {
            gone: Vec::new(),
            new: Vec::new(),
        };
        for op in capture_diff_slices_deadline(Algorithm::Myers, &old_texts, &new_texts, deadline) {
            let (gone, added) = match op {
                DiffOp::Equal {
                    old_index: _,
                    new_index: _,
                    len: _,
                } => continue,
                DiffOp::Delete {
                    old_index: _,
                    old_len: _,
                    new_index: _,
                }
                | DiffOp::Insert {
                    old_index: _,
                    new_index: _,
                    new_len: _,
                }
                | DiffOp::Replace {
                    old_index: _,
                    old_len: _,
                    new_index: _,
                    new_len: _,
                } => (op.old_range(), op.new_range()),
            };
            changes.gone.extend(span(&old, gone));
            changes.new.extend(span(&new, added));
        }
        changes
    }
}

/// From the first of these words to the last.
fn span(words: &[Range<usize>], of: Range<usize>) -> Option<Range<usize>> {
    let words = words.get(of)?;
    Some(words.first()?.start..words.last()?.end)
}

/// The words of a statement: blanks part them, and marks between them are words, except within quotes.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let (mut start, mut quote) = (None, None);
    for (at, c) in text.char_indices() {
        let is_mark = matches!(c, '(' | ')' | ',' | ';');
        match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
                continue;
            }
            None if c.is_whitespace() || is_mark => {
                out.extend(start.take().map(|start| start..at));
                if is_mark {
                    out.push(at..at + c.len_utf8());
                }
            }
            None => {
                start = start.or(Some(at));
                if matches!(c, '\'' | '"' | '`') {
                    quote = Some(c);
                }
            }
        }
    }
    out.extend(start.map(|start| start..text.len()));
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn words_that_differ_are_found() {
        let (old, new) = (
            "SELECT email, 'a b' FROM customers",
            "SELECT email, 'a b' FROM (SELECT NULL AS email FROM \"customers\") AS \"customers\"",
        );
        let changes = Changes::find(old, new);
        let gone: Vec<_> = changes
            .gone
            .iter()
            .map(|range| &old[range.clone()])
            .collect();
        assert_eq!(gone, ["customers"]);
        let new: Vec<_> = changes
            .new
            .iter()
            .map(|range| &new[range.clone()])
            .collect();
        assert_eq!(
            new,
            ["(SELECT NULL AS email FROM \"customers\") AS \"customers\""]
        );
        assert!(Changes::find(old, old).new.is_empty());
    }
}
