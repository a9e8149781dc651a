//! A trace as a page for a browser.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range};

use palisade::firewall::Trace;

use super::{
    Explained,
    changes::Changes,
    tree::{self, Branch},
};
use crate::{
    answer::{Answer, Verdict},
    commands,
    human::sql,
    page::{self, escape},
};

/// The whole page.
pub(super) fn write(answer: &Answer) -> String {
    let mut body = String::new();
    match &answer.verdict {
        Verdict::Rows(_) | Verdict::Permitted(_) => {
            body.push_str("<h1 class=\"good\">PERMITTED</h1>\n");
        }
        Verdict::Refused(refusal) => {
            let names = commands::names();
            let agent = refusal.rejection.for_agent_of(&names);
            let code = escape(agent.code.slug());
            let _ = writeln!(body, "<h1 class=\"bad\">REFUSED {code}</h1>");
            let _ = writeln!(body, "<p>{}</p>", escape(agent.message));
            let _ = writeln!(body, "<p>{}</p>", escape(&agent.remediation_hint));
        }
    }
    if let Some(explained) = &answer.explained {
        write_trace(explained, &mut body);
    }
    page::write("palisade explain", &body)
}

fn write_trace(explained: &Explained, out: &mut String) {
    let trace = &explained.trace;
    let mut line = |name: &str, text: &str| {
        let (name, text) = (escape(name), escape(text));
        let _ = writeln!(out, "<p><span class=\"faint\">{name}:</span> {text}</p>");
    };
    line("principal", &trace.principal);
    line("stage", trace.stage);
    if let Some(detail) = &trace.detail {
        line("detail", detail);
    }
    out.push_str("<div class=\"beside\">\n");
    let rewritten = trace.rewritten.as_ref().map(|text| sql(text, 0));
    let changes = rewritten
        .as_ref()
        .map(|rewritten| Changes::find(&trace.original, rewritten));
    let gone = changes.as_ref().map_or(&[][..], |found| &found.gone);
    let uses = find_uses(trace);
    let _ = writeln!(
        out,
        "<div><h2>Statement</h2>\n<pre>{}</pre></div>",
        mark_original(&trace.original, gone, &uses)
    );
    if let (Some(rewritten), Some(changes)) = (&rewritten, &changes) {
        let _ = writeln!(
            out,
            "<div><h2>Rewritten</h2>\n<pre>{}</pre></div>",
            mark_new(rewritten.trim_end(), &changes.new)
        );
    }
    out.push_str("</div>\n");
    for (title, branches) in [
        ("Accesses", tree::describe_relations(explained)),
        ("The whole statement", tree::describe_whole(explained)),
    ] {
        if !branches.is_empty() {
            let _ = writeln!(out, "<h2>{title}</h2>");
            write_branches(&branches, out);
        }
    }
}

fn write_branches(branches: &[Branch], out: &mut String) {
    out.push_str("<ul>\n");
    for branch in branches {
        let _ = write!(out, "<li>{}", escape(&branch.text));
        if let Some(text) = &branch.sql {
            let _ = write!(out, "<pre>{}</pre>", escape(sql(text, 0).trim_end()));
        }
        if !branch.below.is_empty() {
            write_branches(&branch.below, out);
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
}

/// What each place of the statement is, by its first byte and its end.
fn find_uses(trace: &Trace) -> BTreeMap<(usize, usize), String> {
    let mut out: BTreeMap<(usize, usize), String> = BTreeMap::new();
    let mut add = |offset: usize, length: usize, what: String| {
        let told = out.entry((offset, offset + length)).or_default();
        if !told.is_empty() {
            told.push_str("; ");
        }
        told.push_str(&what);
    };
    for relation in &trace.relations {
        for place in &relation.places {
            add(place.offset, place.length, relation.relation.clone());
        }
        for column in &relation.columns {
            for used in &column.places {
                let what = format!(
                    "{}.{}: {}, {}",
                    relation.relation, column.column, used.usage, column.level
                );
                add(used.place.offset, used.place.length, what);
            }
        }
    }
    out
}

/// The statement with its uses, and with what is gone.
fn mark_original(
    text: &str,
    gone: &[Range<usize>],
    uses: &BTreeMap<(usize, usize), String>,
) -> String {
    let mut out = String::new();
    let mut at = 0;
    for ((start, end), what) in uses {
        // Places do not overlap; one that does not fit is left out.
        if *start < at || text.get(*start..*end).is_none() {
            continue;
        }
        out.push_str(&mark(text, at..*start, gone, "del"));
        let _ = write!(
            out,
            "<mark title=\"{}\">{}</mark>",
            escape(what),
            mark(text, *start..*end, gone, "del")
        );
        at = *end;
    }
    out.push_str(&mark(text, at..text.len(), gone, "del"));
    out
}

fn mark_new(text: &str, new: &[Range<usize>]) -> String {
    mark(text, 0..text.len(), new, "ins")
}

/// The piece `of` a text, with `element` around what of it is in `ranges`, which are in order.
fn mark(text: &str, of: Range<usize>, ranges: &[Range<usize>], element: &str) -> String {
    let piece = |range: Range<usize>| escape(text.get(range).unwrap_or_default());
    let mut out = String::new();
    let mut at = of.start;
    for range in ranges {
        let (start, end) = (range.start.max(at), range.end.min(of.end));
        if start >= end {
            continue;
        }
        out.push_str(&piece(at..start));
        let _ = write!(out, "<{element}>{}</{element}>", piece(start..end));
        at = end;
    }
    out.push_str(&piece(at..of.end));
    out
}
