//! A request's way through the gate: decided, approved, run, scanned and recorded.

use std::{sync::Arc, time::Duration};

use crate::{
    answer::{Envelope, ExpectedByColumn, Marker, ScanSession},
    code::Code,
    guard::{
        BackendError, BackendErrorKind, Completion, GateStage, Guard, Outcome, Refusal, Report,
        Request, Ticket,
        backend_error::{describe_failure, describe_misfit},
        past::read_as_of,
        question::Question,
        record::Became,
        recorded_run::RecordedRun,
        request_text::RequestText,
        run::{Run, Sent},
        server_lacks::find_lack,
        wrong_literal::describe_wrong_literal,
    },
    policy::ApprovalDemand,
    rejection::Rejection,
    rewrite::{ChangeKind, Effect, RewrittenStatement},
    session::Session,
    stage_span::{enter_stage, trace_stage},
    value::Params,
};

impl Guard {
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
    ///
    /// To end it early, use [`Request::cancelled_by`] or a time limit. Where its future is dropped instead, the statement ends on the
    /// database too. That is recorded as `limit.cancelled`; of a change that was sent, as `database.outcome-unknown`, for it may have
    /// been kept.
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
        run.room = room;
        run.cancel = cancel.cloned().unwrap_or_default();
        run.is_trial = is_trial;
        let firewall = Arc::clone(&run.live.firewall);
        let limits = limits.unwrap_or(firewall.limits());
        let session = self.now(&firewall, session);
        let past = as_of.map(|moment| self.look_up(moment)).transpose();
        let session = read_as_of(session, past.as_ref().ok());
        let text = RequestText::read(asked, &firewall, &session);
        let question = text.question(&session, limits);
        let mut recorded = RecordedRun::new(self, question, run);
        let run = &mut recorded.run;
        let result = match self.admit(&text, past.as_ref().err(), question.session, start) {
            Ok(()) => self.decide_and_run(question, run).await,
            Err(rejection) => Err(rejection),
        };
        run.report.duration = self.host.monotonic().saturating_sub(start);
        self.spend(question.session, result.as_ref().ok(), run.report.duration);
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
        let (recorded, report) = recorded.finish(&outcome);
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

    /// Whether a request is decided about at all: within its principal's budgets, with a text, and as of a moment that is known.
    fn admit(
        &self,
        text: &RequestText<'_>,
        unknown_past: Option<&Rejection>,
        session: &Session,
        start: Duration,
    ) -> Result<(), Rejection> {
        if let Some(budgets) = &self.budgets {
            budgets.admit(session.principal(), start)?;
        }
        if let Some(rejection) = unknown_past {
            return Err(rejection.clone());
        }
        text.require_text()
    }

    /// Records what became of a request.
    pub(in crate::guard) fn record_outcome(
        &self,
        question: Question<'_>,
        outcome: &Outcome,
        run: &mut Run,
    ) -> Result<(), String> {
        let became = match outcome {
            Outcome::Rows(envelope) => Became::Answered(envelope),
            Outcome::Rejected(refusal) => Became::Refused(refusal),
        };
        let record = self.record(question.wording.full_text(), question.session, &became, run);
        let began = self.host.monotonic();
        let stage = enter_stage!("record");
        let recorded = self.audit.record(&record);
        stage.end();
        run.note_stage(GateStage::Record, began, self.host.monotonic());
        recorded
    }

    async fn decide_and_run(
        &self,
        question: Question<'_>,
        run: &mut Run,
    ) -> Result<Envelope, Rejection> {
        let session = question.session;
        let permitted = self.permit(question, run).await;
        run.note_stage(GateStage::Decide, run.start, self.host.monotonic());
        let (mut statement, demand) = permitted?;
        // What is left is for the engine, and for the wait for it.
        statement.spend_time(self.host.monotonic().saturating_sub(run.start))?;
        let statement = Arc::<RewrittenStatement>::from(statement);
        let mut scan = self.open_scan(&statement, run)?;
        if statement.effect() == Effect::Nothing {
            return Ok(Envelope::of_nothing(scan.finish()?));
        }
        self.admit_failures(&statement, session)?;
        if run.cancel.is_set() {
            let error = BackendError::cancelled();
            return Err(describe_failure(&error, &statement, session));
        }
        // Last, so that an approval is not used up by what would not have run.
        if let Some(demand) = &demand {
            self.find_approval(demand, &statement, question, run)?;
        }
        run.report.rewritten = Some(statement.text().to_owned());
        self.require_label(&*run.live.backend, &statement, session)
            .await?;
        let result = self.run_statement(&statement, &mut scan, run).await;
        self.follow_up(&result, &statement, question, run).await;
        let Completion { affected } = match result {
            Ok(completion) => completion,
            // Why the scan took no more rows is its own to say.
            Err(error) if error.kind == BackendErrorKind::NotTaken => {
                return Err(match scan.finish() {
                    Ok(_) => describe_failure(&error, &statement, session),
                    Err(why) => refuse_answer(&why),
                });
            }
            Err(error) => return Err(self.explain_failure(&error, &statement, question, run)),
        };
        // Once more: what was pruned while the statement ran is missing in its rows.
        self.require_label(&*run.live.backend, &statement, session)
            .await?;
        let _stage = enter_stage!("scan");
        let changes = statement.change_facts();
        let only_inserts =
            !changes.is_empty() && (changes.iter()).all(|change| change.kind == ChangeKind::Insert);
        let envelope = Envelope::new(scan.finish()?).with_affected_rows(affected);
        Ok(envelope.of_insert(only_inserts))
    }

    /// What takes the rows of `statement`.
    fn open_scan(
        &self,
        statement: &RewrittenStatement,
        run: &Run,
    ) -> Result<ScanSession, Rejection> {
        let marker = Marker::from_bytes(self.host.random().map_err(Rejection::internal)?);
        let plan = statement.scan_plan();
        let expected = ExpectedByColumn::find(&self.expected, plan, run.live.firewall.catalog());
        let scan = ScanSession::with_scanner(plan, self.on_finding, self.scanner, marker)
            .expect_findings(expected);
        Ok(match run.room {
            Some(room) => scan.keep_within(room),
            None => scan,
        })
    }

    /// Refuses a statement whose failure would tell of hidden rows, once its principal has had too many of those.
    fn admit_failures(
        &self,
        statement: &RewrittenStatement,
        session: &Session,
    ) -> Result<(), Rejection> {
        if !statement.counts_failures() {
            return Ok(());
        }
        let most = statement.limits().max_failures;
        self.failures
            .admit(session.principal(), most, self.host.monotonic())
    }

    /// Looks for the approval that `demand` asks for, and uses it up.
    fn find_approval(
        &self,
        demand: &ApprovalDemand,
        statement: &RewrittenStatement,
        question: Question<'_>,
        run: &mut Run,
    ) -> Result<(), Rejection> {
        if question.session.past().is_some() {
            return Err(Rejection::new(
                Code::HistoryNotKept,
                "what a person has to approve is read as it is now alone; leave out as_of",
            ));
        }
        let began = self.host.monotonic();
        let stage = enter_stage!("approve");
        let approved = self.require_approval(demand, statement, question, run);
        stage.end();
        run.note_stage(GateStage::Approve, began, self.host.monotonic());
        approved
    }

    /// Runs `statement` on the backend by which it was decided.
    async fn run_statement(
        &self,
        statement: &Arc<RewrittenStatement>,
        scan: &mut ScanSession,
        run: &mut Run,
    ) -> Result<Completion, BackendError> {
        let ticket = Ticket::issue(statement).cancelled_by(&run.cancel);
        let began = self.host.monotonic();
        run.sent = Some(Sent {
            changes: !statement.effect().only_reads(),
            is_counted: statement.counts_failures(),
        });
        let executed = run.live.backend.execute(ticket, scan);
        let result = trace_stage!("execute", executed).await;
        run.note_stage(GateStage::Run, began, self.host.monotonic());
        if let Some(sent) = &mut run.sent {
            sent.is_counted &= result.is_err();
        }
        match result {
            Ok(completion) => Ok(completion),
            Err(error) => Err(self.confirm_missing_name(error, &run.live).await),
        }
    }

    /// What the end of a statement means for the statements after it.
    async fn follow_up(
        &self,
        result: &Result<Completion, BackendError>,
        statement: &RewrittenStatement,
        question: Question<'_>,
        run: &mut Run,
    ) {
        match result {
            Ok(_) => match statement.effect() {
                // So that the moment after it can be asked for.
                Effect::Write => {
                    let _ = self.keep_label().await;
                }
                // So that the next statement is decided over what this one has made.
                Effect::Define => {
                    let _ = self.refresh().await;
                }
                Effect::Read | Effect::Explain | Effect::Nothing => {}
            },
            Err(error) => {
                let is_counted = statement.counts_failures() && error.may_tell_of_rows();
                run.report.is_counted_failure = is_counted;
                self.note_failure(error, is_counted, question.session).await;
            }
        }
    }

    /// Looks at the schema anew where a failure says that it has changed. Counts a failure that may tell of hidden rows.
    pub(in crate::guard) async fn note_failure(
        &self,
        error: &BackendError,
        is_counted: bool,
        session: &Session,
    ) {
        if error.kind == BackendErrorKind::SchemaChanged {
            // So that the next attempt is decided over what there is; if it cannot be read, or was a
            // moment ago, that one is refused as well.
            let _ = self.reread_if_due().await;
        } else if error.kind == BackendErrorKind::NotGranted {
            // What the account may read is part of what is decided over.
            let _ = self.refresh_if_due().await;
        } else if is_counted && error.may_tell_of_rows() {
            self.failures
                .count(session.principal(), self.host.monotonic());
        }
    }

    /// What the agent is told of a failure of the engine.
    fn explain_failure(
        &self,
        error: &BackendError,
        statement: &RewrittenStatement,
        question: Question<'_>,
        run: &mut Run,
    ) -> Rejection {
        let session = question.session;
        let forbidden = statement
            .estimate_refusal()
            .filter(|_| error.kind == BackendErrorKind::Forbidden);
        if let Some(rejection) = forbidden {
            run.report.policies = rejection.policies().to_vec();
            return rejection.clone();
        }
        // To send it again helps once somebody has mended the policies.
        let misfit = self.current.misfit();
        if let Some(misfit) = misfit.filter(|_| error.kind == BackendErrorKind::SchemaChanged) {
            return describe_misfit(misfit);
        }
        let refused = describe_failure(error, statement, session);
        if error.kind == BackendErrorKind::SchemaChanged {
            return self.wait_for_look(refused, &run.live);
        }
        // The text of a template is not the agent's.
        let is_told = refused.code() == Code::DatabaseRejected && session.template().is_none();
        let fault = error.fault.as_deref().filter(|_| is_told);
        let catalog = run.live.firewall.catalog();
        if let Some(lack) = fault.and_then(|fault| find_lack(fault, statement, catalog)) {
            return refused.with_message(format!("The database refused the statement: {lack}."));
        }
        let relations = || self.relations(session).unwrap_or_default();
        let asked = question.wording.full_text();
        // A change may assign what its author cannot see: the name of a type would tell of that.
        let fault = fault.filter(|_| statement.effect().only_reads());
        match fault.and_then(|fault| {
            describe_wrong_literal(
                fault,
                (refused.message(), asked),
                relations,
                catalog.search_path(),
            )
        }) {
            Some(told) => refused.with_message(told),
            None => self.name_constraint(refused, error, statement, &[session]),
        }
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
