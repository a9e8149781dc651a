//! Why a database did not answer, and what an agent may know of that.

use std::time::Duration;

use crate::{
    code::Code,
    guard::{constraint::ViolatedConstraint, engine_fault::EngineFault},
    limits::{Estimate, EstimateCaps},
    rejection::Rejection,
    rewrite::{Precheck, RewrittenStatement, Violation},
    session::Session,
};

/// Why a database did not answer. The detail is the operator's: an engine's message can hold data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {detail}")]
pub struct BackendError {
    /// What kind of failure.
    pub kind: BackendErrorKind,
    /// The engine's message, for the operator's log only.
    pub detail: String,
    /// What the engine found wrong with the statement, where it said so.
    pub fault: Option<Box<EngineFault>>,
    /// The constraint that refused a change, where the engine said which.
    pub violated: Option<Box<ViolatedConstraint>>,
}

impl BackendError {
    /// Whether an engine gave a statement up for what rows hold, as far as one can tell. What it finds wrong while it prepares a
    /// statement follows from its text and the schema.
    pub(in crate::guard) fn may_tell_of_rows(&self) -> bool {
        use BackendErrorKind as Kind;
        match self.kind {
            // To be given up by its caller in time is what a time-out is.
            Kind::Rejected
            | Kind::NameNotFound
            | Kind::Resource
            | Kind::Timeout
            | Kind::Cancelled => (self.fault.as_ref()).is_none_or(|fault| !fault.is_of_preparation),
            // Keys and conditions that refuse a change tell what they are about by themselves.
            Kind::Constraint
            | Kind::NotGranted
            | Kind::SecondLock
            | Kind::Conflict
            | Kind::Locked
            | Kind::Cost
            | Kind::AffectedRows
            | Kind::Forbidden
            | Kind::NotAdmitted
            | Kind::NotPreviewable
            | Kind::ReadOnly
            | Kind::SchemaChanged
            | Kind::NotTaken
            | Kind::Busy
            | Kind::NoMoment
            | Kind::Unavailable
            | Kind::OutcomeUnknown => false,
        }
    }

    /// Refuses a statement that changes anything: for a backend that only reads.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn unless_reading(statement: &RewrittenStatement) -> Result<(), Self> {
        match statement.effect().only_reads() {
            true => Ok(()),
            false => Err(Self::new(
                BackendErrorKind::ReadOnly,
                "the backend was opened for reading only",
            )),
        }
    }

    /// Refuses a statement that the engine expects to be more than `caps` allow. What it does not tell is more.
    ///
    /// # Errors
    /// `Cost`.
    pub fn unless_within(caps: EstimateCaps, estimate: Estimate) -> Result<(), Self> {
        for (cap, found, what) in [
            (caps.cost, estimate.cost, "cost"),
            (caps.rows, estimate.rows, "rows"),
        ] {
            #[expect(
                clippy::cast_precision_loss,
                reason = "an estimate is none to the unit"
            )]
            let is_within = match (cap, found) {
                (None, _) => true,
                (Some(cap), Some(found)) => found <= cap as f64,
                (Some(_), None) => false,
            };
            if !is_within {
                let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
                let cap = cap.unwrap_or_default();
                return Err(Self::new(
                    BackendErrorKind::Cost,
                    format!("the engine estimates {found} for {what}, and at most {cap} may be"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses a statement with this estimate, if the estimate is above the statement's caps or policies forbid it.
    /// A backend asks in the transaction in which the statement runs, where the statement or its caps want an estimate.
    ///
    /// # Errors
    /// `Cost`, or `Forbidden`.
    pub fn unless_admitted(statement: &RewrittenStatement, estimate: Estimate) -> Result<(), Self> {
        if let Some(caps) = statement.estimate_caps() {
            Self::unless_within(caps, estimate)?;
        }
        if statement.admits(estimate.cost, estimate.rows) {
            Ok(())
        } else {
            Err(Self::new(
                BackendErrorKind::Forbidden,
                "policies forbid what the engine expects of the statement",
            ))
        }
    }

    /// A failure of this kind.
    pub fn new(kind: BackendErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            fault: None,
            violated: None,
        }
    }

    /// Adds which constraint refused the change.
    #[must_use]
    pub fn of_constraint(mut self, violated: Option<ViolatedConstraint>) -> Self {
        self.violated = violated.map(Box::new);
        self
    }

    /// Adds what the engine found wrong with the statement.
    #[must_use]
    pub fn with_fault(mut self, fault: EngineFault) -> Self {
        self.fault = Some(Box::new(fault));
        self
    }

    /// The database, or what it says of the statement, contradicts what was decided.
    pub fn second_lock(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::SecondLock, detail)
    }

    /// The sink did not take every row that a change gives, and the change was taken back.
    #[must_use]
    pub fn not_taken() -> Self {
        Self::new(
            BackendErrorKind::NotTaken,
            "not every row that the change gives was taken",
        )
    }

    /// A change cannot be shown, and nothing was run. `why` names nothing: what is written can be hidden from whoever asks.
    #[must_use]
    pub fn not_previewable(why: &str) -> Self {
        let detail = format!("this change cannot be looked at before it is kept: {why}");
        Self::new(BackendErrorKind::NotPreviewable, detail)
    }

    /// This precheck of the statement gave a row.
    #[must_use]
    pub fn violated(precheck: &Precheck) -> Self {
        match precheck.violation() {
            Violation::NotAdmitted => Self::not_admitted(),
            Violation::OutOfReach => Self::new(
                BackendErrorKind::Constraint,
                "a row that may not be changed conflicts with a new row, or depends on a row that would be changed",
            ),
        }
    }

    /// A row that policy does not admit was found.
    #[must_use]
    pub fn not_admitted() -> Self {
        Self::new(
            BackendErrorKind::NotAdmitted,
            "a row is not one that policy admits as the statement would leave it",
        )
    }

    /// The server did not say whether it kept a change.
    #[must_use]
    pub fn outcome_unknown() -> Self {
        Self::new(
            BackendErrorKind::OutcomeUnknown,
            "the server did not say whether it kept the change",
        )
    }

    /// Others write what the statement writes, and did not come to an end in time.
    pub fn locked(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Locked, detail)
    }

    /// As many statements run or wait already as may.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Busy, detail)
    }

    /// The database is there, and none of its moments can be noted.
    pub fn no_moment(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::NoMoment, detail)
    }

    /// There is no server, or no connection.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Unavailable, detail)
    }

    /// The database's schema is another than the decision's.
    pub fn schema_changed(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::SchemaChanged, detail)
    }

    /// The statement or its parameters are wrong.
    pub fn rejected(detail: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Rejected, detail)
    }

    /// The caller gave up on the statement, and it changed nothing.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(BackendErrorKind::Cancelled, "the caller gave up")
    }

    /// Time is up by our own clock.
    #[must_use]
    pub fn out_of_time() -> Self {
        Self::new(
            BackendErrorKind::Timeout,
            "the statement ran out of time by our clock",
        )
    }
}

/// The kinds of failure an agent can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendErrorKind {
    /// The statement ran out of time.
    Timeout,
    /// The caller gave up, and the statement was ended.
    Cancelled,
    /// The engine's limit on size or memory.
    Resource,
    /// The engine refused the statement: a type, a value, an arithmetic error.
    Rejected,
    /// The engine found no object for a name that the catalog has. Whether the schema changed is to be looked at.
    NameNotFound,
    /// The account that we log in as lacks a privilege on what policy permits.
    NotGranted,
    /// The engine's second lock refused what the firewall had permitted: an incident.
    SecondLock,
    /// A constraint of a table refused a change, and nothing was changed.
    Constraint,
    /// Another transaction changed or held what the statement looks at, and nothing was changed: it may be sent again.
    Conflict,
    /// Others hold what the statement needs, and did not give it up in time. Nothing was changed: it may be sent again.
    Locked,
    /// The engine expects more of the statement than it may cost; it was not run.
    Cost,
    /// The statement would have changed more rows than it may, and nothing was changed.
    AffectedRows,
    /// Policies forbid the statement, knowing what the engine expects of it; it was not run.
    Forbidden,
    /// Policy does not admit a row as the statement would leave it, and nothing was changed.
    NotAdmitted,
    /// The backend was opened for reading only.
    ReadOnly,
    /// The database is not of the schema any more that the statement was decided over; nothing was
    /// answered, and nothing was changed.
    SchemaChanged,
    /// What the change would do cannot be told, so it was not run. The detail is our own, and names nothing.
    NotPreviewable,
    /// Rows that a change gives were not taken, so the change was taken back.
    NotTaken,
    /// The server was lost while it kept a change: the outcome is unknown.
    OutcomeUnknown,
    /// As many statements run or wait already as may; it was not run.
    Busy,
    /// The database is there, and none of its moments can be noted, as the history of its tables stands.
    NoMoment,
    /// No connection, or a broken database.
    Unavailable,
}

/// After how long a statement may be sent again for which there was no connection, or which waited for others' writes in vain.
const BUSY: Duration = Duration::from_secs(1);

/// What an agent may know of a database's failure, in our words: its kind, and of a mistake in the statement what it is about.
/// The text of a template is not the agent's: nothing of it is quoted.
pub(in crate::guard) fn describe_failure(
    error: &BackendError,
    statement: &RewrittenStatement,
    session: &Session,
) -> Rejection {
    // What only reads waits for nothing that it would write.
    if error.kind == BackendErrorKind::Locked && statement.effect().only_reads() {
        return Rejection::from(Code::DatabaseConflict).with_operator_detail(error.detail.clone());
    }
    if error.kind == BackendErrorKind::AffectedRows {
        let told = format!(
            "the statement would change more than {} rows, which is its limit here, so nothing was changed",
            statement.max_affected()
        );
        return Rejection::new(Code::LimitAffectedRows, told)
            .with_operator_detail(error.detail.clone());
    }
    match error.kind == BackendErrorKind::Rejected || error.kind == BackendErrorKind::NameNotFound {
        true => {
            let message = describe_fault(error.fault.as_deref(), statement, session);
            Rejection::new(Code::DatabaseRejected, message)
                .with_operator_detail(error.detail.clone())
                .with_recorded_detail(error.fault.as_ref().map(|fault| fault.recorded()))
        }
        false => describe_kind(error),
    }
}

/// That the schema changed so that the policies do not fit it. Why is the operator's to know: it names what there is.
pub(in crate::guard) fn describe_misfit(why: String) -> Rejection {
    let told =
        "the policies do not fit the database any more, so no statement runs; tell the operator";
    Rejection::new(Code::PolicyEvaluationFailed, told).with_operator_detail(why)
}

/// As [`describe_failure`], where no statement of an agent's failed.
pub(in crate::guard) fn describe_kind(error: &BackendError) -> Rejection {
    let code = match error.kind {
        BackendErrorKind::Timeout => Code::LimitTime,
        BackendErrorKind::Cancelled => Code::LimitCancelled,
        BackendErrorKind::Resource => Code::LimitResource,
        BackendErrorKind::Rejected | BackendErrorKind::NameNotFound => Code::DatabaseRejected,
        BackendErrorKind::NotGranted => Code::DatabaseNotGranted,
        BackendErrorKind::SecondLock => Code::Internal,
        BackendErrorKind::Constraint => Code::DatabaseConstraint,
        BackendErrorKind::Conflict => Code::DatabaseConflict,
        BackendErrorKind::Locked => {
            return Rejection::from(Code::ChangeBusy)
                .with_retry_after(BUSY)
                .with_operator_detail(error.detail.clone());
        }
        BackendErrorKind::Cost => Code::LimitCost,
        BackendErrorKind::AffectedRows => Code::LimitAffectedRows,
        BackendErrorKind::Forbidden => Code::PolicyForbidden,
        BackendErrorKind::NotAdmitted => {
            let told = "a row that the statement reaches would be outside of what policy admits, so nothing was changed";
            return Rejection::new(Code::WriteRowNotAdmitted, told);
        }
        BackendErrorKind::ReadOnly => Code::StatementNotAllowed,
        BackendErrorKind::SchemaChanged => Code::DatabaseSchemaChanged,
        BackendErrorKind::NotTaken => {
            let told = "the change returns more rows or bytes than may be sent, so nothing was changed; \
                        change fewer rows at a time or return fewer columns";
            return Rejection::new(Code::LimitResource, told);
        }
        BackendErrorKind::NotPreviewable => {
            return Rejection::new(Code::ChangeNotPreviewable, error.detail.clone());
        }
        BackendErrorKind::OutcomeUnknown => Code::DatabaseOutcomeUnknown,
        BackendErrorKind::Busy => {
            return Rejection::from(Code::LimitBusy)
                .with_retry_after(BUSY)
                .with_operator_detail(error.detail.clone());
        }
        BackendErrorKind::NoMoment => {
            let told = "no moment of the database can be noted or read now, as its history stands; the operator is told why";
            return Rejection::new(Code::HistoryNotKept, told)
                .with_operator_detail(error.detail.clone());
        }
        BackendErrorKind::Unavailable => Code::DatabaseUnavailable,
    };
    // Why a session or its server is gone: no statement was worked on that could be quoted.
    let is_gone = error.kind == BackendErrorKind::Unavailable;
    let recorded = match &error.fault {
        Some(fault) => Some(fault.recorded()),
        None => is_gone.then(|| error.detail.clone()),
    };
    Rejection::from(code)
        .with_operator_detail(error.detail.clone())
        .with_recorded_detail(recorded)
}

/// What is said of a mistake. Over rows that a filter hides, a failure that came while they were worked on tells nothing but
/// that it is one. The engine's own words are for those from whom nothing of the statement's relations is withheld.
fn describe_fault(
    fault: Option<&EngineFault>,
    statement: &RewrittenStatement,
    session: &Session,
) -> String {
    let Some(fault) = fault else {
        return Code::DatabaseRejected.summary().to_owned();
    };
    if statement.is_unrestricted() && session.template().is_none() {
        fault.describe_whole(statement.text())
    } else if fault.is_of_names_alone() && session.template().is_none() {
        fault.describe_with_message()
    } else if fault.is_of_preparation || !statement.may_fail_over_filters() {
        fault.describe()
    } else {
        Code::DatabaseRejected.summary().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_say_why_a_database_is_gone_and_quote_no_other_failure() {
        let why = "57P01 terminating connection due to administrator command";
        let gone = describe_kind(&BackendError::unavailable(why));
        assert_eq!(gone.recorded_detail(), Some(why));
        let quoting = BackendError::new(BackendErrorKind::Resource, "54000 of 'a value'");
        assert_eq!(describe_kind(&quoting).recorded_detail(), None);
    }

    #[test]
    fn an_estimate_is_within_caps_that_it_does_not_exceed() {
        let caps = |cost, rows| EstimateCaps { cost, rows };
        let estimate = |cost, rows| Estimate { cost, rows };
        for (caps, estimate, told) in [
            (caps(None, None), estimate(None, None), None),
            (caps(None, None), estimate(Some(1e9), Some(1e9)), None),
            (caps(Some(10), None), estimate(Some(10.0), None), None),
            (
                caps(Some(10), None),
                estimate(Some(10.5), None),
                Some("cost"),
            ),
            (
                caps(Some(10), None),
                estimate(None, Some(1.0)),
                Some("cost"),
            ),
            (caps(None, Some(10)), estimate(None, Some(10.0)), None),
            (
                caps(None, Some(10)),
                estimate(Some(1.0), Some(10.1)),
                Some("rows"),
            ),
            (
                caps(None, Some(10)),
                estimate(Some(1.0), None),
                Some("rows"),
            ),
            (
                caps(Some(5), Some(10)),
                estimate(Some(5.0), Some(10.0)),
                None,
            ),
        ] {
            let found = BackendError::unless_within(caps, estimate).err();
            let kind = found.as_ref().map(|error| error.kind);
            assert_eq!(
                kind,
                told.map(|_| BackendErrorKind::Cost),
                "{caps:?} {estimate:?}"
            );
            let detail = found.map(|error| error.detail).unwrap_or_default();
            let told = told.unwrap_or_default();
            assert!(detail.contains(told), "{detail}");
        }
    }
}
