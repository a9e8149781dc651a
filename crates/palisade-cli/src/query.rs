//! `palisade query` and `palisade execute`: statements through the gate to a database.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use palisade::{
    approval::Approvals,
    error::Error,
    firewall::Firewall,
    guard::{self, Backend, BudgetStore, ChangeCall, Guard, Outcome, Refusal, Report},
    limits::Limits,
    past::LabelStore,
    policy::{PolicySources, template::Template},
    session::Session,
    value::Value,
};
use palisade_host::Machine;
use palisade_state::ApprovalStore;
use tokio::runtime::Runtime;

use crate::{
    answer::{Answer, Answerer, Request, Verdict},
    args::QueryArguments,
    database::{Access, Database},
    database_name::Source,
    exit::{Exit, Failure},
    host::{self, Driver},
    notice::TellingStore,
    setup::Setup,
    statements,
    webhook::Webhook,
};

/// Runs the command.
pub(crate) fn run(arguments: &QueryArguments, access: Access) -> Result<Exit, Failure> {
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        Some(&arguments.audit),
    )?;
    let mut limits = setup.limits.clone();
    limits.max_rows = limits.max_rows.min(arguments.max_rows.unwrap_or(u64::MAX));
    let gate = Gate::open(&setup, &database, access, limits)?;
    let gate = gate.read_as_of(arguments.as_of.clone());
    statements::run(
        &gate,
        (&setup, &gate.guard.firewall()),
        arguments.statement.sql.as_deref(),
        &arguments.statement.form,
    )
}

/// A gate to a database and the runtime it answers on.
pub(crate) struct Gate {
    guard: Guard,
    access: Access,
    limits: Limits,
    runtime: Runtime,
    webhook: Option<Arc<Webhook>>,
    /// As of what queries read.
    as_of: Option<String>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        let untold = (self.webhook.as_ref()).and_then(|webhook| webhook.finish());
        if let Some(untold) = untold {
            // There is no reader if this fails.
            let _ = writeln!(io::stderr(), "warning: {untold}");
        }
    }
}

impl Gate {
    /// Opens the database and loads the policies over it. `limits` can only lower those of `setup`.
    pub(crate) fn open(
        setup: &Setup,
        database: &Database,
        access: Access,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let runtime = host::runtime()?;
        let opened = setup.access(access)?;
        let guard = guard(setup, database, opened, Driver::Own(&runtime))?;
        let guard = match open_store(setup, &guard, opened)? {
            Some(store) => keep_waiting(guard, store, setup),
            None => guard,
        };
        Ok(Self {
            guard,
            access,
            limits,
            runtime,
            webhook: setup.webhook.clone(),
            as_of: None,
        })
    }
}

/// The gate to a database, as the operator has set it up, without what outlives a request. It answers while the runtime of `driver`
/// runs.
pub(crate) fn guard(
    setup: &Setup,
    database: &Database,
    access: Access,
    driver: Driver<'_>,
) -> Result<Guard, Failure> {
    let backend = database.open(access, driver)?;
    require_estimates(&*backend, &setup.limits).map_err(|why| {
        Failure::Configuration(format!(
            "error: {why}\n  help: leave it out of `[limits]`, or write it at the connections whose databases estimate"
        ))
    })?;
    let firewall = setup.firewall(backend.catalog().clone(), access)?;
    if let Some(candidate) = &setup.candidate {
        // Policies on trial that do not load would record nothing of use.
        firewall
            .renewed(firewall.catalog().clone(), candidate.sources.clone())
            .map_err(|error| candidate.failure(&error))?;
    }
    let guard = Guard::over(
        Arc::new(firewall),
        backend,
        Arc::new(Machine::new()),
        setup.audit_sink(),
    );
    let guard = guard
        .with_finding_actions(setup.on_finding)
        .with_expected_findings(setup.expected_findings())
        .with_scanner(setup.scanner)
        .with_name(setup.name_of(database));
    Ok(match &setup.candidate {
        Some(candidate) => guard.with_candidate(candidate.sources.clone()),
        None => guard,
    })
}

/// The store of requests that outlive one, if there is a file for it. A file that is not named is made where something could wait in it.
pub(crate) fn open_store(
    setup: &Setup,
    guard: &Guard,
    access: Access,
) -> Result<Option<ApprovalStore>, Failure> {
    let approvals = &setup.approvals;
    let firewall = guard.firewall();
    let may_wait = match access {
        Access::Write => true,
        Access::Read => firewall.policies().demands_approval() || firewall.catalog().has_history(),
    };
    match may_wait || approvals.is_named() || approvals.file().is_some_and(Path::exists) {
        true => approvals.open(),
        false => Ok(None),
    }
}

/// The same, where requests for approvals and changes wait in `store`, and people outside are told of them as `setup` says.
pub(crate) fn keep_waiting(guard: Guard, store: ApprovalStore, setup: &Setup) -> Guard {
    let store = Arc::new(store);
    let guard = guard.with_labels(Arc::clone(&store) as Arc<dyn LabelStore>);
    let guard = match store.is_shared() {
        true => guard.with_budget_store(Arc::clone(&store) as Arc<dyn BudgetStore>),
        false => guard,
    };
    let name = setup.approvals.name_store().filter(|_| store.is_shared());
    setup.counts.add_store(name, &store);
    if let Some(webhook) = &setup.webhook {
        let store = Arc::new(TellingStore::new(
            store,
            guard.firewall(),
            Arc::clone(webhook),
            setup.approvals.expire_after(),
        ));
        return guard
            .with_approvals(Arc::clone(&store) as Arc<dyn Approvals>)
            .with_changes(store);
    }
    guard
        .with_approvals(Arc::clone(&store) as Arc<dyn Approvals>)
        .with_changes(store)
}

/// Whether the engine gives the estimates that `limits` cap; which it does not, if not.
fn require_estimates(backend: &dyn Backend, limits: &Limits) -> Result<(), String> {
    let Some(caps) = limits.estimate_caps() else {
        return Ok(());
    };
    let gives = backend.gives_estimates();
    let lacks = |key| Err(format!("this database gives no estimate for `{key}`"));
    if caps.cost.is_some() && !gives.cost {
        lacks("max_cost")
    } else if caps.rows.is_some() && !gives.rows {
        lacks("max_estimated_rows")
    } else {
        Ok(())
    }
}

impl Gate {
    /// The same, where queries read tables as they were.
    fn read_as_of(mut self, as_of: Option<String>) -> Self {
        self.as_of = as_of;
        self
    }

    /// What decides now.
    pub(crate) fn firewall(&self) -> Arc<Firewall> {
        self.guard.firewall()
    }

    /// Decides by these policies from now on; by those in force where they do not load.
    pub(crate) fn reload(&self, sources: &PolicySources) -> Result<(), Error> {
        self.runtime.block_on(self.guard.reload(sources)).map(drop)
    }

    /// The templates that `session` may run.
    pub(crate) fn templates(&self, session: &Session) -> Result<Vec<Template>, Refusal> {
        self.guard.templates(session)
    }

    /// Runs the template called `name`.
    pub(crate) fn run(
        &self,
        name: &str,
        arguments: &BTreeMap<String, Value>,
        session: &Session,
    ) -> Answer {
        self.ask(guard::Request::template(name, arguments, session))
    }

    /// What answers calls about changes.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A call of `session` about changes.
    pub(crate) fn change_call<'a>(&'a self, session: &'a Session) -> ChangeCall<'a> {
        ChangeCall {
            limits: Some(&self.limits),
            ..ChangeCall::new(session)
        }
    }

    /// Waits for what the guard answers.
    pub(crate) fn block_on<F: Future>(&self, answer: F) -> F::Output {
        self.runtime.block_on(answer)
    }

    fn ask(&self, request: guard::Request<'_>) -> Answer {
        let request = request.with_limits(&self.limits);
        let request = request.as_of(self.as_of.as_deref());
        let request = match self.access {
            Access::Read => request,
            Access::Write => request.allow_changes(),
        };
        answer(self.runtime.block_on(self.guard.answer(request)))
    }
}

fn answer((outcome, report): (Outcome, Report)) -> Answer {
    Answer {
        id: None,
        verdict: match outcome.into_result() {
            Ok(envelope) => Verdict::Rows(envelope),
            Err(refusal) => Verdict::Refused(refusal),
        },
        rewritten: report.rewritten,
        policies: report.policies,
        duration: report.duration,
        explained: None,
    }
}

impl Answerer for Gate {
    fn answer(&self, request: &Request) -> Answer {
        let (sql, params, session) = (&request.sql, &request.params, &request.session);
        self.ask(guard::Request::statement(sql, params, session))
    }
}
