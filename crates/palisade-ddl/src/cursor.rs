//! Reading the words of one statement from left to right.

use crate::{
    DdlError,
    lex::{Lexeme, Token},
};
use palisade::dialect::Dialect;

/// A place in the words of a statement, or of a part of it.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    tokens: &'t [Token],
    dialect: Dialect,
    /// Of the last token that was taken, for messages at the end.
    line: usize,
}

/// A name as the catalog holds it, with the schema if one was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str, tokens: &'t [Token], dialect: Dialect) -> Self {
        let line = tokens.first().map_or(1, |token| token.line);
        Self {
            text,
            tokens,
            dialect,
            line,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn first(&self) -> Option<&'t Token> {
        self.tokens.first()
    }

    pub(super) fn last(&self) -> Option<&'t Token> {
        self.tokens.last()
    }

    pub(super) fn line(&self) -> usize {
        self.tokens.first().map_or(self.line, |token| token.line)
    }

    pub(super) fn error(&self, message: impl Into<String>) -> DdlError {
        DdlError::new(self.line(), message)
    }

    /// What was expected here.
    pub(super) fn expected_error(&self, what: &str) -> DdlError {
        let found = match self.tokens.first() {
            Some(token) => format!("`{}`", self.spell_token(token)),
            None => "the end".to_owned(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    pub(super) fn spell_token(&self, token: &Token) -> &'t str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    /// Everything that is left, as written.
    pub(super) fn written(&self) -> &'t str {
        match (self.tokens.first(), self.tokens.last()) {
            (Some(first), Some(last)) => self.text.get(first.start..last.end).unwrap_or_default(),
            (Some(_), None) | (None, Some(_)) | (None, None) => "",
        }
    }

    /// The text from here to where `later` begins.
    pub(super) fn text_before(&self, later: &Self) -> &'t str {
        let (all, rest) = (self.written(), later.written());
        all.get(..all.len().saturating_sub(rest.len()))
            .unwrap_or_default()
            .trim_end()
    }

    pub(super) fn bump(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.line = first.line;
        self.tokens = rest;
        Some(first)
    }

    fn nth_spelt(&self, index: usize) -> Option<&'t str> {
        let token = self.tokens.get(index)?;
        matches!(token.lexeme, Lexeme::Word | Lexeme::Symbol).then(|| self.spell_token(token))
    }

    /// Whether these words or marks come next.
    pub(super) fn sees(&self, words: &str) -> bool {
        words.split(' ').enumerate().all(|(index, word)| {
            self.nth_spelt(index)
                .is_some_and(|found| found.eq_ignore_ascii_case(word))
        })
    }

    /// Takes these words if they come next.
    pub(super) fn eat(&mut self, words: &str) -> bool {
        let sees = self.sees(words);
        if sees {
            for _ in words.split(' ') {
                self.bump();
            }
        }
        sees
    }

    /// Takes the first of these that comes next.
    pub(super) fn eat_any<'w>(&mut self, choices: &[&'w str]) -> Option<&'w str> {
        choices.iter().copied().find(|words| self.eat(words))
    }

    pub(super) fn expect(&mut self, words: &str) -> Result<(), DdlError> {
        if self.eat(words) {
            Ok(())
        } else {
            Err(self.expected_error(&format!("`{}`", words.to_ascii_uppercase())))
        }
    }

    /// The word that comes next, in lower case; none if it is no word.
    pub(super) fn word(&self) -> Option<String> {
        let token = self.tokens.first()?;
        (token.lexeme == Lexeme::Word).then(|| self.spell_token(token).to_ascii_lowercase())
    }

    /// Whether a name comes next.
    pub(super) fn sees_name(&self) -> bool {
        self.tokens
            .first()
            .is_some_and(|t| matches!(t.lexeme, Lexeme::Word | Lexeme::Quoted(_)))
    }

    /// One part of a name, folded as the engine folds it for its catalog.
    pub(super) fn ident(&mut self) -> Result<String, DdlError> {
        let Some(token) = self.tokens.first() else {
            return Err(self.expected_error("a name"));
        };
        let name = match &token.lexeme {
            Lexeme::Word => self.fold(self.spell_token(token), false),
            Lexeme::Quoted(name) => self.fold(name, true),
            Lexeme::Text | Lexeme::Number | Lexeme::Symbol => {
                return Err(self.expected_error("a name"));
            }
        };
        self.bump();
        Ok(name)
    }

    fn fold(&self, name: &str, quoted: bool) -> String {
        match self.dialect {
            Dialect::Postgres => self.dialect.fold_written(name, quoted).into_owned(),
            // Their catalogs hold names as declared.
            Dialect::Mysql | Dialect::Sqlite => name.to_owned(),
        }
    }

    /// A name with or without a schema.
    pub(super) fn name(&mut self) -> Result<Name, DdlError> {
        let first = self.ident()?;
        if !self.eat(".") {
            return Ok(Name {
                schema: None,
                name: first,
            });
        }
        let second = self.ident()?;
        if !self.eat(".") {
            return Ok(Name {
                schema: Some(first),
                name: second,
            });
        }
        Ok(Name {
            schema: Some(second),
            name: self.ident()?,
        })
    }

    /// What stands in the parentheses that open here.
    pub(super) fn group(&mut self) -> Result<Cursor<'t>, DdlError> {
        if !self.sees("(") {
            return Err(self.expected_error("`(`"));
        }
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate() {
            if token.lexeme == Lexeme::Symbol {
                match self.spell_token(token) {
                    "(" => depth += 1,
                    ")" => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            if depth == 0 {
                let inner = Cursor {
                    text: self.text,
                    tokens: self.tokens.get(1..index).unwrap_or_default(),
                    dialect: self.dialect,
                    line: self.line(),
                };
                self.line = token.line;
                self.tokens = self.tokens.get(index + 1..).unwrap_or_default();
                return Ok(inner);
            }
        }
        Err(self.error("a parenthesis does not close"))
    }

    /// The parts between commas that stand in no parentheses; none if nothing is left.
    pub(super) fn parts(&self) -> Vec<Cursor<'t>> {
        if self.tokens.is_empty() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        let mut rest = *self;
        loop {
            let part = rest.until(&[","]);
            parts.push(part);
            if !rest.eat(",") {
                return parts;
            }
        }
    }

    /// Takes everything before the first of these marks or words that stands in no parentheses.
    pub(super) fn until(&mut self, stops: &[&str]) -> Cursor<'t> {
        let all = *self;
        let mut depth = 0usize;
        let mut taken = 0;
        while let Some(token) = self.tokens.first() {
            let opens = token.lexeme == Lexeme::Symbol;
            if depth == 0 && stops.iter().any(|stop| self.sees(stop)) {
                break;
            }
            match self.spell_token(token) {
                "(" | "[" if opens => depth += 1,
                ")" | "]" if opens => depth = depth.saturating_sub(1),
                _ => {}
            }
            taken += 1;
            self.bump();
        }
        all.prefix(taken)
    }

    /// The first `count` tokens.
    pub(super) fn prefix(&self, count: usize) -> Cursor<'t> {
        Cursor {
            tokens: self.tokens.get(..count).unwrap_or(self.tokens),
            ..*self
        }
    }

    /// Whether this word stands somewhere outside of parentheses.
    pub(super) fn has(&self, words: &str) -> bool {
        let mut rest = *self;
        rest.until(&[words]);
        !rest.is_empty()
    }

    /// Every name that stands alone, with no dot before or after it; words of the grammar among them.
    pub(super) fn unqualified(&self) -> Vec<String> {
        let is_dot = |token: Option<&Token>| {
            token.is_some_and(|t| t.lexeme == Lexeme::Symbol && self.spell_token(t) == ".")
        };
        let mut names = Vec::new();
        let mut rest = *self;
        let mut before = None;
        while let Some(token) = rest.first() {
            let dotted = is_dot(before) || is_dot(self.tokens.get(self.len() - rest.len() + 1));
            match rest.ident() {
                Ok(name) if !dotted => names.push(name),
                Ok(_) => {}
                Err(_) => {
                    rest.bump();
                }
            }
            before = Some(token);
        }
        names
    }

    /// Names between commas.
    pub(super) fn idents(&self) -> Result<Vec<String>, DdlError> {
        self.parts()
            .into_iter()
            .map(|mut part| part.ident())
            .collect()
    }
}
