//! What came out against what was expected.

use std::{collections::BTreeSet, fmt};

use serde_json::Value as Json;

use crate::{
    case::{Case, Verdict, arises_on_execution},
    run::Answer,
    smallest,
    written::is_ordered,
};

/// One thing that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What: `code`, `rows`, …
    pub what: &'static str,
    /// As the case has it.
    pub expected: String,
    /// As it came out.
    pub got: String,
    /// The smallest part of both in which they differ, where that is less than all.
    pub smallest: Option<String>,
}

impl Difference {
    pub(crate) fn new(
        what: &'static str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self {
            what,
            expected: expected.into(),
            got: got.into(),
            smallest: None,
        }
    }

    /// With the smallest part in which texts, lists or rows differ.
    pub(crate) fn with_smallest(self, smallest: Option<String>) -> Self {
        Self { smallest, ..self }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n    expected {}\n    got      {}",
            self.what, self.expected, self.got
        )?;
        match &self.smallest {
            None => Ok(()),
            Some(smallest) => write!(f, "\n    differs  {smallest}"),
        }
    }
}

/// Compares what a decision alone shows.
pub(crate) fn decision(case: &Case, answer: &Answer) -> Vec<Difference> {
    let mut out = Vec::new();
    if case.expect.is_unverified {
        let got = match (answer.code, answer.shown) {
            (Some(code), _) => code.slug().to_owned(),
            (None, Some(shown)) => shown.to_string(),
            (None, None) => Verdict::Allow.to_string(),
        };
        out.push(Difference::new(
            "unverified",
            "a cell that a person has decided",
            got,
        ));
        return out;
    }
    let verdict = match case.expect.verdict {
        Verdict::Reject(code) if arises_on_execution(code) => Verdict::Allow,
        verdict @ (Verdict::Allow | Verdict::Reject(_) | Verdict::Deny) => verdict,
    };
    if !verdict_is(verdict, answer, &mut out) {
        return out;
    }
    if verdict == case.expect.verdict {
        message(case, answer, &mut out);
    }
    operators_part(case, answer, &mut out);
    if let (Some(expected), Some(got)) = (case.expect.shown, answer.shown)
        && expected != got
    {
        out.push(Difference::new(
            "cell",
            expected.to_string(),
            got.to_string(),
        ));
    }
    never(case, answer, &mut out);
    out
}

/// Compares everything of a change that was run.
pub(crate) fn change(case: &Case, answer: &Answer) -> Vec<Difference> {
    let verdict = case
        .expect
        .on_data
        .map_or(case.expect.verdict, Verdict::Reject);
    let case = &Case {
        expect: crate::case::Expectation {
            verdict,
            ..case.expect.clone()
        },
        ..case.clone()
    };
    let mut out = self::answer(case, answer);
    if let (Some(expected), None) = (case.expect.affected, answer.code)
        && answer.affected != Some(expected)
    {
        let got = answer
            .affected
            .map_or("none".to_owned(), |rows| rows.to_string());
        out.push(Difference::new("affected", expected.to_string(), got));
    }
    if let (Some(expected), Some(got)) = (&case.expect.after, &answer.after)
        && !same_rows(&expected.rows, got, is_ordered(&expected.sql))
    {
        out.push(differ_rows("after", &expected.rows, got));
    }
    out
}

/// Compares everything.
pub(crate) fn answer(case: &Case, answer: &Answer) -> Vec<Difference> {
    let mut out = Vec::new();
    if !verdict_is(case.expect.verdict, answer, &mut out) {
        never(case, answer, &mut out);
        return out;
    }
    message(case, answer, &mut out);
    operators_part(case, answer, &mut out);
    let expect = &case.expect;
    let columns = names(&answer.json, |_| true);
    differ_list(&mut out, "columns", expect.columns.as_ref(), &columns);
    let masked = names(&answer.json, |column| {
        column.get("masked") == Some(&Json::Bool(true))
    });
    differ_list(&mut out, "masked", expect.masked.as_ref(), &masked);
    let used = used_masks(&answer.json);
    differ_list(&mut out, "used masks", expect.used_masks.as_ref(), &used);
    let reason = answer.json.get("empty_reason").and_then(Json::as_str);
    let reason = reason.unwrap_or_default().to_owned();
    differ(
        &mut out,
        "empty reason",
        expect.empty_reason.as_ref(),
        &reason,
    );
    if let Some(rows) = &expect.rows {
        let got = rows_of(&answer.json);
        if !same_rows(rows, &got, expect.ordered) {
            out.push(differ_rows("rows", rows, &got));
        }
    }
    let truncated = answer.json.get("truncated") == Some(&Json::Bool(true));
    differ(&mut out, "truncated", expect.truncated.as_ref(), &truncated);
    let findings: BTreeSet<String> = answer
        .json
        .get("findings")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(|finding| finding.get("detector")?.as_str().map(str::to_owned))
        .collect();
    let findings: Vec<String> = findings.into_iter().collect();
    differ_list(&mut out, "findings", expect.findings.as_ref(), &findings);
    never(case, answer, &mut out);
    out
}

/// Compares an answer with that of the bare engine.
pub(crate) fn compare_rows(case: &Case, answer: &Answer, bare: &Json) -> Vec<Difference> {
    let mut out = Vec::new();
    let (ours, theirs) = (names(&answer.json, |_| true), names(bare, |_| true));
    differ(
        &mut out,
        "column names of the bare engine",
        Some(&theirs),
        &ours,
    );
    let (ours, theirs) = (rows_of(&answer.json), rows_of(bare));
    if !same_rows(&theirs, &ours, case.expect.ordered) {
        out.push(Difference::new(
            "rows of the bare engine",
            toml_rows(&theirs),
            toml_rows(&ours),
        ));
    }
    out
}

/// What the notices say of masked columns, sorted: `customers.email: filter, aggregate`.
pub(crate) fn used_masks(answer: &Json) -> Vec<String> {
    let notices = answer.get("notices").and_then(Json::as_array);
    let mut used: Vec<String> = notices
        .into_iter()
        .flatten()
        .filter_map(|notice| {
            let usages: Vec<_> = notice.get("usage")?.as_array()?.iter().collect();
            let usages: Vec<_> = usages.into_iter().filter_map(Json::as_str).collect();
            let column = notice.get("column").and_then(Json::as_str);
            Some(format!(
                "{}: {}",
                column.unwrap_or_default(),
                usages.join(", ")
            ))
        })
        .collect();
    used.sort();
    used
}

fn verdict_is(expected: Verdict, answer: &Answer, out: &mut Vec<Difference>) -> bool {
    let got = answer.code.map_or(Verdict::Allow, Verdict::Reject);
    if got == expected || expected == Verdict::Deny && got != Verdict::Allow {
        return true;
    }
    let message = answer
        .json
        .get("message")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let parts = [
        Some(message.to_owned()),
        answer.detail.as_ref().map(|detail| format!("[{detail}]")),
        answer.rewritten.clone(),
    ];
    let mut told = vec![format!("{got}:")];
    told.extend(parts.into_iter().flatten().filter(|part| !part.is_empty()));
    out.push(Difference::new(
        "decision",
        expected.to_string(),
        told.join(" "),
    ));
    false
}

fn message(case: &Case, answer: &Answer, out: &mut Vec<Difference>) {
    let got = answer
        .json
        .get("message")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    differ(out, "message", case.expect.message.as_ref(), &got);
}

fn operators_part(case: &Case, answer: &Answer, out: &mut Vec<Difference>) {
    differ_list(
        out,
        "policies",
        case.expect.policies.as_ref(),
        &answer.policies,
    );
    if let Some(expected) = &case.expect.rewritten {
        let got = answer.rewritten.clone().unwrap_or_default();
        if *expected != got {
            let smallest = smallest::of_texts(expected, &got);
            out.push(Difference::new("rewritten", expected, got).with_smallest(smallest));
        }
    }
    if let Some(expected) = case.expect.max_time_ms
        && answer.max_time_ms != Some(expected)
    {
        let tell = |most: Option<u64>| match most {
            Some(most) => format!("{most} milliseconds"),
            None => "no policy about time".to_owned(),
        };
        let got = tell(answer.max_time_ms);
        out.push(Difference::new("max time", tell(Some(expected)), got));
    }
    if let Some(expected) = case.expect.approval
        && answer.approval != Some(expected)
    {
        let got = match answer.approval {
            Some(level) => level.word(),
            None => "none",
        };
        out.push(Difference::new("approval", expected.word(), got));
    }
    for ((who, is_one), got) in case.expect.approvers.iter().zip(&answer.approvals) {
        if *is_one != got.is_permitted {
            let tell = |may: bool| match may {
                true => format!("{who} may approve it"),
                false => format!("{who} may not approve it"),
            };
            let by = match got.policies.as_slice() {
                [] => "no policy permits it".to_owned(),
                ids => format!("by {}", ids.join(", ")),
            };
            let got = format!("{}, {by}", tell(got.is_permitted));
            out.push(Difference::new("approvers", tell(*is_one), got));
        }
    }
    let rewritten = answer.rewritten.as_deref().unwrap_or_default();
    for fragment in &case.expect.rewritten_has {
        if !rewritten.contains(fragment.as_str()) {
            let expected = format!("a text with `{fragment}`");
            out.push(Difference::new("rewritten_has", expected, rewritten));
        }
    }
}

/// Looks for what must not be there in the JSON, decoded and as text.
fn never(case: &Case, answer: &Answer, out: &mut Vec<Difference>) {
    let json = answer.json.to_string();
    for text in &case.expect.never {
        if holds(&answer.json, text) || json.contains(text) || answer.text.contains(text) {
            out.push(Difference::new(
                "never",
                format!("no `{text}`"),
                json.clone(),
            ));
        }
    }
}

fn holds(json: &Json, text: &str) -> bool {
    match json {
        Json::String(string) => string.contains(text),
        Json::Array(items) => items.iter().any(|item| holds(item, text)),
        Json::Object(map) => map
            .iter()
            .any(|(key, item)| key.contains(text) || holds(item, text)),
        Json::Null | Json::Bool(_) => false,
        Json::Number(number) => number.to_string() == text,
    }
}

fn differ<T: PartialEq + fmt::Debug>(
    out: &mut Vec<Difference>,
    what: &'static str,
    expected: Option<&T>,
    got: &T,
) {
    if let Some(expected) = expected
        && expected != got
    {
        out.push(Difference::new(
            what,
            format!("{expected:?}"),
            format!("{got:?}"),
        ));
    }
}

fn differ_list(
    out: &mut Vec<Difference>,
    what: &'static str,
    expected: Option<&Vec<String>>,
    got: &Vec<String>,
) {
    let before = out.len();
    differ(out, what, expected, got);
    if let (Some(expected), Some(last)) = (expected, out.get_mut(before)) {
        last.smallest = smallest::of_lists(expected, got);
    }
}

fn differ_rows(what: &'static str, expected: &[Vec<Json>], got: &[Vec<Json>]) -> Difference {
    let texts = |rows: &[Vec<Json>]| -> Vec<Vec<String>> {
        let row = |row: &Vec<Json>| row.iter().map(toml_cell).collect();
        rows.iter().map(row).collect()
    };
    Difference::new(what, toml_rows(expected), toml_rows(got))
        .with_smallest(smallest::of_rows(&texts(expected), &texts(got)))
}

pub(crate) fn names(json: &Json, which: impl Fn(&Json) -> bool) -> Vec<String> {
    json.get("columns")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter(|column| which(column))
        .filter_map(|column| column.get("name")?.as_str().map(str::to_owned))
        .collect()
}

/// The rows as arrays, in the order of the columns.
pub(crate) fn rows_of(json: &Json) -> Vec<Vec<Json>> {
    let names = names(json, |_| true);
    json.get("rows")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .map(|row| {
            names
                .iter()
                .map(|name| row.get(name).cloned().unwrap_or_default())
                .collect()
        })
        .collect()
}

fn same_rows(expected: &[Vec<Json>], got: &[Vec<Json>], ordered: bool) -> bool {
    if ordered {
        return expected == got;
    }
    let bag = |rows: &[Vec<Json>]| {
        let mut rows: Vec<String> = rows
            .iter()
            .map(|row| Json::from(row.clone()).to_string())
            .collect();
        rows.sort();
        rows
    };
    bag(expected) == bag(got)
}

/// Rows as the case format has them, to be read and copied.
pub(crate) fn toml_rows(rows: &[Vec<Json>]) -> String {
    let row = |row: &Vec<Json>| {
        let cells: Vec<String> = row.iter().map(toml_cell).collect();
        format!("[{}]", cells.join(", "))
    };
    format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(", "))
}

fn toml_cell(cell: &Json) -> String {
    if cell.is_null() {
        "{}".to_owned()
    } else {
        cell.to_string()
    }
}
