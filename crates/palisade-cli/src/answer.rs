//! A statement that is asked about, and what became of it.

use std::time::Duration;

use palisade::{
    answer::{Envelope, Notice},
    code::Code,
    error::Error,
    firewall::Decision,
    guard::Refusal,
    rejection::Rejection,
    session::Session,
    value::Params,
};
use serde_json::value::RawValue;

use crate::{exit::Exit, explain::Explained};

/// One statement.
#[derive(Debug)]
pub(crate) struct Request {
    /// The text.
    pub(crate) sql: String,
    /// Its parameters.
    pub(crate) params: Params,
    /// Who asks.
    pub(crate) session: Session,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Answer {
    /// What the caller calls the statement, as it wrote it.
    pub(crate) id: Option<Box<RawValue>>,
    /// The outcome.
    pub(crate) verdict: Verdict,
    /// The text that was, or may be, run.
    pub(crate) rewritten: Option<String>,
    /// Ids of the determining policies.
    pub(crate) policies: Vec<String>,
    /// From the text to the answer.
    pub(crate) duration: Duration,
    /// How the decision came about, where that was asked for.
    pub(crate) explained: Option<Box<Explained>>,
}

/// An outcome.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It was run.
    Rows(Envelope),
    /// It may be run; what its answer would say of masked columns that it uses.
    Permitted(Vec<Notice>),
    /// It may not, or could not.
    Refused(Refusal),
}

/// Something that answers requests.
pub(crate) trait Answerer {
    /// Answers `request`, whatever it is.
    fn answer(&self, request: &Request) -> Answer;
}

impl Answer {
    /// The answer to a request that is not understood.
    pub(crate) fn invalid(code: Code, message: impl Into<String>) -> Self {
        Self::refused(Rejection::new(code, message))
    }

    /// A refusal alone.
    pub(crate) fn refused(rejection: Rejection) -> Self {
        Self::of_refusal(Refusal::new(rejection))
    }

    /// The same, on its way out.
    pub(crate) fn of_refusal(refusal: Refusal) -> Self {
        Self {
            id: None,
            rewritten: None,
            policies: refusal.rejection.policies().to_vec(),
            duration: Duration::ZERO,
            explained: None,
            verdict: Verdict::Refused(refusal),
        }
    }

    /// The answer that a decision alone makes.
    pub(crate) fn decided(decision: Result<Decision, Error>) -> Self {
        match decision {
            Ok(Decision::Allow(statement)) => Self {
                id: None,
                verdict: Verdict::Permitted(statement.scan_plan().statement_notices()),
                rewritten: Some(palisade::danger::parts(&statement).sql.to_owned()),
                policies: statement.policies().to_vec(),
                duration: Duration::ZERO,
                explained: None,
            },
            Ok(Decision::Reject(rejection)) => Self::refused(rejection),
            Err(error) => Self::refused(Rejection::internal(error.to_string())),
        }
    }

    /// The exit code of a command that gives this answer alone.
    pub(crate) fn exit(&self) -> Exit {
        match &self.verdict {
            Verdict::Rows(_) | Verdict::Permitted(_) => Exit::Permitted,
            Verdict::Refused(refusal) => Exit::of_refusal(refusal.rejection.code()),
        }
    }
}
