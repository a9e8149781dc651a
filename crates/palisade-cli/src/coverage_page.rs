//! The coverage of tests as a page for a browser.

use std::fmt::Write as _;

use palisade::policy::PolicySources;
use palisade_corpus::{ClauseHits, Covered, PolicyCoverage, PolicyHits};

use crate::page::{self, escape};

/// The page: what is untested, how much is tested, then the policies line by line.
pub(crate) fn write(coverage: &PolicyCoverage, sources: &PolicySources) -> String {
    let mut body = "<h1>Coverage of the policy tests</h1>\n".to_owned();
    body.push_str("<h2>Untested</h2>\n");
    let mut is_whole = true;
    for Covered { kind, untested, .. } in &coverage.kinds {
        if untested.is_empty() {
            continue;
        }
        is_whole = false;
        let _ = writeln!(body, "<h3>{}</h3>\n<ul>", escape(kind));
        for name in untested {
            let _ = writeln!(body, "<li>{}</li>", escape(name));
        }
        body.push_str("</ul>\n");
    }
    if is_whole {
        body.push_str("<p>Nothing.</p>\n");
    }
    body.push_str(
        "<h2>Tested</h2>\n<table>\n<tr><th>of</th><th>tested</th><th>all</th><th>%</th></tr>\n",
    );
    for covered in &coverage.kinds {
        let tested = covered.total.saturating_sub(covered.untested.len());
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td class=\"number\">{tested}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(covered.kind),
            covered.total,
            covered.percent()
        );
    }
    body.push_str("</table>\n");
    for file in &sources.policies {
        let policies: Vec<&PolicyHits> = coverage
            .policies
            .iter()
            .filter(|policy| policy.file == file.name)
            .collect();
        let _ = writeln!(
            body,
            "<h2>{}</h2>\n<pre>{}</pre>",
            escape(&file.name),
            mark(&file.text, &policies)
        );
    }
    page::write("Coverage of the policy tests", &body)
}

/// The lines of a file, those of untested policies and clauses marked; under the mouse each says how often it was tried.
fn mark(text: &str, policies: &[&PolicyHits]) -> String {
    let mut out = String::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        let shown = escape(line);
        let within = policies
            .iter()
            .find(|policy| (policy.first_line..=policy.last_line).contains(&number));
        let Some(policy) = within else {
            let _ = writeln!(
                out,
                "{number:>5}        <span class=\"faint\">{shown}</span>"
            );
            continue;
        };
        let clause = policy.clauses.iter().find(|clause| clause.line == number);
        let told = match clause {
            Some(clause) => describe(clause),
            None => format!("{}: {} cases", policy.policy, policy.cases),
        };
        let is_tried = policy.cases > 0 && clause.is_none_or(is_seen_both);
        let element = if is_tried { "ins" } else { "del" };
        let _ = writeln!(
            out,
            "{number:>5} {:>5}  <{element} title=\"{}\">{shown}</{element}>",
            policy.cases,
            escape(&told)
        );
    }
    out
}

fn is_seen_both(clause: &ClauseHits) -> bool {
    clause
        .seen
        .is_none_or(|seen| seen.holding > 0 && seen.failing > 0)
}

fn describe(clause: &ClauseHits) -> String {
    match clause.seen {
        Some(seen) => format!("{} times true, {} times false", seen.holding, seen.failing),
        None => "not measured".to_owned(),
    }
}
