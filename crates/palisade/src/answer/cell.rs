//! A value on its way out.

use serde::Serialize;

use crate::{answer::spell_out, value::Value};

/// A value that has been scanned.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::answer) enum Cell {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    Text(String),
}

/// The largest integer that every JSON reader keeps exactly, 2^53 - 1; beyond it a string is sent.
const MAX_EXACT: u64 = (1 << 53) - 1;
/// What PostgreSQL writes before bytes in hexadecimal.
pub(in crate::answer) const HEX_PREFIX: &str = "\\x";

impl Cell {
    /// The same for a model: what hides or imitates is spelled out.
    pub(in crate::answer) fn spelled_out(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(spell_out(text).into_owned()),
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Real(_) => self.clone(),
        }
    }

    /// What it counts for against the limit of the answer.
    pub(in crate::answer) fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
        }
    }
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Bool(bool) => Self::Bool(bool),
            Cell::Integer(integer) => Self::Integer(integer),
            Cell::Real(real) => Self::Real(real),
            Cell::Text(text) => Self::text(text),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Integer(i) if i.unsigned_abs() > MAX_EXACT => serializer.collect_str(i),
            Self::Integer(i) => serializer.serialize_i64(*i),
            Self::Real(r) if r.is_nan() => serializer.serialize_str("NaN"),
            Self::Real(r) if r.is_infinite() => {
                serializer.serialize_str(if *r > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Self::Real(r) => serializer.serialize_f64(*r),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Lower-case hexadecimal after `\x`, as PostgreSQL writes bytes.
pub(in crate::answer) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let mut text = String::with_capacity(HEX_PREFIX.len() + 2 * bytes.len());
    text.push_str(HEX_PREFIX);
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xF));
    }
    text
}
