//! Keyed hashes: HMAC-SHA-256 (RFC 2104) out of the engine's own SHA-256.
//!
//! The key is 64 hexadecimal digits, taken as they are: as many bytes as a block of SHA-256 has.

use std::fmt::Write as _;

use sqlparser::ast::{BinaryOperator, Expr};

use super::sql;
use crate::dialect::Dialect;

/// The hash of `value`'s text in UTF-8, as 64 hexadecimal digits; none on an engine without the
/// function.
///
/// A database whose encoding is not one (PostgreSQL's `SQL_ASCII`) can hold text that is no UTF-8, on
/// which this raises; a backend does not serve such a database.
pub(super) fn expression(key: &str, value: Expr, dialect: Dialect) -> Option<Expr> {
    let pad = |with: u8| sql::text(dialect, &padded(key, with));
    let (outer, inner) = (pad(0x5c), pad(0x36));
    let call = |name: &str, args| sql::call(dialect, name, args);
    match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => {
            let bytes = |pad| call("decode", vec![pad, sql::text(dialect, "hex")]);
            let text = sql::cast_text(dialect, value);
            let text = call("convert_to", vec![text, sql::text(dialect, "UTF8")]);
            let inner = sql::binary(bytes(inner), BinaryOperator::StringConcat, text);
            let inner = call("sha256", vec![inner]);
            let outer = sql::binary(bytes(outer), BinaryOperator::StringConcat, inner);
            let hash = call("sha256", vec![outer]);
            Some(call("encode", vec![hash, sql::text(dialect, "hex")]))
        }
        Dialect::Mysql => {
            let bytes = |text| call("unhex", vec![text]);
            let sha = |bytes| call("sha2", vec![bytes, sql::integer(256)]);
            let inner = call("concat", vec![bytes(inner), sql::mysql_bytes(value)]);
            let inner = bytes(sha(inner));
            Some(sha(call("concat", vec![bytes(outer), inner])))
        }
    }
}

/// The key, each byte combined with `with`, in hexadecimal.
fn padded(key: &str, with: u8) -> String {
    key.bytes()
        .fold(String::with_capacity(128), |mut out, byte| {
            // Writing to a String cannot fail.
            let _ = write!(out, "{:02x}", byte ^ with);
            out
        })
}
