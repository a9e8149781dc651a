//! Our dialects to the parser's.

pub(in crate::syntax) mod any_all;
mod call;
mod delegate;
pub(in crate::syntax) mod desugar;
pub(in crate::syntax) mod mysql;
pub(in crate::syntax) mod postgres;
pub(in crate::syntax) mod prefix_fast_path;
pub(in crate::syntax) mod sqlite;
pub(in crate::syntax) mod token_edit;

use sqlparser::{
    dialect::Dialect as ParserDialect,
    keywords::Keyword,
    parser::ParserOptions,
    tokenizer::{Token, TokenWithSpan},
};

use crate::dialect::Dialect;

pub(crate) use desugar::postgres_from::ROWS_FROM;
pub(crate) use desugar::window_exclude::is_exclusion;
pub(crate) use mysql::is_hexadecimal;
pub(super) use token_edit::{Solid, is_word};

/// The parser's rules for `dialect`.
pub(super) fn parser_dialect(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Sqlite => &sqlite::SQLITE,
        Dialect::Postgres => &postgres::POSTGRES,
        Dialect::Mysql => &mysql::MYSQL,
    }
}

/// Literals stay as written: decoding and encoding them again is how `'a\\\\'` becomes `'a\\'`.
pub(super) fn options() -> ParserOptions {
    ParserOptions::new().with_unescape(false)
}

/// Tokens as the parser can read them: what it does not know in this dialect is spelt in a way that it
/// does, or taken away where it changes no result.
pub(super) fn prepare(tokens: Vec<TokenWithSpan>, dialect: Dialect) -> Vec<TokenWithSpan> {
    let tokens = named_top(tokens);
    match dialect {
        Dialect::Sqlite => {
            let tokens = sqlite::without_comma(sqlite::without_hints(tokens));
            let tokens = desugar::in_table::spelt_out(tokens);
            desugar::window_exclude::moved_in(desugar::comma_join::spelt_out(tokens, dialect))
        }
        Dialect::Postgres => {
            let tokens = postgres::whole_rows(desugar::postgres_from::spelt_out(
                desugar::table_query::spelt_out(tokens),
            ));
            desugar::window_exclude::moved_in(postgres::bounded_frames(tokens))
        }
        Dialect::Mysql => mysql::spelt_out(desugar::comma_join::spelt_out(
            desugar::table_query::spelt_out(tokens),
            dialect,
        )),
    }
}

/// Takes `top` for the name that it is to every engine here, unless a number or a parenthesis follows: then it is
/// refused as what it looks like.
fn named_top(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !token_edit::has_keyword(&tokens, &[Keyword::TOP]) {
        return tokens;
    }
    let mut follows = Token::EOF;
    for TokenWithSpan { token, span: _ } in tokens.iter_mut().rev() {
        if let Token::Word(word) = &mut *token
            && word.keyword == Keyword::TOP
            && !matches!(follows, Token::Number(_, _) | Token::LParen)
        {
            word.keyword = Keyword::NoKeyword;
        }
        if !matches!(token, Token::Whitespace(_)) {
            follows = token.clone();
        }
    }
    tokens
}

/// Printed text, read as `tokens`, as the engine can read it: what [`prepare`] moved where the parser has
/// a place for it goes back. None if there is nothing of the kind.
pub(super) fn restore(tokens: &[TokenWithSpan], dialect: Dialect) -> Option<String> {
    match dialect {
        Dialect::Sqlite => {
            sqlite::with_comma(tokens).or_else(|| desugar::window_exclude::moved_out(tokens))
        }
        Dialect::Postgres => desugar::window_exclude::moved_out(tokens),
        Dialect::Mysql => None,
    }
}
