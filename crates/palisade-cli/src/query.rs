//! `palisade query`: statements through the gate to a database.

use std::sync::Arc;

use palisade::{
    guard::{Guard, Outcome},
    limits::Limits,
};
use palisade_sqlite::SqliteBackend;
use tokio::runtime::Runtime;

use crate::{
    answer::{Answer, Answerer, Request, Verdict},
    args::QueryArguments,
    exit::{Exit, Failure},
    host::Machine,
    setup::Setup,
    source::Source,
    statements,
};

/// Runs the command.
pub(crate) fn run(arguments: &QueryArguments) -> Result<Exit, Failure> {
    let setup = Setup::read(&arguments.policies, arguments.audit.as_deref())?;
    let mut limits = setup.limits.clone();
    limits.max_rows = limits.max_rows.min(arguments.max_rows.unwrap_or(u64::MAX));
    let gate = Gate::open(&setup, &arguments.source, limits)?;
    statements::run(
        &gate,
        &setup,
        arguments.statement.sql.as_deref(),
        &arguments.statement.form,
    )
}

/// A gate to a database and the runtime it answers on.
pub(crate) struct Gate {
    guard: Guard<SqliteBackend>,
    limits: Limits,
    runtime: Runtime,
}

impl Gate {
    /// Opens the database and loads the policies over it. `limits` can only lower those of `setup`.
    pub(crate) fn open(setup: &Setup, source: &Source, limits: Limits) -> Result<Self, Failure> {
        let guard = guard(setup, source)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| Failure::Internal(format!("cannot start: {error}")))?;
        Ok(Self {
            guard,
            limits,
            runtime,
        })
    }
}

/// The gate to a database, as the operator has set it up.
pub(crate) fn guard(setup: &Setup, source: &Source) -> Result<Guard<SqliteBackend>, Failure> {
    let backend = source.open()?;
    let firewall = setup.firewall(backend.catalog().clone())?;
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Machine::new()),
        Arc::clone(&setup.audit),
    );
    Ok(guard.on_finding(setup.on_finding))
}

impl Answerer for Gate {
    fn answer(&self, request: &Request) -> Answer {
        let query = self.guard.query_within(
            &request.sql,
            &request.params,
            &request.session,
            &self.limits,
        );
        let (outcome, report) = self.runtime.block_on(query);
        Answer {
            id: None,
            verdict: match outcome {
                Outcome::Rows(envelope) => Verdict::Rows(envelope),
                Outcome::Rejected(refusal) => Verdict::Refused(refusal),
            },
            rewritten: report.rewritten,
            policies: report.policies,
            duration: report.duration,
            trace: None,
        }
    }
}
