//! Row policies over values that are known before anything runs: whether policy admits a row that is about to be written.

use std::{collections::BTreeMap, sync::Arc};

use sqlparser::ast::{Expr, UnaryOperator, Value as SqlValue};

use crate::rewrite::change::new_row::column_storage;
use crate::{
    catalog::{Column, TypeClass},
    dialect::Dialect,
    policy::obligation::{Comparison, Literal, Operand, PatternPiece, Predicate},
    value::{Value, is_canonical_uuid},
};

/// A value that a column is certain to hold after the statement.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::rewrite) enum Constant {
    Null,
    Value(Literal),
}

/// What is left of a predicate once some columns are known.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::rewrite) enum Folded {
    /// True, false or NULL.
    Known(Option<bool>),
    /// A condition over the other columns.
    Rest(Predicate),
}

/// The values are of classes that cannot be compared here, or NULL meets a condition that is not known.
#[derive(Debug)]
pub(in crate::rewrite) struct Undecided;

/// The constant that `expr` is, if the engine certainly stores it as it is in `column`.
pub(in crate::rewrite) fn constant(
    expr: &Expr,
    column: &Column,
    dialect: Dialect,
    parameter: &dyn Fn(&Expr) -> Option<Value>,
) -> Option<Constant> {
    let (negative, inner) = match expr {
        Expr::Nested(inner) => return constant(inner, column, dialect, parameter),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => (true, &**expr),
        other => (false, other),
    };
    let Expr::Value(value) = inner else {
        return None;
    };
    let value = match &value.value {
        SqlValue::Null if !negative => Value::Null,
        SqlValue::Number(digits, _) => {
            let digits = if negative {
                format!("-{digits}")
            } else {
                digits.clone()
            };
            if column.class == TypeClass::Decimal {
                Value::text(digits)
            } else {
                Value::Integer(digits.parse().ok()?)
            }
        }
        SqlValue::Boolean(value) if !negative => Value::Bool(*value),
        SqlValue::SingleQuotedString(raw) if !negative => {
            if dialect == Dialect::Mysql && raw.contains('\\') {
                return None;
            }
            Value::text(raw.replace("''", "'"))
        }
        SqlValue::Placeholder(_) if !negative => parameter(inner)?,
        _ => return None,
    };
    Some(match value {
        Value::Null => Constant::Null,
        value => Constant::Value(stored_as(value, column, dialect)?),
    })
}

/// What `column` holds once `value` is stored; nothing where the engine would convert it.
pub(in crate::rewrite) fn stored_as(
    value: Value,
    column: &Column,
    dialect: Dialect,
) -> Option<Literal> {
    match (column.class, value) {
        // A year of two digits is stored with four.
        (TypeClass::Integer, Value::Integer(value))
            if !column_storage::has_type(column, "year") =>
        {
            Some(Literal::Integer(value))
        }
        (TypeClass::Boolean, Value::Bool(value)) => Some(Literal::Boolean(value)),
        (TypeClass::Boolean, Value::Integer(value @ (0 | 1))) => match dialect {
            Dialect::Sqlite | Dialect::Mysql => Some(Literal::Boolean(value == 1)),
            Dialect::Postgres => None,
        },
        (TypeClass::Decimal, Value::Integer(value)) => {
            exact_decimal(&value.to_string(), &column.type_name, dialect)
        }
        (TypeClass::Decimal, Value::Text(bytes)) => {
            exact_decimal(&String::from_utf8(bytes).ok()?, &column.type_name, dialect)
        }
        (TypeClass::Text, Value::Text(bytes)) => {
            let text = String::from_utf8(bytes).ok()?;
            column_storage::stores_whole_text(&text, column, dialect).then_some(Literal::Text(text))
        }
        (TypeClass::Enum, Value::Text(bytes)) if dialect == Dialect::Postgres => {
            String::from_utf8(bytes).ok().map(Literal::Text)
        }
        (TypeClass::Uuid, Value::Text(bytes)) => {
            let text = String::from_utf8(bytes).ok()?;
            is_canonical_uuid(&text).then_some(Literal::Text(text))
        }
        _ => None,
    }
}

/// The number that `text` is, if a column declared so holds it without rounding, and policies can compare it. SQLite has
/// no such columns.
pub(in crate::rewrite) fn exact_decimal(
    text: &str,
    type_name: &str,
    dialect: Dialect,
) -> Option<Literal> {
    match dialect {
        Dialect::Postgres | Dialect::Mysql => {}
        Dialect::Sqlite => return None,
    }
    let (_, rest) = type_name.split_once('(')?;
    let (digits, _) = rest.split_once(')')?;
    let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
    let (precision, scale): (usize, usize) =
        (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    let fits = !whole.is_empty()
        && is_number(whole)
        && is_number(fraction)
        && whole.trim_start_matches('0').len() <= precision.checked_sub(scale)?
        && fraction.len() <= scale.min(4);
    if !fits {
        return None;
    }
    let ten_thousandths: i64 = format!("{whole}{fraction:0<4}").parse().ok()?;
    Some(Literal::Decimal(sign * ten_thousandths))
}

/// `predicate` for rows in which the columns of `row` hold these values.
pub(in crate::rewrite) fn fold(
    predicate: &Predicate,
    row: &BTreeMap<u16, Constant>,
) -> Result<Folded, Undecided> {
    match predicate {
        Predicate::Constant(value) => Ok(Folded::Known(Some(*value))),
        Predicate::And(parts) => chain(parts, row, false),
        Predicate::Or(parts) => chain(parts, row, true),
        Predicate::Not(inner) => Ok(match fold(inner, row)? {
            Folded::Known(value) => Folded::Known(value.map(|value| !value)),
            Folded::Rest(rest) => Folded::Rest(Predicate::Not(Box::new(rest))),
        }),
        Predicate::If(condition, then, otherwise) => match fold(condition, row)? {
            Folded::Known(Some(true)) => fold(then, row),
            Folded::Known(Some(false)) => fold(otherwise, row),
            Folded::Known(None) => Ok(Folded::Known(None)),
            Folded::Rest(condition) => Ok(Folded::Rest(Predicate::If(
                Box::new(condition),
                Box::new(residual(fold(then, row)?)?),
                Box::new(residual(fold(otherwise, row)?)?),
            ))),
        },
        Predicate::Column(index) => match row.get(index) {
            None => Ok(Folded::Rest(predicate.clone())),
            Some(Constant::Null) => Ok(Folded::Known(None)),
            Some(Constant::Value(Literal::Boolean(value))) => Ok(Folded::Known(Some(*value))),
            Some(Constant::Value(_)) => Err(Undecided),
        },
        Predicate::Has(index) => Ok(match row.get(index) {
            None => Folded::Rest(predicate.clone()),
            Some(Constant::Null) => Folded::Known(Some(false)),
            Some(Constant::Value(_)) => Folded::Known(Some(true)),
        }),
        Predicate::Compare(left, comparison, right) => {
            match (fold_operand(left, row), fold_operand(right, row)) {
                (Side::Null, _) | (_, Side::Null) => Ok(Folded::Known(None)),
                (Side::Value(left), Side::Value(right)) => {
                    compare(&left, *comparison, &right).map(|value| Folded::Known(Some(value)))
                }
                (left, right) => match (left.into_operand(), right.into_operand()) {
                    (Some(left), Some(right)) => {
                        Ok(Folded::Rest(Predicate::Compare(left, *comparison, right)))
                    }
                    _ => Err(Undecided),
                },
            }
        }
        Predicate::In(subject, literals) => match fold_operand(subject, row) {
            Side::Null => Ok(Folded::Known(None)),
            Side::Value(value) => Ok(Folded::Known(Some(literals.contains(&value)))),
            Side::Unknown(_) => Ok(Folded::Rest(predicate.clone())),
        },
        Predicate::Like(index, pieces) => match row.get(index) {
            None => Ok(Folded::Rest(predicate.clone())),
            Some(Constant::Null) => Ok(Folded::Known(None)),
            Some(Constant::Value(Literal::Text(text))) => {
                Ok(Folded::Known(Some(matches_pieces(pieces, text))))
            }
            Some(Constant::Value(_)) => Err(Undecided),
        },
        Predicate::RefersToSeen(subject, seen) => match fold_operand(subject, row) {
            Side::Null => Ok(Folded::Known(Some(false))),
            // The database knows whether there is such a row.
            Side::Value(value) => Ok(Folded::Rest(Predicate::RefersToSeen(
                Operand::Literal(value),
                Arc::clone(seen),
            ))),
            Side::Unknown(_) => Ok(Folded::Rest(predicate.clone())),
        },
    }
}

/// A chain in which `decisive` decides.
fn chain(
    parts: &[Predicate],
    row: &BTreeMap<u16, Constant>,
    decisive: bool,
) -> Result<Folded, Undecided> {
    let mut rest = Vec::new();
    let mut has_null = false;
    for part in parts {
        match fold(part, row)? {
            Folded::Known(Some(value)) if value == decisive => {
                return Ok(Folded::Known(Some(decisive)));
            }
            Folded::Known(Some(_)) => {}
            Folded::Known(None) => has_null = true,
            Folded::Rest(part) => rest.push(part),
        }
    }
    match (rest.is_empty(), has_null) {
        (true, false) => Ok(Folded::Known(Some(!decisive))),
        (true, true) => Ok(Folded::Known(None)),
        // NULL beside a condition is NULL or what decides, and which matters under a NOT.
        (false, true) => Err(Undecided),
        (false, false) => Ok(Folded::Rest(if decisive {
            Predicate::Or(rest)
        } else {
            Predicate::And(rest)
        })),
    }
}

fn residual(folded: Folded) -> Result<Predicate, Undecided> {
    match folded {
        Folded::Known(Some(value)) => Ok(Predicate::Constant(value)),
        Folded::Known(None) => Err(Undecided),
        Folded::Rest(predicate) => Ok(predicate),
    }
}

enum Side {
    Null,
    Value(Literal),
    Unknown(Operand),
}

impl Side {
    fn into_operand(self) -> Option<Operand> {
        match self {
            Self::Null => None,
            Self::Value(value) => Some(Operand::Literal(value)),
            Self::Unknown(operand) => Some(operand),
        }
    }
}

fn fold_operand(operand: &Operand, row: &BTreeMap<u16, Constant>) -> Side {
    match operand {
        Operand::Literal(literal) => Side::Value(literal.clone()),
        Operand::Column(index) => match row.get(index) {
            None => Side::Unknown(operand.clone()),
            Some(Constant::Null) => Side::Null,
            Some(Constant::Value(value)) => Side::Value(value.clone()),
        },
    }
}

fn compare(left: &Literal, comparison: Comparison, right: &Literal) -> Result<bool, Undecided> {
    let order = match (left, right) {
        (Literal::Integer(left), Literal::Integer(right))
        | (Literal::Decimal(left), Literal::Decimal(right))
        | (Literal::Datetime(left), Literal::Datetime(right)) => left.cmp(right),
        (Literal::Boolean(left), Literal::Boolean(right)) => left.cmp(right),
        (Literal::Text(left), Literal::Text(right)) => left.cmp(right),
        (
            Literal::Integer(_)
            | Literal::Decimal(_)
            | Literal::Datetime(_)
            | Literal::Boolean(_)
            | Literal::Text(_),
            _,
        ) => return Err(Undecided),
    };
    Ok(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// Whether `text` is these pieces in order, with anything where there is `Any`.
fn matches_pieces(pieces: &[PatternPiece], text: &str) -> bool {
    match pieces {
        [] => text.is_empty(),
        [PatternPiece::Text(piece), rest @ ..] => text
            .strip_prefix(piece.as_str())
            .is_some_and(|text| matches_pieces(rest, text)),
        [PatternPiece::Any] => true,
        [PatternPiece::Any, rest @ ..] => {
            text.char_indices()
                .any(|(i, _)| text.get(i..).is_some_and(|text| matches_pieces(rest, text)))
                || matches_pieces(rest, "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalog::RelationId,
        policy::obligation::{ReferredRows, RowFilter},
    };

    fn row(values: &[(u16, Constant)]) -> BTreeMap<u16, Constant> {
        values.iter().cloned().collect()
    }

    fn tenant(value: i64) -> Predicate {
        Predicate::Compare(
            Operand::Column(0),
            Comparison::Equal,
            Operand::Literal(Literal::Integer(value)),
        )
    }

    fn int(value: i64) -> Constant {
        Constant::Value(Literal::Integer(value))
    }

    fn fold_known(predicate: &Predicate, values: &[(u16, Constant)]) -> Option<Option<bool>> {
        match fold(predicate, &row(values)) {
            Ok(Folded::Known(value)) => Some(value),
            Ok(Folded::Rest(_)) | Err(Undecided) => None,
        }
    }

    #[test]
    fn what_is_known_is_decided_as_sql_does() {
        let not = |p: Predicate| Predicate::Not(Box::new(p));
        for (predicate, value, expected) in [
            (tenant(7), int(7), Some(true)),
            (tenant(7), int(8), Some(false)),
            (tenant(7), Constant::Null, None),
            (not(tenant(7)), Constant::Null, None),
            (not(tenant(7)), int(8), Some(true)),
            (Predicate::Has(0), Constant::Null, Some(false)),
            (not(Predicate::Has(0)), Constant::Null, Some(true)),
            (
                Predicate::Or(vec![tenant(7), Predicate::Constant(true)]),
                Constant::Null,
                Some(true),
            ),
            (
                Predicate::And(vec![tenant(7), Predicate::Has(0)]),
                int(7),
                Some(true),
            ),
        ] {
            assert_eq!(
                fold_known(&predicate, &[(0, value)]),
                Some(expected),
                "{predicate:?}"
            );
        }
    }

    #[test]
    fn a_key_stays_a_question_for_the_database() {
        let referred = || {
            Arc::new(ReferredRows {
                table: RelationId(0),
                key: 0,
                rows: RowFilter::Everything,
            })
        };
        let follows = |operand| Predicate::RefersToSeen(operand, referred());
        let of_column = follows(Operand::Column(0));
        assert_eq!(
            fold_known(&of_column, &[(0, Constant::Null)]),
            Some(Some(false))
        );
        let rest = fold(&of_column, &row(&[(0, int(7))]));
        let of_value = follows(Operand::Literal(Literal::Integer(7)));
        assert!(matches!(rest, Ok(Folded::Rest(rest)) if rest == of_value));
        let rest = fold(&of_column, &row(&[(1, int(7))]));
        assert!(matches!(rest, Ok(Folded::Rest(rest)) if rest == of_column));
    }

    #[test]
    fn what_is_not_known_stays_a_condition() {
        let both = Predicate::And(vec![tenant(7), Predicate::Has(1)]);
        let rest = fold(&both, &row(&[(0, int(7))]));
        assert!(
            matches!(rest, Ok(Folded::Rest(Predicate::And(rest))) if rest == [Predicate::Has(1)])
        );
        assert_eq!(fold_known(&both, &[(0, int(8))]), Some(Some(false)));
        // NULL AND condition: false or NULL.
        assert!(fold(&both, &row(&[(0, Constant::Null)])).is_err());
        // Another class than the policy's: the engine would convert.
        let text = Constant::Value(Literal::Text("7".to_owned()));
        assert!(fold(&tenant(7), &row(&[(0, text)])).is_err());
    }

    #[test]
    fn decimals_are_known_where_nothing_is_rounded() {
        let of = |text| match exact_decimal(text, "numeric(10,2)", Dialect::Postgres) {
            Some(Literal::Decimal(value)) => Some(value),
            Some(_) | None => None,
        };
        for (text, expected) in [
            ("5", Some(50_000)),
            ("5.00", Some(50_000)),
            ("-0.5", Some(-5_000)),
            ("0012345678.91", Some(123_456_789_100)),
            ("5.001", None),
            ("123456789", None),
            ("5.", Some(50_000)),
            (".5", None),
            ("5e1", None),
            ("+5", None),
            ("NaN", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(exact_decimal("5", "numeric", Dialect::Postgres), None);
        assert_eq!(exact_decimal("5", "DECIMAL(10,2)", Dialect::Sqlite), None);
    }

    #[test]
    fn patterns_match_as_cedar_says() {
        let any = PatternPiece::Any;
        let text = |t: &str| PatternPiece::Text(t.to_owned());
        for (pieces, subject, expected) in [
            (vec![text("eu-"), any.clone()], "eu-1", true),
            (vec![text("eu-"), any.clone()], "us-1", false),
            (vec![any.clone(), text("z")], "abz", true),
            (vec![any.clone(), text("z")], "abzy", false),
            (vec![any.clone(), text("b"), any], "abc", true),
            (vec![], "", true),
            (vec![], "x", false),
        ] {
            assert_eq!(
                matches_pieces(&pieces, subject),
                expected,
                "{pieces:?} {subject}"
            );
        }
    }
}
