//! Raw answers, and whether two are the same.

use std::ops::ControlFlow;

use palisade::{guard::RowSink, value::Value};

/// Rows as an engine gave them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
    /// A cell for each column.
    pub(crate) rows: Vec<Vec<Value>>,
}

/// Keeps every row.
impl RowSink for Answer {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        self.columns = names.iter().map(|name| (*name).to_owned()).collect();
        ControlFlow::Continue(())
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        self.rows.push(cells);
        ControlFlow::Continue(())
    }
}

impl Answer {
    /// How `other` differs, as a text; as bags where not `ordered`.
    pub(crate) fn difference(&self, other: &Self, ordered: bool) -> Option<String> {
        if self.columns != other.columns {
            return Some(format!(
                "columns {:?} became {:?}",
                self.columns, other.columns
            ));
        }
        let (mine, theirs) = (self.lines(), other.lines());
        if mine == theirs {
            return None;
        }
        let sorted = |lines: &[String]| {
            let mut lines = lines.to_vec();
            lines.sort();
            lines
        };
        let (mut bag, mut their_bag) = (sorted(&mine), sorted(&theirs));
        if bag == their_bag {
            return ordered.then(|| "the same rows in another order".to_owned());
        }
        bag.retain(|line| !theirs.contains(line));
        their_bag.retain(|line| !mine.contains(line));
        Some(format!(
            "{} rows became {}; only before: {}; only after: {}",
            mine.len(),
            theirs.len(),
            bag.first().map_or("-", String::as_str),
            their_bag.first().map_or("-", String::as_str),
        ))
    }

    /// Whether `text` stands in a cell or a column's name.
    pub(crate) fn holds(&self, text: &str) -> bool {
        self.columns.iter().any(|name| name.contains(text))
            || self.rows.iter().flatten().any(|cell| match cell {
                Value::Null | Value::Bool(_) => false,
                Value::Integer(n) => n.to_string().contains(text),
                Value::Real(n) => n.to_string().contains(text),
                Value::Text(bytes) | Value::Blob(bytes) => bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes()),
            })
    }

    fn lines(&self) -> Vec<String> {
        self.rows
            .iter()
            .map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" | "))
            .collect()
    }
}

/// A cell such that equal texts mean equal values. Sums of floating-point numbers depend on the order
/// of the rows in their last digits.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Real(n) => format!("{n:.12e}"),
        Value::Text(bytes) => format!("'{}'", bytes.escape_ascii()),
        Value::Blob(bytes) => format!("x'{}'", bytes.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[i64]) -> Answer {
        Answer {
            columns: vec!["a".to_owned()],
            rows: rows.iter().map(|n| vec![Value::Integer(*n)]).collect(),
        }
    }

    #[test]
    fn order_counts_only_where_it_is_part_of_the_answer() {
        assert_eq!(answer(&[1, 2]).difference(&answer(&[2, 1]), false), None);
        assert_eq!(
            answer(&[1, 2])
                .difference(&answer(&[2, 1]), true)
                .as_deref(),
            Some("the same rows in another order")
        );
    }

    #[test]
    fn a_row_more_or_twice_is_a_difference() {
        for other in [&[1, 2, 2][..], &[1], &[1, 3], &[]] {
            assert!(
                answer(&[1, 2]).difference(&answer(other), false).is_some(),
                "{other:?}"
            );
        }
    }

    #[test]
    fn forms_are_found_in_every_kind_of_cell_and_in_names() {
        for value in [
            Value::text("x900123456y"),
            Value::Blob(b"900123456".to_vec()),
            Value::Integer(19_001_234_567),
        ] {
            let answer = Answer {
                columns: vec!["a".to_owned()],
                rows: vec![vec![Value::Null, value]],
            };
            assert!(answer.holds("900123456"));
        }
        let named = Answer {
            columns: vec!["max('900123456')".to_owned()],
            rows: Vec::new(),
        };
        assert!(named.holds("900123456"));
        assert!(!answer(&[900]).holds("900123456"));
    }
}
