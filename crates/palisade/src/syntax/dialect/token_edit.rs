//! Tokens without the blanks between them, and edits of them.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Span, Token, TokenWithSpan, Word},
};

/// The tokens of a statement, blanks left out: what stands next to what.
pub(in crate::syntax) struct Solid<'t> {
    tokens: &'t [TokenWithSpan],
    places: Vec<usize>,
}

impl<'t> Solid<'t> {
    pub(in crate::syntax) fn new(tokens: &'t [TokenWithSpan]) -> Self {
        let places = tokens
            .iter()
            .enumerate()
            .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
            .map(|(place, _)| place)
            .collect();
        Self { tokens, places }
    }

    pub(in crate::syntax) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where the `n`th stands among all tokens.
    pub(in crate::syntax) fn place(&self, n: usize) -> Option<usize> {
        self.places.get(n).copied()
    }

    pub(in crate::syntax) fn token(&self, n: usize) -> Option<&'t TokenWithSpan> {
        self.tokens.get(self.place(n)?)
    }

    pub(in crate::syntax) fn is(&self, n: usize, token: &Token) -> bool {
        self.token(n).is_some_and(|t| t.token == *token)
    }

    /// Whether the `n`th is one of these words, without quotes.
    pub(in crate::syntax) fn is_word(&self, n: usize, words: &[&str]) -> bool {
        self.token(n).is_some_and(|t| is_word(&t.token, words))
    }

    /// Whether the words begin at the `n`th.
    pub(in crate::syntax) fn are_words(&self, n: usize, words: &[&str]) -> bool {
        (n..)
            .zip(words)
            .all(|(n, word)| self.is_word(n, std::slice::from_ref(word)))
    }

    /// Whether the `n`th may be a part of a name.
    pub(in crate::syntax) fn is_name(&self, n: usize) -> bool {
        matches!(self.token(n).map(|t| &t.token), Some(Token::Word(_)))
    }

    /// The position after the name, with its qualifiers, that begins at `n`.
    pub(in crate::syntax) fn after_name(&self, n: usize) -> Option<usize> {
        let mut n = n;
        loop {
            if !self.is_name(n) {
                return None;
            }
            if !self.is(n + 1, &Token::Period) {
                return Some(n + 1);
            }
            n += 2;
        }
    }

    /// The parenthesis that closes the one at `open`.
    pub(in crate::syntax) fn find_closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for n in open..self.len() {
            if self.is(n, &Token::LParen) {
                depth += 1;
            } else if self.is(n, &Token::RParen) {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(n);
                }
            }
        }
        None
    }

    /// The parenthesis that the one at `close` closes.
    pub(in crate::syntax) fn find_opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        for n in (0..=close).rev() {
            if self.is(n, &Token::RParen) {
                depth += 1;
            } else if self.is(n, &Token::LParen) {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(n);
                }
            }
        }
        None
    }
}

/// What is put before tokens, and which of them go.
#[derive(Default)]
pub(in crate::syntax) struct Edits {
    before: BTreeMap<usize, Vec<Token>>,
    gone: BTreeSet<usize>,
}

impl Edits {
    /// Puts `token` before the `n`th of `solid`, or at the end.
    pub(in crate::syntax) fn put(&mut self, solid: &Solid<'_>, n: usize, token: Token) {
        let place = solid.place(n).unwrap_or(solid.tokens.len());
        self.before.entry(place).or_default().push(token);
    }

    /// Takes the `n`th of `solid` away.
    pub(in crate::syntax) fn take(&mut self, solid: &Solid<'_>, n: usize) {
        self.gone.extend(solid.place(n));
    }

    /// Takes the `n`th and what follows it away, blanks included, up to the `end`th.
    pub(in crate::syntax) fn take_until(&mut self, solid: &Solid<'_>, n: usize, end: usize) {
        if let (Some(n), Some(end)) = (solid.place(n), solid.place(end)) {
            self.gone.extend(n..end);
        }
    }

    /// The tokens as edited. What is put somewhere has the place of what stood there.
    pub(in crate::syntax) fn apply(mut self, tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
        if self.before.is_empty() && self.gone.is_empty() {
            return tokens;
        }
        let mut out = Vec::with_capacity(tokens.len() + self.before.len() * 2);
        let end = tokens.len();
        let mut span = sqlparser::tokenizer::Span::empty();
        for (place, token) in tokens.into_iter().enumerate() {
            span = token.span;
            let new = self.before.remove(&place).unwrap_or_default();
            out.extend(new.into_iter().map(|token| TokenWithSpan { token, span }));
            if !self.gone.contains(&place) {
                out.push(token);
            }
        }
        let last = self.before.remove(&end).unwrap_or_default();
        out.extend(last.into_iter().map(|token| TokenWithSpan { token, span }));
        out
    }
}

/// Whether a token is one of these words, without quotes.
pub(in crate::syntax) fn is_word(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none()
        && words.iter().any(|w| word.value.eq_ignore_ascii_case(w)))
}

/// Whether one of these words, without quotes, stands anywhere.
pub(in crate::syntax) fn has_keyword(tokens: &[TokenWithSpan], words: &[Keyword]) -> bool {
    tokens.iter().any(|t| {
        matches!(&t.token, Token::Word(word) if word.quote_style.is_none() && words.contains(&word.keyword))
    })
}

/// A word as the parser has it.
pub(in crate::syntax) fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word {
        value: value.to_owned(),
        quote_style: None,
        keyword,
    })
}

/// Whether a literal with these digits is written `0x1F`, which is two characters longer than them; `x'1F'` is three.
pub(in crate::syntax) fn is_hex_number(digits: &str, span: Span) -> bool {
    let width = span.end.column.checked_sub(span.start.column);
    width == u64::try_from(digits.len() + 2).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::tokenizer::{Location, Tokenizer};

    use super::*;

    fn tokens(text: &str) -> Vec<TokenWithSpan> {
        let dialect = sqlparser::dialect::PostgreSqlDialect {};
        let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
        tokens.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn print(tokens: &[TokenWithSpan]) -> String {
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn blanks_are_left_out() {
        let tokens = tokens("a  /* b */ . c");
        let solid = Solid::new(&tokens);
        assert_eq!(solid.len(), 3);
        assert!(solid.is(1, &Token::Period) && !solid.is(0, &Token::Period));
        assert!(solid.is_word(2, &["x", "C"]) && !solid.is_word(2, &["a"]));
        assert!(solid.is_name(0) && !solid.is_name(1) && !solid.is_name(3));
    }

    #[test]
    fn words_are_so_without_quotes() {
        for (text, words, expected) in [
            ("order by", &["order", "by"][..], true),
            ("ORDER  By x", &["order", "by"], true),
            ("order x", &["order", "by"], false),
            ("order", &["order", "by"], false),
            (r#""order" by"#, &["order", "by"], false),
            ("x", &[], true),
        ] {
            let tokens = tokens(text);
            let found = Solid::new(&tokens).are_words(0, words);
            assert_eq!(found, expected, "{text}");
        }
        for (text, expected) in [
            ("a select b", true),
            (r#"a "select" b"#, false),
            ("a 'select' b", false),
        ] {
            let found = has_keyword(&tokens(text), &[Keyword::SELECT]);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_end_behind_their_last_part() {
        for (text, expected) in [
            ("a", Some(1)),
            ("a.b c", Some(3)),
            (r#"a . "b" . c"#, Some(5)),
            ("a.", None),
            ("a.(b)", None),
            ("1", None),
            ("", None),
        ] {
            let tokens = tokens(text);
            let found = Solid::new(&tokens).after_name(0);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn parentheses_are_found_from_both_ends() {
        for (text, open, close) in [
            ("(a)", 0, Some(2)),
            ("((a) b)", 0, Some(5)),
            ("((a) b)", 1, Some(3)),
            ("(a", 0, None),
            (") (a)", 0, None),
        ] {
            let tokens = tokens(text);
            let solid = Solid::new(&tokens);
            assert_eq!(solid.find_closing(open), close, "{text}");
            if let Some(close) = close {
                assert_eq!(solid.find_opening(close), Some(open), "{text}");
            }
        }
        for (text, close, open) in [("a)", 1, None), ("(a", 1, None), ("(a))", 3, None)] {
            let tokens = tokens(text);
            assert_eq!(Solid::new(&tokens).find_opening(close), open, "{text}");
        }
    }

    #[test]
    fn tokens_are_put_and_taken() {
        let edit = |text: &str, edit: fn(&mut Edits, &Solid<'_>)| {
            let tokens = tokens(text);
            let mut edits = Edits::default();
            edit(&mut edits, &Solid::new(&tokens));
            print(&edits.apply(tokens))
        };
        assert_eq!(edit("a b c", |_, _| {}), "a b c");
        assert_eq!(edit("a b c", |e, s| e.put(s, 1, Token::Plus)), "a +b c");
        assert_eq!(edit("a b c", |e, s| e.put(s, 9, Token::Plus)), "a b c+");
        assert_eq!(edit("a b c", |e, s| e.take(s, 1)), "a  c");
        assert_eq!(edit("a b c", |e, s| e.take(s, 9)), "a b c");
        assert_eq!(edit("a b c", |e, s| e.take_until(s, 1, 2)), "a c");
        assert_eq!(edit("a b c", |e, s| e.take_until(s, 1, 9)), "a b c");
    }

    #[test]
    fn a_number_with_two_signs_before_its_digits_is_hexadecimal() {
        for (width, expected) in [(3, false), (4, true), (5, false)] {
            let at = |column| Location { line: 1, column };
            let span = Span::new(at(7), at(7 + width));
            assert_eq!(is_hex_number("1F", span), expected, "{width}");
        }
    }
}
