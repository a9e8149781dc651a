//! What needs a person's approval: asked for, used up, and confirmed by the agent's own client.

use crate::{
    approval::{ApprovalRequest, BoundTo, Confirmation, PendingApproval, Redemption, bind},
    audit::{ApprovalNote, ApprovalState},
    code::Code,
    guard::{Guard, Refusal, question::Question, run::Run},
    policy::{ApprovalDemand, ApprovalLevel},
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
};

impl Guard {
    /// Lets a statement through that a person approved, which uses the approval up.
    ///
    /// # Errors
    /// `approval.required`; then the request waits, where it can.
    pub(in crate::guard) fn require_approval(
        &self,
        demand: &ApprovalDemand,
        statement: &RewrittenStatement,
        question: Question<'_>,
        run: &mut Run,
    ) -> Result<(), Rejection> {
        let refuse = |message: String| {
            Rejection::new(Code::ApprovalRequired, message).with_policies(demand.policies.clone())
        };
        // What is tried for a moment is sent again for all its time, and then uses the approval.
        if run.is_trial {
            return Err(Rejection::new(
                Code::LimitTime,
                "a statement that needs an approval is not tried first",
            ));
        }
        let Some(approvals) = &self.approvals else {
            run.report.policies.clone_from(&demand.policies);
            return Err(refuse(
                "this needs a person's approval, and there is no way to ask for one here"
                    .to_owned(),
            ));
        };
        let binding = BoundTo {
            policy_version: run.live.firewall.policies().version(),
            connection: self.name.as_deref(),
            validates: None,
            level: demand.level,
            policies: &demand.policies,
            limits: statement.limits(),
            max_affected: statement.max_affected(),
        };
        let request = ApprovalRequest {
            bound: bind(
                question.wording.full_text(),
                question.params,
                question.session,
                binding,
            ),
            level: demand.level,
            principal: question.session.principal().to_string(),
            relations: run.relations.clone(),
            now: self.host.unix_time(),
        };
        let redeemed = approvals.redeem(&request).map_err(Rejection::internal)?;
        let note = |id: &str, state, by| ApprovalNote {
            id: id.to_owned(),
            state,
            by,
        };
        let rejection = match redeemed {
            Redemption::Approved(given) => {
                run.approval = Some(note(&given.id, ApprovalState::Used, Some(given.by)));
                return Ok(());
            }
            Redemption::Pending(mut pending) => {
                run.approval = Some(note(&pending.id, ApprovalState::Pending, None));
                // Who says how a person approves it has a way for that.
                pending.is_out_of_band |= self.approval_instruction.is_some();
                let message = self.tell_pending(&pending);
                run.pending = Some(pending);
                refuse(message)
            }
            Redemption::Rejected { id } => {
                run.approval = Some(note(&id, ApprovalState::Rejected, None));
                Rejection::new(
                    Code::ApprovalRejected,
                    format!("a person rejected this request ({id}), so it was not run"),
                )
                .with_policies(demand.policies.clone())
            }
            Redemption::Unavailable(why) => refuse(format!(
                "this needs a person's approval, and there is no way to ask for one here: {why}"
            )),
            Redemption::TooMany => refuse(
                "too many of your requests wait for a person's approval; wait until some are approved or expire"
                    .to_owned(),
            ),
        };
        run.report.policies.clone_from(&demand.policies);
        Err(rejection)
    }

    /// Approves `pending`, as a person said in the client of `session`. Sending the same call again runs it once.
    ///
    /// Where an operator's approval is demanded, nothing that a client says counts.
    ///
    /// # Errors
    /// `approval.required` where it does not count or no longer waits; `internal` if it cannot be recorded.
    pub fn confirm(&self, pending: &PendingApproval, session: &Session) -> Result<(), Refusal> {
        let refuse =
            |message: String| Refusal::new(Rejection::new(Code::ApprovalRequired, message));
        let Some(approvals) = &self.approvals else {
            return Err(refuse(
                "there is no way to approve anything here".to_owned(),
            ));
        };
        let principal = session.principal().to_string();
        // Recorded first: what cannot be recorded is not approved.
        self.note_answer(pending, session, ApprovalState::Approved)?;
        let now = self.host.unix_time();
        let confirmed = approvals.confirm(&pending.id, &principal, now);
        match confirmed.map_err(|why| self.refusal(Rejection::internal(why)))? {
            Confirmation::Approved => Ok(()),
            Confirmation::NotPending => Err(refuse(format!(
                "the request {} no longer waits; send the call again to ask anew",
                pending.id
            ))),
            Confirmation::NeedsOperator => Err(Refusal {
                pending: Some(Box::new(pending.clone())),
                ..refuse(self.tell_pending(pending))
            }),
        }
    }

    /// Whether `pending` still waits for a person. That it does not is no approval: sending the same call again tells what became of it.
    ///
    /// # Errors
    /// `internal` if that cannot be read.
    pub fn waits(&self, pending: &PendingApproval, session: &Session) -> Result<bool, Refusal> {
        let Some(approvals) = &self.approvals else {
            return Ok(false);
        };
        let principal = session.principal().to_string();
        let waits = approvals.waits(&pending.id, &principal, self.host.unix_time());
        waits.map_err(|why| self.refusal(Rejection::internal(why)))
    }

    /// Records that the client of `session` did not approve `pending`, which goes on to wait.
    ///
    /// # Errors
    /// `internal` if it cannot be recorded.
    pub fn decline(&self, pending: &PendingApproval, session: &Session) -> Result<(), Refusal> {
        self.note_answer(pending, session, ApprovalState::Declined)
    }

    fn note_answer(
        &self,
        pending: &PendingApproval,
        session: &Session,
        state: ApprovalState,
    ) -> Result<(), Refusal> {
        let note = ApprovalNote {
            id: pending.id.clone(),
            state,
            by: Some("the agent's client".to_owned()),
        };
        self.record_approval(session, note)
    }

    /// How a person approves the request called `id`, as a clause: what the host says, or what runs the command line.
    #[must_use]
    pub fn tell_how_to_approve(&self, level: ApprovalLevel, id: &str) -> String {
        match &self.approval_instruction {
            Some(instruction) => instruction.replace("{id}", id),
            None => tell_command(level, id),
        }
    }

    /// What an agent is told of a request that waits.
    fn tell_pending(&self, pending: &PendingApproval) -> String {
        let whose = match pending.level {
            ApprovalLevel::Required => "a person's",
            ApprovalLevel::Operator => "an operator's",
        };
        let id = &pending.id;
        match pending.is_out_of_band {
            true => format!(
                "this needs {whose} approval, and was not run. The request {id} waits: {}; then send the same call again",
                self.tell_how_to_approve(pending.level, id)
            ),
            false => format!(
                "this needs {whose} approval, and was not run. The request {id} waits for the person at your client, and nobody else can approve it here"
            ),
        }
    }
}

/// Who runs what, so that a request is approved.
fn tell_command(level: ApprovalLevel, id: &str) -> String {
    match level {
        ApprovalLevel::Required => {
            format!("a person runs `palisade approve {id}` (with the server's `--config`)")
        }
        ApprovalLevel::Operator => format!(
            "an operator runs `palisade approve {id}` with `--key-file FILE` and the server's `--config`"
        ),
    }
}
