//! The coverage of tests as a page for a browser.

use std::fmt::Write as _;

use palisade::policy::PolicySources;
use palisade_corpus::{ClauseHits, Covered, PolicyCoverage, PolicyHits};

use crate::page::{self, escape};

/// The page: what is untested, how much is tested, then the policies line by line.
pub(crate) fn write(coverage: &PolicyCoverage, sources: &PolicySources) -> String {
    let mut body = "<h1>Coverage of the policy tests</h1>\n".to_owned();
    body.push_str(
        "<p class=\"faint\">Green lines are tried by as many cases as stand before them. Red ones are not: no case reaches the policy, or the condition was never true or never false. Under the mouse, each line says more.</p>\n<h2>Untested</h2>\n",
    );
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
        "<h2>Tested</h2>\n<table>\n<tr><th>of</th><th>tested</th><th>all</th><th>%</th><th></th></tr>\n",
    );
    for covered in &coverage.kinds {
        let tested = covered.total.saturating_sub(covered.untested.len());
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td class=\"number\">{tested}</td><td class=\"number\">{}</td><td class=\"number\">{percent}</td><td><div class=\"bar\"><i style=\"width: {percent}%\"></i></div></td></tr>",
            escape(covered.kind),
            covered.total,
            percent = covered.percent()
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
            "<h2>{}</h2>\n<div class=\"lines\">\n{}</div>",
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
                "<div><i>{number}</i><i></i><span class=\"faint\">{shown}</span></div>"
            );
            continue;
        };
        let clause = policy.clauses.iter().find(|clause| clause.line == number);
        let told = match clause {
            Some(clause) => describe(clause),
            None => format!("{}: {} cases", policy.policy, policy.cases),
        };
        let is_tried = policy.cases > 0 && clause.is_none_or(is_seen_both);
        let class = if is_tried { "ran" } else { "missed" };
        let _ = writeln!(
            out,
            "<div class=\"{class}\" title=\"{}\"><i>{number}</i><i>{}×</i><span>{shown}</span></div>",
            escape(&told),
            policy.cases,
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
