//! What an expression gives, by what the value is.

use crate::syntax::mask_expr::{Condition, Formula, gives_number};
use crate::{catalog::TypeClass, dialect::Dialect};

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// NULL alone, which goes with everything.
    Null,
    Text,
    Number,
    Truth,
    /// A day or a point in time, of this class.
    Moment(TypeClass),
}

impl Kind {
    /// What a column of `class` gives, as masks read it; none of one whose values have no text.
    pub(crate) fn of(class: TypeClass, dialect: Dialect) -> Option<Self> {
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
    pub(crate) fn kind(&self, value: Option<Kind>) -> Result<Kind, String> {
        match self {
            Self::Value => value.ok_or_else(|| "the column's type has no text".to_owned()),
            Self::Null => Ok(Kind::Null),
            Self::Text(_) => Ok(Kind::Text),
            Self::Number(_) => Ok(Kind::Number),
            Self::Truth(_) => Ok(Kind::Truth),
            Self::Case {
                operand,
                arms,
                otherwise,
            } => {
                for (when, _) in arms {
                    match operand {
                        Some(operand) => drop(compared(operand, when, value)?),
                        None => when.truth(value)?,
                    }
                }
                let results = arms.iter().map(|(_, then)| then);
                unified(results.chain(otherwise.as_deref()), value)
            }
            Self::Condition(condition) => condition.check(value).map(|()| Kind::Truth),
            Self::Concat(left, right) => {
                left.kind(value)?;
                right.kind(value)?;
                Ok(Kind::Text)
            }
            Self::Arithmetic(left, _, right) => {
                left.kind(value)?;
                right.kind(value)?;
                Ok(Kind::Number)
            }
            Self::AsText(inner)
            | Self::Trim {
                side: _,
                what: _,
                text: inner,
            } => inner.kind(value).map(|_| Kind::Text),
            Self::Coalesce(parts) => unified(parts.iter(), value),
            Self::Nullif(left, right) => {
                compared(left, right, value)?;
                left.kind(value)
            }
            Self::Call(name, args) => {
                for arg in args {
                    arg.kind(value)?;
                }
                Ok(if gives_number(name) {
                    Kind::Number
                } else {
                    Kind::Text
                })
            }
        }
    }

    fn truth(&self, value: Option<Kind>) -> Result<(), String> {
        match self.kind(value)? {
            Kind::Truth | Kind::Null => Ok(()),
            kind @ (Kind::Text | Kind::Number | Kind::Moment(_)) => {
                Err(format!("{} stands where a condition belongs", kind.name()))
            }
        }
    }
}

impl Condition {
    /// That its parts go together.
    fn check(&self, value: Option<Kind>) -> Result<(), String> {
        match self {
            Self::Compare(left, _, right) => compared(left, right, value).map(drop),
            Self::Between {
                operand,
                low,
                high,
                negated: _,
            } => {
                compared(operand, low, value)?;
                compared(operand, high, value).map(drop)
            }
            Self::In {
                operand,
                list,
                negated: _,
            } => list
                .iter()
                .try_for_each(|item| compared(operand, item, value).map(drop)),
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
pub(crate) fn compared(
    left: &Formula,
    right: &Formula,
    value: Option<Kind>,
) -> Result<Kind, String> {
    match (left.kind(value)?, right.kind(value)?) {
        (one, other) if one == other => Ok(one),
        (Kind::Null, kind) | (kind, Kind::Null) => Ok(kind),
        (Kind::Moment(class), Kind::Text) if is_moment(right) => Ok(Kind::Moment(class)),
        (Kind::Text, Kind::Moment(class)) if is_moment(left) => Ok(Kind::Moment(class)),
        (Kind::Moment(_), Kind::Text) | (Kind::Text, Kind::Moment(_)) => Err(
            "it compares a date with text that is none: write '2026-01-31' or '2026-01-31 12:00:00', of the years 1 to 9999"
                .to_owned(),
        ),
        (one, other) => Err(format!("it compares {} with {}", one.name(), other.name())),
    }
}

/// What all of them give.
fn unified<'f>(
    parts: impl Iterator<Item = &'f Formula>,
    value: Option<Kind>,
) -> Result<Kind, String> {
    parts.into_iter().try_fold(Kind::Null, |so_far, part| {
        match (so_far, part.kind(value)?) {
            (Kind::Null, kind) | (kind, Kind::Null) => Ok(kind),
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

    fn kind(text: &str, value: Option<Kind>) -> Result<Kind, String> {
        let formula = read(text, Dialect::Postgres).expect(text).formula;
        formula.kind(value)
    }

    #[test]
    fn expressions_fit_types() {
        let date = Some(Kind::Moment(TypeClass::Date));
        for (text, value, gives) in [
            ("'x'", None, Kind::Text),
            (
                "CASE WHEN value IS NULL THEN 'none' ELSE 'some' END",
                None,
                Kind::Text,
            ),
            ("left(value, 2)", Some(Kind::Number), Kind::Text),
            (
                "CASE WHEN value > 1000 THEN 1000 ELSE value END",
                Some(Kind::Number),
                Kind::Number,
            ),
            ("length(value)", Some(Kind::Text), Kind::Number),
            ("value >= '2000-02-29'", date, Kind::Truth),
            (
                "value BETWEEN '2000-01-01' AND '2000-12-31 23:59:59'",
                date,
                Kind::Truth,
            ),
            ("nullif(value, 'x')", Some(Kind::Text), Kind::Text),
            (
                "CASE WHEN value THEN 'yes' END",
                Some(Kind::Truth),
                Kind::Text,
            ),
        ] {
            assert_eq!(kind(text, value), Ok(gives), "{text}");
        }
        for (text, value, message) in [
            ("left(value, 2)", None, "has no text"),
            ("value > 1000", Some(Kind::Text), "text with a number"),
            (
                "CASE WHEN value > 'a' THEN 'x' ELSE 1 END",
                Some(Kind::Text),
                "in another",
            ),
            (
                "CASE WHEN value THEN 'x' END",
                Some(Kind::Text),
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
}
