//! A value on its way out.

use serde::Serialize;

use crate::{answer::spell_out, value::Value};

/// A cell of an answer, cut to size and scanned. It is for programs: characters that hide or imitate are as they are in the database.
///
/// As JSON it is what an [`Envelope`](crate::answer::Envelope) has in its place.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// SQL NULL, or a cell that was withheld; a notice tells of that.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer, exactly as the database has it.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Text; also the dates, decimals and documents of servers, a token, and what stands for a cell that was redacted.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
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
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Real(_) | Self::Bytes(_) => {
                self.clone()
            }
        }
    }

    /// What it counts for against the limit of the answer.
    pub(in crate::answer) fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 4,
            Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            // Two digits a byte and the prefix.
            Self::Bytes(bytes) => bytes.len().saturating_mul(2) + HEX_PREFIX.len(),
        }
    }

    /// Cuts it to what counts for so many bytes, and tells whether that took anything away. Only texts and bytes are cut.
    pub(in crate::answer) fn cut_to(&mut self, most: usize) -> bool {
        let before = self.bytes();
        match self {
            Self::Text(text) => text.truncate(text.floor_char_boundary(most)),
            Self::Bytes(bytes) => bytes.truncate(most.saturating_sub(HEX_PREFIX.len()) / 2),
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Real(_) => {}
        }
        self.bytes() < before
    }

    /// Whether it is NULL, or was withheld.
    #[must_use]
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The integer that it is, if it is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Null | Self::Bool(_) | Self::Real(_) | Self::Text(_) | Self::Bytes(_) => None,
        }
    }

    /// The text that it is, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Real(_) | Self::Bytes(_) => None,
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
            Cell::Bytes(bytes) => Self::Blob(bytes),
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
            Self::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
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
