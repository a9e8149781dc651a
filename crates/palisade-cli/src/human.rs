//! Answers for people: texts of at most 80 columns, tables as wide as the terminal, colour only where a terminal shows it.

use std::{env, fmt::Write as _, io::IsTerminal as _, time::Duration};

use palisade::{
    access::Usage,
    answer::{AsOf, EmptyReason, Envelope, Notice, ScannedRows, TruncationReason},
};
use terminal_size::{Height, Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::{
    answer::{Answer, Verdict},
    commands, explain,
    grid::{self, Cell},
};

/// Columns that texts take, and tables where the output is no terminal.
pub(crate) const WIDTH: usize = 80;
/// Columns of a table in a terminal that has fewer.
const NARROWEST: usize = 40;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
    /// Columns of a table.
    width: usize,
}

impl Paint {
    /// On if standard output is a terminal that shows colours and `NO_COLOR` is not set.
    pub(crate) fn for_stdout() -> Self {
        let stream = std::io::stdout();
        Self::of_stream(stream.is_terminal(), terminal_size_of(stream))
    }

    /// The same for standard error.
    pub(crate) fn for_stderr() -> Self {
        let stream = std::io::stderr();
        Self::of_stream(stream.is_terminal(), terminal_size_of(stream))
    }

    fn of_stream(terminal: bool, columns: Option<(Width, Height)>) -> Self {
        let set =
            |name| env::var_os(name).is_some_and(|value: std::ffi::OsString| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            on: terminal && !set("NO_COLOR") && !dumb,
            width: columns.map_or(WIDTH, |(width, _)| usize::from(width.0).max(NARROWEST)),
        }
    }

    /// Without colours, in 80 columns.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            on: false,
            width: WIDTH,
        }
    }

    /// Columns that a table may take: the terminal's, or 80 where the output is no terminal.
    pub(crate) fn width(self) -> usize {
        self.width
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// What is permitted.
    pub(crate) fn good(self, text: &str) -> String {
        self.code("1;32", text)
    }

    /// What is refused, or found.
    pub(crate) fn bad(self, text: &str) -> String {
        self.code("1;31", text)
    }

    /// A heading.
    pub(crate) fn strong(self, text: &str) -> String {
        self.code("1", text)
    }

    /// What matters less.
    pub(crate) fn faint(self, text: &str) -> String {
        self.code("2", text)
    }
}

/// The whole answer to one statement.
pub(crate) fn answer(answer: &Answer, paint: Paint) -> String {
    let mut out = String::new();
    match &answer.verdict {
        Verdict::Rows(envelope) => {
            out.push_str(&rows(envelope, paint));
            out.push('\n');
            if let Some(moment) = envelope.as_of() {
                let _ = writeln!(out, "as of {}", describe_moment(moment));
            }
        }
        Verdict::Permitted(notices) => {
            let _ = writeln!(out, "{}", paint.good("PERMITTED"));
            out.push_str(&format_notices(notices));
        }
        Verdict::Refused(_) => out.push_str(&refusal(answer, paint)),
    }
    match (&answer.explained, &answer.rewritten) {
        (Some(explained), _) => out.push_str(&explain::text::format(explained, paint)),
        (None, rewritten) => {
            if !answer.policies.is_empty() {
                out.push_str(&label("policies", &answer.policies.join(", "), paint));
            }
            if let Some(sql) = rewritten {
                out.push_str(&labelled_sql("rewritten", sql, paint));
            }
        }
    }
    out
}

/// A moment of the past: when, by which snapshot, and how long before the time that was asked for.
pub(crate) fn describe_moment(moment: &AsOf) -> String {
    let snapshot = moment.snapshot.as_ref();
    let snapshot = snapshot.map(|name| format!(" ({})", palisade_scan::spell_out(name)));
    let earlier = moment.earlier_by_ms.filter(|earlier| *earlier > 0);
    let earlier = earlier.map(|ms| {
        format!(
            ", {} before the time that was asked for",
            describe_time(Duration::from_millis(ms))
        )
    });
    format!(
        "{}{}{}",
        moment.taken,
        snapshot.unwrap_or_default(),
        earlier.unwrap_or_default()
    )
}

/// A time in its largest unit: `350 ms`, `12 s`, `3 days`.
fn describe_time(time: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds < 2 * MINUTE => format!("{seconds} s"),
        seconds if seconds < 2 * HOUR => format!("{} min", seconds / MINUTE),
        seconds if seconds < 2 * DAY => format!("{} h", seconds / HOUR),
        seconds => format!("{} days", seconds / DAY),
    }
}

/// A refusal with what to do about it.
pub(crate) fn refusal(answer: &Answer, paint: Paint) -> String {
    let mut out = String::new();
    let Verdict::Refused(refusal) = &answer.verdict else {
        return out;
    };
    let names = commands::names();
    let agent = refusal.rejection.for_agent_of(&names);
    let _ = writeln!(out, "{} {}", paint.bad("REFUSED"), agent.code);
    out.push_str(&label("message", agent.message, paint));
    out.push_str(&label("what to do", &agent.remediation_hint, paint));
    if let Some(detail) = refusal
        .rejection
        .operator_detail()
        .filter(|_| answer.explained.is_none())
    {
        out.push_str(&label("detail", detail, paint));
    }
    if let Some(incident) = &refusal.incident {
        out.push_str(&label("incident", incident, paint));
    }
    out
}

/// The rows as a table, then what there is to know about them.
pub(crate) fn rows(envelope: &Envelope, paint: Paint) -> String {
    let (names, cells) = cells_of(envelope.answer());
    let drawn = grid::draw(&names, &cells, paint, paint.width());
    below_rows(envelope, drawn, paint)
}

/// As [`rows`], of a difference: where the table is too wide, one line for each cell.
pub(crate) fn difference(envelope: &Envelope, paint: Paint) -> String {
    let (names, cells) = cells_of(envelope.answer());
    let drawn = match grid::fits(&names, &cells, paint.width()) {
        true => grid::draw(&names, &cells, paint, paint.width()),
        false => cells.iter().map(|row| difference_line(row)).collect(),
    };
    below_rows(envelope, drawn, paint)
}

/// `main.tickets id=2 update status: open → closed`, of table, key, kind of change, column, before and after.
fn difference_line(row: &[Cell]) -> String {
    let texts: Vec<&str> = row.iter().map(Cell::as_str).collect();
    match texts.as_slice() {
        [table, key, change, "", _, _] => format!("{table} {key} {change}\n"),
        [table, key, change @ "insert", column, _, after] => {
            format!("{table} {key} {change} {column}: {after}\n")
        }
        [table, key, change @ "delete", column, before, _] => {
            format!("{table} {key} {change} {column}: {before}\n")
        }
        [table, key, change, column, before, after] => {
            format!("{table} {key} {change} {column}: {before} → {after}\n")
        }
        others => format!("{}\n", others.join(" ")),
    }
}

/// What there is to know of rows, below them as they are `drawn`.
fn below_rows(envelope: &Envelope, drawn: String, paint: Paint) -> String {
    let answer = envelope.answer();
    let mut out = drawn;
    let count = u64::try_from(answer.row_count()).unwrap_or(u64::MAX);
    let rows = |count: u64| format!("{count} row{}", if count == 1 { "" } else { "s" });
    let mut summary = match envelope.affected_rows() {
        Some(affected) if answer.columns().is_empty() => format!("{} changed", rows(affected)),
        Some(affected) => format!("{}; {} changed", rows(count), rows(affected)),
        None => rows(count),
    };
    match answer.truncation() {
        Some(TruncationReason::RowLimit) => summary.push_str("; there are more (row limit)"),
        Some(TruncationReason::RowCap) => {
            summary.push_str("; there are more (row cap)");
        }
        Some(TruncationReason::SizeLimit) => summary.push_str("; there are more (size limit)"),
        None => {}
    }
    match answer.empty_reason() {
        Some(EmptyReason::NoMatch) => summary.push_str(": none matches"),
        Some(EmptyReason::NoMatchOrFiltered) => {
            summary.push_str(": none matches among those that may be seen");
        }
        Some(EmptyReason::MaskedCondition) => {
            summary.push_str(": none matches, and a condition compared masks");
        }
        Some(EmptyReason::NoRowsPermitted) => {
            summary.push_str(": policy shows none of what is read");
        }
        None => {}
    }
    let masked: Vec<_> = answer
        .columns()
        .iter()
        .filter(|c| c.masked)
        .map(|c| printable(&c.name))
        .collect();
    if !masked.is_empty() {
        let _ = write!(summary, "; masked: {}", masked.join(", "));
    }
    out.push_str(&wrap(&format!("({summary})"), 0, 0));
    for finding in answer.findings() {
        let place = match finding.row {
            Some(row) => format!(
                "row {}, column {}",
                row.saturating_add(1),
                printable(&finding.column)
            ),
            None => format!("column {}", printable(&finding.column)),
        };
        let text = format!(
            "{}: {} ({place})",
            finding.detector.id, finding.detector.finds
        );
        let text = wrap(&format!("FLAGGED {text}"), 0, 8);
        out.push_str(&text.replacen("FLAGGED", &paint.bad("FLAGGED"), 1));
    }
    out.push_str(&format_notices(answer.notices()));
    out
}

/// What there is to know of the rows. Which columns of the answer are masked stands in its summary.
fn format_notices(notices: &[Notice]) -> String {
    let mut out = String::new();
    for notice in notices {
        let text = match notice.usage.as_slice() {
            [] => {
                let place = match (&notice.column, notice.count) {
                    (Some(column), count) => format!(" ({}: {count})", printable(column)),
                    (None, 1) => String::new(),
                    (None, count) => format!(" ({count})"),
                };
                format!("note: {}{place}", notice.message)
            }
            [used] if *used == Usage::Output.name() => continue,
            [_, ..] => format!("note: {}", printable(&notice.message)),
        };
        out.push_str(&wrap(&text, 0, 6));
    }
    out
}

/// `label: text`, wrapped.
pub(crate) fn label(label: &str, text: &str, paint: Paint) -> String {
    let plain = wrap(&format!("{label}: {}", printable(text)), 0, 2);
    plain.replacen(&format!("{label}:"), &paint.faint(&format!("{label}:")), 1)
}

/// A label and, below it, a statement.
pub(crate) fn labelled_sql(label: &str, text: &str, paint: Paint) -> String {
    format!("{}\n{}", paint.faint(&format!("{label}:")), sql(text, 2))
}

/// How many columns of a terminal `text` takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `text` without anything that moves the cursor, hides or turns letters around.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let shown = !c.is_control() && c.width().is_some_and(|width| width > 0);
        if shown {
            out.push(c);
        } else {
            out.extend(c.escape_debug());
        }
    }
    out
}

/// Words filled into lines: the first indented by `first`, the others by `rest`. Words too long for a
/// line are cut.
pub(crate) fn wrap(text: &str, first: usize, rest: usize) -> String {
    wrap_within(text, first, rest, WIDTH)
}

/// As [`wrap`], in lines of at most `columns`.
pub(crate) fn wrap_within(text: &str, first: usize, rest: usize, columns: usize) -> String {
    let mut out = String::new();
    let mut line = " ".repeat(first);
    let mut used = first;
    let mut empty = true;
    for word in text
        .split(' ')
        .flat_map(|word| pieces(word, columns - rest.max(first)))
    {
        let width = word.width();
        if !empty && used + 1 + width > columns {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(rest);
            used = rest;
            empty = true;
        }
        if !empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += width;
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// `text` in pieces of at most `width` columns.
pub(crate) fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width && !piece.is_empty() {
            out.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push(c);
        used += wide;
    }
    out.push(piece);
    out
}

/// A statement in lines: clauses begin a line, long ones are filled. For reading only.
pub(crate) fn sql(text: &str, indent: usize) -> String {
    // Whoever wrote it in lines gets those back; a comment must not run on into the next.
    if text.trim_end().contains('\n') {
        let lines = text.lines().map(|line| {
            let lead = line.len() - line.trim_start_matches(' ').len();
            fill_lines(&printable(line), (indent + lead).min(WIDTH / 2))
        });
        return lines.collect();
    }
    let text = printable(text.trim_end());
    let mut out = String::new();
    let mut clause = String::new();
    let mut level = 0usize;
    let mut flush = |clause: &mut String, level: usize| {
        if !clause.is_empty() {
            let indent = (indent + 2 * level).min(WIDTH / 2);
            out.push_str(&fill_lines(clause, indent));
            clause.clear();
        }
    };
    let mut depth = 0usize;
    for word in words(&text) {
        let begins = CLAUSES
            .iter()
            .any(|clause| word.eq_ignore_ascii_case(clause))
            && !clause.eq_ignore_ascii_case("DELETE");
        if begins {
            flush(&mut clause, level);
            level = depth + usize::from(word.starts_with('('));
        }
        depth = parentheses(word, depth);
        if !clause.is_empty() {
            clause.push(' ');
        }
        clause.push_str(word);
    }
    flush(&mut clause, level);
    out
}

/// How many parentheses are open after `word`, of `depth` before it; those in quotes are text.
fn parentheses(word: &str, mut depth: usize) -> usize {
    let mut quote = None;
    for c in word.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"' | '`') => quote = Some(c),
            None if c == '(' => depth += 1,
            None if c == ')' => depth = depth.saturating_sub(1),
            Some(_) | None => {}
        }
    }
    depth
}

const CLAUSES: &[&str] = &[
    "SELECT",
    "(SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WITH",
];

/// A clause in lines; strings and names stay in one piece while they fit.
fn fill_lines(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    let room = WIDTH - indent - 2;
    let mut margin = indent;
    for word in words(text).flat_map(|word| pieces(word, room)) {
        if !line.is_empty() && line.width() + 1 + word.width() > WIDTH - margin {
            let _ = writeln!(out, "{}{line}", " ".repeat(margin));
            line.clear();
            margin = indent + 2;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    let _ = writeln!(out, "{}{line}", " ".repeat(margin));
    out
}

/// The words of a statement: blanks part them, except within quotes.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let mut quote = None;
        let end = rest.char_indices().find_map(|(i, c)| {
            match quote {
                Some(open) if c == open => quote = None,
                None if matches!(c, '\'' | '"' | '`') => quote = Some(c),
                None if c == ' ' => return Some(i),
                Some(_) | None => {}
            }
            None
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.trim_start();
        (!word.is_empty()).then_some(word)
    })
}

/// The rows between rules, as wide as the terminal at most.
/// The columns of an answer, and its rows.
fn cells_of(answer: &ScannedRows) -> (Vec<String>, Vec<Vec<Cell>>) {
    let names: Vec<String> = answer
        .columns()
        .iter()
        .map(|c| printable(&c.name))
        .collect();
    let json = serde_json::to_value(answer).unwrap_or_default();
    let empty = Vec::new();
    let found = json
        .get("rows")
        .and_then(|rows| rows.as_array())
        .unwrap_or(&empty);
    let cells = found
        .iter()
        .map(|row| {
            answer
                .columns()
                .iter()
                .map(|c| cell(row.get(&*c.name)))
                .collect()
        })
        .collect();
    (names, cells)
}

/// A value of an answer as a cell.
fn cell(value: Option<&serde_json::Value>) -> Cell {
    use serde_json::Value;
    match value {
        None | Some(Value::Null) => Cell::text("NULL"),
        Some(Value::String(text)) => Cell::text(text),
        Some(other) if other.is_number() => Cell::number(other),
        Some(other) => Cell::text(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let long = format!(
            "SELECT {} FROM (SELECT a FROM b WHERE c = '{}') AS x WHERE {} LIMIT 5",
            "column_name, ".repeat(20),
            "é x ".repeat(60),
            "a = 1 AND ".repeat(40)
        );
        for text in [
            sql(&long, 2),
            wrap(&long, 4, 8),
            label("message", &"x".repeat(300), Paint::plain()),
        ] {
            for line in text.lines() {
                assert!(line.width() <= WIDTH, "{} {line}", line.width());
            }
        }
    }

    #[test]
    fn a_cell_of_a_difference_is_one_line() {
        let line = |texts: [&str; 6]| difference_line(&texts.map(Cell::text));
        for (cells, expected) in [
            (
                ["tickets", "id=2", "update", "status", "open", "closed"],
                "tickets id=2 update status: open → closed\n",
            ),
            (
                ["tickets", "id=3", "insert", "status", "NULL", "open"],
                "tickets id=3 insert status: open\n",
            ),
            (
                ["tickets", "id=4", "delete", "status", "open", "NULL"],
                "tickets id=4 delete status: open\n",
            ),
            (
                ["marks", "id=5", "delete", "", "NULL", "NULL"],
                "marks id=5 delete\n",
            ),
        ] {
            assert_eq!(line(cells), expected);
        }
    }

    #[test]
    fn a_count_stands_behind_its_sentence() {
        let told = |column: Option<&str>, count| {
            let notice = Notice {
                notice: "cell_cut",
                column: column.map(str::to_owned),
                usage: Vec::new(),
                count,
                message: "Cells are cut off.".into(),
            };
            format_notices(&[notice])
        };
        assert_eq!(told(None, 1), "note: Cells are cut off.\n");
        assert_eq!(told(None, 3), "note: Cells are cut off. (3)\n");
        assert_eq!(
            told(Some("body"), 1),
            "note: Cells are cut off. (body: 1)\n"
        );
    }

    #[test]
    fn clauses_begin_lines() {
        assert_eq!(
            sql(
                "SELECT a FROM (SELECT x AS a FROM t WHERE x = ' FROM ') AS t LIMIT 3",
                0
            ),
            "SELECT a\nFROM\n  (SELECT x AS a\n  FROM t\n  WHERE x = ' FROM ') AS t\nLIMIT 3\n"
        );
    }

    #[test]
    fn lines_of_a_statement_stay() {
        assert_eq!(
            sql("SELECT 1 -- one\n  , 2\n", 2),
            "  SELECT 1 -- one\n    , 2\n"
        );
    }

    #[test]
    fn data_does_not_reach_the_terminal_raw() {
        assert_eq!(
            printable("a\x1b[2Jb\n\u{202e}c\u{200b}"),
            "a\\u{1b}[2Jb\\n\\u{202e}c\\u{200b}"
        );
    }
}
