//! The statement that may be run of what a request asks for.

use crate::{
    code::Code,
    firewall::Decided,
    guard::{Backend, Guard, candidate::Made, live::Live, question::Question, run::Run},
    policy::ApprovalDemand,
    rejection::Rejection,
    rewrite::{Effect, RewrittenStatement},
};

impl Guard {
    /// The statement that may be run, decided over the schema as it is by now, and the approval that it needs first.
    pub(in crate::guard) async fn permit(
        &self,
        question: Question<'_>,
        run: &mut Run,
    ) -> Result<(Box<RewrittenStatement>, Option<ApprovalDemand>), Rejection> {
        let mut decided = decide(&run.live, question)?;
        if is_of_names(&decided)
            // What cannot be looked at now is as it was; whoever operates it is told by other ways.
            && let Ok(true) = self.refresh_if_due().await
        {
            run.live = self.current.get();
            decided = decide(&run.live, question)?;
        }
        run.candidate = self.candidate.as_ref().and_then(|candidate| {
            let made = match &decided {
                Decided::Allow(statement) => Made::Allowed(statement),
                Decided::Pending(statement, _) => Made::Waiting(statement),
                Decided::Reject(_) => Made::Refused,
            };
            candidate.compare(&run.live.firewall, made, question, self.host.unix_time())
        });
        let (statement, demand) = match decided {
            Decided::Allow(statement) => (statement, None),
            Decided::Pending(statement, demand) => (statement, Some(demand)),
            Decided::Reject(rejection) => {
                run.report.policies = rejection.policies().to_vec();
                return Err(rejection);
            }
        };
        if !statement.effect().only_reads() && !run.allows_changes {
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

/// Decides about `question` as `live` does, without asking for an approval.
pub(in crate::guard) fn decide(
    live: &Live<dyn Backend>,
    question: Question<'_>,
) -> Result<Decided, Rejection> {
    let (decided, served) = (live.firewall.catalog(), live.backend.catalog());
    if live.backend.dialect() != decided.dialect() || served.version() != decided.version() {
        return Err(Rejection::internal(
            "the backend is of another catalog than the firewall",
        ));
    }
    let Question {
        wording,
        params,
        session,
        limits,
    } = question;
    live.firewall
        .decide_with_approval(wording, params, session, limits)
        .map_err(|error| Rejection::internal(error.to_string()))
}
