//! What a column of a key makes of what a query gives it: the value as it is stored, so that looking for it in the table finds what the
//! key finds.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, TimezoneInfo, UnaryOperator,
};

use crate::rewrite::{
    ast,
    change::new_row::{converted, storage},
};
use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
    value::is_canonical_uuid,
};

/// Up to where SQLite's floating-point numbers are all whole numbers.
const EXACT: i64 = 1 << 53;

/// A value of a query in a column of a key.
pub(in crate::rewrite) struct Keyed {
    /// The value as the column stores it.
    pub(in crate::rewrite) typed: Expr,
    /// Whether that may be NULL where the value is none.
    pub(in crate::rewrite) may_be_lost: bool,
}

/// `value` as `column` stores it; none where that cannot be told.
pub(in crate::rewrite) fn keyed(value: Expr, column: &Column, dialect: Dialect) -> Option<Keyed> {
    match dialect {
        // The column's affinity is that of the comparison too.
        Dialect::Sqlite => Some(Keyed {
            typed: value,
            may_be_lost: false,
        }),
        Dialect::Mysql => mysql(value, column),
        // Its upserts have conditions.
        Dialect::Postgres => None,
    }
}

fn mysql(value: Expr, column: &Column) -> Option<Keyed> {
    let name = column.type_name.to_ascii_lowercase();
    let digits = || Some(storage::declared_length(&name).unwrap_or(0) as u64).filter(|n| *n > 0);
    let data_type = match column.class {
        TypeClass::Integer | TypeClass::Boolean | TypeClass::Decimal => {
            return Some(Keyed {
                typed: converted::typed(value, column, Dialect::Mysql)?,
                may_be_lost: false,
            });
        }
        TypeClass::Text | TypeClass::Enum => {
            let is_set = storage::is_named(column, "set");
            return text(value, column).filter(|_| !is_set).map(|typed| Keyed {
                typed,
                may_be_lost: true,
            });
        }
        TypeClass::Number if is_double(column) => DataType::Double(ExactNumberInfo::None),
        TypeClass::Date => DataType::Date,
        TypeClass::Timestamp | TypeClass::TimestampTz => DataType::Datetime(digits()),
        TypeClass::Time => DataType::Time(digits(), TimezoneInfo::None),
        TypeClass::Uuid => DataType::Uuid,
        TypeClass::Blob => DataType::Binary(None),
        TypeClass::Number
        | TypeClass::Padded
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => return None,
    };
    Some(Keyed {
        typed: ast::cast(value, data_type),
        may_be_lost: true,
    })
}

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

/// What MySQL's `column`, of texts, is to be given in the place of `value`, so that policy looks at what it stores: a text of its own
/// character set, as which MySQL takes bytes there. Where nobody knows which that is, one that says its own, which is stored
/// as it is read.
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
    ast::parens(ast::joined(
        vec![absent, as_bytes, as_text],
        &BinaryOperator::Or,
        false,
    ))
}

/// Character sets of MySQL that spell no ASCII in single bytes.
const WIDE: &[&str] = &["ucs2", "utf16", "utf16le", "utf32"];

/// The conditions under which `column` stores what [`keyed`] makes of a value, called `name`, as it is, and puts nothing else in its
/// place; none where they cannot be told. `is_filled` says whether it has a default.
pub(in crate::rewrite) fn kept(
    name: &Expr,
    column: &Column,
    is_filled: bool,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Option<Vec<Expr>> {
    let mut conditions = Vec::new();
    let is_time = matches!(column.class, TypeClass::Timestamp | TypeClass::TimestampTz);
    // SQLite puts a default in the place of a NULL that may not be there, and MySQL the time.
    if !column.nullable && (is_filled || is_time) {
        conditions.push(Expr::IsNotNull(Box::new(name.clone())));
    }
    let mut demand = |condition: Expr| {
        let absent = Expr::IsNull(Box::new(name.clone()));
        conditions.push(ast::parens(ast::binary(
            absent,
            BinaryOperator::Or,
            ast::parens(condition),
        )));
    };
    let between = |low: i64, high: i64| Expr::Between {
        expr: Box::new(compared(name.clone(), dialect)),
        negated: false,
        low: Box::new(ast::integer(low)),
        high: Box::new(ast::integer(high)),
    };
    let type_name = column.type_name.to_ascii_lowercase();
    match (dialect, column.class) {
        (Dialect::Sqlite, TypeClass::Number) if is_real(&type_name) => {
            functions.insert("typeof".to_owned());
            let stored_so = Expr::InList {
                expr: Box::new(ast::call(dialect, "typeof", vec![name.clone()])),
                list: vec![ast::text(dialect, "real"), ast::text(dialect, "blob")],
                negated: false,
            };
            demand(ast::binary(
                stored_so,
                BinaryOperator::Or,
                between(-EXACT, EXACT),
            ));
        }
        (Dialect::Mysql, TypeClass::Integer) if storage::is_named(column, "year") => {
            let none = ast::binary(name.clone(), BinaryOperator::Eq, ast::integer(0));
            demand(ast::binary(none, BinaryOperator::Or, between(1901, 2155)));
        }
        // A text that is no label may be the number of one.
        (Dialect::Mysql, TypeClass::Enum) => {
            let labels = labels(&column.type_name)?;
            demand(Expr::InList {
                expr: Box::new(name.clone()),
                list: labels
                    .iter()
                    .map(|label| ast::text(dialect, label))
                    .collect(),
                negated: false,
            });
        }
        (Dialect::Mysql, TypeClass::Blob) if storage::is_named(column, "binary") => {
            functions.insert("octet_length".to_owned());
            let length = storage::declared_length(&type_name)?;
            demand(ast::binary(
                ast::call(dialect, "octet_length", vec![name.clone()]),
                BinaryOperator::Eq,
                ast::integer(i64::try_from(length).ok()?),
            ));
        }
        (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => {}
    }
    conditions.extend(storage::kept(name, column, dialect, functions));
    Some(conditions)
}

/// `value` with no affinity of its own, which a value that is stored has not.
pub(in crate::rewrite) fn compared(value: Expr, dialect: Dialect) -> Expr {
    match dialect {
        Dialect::Sqlite => ast::parens(Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: Box::new(value),
        }),
        Dialect::Postgres | Dialect::Mysql => value,
    }
}

/// That `own`, a column of the table, has `value`, as its keys compare.
pub(in crate::rewrite) fn equal(own: Expr, column: &Column, value: Expr, dialect: Dialect) -> Expr {
    let own = match dialect {
        // A collation that the query says comes out of it.
        Dialect::Sqlite if !column.collation.is_empty() => {
            ast::collate(own, &column.collation, dialect)
        }
        Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql => own,
    };
    ast::binary(own, BinaryOperator::Eq, compared(value, dialect))
}

/// `value`, of a column of a key, as something that is equal wherever the key is; none where that cannot be told.
pub(in crate::rewrite) fn grouped(value: Expr, column: &Column, dialect: Dialect) -> Option<Expr> {
    match (dialect, column.class) {
        (Dialect::Sqlite, TypeClass::Integer | TypeClass::Number | TypeClass::Boolean) => {
            Some(ast::cast(value, DataType::Numeric(ExactNumberInfo::None)))
        }
        (Dialect::Sqlite, TypeClass::Text) => Some(ast::collate(
            ast::cast(value, DataType::Text),
            &column.collation,
            dialect,
        )),
        (Dialect::Sqlite, _) => None,
        (Dialect::Mysql | Dialect::Postgres, _) => keyed(value, column, dialect).map(|k| k.typed),
    }
}

/// Whether a text that is written is equal to what MySQL's `column` makes of it, or is refused by it.
pub(in crate::rewrite) fn is_stored_so(text: &str, column: &Column) -> bool {
    let name = column.type_name.to_ascii_lowercase();
    let digits = storage::declared_length(&name).unwrap_or(0);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    // Beyond its digits it is rounded on one server and cut off on the other.
    let is_short = fraction.len() <= digits && fraction.bytes().all(|b| b.is_ascii_digit());
    match column.class {
        TypeClass::Timestamp | TypeClass::TimestampTz => {
            let is_day = fraction.is_empty() && is_like(whole, "0000-00-00");
            is_day || (is_short && is_like(whole, "0000-00-00 00:00:00"))
        }
        TypeClass::Time => is_short && is_like(whole, "00:00:00"),
        // A text that is no label may be the number of one.
        TypeClass::Enum if storage::is_named(column, "enum") => labels(&column.type_name)
            .is_some_and(|labels| labels.iter().any(|label| label.eq_ignore_ascii_case(text))),
        TypeClass::Blob if storage::is_named(column, "binary") => {
            digits > 0 && text.len() == digits
        }
        TypeClass::Blob => storage::is_named(column, "varbinary"),
        TypeClass::Uuid => is_canonical_uuid(&text.to_ascii_lowercase()),
        TypeClass::Integer
        | TypeClass::Number
        | TypeClass::Decimal
        | TypeClass::Boolean
        | TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Date
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => false,
    }
}

/// Whether `text` has digits where `form` has them, and else its signs.
fn is_like(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text
            .bytes()
            .zip(form.bytes())
            .all(|(one, other)| match other {
                b'0' => one.is_ascii_digit(),
                other => one == other,
            })
}

/// Whether MySQL keeps a number of this column as a double, whole.
pub(in crate::rewrite) fn is_double(column: &Column) -> bool {
    storage::is_named(column, "double") && !column.type_name.contains('(')
}

/// Whether SQLite stores every number in a column of this type as a floating-point one.
fn is_real(type_name: &str) -> bool {
    ["real", "floa", "doub"]
        .iter()
        .any(|part| type_name.contains(part))
}

/// The labels of MySQL's `enum('a','b')`.
pub(in crate::rewrite) fn labels(type_name: &str) -> Option<Vec<String>> {
    let (_, rest) = type_name.split_once('(')?;
    let mut rest = rest.strip_suffix(')')?;
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start().strip_prefix('\'')?;
        let mut label = String::new();
        loop {
            let (part, more) = rest.split_once('\'')?;
            label.push_str(part);
            rest = more;
            match rest.strip_prefix('\'') {
                Some(more) => {
                    label.push('\'');
                    rest = more;
                }
                None => break,
            }
        }
        // How it was escaped is not known.
        if label.contains('\\') {
            return None;
        }
        out.push(label);
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.is_empty().then_some(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read() {
        for (text, expected) in [
            ("enum('x','y')", Some(vec!["x", "y"])),
            ("ENUM('it''s', 'a,b)')", Some(vec!["it's", "a,b)"])),
            ("enum('')", Some(vec![""])),
            ("enum('a\\b')", None),
            ("enum('a'", None),
            ("varchar(3)", None),
        ] {
            let found = labels(text);
            let found = found.as_ref().map(|labels| {
                let labels = labels.iter().map(String::as_str);
                labels.collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text}");
        }
    }
}
