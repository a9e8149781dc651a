//! Our dialects to the parser's.

use sqlparser::{
    dialect::{Dialect as ParserDialect, SQLiteDialect},
    parser::ParserOptions,
};

use crate::dialect::Dialect;

/// The parser's rules for `dialect`.
pub(super) fn parser_dialect(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Sqlite => &SQLiteDialect {},
    }
}

/// Literals stay as written: decoding and encoding them again is how `'a\\'` becomes `'a\'` (F2).
pub(super) fn options() -> ParserOptions {
    ParserOptions::new().with_unescape(false)
}
