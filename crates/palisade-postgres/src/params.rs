//! Parameters: our values as the server's types read them.

use std::error::Error;

use bytes::BytesMut;
use palisade::{
    guard::{BackendError, EngineFault, FaultClass},
    value::Value,
};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A parameter in the text form of its type, or NULL.
#[derive(Debug)]
pub(crate) struct TextParam(Option<String>);

impl ToSql for TextParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// `values` for the parameters that the server says the statement has.
pub(crate) fn bind(
    types: &[Type],
    values: &[Value],
) -> Result<Vec<(TextParam, Type)>, BackendError> {
    if types.len() != values.len() {
        return Err(BackendError::second_lock(format!(
            "the statement has {} parameters and {} are bound",
            types.len(),
            values.len()
        )));
    }
    (1_usize..)
        .zip(types.iter().zip(values))
        .map(|(number, (ty, value))| match text(value, ty) {
            Some(param) => Ok((param, ty.clone())),
            None => Err(unfit(number, ty)),
        })
        .collect()
}

/// Says that a parameter's value is none of its type. No row was looked at: the value and what the server says of the text decide.
fn unfit(number: usize, ty: &Type) -> BackendError {
    let message = format!("parameter {number} is not a value of type `{}`", ty.name());
    BackendError::rejected(message.clone()).with_fault(EngineFault {
        code: DATATYPE_MISMATCH.to_owned(),
        class: FaultClass::UnfitParameter,
        message,
        position: None,
        is_of_preparation: true,
    })
}

/// What the server says where a value's type is another.
const DATATYPE_MISMATCH: &str = "42804";

/// Parameters as the driver takes them.
pub(crate) fn with_types(bound: &[(TextParam, Type)]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    bound
        .iter()
        .map(|(param, ty)| (param as &(dyn ToSql + Sync), ty.clone()))
        .collect()
}

/// `value` as text that the type's input function reads; `None` if it is of another kind.
///
/// A string goes to every type, as a literal would: strings are how clients spell dates, large numbers and
/// all else that JSON has no form for. Beyond that a number goes where no other text can be meant: an integer to
/// texts, and 0 and 1 to booleans, as drivers send them; a whole number with a point to integers.
fn text(value: &Value, ty: &Type) -> Option<TextParam> {
    let base = base(ty);
    let some = |text: String| Some(TextParam(Some(text)));
    match value {
        Value::Null => Some(TextParam(None)),
        Value::Bool(b) if *base == Type::BOOL => some(b.to_string()),
        Value::Integer(n) if is_whole(base) || is_fractional(base) || is_text(base) => {
            some(n.to_string())
        }
        Value::Integer(n @ (0 | 1)) if *base == Type::BOOL => some(n.to_string()),
        Value::Real(n) if is_fractional(base) => some(format!("{n:?}")),
        Value::Real(n) if is_whole(base) => spell_integer(*n).and_then(some),
        Value::Blob(bytes) if *base == Type::BYTEA => {
            let mut hex = String::with_capacity(2 + bytes.len() * 2);
            hex.push_str("\\x");
            for byte in bytes {
                hex.push_str(&format!("{byte:02x}"));
            }
            some(hex)
        }
        Value::Text(bytes) if !looks_up_names(base) => {
            // No text of the server's holds one.
            let text = std::str::from_utf8(bytes).ok()?;
            (!text.contains('\0')).then(|| TextParam(Some(text.to_owned())))
        }
        Value::Bool(_) | Value::Integer(_) | Value::Real(_) | Value::Blob(_) | Value::Text(_) => {
            None
        }
    }
}

/// A whole number without its point. Above 2^53, a double stands for other integers too, and which was meant is not known.
fn spell_integer(number: f64) -> Option<String> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    // Its sign says nothing at zero.
    let number = number + 0.0;
    (number.fract() == 0.0 && number.abs() < MOST).then(|| format!("{number:.0}"))
}

/// What a domain narrows in the end.
fn base(ty: &Type) -> &Type {
    let mut ty = ty;
    while let Kind::Domain(inner) = ty.kind() {
        ty = inner;
    }
    ty
}

fn is_whole(ty: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::OID].contains(ty)
}

fn is_fractional(ty: &Type) -> bool {
    [Type::FLOAT4, Type::FLOAT8, Type::NUMERIC].contains(ty)
}

/// Types of texts, of which an extension has one more.
fn is_text(ty: &Type) -> bool {
    let is_extension_text = *ty.kind() == Kind::Simple && ty.name() == "citext";
    [Type::TEXT, Type::VARCHAR, Type::BPCHAR].contains(ty) || is_extension_text
}

/// Types that read a name by looking it up in the system's catalogs, whoever may see it: whether a relation
/// exists would show.
fn looks_up_names(ty: &Type) -> bool {
    [
        Type::REGPROC,
        Type::REGPROCEDURE,
        Type::REGOPER,
        Type::REGOPERATOR,
        Type::REGCLASS,
        Type::REGTYPE,
        Type::REGNAMESPACE,
        Type::REGROLE,
        Type::REGCOLLATION,
        Type::ACLITEM,
    ]
    .contains(ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_types_of_their_kind() {
        let check = |value: Value, ty: Type, expected: Option<&str>| {
            let found = text(&value, &ty).map(|param| param.0);
            assert_eq!(
                found,
                expected.map(|text| Some(text.to_owned())),
                "{value:?} to {ty}"
            );
        };
        check(Value::Bool(true), Type::BOOL, Some("true"));
        check(Value::Bool(true), Type::INT4, None);
        check(Value::Bool(true), Type::TEXT, None);
        check(Value::Integer(-5), Type::INT2, Some("-5"));
        check(Value::Integer(5), Type::NUMERIC, Some("5"));
        check(Value::Integer(-5), Type::TEXT, Some("-5"));
        check(Value::Integer(5), Type::VARCHAR, Some("5"));
        check(Value::Integer(5), Type::BPCHAR, Some("5"));
        check(Value::Integer(5), Type::NAME, None);
        check(Value::Integer(5), Type::DATE, None);
        check(Value::Integer(5), Type::BYTEA, None);
        check(Value::Integer(5), Type::JSONB, None);
        check(Value::Integer(5), Type::TEXT_ARRAY, None);
        check(Value::Integer(0), Type::BOOL, Some("0"));
        check(Value::Integer(1), Type::BOOL, Some("1"));
        check(Value::Integer(2), Type::BOOL, None);
        check(Value::Integer(1), Type::REGCLASS, None);
        check(Value::Real(1.5e300), Type::FLOAT8, Some("1.5e300"));
        check(Value::Real(0.1), Type::NUMERIC, Some("0.1"));
        check(Value::Real(f64::INFINITY), Type::FLOAT8, Some("inf"));
        check(Value::Real(3.0), Type::INT4, Some("3"));
        check(Value::Real(-0.0), Type::INT4, Some("0"));
        check(Value::Real(-4e9), Type::INT8, Some("-4000000000"));
        check(Value::Real(1.5), Type::INT4, None);
        check(Value::Real(1e18), Type::INT8, None);
        check(Value::Real(f64::NAN), Type::INT8, None);
        check(Value::Real(f64::INFINITY), Type::INT8, None);
        check(Value::Real(3.0), Type::TEXT, None);
        check(Value::Real(1.0), Type::BOOL, None);
        check(Value::text("2026-01-01"), Type::DATE, Some("2026-01-01"));
        check(Value::text("5"), Type::INT8, Some("5"));
        check(Value::text("pg_class"), Type::REGCLASS, None);
        check(Value::text("a\0b"), Type::TEXT, None);
        check(Value::Text(vec![0xff]), Type::TEXT, None);
        check(Value::Blob(vec![0, 0xff]), Type::BYTEA, Some("\\x00ff"));
        check(Value::Blob(vec![]), Type::TEXT, None);
        assert!(text(&Value::Null, &Type::REGCLASS).is_some_and(|param| param.0.is_none()));
        let domain = Type::new(
            "positive".to_owned(),
            70_000,
            Kind::Domain(Type::INT4),
            "public".to_owned(),
        );
        check(Value::Integer(5), domain, Some("5"));
        let simple =
            |name: &str| Type::new(name.to_owned(), 70_001, Kind::Simple, "public".to_owned());
        check(Value::Integer(5), simple("citext"), Some("5"));
        check(Value::Integer(5), simple("point3"), None);
    }

    #[test]
    fn what_is_no_value_of_its_type_is_told_by_its_number() {
        let values = [Value::Integer(1), Value::Bool(true)];
        let error = bind(&[Type::TEXT, Type::TEXT], &values).err();
        let fault = error.and_then(|error| error.fault);
        assert_eq!(
            fault.map(|fault| (fault.class, fault.message, fault.is_of_preparation)),
            Some((
                FaultClass::UnfitParameter,
                "parameter 2 is not a value of type `text`".to_owned(),
                true
            ))
        );
    }

    #[test]
    fn as_many_as_there_are() {
        let error = bind(&[Type::INT4], &[]).err().map(|e| e.kind);
        assert_eq!(error, Some(palisade::guard::BackendErrorKind::SecondLock));
        assert!(bind(&[Type::INT4], &[Value::Integer(1)]).is_ok());
    }
}
