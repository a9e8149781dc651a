//! `palisade policy lock`: what every principal may do, written down for review.

use palisade_corpus::PolicyTests;

use crate::{
    exit::{Exit, Failure},
    output,
    policy_test::{not_loaded, not_run, replace},
    workbench_args::LockArguments,
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
    let lock = tests
        .lock()
        .map_err(|error| not_run(&error, &arguments.dir))?;
    let path = lock.path.display();
    let lines = lock.new.lines().count();
    if lock.is_current() {
        output::text(&format!("`{path}` is what the policies give\n"))?;
        return Ok(Exit::Permitted);
    }
    if lock.old.is_some() {
        output::text(&lock.diff())?;
        if !arguments.update {
            output::text(&format!(
                "`{path}` is not what the policies give; `--update` writes it anew\n"
            ))?;
            return Ok(Exit::Refused);
        }
    }
    replace(&lock.path, &lock.new)?;
    output::text(&format!("`{path}` was written, {lines} lines\n"))?;
    Ok(Exit::Permitted)
}
