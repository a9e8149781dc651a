//! Forms of constants: which of them every engine takes.

use sqlparser::ast::{
    CastKind, DataType, DateTimeField, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    Interval, Value,
};

/// The most days, months or years that are counted from now: so many are in the range of every type.
pub(in crate::resolve) const MOST_UNITS: u32 = 1000;

pub(in crate::resolve) fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_interval(inner),
        Expr::Interval(_) => true,
        _ => false,
    }
}

/// Whether `expr` is an interval of one unit, and not of many.
pub(in crate::resolve) fn is_short_interval(expr: &Expr) -> bool {
    let (value, unit) = match expr {
        Expr::Nested(inner) => return is_short_interval(inner),
        Expr::Interval(Interval {
            value,
            leading_field,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }) => (&**value, leading_field.as_ref()),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type:
                DataType::Interval {
                    fields: None,
                    precision: None,
                },
            format: None,
        } => (&**expr, None),
        _ => return false,
    };
    let Expr::Value(value) = value else {
        return false;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return false;
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let (count, is_unit) = match (words.as_slice(), unit) {
        ([count], Some(_)) => (*count, true),
        ([count, unit], None) => {
            let unit = unit.to_ascii_lowercase();
            let units = ["second", "minute", "hour", "day", "week", "month", "year"];
            (
                *count,
                units.contains(&unit.strip_suffix('s').unwrap_or(&unit)),
            )
        }
        _ => return false,
    };
    is_unit && count.parse::<u32>().is_ok_and(|count| count <= MOST_UNITS)
}

pub(in crate::resolve) fn is_to_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Text | DataType::Varchar(None) | DataType::Char(None)
    )
}

pub(in crate::resolve) fn is_number_type(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::SmallInt(None)
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::BigInt(None)
            | DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::DoublePrecision
            | DataType::Boolean
            | DataType::Uuid
    )
}

/// Whether a literal of the type is a day, a point in time or a length of time, none of them rounded.
pub(in crate::resolve) fn is_of_moments(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date
            | DataType::Time(None, _)
            | DataType::Timestamp(None, _)
            | DataType::Datetime(None)
            | DataType::Interval {
                fields: None,
                precision: None,
            }
    )
}

/// The most names of a path: MySQL reads documents of a hundred levels.
const MOST_NAMES: usize = 50;

/// Whether `expr` is a path of names and numbers in a JSON document of MySQL.
pub(in crate::resolve) fn is_json_path(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else {
        return false;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return false;
    };
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.strip_prefix("$.")
        .is_some_and(|rest| rest.split('.').count() <= MOST_NAMES && rest.split('.').all(is_name))
}

/// Whether PostgreSQL takes a regular expression, and looks at no value for long: words, their ends, and anything between them.
pub(in crate::resolve) fn is_plain_regex(expr: &Expr) -> bool {
    let Expr::Value(value) = expr else {
        return false;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return false;
    };
    let is_plain = |c: char| c.is_alphanumeric() || " _-@,:/^$.|".contains(c);
    text.len() <= 100 && text.replace(".*", "").chars().all(is_plain)
}

/// The most bytes of the words of a text search.
const MOST_SEARCHED_BYTES: usize = 1000;

/// Whether PostgreSQL looks for the words of a text search whatever it finds: it goes one call deeper for each word of a phrase, until
/// there is no room.
pub(in crate::resolve) fn is_short_search(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.len() <= MOST_SEARCHED_BYTES,
            _ => false,
        },
        _ => false,
    }
}

/// Whether `to_char` takes a format: it knows words of other languages that may be too long.
pub(in crate::resolve) fn is_plain_format(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => {
                text.len() <= 64 && !text.to_ascii_uppercase().contains("TM")
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether `expr` is a number of rows, or none.
pub(in crate::resolve) fn is_count(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<i64>().is_ok_and(|count| count >= 0),
            Value::Null => true,
            _ => false,
        },
        _ => false,
    }
}

pub(in crate::resolve) fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_literal(inner),
        Expr::Value(_) => true,
        _ => false,
    }
}

pub(in crate::resolve) fn plain_argument(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Whether `expr` is a number with a sign before it.
pub(in crate::resolve) fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: _, expr } | Expr::Nested(expr) => is_number(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(_, _)),
        _ => false,
    }
}

/// Whether a field is of days, and no part of one.
pub(in crate::resolve) fn is_field_of_days(field: &DateTimeField) -> bool {
    matches!(
        field,
        DateTimeField::Year
            | DateTimeField::Quarter
            | DateTimeField::Month
            | DateTimeField::Week(None)
            | DateTimeField::Day
    )
}

/// Whether `expr` is a unit that `date_trunc` takes for days and points in time
/// (<https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-TRUNC>).
pub(in crate::resolve) fn is_unit(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => matches!(
                text.as_str(),
                "second" | "minute" | "hour" | "day" | "week" | "month" | "quarter" | "year"
            ),
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    fn parse(text: &str) -> Expr {
        Parser::new(&PostgreSqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn check(is: fn(&Expr) -> bool, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            assert_eq!(is(&parse(text)), *expected, "{text}");
        }
    }

    #[test]
    fn a_count_of_rows_is_a_whole_number_that_is_not_below_zero() {
        check(
            is_count,
            &[
                ("0", true),
                ("5", true),
                ("NULL", true),
                ("-1", false),
                ("1.5", false),
                ("9223372036854775808", false),
                ("'1'", false),
                ("$1", false),
                ("a", false),
            ],
        );
    }

    #[test]
    fn a_number_is_one_with_its_signs_and_parentheses() {
        check(
            is_number,
            &[
                ("1", true),
                ("-1", true),
                ("-(+1)", true),
                ("'1'", false),
                ("-a", false),
                ("1 + 1", false),
            ],
        );
    }

    #[test]
    fn a_literal_is_one_with_its_parentheses() {
        check(
            is_literal,
            &[("1", true), ("('a')", true), ("a", false), ("-a", false)],
        );
    }

    #[test]
    fn units_are_those_of_days_and_points_in_time() {
        check(
            is_unit,
            &[
                ("'second'", true),
                ("'minute'", true),
                ("'hour'", true),
                ("'day'", true),
                ("'week'", true),
                ("'month'", true),
                ("'quarter'", true),
                ("'year'", true),
                ("'timezone'", false),
                ("'YEAR'", false),
                ("5", false),
                ("year", false),
            ],
        );
    }
}
