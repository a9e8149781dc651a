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
