//! What an expression gives, by what the value is.

use crate::syntax::mask_expr::{Formula, FormulaCondition, gives_number};
use crate::{catalog::TypeClass, dialect::Dialect};

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// NULL alone, which goes with everything.
    Null,
    Text,
    Number,
    Truth,
    /// A day or a point in time, of this class.
    Moment(TypeClass),
}

impl ValueKind {
    /// What a column of `class` gives, as masks read it; none of one whose values have no text.
    pub(crate) fn from_class(class: TypeClass, dialect: Dialect) -> Option<Self> {
        match (class, dialect) {
            (TypeClass::Integer | TypeClass::Number | TypeClass::Decimal, _) => Some(Self::Number),
            (TypeClass::Boolean, _) => Some(Self::Truth),
            (
                TypeClass::Date | TypeClass::Timestamp | TypeClass::TimestampTz,
                Dialect::Postgres | Dialect::Mysql,
            ) => Some(Self::Moment(class)),
            (
                TypeClass::Text
                | TypeClass::Padded
                | TypeClass::Enum
                | TypeClass::Uuid
                | TypeClass::Date
                | TypeClass::Time
                | TypeClass::Timestamp
                | TypeClass::TimestampTz
                | TypeClass::Interval
                | TypeClass::Json
                | TypeClass::Network,
                _,
            ) => Some(Self::Text),
            (TypeClass::Blob | TypeClass::Other, Dialect::Sqlite) => Some(Self::Text),
            (TypeClass::Blob | TypeClass::Other, Dialect::Postgres | Dialect::Mysql) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Truth => "a truth value",
            Self::Moment(_) => "a date",
        }
    }
}

impl Formula {
    /// What it gives where the value is of `kind`, or has no text.
    ///
    /// # Errors
    /// In words, why it makes no sense of such a value.
    pub(crate) fn kind(&self, value: Option<ValueKind>) -> Result<ValueKind, String> {
        match self {
            Self::Value => value.ok_or_else(|| "the column's type has no text".to_owned()),
            Self::Null => Ok(ValueKind::Null),
            Self::Text(_) => Ok(ValueKind::Text),
            Self::Number(_) => Ok(ValueKind::Number),
            Self::Truth(_) => Ok(ValueKind::Truth),
            Self::Case {
                operand,
                arms,
                otherwise,
            } => {
                for (when, _) in arms {
                    match operand {
                        Some(operand) => drop(compared_kind(operand, when, value)?),
                        None => when.truth(value)?,
                    }
                }
                let results = arms.iter().map(|(_, then)| then);
                unify(results.chain(otherwise.as_deref()), value)
            }
            Self::Condition(condition) => condition.check(value).map(|()| ValueKind::Truth),
            Self::Concat(left, right) => {
                left.kind(value)?;
                right.kind(value)?;
                Ok(ValueKind::Text)
            }
            Self::Arithmetic(left, _, right) => {
                left.kind(value)?;
                right.kind(value)?;
                Ok(ValueKind::Number)
            }
            Self::AsText(inner)
            | Self::Trim {
                side: _,
                what: _,
                text: inner,
            } => inner.kind(value).map(|_| ValueKind::Text),
            Self::Coalesce(parts) => unify(parts.iter(), value),
            Self::Nullif(left, right) => {
                compared_kind(left, right, value)?;
                left.kind(value)
            }
            Self::Call(name, args) => {
                for arg in args {
                    arg.kind(value)?;
                }
                Ok(if gives_number(name) {
                    ValueKind::Number
                } else {
                    ValueKind::Text
                })
            }
        }
    }

    fn truth(&self, value: Option<ValueKind>) -> Result<(), String> {
        match self.kind(value)? {
            ValueKind::Truth | ValueKind::Null => Ok(()),
            kind @ (ValueKind::Text | ValueKind::Number | ValueKind::Moment(_)) => {
                Err(format!("{} stands where a condition belongs", kind.name()))
            }
        }
    }
}

impl FormulaCondition {
    /// That its parts go together.
    fn check(&self, value: Option<ValueKind>) -> Result<(), String> {
        match self {
            Self::Compare(left, _, right) => compared_kind(left, right, value).map(drop),
            Self::Between {
                operand,
                low,
                high,
                negated: _,
            } => {
                compared_kind(operand, low, value)?;
                compared_kind(operand, high, value).map(drop)
            }
            Self::In {
                operand,
                list,
                negated: _,
            } => list
                .iter()
                .try_for_each(|item| compared_kind(operand, item, value).map(drop)),
            // Whether there is a value is known of every type.
            Self::IsNull {
                operand,
                negated: _,
            } => match **operand {
                Formula::Value => Ok(()),
                _ => operand.kind(value).map(drop),
            },
            Self::Like {
                operand,
                pattern: _,
                negated: _,
            } => operand.kind(value).map(drop),
            Self::And(left, right) | Self::Or(left, right) => {
                left.truth(value)?;
                right.truth(value)
            }
            Self::Not(inner) => inner.truth(value),
        }
    }
}

/// As what two sides are compared.
pub(crate) fn compared_kind(
    left: &Formula,
    right: &Formula,
    value: Option<ValueKind>,
) -> Result<ValueKind, String> {
    match (left.kind(value)?, right.kind(value)?) {
        (one, other) if one == other => Ok(one),
        (ValueKind::Null, kind) | (kind, ValueKind::Null) => Ok(kind),
        (ValueKind::Moment(class), ValueKind::Text) if is_moment(right) => Ok(ValueKind::Moment(class)),
        (ValueKind::Text, ValueKind::Moment(class)) if is_moment(left) => Ok(ValueKind::Moment(class)),
        (ValueKind::Moment(_), ValueKind::Text) | (ValueKind::Text, ValueKind::Moment(_)) => Err(
            "it compares a date with text that is none: write '2026-01-31' or '2026-01-31 12:00:00', of the years 1 to 9999"
                .to_owned(),
        ),
        (one, other) => Err(format!("it compares {} with {}", one.name(), other.name())),
    }
}

/// What all of them give.
fn unify<'f>(
    parts: impl Iterator<Item = &'f Formula>,
    value: Option<ValueKind>,
) -> Result<ValueKind, String> {
    parts.into_iter().try_fold(ValueKind::Null, |so_far, part| {
        match (so_far, part.kind(value)?) {
            (ValueKind::Null, kind) | (kind, ValueKind::Null) => Ok(kind),
            (one, other) if one == other => Ok(one),
            (one, other) => Err(format!(
                "it gives {} in one case and {} in another (CAST(value AS …) makes text of both)",
                one.name(),
                other.name()
            )),
        }
    })
}

/// Whether a constant is a day, or a second of one, in a form that every engine reads alike.
fn is_moment(formula: &Formula) -> bool {
    let Formula::Text(text) = formula else {
        return false;
    };
    let (day, time) = match text.split_once(' ') {
        Some((day, time)) => (day, Some(time)),
        None => (text.as_str(), None),
    };
    is_day(day) && time.is_none_or(is_time)
}

fn is_day(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => 0,
    };
    year > 0 && (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    numbers(text, ':', [2, 2, 2])
        .is_some_and(|[hour, minute, second]| hour < 24 && minute < 60 && second < 60)
}

/// Three numbers of so many digits, with `between` between them.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u32; 3]> {
    let mut parts = text.split(between);
    let mut out = [0; 3];
    for (digits, number) in digits.into_iter().zip(&mut out) {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
        *number = plain.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

    use super::*;
    use crate::syntax::mask_expr::read;

    fn kind(text: &str, value: Option<ValueKind>) -> Result<ValueKind, String> {
        let formula = read(text, Dialect::Postgres).expect(text).formula;
        formula.kind(value)
    }

    #[test]
    fn expressions_fit_types() {
        let date = Some(ValueKind::Moment(TypeClass::Date));
        for (text, value, gives) in [
            ("'x'", None, ValueKind::Text),
            (
                "CASE WHEN value IS NULL THEN 'none' ELSE 'some' END",
                None,
                ValueKind::Text,
            ),
            ("left(value, 2)", Some(ValueKind::Number), ValueKind::Text),
            (
                "CASE WHEN value > 1000 THEN 1000 ELSE value END",
                Some(ValueKind::Number),
                ValueKind::Number,
            ),
            ("length(value)", Some(ValueKind::Text), ValueKind::Number),
            ("value >= '2000-02-29'", date, ValueKind::Truth),
            (
                "value BETWEEN '2000-01-01' AND '2000-12-31 23:59:59'",
                date,
                ValueKind::Truth,
            ),
            ("nullif(value, 'x')", Some(ValueKind::Text), ValueKind::Text),
            (
                "CASE WHEN value THEN 'yes' END",
                Some(ValueKind::Truth),
                ValueKind::Text,
            ),
        ] {
            assert_eq!(kind(text, value), Ok(gives), "{text}");
        }
        for (text, value, message) in [
            ("left(value, 2)", None, "has no text"),
            ("value > 1000", Some(ValueKind::Text), "text with a number"),
            (
                "CASE WHEN value > 'a' THEN 'x' ELSE 1 END",
                Some(ValueKind::Text),
                "in another",
            ),
            (
                "CASE WHEN value THEN 'x' END",
                Some(ValueKind::Text),
                "a condition",
            ),
            ("value >= '2001-02-29'", date, "a date with text"),
            ("value >= '2001-2-9'", date, "a date with text"),
            ("value >= '2001-02-09 24:00:00'", date, "a date with text"),
            ("coalesce(value, 'none')", date, "in another"),
        ] {
            let error = kind(text, value).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn days_and_times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("0001-01-01", true),
            ("0000-01-01", false),
            ("2023-01-31", true),
            ("2023-01-32", false),
            ("2023-01-00", false),
            ("2023-00-01", false),
            ("2023-12-31", true),
            ("2023-13-01", false),
            ("2023-04-30", true),
            ("2023-04-31", false),
            ("2023-06-31", false),
            ("2023-09-31", false),
            ("2023-11-31", false),
            ("2023-02-28", true),
            ("2023-02-29", false),
            ("2024-02-29", true),
            ("2024-02-30", false),
            ("1900-02-29", false),
            ("2000-02-29", true),
            ("2023-1-01", false),
            ("02023-01-01", false),
            ("2023-01-01-01", false),
            ("2023-01", false),
            ("2023-01-0x", false),
            ("2023-01-01 ", false),
            ("2023-01-01 00:00:00", true),
            ("2023-01-01 23:59:59", true),
            ("2023-01-01 24:00:00", false),
            ("2023-01-01 23:60:00", false),
            ("2023-01-01 23:00:60", false),
            ("2023-01-01 23:00", false),
            ("2023-02-29 23:00:00", false),
        ] {
            let formula = Formula::Text(text.to_owned());
            assert_eq!(is_moment(&formula), expected, "{text}");
        }
    }
}
