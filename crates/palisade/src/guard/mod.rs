//! The one gate to a database: decide, run what was printed, scan, record.

mod agent_refusal;
mod answer_request;
mod approvals;
mod backend;
mod backend_error;
mod budget;
mod cancel;
mod candidate;
mod change;
mod checks;
mod constraint;
mod constraint_disclosure;
mod dry_run;
mod engine_fault;
mod estimates;
mod failure_quota;
mod live;
mod past;
mod permit;
mod question;
mod reading;
mod record;
mod recorded_run;
mod refresh;
mod request;
mod request_text;
mod run;
mod server_lacks;
mod stages;
mod ticket;
mod wrong_literal;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

pub use crate::limits::Estimate;
pub use agent_refusal::{AgentApproval, AgentRefusal};
pub use backend::{Backend, BackendFuture, Completion, GivenEstimates};
pub use backend_error::{BackendError, BackendErrorKind};
pub use budget::{Allowance, BudgetStore, Budgets, SpanSpending, Spending};
pub use cancel::Cancel;
pub use change::{
    BeforeAndAfter, ChangeCall, ChangeEnd, ChangeOrder, ChangeProposal, ChangeRun, ChangeView,
    ChangedRows, Expectation, LedgerFault, Lens, MAX_CHANGE_STATEMENTS, Moments, PastDifference,
    PastHistory, PastRows, Preview, PreviewedChange, Purpose, ReceiptView, RowCounts, TracedRow,
    Traces,
};
pub use checks::{Check, Checks, CountCheck, EstimateCheck, PlanText, ReadyText, RowCheck};
pub use constraint::{ConstraintKind, ViolatedConstraint, read_constraint_name};
pub use dry_run::DryRun;
pub use engine_fault::{EngineFault, FaultClass};
pub use estimates::Estimates;
pub use past::SnapshotView;
pub use record::{UnreachedCall, record_unreached};
pub use refresh::RefreshError;
pub use request::Request;
pub use stages::{GateStage, StageTime};
pub use ticket::{OpenTicket, Ticket};

use candidate::Candidate;
use failure_quota::Failures;
use live::{Current, Live};

use crate::{
    answer::{Envelope, ExpectedFindings, Scanner, SeverityActions},
    approval::{Approvals, PendingApproval},
    audit::AuditSink,
    change::ChangeStore,
    firewall::{Firewall, PermittedChange, VisibleRelation},
    host::Host,
    past::LabelStore,
    policy::{PolicySources, template::Template},
    rejection::Rejection,
    session::Session,
};

pub use crate::value::{ColumnTypes, RowSink};

/// What the agent gets.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Scanned rows.
    Rows(Envelope),
    /// A refusal.
    Rejected(Refusal),
}

impl Outcome {
    /// The rows, or why there are none.
    ///
    /// # Errors
    /// The refusal.
    pub fn into_result(self) -> Result<Envelope, Refusal> {
        match self {
            Self::Rows(envelope) => Ok(envelope),
            Self::Rejected(refusal) => Err(refusal),
        }
    }
}

/// A refusal on its way out. It is an error too, so that `guard.query(..).await.into_result()?` passes it on.
///
/// As text it is code, message and incident, which the agent may read. `{:?}` prints the operator's detail too.
///
/// ```
/// use palisade::{code::Code, guard::Refusal, rejection::Rejection};
/// fn pass_on(refusal: Refusal) -> Result<(), Box<dyn std::error::Error>> {
///     Err(refusal)?
/// }
/// let rejection = Rejection::new(Code::NameUnknownRelation, "there is no table `t`");
/// let told = pass_on(Refusal::from(rejection)).unwrap_err().to_string();
/// assert_eq!(told, "name.unknown-relation: there is no table `t`");
/// ```
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub rejection: Rejection,
    /// An opaque id that the operator's log explains, where the fault was not the agent's.
    pub incident: Option<String>,
    /// The request that waits for a person, where an approval is missing and can be given.
    pub pending: Option<Box<PendingApproval>>,
    /// What a change does by now that was to be kept, and did something else when it was looked at.
    pub fresh: Option<Box<PreviewedChange>>,
}

impl Refusal {
    /// A refusal without an incident, and for which no person is asked.
    #[must_use]
    pub fn new(rejection: Rejection) -> Self {
        Self {
            rejection,
            incident: None,
            pending: None,
            fresh: None,
        }
    }
}

/// A refusal without an incident, and for which no person is asked.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::new(rejection)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rejection.fmt(f)?;
        match &self.incident {
            Some(incident) => write!(f, " (incident {incident})"),
            None => Ok(()),
        }
    }
}

/// It has no source: the operator's detail is no part of what is printed.
impl std::error::Error for Refusal {}

/// What the operator gets beside it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The text that was run.
    pub rewritten: Option<String>,
    /// Ids of the determining policies.
    pub policies: Vec<String>,
    /// From the text to the answer.
    pub duration: Duration,
    /// Of what that consists, in order, and the record after it.
    pub stages: Vec<StageTime>,
    /// Whether it failed in a way that counts for `max_failures`.
    pub is_counted_failure: bool,
}

/// The gate. Tools, commands and endpoints reach a database through one of these and in no other way.
pub struct Guard {
    current: Current<dyn Backend>,
    host: Arc<dyn Host>,
    audit: Arc<dyn AuditSink>,
    approvals: Option<Arc<dyn Approvals>>,
    /// How a person approves what waits, where the host says so.
    approval_instruction: Option<String>,
    changes: Option<Arc<dyn ChangeStore>>,
    labels: Option<Arc<dyn LabelStore>>,
    candidate: Option<Candidate>,
    on_finding: SeverityActions,
    /// Where findings are no news.
    expected: Vec<ExpectedFindings>,
    scanner: Scanner,
    name: Option<String>,
    failures: Failures,
    budgets: Option<Arc<Budgets>>,
    budget_store: Option<Arc<dyn BudgetStore>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("firewall", &self.current.get().firewall)
            .finish_non_exhaustive()
    }
}

impl Guard {
    /// A gate that decides by `firewall`, runs on `backend` and records to `audit`.
    pub fn new(
        firewall: Arc<Firewall>,
        backend: impl Backend,
        host: Arc<dyn Host>,
        audit: Arc<dyn AuditSink>,
    ) -> Self {
        Self::over(firewall, Arc::new(backend), host, audit)
    }

    /// As [`new`](Self::new), over a backend whose engine was chosen when the program ran.
    pub fn over(
        firewall: Arc<Firewall>,
        backend: Arc<dyn Backend>,
        host: Arc<dyn Host>,
        audit: Arc<dyn AuditSink>,
    ) -> Self {
        let live = Live { firewall, backend };
        Self {
            current: Current::new(live),
            host,
            audit,
            approvals: None,
            approval_instruction: None,
            changes: None,
            labels: None,
            candidate: None,
            on_finding: SeverityActions::default(),
            expected: Vec::new(),
            scanner: Scanner::default(),
            name: None,
            failures: Failures::default(),
            budgets: None,
            budget_store: None,
        }
    }

    /// What principals may take over time, here and by the other gates that have the same `budgets`. Without it there is no bound.
    #[must_use]
    pub fn with_budgets(self, budgets: Arc<Budgets>) -> Self {
        Self {
            budgets: Some(budgets),
            ..self
        }
    }

    /// The same, where what principals take counts at other servers too that have this store, once it was
    /// [exchanged](Self::exchange_budgets).
    #[must_use]
    pub fn with_budget_store(self, store: Arc<dyn BudgetStore>) -> Self {
        Self {
            budget_store: Some(store),
            ..self
        }
    }

    /// Whether there are budgets, and other servers to tell.
    #[must_use]
    pub fn shares_budgets(&self) -> bool {
        self.budgets.is_some() && self.budget_store.is_some()
    }

    /// Tells other servers what principals have taken here, and hears what they have taken there. It blocks while the store answers;
    /// nothing is asked where no principal has asked anything.
    ///
    /// # Errors
    /// A text for the operator. What was taken is told the next time.
    pub fn exchange_budgets(&self) -> Result<(), String> {
        match (&self.budgets, &self.budget_store) {
            (Some(budgets), Some(store)) => {
                let now = (self.host.monotonic(), self.host.unix_time());
                budgets.exchange(&**store, now)
            }
            (Some(_) | None, None) | (None, Some(_)) => Ok(()),
        }
    }

    /// The operator's name of the database, for records.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// Where requests wait for a person's approval. Without it, what needs an approval is refused.
    #[must_use]
    pub fn with_approvals(self, approvals: Arc<dyn Approvals>) -> Self {
        Self {
            approvals: Some(approvals),
            ..self
        }
    }

    /// How a person approves a request that waits, as agents are told: a clause, in which `{id}` stands for the request's id. Without
    /// it, a person runs `palisade approve {id}`. Requests count as such that are approved apart from the agent's client.
    ///
    /// ```
    /// # use palisade::policy::ApprovalLevel;
    /// # fn instruct(guard: palisade::Guard) {
    /// let guard = guard.with_approval_instruction("a person opens https://desk.example/approvals/{id}");
    /// assert!(guard.tell_how_to_approve(ApprovalLevel::Required, "k7m2").ends_with("/k7m2"));
    /// # }
    /// ```
    #[must_use]
    pub fn with_approval_instruction(self, clause: impl Into<String>) -> Self {
        Self {
            approval_instruction: Some(clause.into()),
            ..self
        }
    }

    /// Policies that are tried beside those that decide. Records say what they would have made of a statement, where that is
    /// something else; they decide nothing. Each statement is decided about twice then.
    #[must_use]
    pub fn with_candidate(self, policies: PolicySources) -> Self {
        Self {
            candidate: Some(Candidate::new(policies)),
            ..self
        }
    }

    /// What becomes of a cell in which a detector finds something, whatever its severity or by it; flagged if not called.
    ///
    /// It is there with the feature `scan` alone, without which nothing is found.
    #[cfg(feature = "scan")]
    #[must_use]
    pub fn with_finding_actions(self, on_finding: impl Into<SeverityActions>) -> Self {
        Self {
            on_finding: on_finding.into(),
            ..self
        }
    }

    /// Columns in which findings are no news; none if not called. It is there with the feature `scan` alone.
    #[cfg(feature = "scan")]
    #[must_use]
    pub fn with_expected_findings(self, expected: Vec<ExpectedFindings>) -> Self {
        Self { expected, ..self }
    }

    /// What cells, and names of columns, are scanned with; the balanced scanner if not called. It is there with the feature `scan`
    /// alone.
    #[cfg(feature = "scan")]
    #[must_use]
    pub fn with_scanner(self, scanner: Scanner) -> Self {
        Self { scanner, ..self }
    }

    /// The firewall it decides by now.
    #[must_use]
    pub fn firewall(&self) -> Arc<Firewall> {
        Arc::clone(&self.current.get().firewall)
    }

    /// The relations that exist for `session`.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn relations(&self, session: &Session) -> Result<Vec<VisibleRelation>, Refusal> {
        let firewall = self.firewall();
        firewall
            .relations(&self.now(&firewall, session))
            .map_err(|rejection| self.refusal(rejection))
    }

    /// What `session` may change, as far as the gate's firewall allows changes.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn permitted_changes(&self, session: &Session) -> Result<Vec<PermittedChange>, Refusal> {
        let firewall = self.firewall();
        firewall
            .changes(&self.now(&firewall, session))
            .map_err(|rejection| self.refusal(rejection))
    }

    /// The templates that `session` may run.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn templates(&self, session: &Session) -> Result<Vec<Template>, Refusal> {
        let firewall = self.firewall();
        firewall
            .templates(&self.now(&firewall, session))
            .map_err(|rejection| self.refusal(rejection))
    }

    /// Whether `template` waits for a person's approval where `session` runs it by now. A hint: a call is decided about anew.
    #[must_use]
    pub fn template_waits(&self, template: &Template, session: &Session) -> bool {
        let firewall = self.firewall();
        firewall.template_waits(template, &self.now(&firewall, session))
    }

    /// `session` at the time of a request, where policies look at it.
    fn now<'s>(&self, firewall: &Firewall, session: &'s Session) -> Cow<'s, Session> {
        if session.time().is_none() && firewall.policies().looks_at_time() {
            Cow::Owned(session.clone().at(self.host.unix_time()))
        } else {
            Cow::Borrowed(session)
        }
    }

    /// Takes back a failure that [counted](Report::is_counted_failure) of a statement on [trial](Request::on_trial): when it is sent again
    /// for all its time, and not before. Its caller hears of that end alone.
    pub fn take_back_failure(&self, session: &Session) {
        self.failures.take_back(session.principal());
    }

    /// Gives an incident id to refusals whose reason is not the agent's to know.
    fn refusal(&self, rejection: Rejection) -> Refusal {
        let incident = rejection.is_incident().then(|| match self.host.random() {
            Ok(bytes) => bytes.iter().take(8).map(|b| format!("{b:02x}")).collect(),
            Err(_) => "unnumbered".to_owned(),
        });
        Refusal {
            rejection,
            incident,
            pending: None,
            fresh: None,
        }
    }
}
