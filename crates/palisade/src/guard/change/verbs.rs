//! The verbs: what may be done with a change, each a step of its life.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    Asking, ChangeCall, ChangeProposal, ChangeView, ChangedRows, CommitExpectation, Decision,
    MAX_CHANGE_STATEMENTS, Preview, PreviewedChange, Purpose, Role, ViewerStanding, decided_body,
    keep_statement, millis, proposer, require_step, viewer::came_by_the_same_door, wrong_state,
};
use crate::{
    audit::{ApprovalNote, ApprovalState},
    change::{
        ChangeBeginning, ChangeBody, ChangeEvent, ChangeRecord, ChangeState, LedgerEntry, Receipt,
        Step, Stepped, WrongState,
    },
    code::Code,
    guard::{BackendErrorKind, Guard, Refusal, reading::Reading as _, record::Became, run::Run},
    policy::ApprovalLevel,
    rejection::Rejection,
    session::Session,
};

/// How long after its time a change that left no receipt was not kept: servers end sessions of clients that are gone, and a commit
/// takes no longer.
const SETTLED: Duration = Duration::from_secs(120);

impl Guard {
    /// Keeps a change that is to be looked at: its statements are decided about, and nothing is run.
    ///
    /// # Errors
    /// What each statement would be refused with; `change.not-previewable` where it cannot be looked at first.
    pub async fn propose_change(
        &self,
        proposal: ChangeProposal<'_>,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Refusal> {
        let proposed = self.propose(proposal, call).await;
        proposed.map_err(|rejection| self.refusal(rejection))
    }

    async fn propose(
        &self,
        proposal: ChangeProposal<'_>,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Rejection> {
        let ChangeProposal {
            statements,
            reason,
            max_affected_rows,
        } = proposal;
        if statements.is_empty() || statements.len() > MAX_CHANGE_STATEMENTS {
            return Err(Rejection::new(
                Code::RequestInvalid,
                format!("a change has from 1 to {MAX_CHANGE_STATEMENTS} statements"),
            ));
        }
        let body = ChangeBody {
            statements: statements.iter().map(keep_statement).collect(),
            max_affected_rows: max_affected_rows.unwrap_or(u64::MAX),
            ..self.body(call.session, reason)
        };
        self.keep_proposal(body, call).await
    }

    /// A change of `session` that runs nothing yet.
    pub(super) fn body(&self, session: &Session, reason: Option<&str>) -> ChangeBody {
        ChangeBody {
            version: 1,
            principal: session.principal().to_string(),
            transport: session.transport().name().to_owned(),
            client: session.client().map(str::to_owned),
            connection: self.name.clone(),
            statements: Vec::new(),
            compensates: None,
            reverts: None,
            reason: reason.map(str::to_owned),
            tables: Vec::new(),
            writes: Vec::new(),
            sets_off: false,
            policy_version: String::new(),
            level: None,
            policies: Vec::new(),
            max_affected_rows: u64::MAX,
            preview: None,
            began: None,
            receipt: None,
        }
    }

    /// Decides about the statements of a change, and keeps it.
    pub(super) async fn keep_proposal(
        &self,
        body: ChangeBody,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Rejection> {
        let session = call.session;
        let asking = Asking::own(session);
        let store = self.change_store()?;
        let decisions = self.decide_change(&body, asking, call.limits, true).await?;
        for decision in &decisions {
            self.note_statement(&decision.sql, asking, &Became::Untried, &decision.run)?;
        }
        let body = decided_body(body, &decisions);
        let kept = store.propose(&body, self.host.unix_time());
        let kept = kept.map_err(Rejection::internal)?.ok_or_else(|| {
            Rejection::new(
                Code::LimitBusy,
                "too many of your changes wait, so this one was not proposed; list_changes shows them: commit or reject some, or wait until they expire",
            )
            .with_retry_after(WAITING)
        })?;
        Ok(self.view(kept, Role::Proposer, session))
    }

    /// Runs a change and takes it back, and tells what it does. Only its proposer may.
    ///
    /// # Errors
    /// What running it is refused with. The change stands where it stood.
    pub async fn validate_change(
        &self,
        id: &str,
        call: ChangeCall<'_>,
    ) -> Result<PreviewedChange, Refusal> {
        let mut run = self.begin_reading();
        let validated = self.validate(id, call, &mut run).await;
        self.end_looking(("validate_change", call.session), run, validated)
    }

    async fn validate(
        &self,
        id: &str,
        call: ChangeCall<'_>,
        noted: &mut Run,
    ) -> Result<PreviewedChange, Rejection> {
        let record = self.own_change(id, call.session)?;
        require_step(record.state, ChangeEvent::Validate)?;
        let session = call.session;
        let mut decisions = self.decide_own(&record.body, call, true).await?;
        note_decisions(&decisions, noted);
        let body = &record.body;
        let rehearsable = self.ask_for_reading((id, body), session, &mut decisions, noted)?;
        let (run, preview) = self
            .rehearse((rehearsable, body), Asking::own(session), call)
            .await?;
        self.require_inverse(&decisions, &run, session)?;
        let mut body = decided_body(record.body.clone(), &decisions);
        if let Some(first) = decisions.first() {
            body.preview = Some(self.mark(&run, &first.run.live)?);
        }
        let step = Step {
            body: Some(&body),
            ..self.step(id, ChangeEvent::Validate)
        };
        let record = self.take_step(step)?;
        Ok(PreviewedChange {
            view: self.view(record, Role::Proposer, call.session),
            preview: Some(preview),
            is_as_validated: true,
        })
    }

    /// A change, and what it does by now where it was validated and is not kept. For its proposer, and for whoever may approve it;
    /// rows are shown as to the latter's own queries.
    ///
    /// # Errors
    /// `change.unknown`; what running it is refused with.
    pub async fn inspect_change(
        &self,
        id: &str,
        call: ChangeCall<'_>,
    ) -> Result<PreviewedChange, Refusal> {
        let mut run = self.begin_reading();
        let inspected = self.inspect(id, call, &mut run).await;
        self.end_looking(("inspect_change", call.session), run, inspected)
    }

    async fn inspect(
        &self,
        id: &str,
        call: ChangeCall<'_>,
        noted: &mut Run,
    ) -> Result<PreviewedChange, Rejection> {
        let (record, role) = self.find_change(id, call.session)?;
        let record = self.settle(record).await?;
        match (record.state, &record.body.preview) {
            // What was looked at once and is not kept: it conflicted, or could not be tried.
            (ChangeState::Validated | ChangeState::Approved | ChangeState::Proposed, Some(_)) => {}
            (
                ChangeState::Validated
                | ChangeState::Approved
                | ChangeState::Proposed
                | ChangeState::Rejected
                | ChangeState::Committing
                | ChangeState::Committed
                | ChangeState::Failed
                | ChangeState::Expired
                | ChangeState::Compensated,
                _,
            ) => {
                // What is run counts by its statements.
                self.admit_reading(call.session, noted)?;
                return Ok(PreviewedChange {
                    view: self.view(record, role, call.session),
                    preview: None,
                    is_as_validated: true,
                });
            }
        }
        let proposer = proposer(&record.body)?;
        let asking = Asking::about(&record.body, &proposer, call.session);
        let decisions = self.decide_change(&record.body, asking, call.limits, true);
        let mut decisions = decisions.await?;
        note_decisions(&decisions, noted);
        let rehearsable = self.require_reading((id, &record.body), &proposer, &mut decisions)?;
        let (run, preview) = self
            .rehearse((rehearsable, &record.body), asking, call)
            .await?;
        let is_as_validated = record.state != ChangeState::Proposed
            && self.is_bound(&record.body, &decisions)
            && self
                .expectation(&record.body, &decisions)?
                .is_met(&run.difference);
        let mut view = self.view(record, role, call.session);
        if !is_as_validated {
            view.next_valid_actions
                .retain(|action| !matches!(*action, "approve_change" | "commit_change"));
        }
        if require_shown(&preview).is_err() {
            let next = &mut view.next_valid_actions;
            next.retain(|action| *action != "approve_change");
        }
        Ok(PreviewedChange {
            view,
            preview: Some(preview),
            is_as_validated,
        })
    }

    /// The changes on this connection that `session` proposed or may approve, newest first.
    ///
    /// # Errors
    /// `internal` if they cannot be read.
    pub fn list_changes(&self, session: &Session) -> Result<Vec<ChangeView>, Refusal> {
        let run = self.begin_reading();
        let listed = self.admit_reading(session, &run).and_then(|()| {
            let all = self.change_store()?.list(self.host.unix_time());
            all.map_err(Rejection::internal)
        });
        let listed = listed.map(|listed| {
            let known = listed.into_iter().filter_map(|record| {
                let role = self.role(&record.body, session)?;
                Some(self.view(record, role, session))
            });
            known.collect::<Vec<ChangeView>>()
        });
        self.end_reading(("list_changes", session), run, listed)
    }

    /// Approves what the preview called `preview` of a change does, as another principal than its proposer. It is run once more: what
    /// it does by now must be that.
    ///
    /// # Errors
    /// `change.own-approval`, `change.conflict`, `approval.required` where an operator is demanded.
    pub async fn approve_change(
        &self,
        (id, preview): (&str, &str),
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Refusal> {
        let approved = self.approve((id, preview), call).await;
        approved.map_err(|rejection| self.refusal(rejection))
    }

    async fn approve(
        &self,
        (id, preview): (&str, &str),
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Rejection> {
        let (record, role) = self.find_change(id, call.session)?;
        if role == Role::Proposer {
            return Err(Rejection::from(Code::ChangeOwnApproval));
        }
        require_step(record.state, ChangeEvent::Approve)?;
        match record.body.approval_level() {
            Some(ApprovalLevel::Required) => {}
            Some(ApprovalLevel::Operator) => return Err(self.wait_for_operator(id)),
            None => {
                return Err(Rejection::new(
                    Code::ChangeWrongState,
                    "this change needs no approval: its proposer commits it",
                ));
            }
        }
        if record.body.preview_id() != Some(preview) {
            return Err(other_preview());
        }
        let proposer = proposer(&record.body)?;
        let asking = Asking::about(&record.body, &proposer, call.session);
        let decisions = self.decide_change(&record.body, asking, call.limits, true);
        let mut decisions = decisions.await?;
        let rehearsable = self.require_reading((id, &record.body), &proposer, &mut decisions)?;
        let (run, shown) = self
            .rehearse((rehearsable, &record.body), asking, call)
            .await?;
        require_shown(&shown)?;
        if !self.is_bound(&record.body, &decisions)
            || !self
                .expectation(&record.body, &decisions)?
                .is_met(&run.difference)
        {
            return Err(conflict());
        }
        let by = call.session.principal().to_string();
        self.note_decision(id, call.session, (ApprovalState::Approved, &by))?;
        let record = self.take_step(Step {
            preview: Some(preview),
            by: Some(&by),
            ..self.step(id, ChangeEvent::Approve)
        })?;
        Ok(self.view(record, Role::Approver, call.session))
    }

    /// Rejects a change for good: as its proposer, who withdraws it, or as somebody who may approve it.
    ///
    /// # Errors
    /// `change.unknown`, `change.wrong-state`.
    pub fn reject_change(&self, id: &str, session: &Session) -> Result<ChangeView, Refusal> {
        let reject = || {
            let (record, role) = self.find_change(id, session)?;
            require_step(record.state, ChangeEvent::Reject)?;
            let by = session.principal().to_string();
            self.note_decision(id, session, (ApprovalState::Rejected, &by))?;
            let record = self.take_step(Step {
                by: Some(&by),
                ..self.step(id, ChangeEvent::Reject)
            })?;
            Ok(self.view(record, role, session))
        };
        reject().map_err(|rejection| self.refusal(rejection))
    }

    /// Runs a change for good, if it does what was looked at, and, where an approval is demanded, what was approved. Only its proposer may.
    /// A change that is kept already gives its receipt again.
    ///
    /// # Errors
    /// `approval.required` while it waits; `change.conflict` if it does something else by now, with what it does. Nothing is changed then.
    pub async fn commit_change(
        &self,
        id: &str,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Refusal> {
        let rejection = match self.commit(id, call).await {
            Ok(view) => {
                // So that the moment after it can be asked for.
                let _ = self.keep_label().await;
                return Ok(view);
            }
            Err(rejection) => rejection,
        };
        // What it does by now says more than that it is something else. Where that cannot be told, the conflict is.
        let fresh = match rejection.code() == Code::ChangeConflict {
            true => {
                let mut run = self.begin_reading();
                self.inspect(id, call, &mut run).await.ok()
            }
            false => None,
        };
        if let Some(looked) = &fresh {
            self.spend_reading(call.session, Some(looked.as_given()), Duration::ZERO);
        }
        Err(Refusal {
            fresh: fresh
                .filter(|looked| looked.preview.is_some())
                .map(Box::new),
            ..self.refusal(rejection)
        })
    }

    async fn commit(&self, id: &str, call: ChangeCall<'_>) -> Result<ChangeView, Rejection> {
        let record = self.own_change(id, call.session)?;
        let record = self.settle(record).await?;
        let is_kept = matches!(
            record.state,
            ChangeState::Committed | ChangeState::Compensated
        );
        if is_kept && record.body.receipt.is_some() {
            // The answer was lost, or is asked for once more.
            return Ok(self.view(record, Role::Proposer, call.session));
        }
        let event = match (record.body.approval_level(), record.state) {
            (Some(level), ChangeState::Validated) => return Err(self.wait_for_approval(id, level)),
            (Some(_), _) => ChangeEvent::BeginApproved,
            (None, _) => ChangeEvent::BeginUnapproved,
        };
        require_step(record.state, event)?;
        self.require_undoable(&record.body)?;
        let mut decisions = self.decide_own(&record.body, call, false).await?;
        // Other policies, another schema, or a stricter demand: what was looked at was of another decision.
        if !self.is_bound(&record.body, &decisions) {
            return Err(Rejection::new(
                Code::ChangeConflict,
                "the policies or the schema are others than when this change was validated; nothing was changed",
            ));
        }
        let expected = self.expect_preview(&record.body, &decisions)?;
        let live = Arc::clone(&expected.live);
        let expected = Arc::new(CommitExpectation {
            begun_receipt: Some((id.to_owned(), self.receipt(&record, &decisions, &live)?)),
            ..expected
        });
        let entry = live.backend.find_receipt(id).await;
        let began = ChangeBeginning {
            at_ms: millis(self.host.unix_time()),
            has_ledger: match entry {
                Ok(LedgerEntry::Absent) => true,
                // A receipt of a change that was not kept is none of ours; that there is no answer tells nothing.
                Ok(LedgerEntry::NoLedger | LedgerEntry::Found(_)) | Err(_) => false,
            },
        };
        for decision in &mut decisions {
            decision.run.approval = record.decided_by.clone().map(|by| ApprovalNote {
                id: id.to_owned(),
                state: ApprovalState::Used,
                by: Some(by),
            });
        }
        // On the disk before anything runs: of several that commit, one is first.
        let preview = record.body.preview_id();
        let beginning = ChangeBody {
            began: Some(began),
            ..record.body.clone()
        };
        self.take_step(Step {
            preview,
            body: Some(&beginning),
            ..self.step(id, event)
        })?;
        let purpose = Purpose::Keep(Arc::clone(&expected) as Arc<dyn super::Expectation>);
        let asking = Asking::own(call.session);
        let as_proposer = (asking, ViewerStanding::Proposer);
        let ran = self
            .run_change(&mut decisions, as_proposer, purpose, call.cancel)
            .await;
        let mut body = None;
        let (event, refused) = match ran {
            Ok(run) if run.is_kept => {
                body = Some(ChangeBody {
                    receipt: expected.take_receipt(),
                    ..beginning.clone()
                });
                (ChangeEvent::Keep, None)
            }
            Ok(_) => (ChangeEvent::Conflict, Some(conflict())),
            Err((rejection, kind)) => match what_follows(kind, event) {
                Some(next) => {
                    // As it stood before: what was approved is signed.
                    body = is_put_back(next).then(|| record.body.clone());
                    (next, Some(rejection))
                }
                // Its outcome is not known, and it stays so.
                None => return Err(rejection),
            },
        };
        if let Some(rejection) = &refused
            && event == ChangeEvent::Conflict
        {
            let refusal = self.refusal(rejection.clone());
            for decision in &decisions {
                let became = Became::Refused(&refusal);
                self.note_statement(&decision.sql, asking, &became, &decision.run)?;
            }
        }
        let record = self.take_step(Step {
            body: body.as_ref(),
            ..self.step(id, event)
        })?;
        match refused {
            Some(rejection) => {
                let limits = call.limits.unwrap_or(live.firewall.limits());
                let asked = (call.session, limits);
                Err(self.name_referring(rejection, &decisions, asked).await)
            }
            None => Ok(self.view(record, Role::Proposer, call.session)),
        }
    }

    /// A change as it stands. Of a change that was being kept when something fell, the database has the receipt, if it was kept. If the
    /// database would have it, and has not long after, it was not kept.
    pub(super) async fn settle(&self, record: ChangeRecord) -> Result<ChangeRecord, Rejection> {
        let (ChangeState::Committing, Some(began)) = (record.state, record.body.began) else {
            return Ok(record);
        };
        let live = self.current.get();
        let entry = live.backend.find_receipt(&record.id).await;
        let Ok(entry) = entry else {
            return Ok(record);
        };
        match entry {
            LedgerEntry::Found(text) if began.has_ledger => {
                let receipt: Receipt = serde_json::from_str(&text)
                    .map_err(|error| Rejection::internal(error.to_string()))?;
                let body = ChangeBody {
                    receipt: Some(receipt),
                    ..record.body.clone()
                };
                self.settle_by(&record.id, (ChangeEvent::Keep, Some(&body)))
            }
            LedgerEntry::Absent if began.has_ledger => {
                let patience = live
                    .firewall
                    .limits()
                    .statement_timeout()
                    .saturating_add(SETTLED);
                let since = millis(self.host.unix_time()).saturating_sub(began.at_ms);
                match Duration::from_millis(since) > patience {
                    true => self.settle_by(&record.id, (ChangeEvent::Release, None)),
                    false => Ok(record),
                }
            }
            LedgerEntry::Found(_) | LedgerEntry::Absent | LedgerEntry::NoLedger => Ok(record),
        }
    }

    /// Takes a step that another one may have taken meanwhile.
    fn settle_by(
        &self,
        id: &str,
        (event, body): (ChangeEvent, Option<&ChangeBody>),
    ) -> Result<ChangeRecord, Rejection> {
        let step = Step {
            body,
            ..self.step(id, event)
        };
        match self.take_step(step) {
            Ok(record) => Ok(record),
            Err(why) => {
                let found = self.change_store()?.find(id, self.host.unix_time());
                found.map_err(Rejection::internal)?.ok_or(why)
            }
        }
    }

    /// A change of `session`'s own.
    fn own_change(&self, id: &str, session: &Session) -> Result<ChangeRecord, Rejection> {
        match self.find_change(id, session)? {
            (record, Role::Proposer) => Ok(record),
            (_, Role::Approver) => Err(Rejection::new(
                Code::ChangeWrongState,
                "only who proposed a change validates and commits it",
            )),
        }
    }

    /// The decisions about a change of the caller's own. It came by the same door, so that it is decided alike.
    async fn decide_own(
        &self,
        body: &ChangeBody,
        call: ChangeCall<'_>,
        is_dry: bool,
    ) -> Result<Vec<Decision>, Rejection> {
        let session = call.session;
        if !came_by_the_same_door(body, session) {
            return Err(Rejection::new(
                Code::ChangeWrongState,
                "this change was proposed by another client or over another transport; propose it anew",
            ));
        }
        let asking = Asking::own(session);
        self.decide_change(body, asking, call.limits, is_dry).await
    }

    /// Whether a change would be decided now as it was when it was validated.
    fn is_bound(&self, body: &ChangeBody, decisions: &[Decision]) -> bool {
        let now = decided_body(body.clone(), decisions);
        now.policy_version == body.policy_version
            && now.level == body.level
            && now.policies == body.policies
            && now.tables == body.tables
    }

    fn expectation(
        &self,
        body: &ChangeBody,
        decisions: &[Decision],
    ) -> Result<Arc<dyn super::Expectation>, Rejection> {
        Ok(Arc::new(self.expect_preview(body, decisions)?))
    }

    fn expect_preview(
        &self,
        body: &ChangeBody,
        decisions: &[Decision],
    ) -> Result<CommitExpectation, Rejection> {
        let (Some(preview), Some(first)) = (&body.preview, decisions.first()) else {
            return Err(Rejection::internal(
                "a change that was validated has no preview",
            ));
        };
        Ok(CommitExpectation {
            store: Arc::clone(self.change_store()?),
            live: Arc::clone(&first.run.live),
            generated: preview.generated.iter().cloned().collect(),
            digest: preview.digest.clone(),
            inverse: first.inverse.clone(),
            begun_receipt: None,
            written_receipt: Mutex::default(),
        })
    }

    /// A step that says no more than what happens.
    fn step<'s>(&self, id: &'s str, event: ChangeEvent) -> Step<'s> {
        Step {
            id,
            event,
            preview: None,
            body: None,
            by: None,
            now: self.host.unix_time(),
        }
    }

    fn take_step(&self, step: Step<'_>) -> Result<ChangeRecord, Rejection> {
        let event = step.event;
        match self
            .change_store()?
            .step(step)
            .map_err(Rejection::internal)?
        {
            Stepped::Taken(record) => Ok(*record),
            Stepped::WrongState(state) => Err(wrong_state(&WrongState { state, event })),
            Stepped::OtherPreview => Err(other_preview()),
            Stepped::Unknown => Err(Rejection::from(Code::ChangeUnknown)),
        }
    }

    pub(super) fn wait_for_approval(&self, id: &str, level: ApprovalLevel) -> Rejection {
        match level {
            ApprovalLevel::Required => Rejection::new(
                Code::ApprovalRequired,
                format!(
                    "the change {id} is pending: it waits for somebody else's approval, by approve_change or `palisade approve {id}`. Then commit it"
                ),
            ),
            ApprovalLevel::Operator => self.wait_for_operator(id),
        }
    }

    fn wait_for_operator(&self, id: &str) -> Rejection {
        let lacks = self
            .changes
            .as_ref()
            .and_then(|store| store.lacks_operator());
        let message = match lacks {
            None => format!(
                "the change {id} is pending: {}. No tool gives that approval",
                self.tell_how_to_approve(ApprovalLevel::Operator, id)
            ),
            Some(why) => format!(
                "the change {id} needs an operator's approval, and there is no way to give it here: {why}"
            ),
        };
        Rejection::new(Code::ApprovalRequired, message)
    }

    /// Records what somebody says of a change, before it counts.
    fn note_decision(
        &self,
        id: &str,
        session: &Session,
        (state, by): (ApprovalState, &str),
    ) -> Result<(), Rejection> {
        let note = ApprovalNote {
            id: id.to_owned(),
            state,
            by: Some(by.to_owned()),
        };
        self.record_approval(session, note)
            .map_err(|refusal| refusal.rejection)
    }
}

/// Notes what the statements of a change read and write, and by which policies.
fn note_decisions(decisions: &[Decision], noted: &mut Run) {
    for decision in decisions {
        noted.note_look(&decision.statement);
    }
}

/// After how long a place for another change may be free.
const WAITING: Duration = Duration::from_secs(60);

/// Whether a change stands where it stood before it was to be kept.
fn is_put_back(event: ChangeEvent) -> bool {
    matches!(event, ChangeEvent::PutBack | ChangeEvent::PutBackApproved)
}

/// Where a failure takes a change that was being kept, and was begun by `begun`; nowhere if it is not known whether it was kept.
fn what_follows(kind: BackendErrorKind, begun: ChangeEvent) -> Option<ChangeEvent> {
    match kind {
        BackendErrorKind::OutcomeUnknown => None,
        // What was looked at is not what there is.
        BackendErrorKind::SchemaChanged => Some(ChangeEvent::Release),
        BackendErrorKind::Timeout
        | BackendErrorKind::Cancelled
        | BackendErrorKind::Conflict
        | BackendErrorKind::Locked
        | BackendErrorKind::Busy
        | BackendErrorKind::NoMoment
        | BackendErrorKind::Unavailable => Some(match begun == ChangeEvent::BeginApproved {
            true => ChangeEvent::PutBackApproved,
            false => ChangeEvent::PutBack,
        }),
        BackendErrorKind::Resource
        | BackendErrorKind::Rejected
        | BackendErrorKind::NameNotFound
        | BackendErrorKind::NotGranted
        | BackendErrorKind::SecondLock
        | BackendErrorKind::Constraint
        | BackendErrorKind::Cost
        | BackendErrorKind::AffectedRows
        | BackendErrorKind::Forbidden
        | BackendErrorKind::NotAdmitted
        | BackendErrorKind::NotPreviewable
        | BackendErrorKind::ReadOnly
        | BackendErrorKind::NotTaken => Some(ChangeEvent::Fail),
    }
}

/// Refuses to have approved what is not shown to who would approve it.
fn require_shown(preview: &Preview) -> Result<(), Rejection> {
    let is_withheld = |(_, rows): &&(String, ChangedRows)| *rows == ChangedRows::NotShown;
    let withheld = preview.counted.iter().filter(is_withheld);
    let tables: Vec<&str> = withheld.map(|(table, _)| table.as_str()).collect();
    match tables.as_slice() {
        [] => Ok(()),
        [_, ..] => Err(Rejection::new(
            Code::PolicyNoPermit,
            format!(
                "policy keeps from you which rows of {} the change writes; somebody to whom they are shown can approve it",
                tables.join(", ")
            ),
        )),
    }
}

fn conflict() -> Rejection {
    Rejection::from(Code::ChangeConflict)
}

fn other_preview() -> Rejection {
    Rejection::new(
        Code::ChangeConflict,
        "the change has another preview than this one; inspect it, and name the preview that you looked at",
    )
}
