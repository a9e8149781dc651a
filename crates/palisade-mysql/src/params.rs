//! Parameters: our values as the driver sends them.

use mysql_async::{Params, Value as Sent};
use palisade::{
    guard::{BackendError, EngineFault, FaultClass},
    value::Value,
};

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

/// The number of what both servers say of a number that a type does not hold.
const OUT_OF_RANGE: &str = "1264";

fn sent(value: &Value, number: usize) -> Result<Sent, BackendError> {
    Ok(match value {
        Value::Null => Sent::NULL,
        Value::Bool(b) => Sent::Int(i64::from(*b)),
        Value::Integer(n) => Sent::Int(*n),
        Value::Real(n) if n.is_finite() => Sent::Double(*n),
        Value::Real(_) => {
            // Neither server has a value for it. No row was looked at.
            let message = format!("parameter {number} is no number");
            return Err(
                BackendError::rejected(message.clone()).with_fault(EngineFault {
                    code: OUT_OF_RANGE.to_owned(),
                    class: FaultClass::UnfitParameter,
                    message,
                    position: None,
                    is_of_preparation: true,
                }),
            );
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
        let fault = bind(2, &[Value::Null, Value::Real(f64::NAN)])
            .err()
            .and_then(|error| error.fault);
        assert_eq!(
            fault.map(|fault| (fault.class, fault.message, fault.is_of_preparation)),
            Some((
                FaultClass::UnfitParameter,
                "parameter 2 is no number".to_owned(),
                true
            ))
        );
        assert_eq!(bind(0, &[]).ok(), Some(Params::Empty));
        assert_eq!(
            bind(1, &[Value::Bool(true)]).ok(),
            Some(Params::Positional(vec![Sent::Int(1)]))
        );
    }
}
