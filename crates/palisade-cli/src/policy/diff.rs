//! `palisade policy diff`: what changes for whom between two policy folders.

use std::{fmt::Write as _, path::Path};

use palisade_corpus::{PolicyChange, PolicyDiff, PolicyTests, PolicyVersions, Replay};
use serde::Serialize;

use crate::{
    args::policy::{DiffArguments, DiffFormat, FailOnDiff},
    asked_statements::{self, AskedInLog, OfOtherVersions, OtherVersions},
    exit::{Exit, Failure},
    human,
    policy::{
        diff_rows::{self, RowChange},
        test::{not_loaded, not_run},
    },
    progress::ProgressLine,
    stdout,
};

/// Runs the command.
pub(crate) fn run(arguments: &DiffArguments) -> Result<Exit, Failure> {
    let old = PolicyTests::load(&arguments.old).map_err(not_loaded)?;
    let new = PolicyTests::load(&arguments.new).map_err(not_loaded)?;
    if new.corpus().catalogs.is_empty() && old.corpus().catalogs.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tables in `{}`\n  help: write `CREATE` statements into `NAME.sql` there",
            arguments.new.join("tests").display()
        )));
    }
    if arguments.audit.is_some() || arguments.statements.is_some() {
        return replay(arguments, (&old, &new));
    }
    let line = ProgressLine::begin("comparing");
    let new = line.follow(new);
    let diff = new
        .compare_with(&old)
        .map_err(|error| not_run(&error, &arguments.new))?;
    drop(line);
    stdout::text(&match arguments.format {
        DiffFormat::Json => print_json(&diff)?,
        DiffFormat::Text => {
            describe(&diff.changes) + &describe_limits(&diff) + &describe_witnesses(&diff)
        }
        DiffFormat::Markdown => {
            let limits = describe_limits(&diff);
            let limits = match limits.is_empty() {
                true => limits,
                false => format!("\n```text\n{limits}```\n"),
            };
            let witnesses = describe_witnesses(&diff);
            let witnesses = match witnesses.is_empty() {
                true => witnesses,
                false => format!(
                    "\n<details><summary>What is wider, as cases</summary>\n\n```text\n{witnesses}```\n\n</details>\n"
                ),
            };
            table(&diff.changes) + &limits + &witnesses
        }
    })?;
    let most = arguments.max_undecided.unwrap_or(0);
    Ok(match judge(arguments.fail_on, &diff.changes) {
        Exit::Permitted if diff.undecided_percent() > f64::from(most) => Exit::Undecided,
        exit => exit,
    })
}

/// What the newer tests lack, and what could not be compared.
pub(crate) fn describe_limits(diff: &PolicyDiff) -> String {
    let mut out = String::new();
    for (head, lines) in [
        ("of the tests, compared as they were", &diff.dropped),
        ("undecided", &diff.undecided),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(out, "{head}:");
        }
        for line in lines {
            let _ = writeln!(out, "  {}", human::printable(line));
        }
    }
    out
}

/// Statements that show what is wider, each with a case to paste.
fn describe_witnesses(diff: &PolicyDiff) -> String {
    let mut out = String::new();
    for witness in &diff.witnesses {
        if out.is_empty() {
            out.push_str("what is wider, as cases that hold with the newer policies alone:\n\n");
        }
        witness.write_answers(&mut out, ["was", "is "]);
        out.push('\n');
        witness.write_case(&mut out);
    }
    out.lines()
        .map(|line| human::printable(line) + "\n")
        .collect()
}

/// Whether the differences are admitted.
fn judge(fail_on: FailOnDiff, changes: &[PolicyChange]) -> Exit {
    let is_wider = (changes.iter()).any(|change| change.direction.is_wider());
    match fail_on {
        FailOnDiff::Wider if is_wider => Exit::Refused,
        FailOnDiff::Any if !changes.is_empty() => Exit::Refused,
        FailOnDiff::Wider | FailOnDiff::Any | FailOnDiff::Nothing => Exit::Permitted,
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text =
        serde_json::to_string(value).map_err(|error| Failure::Internal(error.to_string()))?;
    Ok(text + "\n")
}

/// The statements that are compared.
fn read_asked(arguments: &DiffArguments, old: &PolicyVersions) -> Result<AskedInLog, Failure> {
    let others = match arguments.any_version {
        true => OtherVersions::Take,
        false => OtherVersions::LeaveOut,
    };
    match (&arguments.audit, &arguments.statements) {
        (Some(path), _) => asked_statements::read_audit(path, Some((old, others))),
        (None, Some(path)) => Ok(AskedInLog {
            statements: asked_statements::read_statements(path)?,
            ..AskedInLog::default()
        }),
        (None, None) => Ok(AskedInLog::default()),
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    replay: &'a Replay,
    /// Statements of records that other versions than those of the old folder decided.
    not_replayable_versions: &'a [OfOtherVersions],
    /// Such statements that were decided all the same.
    other_versions: &'a [OfOtherVersions],
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<&'a [RowChange]>,
}

/// Compares what becomes of statements that were asked.
fn replay(
    arguments: &DiffArguments,
    (old, new): (&PolicyTests, &PolicyTests),
) -> Result<Exit, Failure> {
    let catalog = choose_catalog_of_both(arguments, old, new)?;
    let ground = match old.corpus().catalogs.contains_key(&catalog) {
        true => old.versions(&catalog),
        // The tables are new; its policies and entities are what they are.
        false => new.versions_by(old, &catalog),
    };
    let at_hand = ground.map_err(|error| not_run(&error, &arguments.old))?;
    let log = read_asked(arguments, &at_hand)?;
    let asked = log.statements.as_slice();
    let line = ProgressLine::begin("deciding");
    let replay = line
        .follow(new.clone())
        .replay(old, &catalog, asked)
        .map_err(|error| not_run(&error, &arguments.new))?;
    let rows = match &arguments.rows {
        Some(database) => Some(diff_rows::compare(arguments, database, asked)?),
        None => None,
    };
    drop(line);
    let percent = replay.undecided_percent();
    let left_out = match arguments.any_version {
        true => &[][..],
        false => log.other_versions.as_slice(),
    };
    let mut counts = format!(
        "{} statements: {} change, {} stay as they are, {} undecided ({percent:.1} %), {} not replayable\n",
        asked.len() + left_out.len(),
        replay.changes.len(),
        replay.unchanged,
        replay.undecided.len(),
        replay.not_replayable.len() + left_out.len()
    );
    for (why, statements) in [
        (
            "undecided, by a literal that is left out",
            &replay.undecided,
        ),
        ("not replayable", &replay.not_replayable),
    ] {
        for sql in statements {
            let _ = writeln!(counts, "  {why}: {}", human::printable(sql));
        }
    }
    for one in &log.other_versions {
        let head = match arguments.any_version {
            true => "decided by other versions",
            false => "not replayable, decided by other versions",
        };
        let _ = writeln!(
            counts,
            "  {head} ({}), {} records: {}",
            one.differing.join(", "),
            one.records,
            human::printable(&one.sql)
        );
    }
    if let Some(rows) = &rows {
        counts.push_str("rows:\n");
        counts.push_str(&diff_rows::describe(rows));
    }
    stdout::text(&match arguments.format {
        DiffFormat::Json => print_json(&Told {
            replay: &replay,
            not_replayable_versions: left_out,
            other_versions: match arguments.any_version {
                true => &log.other_versions,
                false => &[],
            },
            rows: rows.as_deref(),
        })?,
        DiffFormat::Text => describe(&replay.changes) + &counts,
        DiffFormat::Markdown => format!("{}\n```text\n{counts}```\n", table(&replay.changes)),
    })?;
    // A log of which nothing was decided anew says nothing.
    let is_nothing = replay.changes.is_empty()
        && replay.unchanged == 0
        && !(left_out.is_empty() && replay.not_replayable.is_empty());
    let most = f64::from(arguments.max_undecided.unwrap_or(100));
    Ok(match judge(arguments.fail_on, &replay.changes) {
        Exit::Permitted if is_nothing || percent > most => Exit::Undecided,
        exit => exit,
    })
}

/// The tables that statements are about, of the tests of either folder.
fn choose_catalog_of_both(
    arguments: &DiffArguments,
    old: &PolicyTests,
    new: &PolicyTests,
) -> Result<String, Failure> {
    let is_of_old = |name: &String| old.corpus().catalogs.contains_key(name);
    match &arguments.catalog {
        Some(name) if is_of_old(name) => Ok(name.clone()),
        None if new.corpus().catalogs.is_empty() => {
            choose_catalog(arguments.catalog.as_ref(), &arguments.old, old)
        }
        named => choose_catalog(named.as_ref(), &arguments.new, new),
    }
}

/// The tables that statements are about.
pub(crate) fn choose_catalog(
    named: Option<&String>,
    folder: &Path,
    tests: &PolicyTests,
) -> Result<String, Failure> {
    let known: Vec<&String> = tests.corpus().catalogs.keys().collect();
    let told = || {
        let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    match (named, known.as_slice()) {
        (Some(name), known) if known.contains(&name) => Ok(name.clone()),
        (Some(name), _) => Err(Failure::Usage(format!(
            "there is no catalog `{name}` in the tests of `{}`; there is {}",
            folder.display(),
            told()
        ))),
        (None, [only]) => Ok((*only).clone()),
        (None, _) => Err(Failure::Usage(format!(
            "the tests of `{}` have several catalogs\n  help: name the one of the statements by `--catalog`: {}",
            folder.display(),
            told()
        ))),
    }
}

/// The differences of each direction below its name.
pub(crate) fn describe(changes: &[PolicyChange]) -> String {
    let mut out = String::new();
    for chunk in changes.chunk_by(|a, b| a.direction == b.direction) {
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
pub(crate) fn table(changes: &[PolicyChange]) -> String {
    if changes.is_empty() {
        return "The policies give what they gave.\n".to_owned();
    }
    let cell = |text: &str| {
        let text = human::printable(text).replace('|', "\\|");
        format!("`{}`", text.replace('`', "'"))
    };
    let mut out = "| | who | what | was | is |\n|---|---|---|---|---|\n".to_owned();
    for change in changes {
        let cells = [&change.principal, &change.of, &change.old, &change.new];
        let cells = cells.map(|text| cell(text)).join(" | ");
        let _ = writeln!(out, "| {} | {cells} |", change.direction);
    }
    out
}
