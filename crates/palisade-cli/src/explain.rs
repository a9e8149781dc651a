//! `palisade explain`: a decision with the record of how it came about. Nothing is run.

use std::time::Instant;

use palisade::firewall::Firewall;

use crate::{
    answer::{Answer, Answerer, Request},
    args::ExplainArguments,
    database::Access,
    database_name::{CatalogSource, Source},
    exit::{Exit, Failure},
    host::now,
    setup::Setup,
    statements,
};

/// Runs the command.
pub(crate) fn run(arguments: &ExplainArguments) -> Result<Exit, Failure> {
    let (source, sql) = operands(arguments)?;
    let (setup, catalog) = Setup::over_catalog(
        source,
        arguments.dialect,
        &arguments.secret,
        &arguments.policies,
    )?;
    let explainer = Explainer {
        firewall: setup.firewall(catalog, Access::Write)?,
    };
    statements::run(
        &explainer,
        (&setup, &explainer.firewall),
        sql,
        &arguments.form,
    )
}

/// The schema and the statement: the first word is the database where no option names a schema.
fn operands(arguments: &ExplainArguments) -> Result<(CatalogSource, Option<&str>), Failure> {
    let usage = |why: &str| {
        Failure::Usage(format!(
            "{why}\n  help: palisade explain sqlite:FILE \"SELECT …\"\n        \
             palisade explain --catalog schema.sql \"SELECT …\""
        ))
    };
    let mut words = arguments.words.iter().map(String::as_str);
    let source = match (&arguments.catalog, words.len()) {
        (Some(source), _) => CatalogSource::argument(source)?,
        (None, 0) => return Err(usage("there is neither a database nor a `--catalog`")),
        (None, _) => {
            let word = words.next().unwrap_or_default();
            CatalogSource::Database(Source::parse(word).map_err(|why| usage(&why))?)
        }
    };
    let sql = words.next();
    match (sql, &arguments.form.batch, words.next()) {
        (Some(_), None, None) | (None, Some(_), None) => Ok((source, sql)),
        (None, None, None) => Err(usage("there is no statement")),
        (Some(_), Some(_), None) => Err(usage("there is a statement beside `--batch`")),
        (_, _, Some(_)) => Err(usage("there is more than one statement")),
    }
}

struct Explainer {
    firewall: Firewall,
}

impl Answerer for Explainer {
    fn answer(&self, request: &Request) -> Answer {
        let start = Instant::now();
        let explained =
            self.firewall
                .explain(&request.sql, &request.params, &now(&request.session));
        let mut answer = match explained {
            Ok((decision, trace)) => {
                let mut answer = Answer::decided(Ok(decision));
                answer.trace = Some(trace);
                answer
            }
            Err(error) => Answer::decided(Err(error)),
        };
        answer.duration = start.elapsed();
        answer
    }
}
