//! `a IN t`, which SQLite reads as `a IN (SELECT * FROM t)`
//! (<https://www.sqlite.org/lang_expr.html#the_in_and_not_in_operators>).

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::token_edit::{Edits, Solid, has_keyword, word};

/// Writes the query for the name, or for the table function that is called.
pub(in crate::syntax) fn spelt_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !has_keyword(&tokens, &[Keyword::IN]) {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    for n in 0..solid.len() {
        if !solid.is_word(n, &["in"]) {
            continue;
        }
        let Some(mut after) = solid.after_name(n + 1) else {
            continue;
        };
        if solid.is(after, &Token::LParen) {
            let Some(close) = solid.find_closing(after) else {
                continue;
            };
            after = close + 1;
        }
        for token in [
            Token::LParen,
            word("SELECT", Keyword::SELECT),
            Token::Mul,
            word("FROM", Keyword::FROM),
        ] {
            edits.put(&solid, n + 1, token);
        }
        edits.put(&solid, after, Token::RParen);
    }
    edits.apply(tokens)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use sqlparser::{dialect::SQLiteDialect, tokenizer::Tokenizer};

    use super::*;

    #[test]
    fn a_name_or_a_call_after_in_is_a_query() {
        for (sql, query) in [
            ("a IN t", "a IN (SELECT * FROM t)"),
            ("a IN main.t AND b", "a IN (SELECT * FROM main.t) AND b"),
            (
                "a IN f('x', (1)) OR b",
                "a IN (SELECT * FROM f('x', (1))) OR b",
            ),
            ("a IN f(b) OR c", "a IN (SELECT * FROM f(b)) OR c"),
            ("a IN (1, 2)", "a IN (1, 2)"),
            ("a IN f(1", "a IN f(1"),
        ] {
            let dialect = SQLiteDialect {};
            let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
            let tokens = spelt_out(tokens.unwrap());
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(text.replace(' ', ""), query.replace(' ', ""), "{sql}");
        }
    }
}
