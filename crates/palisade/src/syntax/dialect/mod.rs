//! Our dialects to the parser's.

mod mysql;
mod sqlite;

use std::collections::BTreeSet;

use sqlparser::{
    dialect::{Dialect as ParserDialect, PostgreSqlDialect},
    parser::ParserOptions,
    tokenizer::{Token, TokenWithSpan},
};

use crate::dialect::Dialect;

/// Passes the parser's questions on to the dialect that a dialect of ours stands on.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            self.0.$name($($argument),*)
        })*
    };
}
use delegate;

/// The parser's rules for `dialect`.
pub(super) fn parser_dialect(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Sqlite => &sqlite::SQLITE,
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &mysql::MYSQL,
    }
}

/// Literals stay as written: decoding and encoding them again is how `'a\\\\'` becomes `'a\\'` (F2).
pub(super) fn options() -> ParserOptions {
    ParserOptions::new().with_unescape(false)
}

/// Takes planner hints away that change no result and that the parser does not know in this dialect:
/// `[NOT] MATERIALIZED` between `AS` and a parenthesis, `NOT INDEXED` and `INDEXED BY name`.
pub(super) fn without_hints(
    mut tokens: Vec<TokenWithSpan>,
    dialect: Dialect,
) -> Vec<TokenWithSpan> {
    match dialect {
        Dialect::Sqlite => {}
        // The parser knows what these have.
        Dialect::Postgres | Dialect::Mysql => return tokens,
    }
    let word = |token: &TokenWithSpan, text: &str| {
        matches!(&token.token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
    };
    if !tokens
        .iter()
        .any(|t| word(t, "materialized") || word(t, "indexed"))
    {
        return tokens;
    }
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_)))
        .map(|(index, _)| index)
        .collect();
    let at = |n: usize| solid.get(n).and_then(|index| tokens.get(*index));
    let is = |n: usize, text: &str| at(n).is_some_and(|t| word(t, text));
    let mut gone = BTreeSet::new();
    for n in 0..solid.len() {
        let not = usize::from(is(n + 1, "not"));
        let hint = if is(n, "as")
            && is(n + 1 + not, "materialized")
            && at(n + 2 + not).is_some_and(|t| t.token == Token::LParen)
        {
            n + 1..n + 2 + not
        } else if is(n, "not") && is(n + 1, "indexed") {
            n..n + 2
        } else if is(n, "indexed") && is(n + 1, "by") {
            n..n + 3
        } else {
            continue;
        };
        gone.extend(hint.filter_map(|n| solid.get(n)).copied());
    }
    let mut index = 0;
    tokens.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
    tokens
}
