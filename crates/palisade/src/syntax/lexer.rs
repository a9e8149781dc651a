//! Text to tokens.

use std::cell::Cell;

use sqlparser::tokenizer::{TokenWithSpan, Tokenizer, TokenizerError};

use crate::{code::Code, dialect::Dialect, rejection::Rejection, syntax::dialect};

thread_local! {
    /// The room of tokens that were read: to ask for as much again costs as much as to read some.
    static TOKENS: Cell<Vec<TokenWithSpan>> = const { Cell::new(Vec::new()) };
}

/// Keeps the room of `tokens` for the next text, if that is not exceptional.
pub(in crate::syntax) fn keep_buffer(mut tokens: Vec<TokenWithSpan>) {
    const MOST: usize = 4096;
    if tokens.capacity() <= MOST {
        tokens.clear();
        TOKENS.set(tokens);
    }
}

/// The tokens of `text`.
///
/// # Errors
/// `syntax.invalid` and `syntax.unsupported`.
pub(in crate::syntax) fn tokenize(
    text: &str,
    dialect: Dialect,
) -> Result<Vec<TokenWithSpan>, Rejection> {
    // A token and the blank after it take some six characters, and fewer than two hardly ever; to grow costs as much
    // as to read them.
    let mut tokens = TOKENS.take();
    tokens.reserve(text.len() / 3 * 2 + 8);
    Tokenizer::new(dialect::parser_dialect(dialect), text)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| match has_byte_escape(text, &error) {
            false => Rejection::new(Code::SyntaxInvalid, error.to_string()),
            true => Rejection::new(
                Code::SyntaxUnsupported,
                "an escape in E'…' for a single byte that is no character, as in \\xc3, is not supported: write the character itself, or \\u and its four digits",
            ),
        })?;
    Ok(tokens)
}

/// Whether `error` is that of a string `E'…'` that ends, so that one of its escapes was not read.
fn has_byte_escape(text: &str, error: &TokenizerError) -> bool {
    let TokenizerError { message, location } = error;
    if !message.starts_with("Unterminated encoded string") {
        return false;
    }
    let line = usize::try_from(location.line.saturating_sub(1)).unwrap_or(usize::MAX);
    let column = usize::try_from(location.column.saturating_sub(1)).unwrap_or(usize::MAX);
    // Of the E; then comes the quotation mark.
    let mut lines = text.split_inclusive('\n').skip(line);
    let Some(first) = lines.next() else {
        return false;
    };
    let rest = first.chars().skip(column).chain(lines.flat_map(str::chars));
    let mut is_escaped = false;
    rest.skip_while(|c| *c != '\'').skip(1).any(|c| {
        let ends = c == '\'' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_string_with_an_escape_for_a_byte_is_told_from_one_without_an_end() {
        for (text, expected) in [
            (r"SELECT E'\xc3'", Code::SyntaxUnsupported),
            (r"SELECT E'\xc3\''", Code::SyntaxUnsupported),
            ("SELECT 1,\n  E'\\xc3' , 2", Code::SyntaxUnsupported),
            (
                "SELECT 'it''s',\n\n E'a\n\\xc3\nb'",
                Code::SyntaxUnsupported,
            ),
            // These have no end.
            (r"SELECT E'\xc3", Code::SyntaxInvalid),
            (r"SELECT E'\xc3\'", Code::SyntaxInvalid),
            (r"SELECT 'a', E'b", Code::SyntaxInvalid),
            ("SELECT 'a',\n E'b\n", Code::SyntaxInvalid),
            ("SELECT 'a", Code::SyntaxInvalid),
            (r"SELECT 'E', 'a", Code::SyntaxInvalid),
        ] {
            let refused = tokenize(text, Dialect::Postgres).unwrap_err();
            assert_eq!(refused.code(), expected, "{text}: {refused}");
        }
        tokenize(r"SELECT E'\u00e9\''", Dialect::Postgres).unwrap();
    }

    #[test]
    fn the_room_of_usual_texts_is_kept() {
        for (capacity, is_kept) in [(4096, true), (4097, false)] {
            TOKENS.set(Vec::new());
            keep_buffer(Vec::with_capacity(capacity));
            let room = TOKENS.take();
            assert!(room.is_empty());
            assert_eq!(room.capacity() > 0, is_kept, "{capacity}");
        }
    }
}
