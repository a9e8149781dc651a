//! A trace for a terminal.

use std::{fmt::Write as _, ops::Range};

use super::{
    Explained,
    changes::Changes,
    tree::{self, Branch},
};
use crate::human::{Paint, WIDTH, label, printable, sql, wrap_within};

/// The least columns of a text in the tree.
const LEAST: usize = 24;

/// The trace, without what stands in every answer.
pub(crate) fn format(explained: &Explained, paint: Paint) -> String {
    let trace = &explained.trace;
    let mut out = String::new();
    out.push_str(&label("principal", &trace.principal, paint));
    out.push_str(&label("stage", trace.stage, paint));
    if !trace.policies.is_empty() {
        out.push_str(&label("policies", &trace.policies.join(", "), paint));
    }
    if let Some(detail) = &trace.detail {
        out.push_str(&label("detail", detail, paint));
    }
    let original = sql(&trace.original, 2);
    let rewritten = trace.rewritten.as_ref().map(|text| sql(text, 2));
    let changes = rewritten
        .as_ref()
        .map(|rewritten| Changes::find(&original, rewritten));
    let gone = changes.as_ref().map_or(&[][..], |found| &found.gone);
    let _ = writeln!(out, "{}", paint.faint("statement:"));
    out.push_str(&mark_lines(&original, gone, '-'));
    for branch in tree::describe_relations(explained) {
        let _ = writeln!(out, "{}", paint.strong(&printable(&branch.text)));
        draw(&branch.below, "", &mut out);
    }
    for branch in tree::describe_whole(explained) {
        out.push_str(&wrap_within(&printable(&branch.text), 0, 2, WIDTH));
        if let Some(text) = &branch.sql {
            out.push_str(&sql(text, 2));
        }
        draw(&branch.below, "", &mut out);
    }
    if let (Some(rewritten), Some(changes)) = (&rewritten, &changes) {
        let _ = writeln!(out, "{}", paint.faint("rewritten:"));
        out.push_str(&mark_lines(rewritten, &changes.new, '+'));
    }
    out
}

/// The branches with what is below them, each line behind `before`.
fn draw(branches: &[Branch], before: &str, out: &mut String) {
    for (at, branch) in branches.iter().enumerate() {
        let (first, rest) = match at + 1 == branches.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let within = format!("{before}{rest}");
        // Lines of what is below pass by those of this text.
        let beside = if branch.below.is_empty() {
            "  "
        } else {
            "│ "
        };
        let columns = WIDTH.saturating_sub(within.chars().count() + 2).max(LEAST);
        let text = wrap_within(&printable(&branch.text), 0, 0, columns);
        for (line, text) in text.lines().enumerate() {
            let _ = match line {
                0 => writeln!(out, "{before}{first}{text}"),
                _ => writeln!(out, "{within}{beside}{text}"),
            };
        }
        if let Some(text) = &branch.sql {
            let indent = within.chars().count() + 2;
            for line in sql(text, indent).lines() {
                let line: String = line.chars().skip(indent).collect();
                let _ = writeln!(out, "{within}  {line}");
            }
        }
        draw(&branch.below, &within, out);
    }
}

/// `text`, whose lines are indented, with `mark` before those that hold any of `changed`.
fn mark_lines(text: &str, changed: &[Range<usize>], mark: char) -> String {
    let mut out = String::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let is_changed = changed
            .iter()
            .any(|range| range.start < end && range.end > start);
        match line.strip_prefix(' ').filter(|_| is_changed) {
            Some(rest) => {
                out.push(mark);
                out.push_str(rest);
            }
            None => out.push_str(line),
        }
        start = end;
    }
    out
}
