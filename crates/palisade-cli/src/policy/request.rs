//! `palisade policy request`: what a refusal would take to be none, for a person to review.

use std::fmt::Write as _;

use palisade_corpus::{AccessRequest, AskedStatement, LearnError, PolicyTests};

use crate::{
    args::{Format, policy::RequestArguments},
    asked_statements,
    exit::{Exit, Failure},
    human,
    policy::{
        diff::{choose_catalog, table},
        test::{not_loaded, not_run},
    },
    stdout,
};

/// Runs the command.
pub(crate) fn run(arguments: &RequestArguments) -> Result<Exit, Failure> {
    let asked = read(arguments)?;
    let tests = PolicyTests::load(&arguments.dir).map_err(not_loaded)?;
    let catalog = choose_catalog(arguments.catalog.as_ref(), &arguments.dir, &tests)?;
    let request = tests
        .request_access(&catalog, &asked)
        .map_err(|error| match error {
            LearnError::Run(error) => not_run(&error, &arguments.dir),
            LearnError::Layout(error) => Failure::Internal(error.to_string()),
        })?;
    let Some(request) = request else {
        stdout::text("The policies permit it.\n")?;
        return Ok(Exit::Permitted);
    };
    stdout::text(&match arguments.format {
        Format::Json => {
            let text = serde_json::to_string(&request)
                .map_err(|error| Failure::Internal(error.to_string()))?;
            text + "\n"
        }
        Format::Text => describe(&request),
    })?;
    Ok(match request.obstacle {
        None => Exit::Permitted,
        Some(_) => Exit::Refused,
    })
}

fn read(arguments: &RequestArguments) -> Result<AskedStatement, Failure> {
    match (&arguments.audit, arguments.seq, &arguments.sql) {
        (Some(path), Some(seq), None) => asked_statements::read_record(path, seq),
        (None, None, Some(sql)) => {
            let principal = arguments.principal.clone();
            let principal = principal.ok_or_else(|| {
                Failure::Usage("who asks? name the principal by `--as`".to_owned())
            })?;
            Ok(asked_statements::mark(principal, sql.clone()))
        }
        (_, _, _) => Err(Failure::Usage(
            "name a record, `--audit FILE --seq NUMBER`, or a statement, `--as PRINCIPAL SQL`"
                .to_owned(),
        )),
    }
}

/// A change request in Markdown.
fn describe(request: &AccessRequest) -> String {
    let mut out = format!(
        "# Access for {}\n\n```sql\n{}\n```\n\nIt is refused today: `{}`",
        human::printable(&request.principal),
        human::printable(&request.sql),
        request.code
    );
    match request.refused_by.as_slice() {
        [] => out.push_str(", since no policy permits it.\n"),
        policies => {
            let _ = writeln!(out, ", by {}.", policies.join(", "));
        }
    }
    match &request.obstacle {
        Some(why) => {
            let _ = writeln!(out, "\nPermits alone do not do: {}", human::printable(why));
        }
        None => {
            let lock: Vec<String> = (request.lock.iter())
                .map(|line| human::printable(line))
                .collect();
            let _ = write!(
                out,
                "\n## Policies\n\nEach is needed, and none more.\n\n```cedar\n{}```\n\n## What may be seen and done then\n\n{}\nIn `access.lock`:\n\n```diff\n{}\n```\n\n## Test\n\n```toml\n{}```\n",
                request.policies,
                table(&request.changes),
                lock.join("\n"),
                request.test
            );
        }
    }
    out
}
