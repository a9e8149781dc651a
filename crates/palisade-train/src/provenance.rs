//! What the weights come from, in words.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{corpus::Row, examples::Examples, table::Table};

/// The text that stands beside the table.
///
/// # Errors
/// If the clock stands before 1970.
pub(crate) fn describe(
    rows: &[Row],
    examples: &Examples,
    table: &Table,
    report: &str,
) -> Result<String, String> {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut sources: BTreeMap<String, usize> = BTreeMap::new();
    for (row, example) in rows.iter().zip(&examples.all) {
        if example.weight > 0.0 {
            *kinds.entry((&row.label, &row.kind)).or_default() += 1;
            *sources
                .entry(format!("{} ({})", row.repository(), row.licence))
                .or_default() += 1;
        }
    }
    let mut text = format!(
        "# Where `weights.bin` comes from\n\n\
         Written by `cargo xtask train DIR --write` on {}. The texts are no part of the project: public repositories hold them.\n\
         Learned from rows under permissive licences alone; the others were only judged.\n\n\
         | | |\n|---|---|\n\
         | texts learned from | {} |\n\
         | sentences of our own, from `palisade-train/phrases` | {} |\n\
         | texts judged only | {} |\n\
         | features | {} |\n\
         | weights in the table | {} |\n\
         | whole number that stands for 1 | {:.3} |\n\
         | bytes | {} |\n\n\
         ## Cross-validation by source\n\n\
         No source is judged by weights that were learned with it. Shares are per cent of the texts that reach the threshold.\n\
         Sentences of our own are learned from in every part, and not judged.\n\n\
         {report}\n\
         ## Texts by kind\n\n| label | kind | texts |\n|---|---|---|\n",
        today()?,
        rows.iter().filter(|row| row.may_be_learned()).count(),
        examples.all.len().saturating_sub(rows.len()),
        rows.iter().filter(|row| !row.may_be_learned()).count(),
        examples.hashes.len(),
        table.kept,
        table.unit,
        table.bytes.len(),
    );
    for ((label, kind), count) in kinds {
        let _ = writeln!(text, "| {label} | {kind} | {count} |");
    }
    text.push_str("\n## Sources\n\n| repository and licence | texts |\n|---|---|\n");
    for (source, count) in sources {
        let _ = writeln!(text, "| {source} | {count} |");
    }
    Ok(text)
}

/// The date, in UTC.
fn today() -> Result<String, String> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| "the clock stands before 1970: set it".to_owned())?;
    // Howard Hinnant, chrono-compatible low-level date algorithms.
    let days = now.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Ok(format!("{year}-{month:02}-{day:02}"))
}
