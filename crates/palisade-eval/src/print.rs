//! The results, for people and for programs.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use serde_json::json;

use crate::{
    args::Part,
    fault::Fault,
    goals::{Share, goals},
    record::{Judgement, Record, Rows},
};

/// Characters of a statement on the list of disagreements.
const SHOWN: usize = 160;

/// Characters of a message there.
const MESSAGE: usize = 400;

/// Tables and a list.
pub(crate) fn text(records: &[Record], failures_only: bool) -> String {
    let mut out = String::new();
    if !failures_only {
        tables(&mut out, records);
        reasons(&mut out, records);
    }
    disagreements(&mut out, records);
    out
}

/// One object: goals, groups, and the rows.
///
/// # Errors
/// If a value has no JSON, which none has.
pub(crate) fn json(records: &[Record], failures_only: bool) -> Result<String, Fault> {
    let goals: Vec<_> = goals(records)
        .iter()
        .map(|goal| json!({"goal": goal.name, "least": goal.least, "share": goal.share}))
        .collect();
    let groups: Vec<_> = groups(records)
        .iter()
        .map(|((part, engine, family, category), share)| {
            json!({
                "file": part.file(), "engine": engine, "family": family,
                "category": category, "share": share,
            })
        })
        .collect();
    let rows: Vec<_> = records
        .iter()
        .filter(|record| !failures_only || record.is_disagreement())
        .map(|record| {
            json!({
                "file": record.part.file(), "engine": record.engine, "family": record.family,
                "category": record.category, "id": record.id, "text": record.text,
                "judgement": record.judgement, "rows": record.rows, "code": record.code,
                "message": record.message,
            })
        })
        .collect();
    let mut text =
        serde_json::to_string_pretty(&json!({"goals": goals, "groups": groups, "rows": rows}))?;
    text.push('\n');
    Ok(text)
}

type Key<'a> = (Part, &'static str, &'a str, &'a str);

fn groups(records: &[Record]) -> BTreeMap<Key<'_>, Share> {
    let mut out: BTreeMap<Key<'_>, Share> = BTreeMap::new();
    for record in records {
        let engine = record.engine.map_or("-", |engine| engine.name());
        let key = (
            record.part,
            engine,
            record.family.as_str(),
            record.category.as_str(),
        );
        out.entry(key).or_default().add(record);
    }
    out
}

fn tables(out: &mut String, records: &[Record]) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<52} {:>6} {:>15} {:>6}",
        "goal", "least", "reached", ""
    );
    for goal in goals(records) {
        let least = goal.least.map_or(String::new(), |n| format!("{n} %"));
        let mark = match goal.least {
            _ if goal.share.tried() == 0 => "NOT RUN",
            Some(least) if !goal.share.reaches(least) => "MISSED",
            Some(_) | None => "",
        };
        let reached = format!(
            "{}/{} {}",
            goal.share.right,
            goal.share.tried(),
            percent(goal.share.right, goal.share.tried())
        );
        let _ = writeln!(out, "{:<52} {least:>6} {reached:>15} {mark:>6}", goal.name);
    }
    for part in Part::ALL {
        let groups = groups(records);
        let mine: Vec<_> = groups.iter().filter(|(key, _)| key.0 == part).collect();
        if mine.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n{}\n{:<9} {:<27} {:<40} {:>5} {:>9} {:>8} {:>11} {:>7}",
            part.file(),
            "engine",
            "family",
            "category",
            "rows",
            part.right(),
            "%",
            "rows equal",
            "not run",
        );
        for ((_, engine, family, category), share) in mine {
            let equal = if share.compared == 0 {
                "-".to_owned()
            } else {
                format!("{}/{}", share.equal, share.compared)
            };
            let _ = writeln!(
                out,
                "{engine:<9} {family:<27} {category:<40} {:>5} {:>9} {:>8} {equal:>11} {:>7}",
                share.total,
                share.right,
                percent(share.right, share.tried()),
                share.not_run,
            );
        }
    }
    out.push('\n');
}

/// Names that stand behind a reason.
const EXAMPLES: usize = 12;

/// How often something is a reason, and for which names.
#[derive(Default)]
struct Reason<'a> {
    count: usize,
    names: BTreeMap<&'a str, usize>,
}

/// What honest queries and peers' cases are refused for, the most frequent first: names aside, the message.
fn reasons(out: &mut String, records: &[Record]) {
    let mut found: BTreeMap<(&str, &str, String), Reason<'_>> = BTreeMap::new();
    for record in records {
        let (Some(engine), Some(code), Judgement::Wrong, Part::Benign | Part::Peer) =
            (record.engine, record.code, record.judgement, record.part)
        else {
            continue;
        };
        // The parser says where, which is another place in each statement.
        let (message, _) = record
            .message
            .split_once(" at Line: ")
            .unwrap_or((&record.message, ""));
        let parts: Vec<&str> = message.split('`').collect();
        // Every other part is a name.
        let shape: Vec<&str> = parts.iter().step_by(2).copied().collect();
        let shape = cut(&shape.join("`…`"), 100);
        let key = (engine.name(), code, shape);
        let reason = found.entry(key).or_default();
        reason.count = reason.count.saturating_add(1);
        if let Some(name) = parts.get(1) {
            let count = reason.names.entry(*name).or_default();
            *count = count.saturating_add(1);
        }
    }
    if found.is_empty() {
        return;
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, reason)| Reverse(reason.count));
    let _ = writeln!(out, "\nhonest queries and peers' cases refused, by reason");
    for ((engine, code, shape), Reason { count, names }) in found {
        let _ = writeln!(out, "{count:>5} {engine:<9} {code}: {shape}");
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|(_, count)| Reverse(*count));
        let names: Vec<String> = names
            .iter()
            .take(EXAMPLES)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "                {}", cut(&names.join(", "), SHOWN));
        }
    }
    out.push('\n');
}

fn disagreements(out: &mut String, records: &[Record]) {
    let mut not_run: BTreeMap<(Part, &str), usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.is_disagreement()) {
        if record.judgement == Judgement::NotRun {
            let count = not_run.entry((record.part, &record.message)).or_default();
            *count = count.saturating_add(1);
            continue;
        }
        let what = match (record.judgement, record.rows) {
            (Judgement::Right, Rows::Differ) => "rows differ",
            (Judgement::Right | Judgement::Wrong | Judgement::NotRun, _) => {
                match (record.part, record.code) {
                    (_, Some(code)) => code,
                    (Part::Injection, None) => "not flagged",
                    (Part::Texts, None) => "flagged",
                    (Part::Benign | Part::Bypass | Part::Peer, None) => "permitted",
                }
            }
        };
        let _ = writeln!(
            out,
            "{} [{} {}] {what}: {}\n    {}",
            record.id,
            record.family,
            record.category,
            cut(&record.message, MESSAGE),
            cut(&record.text, SHOWN)
        );
    }
    for ((part, why), count) in not_run {
        let _ = writeln!(
            out,
            "{}: {count} not run: {}",
            part.file(),
            cut(why, MESSAGE)
        );
    }
}

/// The first `most` characters on one line.
fn cut(text: &str, most: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Rounded down to a tenth, so that 100.0 means all.
fn percent(part: usize, whole: usize) -> String {
    match part.saturating_mul(1000).checked_div(whole) {
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_is_a_hundred_percent() {
        assert_eq!(percent(9999, 10_000), "99.9 %");
        assert_eq!(percent(3, 3), "100.0 %");
        assert_eq!(percent(0, 0), "-");
    }
}
