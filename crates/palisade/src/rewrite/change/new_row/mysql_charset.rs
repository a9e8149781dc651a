//! What a text column of MySQL makes of a value that a query gives it, so that policy looks at what is stored.

use std::collections::BTreeSet;

use sqlparser::ast::{BinaryOperator, DataType, Expr};

use crate::rewrite::ast;
use crate::{catalog::Column, dialect::Dialect};

/// A text of the column's character set, which compares as the column does.
fn text(value: Expr, column: &Column) -> Option<Expr> {
    let collation = &column.collation;
    let charset = collation.split('_').next()?;
    let is_plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if !is_plain(collation) || !is_plain(charset) || charset.starts_with("uca") {
        return None;
    }
    let converted = ast::mysql_convert(value, charset);
    Some(ast::collate(converted, collation, Dialect::Mysql))
}

/// `value` as a text of the character set of MySQL's `column`, so that policy looks at the stored text. Where the catalog does not
/// know the character set it is `utf8mb4`, from which MySQL converts as it stores.
pub(in crate::rewrite) fn stored_text(value: Expr, column: &Column) -> Expr {
    text(value.clone(), column).unwrap_or_else(|| ast::mysql_convert(value, "utf8mb4"))
}

/// That [`stored_text`] of `value` is no other text than `value`: the column's character set may lack its letters, or have no
/// letters for its bytes. MySQL refuses those where they are stored, and puts others in their place where they are converted.
pub(in crate::rewrite) fn is_whole(
    value: &Expr,
    column: &Column,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let stored = stored_text(value.clone(), column);
    let same = |of: fn(Expr) -> Expr| {
        ast::binary(of(value.clone()), BinaryOperator::Eq, of(stored.clone()))
    };
    let as_bytes = same(|text| ast::cast(text, DataType::Binary(None)));
    let mut as_text = same(ast::mysql_bytes);
    // Elsewhere bytes that are no text read as what they would be converted to. Numbers count as bytes and are not.
    if !WIDE.contains(&column.collation.split('_').next().unwrap_or_default()) {
        functions.insert("charset".to_owned());
        let charset = ast::call(Dialect::Mysql, "charset", vec![value.clone()]);
        let bytes = ast::text(Dialect::Mysql, "binary");
        let is_text = ast::binary(charset, BinaryOperator::NotEq, bytes);
        as_text = ast::parens(ast::binary(is_text, BinaryOperator::And, as_text));
    }
    let absent = Expr::IsNull(Box::new(value.clone()));
    ast::parens(ast::join_by(
        vec![absent, as_bytes, as_text],
        &BinaryOperator::Or,
        false,
    ))
}

/// Character sets of MySQL that spell no ASCII in single bytes.
const WIDE: &[&str] = &["ucs2", "utf16", "utf16le", "utf32"];
