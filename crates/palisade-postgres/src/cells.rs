//! What the server prints, as values.

use palisade::{guard::BackendError, value::Value};
use tokio_postgres::types::Type;

/// How the text of a column becomes a value. The server sends a domain's values as its base type's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Boolean,
    Integer,
    Real,
    /// As the server prints it: exact numbers, points in time, JSON, arrays and everything else.
    Text,
}

impl Reading {
    /// That of columns of type `ty`.
    pub(crate) fn new(ty: &Type) -> Self {
        match *ty {
            Type::BOOL => Self::Boolean,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => Self::Integer,
            Type::FLOAT4 | Type::FLOAT8 => Self::Real,
            _ => Self::Text,
        }
    }

    /// The value of a cell.
    pub(crate) fn value(self, text: Option<&str>) -> Result<Value, BackendError> {
        let Some(text) = text else {
            return Ok(Value::Null);
        };
        let odd = || BackendError::unavailable(format!("the server printed no {self:?}"));
        match self {
            Self::Boolean => match text {
                "t" => Ok(Value::Bool(true)),
                "f" => Ok(Value::Bool(false)),
                _ => Err(odd()),
            },
            Self::Integer => text.parse().map(Value::Integer).map_err(|_| odd()),
            Self::Real => match text {
                // JSON has no numbers for these.
                "NaN" | "Infinity" | "-Infinity" => Ok(Value::text(text)),
                _ => match text.parse::<f64>() {
                    Ok(number) if number.is_finite() => Ok(Value::Real(number)),
                    Ok(_) | Err(_) => Err(odd()),
                },
            },
            Self::Text => Ok(Value::text(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values() {
        let check = |ty: Type, text: &str, expected: Option<Value>| {
            assert_eq!(
                Reading::new(&ty).value(Some(text)).ok(),
                expected,
                "{ty} {text}"
            );
        };
        check(Type::BOOL, "t", Some(Value::Bool(true)));
        check(Type::BOOL, "true", None);
        check(
            Type::INT8,
            "-9223372036854775808",
            Some(Value::Integer(i64::MIN)),
        );
        check(Type::INT2, "x", None);
        check(Type::OID, "4294967295", Some(Value::Integer(4_294_967_295)));
        check(Type::FLOAT8, "1e-320", Some(Value::Real(1e-320)));
        check(Type::FLOAT8, "NaN", Some(Value::text("NaN")));
        check(Type::FLOAT4, "-Infinity", Some(Value::text("-Infinity")));
        check(Type::FLOAT8, "inf", None);
        check(Type::NUMERIC, "1.10", Some(Value::text("1.10")));
        check(
            Type::JSON,
            "{\"a\": 1.10}",
            Some(Value::text("{\"a\": 1.10}")),
        );
        assert_eq!(Reading::Boolean.value(None).ok(), Some(Value::Null));
    }
}
