//! What a column certainly holds after a statement, beyond literals of its own type: what the engine converts on the way, where
//! the result is known, and what is known not to be NULL and nothing else.

use std::collections::BTreeSet;

use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArguments, ObjectNamePart,
    TimezoneInfo, TypedString, UnaryOperator, Value as SqlValue, ValueWithSpan,
};

use crate::rewrite::{
    ast,
    change::new_row::{
        fold,
        fold::{Constant, exact_decimal},
        mysql_charset,
    },
};
use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
    moment,
    policy::obligation::{Literal, Predicate},
    value::Value,
};

/// What is known of a value that is written.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::rewrite) enum StoredValue {
    /// The column holds this.
    Known(Constant),
    /// It is not NULL.
    NotNull,
    /// Nothing.
    Unknown,
}

/// What `column` holds once it is given `expr`.
pub(in crate::rewrite) fn stored_value(
    expr: &Expr,
    column: &Column,
    dialect: Dialect,
    parameter: &dyn Fn(&Expr) -> Option<Value>,
) -> StoredValue {
    let written = Conversion { dialect, parameter };
    let known =
        fold::constant(expr, column, dialect, parameter).or_else(|| written.convert(expr, column));
    match known {
        Some(constant) => StoredValue::Known(constant),
        None if written.is_not_null(expr, column) => StoredValue::NotNull,
        None => StoredValue::Unknown,
    }
}

/// `predicate` where the columns `present` are not NULL.
pub(in crate::rewrite) fn fold_presence(
    predicate: &Predicate,
    present: &BTreeSet<u16>,
) -> Predicate {
    let all = |parts: &[Predicate]| {
        let parts = parts.iter().map(|part| fold_presence(part, present));
        parts.collect::<Vec<_>>()
    };
    let one = |part: &Predicate| Box::new(fold_presence(part, present));
    match predicate {
        Predicate::Has(index) if present.contains(index) => Predicate::Constant(true),
        Predicate::And(parts) => Predicate::And(all(parts)),
        Predicate::Or(parts) => Predicate::Or(all(parts)),
        Predicate::Not(inner) => Predicate::Not(one(inner)),
        Predicate::If(condition, then, otherwise) => {
            Predicate::If(one(condition), one(then), one(otherwise))
        }
        Predicate::Has(_)
        | Predicate::Constant(_)
        | Predicate::Column(_)
        | Predicate::Compare(_, _, _)
        | Predicate::In(_, _)
        | Predicate::Like(_, _)
        | Predicate::RefersToSeen(_, _) => predicate.clone(),
    }
}

/// `expr` as the type that `column` stores, where a filter of its class compares it.
pub(in crate::rewrite) fn cast_to_stored(
    expr: Expr,
    column: &Column,
    dialect: Dialect,
) -> Option<Expr> {
    let cast = |data_type| Some(ast::cast(expr.clone(), data_type));
    match (column.class, dialect) {
        // Its filters look at the storage class of each value.
        (TypeClass::Integer | TypeClass::Boolean | TypeClass::Text, Dialect::Sqlite) => Some(expr),
        (TypeClass::Text, Dialect::Mysql) => Some(mysql_charset::stored_text(expr, column)),
        (TypeClass::Integer, Dialect::Postgres) => cast(DataType::BigInt(None)),
        (TypeClass::Integer | TypeClass::Boolean, Dialect::Mysql) => cast(DataType::Signed),
        (TypeClass::Boolean, Dialect::Postgres) => cast(DataType::Boolean),
        (TypeClass::Text, Dialect::Postgres) => cast(DataType::Text),
        (TypeClass::Uuid, Dialect::Postgres) => cast(DataType::Uuid),
        (TypeClass::Decimal, Dialect::Postgres) => {
            let (precision, scale) = declared_digits(&column.type_name)?;
            cast(DataType::Numeric(ExactNumberInfo::PrecisionAndScale(
                precision, scale,
            )))
        }
        // As many digits as there can be: what the column has no room for is refused when it is stored.
        (TypeClass::Decimal, Dialect::Mysql) => {
            let (_, scale) = declared_digits(&column.type_name)?;
            cast(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(
                65, scale,
            )))
        }
        (TypeClass::TimestampTz, Dialect::Postgres) if !column.type_name.contains('(') => {
            cast(DataType::Timestamp(None, TimezoneInfo::WithTimeZone))
        }
        _ => None,
    }
}

/// Precision and scale of a decimal number that is declared with them.
fn declared_digits(type_name: &str) -> Option<(u64, i64)> {
    let (_, rest) = type_name.split_once('(')?;
    let (digits, _) = rest.split_once(')')?;
    let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
    Some((precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

/// Where values are written.
struct Conversion<'w> {
    dialect: Dialect,
    parameter: &'w dyn Fn(&Expr) -> Option<Value>,
}

impl Conversion<'_> {
    /// What `column` holds where the engine converts `expr` to its type, and the result is the same on every server.
    fn convert(&self, expr: &Expr, column: &Column) -> Option<Constant> {
        match expr {
            Expr::Nested(inner)
            | Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr: inner,
            } => fold::constant(inner, column, self.dialect, self.parameter)
                .or_else(|| self.convert(inner, column)),
            Expr::Value(value) => {
                let value = self.value(value, expr)?;
                convert_value(&value, column, self.dialect).map(Constant::Value)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                format: None,
            } => self.cast(inner, data_type, column),
            Expr::TypedString(TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) if self.dialect == Dialect::Postgres => {
                self.cast(&Expr::Value(value.clone()), data_type, column)
            }
            _ => None,
        }
    }

    /// What `column` holds once it is given `inner` as a value of this type.
    fn cast(&self, inner: &Expr, data_type: &DataType, column: &Column) -> Option<Constant> {
        let (class, type_name) = cast_type(data_type, self.dialect)?;
        let between = Column {
            class,
            type_name: type_name.into(),
            ..column.clone()
        };
        let literal = match stored_value(inner, &between, self.dialect, self.parameter) {
            StoredValue::Known(Constant::Null) => return Some(Constant::Null),
            StoredValue::Known(Constant::Value(literal)) => literal,
            StoredValue::NotNull | StoredValue::Unknown => return None,
        };
        if class != column.class {
            return None;
        }
        let value = match literal {
            Literal::Integer(value) => Value::Integer(value),
            Literal::Boolean(value) => Value::Bool(value),
            Literal::Text(text) => Value::text(text),
            Literal::Decimal(value) => {
                let number = value.unsigned_abs();
                let sign = if value < 0 { "-" } else { "" };
                let text = format!("{sign}{}.{:04}", number / 10_000, number % 10_000);
                let text = text.trim_end_matches('0').trim_end_matches('.');
                return exact_decimal(text, &column.type_name, self.dialect).map(Constant::Value);
            }
            Literal::Datetime(_) => {
                return (!column.type_name.contains('(')).then_some(Constant::Value(literal));
            }
        };
        fold::stored_as(value, column, self.dialect).map(Constant::Value)
    }

    fn value(&self, value: &ValueWithSpan, expr: &Expr) -> Option<Value> {
        match &value.value {
            SqlValue::Boolean(value) => Some(Value::Bool(*value)),
            SqlValue::SingleQuotedString(raw) => {
                let is_plain = self.dialect != Dialect::Mysql || !raw.contains('\\');
                is_plain.then(|| Value::text(raw.replace("''", "'")))
            }
            SqlValue::DoubleQuotedString(raw) if self.dialect == Dialect::Mysql => {
                let is_plain = !raw.contains(['\\', '"']);
                is_plain.then(|| Value::text(raw.clone()))
            }
            SqlValue::Placeholder(_) => (self.parameter)(expr),
            _ => None,
        }
    }

    /// Whether `column` is certainly not NULL once it is given `expr`.
    fn is_not_null(&self, expr: &Expr, column: &Column) -> bool {
        // What a server makes of a day that is none is not asked.
        let is_moment = match column.class {
            TypeClass::Date | TypeClass::Timestamp | TypeClass::TimestampTz => true,
            TypeClass::Integer
            | TypeClass::Number
            | TypeClass::Decimal
            | TypeClass::Boolean
            | TypeClass::Text
            | TypeClass::Padded
            | TypeClass::Enum
            | TypeClass::Uuid
            | TypeClass::Blob
            | TypeClass::Time
            | TypeClass::Interval
            | TypeClass::Json
            | TypeClass::Network
            | TypeClass::Other => false,
        };
        let is_taken = !(is_moment && self.dialect == Dialect::Mysql);
        match expr {
            Expr::Nested(inner) => self.is_not_null(inner, column),
            Expr::UnaryOp {
                op: UnaryOperator::Plus | UnaryOperator::Minus,
                expr: inner,
            } => {
                matches!(&**inner, Expr::Value(value) if matches!(value.value, SqlValue::Number(_, _)))
                    && is_taken
            }
            Expr::Value(value) => match &value.value {
                SqlValue::Null => false,
                SqlValue::Placeholder(_) => {
                    let value = (self.parameter)(expr);
                    is_taken && value.is_some_and(|value| value != Value::Null)
                }
                SqlValue::Number(_, _)
                | SqlValue::Boolean(_)
                | SqlValue::SingleQuotedString(_)
                | SqlValue::DoubleQuotedString(_) => is_taken,
                _ => false,
            },
            Expr::TypedString(_) => self.dialect == Dialect::Postgres,
            Expr::Function(function) => is_moment_of_now(function),
            // Words that PostgreSQL takes for calls.
            Expr::Identifier(name) if self.dialect == Dialect::Postgres => {
                name.quote_style.is_none() && NOW.contains(&&*name.value.to_ascii_lowercase())
            }
            _ => false,
        }
    }
}

/// Functions of every engine that say what time it is.
const NOW: &[&str] = &[
    "current_date",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "now",
];

/// Whether a call says what time it is. What a database adds has its own schema by now.
fn is_moment_of_now(function: &Function) -> bool {
    let Function {
        name,
        uses_odbc_syntax: _,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    } = function
    else {
        return false;
    };
    let name = match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => name,
        [
            ObjectNamePart::Identifier(schema),
            ObjectNamePart::Identifier(name),
        ] if schema.value == "pg_catalog" => name,
        _ => return false,
    };
    let has_no_arguments = match args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    has_no_arguments && within_group.is_empty() && NOW.contains(&&*name.value.to_ascii_lowercase())
}

/// What `column` holds once the engine has converted `value` to its type.
fn convert_value(value: &Value, column: &Column, dialect: Dialect) -> Option<Literal> {
    match (column.class, value, dialect) {
        // A year may be written with two digits.
        (TypeClass::Integer, Value::Bool(value), Dialect::Sqlite | Dialect::Mysql)
            if !is_year(column) =>
        {
            Some(Literal::Integer(i64::from(*value)))
        }
        (TypeClass::Integer, Value::Text(text), _) if !is_year(column) => {
            let text = std::str::from_utf8(text).ok()?;
            let number: i64 = text.parse().ok()?;
            (number.to_string() == text).then_some(Literal::Integer(number))
        }
        (TypeClass::Boolean, Value::Text(text), Dialect::Postgres) => match text.as_slice() {
            b"true" => Some(Literal::Boolean(true)),
            b"false" => Some(Literal::Boolean(false)),
            _ => None,
        },
        (TypeClass::Enum, Value::Text(text), Dialect::Mysql) => {
            let text = std::str::from_utf8(text).ok()?;
            is_listed(text, &column.type_name).then(|| Literal::Text(text.to_owned()))
        }
        (TypeClass::TimestampTz, Value::Text(text), Dialect::Postgres)
            if !column.type_name.contains('(') =>
        {
            point_in_time(std::str::from_utf8(text).ok()?).map(Literal::Datetime)
        }
        // The same characters as in single quotes.
        (_, Value::Text(_), Dialect::Mysql) => fold::stored_as(value.clone(), column, dialect),
        _ => None,
    }
}

fn is_year(column: &Column) -> bool {
    let name = column.type_name.to_ascii_lowercase();
    name.starts_with("year")
}

/// Whether `text` is stored as it is in a column declared as ENUM or SET: one of its labels, letter by letter; of a SET, some in their
/// order. A label before it that a collation could take for the same would be found first.
fn is_listed(text: &str, type_name: &str) -> bool {
    let Some((kind, labels)) = listed_labels(type_name) else {
        return false;
    };
    let at = |text: &str| {
        let at = labels.iter().position(|label| label == text)?;
        let is_other = |label: &String| {
            label.is_ascii()
                && text.is_ascii()
                && !label
                    .trim_end_matches(' ')
                    .eq_ignore_ascii_case(text.trim_end_matches(' '))
        };
        labels.get(..at)?.iter().all(is_other).then_some(at)
    };
    match kind {
        LabelType::One => at(text).is_some(),
        LabelType::Some => {
            let places: Option<Vec<usize>> = text.split(',').map(at).collect();
            places.is_some_and(|places| places.is_sorted_by(|one, next| one < next))
        }
    }
}

enum LabelType {
    One,
    Some,
}

/// The labels of a type that MySQL or MariaDB spell `enum('a','b')`.
fn listed_labels(type_name: &str) -> Option<(LabelType, Vec<String>)> {
    let (kind, rest) = type_name.split_once('(')?;
    let kind = match kind.trim().to_ascii_lowercase().as_str() {
        "enum" => LabelType::One,
        "set" => LabelType::Some,
        _ => return None,
    };
    let mut rest = rest.trim_end().strip_suffix(')')?.trim();
    let mut labels = Vec::new();
    if rest.contains('\\') {
        return None;
    }
    loop {
        rest = rest.strip_prefix('\'')?;
        let mut label = String::new();
        loop {
            let (part, after) = rest.split_once('\'')?;
            label.push_str(part);
            match after.strip_prefix('\'') {
                Some(after) => {
                    label.push('\'');
                    rest = after;
                }
                None => {
                    rest = after.trim_start();
                    break;
                }
            }
        }
        labels.push(label);
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None => return rest.is_empty().then_some((kind, labels)),
        }
    }
}

/// The milliseconds since 1970 of `2026-03-01 12:00:00+01`, which says its zone as an offset, as PostgreSQL reads it whatever
/// its settings.
fn point_in_time(text: &str) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', ' '])?;
    let at = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at_checked(at)?;
    let two = |digits: &str| -> Option<i64> {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse().ok())?
    };
    let minutes = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign, offset) if sign != "Z" => {
            let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "00"));
            let (hours, minutes) = (two(hours)?, two(minutes)?);
            if hours > 14 || minutes > 59 {
                return None;
            }
            let ahead = hours * 60 + minutes;
            if sign == "-" { -ahead } else { ahead }
        }
        _ => return None,
    };
    let utc = moment::since_1970(&format!("{date}T{time}Z"))?;
    let milliseconds = i64::try_from(utc.as_millis()).ok()?;
    milliseconds.checked_sub(minutes * 60_000)
}

/// The class and the spelling of a type that something is cast to.
fn cast_type(data_type: &DataType, dialect: Dialect) -> Option<(TypeClass, String)> {
    let class = match (data_type, dialect) {
        (DataType::Text, Dialect::Sqlite | Dialect::Postgres)
        | (
            DataType::Varchar(_) | DataType::CharVarying(_) | DataType::CharacterVarying(_),
            Dialect::Postgres,
        )
        | (DataType::Char(_), Dialect::Mysql) => TypeClass::Text,
        (
            DataType::SmallInt(None)
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::BigInt(None)
            | DataType::Int2(None)
            | DataType::Int4(None)
            | DataType::Int8(None),
            Dialect::Postgres,
        )
        | (DataType::Integer(None), Dialect::Sqlite)
        | (DataType::Signed | DataType::SignedInteger, Dialect::Mysql) => TypeClass::Integer,
        (DataType::Boolean | DataType::Bool, Dialect::Postgres) => TypeClass::Boolean,
        (DataType::Uuid, Dialect::Postgres) => TypeClass::Uuid,
        (
            DataType::Timestamp(None, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone),
            Dialect::Postgres,
        ) => TypeClass::TimestampTz,
        (
            DataType::Numeric(ExactNumberInfo::PrecisionAndScale(_, _))
            | DataType::Decimal(ExactNumberInfo::PrecisionAndScale(_, _)),
            Dialect::Postgres,
        )
        | (DataType::Decimal(ExactNumberInfo::PrecisionAndScale(_, _)), Dialect::Mysql) => {
            TypeClass::Decimal
        }
        _ => return None,
    };
    Some((class, data_type.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::indexing_slicing, reason = "tests")]

    use sqlparser::{
        dialect::{MySqlDialect, PostgreSqlDialect, SQLiteDialect},
        parser::Parser,
    };

    use super::*;
    use crate::catalog::DefaultValue;

    fn column(class: TypeClass, type_name: &str) -> Column {
        Column {
            name: "c".into(),
            key: "c".into(),
            uid: "t.c".to_owned(),
            type_name: type_name.into(),
            class,
            nullable: true,
            collation: String::new(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
            withheld: false,
        }
    }

    #[test]
    fn digits_are_those_that_are_declared() {
        for (type_name, digits) in [
            ("decimal(10,2)", Some((10, 2))),
            ("numeric( 7 , -1 )", Some((7, -1))),
            ("decimal(5) unsigned", Some((5, 0))),
            ("decimal", None),
            ("decimal(a)", None),
        ] {
            assert_eq!(declared_digits(type_name), digits, "{type_name}");
        }
    }

    fn stored_text_of(dialect: Dialect, type_name: &str, text: &str) -> StoredValue {
        let column = column(TypeClass::from_name(dialect, type_name), type_name);
        let parsed = match dialect {
            Dialect::Sqlite => Parser::new(&SQLiteDialect {}).try_with_sql(text),
            Dialect::Postgres => Parser::new(&PostgreSqlDialect {}).try_with_sql(text),
            Dialect::Mysql => Parser::new(&MySqlDialect {}).try_with_sql(text),
        };
        let expr = parsed.and_then(|mut parser| parser.parse_expr());
        let expr = expr.unwrap_or_else(|error| panic!("{text}: {error}"));
        stored_value(&expr, &column, dialect, &|_| Some(Value::text("5")))
    }

    #[test]
    fn calls_that_tell_the_time_are_the_engines_own() {
        for (text, expected) in [
            ("now()", true),
            ("NOW()", true),
            ("current_timestamp", true),
            ("localtime()", true),
            ("pg_catalog.now()", true),
            ("public.now()", false),
            ("a.pg_catalog.now()", false),
            ("now(1)", false),
            ("now() FILTER (WHERE true)", false),
            ("now() OVER ()", false),
            ("clock_timestamp()", false),
        ] {
            let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
            let Ok(Expr::Function(call)) = parsed.and_then(|mut parser| parser.parse_expr()) else {
                panic!("{text}")
            };
            assert_eq!(is_moment_of_now(&call), expected, "{text}");
        }
    }

    fn known_value(literal: Literal) -> StoredValue {
        StoredValue::Known(Constant::Value(literal))
    }

    #[test]
    fn what_engines_convert_is_known_where_they_agree() {
        use Dialect::{Mysql, Postgres, Sqlite};
        let text = |text: &str| known_value(Literal::Text(text.to_owned()));
        let int = |value| known_value(Literal::Integer(value));
        for (dialect, type_name, value, expected) in [
            (Mysql, "tinyint(1)", "true", int(1)),
            (Mysql, "tinyint(1)", "FALSE", int(0)),
            (Mysql, "year", "true", StoredValue::NotNull),
            (Mysql, "year", "'24'", StoredValue::NotNull),
            (Mysql, "year", "24", StoredValue::NotNull),
            (Sqlite, "INTEGER", "true", int(1)),
            (Postgres, "integer", "true", StoredValue::NotNull),
            (Postgres, "integer", "'5'", int(5)),
            (Postgres, "integer", "'-5'", int(-5)),
            (Postgres, "integer", "' 5'", StoredValue::NotNull),
            (Postgres, "integer", "'05'", StoredValue::NotNull),
            (Postgres, "integer", "'0x5'", StoredValue::NotNull),
            (Postgres, "integer", "$1", int(5)),
            (Postgres, "integer", "$1::int", int(5)),
            (Postgres, "integer", "+5", int(5)),
            (Postgres, "integer", "5.5::int", StoredValue::Unknown),
            (
                Postgres,
                "boolean",
                "'true'",
                known_value(Literal::Boolean(true)),
            ),
            (Postgres, "boolean", "'t'", StoredValue::NotNull),
            (Postgres, "text", "'x'::text", text("x")),
            (Postgres, "text", "'abcd'::varchar(3)", StoredValue::Unknown),
            (Postgres, "varchar(3)", "'abcd'::text", StoredValue::Unknown),
            (Postgres, "varchar(4)", "('abcd'::varchar)", text("abcd")),
            (Postgres, "integer", "'5'::text", StoredValue::Unknown),
            (
                Postgres,
                "text",
                "NULL::text",
                StoredValue::Known(Constant::Null),
            ),
            (Mysql, "varchar(9)", "CAST('x' AS CHAR)", text("x")),
            (Mysql, "varchar(9)", "\"x\"", text("x")),
            (Mysql, "char(9)", "'x '", StoredValue::NotNull),
            (Mysql, "int", "CAST('5' AS SIGNED)", int(5)),
            (Sqlite, "TEXT", "CAST('x' AS TEXT)", text("x")),
            (Sqlite, "TEXT", "CAST('x' AS BLOB)", StoredValue::Unknown),
            (
                Postgres,
                "numeric(6,2)",
                "5.10::numeric(8,3)",
                known_value(Literal::Decimal(51_000)),
            ),
            (
                Postgres,
                "numeric(6,2)",
                "5.105::numeric(8,3)",
                StoredValue::Unknown,
            ),
            (
                Postgres,
                "numeric(6,2)",
                "-5.1",
                known_value(Literal::Decimal(-51_000)),
            ),
            (Mysql, "enum('a','b c')", "'b c'", text("b c")),
            (Mysql, "enum('a','b')", "'B'", StoredValue::NotNull),
            (Mysql, "enum('a','b')", "'b '", StoredValue::NotNull),
            (Mysql, "enum('a','b')", "1", StoredValue::NotNull),
            (Mysql, "enum('a','1')", "'1'", text("1")),
            (Mysql, "enum('it''s')", "'it''s'", text("it's")),
            (Mysql, "enum('B','b')", "'b'", StoredValue::NotNull),
            (Mysql, "enum('\u{e9}','e')", "'e'", StoredValue::NotNull),
            (Mysql, "enum('e','\u{e9}')", "'e'", text("e")),
            (Mysql, "set('a','b','c')", "'a,c'", text("a,c")),
            (Mysql, "set('a','b','c')", "'c,a'", StoredValue::NotNull),
            (Mysql, "set('a','b','c')", "'a,a'", StoredValue::NotNull),
            (Mysql, "timestamp", "now()", StoredValue::NotNull),
            // A column may hold NULL, and a name in quotes is one.
            (Postgres, "integer", "other", StoredValue::Unknown),
            (Postgres, "timestamptz", "\"now\"", StoredValue::Unknown),
            (Postgres, "timestamptz", "localtime", StoredValue::NotNull),
            (Mysql, "timestamp", "'2026-01-01'", StoredValue::Unknown),
            (Mysql, "year", "?", StoredValue::NotNull),
            (Mysql, "timestamp", "?", StoredValue::Unknown),
            (Postgres, "date", "$1", StoredValue::NotNull),
            (Sqlite, "TEXT", "CURRENT_TIMESTAMP", StoredValue::NotNull),
            (Postgres, "date", "current_date", StoredValue::NotNull),
            (Postgres, "date", "DATE '2026-01-01'", StoredValue::NotNull),
            (Postgres, "date", "own.now()", StoredValue::Unknown),
            (Postgres, "date", "NULL", StoredValue::Known(Constant::Null)),
            (Postgres, "integer", "(SELECT 1)", StoredValue::Unknown),
        ] {
            assert_eq!(
                stored_text_of(dialect, type_name, value),
                expected,
                "{type_name}: {value}"
            );
        }
    }

    #[test]
    fn points_in_time_are_known_with_their_zone() {
        let noon = known_value(Literal::Datetime(1_772_366_400_000));
        for (text, expected) in [
            ("'2026-03-01T12:00:00Z'", noon.clone()),
            ("'2026-03-01 13:00:00+01'", noon.clone()),
            ("'2026-03-01 06:30:00.000-05:30'::timestamptz", noon.clone()),
            ("TIMESTAMP WITH TIME ZONE '2026-03-01 12:00:00+00'", noon),
            ("'2026-03-01 12:00:00'", StoredValue::NotNull),
            ("'2026-03-01 12:00:00 CET'", StoredValue::NotNull),
            ("'2026-03-01 12:00:00.123456Z'", StoredValue::NotNull),
            ("'2026-02-30 12:00:00Z'", StoredValue::NotNull),
            ("'2026-03-01 12:00:00+1'", StoredValue::NotNull),
            ("'now'", StoredValue::NotNull),
        ] {
            let stored = stored_text_of(Dialect::Postgres, "timestamp with time zone", text);
            assert_eq!(stored, expected, "{text}");
        }
        let rounded = stored_text_of(
            Dialect::Postgres,
            "timestamp(0) with time zone",
            "'2026-03-01T12:00:00.500Z'",
        );
        assert_eq!(rounded, StoredValue::NotNull);
    }

    #[test]
    fn what_is_present_has_a_value() {
        let has = Predicate::And(vec![
            Predicate::Has(0),
            Predicate::Not(Box::new(Predicate::Has(1))),
        ]);
        let present = BTreeSet::from([0]);
        let Predicate::And(parts) = fold_presence(&has, &present) else {
            panic!("{has:?}");
        };
        assert_eq!(parts[0], Predicate::Constant(true));
        assert_eq!(parts[1], Predicate::Not(Box::new(Predicate::Has(1))));
    }
}
