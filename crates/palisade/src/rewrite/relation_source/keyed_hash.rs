//! Keyed hashes: HMAC-SHA-256 (RFC 2104) out of the engine's own SHA-256, or a function of ours.
//!
//! A key is 64 hexadecimal digits, taken as they are: as many bytes as a block of SHA-256 has. It is bound
//! as a parameter, combined with the two constants of the construction where the engine has no HMAC.

use std::{collections::BTreeSet, fmt::Write as _};

use sqlparser::ast::{BinaryOperator, Expr};

use crate::rewrite::{ast, output::parameters};
use crate::{
    dialect::Dialect,
    token::{HASH_DIGITS, Key, SQLITE_FUNCTION},
};

/// The hash of `value`'s text in UTF-8, as 64 hexadecimal digits.
///
/// A database whose encoding is not one (PostgreSQL's `SQL_ASCII`) can hold text that is no UTF-8, on
/// which this raises; a backend does not serve such a database.
pub(in crate::rewrite) fn expression(
    key: &Key,
    value: Expr,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let pad = |with: u8| parameters::secret(pad_key(key.digits(), with));
    let call = |name: &str, args| ast::call(dialect, name, args);
    match dialect {
        Dialect::Sqlite => {
            functions.insert(SQLITE_FUNCTION.to_owned());
            let key = parameters::secret(key.digits().to_owned());
            call(SQLITE_FUNCTION, vec![key, ast::cast_text(dialect, value)])
        }
        Dialect::Postgres => {
            let bytes = |pad| call("decode", vec![pad, ast::text(dialect, "hex")]);
            let text = ast::cast_text(dialect, value);
            let text = call("convert_to", vec![text, ast::text(dialect, "UTF8")]);
            let inner = ast::binary(bytes(pad(INNER)), BinaryOperator::StringConcat, text);
            let inner = call("sha256", vec![inner]);
            let outer = ast::binary(bytes(pad(OUTER)), BinaryOperator::StringConcat, inner);
            let hash = call("sha256", vec![outer]);
            call("encode", vec![hash, ast::text(dialect, "hex")])
        }
        Dialect::Mysql => {
            let bytes = |text| call("unhex", vec![text]);
            let sha = |bytes| call("sha2", vec![bytes, ast::integer(256)]);
            let inner = call("concat", vec![bytes(pad(INNER)), ast::mysql_bytes(value)]);
            let inner = bytes(sha(inner));
            sha(call("concat", vec![bytes(pad(OUTER)), inner]))
        }
    }
}

/// As many of a hash's digits as a token has; NULL stays NULL.
pub(in crate::rewrite) fn shorten(
    hash: Expr,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let count = i64::try_from(HASH_DIGITS).unwrap_or(i64::MAX);
    match dialect {
        Dialect::Sqlite => {
            functions.insert("substr".to_owned());
            ast::substr(hash, ast::integer(1), Some(ast::integer(count)))
        }
        Dialect::Postgres | Dialect::Mysql => {
            ast::call(dialect, "left", vec![hash, ast::integer(count)])
        }
    }
}

/// The constants of the inner and the outer hash.
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// The key, each byte combined with `with`, in hexadecimal.
fn pad_key(key: &str, with: u8) -> String {
    key.bytes()
        .fold(String::with_capacity(128), |mut out, byte| {
            // Writing to a String cannot fail.
            let _ = write!(out, "{:02x}", byte ^ with);
            out
        })
}
