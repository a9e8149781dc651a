//! Policies that are tried beside those that decide: what they would do is recorded, and nothing more.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    audit::CandidateNote,
    code::Code,
    firewall::{Decided, Firewall},
    limits::Limits,
    policy::PolicySources,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
    syntax::Wording,
    value::Params,
};

/// Policies that decide nothing yet.
pub(in crate::guard) struct Candidate {
    sources: PolicySources,
    /// Over the catalog of the firewall that decides; made anew where that is another.
    over: Mutex<Option<Arc<Firewall>>>,
}

/// What was decided about a statement.
#[derive(Clone, Copy)]
pub(in crate::guard) enum Made<'s> {
    /// It may run.
    Allowed(&'s RewrittenStatement),
    /// It may run once a person has approved it.
    Waiting(&'s RewrittenStatement),
    /// It was refused.
    Refused,
}

impl Candidate {
    pub(in crate::guard) fn new(sources: PolicySources) -> Self {
        Self {
            sources,
            over: Mutex::new(None),
        }
    }

    /// What the candidate makes of a statement, where that is not what was `made` of it. `now` is the time of the request.
    pub(in crate::guard) fn compare(
        &self,
        enforced: &Firewall,
        made: Made<'_>,
        (wording, params): (Wording<'_>, &Params),
        (session, now): (&Session, Duration),
        limits: &Limits,
    ) -> Option<CandidateNote> {
        let unknown = || Some(note("unknown", None, &[]));
        let Some(firewall) = self.over(enforced) else {
            return unknown();
        };
        let timed;
        let session = match session.time() {
            None if firewall.policies().looks_at_time() => {
                timed = session.clone().at(now);
                &timed
            }
            None | Some(_) => session,
        };
        let decided = if may_run_template(&firewall, session) {
            match firewall.check_pending(wording, params, session, limits) {
                Ok(decided) => decided,
                Err(_) => return unknown(),
            }
        } else {
            let code = Code::PolicyNoPermit;
            Decided::Reject(Rejection::new(code, code.summary()))
        };
        match (made, &decided) {
            (Made::Allowed(_) | Made::Waiting(_), Decided::Reject(rejection)) => {
                Some(note("reject", Some(rejection.code()), rejection.policies()))
            }
            (Made::Allowed(_), Decided::Pending(statement, _)) => {
                Some(note("wait", None, statement.policies()))
            }
            (
                Made::Allowed(statement) | Made::Waiting(statement),
                Decided::Allow(other) | Decided::Pending(other, _),
            ) => (statement.text() != other.text())
                .then(|| note("otherwise", None, other.policies())),
            (Made::Refused, Decided::Allow(statement)) => {
                Some(note("allow", None, statement.policies()))
            }
            (Made::Refused, Decided::Pending(_, _) | Decided::Reject(_)) => None,
        }
    }

    /// The candidate over the catalog of `enforced`; none if it does not load there.
    fn over(&self, enforced: &Firewall) -> Option<Arc<Firewall>> {
        let version = enforced.catalog().version();
        // A poisoned lock guards a finished value; the panic was elsewhere.
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(firewall) = over.as_ref()
            && firewall.catalog().version() == version
        {
            return Some(Arc::clone(firewall));
        }
        let made = enforced.renewed(enforced.catalog().clone(), self.sources.clone());
        *over = made.ok().map(Arc::new);
        over.clone()
    }
}

/// Whether the template that the session runs, if any, may be run. That is decided before its statement.
fn may_run_template(firewall: &Firewall, session: &Session) -> bool {
    session.template().is_none_or(|template| {
        let known = firewall.templates(session);
        known.is_ok_and(|known| known.iter().any(|one| one.name == template))
    })
}

fn note(decision: &'static str, code: Option<Code>, policies: &[String]) -> CandidateNote {
    CandidateNote {
        decision,
        code,
        policies: policies.to_vec(),
    }
}
