//! A folder of texts beside the corpus: what weights that were learned from all of the corpus find in it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use serde::Deserialize;

use crate::corpus::Row;

/// A text of `injection_texts.jsonl` or `benign_texts.jsonl`.
#[derive(Debug, Deserialize)]
struct Text {
    text: String,
    /// Of an instruction.
    tier: Option<String>,
    /// Of an ordinary text.
    #[serde(default)]
    kind: String,
    /// Whether its label is doubtful.
    #[serde(default)]
    label_noise: bool,
}

/// The texts of the folder as rows that are only judged, each of the group that its tier or kind names.
///
/// # Errors
/// If a file cannot be read, or a line is no text.
pub(crate) fn read_rows(dir: &Path) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (name, label) in [
        ("injection_texts.jsonl", "injection"),
        ("benign_texts.jsonl", "benign"),
    ] {
        let path = dir.join(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        for (number, line) in text.lines().enumerate() {
            let text: Text = serde_json::from_str(line).map_err(|error| {
                format!("{}:{}: not a text: {error}", path.display(), number + 1)
            })?;
            let kind = text.tier.unwrap_or(text.kind);
            let kind = kind.split(':').next().unwrap_or_default();
            let doubt = if text.label_noise { ", doubtful" } else { "" };
            let kind = format!("{kind}{doubt}");
            rows.push(Row::judged_beside(text.text, label, kind));
        }
    }
    Ok(rows)
}

/// The share of each kind that is flagged, by sensitivity. `flags` has for each row what each sensitivity says of it.
pub(crate) fn report(rows: &[Row], flags: &[[bool; 3]]) -> String {
    let mut kinds: BTreeMap<(&str, &str), (usize, [usize; 3])> = BTreeMap::new();
    for (row, flags) in rows.iter().zip(flags) {
        let (count, flagged) = kinds.entry((&row.label, &row.kind)).or_default();
        *count += 1;
        for (sum, flag) in flagged.iter_mut().zip(flags) {
            *sum += usize::from(*flag);
        }
    }
    let mut text = String::from(
        "| beside | kind | count | strict | balanced | quiet |\n|---|---|---|---|---|---|\n",
    );
    for ((label, kind), (count, flagged)) in kinds {
        let share = |n: usize| 100.0 * n as f64 / count as f64;
        let [strict, balanced, quiet] = flagged.map(share);
        let _ = writeln!(
            text,
            "| {label} | {kind} | {count} | {strict:.2} | {balanced:.2} | {quiet:.2} |"
        );
    }
    text
}
