//! What would become of a statement: decided and recorded, and not run.

use std::sync::Arc;

use crate::{
    answer::{Notice, OutputColumn},
    code::Code,
    guard::{
        Guard, Refusal, Request, past::read_as_of, record::Became, request_text::RequestText,
        run::Run,
    },
    policy::ApprovalLevel,
    rejection::Rejection,
    rewrite::Effect,
};

/// What would become of a statement that is permitted. It holds nothing of filters, of the text that would run, or of what does not
/// exist for the principal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DryRun {
    /// The effect on the database that it would have.
    pub effect: Effect,
    /// The columns of its answer.
    pub columns: Vec<OutputColumn>,
    /// What its answer would say of masked columns.
    pub notices: Vec<Notice>,
    /// Whether something is decided only when it runs: by the rows that it changes, or by what the engine estimates.
    pub is_decided_later: bool,
}

impl Guard {
    /// Decides about a request and records it as a dry run. Nothing is run, and no row is looked at.
    ///
    /// # Errors
    /// The refusal that the request itself would get before it runs.
    pub async fn dry_run(&self, request: Request<'_>) -> Result<DryRun, Refusal> {
        let start = self.host.monotonic();
        let Request {
            asked,
            session,
            limits,
            allows_changes,
            is_trial: _,
            room: _,
            cancel: _,
            as_of,
        } = request;
        let mut run = Run::new(self.current.get(), allows_changes, start);
        run.is_dry = true;
        let firewall = Arc::clone(&run.live.firewall);
        let limits = limits.unwrap_or(firewall.limits());
        let session = self.now(&firewall, session);
        let past = as_of.map(|moment| self.look_up(moment)).transpose();
        let session = read_as_of(session, past.as_ref().ok());
        let text = RequestText::read(asked, &firewall, &session);
        let question = text.question(&session, limits);
        let readable = past.map(drop).and_then(|()| text.require_text());
        let result = match readable {
            Ok(()) => self.permit(question, &mut run).await,
            Err(rejection) => Err(rejection),
        };
        // No person is asked for what is not run.
        let result = match result {
            Ok((statement, None)) => Ok(statement),
            Ok((_, Some(demand))) => {
                run.report.policies.clone_from(&demand.policies);
                let message = match demand.level {
                    ApprovalLevel::Required => "this needs a person's approval before it runs",
                    ApprovalLevel::Operator => "this needs an operator's approval before it runs",
                };
                Err(Rejection::new(Code::ApprovalRequired, message).with_policies(demand.policies))
            }
            Err(rejection) => Err(rejection),
        };
        run.report.duration = self.host.monotonic().saturating_sub(start);
        let result = result
            .map(|statement| {
                let effect = statement.effect();
                let plan = statement.scan_plan();
                let changes = match effect {
                    Effect::Write | Effect::Define => true,
                    Effect::Read | Effect::Explain | Effect::Nothing => false,
                };
                DryRun {
                    effect,
                    columns: plan.columns.clone(),
                    notices: plan.statement_notices(),
                    is_decided_later: changes
                        || statement.awaits_estimate()
                        || statement.estimate_caps().is_some(),
                }
            })
            .map_err(|rejection| self.refusal(rejection));
        let became = match &result {
            Ok(_) => Became::Untried,
            Err(refusal) => Became::Refused(refusal),
        };
        let record = self.record(
            question.wording.full_text(),
            question.session,
            &became,
            &run,
        );
        if let Err(why) = self.audit.record(&record) {
            // What is not recorded is not answered.
            return Err(self.refusal(Rejection::internal(why)));
        }
        result
    }
}
