//! `palisade policy lock`: what every principal may do, written down for review.

use palisade_corpus::PolicyTests;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{Format, policy::LockArguments},
    exit::{Exit, Failure},
    policy::test::{not_loaded, not_run, replace},
    progress::ProgressLine,
    stdout,
};

/// Runs the command.
pub(crate) fn run(arguments: &LockArguments) -> Result<Exit, Failure> {
    let tests = PolicyTests::load(&arguments.dir).map_err(not_loaded)?;
    if tests.corpus().catalogs.is_empty() {
        return Err(Failure::Usage(format!(
            "there are no tables in `{}`\n  help: write `CREATE` statements into `NAME.sql` there",
            arguments.dir.join("tests").display()
        )));
    }
    let line = ProgressLine::begin("what every principal may do");
    let lock = tests
        .lock()
        .map_err(|error| not_run(&error, &arguments.dir))?;
    drop(line);
    let path = lock.path.display();
    let lines = lock.new.lines().count();
    let (diff, state) = match (lock.is_current(), &lock.old) {
        (true, _) => (String::new(), State::Current),
        (false, None) => (String::new(), State::Written),
        // What was written is in version control, whole.
        (false, Some(_)) if arguments.update => (lock.short_diff(), State::Written),
        (false, Some(_)) => (lock.diff(), State::Stale),
    };
    match arguments.format {
        Format::Text => stdout::text(&diff)?,
        Format::Json => {}
    }
    match state {
        State::Written => replace(&lock.path, &lock.new)?,
        State::Current | State::Stale => {}
    }
    stdout::text(&match (arguments.format, state) {
        (Format::Json, _) => {
            let told = json!({
                "file": lock.path.display().to_string(),
                "state": state,
                "lines": lines,
                "changed": match &lock.old {
                    Some(_) => lock.list_changed_lines(),
                    None => Vec::new(),
                },
            });
            format!("{told}\n")
        }
        (Format::Text, State::Current) => format!("`{path}` is what the policies give\n"),
        (Format::Text, State::Written) => format!("`{path}` was written, {lines} lines\n"),
        (Format::Text, State::Stale) => {
            format!("`{path}` is not what the policies give; `--update` writes it anew\n")
        }
    })?;
    Ok(match state {
        State::Current | State::Written => Exit::Permitted,
        State::Stale => Exit::Refused,
    })
}

/// What became of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It is what the policies give.
    Current,
    /// It was made, or made anew.
    Written,
    /// It is not what the policies give, and stays.
    Stale,
}
