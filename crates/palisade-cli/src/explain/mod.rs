//! `palisade explain`: a decision with the record of how it came about. Nothing is run.

mod changes;
mod html;
pub(crate) mod text;
mod tree;

use std::time::Instant;

use palisade::{
    firewall::{Firewall, Trace},
    policy::{ConditionValues, PolicyEffect},
    session::Session,
};
use serde::Serialize;

use crate::{
    answer::{Answer, Answerer, Request},
    args::ExplainArguments,
    database::Access,
    database_name::{CatalogSource, Source},
    exit::{Exit, Failure},
    host::now,
    policy::test::replace,
    setup::Setup,
    statements, stdout,
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
    let over = (&setup, &explainer.firewall);
    match &arguments.html {
        None => statements::run(&explainer, over, sql, &arguments.form),
        Some(path) => {
            let answer = statements::answer(&explainer, over, sql, &arguments.form)?;
            replace(path, &html::write(&answer))?;
            stdout::text(&format!("wrote {}\n", path.display()))?;
            Ok(answer.exit())
        }
    }
}

/// How a decision came about.
#[derive(Debug)]
pub(crate) struct Explained {
    /// The record of the decision.
    pub(crate) trace: Trace,
    /// The policies that it names.
    pub(crate) policies: Vec<DecidingPolicy>,
}

/// A policy that a trace names.
#[derive(Debug, Serialize)]
pub(crate) struct DecidingPolicy {
    /// Its id.
    #[serde(rename = "policy")]
    pub(crate) id: String,
    /// None where no policy of the folder is called so.
    pub(crate) effect: Option<PolicyEffect>,
    /// Its conditions, with the values that they had.
    pub(crate) conditions: Vec<ConditionValues>,
}

impl Explained {
    /// What `trace` tells, in the session that it is of.
    pub(crate) fn new(trace: Trace, firewall: &Firewall, session: &Session) -> Self {
        let conditions = firewall.condition_values(&trace, session);
        let policies = trace.policies.iter().map(|id| DecidingPolicy {
            id: id.clone(),
            effect: firewall.policies().effect(id),
            conditions: conditions
                .iter()
                .filter(|condition| condition.policy == *id)
                .cloned()
                .collect(),
        });
        Self {
            policies: policies.collect(),
            trace,
        }
    }
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
        explain(&self.firewall, request)
    }
}

/// The decision about a statement, with how it came about.
pub(crate) fn explain(firewall: &Firewall, request: &Request) -> Answer {
    let start = Instant::now();
    let session = now(&request.session);
    let mut answer = match firewall.explain(&request.sql, &request.params, &session) {
        Ok((decision, trace)) => {
            let mut answer = Answer::decided(Ok(decision));
            let explained = Explained::new(trace, firewall, &session);
            answer.explained = Some(Box::new(explained));
            answer
        }
        Err(error) => Answer::decided(Err(error)),
    };
    answer.duration = start.elapsed();
    answer
}
