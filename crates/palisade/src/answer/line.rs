//! A row as one line. What could be mistaken is in double quotes, with JSON's escapes: no cell ends its line, and none begins a line
//! that looks like a note.

use std::fmt::Write as _;

use crate::answer::{
    OutputColumn,
    cell::{Cell, hex},
    spell_out,
};

/// The line of the columns' names.
pub(in crate::answer) fn write_header(text: &mut String, columns: &[OutputColumn]) {
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_text(text, &spell_out(&column.name));
    }
    text.push('\n');
}

/// The line of a row.
pub(in crate::answer) fn write_row(text: &mut String, row: &[Cell]) {
    for (at, cell) in row.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        match cell {
            Cell::Null => text.push_str("NULL"),
            Cell::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Cell::Integer(value) => {
                let _ = write!(text, "{value}");
            }
            Cell::Real(value) => text.push_str(&real(*value)),
            Cell::Text(value) => write_text(text, &spell_out(value)),
            Cell::Bytes(bytes) => text.push_str(&hex(bytes)),
        }
    }
    text.push('\n');
}

/// As the JSON of an answer writes it, without quotes.
fn real(value: f64) -> String {
    if value.is_finite() {
        serde_json::to_string(&value).unwrap_or_default()
    } else if value.is_nan() {
        "NaN".to_owned()
    } else if value > 0.0 {
        "Infinity".to_owned()
    } else {
        "-Infinity".to_owned()
    }
}

/// A text, in quotes where its line would be mistaken without.
fn write_text(text: &mut String, value: &str) {
    let is_plain = !value.is_empty()
        && !matches!(value, "NULL" | "true" | "false")
        && !value.starts_with(['#', ' ', '<'])
        && !value.ends_with(' ')
        && !value.contains([',', '"', '\n', '\r', '\t']);
    if is_plain {
        text.push_str(value);
    } else {
        text.push_str(&serde_json::to_string(value).unwrap_or_default());
    }
}
