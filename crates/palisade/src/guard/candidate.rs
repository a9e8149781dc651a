//! Policies that are tried beside those that decide: what they would do is recorded, and nothing more.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    audit::{CandidateDecision, CandidateNote},
    code::Code,
    firewall::{Decided, Firewall},
    guard::question::Question,
    policy::PolicySources,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
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
        question: Question<'_>,
        now: Duration,
    ) -> Option<CandidateNote> {
        let Question {
            wording,
            params,
            session,
            limits,
        } = question;
        let unknown = || Some(note(CandidateDecision::Unknown, None, &[]));
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
            match firewall.decide_with_approval(wording, params, session, limits) {
                Ok(decided) => decided,
                Err(_) => return unknown(),
            }
        } else {
            let code = Code::PolicyNoPermit;
            Decided::Reject(Rejection::from(code))
        };
        match (made, &decided) {
            (Made::Allowed(_) | Made::Waiting(_), Decided::Reject(rejection)) => Some(note(
                CandidateDecision::Reject,
                Some(rejection.code()),
                rejection.policies(),
            )),
            (Made::Allowed(_), Decided::Pending(statement, _)) => {
                Some(note(CandidateDecision::Wait, None, statement.policies()))
            }
            (
                Made::Allowed(statement) | Made::Waiting(statement),
                Decided::Allow(other) | Decided::Pending(other, _),
            ) => (statement.text() != other.text())
                .then(|| note(CandidateDecision::Otherwise, None, other.policies())),
            (Made::Refused, Decided::Allow(statement)) => {
                Some(note(CandidateDecision::Allow, None, statement.policies()))
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

fn note(decision: CandidateDecision, code: Option<Code>, policies: &[String]) -> CandidateNote {
    CandidateNote {
        decision,
        code,
        policies: policies.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::{
        catalog::{Catalog, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass},
        dialect::Dialect,
        limits::Limits,
        session::Principal,
        syntax::Wording,
        value::Params,
    };

    const ALL: &str = "permit(principal, action, resource);";
    const NONE: &str = r#"permit(principal, action == Action::"call", resource);"#;
    const FILTER: &str = r#"permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::main::t) unless { resource has id && resource.id == 1 };"#;
    const BEFORE_2026: &str = r#"permit(principal, action, resource)
when { context has time && context.time < datetime("2026-01-01") };"#;
    const WAITS: &str = r#"permit(principal, action in [Action::"select", Action::"see", Action::"read", Action::"call"], resource);
@id("asked") @approval("required")
permit(principal, action == Action::"select", resource == Table::"main.t");"#;

    const SECONDS_OF_2026: u64 = 1_767_225_600;

    fn sources(text: &str) -> PolicySources {
        PolicySources::from_cedar("p.cedar", text)
    }

    fn firewall(text: &str) -> Firewall {
        let column = ColumnDef {
            name: "id".to_owned(),
            type_name: "INTEGER".to_owned(),
            class: TypeClass::Integer,
            nullable: true,
            collation: "BINARY".to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        };
        let def = RelationDef::new("main", "t", RelationKind::Table, vec![column]);
        let catalog = Catalog::builder(Dialect::Sqlite).relation(def);
        let built = Firewall::builder(catalog.build().unwrap(), sources(text)).build();
        built.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn what_a_candidate_would_do_otherwise_is_noted() {
        let (before, after) = (SECONDS_OF_2026 - 1, SECONDS_OF_2026);
        for (enforced, candidate, now, expected) in [
            (ALL, ALL, after, None),
            (ALL, NONE, after, Some(CandidateDecision::Reject)),
            (ALL, FILTER, after, Some(CandidateDecision::Otherwise)),
            (ALL, WAITS, after, Some(CandidateDecision::Wait)),
            (WAITS, ALL, after, None),
            (WAITS, NONE, after, Some(CandidateDecision::Reject)),
            (NONE, WAITS, after, None),
            (ALL, "permit(", after, Some(CandidateDecision::Unknown)),
            (ALL, BEFORE_2026, before, None),
            (ALL, BEFORE_2026, after, Some(CandidateDecision::Reject)),
            (NONE, NONE, after, None),
            (NONE, ALL, after, Some(CandidateDecision::Allow)),
            (NONE, BEFORE_2026, before, Some(CandidateDecision::Allow)),
            (NONE, BEFORE_2026, after, None),
        ] {
            let enforced_by = firewall(enforced);
            let session = Session::new(Principal::new("Agent", "a"));
            let limits = Limits::default();
            let wording = Wording::from("SELECT id FROM t");
            let decided = enforced_by
                .decide_with_approval(wording, &Params::None, &session, &limits)
                .unwrap();
            let made = match &decided {
                Decided::Allow(statement) => Made::Allowed(statement),
                Decided::Pending(statement, _) => Made::Waiting(statement),
                Decided::Reject(_) => Made::Refused,
            };
            let noted = Candidate::new(sources(candidate)).compare(
                &enforced_by,
                made,
                Question {
                    wording,
                    params: &Params::None,
                    session: &session,
                    limits: &limits,
                },
                Duration::from_secs(now),
            );
            let noted = noted.map(|note| note.decision);
            assert_eq!(noted, expected, "{enforced} {candidate}");
        }
    }

    /// Whether a template may be run is decided before its statement.
    #[test]
    fn a_template_that_a_candidate_lets_nobody_run_is_noted() {
        let no_run = format!("{ALL}\nforbid(principal, action == Action::\"run\", resource);");
        let enforced = firewall(ALL);
        let limits = Limits::default();
        let wording = Wording::from("SELECT id FROM t");
        let session = Session::new(Principal::new("Agent", "a"));
        let running = session.clone().running("all", Vec::new());
        for (session, policies, is_known, expected) in [
            (&running, ALL, true, None),
            (&running, &no_run, true, Some(Code::PolicyNoPermit)),
            (&running, ALL, false, Some(Code::PolicyNoPermit)),
            (&session, &no_run, true, None),
        ] {
            let decided = enforced.decide_with_approval(wording, &Params::None, session, &limits);
            let Decided::Allow(statement) = decided.unwrap() else {
                panic!("refused")
            };
            let template =
                "[[template]]\nname = \"all\"\ndescription = \"d\"\nsql = \"SELECT id FROM t\"\n";
            let candidate = PolicySources {
                templates: is_known.then(|| template.to_owned()),
                ..sources(policies)
            };
            let noted = Candidate::new(candidate).compare(
                &enforced,
                Made::Allowed(&statement),
                Question {
                    wording,
                    params: &Params::None,
                    session,
                    limits: &limits,
                },
                Duration::ZERO,
            );
            assert_eq!(noted.and_then(|note| note.code), expected, "{policies}");
        }
    }
}
