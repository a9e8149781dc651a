//! Texts that the parser reads as something else than the engine does.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::{code::Code, dialect::Dialect, rejection::Rejection, syntax::dialect::is_word};

/// Refuses what the parser reads as something else than the engine does, and prints so.
pub(in crate::syntax) fn check_drift(
    tokens: &[TokenWithSpan],
    dialect: Dialect,
) -> Result<(), Rejection> {
    if dialect != Dialect::Postgres {
        return Ok(());
    }
    let refuse = |what: &str| {
        Err(Rejection::new(
            Code::SyntaxUnsupported,
            format!("{what} is not supported"),
        ))
    };
    // With blanks between them they are a column, an operator and another column.
    for three in tokens.windows(3) {
        if let [unicode, sign, name] = three
            && is_word(&unicode.token, &["u"])
            && sign.token == Token::Ampersand
            && matches!(&name.token, Token::Word(word) if word.quote_style.is_some())
        {
            return refuse("a name with Unicode escapes (U&\"…\")");
        }
    }
    let mut solid = tokens
        .iter()
        .map(|t| &t.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut before = solid.next();
    for token in solid {
        let Some(first) = before.replace(token) else {
            continue;
        };
        match [first, token] {
            [Token::UnicodeStringLiteral(_), _] | [_, Token::UnicodeStringLiteral(_)] => {
                return refuse("a string with Unicode escapes (U&'…')");
            }
            // One string over two lines, or a string and its alias: the parser takes the second.
            [
                Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_),
                Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_),
            ] => return refuse("a string in several pieces"),
            // Its precision is lost.
            [Token::Word(word), Token::LParen]
                if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL =>
            {
                return refuse("INTERVAL with a precision");
            }
            _ => {}
        }
    }
    Ok(())
}
