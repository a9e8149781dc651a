//! A text that somebody else wrote, as a person is asked about it.

use std::fmt::Write as _;

use crate::spell_out;

/// Blanks in a row that are shown as they are: as many as indentation has.
const MOST_BLANKS: usize = 40;

/// `text` line by line, each behind `| `, so that no line of it passes for one of ours. What hides is [spelled out](spell_out). Many
/// blanks, or empty lines, in a row are counted: they would move the rest out of sight.
///
/// ```
/// let text = format!("delete from t where id = 1{}or true", "\n".repeat(900));
/// assert_eq!(
///     palisade_scan::quote_lines(&text),
///     "| delete from t where id = 1\n| (899 empty lines)\n| or true\n"
/// );
/// ```
#[must_use]
pub fn quote_lines(text: &str) -> String {
    let mut out = String::new();
    let mut empty = 0usize;
    for line in text.lines() {
        if line.trim().is_empty() {
            empty += 1;
            continue;
        }
        tell_empty(&mut out, std::mem::take(&mut empty));
        out.push_str("| ");
        count_blanks(&mut out, &spell_out(line));
        out.push('\n');
    }
    tell_empty(&mut out, empty);
    out
}

fn tell_empty(out: &mut String, lines: usize) {
    match lines {
        0 => {}
        1 => out.push_str("|\n"),
        lines => {
            let _ = writeln!(out, "| ({lines} empty lines)");
        }
    }
}

fn count_blanks(out: &mut String, line: &str) {
    let mut rest = line.trim_end();
    while let Some(start) = rest.find(char::is_whitespace) {
        let (before, from) = rest.split_at(start);
        let after = from.trim_start();
        let blanks = from.len() - after.len();
        out.push_str(before);
        let run = from.get(..blanks).unwrap_or_default();
        let count = run.chars().count();
        if count > MOST_BLANKS {
            let _ = write!(out, " ({count} blanks) ");
        } else {
            out.push_str(run);
        }
        rest = after;
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_rest_out_of_sight_is_counted() {
        let far = " ".repeat(3000);
        for (text, expected) in [
            ("select 1", "| select 1\n"),
            ("a\n\n  b\t\n", "| a\n|\n|   b\n"),
            ("a\r\n\r\n\u{a0}\r\n\tb", "| a\n| (2 empty lines)\n| \tb\n"),
            (&format!("a{far}or b"), "| a (3000 blanks) or b\n"),
            ("a\u{200B}b", "| a\\u200bb\n"),
            ("delete --\r| select", "| delete --\\u000d| select\n"),
            ("", ""),
            ("\n\n", "| (2 empty lines)\n"),
        ] {
            assert_eq!(quote_lines(text), expected, "{text:?}");
        }
    }
}
