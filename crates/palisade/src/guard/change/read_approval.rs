//! What a change reads and calls may need a person's approval. Then it is not even run to be looked at before: the preview, and whether
//! a statement fails, would tell what no one let it read.
//!
//! What is demanded of its writing alone waits until it is kept: the preview is what an approver looks at.

use std::collections::BTreeSet;

use super::decision::Decision;
use crate::{
    approval::{ApprovalRequest, BoundTo, GivenApproval, PendingApproval, Redemption, bind},
    audit::{ApprovalNote, ApprovalState},
    change::ChangeBody,
    code::Code,
    guard::{Guard, run::Run},
    policy::{ApprovalLevel, ReadingDemand},
    rejection::Rejection,
    session::Session,
    value::Params,
};

/// Statements of a change that may be run and taken back: made here alone, once what they read and call is approved.
pub(super) struct Rehearsable<'d>(&'d mut [Decision]);

impl<'d> Rehearsable<'d> {
    /// The statements, for the one run.
    pub(super) fn spent(self) -> &'d mut [Decision] {
        self.0
    }
}

impl Guard {
    /// The statements of a change that its proposer validates, once what they read and call is approved. An approval holds for this change
    /// within its time, however often it is looked at.
    ///
    /// # Errors
    /// `approval.required`; then the request waits, where it can.
    pub(super) fn ask_for_reading<'d>(
        &self,
        (id, body): (&str, &ChangeBody),
        proposer: &Session,
        decisions: &'d mut [Decision],
        noted: &mut Run,
    ) -> Result<Rehearsable<'d>, Rejection> {
        let Some(demand) = strictest_reading(decisions) else {
            return Ok(Rehearsable(decisions));
        };
        let refuse = |message: String| {
            Rejection::new(Code::ApprovalRequired, message).with_policies(demand.policies.clone())
        };
        let lacks_store = |why: &str| {
            refuse(format!(
                "what this change reads needs {} approval before it is run to be looked at, and there is no way to ask for one here{why}; \
                 leave out what has to be approved",
                whose(demand.level)
            ))
        };
        let Some(approvals) = &self.approvals else {
            return Err(lacks_store(""));
        };
        let request = self.reading_request((id, body), (&demand, decisions), proposer)?;
        let note = |id: &str, state, by| ApprovalNote {
            id: id.to_owned(),
            state,
            by,
        };
        let given = approvals
            .find_given(&request)
            .map_err(Rejection::internal)?;
        let redeemed = match given {
            Some(given) => Redemption::Approved(given),
            None => approvals.redeem(&request).map_err(Rejection::internal)?,
        };
        match redeemed {
            Redemption::Approved(given) => Ok(note_approval(decisions, &given)),
            Redemption::Pending(pending) => {
                noted.approval = Some(note(&pending.id, ApprovalState::Pending, None));
                let how = self.tell_how_to_approve(pending.level, &pending.id);
                let message = tell_pending(&pending, &how);
                noted.pending = Some(pending);
                Err(refuse(message))
            }
            Redemption::Rejected { id } => {
                noted.approval = Some(note(&id, ApprovalState::Rejected, None));
                Err(refuse(format!(
                    "a person rejected that this change reads what it reads ({id}), so it was not run"
                )))
            }
            Redemption::Unavailable(why) => Err(lacks_store(&format!(": {why}"))),
            Redemption::TooMany => Err(refuse(
                "too many of your requests wait for a person's approval; wait until some are approved or expire"
                    .to_owned(),
            )),
        }
    }

    /// The statements of a change that is looked at again, where what they read and call is approved by now. Whoever looks asks for nothing.
    ///
    /// # Errors
    /// `approval.required`.
    pub(super) fn require_reading<'d>(
        &self,
        (id, body): (&str, &ChangeBody),
        proposer: &Session,
        decisions: &'d mut [Decision],
    ) -> Result<Rehearsable<'d>, Rejection> {
        let Some(demand) = strictest_reading(decisions) else {
            return Ok(Rehearsable(decisions));
        };
        let request = self.reading_request((id, body), (&demand, decisions), proposer)?;
        let given = match &self.approvals {
            Some(approvals) => approvals
                .find_given(&request)
                .map_err(Rejection::internal)?,
            None => None,
        };
        match given {
            Some(given) => Ok(note_approval(decisions, &given)),
            None => Err(Rejection::new(
                Code::ApprovalRequired,
                "what this change reads needs an approval that it has not by now; its proposer validates it again, which asks for it",
            )
            .with_policies(demand.policies)),
        }
    }

    /// What a person is asked: to have the change run once and taken back, whoever looks. It is the same each time.
    fn reading_request(
        &self,
        (id, body): (&str, &ChangeBody),
        (demand, decisions): (&ReadingDemand, &[Decision]),
        proposer: &Session,
    ) -> Result<ApprovalRequest, Rejection> {
        let Some(first) = decisions.first() else {
            return Err(Rejection::internal("a change without statements"));
        };
        let spelled = body.statements.iter().map(|one| match one.params.as_str() {
            "" => one.sql.clone(),
            params => format!("{} -- {params}", one.sql),
        });
        let mut text = spelled.collect::<Vec<_>>().join(";\n");
        // What undoes a change or sets a table back is made of old values, which are no one's to read here.
        if let Some(undone) = &body.compensates {
            text = format!("-- undoes the change {undone}");
        } else if let Some(revert) = &body.reverts {
            text = format!("-- sets back the table {}", revert.table);
        }
        let firewall = &first.run.live.firewall;
        let binding = BoundTo {
            policy_version: firewall.policies().version(),
            connection: self.name.as_deref(),
            validates: Some(id),
            level: demand.level,
            policies: &demand.policies,
            limits: firewall.limits(),
            max_affected: body.max_affected_rows,
        };
        let relations: BTreeSet<&String> = decisions
            .iter()
            .flat_map(|one| &one.run.relations)
            .collect();
        Ok(ApprovalRequest {
            bound: bind(&text, &Params::None, proposer, binding),
            level: demand.level,
            principal: proposer.principal().to_string(),
            relations: relations.into_iter().cloned().collect(),
            now: self.host.unix_time(),
        })
    }
}

/// What is demanded of the reading of all statements together.
fn strictest_reading(decisions: &[Decision]) -> Option<ReadingDemand> {
    let demands = || {
        let all = decisions.iter().filter_map(|one| one.demand.as_ref());
        all.filter_map(|demand| demand.of_reading.as_ref())
    };
    let level = demands().map(|demand| demand.level).max()?;
    let policies: BTreeSet<&String> = demands().flat_map(|demand| &demand.policies).collect();
    Some(ReadingDemand {
        level,
        policies: policies.into_iter().cloned().collect(),
    })
}

fn note_approval<'d>(decisions: &'d mut [Decision], given: &GivenApproval) -> Rehearsable<'d> {
    for decision in decisions.iter_mut() {
        decision.run.approval = Some(ApprovalNote {
            id: given.id.clone(),
            state: ApprovalState::Used,
            by: Some(given.by.clone()),
        });
    }
    Rehearsable(decisions)
}

fn whose(level: ApprovalLevel) -> &'static str {
    match level {
        ApprovalLevel::Required => "a person's",
        ApprovalLevel::Operator => "an operator's",
    }
}

/// What is said of a request that waits; `how` says how a person approves it.
fn tell_pending(pending: &PendingApproval, how: &str) -> String {
    let (id, whose) = (&pending.id, whose(pending.level));
    match pending.is_out_of_band {
        true => format!(
            "what this change reads needs {whose} approval before it is run to be looked at, and nothing was run. \
             The request {id} waits: {}; then validate the change again",
            how
        ),
        false => format!(
            "what this change reads needs {whose} approval before it is run to be looked at, and nothing was run. \
             The request {id} waits in the server's memory, where nobody reaches it: send the statements by execute, \
             which asks the person at your client, or have the operator name a state file"
        ),
    }
}
