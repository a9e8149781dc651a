//! Where in its text a statement says what it touches, for traces. Nothing is decided by it.

use sqlparser::tokenizer::Span;

use crate::{
    access::{TextPlace, Touched},
    syntax::Cursor,
};

/// What stands where in the text of a statement.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<(Span, Touched)>);

impl Places {
    /// Each place in `text`, the text of the statement, once, in order.
    pub(crate) fn locate(&self, text: &str) -> Vec<(TextPlace, Touched)> {
        let mut found: Vec<&(Span, Touched)> = self.0.iter().collect();
        found.sort_by_key(|(span, _)| span.start);
        let mut cursor = Cursor::new(text);
        let mut out = Vec::with_capacity(found.len());
        for (span, touched) in found {
            let Some(offset) = cursor.advance(span.start) else {
                continue;
            };
            let Some(end) = cursor.clone().advance(span.end) else {
                continue;
            };
            let place = TextPlace {
                line: span.start.line,
                column: span.start.column,
                offset,
                length: end.saturating_sub(offset),
            };
            out.push((place, *touched));
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// That what stands at `span` touches this; nothing where no text has such a place.
    pub(in crate::resolve) fn note(&mut self, span: Span, touched: Touched) {
        // What the resolver wrote itself stands on no line, or on that of its marks.
        let is_written = span.start.line > 0 && span.start.line <= span.end.line;
        if is_written && span.start.line < u64::MAX {
            self.0.push((span, touched));
        }
    }
}
