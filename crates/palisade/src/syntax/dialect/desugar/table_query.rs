//! `TABLE name` as a query: short for `SELECT * FROM name`, for which the parser keeps no identifier.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};

/// Writes `SELECT * FROM` for `TABLE` where a query begins and a name follows.
pub(in crate::syntax) fn spelt_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    if !tokens.iter().any(|t| keyword(t) == Some(Keyword::TABLE)) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 4);
    let mut begins = true;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if matches!(token.token, Token::Whitespace(_)) {
            out.push(token);
            continue;
        }
        let is_table = begins && keyword(&token) == Some(Keyword::TABLE);
        begins = matches!(token.token, Token::LParen | Token::SemiColon)
            || matches!(
                keyword(&token),
                Some(
                    Keyword::UNION
                        | Keyword::EXCEPT
                        | Keyword::INTERSECT
                        | Keyword::ALL
                        | Keyword::DISTINCT
                )
            );
        if !is_table {
            out.push(token);
            continue;
        }
        let span = token.span;
        while let Some(space) = tokens.next_if(|t| matches!(t.token, Token::Whitespace(_))) {
            out.push(space);
        }
        if !matches!(tokens.peek().map(|t| &t.token), Some(Token::Word(_))) {
            out.push(token);
            continue;
        }
        let word = |value: &str, keyword| {
            Token::Word(Word {
                value: value.to_owned(),
                quote_style: None,
                keyword,
            })
        };
        let query = [
            word("SELECT", Keyword::SELECT),
            Token::Mul,
            word("FROM", Keyword::FROM),
        ];
        out.extend(query.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    out
}
