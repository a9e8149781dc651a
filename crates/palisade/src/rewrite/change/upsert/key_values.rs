//! Values that an INSERT gives the columns of a unique key: which row of the table has them, as far as that is known before they are stored.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as SqlValue};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter, determinism,
        new_row::{column_storage, fold::Constant},
    },
};
use crate::{
    catalog::{Column, Relation, TypeClass, UniqueKey},
    dialect::Dialect,
    policy::obligation::Literal,
    value::{Value, is_canonical_uuid},
};

/// How many rows are looked for at once by a key of several columns.
const ROWS: usize = 50;

/// What is known of a value of a key before it is stored.
pub(in crate::rewrite) enum KeyValue {
    /// No row conflicts by it: it is NULL, or counted up.
    NoConflict,
    /// The column is equal to this, just where it would be equal once it is stored.
    Equal(Box<Expr>),
}

impl ChangeRewriter<'_> {
    /// What is known of `value` once it is in `column`; none where nothing is.
    pub(in crate::rewrite) fn key_value(
        &self,
        value: &Expr,
        column: &Column,
        is_filled: bool,
    ) -> Option<KeyValue> {
        let constant = |value: &Expr| self.constant(value, column);
        let nested = Box::new(ast::parens(value.clone()));
        match (self.catalog.dialect(), constant(value)) {
            // SQLite puts a default in the place of a NULL that may not be there, and MySQL the time.
            (_, Some(Constant::Null)) if !column.nullable && (is_filled || is_time(column)) => None,
            (_, Some(Constant::Null)) => Some(KeyValue::NoConflict),
            (Dialect::Sqlite, _) => {
                // As a floating-point number an integer may be another.
                if column.class == TypeClass::Number && !is_short_number(value) {
                    return None;
                }
                if determinism::is_written(value) {
                    return Some(KeyValue::Equal(nested));
                }
                // Which may be a NULL.
                if is_filled && !column.nullable {
                    return None;
                }
                // A cast has an affinity of its own, which a value that is stored has not.
                determinism::is_settled(value, self.uses, self.catalog, self.visible, self.limits)
                    .then(|| {
                        KeyValue::Equal(Box::new(ast::parens(Expr::UnaryOp {
                            op: UnaryOperator::Plus,
                            expr: nested,
                        })))
                    })
            }
            // 5 is 2005 there.
            (Dialect::Mysql, _) if column_storage::has_type(column, "year") => self
                .integer(value)
                .filter(|year| (1901..=2155).contains(year))
                .map(|_| KeyValue::Equal(nested)),
            (Dialect::Mysql, Some(Constant::Value(known))) => match (column.class, known) {
                (
                    TypeClass::Integer | TypeClass::Boolean,
                    Literal::Integer(_) | Literal::Boolean(_),
                ) => Some(KeyValue::Equal(nested)),
                // Beside a text, a number is compared as a floating-point one.
                (TypeClass::Decimal, Literal::Decimal(_)) if is_short_number(value) => {
                    Some(KeyValue::Equal(nested))
                }
                // `char(n)` loses its blanks where it is stored.
                (TypeClass::Text, Literal::Text(text)) if !text.ends_with(' ') => {
                    Some(KeyValue::Equal(nested))
                }
                (TypeClass::Uuid, Literal::Text(_)) => Some(KeyValue::Equal(nested)),
                (_, Literal::Text(text)) if is_stored_unchanged(&text, column) => {
                    Some(KeyValue::Equal(nested))
                }
                _ => None,
            },
            (Dialect::Mysql, None) => {
                let is_known = match column.class {
                    TypeClass::Integer => {
                        self.is_truth(value)
                            || determinism::fold_integer_product(value, &constant).is_some()
                    }
                    TypeClass::Number => is_double(column) && is_short_number(value),
                    TypeClass::Date => is_plain_date(value),
                    _ => false,
                };
                let text = || self.text(value);
                (is_known || text().is_some_and(|text| is_stored_unchanged(&text, column)))
                    .then_some(KeyValue::Equal(nested))
            }
            // Its upserts have conditions.
            (Dialect::Postgres, _) => None,
        }
    }

    /// Whether `value` is `true` or `false`, which MySQL takes for 1 and 0.
    fn is_truth(&self, value: &Expr) -> bool {
        let Expr::Value(written) = value else {
            return false;
        };
        matches!(written.value, SqlValue::Boolean(_))
            || matches!(self.parameter(value), Some(Value::Bool(_)))
    }

    /// A whole number that is written, or given by a parameter.
    fn integer(&self, value: &Expr) -> Option<i64> {
        let Expr::Value(written) = value else {
            return None;
        };
        if let SqlValue::Number(digits, _) = &written.value {
            return digits.parse().ok();
        }
        match self.parameter(value)? {
            Value::Integer(value) => Some(value),
            Value::Null | Value::Bool(_) | Value::Real(_) | Value::Text(_) | Value::Blob(_) => None,
        }
    }

    /// A text that is written on MySQL, or given by a parameter.
    fn text(&self, value: &Expr) -> Option<String> {
        let Expr::Value(written) = value else {
            return None;
        };
        if let SqlValue::SingleQuotedString(text) = &written.value {
            return (!text.contains('\\')).then(|| text.replace("''", "'"));
        }
        match self.parameter(value)? {
            Value::Text(text) => String::from_utf8(text).ok(),
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => {
                None
            }
        }
    }

    /// A text in which rows differ that have certainly different keys; none where that cannot be told.
    pub(in crate::rewrite) fn key_text(
        &self,
        key: &UniqueKey,
        relation: &Relation,
        given: &[u16],
        row: &[&Expr],
    ) -> Option<Vec<String>> {
        key.columns
            .iter()
            .map(|index| {
                let column = relation.column(*index)?;
                let at = given.iter().position(|other| other == index)?;
                let value = row.get(at)?;
                let constant = |value: &Expr| self.constant(value, column);
                if column.class == TypeClass::Date && is_plain_date(value) {
                    return Some(value.to_string());
                }
                if column.class == TypeClass::Integer
                    && let Some(number) = determinism::fold_integer_product(value, &constant)
                {
                    return Some(number.to_string());
                }
                match constant(value)? {
                    Constant::Value(Literal::Integer(value)) => Some(value.to_string()),
                    Constant::Value(Literal::Decimal(value)) => Some(value.to_string()),
                    Constant::Value(Literal::Text(text)) => {
                        fold_collation(&text, column, self.catalog.dialect())
                    }
                    Constant::Value(Literal::Boolean(_) | Literal::Datetime(_))
                    | Constant::Null => None,
                }
            })
            .collect()
    }

    /// That a row of the target has one of these `values` of `key`.
    pub(in crate::rewrite) fn key_equals(
        &self,
        key: &UniqueKey,
        relation: &Relation,
        values: Vec<Vec<Expr>>,
    ) -> Vec<Expr> {
        let columns: Vec<Expr> = (key.columns.iter())
            .filter_map(|index| relation.column(*index))
            .map(|column| {
                let name = crate::syntax::encode(&column.name, self.catalog.dialect());
                Expr::CompoundIdentifier(vec![self.target.qualifier.clone(), name])
            })
            .collect();
        if let ([column], true) = (columns.as_slice(), values.len() > 1) {
            return vec![Expr::InList {
                expr: Box::new(column.clone()),
                list: values.into_iter().flatten().collect(),
                negated: false,
            }];
        }
        values
            .chunks(ROWS)
            .map(|rows| {
                let rows = rows.iter().map(|row| {
                    let equal = columns.iter().zip(row).map(|(column, value)| {
                        ast::binary(column.clone(), BinaryOperator::Eq, value.clone())
                    });
                    ast::join_by(equal.collect(), &BinaryOperator::And, true)
                });
                ast::join_by(rows.collect(), &BinaryOperator::Or, false)
            })
            .collect()
    }
}

/// `text` as the loosest collation may take it; none where that is not known.
fn fold_collation(text: &str, column: &Column, dialect: Dialect) -> Option<String> {
    let text = text.trim_end_matches(' ');
    match dialect {
        // `BINARY`, `NOCASE` and `RTRIM` are all there are.
        Dialect::Sqlite => Some(text.to_ascii_lowercase()),
        Dialect::Mysql if column.collation.ends_with("_bin") => Some(text.to_owned()),
        Dialect::Mysql => {
            let is_plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
            is_plain.then(|| text.to_ascii_lowercase())
        }
        Dialect::Postgres => None,
    }
}

fn is_time(column: &Column) -> bool {
    match column.class {
        TypeClass::Timestamp | TypeClass::TimestampTz => true,
        TypeClass::Integer
        | TypeClass::Number
        | TypeClass::Decimal
        | TypeClass::Boolean
        | TypeClass::Text
        | TypeClass::Padded
        | TypeClass::Enum
        | TypeClass::Uuid
        | TypeClass::Blob
        | TypeClass::Date
        | TypeClass::Time
        | TypeClass::Interval
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Other => false,
    }
}

/// Whether `value` is a number that is written, and short enough to be the same however it is held.
fn is_short_number(value: &Expr) -> bool {
    const DIGITS: usize = 15;
    match value {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => is_short_number(inner),
        Expr::Value(value) => match &value.value {
            SqlValue::Number(digits, _) => {
                digits.len() <= DIGITS && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether `value` is a day as MySQL prints it.
fn is_plain_date(value: &Expr) -> bool {
    let Expr::Value(value) = value else {
        return false;
    };
    let SqlValue::SingleQuotedString(text) = &value.value else {
        return false;
    };
    text.len() == "2000-01-01".len()
        && text.char_indices().all(|(at, c)| {
            if [4, 7].contains(&at) {
                c == '-'
            } else {
                c.is_ascii_digit()
            }
        })
}

/// Whether a text that is written is equal to what MySQL's `column` makes of it, or is refused by it.
pub(in crate::rewrite) fn is_stored_unchanged(text: &str, column: &Column) -> bool {
    let name = column.type_name.to_ascii_lowercase();
    let digits = column_storage::declared_length(&name).unwrap_or(0);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    // Beyond its digits it is rounded on one server and cut off on the other.
    let is_short = fraction.len() <= digits && fraction.bytes().all(|b| b.is_ascii_digit());
    match column.class {
        TypeClass::Timestamp | TypeClass::TimestampTz => {
            let is_day = fraction.is_empty() && matches_pattern(whole, "0000-00-00");
            is_day || (is_short && matches_pattern(whole, "0000-00-00 00:00:00"))
        }
        TypeClass::Time => is_short && matches_pattern(whole, "00:00:00"),
        // A text that is no label may be the number of one.
        TypeClass::Enum if column_storage::has_type(column, "enum") => labels(&column.type_name)
            .is_some_and(|labels| labels.iter().any(|label| label.eq_ignore_ascii_case(text))),
        TypeClass::Blob if column_storage::has_type(column, "binary") => {
            digits > 0 && text.len() == digits
        }
        TypeClass::Blob => column_storage::has_type(column, "varbinary"),
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

/// Whether `text` has digits where `pattern` has them, and else its signs.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text
            .bytes()
            .zip(pattern.bytes())
            .all(|(one, other)| match other {
                b'0' => one.is_ascii_digit(),
                other => one == other,
            })
}

/// Whether MySQL keeps a number of this column as a double, whole.
pub(in crate::rewrite) fn is_double(column: &Column) -> bool {
    column_storage::has_type(column, "double") && !column.type_name.contains('(')
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
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::MySqlDialect, parser::Parser};

    use super::*;
    use crate::catalog::DefaultValue;

    #[test]
    fn labels_are_read() {
        for (text, expected) in [
            ("enum('x','y')", Some(vec!["x", "y"])),
            ("ENUM('it''s', 'a,b)')", Some(vec!["it's", "a,b)"])),
            ("enum('')", Some(vec![""])),
            ("enum('a\\b')", None),
            ("enum('a'", None),
            ("enum('a' 'b')", None),
            ("enum('a',)", None),
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

    fn column(type_name: &str) -> Column {
        Column {
            name: "c".into(),
            key: "c".into(),
            uid: "t.c".to_owned(),
            type_name: type_name.into(),
            class: TypeClass::from_name(Dialect::Mysql, type_name),
            nullable: true,
            collation: "utf8mb4_0900_ai_ci".to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
            withheld: false,
        }
    }

    #[test]
    fn texts_are_stored_unchanged_where_they_have_the_form_of_the_type() {
        for (type_name, text, expected) in [
            ("datetime", "2024-01-02", true),
            ("datetime", "2024-01-02 03:04:05", true),
            ("datetime", "2024-01-02 03:04:05.5", false),
            ("datetime(2)", "2024-01-02 03:04:05.25", true),
            ("datetime(2)", "2024-01-02 03:04:05.255", false),
            ("datetime(2)", "2024-01-02 03:04:05.2x", false),
            ("datetime(2)", "2024-01-02.25", false),
            ("datetime", "2024-1-2", false),
            ("datetime", "2024/01/02", false),
            ("timestamp", "2024-01-02 03:04:05", true),
            ("time", "03:04:05", true),
            ("time", "03:04:05.5", false),
            ("time(1)", "03:04:05.5", true),
            ("time", "3:04:05", false),
            ("enum('a','b')", "B", true),
            ("enum('a','b')", "c", false),
            ("enum('a','b')", "1", false),
            ("set('a','b')", "a", false),
            ("binary(3)", "abc", true),
            ("binary(3)", "ab", false),
            ("binary(3)", "abcd", false),
            ("varbinary(3)", "ab", true),
            ("blob", "ab", false),
            ("uuid", "01234567-89AB-cdef-0123-456789abcdef", true),
            ("uuid", "0123456789abcdef0123456789abcdef", false),
            ("int", "1", false),
            ("varchar(9)", "a", false),
            ("date", "2024-01-02", false),
            ("json", "1", false),
        ] {
            let found = is_stored_unchanged(text, &column(type_name));
            assert_eq!(found, expected, "{type_name} {text}");
        }
        // The class is what counts: a set is of the class of texts or none.
        let set = Column {
            class: TypeClass::Enum,
            ..column("set('a','b')")
        };
        assert!(!is_stored_unchanged("a", &set));
    }

    #[test]
    fn numbers_are_short_up_to_fifteen_digits() {
        for (text, expected) in [
            ("1", true),
            ("-1.5", true),
            ("(-(1))", true),
            ("123456789012345", true),
            ("1234567890123456", false),
            ("1e5", false),
            ("'1'", false),
            ("a", false),
            ("+1", false),
        ] {
            assert_eq!(is_short_number(&parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn days_are_plain_as_mysql_prints_them() {
        for (text, expected) in [
            ("'2024-01-02'", true),
            ("'2024-01-2'", false),
            ("'2024-01-02 '", false),
            ("'2024x01-02'", false),
            ("'2024-01x02'", false),
            ("'2024-0--02'", false),
            ("'20x4-01-02'", false),
            ("20240102", false),
            ("a", false),
        ] {
            assert_eq!(is_plain_date(&parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn doubles_are_kept_whole() {
        for (type_name, expected) in [
            ("double", true),
            ("double unsigned", true),
            ("double(8,2)", false),
            ("float", false),
        ] {
            assert_eq!(is_double(&column(type_name)), expected, "{type_name}");
        }
    }

    #[test]
    fn texts_are_folded_as_the_loosest_collation_does() {
        let with = |collation: &str| Column {
            collation: collation.to_owned(),
            ..column("varchar(9)")
        };
        for (text, collation, dialect, expected) in [
            ("Ab ", "BINARY", Dialect::Sqlite, Some("ab")),
            ("Ab ", "utf8mb4_bin", Dialect::Mysql, Some("Ab")),
            ("É", "utf8mb4_bin", Dialect::Mysql, Some("É")),
            ("Ab~ ", "utf8mb4_0900_ai_ci", Dialect::Mysql, Some("ab~")),
            ("É", "utf8mb4_0900_ai_ci", Dialect::Mysql, None),
            ("a\tb", "utf8mb4_0900_ai_ci", Dialect::Mysql, None),
            ("a", "default", Dialect::Postgres, None),
        ] {
            let found = fold_collation(text, &with(collation), dialect);
            assert_eq!(found.as_deref(), expected, "{text:?} {collation}");
        }
    }

    #[test]
    fn only_points_in_time_are_filled_with_the_time() {
        for (type_name, expected) in [
            ("timestamp", true),
            ("datetime", true),
            ("date", false),
            ("time", false),
            ("int", false),
        ] {
            assert_eq!(is_time(&column(type_name)), expected, "{type_name}");
        }
    }

    fn parse(text: &str) -> Expr {
        Parser::new(&MySqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }
}
