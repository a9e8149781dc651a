//! A place in a text file, shown with the line it is on.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

/// Something to say about a place in a file.
pub(crate) struct Note<'a> {
    /// `error` or `warning`.
    pub(crate) kind: &'a str,
    /// What is wrong.
    pub(crate) message: &'a str,
    /// The file, as the reader can open it.
    pub(crate) file: &'a str,
    /// Its text; none where there is none to show.
    pub(crate) text: Option<&'a str>,
    /// Where in it, in bytes: offset and length.
    pub(crate) span: Option<(usize, usize)>,
    /// What to do about it.
    pub(crate) help: Option<&'a str>,
}

/// The most columns of a source line that are shown.
const WIDTH: usize = 72;

/// ```text
/// error: there is no annotation `@maks`
///   --> policies/base.cedar:2:1
///    |
///  2 | @maks("last(4)")
///    | ^^^^^
///   help: did you mean `@mask`?
/// ```
pub(crate) fn render(note: &Note<'_>) -> String {
    let mut out = format!("{}: {}\n", note.kind, note.message);
    let place = note
        .text
        .zip(note.span)
        .map(|(text, (offset, length))| place(text, offset, length));
    match place {
        None => {
            let _ = writeln!(out, "  --> {}", note.file);
        }
        Some(place) => {
            let gutter = place.line.to_string();
            let blank = " ".repeat(gutter.len());
            let _ = writeln!(out, "  --> {}:{}:{}", note.file, place.line, place.column);
            let _ = writeln!(out, " {blank} |");
            let _ = writeln!(out, " {gutter} | {}", place.shown);
            let marks = "^".repeat(place.marked.max(1));
            let _ = writeln!(out, " {blank} | {}{marks}", " ".repeat(place.indent));
        }
    }
    if let Some(help) = note.help {
        let _ = writeln!(out, "  help: {help}");
    }
    out
}

/// The line and the column of a byte of `text`, both counted from 1, columns in characters.
pub(crate) fn find_position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or_default();
    let lead = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, lead.chars().count() + 1)
}

struct Place {
    line: usize,
    column: usize,
    shown: String,
    indent: usize,
    marked: usize,
}

/// Where `offset` is: the line, and what of it to mark; a span of several lines marks the first.
fn place(text: &str, offset: usize, length: usize) -> Place {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let (line_number, _) = find_position(text, offset);
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = text
        .get(start..)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default();
    let lead = text.get(start..offset).unwrap_or_default();
    let marked = line.len().saturating_sub(lead.len()).min(length);
    let marked: String = text
        .get(offset..)
        .unwrap_or_default()
        .chars()
        .take(marked)
        .collect();
    let marked = marked.lines().next().unwrap_or_default();
    let column = lead.chars().count();
    let skipped = skip_width(column, marked.chars().count());
    let cut = |text: &str| text.chars().skip(skipped).map(plain).collect::<String>();
    let before_it = if skipped > 0 { "…" } else { "" };
    let mut shown = format!("{before_it}{}", cut(line));
    if shown.chars().count() > WIDTH {
        shown = shown.chars().take(WIDTH - 1).collect();
        shown.push('…');
    }
    let indent = before_it.width() + cut(lead).width();
    Place {
        line: line_number,
        column: column + 1,
        indent: indent.min(WIDTH),
        marked: marked.width().min(WIDTH.saturating_sub(indent)),
        shown,
    }
}

/// How many characters of a line are left out before what is marked, so that it is seen with something before it.
fn skip_width(column: usize, marked: usize) -> usize {
    const BEFORE: usize = 16;
    // Room for an ellipsis on either side.
    let fits = WIDTH - 2;
    if column + marked <= fits {
        0
    } else {
        (column + marked - fits).min(column.saturating_sub(BEFORE))
    }
}

/// Tabs take one column, and nothing in a file moves the cursor.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn the_line_is_shown_and_marked() {
        let text = "permit(principal);\n\t@maks(\"x\") permit(x);\n";
        let note = Note {
            kind: "error",
            message: "no",
            file: "p/base.cedar",
            text: Some(text),
            span: Some((text.find('@').unwrap(), 5)),
            help: Some("yes"),
        };
        assert_eq!(
            render(&note),
            "error: no\n  --> p/base.cedar:2:2\n   |\n 2 |  @maks(\"x\") permit(x);\n   |  ^^^^^\n  help: yes\n"
        );
    }

    #[test]
    fn what_is_marked_is_seen_in_a_long_line() {
        let line = format!("{} WRONG {}", "a".repeat(90), "b".repeat(90));
        let long = format!("{} {}", "a".repeat(90), "W".repeat(90));
        for (text, marked) in [(&line, 5), (&long, 90)] {
            let note = Note {
                kind: "error",
                message: "no",
                file: "f",
                text: Some(text),
                span: Some((text.find('W').unwrap(), marked)),
                help: None,
            };
            let rendered = render(&note);
            let lines: Vec<Vec<char>> = rendered.lines().map(|l| l.chars().collect()).collect();
            let [_, place, _, shown, marks] = lines.as_slice() else {
                panic!("{rendered}")
            };
            assert_eq!(place.iter().collect::<String>(), "  --> f:1:92");
            assert!(shown.len() <= WIDTH + 5, "{rendered}");
            let under: String = shown
                .iter()
                .zip(marks)
                .filter(|(_, mark)| **mark == '^')
                .map(|(shown, _)| *shown)
                .collect();
            let whole = "W".repeat(WIDTH - 18);
            let expected = if marked == 5 { "WRONG" } else { &whole };
            assert!(under.starts_with(expected), "{rendered}");
            assert!(
                shown.starts_with(&[' ', '1', ' ', '|', ' ', '…', 'a']),
                "{rendered}"
            );
        }
    }

    #[test]
    fn spans_beyond_the_text_are_no_fault() {
        for (offset, length) in [(0, 99), (99, 1), (5, 0), (1, 1)] {
            let note = Note {
                kind: "error",
                message: "no",
                file: "f",
                text: Some("é\nb"),
                span: Some((offset, length)),
                help: None,
            };
            assert!(render(&note).contains("f:"), "{offset}");
        }
    }
}
