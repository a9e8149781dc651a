//! Fingerprints: which statement it was, literals and layout aside, for audit lines and statistics.

use std::collections::BTreeSet;

use sqlparser::{
    ast::Ident,
    tokenizer::{Span, Token, TokenWithSpan},
};

use crate::{dialect::Dialect, digest::sha256_hex, syntax::lexer};

/// A statement without its literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// The first 16 hexadecimal digits of the SHA-256 of `normalized`.
    pub id: String,
    /// The statement with every literal as `?`, one space between tokens, comments gone.
    pub normalized: String,
}

/// The fingerprint of `text`. A double-quoted word may be a string on SQLite, so it counts as a
/// literal unless `is_name` knows it. Text that cannot be split into tokens has an empty
/// normalisation, because its literals are not known.
#[must_use]
pub(crate) fn fingerprint(
    text: &str,
    dialect: Dialect,
    is_name: impl Fn(&str) -> bool,
) -> Fingerprint {
    let mut normalized = String::with_capacity(text.len());
    for TokenWithSpan { token, span: _ } in lexer::tokenize(text, dialect).unwrap_or_default() {
        let piece = match &token {
            Token::Whitespace(_) | Token::EOF => continue,
            Token::Word(word) => match word.quote_style {
                None => word.value.to_lowercase(),
                Some('"') if !is_name(&word.value) => "?".to_owned(),
                Some(_) => word.to_string(),
            },
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Char(_) => "?".to_owned(),
            other => other.to_string(),
        };
        if !normalized.is_empty() {
            normalized.push(' ');
        }
        normalized.push_str(&piece);
    }
    let mut id = sha256_hex(normalized.as_bytes());
    id.truncate(16);
    Fingerprint { id, normalized }
}

/// The folded words of `text`, quotes undone.
pub(crate) fn words(text: &str, dialect: Dialect) -> BTreeSet<String> {
    lexer::tokenize(text, dialect)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|token| match token.token {
            Token::Word(word) => {
                let ident = Ident {
                    value: word.value,
                    quote_style: word.quote_style,
                    span: Span::empty(),
                };
                Some(super::key(&ident, dialect).into_owned())
            }
            Token::SingleQuotedString(text) => Some(dialect.fold(&text)),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_layout_do_not_count() {
        let of = |sql| fingerprint(sql, Dialect::Sqlite, |name| name == "Weird");
        let a = of("SELECT x FROM \"Weird\" WHERE y = 'secret' AND z IN (1, 2)");
        let b = of("select  x from \"Weird\" /* hi */ where y='other' and z in (3,4)");
        assert_eq!(a, b);
        assert!(!of("SELECT \"a secret\"").normalized.contains("secret"));
        assert_ne!(
            a.id,
            of("SELECT z FROM \"Weird\" WHERE y = '' AND z IN (1, 2)").id
        );
    }
}
