//! Tables in a terminal: rows between rules.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use crate::human::{Paint, pieces, printable, wrap_within};

/// Lines of one cell.
const CELL_LINES: usize = 12;
/// The longest piece of a cell that is not broken while there is another way.
const UNBROKEN: usize = 20;

/// The text of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    /// Numbers stand at the right.
    is_number: bool,
}

impl Cell {
    /// A text, without what moves the cursor.
    pub(crate) fn text(text: &str) -> Self {
        Self {
            text: printable(text),
            is_number: false,
        }
    }

    /// What stands in it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// A number.
    pub(crate) fn number(number: &impl ToString) -> Self {
        Self {
            text: number.to_string(),
            is_number: true,
        }
    }
}

/// A table of `cells` in at most `columns` columns. A cell is filled into lines only where the whole does not fit. Where
/// that leaves columns too narrow to read, each value gets a line of its own.
pub(crate) fn draw(names: &[String], cells: &[Vec<Cell>], paint: Paint, columns: usize) -> String {
    if names.is_empty() {
        return String::new();
    }
    let Some(widths) = widths(names, cells, columns) else {
        return records(names, cells, paint, columns);
    };
    let rule = |left: &str, middle: &str, right: &str| {
        let bars: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", bars.join(middle))
    };
    let mut out = rule("┌", "┬", "┐");
    let heads: Vec<Cell> = names.iter().map(|name| Cell::text(name)).collect();
    out.push_str(&row(&heads, &widths));
    out.push_str(&rule("├", "┼", "┤"));
    for cells in cells {
        out.push_str(&row(cells, &widths));
    }
    out.push_str(&rule("└", "┴", "┘"));
    out
}

/// Whether a table of `cells` can be read in at most `columns` columns.
pub(crate) fn fits(names: &[String], cells: &[Vec<Cell>], columns: usize) -> bool {
    widths(names, cells, columns).is_some()
}

/// How wide each column is; none if words would have to be broken.
fn widths(names: &[String], cells: &[Vec<Cell>], columns: usize) -> Option<Vec<usize>> {
    // For each column, the width it wants and the width of its longest word.
    let mut widths: Vec<(usize, usize)> = names
        .iter()
        .map(|name| (name.width().max(1), name.width().clamp(1, UNBROKEN)))
        .collect();
    for row in cells {
        for ((width, least), cell) in widths.iter_mut().zip(row) {
            let word = cell.text.split(' ').map(str::width).max().unwrap_or(0);
            *width = (*width).max(cell.text.width());
            *least = (*least).max(word.min(UNBROKEN));
        }
    }
    let room = columns.checked_sub(3 * widths.len() + 1)?;
    while widths.iter().map(|(width, _)| width).sum::<usize>() > room {
        let (width, _) = widths
            .iter_mut()
            .filter(|(width, least)| width > least)
            .max_by_key(|(width, _)| *width)?;
        *width -= 1;
    }
    Some(widths.into_iter().map(|(width, _)| width).collect())
}

fn row(cells: &[Cell], widths: &[usize]) -> String {
    let lines: Vec<Vec<String>> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| cell_lines(&cell.text, *width))
        .collect();
    let height = lines.iter().map(Vec::len).max().unwrap_or(1);
    let mut out = String::new();
    for n in 0..height {
        for ((lines, width), cell) in lines.iter().zip(widths).zip(cells) {
            let text = lines.get(n).map_or("", String::as_str);
            let gap = " ".repeat(width.saturating_sub(text.width()));
            let _ = if cell.is_number {
                write!(out, "│ {gap}{text} ")
            } else {
                write!(out, "│ {text}{gap} ")
            };
        }
        out.push_str("│\n");
    }
    out
}

/// A cell in lines of at most `width` columns, broken at blanks where there are any.
fn cell_lines(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').flat_map(|word| pieces(word, width)) {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            out.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    out.push(line);
    if out.len() > CELL_LINES {
        out.truncate(CELL_LINES - 1);
        out.push("…".to_owned());
    }
    out
}

fn records(names: &[String], cells: &[Vec<Cell>], paint: Paint, columns: usize) -> String {
    let mut out = String::new();
    for (n, row) in cells.iter().enumerate() {
        let _ = writeln!(out, "{}", paint.faint(&format!("── row {}", n + 1)));
        for (name, cell) in names.iter().zip(row) {
            let line = format!("{name}: {}", cell.text);
            out.push_str(&wrap_within(&line, 0, 4, columns));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::human::WIDTH;

    fn cells(text: &str, columns: usize) -> (Vec<String>, Vec<Vec<Cell>>) {
        let names = (0..columns).map(|n| format!("a_column_{n}")).collect();
        (names, vec![vec![Cell::text(text); columns]])
    }

    #[test]
    fn wide_tables_become_records() {
        let (names, cells) = cells("some text", 12);
        assert!(widths(&names, &cells, WIDTH).is_none());
        assert!(widths(&names[..5], &cells, WIDTH).is_some());
        assert!(widths(&names, &cells, 200).is_some());
    }

    #[test]
    fn a_cell_that_fits_stays_in_one_line() {
        let (names, cells) = cells("thirty letters and some blanks", 5);
        let lines = |columns| {
            draw(&names, &cells, Paint::plain(), columns)
                .lines()
                .count()
        };
        assert_eq!(lines(200), 5);
        assert!(lines(WIDTH) > 5);
        for columns in [40, WIDTH, 200] {
            for line in draw(&names, &cells, Paint::plain(), columns).lines() {
                assert!(line.width() <= columns, "{line}");
            }
        }
    }
}
