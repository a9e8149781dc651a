//! `palisade policy diff`: what changes for whom between two policy folders.

use std::fmt::Write as _;

use palisade_corpus::{PolicyDiff, PolicyTests};

use crate::{
    exit::{Exit, Failure},
    human, output,
    policy_test::{not_loaded, not_run},
    workbench_args::{DiffArguments, DiffFormat, FailOnDiff},
};

/// Runs the command.
pub(crate) fn run(arguments: &DiffArguments) -> Result<Exit, Failure> {
    let old = PolicyTests::load(&arguments.old).map_err(not_loaded)?;
    let new = PolicyTests::load(&arguments.new).map_err(not_loaded)?;
    if new.corpus().catalogs.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tables in `{}`\n  help: write `CREATE` statements into `NAME.sql` there",
            arguments.new.join("tests").display()
        )));
    }
    let diff = new
        .compare_with(&old)
        .map_err(|error| not_run(&error, &arguments.new))?;
    output::text(&match arguments.format {
        DiffFormat::Json => {
            let text = serde_json::to_string(&diff)
                .map_err(|error| Failure::Internal(error.to_string()))?;
            text + "\n"
        }
        DiffFormat::Text => describe(&diff),
        DiffFormat::Markdown => table(&diff),
    })?;
    let is_wider = diff
        .changes
        .iter()
        .any(|change| change.direction.is_wider());
    Ok(match arguments.fail_on {
        FailOnDiff::Wider if is_wider => Exit::Refused,
        FailOnDiff::Any if !diff.changes.is_empty() => Exit::Refused,
        FailOnDiff::Wider | FailOnDiff::Any | FailOnDiff::Nothing => Exit::Permitted,
    })
}

/// The differences of each direction below its name.
fn describe(diff: &PolicyDiff) -> String {
    let mut out = String::new();
    for chunk in diff.changes.chunk_by(|a, b| a.direction == b.direction) {
        if let Some(first) = chunk.first() {
            let _ = writeln!(out, "{}:", first.direction);
        }
        for change in chunk {
            let told = format!(
                "{}: {}: {}, was {}",
                change.principal, change.of, change.new, change.old
            );
            let _ = writeln!(out, "  {}", human::printable(&told));
        }
    }
    if out.is_empty() {
        out.push_str("nothing changes\n");
    }
    out
}

/// A table for a comment on a change request.
fn table(diff: &PolicyDiff) -> String {
    if diff.changes.is_empty() {
        return "The policies give what they gave.\n".to_owned();
    }
    let cell = |text: &str| {
        let text = human::printable(text).replace('|', "\\|");
        format!("`{}`", text.replace('`', "'"))
    };
    let mut out = "| | who | what | was | is |\n|---|---|---|---|---|\n".to_owned();
    for change in &diff.changes {
        let cells = [&change.principal, &change.of, &change.old, &change.new];
        let cells = cells.map(|text| cell(text)).join(" | ");
        let _ = writeln!(out, "| {} | {cells} |", change.direction);
    }
    out
}
