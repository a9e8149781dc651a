//! The one gate to a database: decide, run what was printed, scan, record.

mod approvals;
mod backend;
mod backend_error;
mod budget;
mod cancel;
mod candidate;
mod change;
mod checks;
mod constraint;
mod constraint_name;
mod dry_run;
mod engine_fault;
mod estimates;
mod failure_quota;
mod live;
mod past;
mod reading;
mod record;
mod refresh;
mod request;
mod request_text;
mod server_lacks;
mod stages;
mod ticket;

use std::{borrow::Cow, sync::Arc, time::Duration};

pub use crate::limits::Estimate;
pub use backend::{Backend, BackendFuture, Completion, GivenEstimates};
pub use backend_error::{BackendError, BackendErrorKind};
pub use budget::{Allowance, BudgetStore, Budgets, SpanSpending, Spending};
pub use cancel::Cancel;
pub use change::{
    ChangeCall, ChangeEnd, ChangeOrder, ChangeRun, ChangeView, ChangedRows, Expectation,
    LedgerFault, Lens, Looked, LookedAtChange, MAX_CHANGE_STATEMENTS, Moments, PastDifference,
    PastHistory, PastRows, Preview, Purpose, ReceiptView, RowCounts, TracedRow, Traces,
};
pub use checks::{Check, Checks, CountCheck, EstimateCheck, PlanText, ReadyText, RowCheck};
pub use constraint::{ConstraintKind, ViolatedConstraint, read_constraint_name};
pub use dry_run::DryRun;
pub use engine_fault::{EngineFault, FaultClass};
pub use estimates::Estimates;
pub use past::SnapshotView;
pub use record::record_unreached;
pub use refresh::RefreshError;
pub use request::Request;
pub use stages::{GateStage, StageTime};
pub use ticket::{OpenTicket, Ticket};

use backend_error::{describe_failure, describe_misfit};
use candidate::{Candidate, Made};
use failure_quota::Failures;
use live::{Current, Live};
use request_text::RequestText;
use server_lacks::find_lack;

use crate::{
    answer::{
        AsOf, Envelope, ExpectedByColumn, ExpectedFindings, Marker, Room, ScanSession, Scanner,
        SeverityActions,
    },
    approval::{Approvals, PendingApproval},
    audit::{ApprovalNote, AuditSink, CandidateNote},
    change::ChangeStore,
    code::Code,
    firewall::{Decided, Firewall, PermittedChange, VisibleRelation},
    host::Host,
    limits::Limits,
    past::{Label, LabelStore},
    policy::{ApprovalDemand, PolicySources, template::Template},
    rejection::Rejection,
    rewrite::{Effect, RewrittenStatement},
    session::Session,
    stage_span::{enter_stage, trace_stage},
    syntax::Wording,
    value::Params,
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

/// A refusal on its way out.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub rejection: Rejection,
    /// An opaque id that the operator's log explains, where the fault was not the agent's.
    pub incident: Option<String>,
    /// The request that waits for a person, where an approval is missing and can be given.
    pub pending: Option<Box<PendingApproval>>,
    /// What a change does by now that was to be kept, and did something else when it was looked at.
    pub fresh: Option<Box<LookedAtChange>>,
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
}

/// The gate. Tools, commands and endpoints reach a database through one of these and in no other way.
pub struct Guard {
    current: Current<dyn Backend>,
    host: Arc<dyn Host>,
    audit: Arc<dyn AuditSink>,
    approvals: Option<Arc<dyn Approvals>>,
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

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    #[must_use]
    pub fn with_finding_actions(self, on_finding: impl Into<SeverityActions>) -> Self {
        Self {
            on_finding: on_finding.into(),
            ..self
        }
    }

    /// Columns in which findings are no news; none if not called.
    #[must_use]
    pub fn with_expected_findings(self, expected: Vec<ExpectedFindings>) -> Self {
        Self { expected, ..self }
    }

    /// What cells, and names of columns, are scanned with; the balanced scanner if not called.
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

    /// Decides about `sql`, runs it if it reads and is permitted, scans what comes back and records it.
    /// A statement that changes anything is refused, whatever policy permits.
    pub async fn query(&self, sql: &str, params: &Params, session: &Session) -> Outcome {
        let request = Request::statement(sql, params, session);
        self.answer(request).await.0
    }

    /// As [`query`](Self::query), for a statement that reads or changes data.
    pub async fn execute(&self, sql: &str, params: &Params, session: &Session) -> Outcome {
        let request = Request::statement(sql, params, session).allow_changes();
        self.answer(request).await.0
    }

    /// Decides about a request, runs it if it is permitted, scans what comes back and records it. Beside the answer stands
    /// the operator's part of it.
    pub async fn answer(&self, request: Request<'_>) -> (Outcome, Report) {
        let start = self.host.monotonic();
        let Request {
            asked,
            session,
            limits,
            allows_changes,
            is_trial,
            room,
            cancel,
            as_of,
        } = request;
        let mut run = Run::new(self.current.get(), allows_changes, start);
        let firewall = Arc::clone(&run.live.firewall);
        let limits = limits.unwrap_or(firewall.limits());
        let session = self.now(&firewall, session);
        let past = as_of.map(|moment| self.look_up(moment)).transpose();
        let session = read_as_of(session, past.as_ref().ok());
        let text = RequestText::read(asked, &firewall, &session);
        let (wording, params, session) = text.parts(&session);
        let admitted = (self.budgets.as_ref())
            .map_or(Ok(()), |budgets| budgets.admit(session.principal(), start));
        let asked_of = past.as_ref().map_err(Clone::clone);
        let admitted = admitted.and_then(|()| asked_of.map(drop));
        let result = match admitted.and_then(|()| text.require_text()) {
            Ok(()) => {
                run.room = room;
                run.cancel = cancel.cloned().unwrap_or_default();
                run.is_trial = is_trial;
                self.decide_and_run(wording, params, session, limits, &mut run)
                    .await
            }
            Err(rejection) => Err(rejection),
        };
        run.report.duration = self.host.monotonic().saturating_sub(start);
        self.spend(session, result.as_ref().ok(), run.report.duration);
        let outcome = match result {
            Ok(envelope) => {
                let told = past.ok().flatten().map(|(_, told)| told);
                Outcome::Rows(envelope.with_as_of(told))
            }
            Err(rejection) => Outcome::Rejected(Refusal {
                pending: run.pending.take().map(Box::new),
                ..self.refusal(rejection)
            }),
        };
        let became = match &outcome {
            Outcome::Rows(envelope) => Became::Answered(envelope),
            Outcome::Rejected(refusal) => Became::Refused(refusal),
        };
        let record = self.record(wording.full_text(), session, &became, &run);
        let began = self.host.monotonic();
        let stage = enter_stage!("record");
        let recorded = self.audit.record(&record);
        stage.end();
        run.note_stage(GateStage::Record, began, self.host.monotonic());
        let report = run.report;
        if let Err(why) = recorded {
            // What is not recorded is not answered.
            let rejection = Rejection::internal(why);
            return (Outcome::Rejected(self.refusal(rejection)), report);
        }
        let outcome = match outcome {
            Outcome::Rows(envelope) => {
                let ms = u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX);
                Outcome::Rows(envelope.with_duration_ms(ms))
            }
            rejected @ Outcome::Rejected(_) => rejected,
        };
        (outcome, report)
    }

    async fn decide_and_run(
        &self,
        wording: Wording<'_>,
        params: &Params,
        session: &Session,
        limits: &Limits,
        run: &mut Run,
    ) -> Result<Envelope, Rejection> {
        let permitted = self.permit(wording, params, session, limits, run).await;
        run.note_stage(GateStage::Decide, run.start, self.host.monotonic());
        let (mut statement, demand) = permitted?;
        let marker = Marker::from_bytes(self.host.random().map_err(Rejection::internal)?);
        // What is left is for the engine, and for the wait for it.
        statement.spend_time(self.host.monotonic().saturating_sub(run.start))?;
        let statement = Arc::<RewrittenStatement>::from(statement);
        let plan = statement.scan_plan();
        let expected = ExpectedByColumn::find(&self.expected, plan, run.live.firewall.catalog());
        let mut scan = ScanSession::with_scanner(plan, self.on_finding, self.scanner, marker)
            .expect_findings(expected);
        if let Some(room) = run.room {
            scan = scan.keep_within(room);
        }
        if statement.effect() == Effect::Nothing {
            return Ok(Envelope::of_nothing(scan.finish()?));
        }
        let is_counted = statement.counts_failures();
        if is_counted {
            let most = statement.limits().max_failures;
            self.failures
                .admit(session.principal(), most, self.host.monotonic())?;
        }
        if run.cancel.is_set() {
            return Err(describe_failure(
                &BackendError::cancelled(),
                &statement,
                session,
            ));
        }
        // Last, so that an approval is not used up by what would not have run.
        if let Some(demand) = &demand {
            if session.past().is_some() {
                return Err(Rejection::new(
                    Code::HistoryNotKept,
                    "what a person has to approve is read as it is now alone; leave out as_of",
                ));
            }
            let began = self.host.monotonic();
            let request = (wording.full_text(), params, session);
            let stage = enter_stage!("approve");
            let approved = self.require_approval(demand, &statement, request, run);
            stage.end();
            run.note_stage(GateStage::Approve, began, self.host.monotonic());
            approved?;
        }
        run.report.rewritten = Some(statement.text().to_owned());
        self.require_label(&*run.live.backend, &statement, session)
            .await?;
        let ticket = Ticket::issue(&statement).cancelled_by(&run.cancel);
        let began = self.host.monotonic();
        let executed = run.live.backend.execute(ticket, &mut scan);
        let result = trace_stage!("execute", executed).await;
        run.note_stage(GateStage::Run, began, self.host.monotonic());
        let result = match result {
            // Only what a look at the schema confirms is called a change: to send another statement again would not help.
            Err(error) if error.kind == BackendErrorKind::NameNotFound => {
                Err(match self.confirm_change(&run.live).await {
                    true => BackendError::schema_changed(error.detail),
                    false => error,
                })
            }
            result => result,
        };
        match &result {
            // So that the moment after it can be asked for.
            Ok(_) if statement.effect() == Effect::Write => {
                let _ = self.keep_label().await;
            }
            // So that the next statement is decided over what this one has made.
            Ok(_) if statement.effect() == Effect::Define => {
                let _ = self.refresh().await;
            }
            // So that the next attempt is decided over what there is; if it cannot be read, or was a
            // moment ago, that one is refused as well.
            Err(error) if error.kind == BackendErrorKind::SchemaChanged => {
                let _ = self.reread_if_due().await;
            }
            Err(error) if is_counted && error.may_tell_of_rows() => {
                self.failures
                    .count(session.principal(), self.host.monotonic());
            }
            Ok(_) | Err(_) => {}
        }
        let Completion { affected } = match result {
            Ok(completion) => completion,
            // Why the scan took no more rows is its own to say.
            Err(error) if error.kind == BackendErrorKind::NotTaken => {
                return Err(match scan.finish() {
                    Ok(_) => describe_failure(&error, &statement, session),
                    Err(why) => refuse_answer(&why),
                });
            }
            Err(error) => {
                let forbidden = statement
                    .estimate_refusal()
                    .filter(|_| error.kind == BackendErrorKind::Forbidden);
                if let Some(rejection) = forbidden {
                    run.report.policies = rejection.policies().to_vec();
                    return Err(rejection.clone());
                }
                // To send it again helps once somebody has mended the policies.
                let misfit = self.current.misfit();
                let misfit = misfit.filter(|_| error.kind == BackendErrorKind::SchemaChanged);
                if let Some(misfit) = misfit {
                    return Err(describe_misfit(misfit));
                }
                let refused = describe_failure(&error, &statement, session);
                let fault = error.fault.as_deref();
                // The text of a template is not the agent's.
                let is_told =
                    refused.code() == Code::DatabaseRejected && session.template().is_none();
                let fault = fault.filter(|_| is_told);
                let catalog = run.live.firewall.catalog();
                let lack = fault.and_then(|fault| find_lack(fault, &statement, catalog));
                return Err(match lack {
                    Some(lack) => {
                        refused.with_message(format!("The database refused the statement: {lack}."))
                    }
                    None => self.name_constraint(refused, &error, &statement, &[session]),
                });
            }
        };
        // Once more: what was pruned while the statement ran is missing in its rows.
        self.require_label(&*run.live.backend, &statement, session)
            .await?;
        let _stage = enter_stage!("scan");
        Ok(Envelope::new(scan.finish()?).with_affected_rows(affected))
    }

    /// The statement that may be run, decided over the schema as it is by now, and the approval that it needs first.
    async fn permit(
        &self,
        wording: Wording<'_>,
        params: &Params,
        session: &Session,
        limits: &Limits,
        run: &mut Run,
    ) -> Result<(Box<RewrittenStatement>, Option<ApprovalDemand>), Rejection> {
        let mut decided = decide(&run.live, wording, params, session, limits)?;
        if is_of_names(&decided)
            // What cannot be looked at now is as it was; whoever operates it is told by other ways.
            && let Ok(true) = self.refresh_if_due().await
        {
            run.live = self.current.get();
            decided = decide(&run.live, wording, params, session, limits)?;
        }
        run.candidate = self.candidate.as_ref().and_then(|candidate| {
            let made = match &decided {
                Decided::Allow(statement) => Made::Allowed(statement),
                Decided::Pending(statement, _) => Made::Waiting(statement),
                Decided::Reject(_) => Made::Refused,
            };
            let asked = (session, self.host.unix_time());
            candidate.compare(&run.live.firewall, made, (wording, params), asked, limits)
        });
        let (statement, demand) = match decided {
            Decided::Allow(statement) => (statement, None),
            Decided::Pending(statement, demand) => (statement, Some(demand)),
            Decided::Reject(rejection) => {
                run.report.policies = rejection.policies().to_vec();
                return Err(rejection);
            }
        };
        let changes = match statement.effect() {
            Effect::Read | Effect::Explain => false,
            Effect::Write | Effect::Define | Effect::Nothing => true,
        };
        if changes && !run.allows_changes {
            return Err(Rejection::new(
                Code::StatementNotAllowed,
                "the statement changes data, and only reading ones are run here",
            ));
        }
        run.report.policies = statement.policies().to_vec();
        run.relations = statement.relations().to_vec();
        run.obligations = statement.obligations().to_vec();
        Ok((statement, demand))
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

/// One statement on its way.
struct Run {
    /// By what it is decided and where it runs.
    live: Arc<Live<dyn Backend>>,
    /// When it was asked for.
    start: Duration,
    /// Whether it may change anything.
    allows_changes: bool,
    /// Whether it is sent again if it runs out of time.
    is_trial: bool,
    /// How much of the answer a model is given.
    room: Option<Room>,
    /// Whether anybody waits for it.
    cancel: Cancel,
    /// Whether it is only decided about.
    is_dry: bool,
    report: Report,
    relations: Vec<String>,
    obligations: Vec<String>,
    /// What is recorded of an approval.
    approval: Option<ApprovalNote>,
    /// The request that waits for a person.
    pending: Option<PendingApproval>,
    /// What the policies on trial would have made of it, where that is something else.
    candidate: Option<CandidateNote>,
}

/// What a record tells of.
enum Became<'a> {
    /// Its answer leaves.
    Answered(&'a Envelope),
    /// It changed so many rows, as a part of a change.
    Kept(u64),
    /// It would have run.
    Untried,
    /// It was refused.
    Refused(&'a Refusal),
}

impl Run {
    fn new(live: Arc<Live<dyn Backend>>, allows_changes: bool, start: Duration) -> Self {
        Self {
            live,
            start,
            allows_changes,
            is_trial: false,
            room: None,
            cancel: Cancel::default(),
            is_dry: false,
            report: Report::default(),
            relations: Vec::new(),
            obligations: Vec::new(),
            approval: None,
            pending: None,
            candidate: None,
        }
    }

    /// Notes a stage from `began` to `ended`, by the host's clock.
    fn note_stage(&mut self, stage: GateStage, began: Duration, ended: Duration) {
        self.report.stages.push(StageTime {
            stage,
            start: began.saturating_sub(self.start),
            time: ended.saturating_sub(began),
        });
    }
}

/// Whether a decision would be another if the schema were: of what is not there.
fn is_of_names(decided: &Decided) -> bool {
    match decided {
        Decided::Allow(statement) | Decided::Pending(statement, _) => {
            statement.effect() == Effect::Nothing
        }
        Decided::Reject(rejection) => matches!(
            rejection.code(),
            Code::NameUnknownRelation
                | Code::NameUnknownColumn
                | Code::NameUnknownType
                | Code::FunctionUnknown
        ),
    }
}

fn decide(
    live: &Live<dyn Backend>,
    wording: Wording<'_>,
    params: &Params,
    session: &Session,
    limits: &Limits,
) -> Result<Decided, Rejection> {
    let (decided, served) = (live.firewall.catalog(), live.backend.catalog());
    if live.backend.dialect() != decided.dialect() || served.version() != decided.version() {
        return Err(Rejection::internal(
            "the backend is of another catalog than the firewall",
        ));
    }
    live.firewall
        .check_pending(wording, params, session, limits)
        .map_err(|error| Rejection::internal(error.to_string()))
}

/// `session` as of a moment, where one was asked for and found.
fn read_as_of<'s>(
    session: Cow<'s, Session>,
    past: Option<&Option<(Label, AsOf)>>,
) -> Cow<'s, Session> {
    match past.and_then(Option::as_ref) {
        Some((label, _)) => Cow::Owned(session.into_owned().as_of(label.clone())),
        None => session,
    }
}

/// A refusal of the answer that a change gives, which took the change back.
fn refuse_answer(why: &Rejection) -> Rejection {
    let told = Rejection::new(
        why.code(),
        format!("{} Nothing was changed.", why.message()),
    );
    match why.operator_detail() {
        Some(detail) => told.with_operator_detail(detail),
        None => told,
    }
}
