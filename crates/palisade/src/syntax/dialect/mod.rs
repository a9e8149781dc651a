//! Our dialects to the parser's.

mod mysql;
mod postgres;
mod simple;
mod sqlite;
mod table;

use sqlparser::{
    dialect::Dialect as ParserDialect, parser::ParserOptions, tokenizer::TokenWithSpan,
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
        Dialect::Postgres => &postgres::POSTGRES,
        Dialect::Mysql => &mysql::MYSQL,
    }
}

/// Literals stay as written: decoding and encoding them again is how `'a\\\\'` becomes `'a\\'` (F2).
pub(super) fn options() -> ParserOptions {
    ParserOptions::new().with_unescape(false)
}

/// Tokens as the parser can read them: what it does not know in this dialect is spelt in a way that it
/// does, or taken away where it changes no result.
pub(super) fn prepared(tokens: Vec<TokenWithSpan>, dialect: Dialect) -> Vec<TokenWithSpan> {
    match dialect {
        Dialect::Sqlite => sqlite::without_hints(tokens),
        Dialect::Postgres => postgres::bounded_frames(table::spelt_out(tokens)),
        Dialect::Mysql => table::spelt_out(tokens),
    }
}
