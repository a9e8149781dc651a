//! Parameters: our values as the driver sends them.

use mysql_async::{Params, Value as Sent};
use palisade::{guard::BackendError, value::Value};

/// `values` for the `wanted` parameters that the server says the statement has, in the order of its text.
pub(crate) fn bind(wanted: u16, values: &[Value]) -> Result<Params, BackendError> {
    if usize::from(wanted) != values.len() {
        return Err(BackendError::second_lock(format!(
            "the statement has {wanted} parameters and {} are bound",
            values.len()
        )));
    }
    if values.is_empty() {
        return Ok(Params::Empty);
    }
    (1_usize..)
        .zip(values)
        .map(|(number, value)| sent(value, number))
        .collect::<Result<_, _>>()
        .map(Params::Positional)
}

fn sent(value: &Value, number: usize) -> Result<Sent, BackendError> {
    Ok(match value {
        Value::Null => Sent::NULL,
        Value::Bool(b) => Sent::Int(i64::from(*b)),
        Value::Integer(n) => Sent::Int(*n),
        Value::Real(n) if n.is_finite() => Sent::Double(*n),
        Value::Real(_) => {
            return Err(BackendError::rejected(format!(
                "parameter {number} is no number"
            )));
        }
        Value::Text(bytes) | Value::Blob(bytes) => Sent::Bytes(bytes.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_are() {
        assert!(bind(1, &[]).is_err());
        assert!(bind(0, &[Value::Null]).is_err());
        assert!(bind(1, &[Value::Real(f64::NAN)]).is_err());
        assert_eq!(bind(0, &[]).ok(), Some(Params::Empty));
        assert_eq!(
            bind(1, &[Value::Bool(true)]).ok(),
            Some(Params::Positional(vec![Sent::Int(1)]))
        );
    }
}
