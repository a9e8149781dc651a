//! What a backend looks at before a statement runs, and the text that it gets after that.

use crate::{
    guard::{
        backend_error::{BackendError, BackendErrorKind},
        estimates::Estimates,
    },
    limits::Estimate,
    rewrite::{CascadeCount, Precheck},
};

/// A statement before it runs. [`first_check`](Self::first_check) leads to its text, check by check, all in the transaction of
/// the statement. A statement that runs a second time is looked at a second time.
///
/// The text to run is no part of it:
///
/// ```compile_fail,E0599
/// fn skip(checks: palisade::guard::Checks<'_>) -> &str {
///     checks.sql()
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Checks<'t> {
    sql: &'t str,
    estimates: Estimates<'t>,
    prechecks: &'t [Precheck],
    cascade_counts: &'t [CascadeCount],
    max_affected: u64,
}

impl<'t> Checks<'t> {
    pub(crate) fn new(
        sql: &'t str,
        estimates: Estimates<'t>,
        (prechecks, cascade_counts): (&'t [Precheck], &'t [CascadeCount]),
        max_affected: u64,
    ) -> Self {
        Self {
            sql,
            estimates,
            prechecks,
            cascade_counts,
            max_affected,
        }
    }

    /// The text, for the engine to compile.
    #[must_use]
    pub fn plan_text(&self) -> PlanText<'t> {
        PlanText(self.sql)
    }

    /// Whether the engine's estimates are wanted.
    #[must_use]
    pub fn want_estimate(&self) -> bool {
        self.estimates.are_wanted()
    }

    /// Whether a query must give no row before it. The transaction must see the same rows from then to the statement's end, or
    /// fail as [`BackendErrorKind::Conflict`].
    #[must_use]
    pub fn have_prechecks(&self) -> bool {
        !self.prechecks.is_empty()
    }

    /// Whether rows are counted that foreign keys change. The transaction must see the same rows, and the same time, from then
    /// to the statement's end.
    #[must_use]
    pub fn have_cascade_counts(&self) -> bool {
        !self.cascade_counts.is_empty()
    }

    /// What comes first.
    pub fn first_check(self) -> Check<'t> {
        if self.estimates.are_wanted() {
            Check::Estimate(EstimateCheck(self))
        } else {
            self.next_query()
        }
    }

    /// The next of the queries; the text after the last of them.
    fn next_query(self) -> Check<'t> {
        match (self.prechecks, self.cascade_counts) {
            ([precheck, prechecks @ ..], _) => Check::Precheck(RowCheck {
                precheck,
                rest: Self { prechecks, ..self },
            }),
            ([], [count, cascade_counts @ ..]) => Check::CascadeCount(CountCheck {
                count,
                rest: Self {
                    cascade_counts,
                    ..self
                },
            }),
            ([], []) => Check::Ready(ReadyText(self.sql)),
        }
    }
}

/// The text of a statement for the engine to compile, or to plan: neither runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanText<'t>(&'t str);

impl<'t> PlanText<'t> {
    /// For a call that compiles it, or compares it, and runs nothing.
    #[must_use]
    pub fn to_prepare(self) -> &'t str {
        self.0
    }

    /// After `words` that make of it a question for a plan, as `EXPLAIN`, or a cursor. They must not be such that run it, as
    /// `EXPLAIN ANALYZE`.
    #[must_use]
    pub fn put_after(self, words: &str) -> String {
        format!("{words} {}", self.0)
    }
}

/// The next thing to do before a statement runs.
#[derive(Debug)]
#[must_use = "a statement runs after its checks"]
pub enum Check<'t> {
    /// The engine estimates it.
    Estimate(EstimateCheck<'t>),
    /// A query must give no row.
    Precheck(RowCheck<'t>),
    /// Rows are counted that foreign keys change, which the engine does not count (MySQL and MariaDB).
    CascadeCount(CountCheck<'t>),
    /// Everything was looked at.
    Ready(ReadyText<'t>),
}

impl<'t> Check<'t> {
    /// The text, where nothing is left to look at.
    ///
    /// # Errors
    /// `Internal` if something is.
    pub fn ready(self) -> Result<ReadyText<'t>, BackendError> {
        let left = match self {
            Self::Ready(text) => return Ok(text),
            Self::Estimate(_) => "an estimate",
            Self::Precheck(_) => "a precheck",
            Self::CascadeCount(_) => "a count of rows",
        };
        Err(BackendError::second_lock(format!(
            "{left} was left out before the statement"
        )))
    }
}

/// The engine's estimate decides.
#[derive(Debug)]
pub struct EstimateCheck<'t>(Checks<'t>);

impl<'t> EstimateCheck<'t> {
    /// Goes on with what the engine estimates, for each plan of the statement. No plan is a plan of which nothing is known.
    ///
    /// # Errors
    /// `Cost` if one is above a cap, `Forbidden` if policies forbid it then.
    pub fn answer(self, plans: &[Estimate]) -> Result<Check<'t>, BackendError> {
        let unknown = [Estimate::default()];
        let plans = if plans.is_empty() { &unknown } else { plans };
        for estimate in plans {
            self.0.estimates.admit(*estimate)?;
        }
        Ok(self.0.next_query())
    }
}

/// Rows that are not admitted by policy as the statement would leave them, or that it would reach and may not.
///
/// It has one answer:
///
/// ```compile_fail,E0382
/// fn answer_twice(check: palisade::guard::RowCheck<'_>) {
///     let first = check.answer(true);
///     let second = check.answer(false);
/// }
/// ```
#[derive(Debug)]
pub struct RowCheck<'t> {
    precheck: &'t Precheck,
    rest: Checks<'t>,
}

impl<'t> RowCheck<'t> {
    /// The query.
    #[must_use]
    pub fn query(&self) -> &'t Precheck {
        self.precheck
    }

    /// Goes on, if the query gave no row.
    ///
    /// # Errors
    /// [`BackendError::violated`] if it gave one.
    pub fn answer(self, gave_row: bool) -> Result<Check<'t>, BackendError> {
        if gave_row {
            Err(BackendError::violated(self.precheck))
        } else {
            Ok(self.rest.next_query())
        }
    }
}

/// Rows that foreign keys change.
#[derive(Debug)]
pub struct CountCheck<'t> {
    count: &'t CascadeCount,
    rest: Checks<'t>,
}

impl<'t> CountCheck<'t> {
    /// What to count.
    #[must_use]
    pub fn query(&self) -> &'t CascadeCount {
        self.count
    }

    /// Goes on with how many rows there are.
    ///
    /// # Errors
    /// `AffectedRows` if they are more than the statement may change.
    pub fn answer(self, rows: u64) -> Result<Check<'t>, BackendError> {
        let most = self.rest.max_affected;
        if rows > most {
            return Err(BackendError::new(
                BackendErrorKind::AffectedRows,
                format!("{rows} rows, and at most {most}"),
            ));
        }
        Ok(self.rest.next_query())
    }
}

/// The text of a statement of which everything was looked at.
///
/// Other code cannot make one:
///
/// ```compile_fail,E0423
/// fn forge(sql: &str) -> palisade::guard::ReadyText<'_> {
///     palisade::guard::ReadyText(sql)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyText<'t>(&'t str);

impl<'t> ReadyText<'t> {
    /// The text to run.
    #[must_use]
    pub fn sql(self) -> &'t str {
        self.0
    }
}
