//! Raw parts of a decided statement, for embedders with drivers of their own.
//!
//! A [`Guard`](crate::guard::Guard) needs none of this. Each item here has duties, and nothing checks that they are done.

use std::sync::Arc;

use crate::{
    guard::Ticket,
    limits::EstimateCaps,
    rewrite::{CascadeCount, Precheck, RewrittenStatement},
    value::Value,
};

/// What a driver needs of a statement. Its duties, all in one transaction:
///
/// | part | duty |
/// |---|---|
/// | `sql`, `params` | run exactly this text, once, with these values, over the catalog of the decision |
/// | `prechecks` | run each before the statement; where one gives a row, change nothing and say so by [`BackendError::violated`] |
/// | `cascade_counts` | count the rows that foreign keys change, and add them to those of the statement |
/// | `estimate_caps`, `awaits_estimate` | ask the engine for its estimates first, and hand them to [`BackendError::unless_admitted`] |
/// | `max_affected` | roll back where more rows were changed |
///
/// Rows go through a [`ScanSession`](crate::answer::ScanSession). The limits of time are in
/// [`limits`](RewrittenStatement::limits).
///
/// [`BackendError::violated`]: crate::guard::BackendError::violated
/// [`BackendError::unless_admitted`]: crate::guard::BackendError::unless_admitted
#[derive(Debug, Clone, Copy)]
pub struct RawParts<'s> {
    /// The text.
    pub sql: &'s str,
    /// The values of its parameters, the first to the first.
    pub params: &'s [Value],
    /// Queries that must give no row before it.
    pub prechecks: &'s [Precheck],
    /// Queries for rows that foreign keys follow.
    pub cascade_counts: &'s [CascadeCount],
    /// What the engine's estimates may be.
    pub estimate_caps: Option<EstimateCaps>,
    /// Whether policies have to be asked with the engine's estimates.
    pub awaits_estimate: bool,
    /// The most rows that it may change.
    pub max_affected: u64,
}

/// The parts of `statement`. Whoever runs them has the duties of [`RawParts`].
#[must_use]
pub fn parts(statement: &RewrittenStatement) -> RawParts<'_> {
    RawParts {
        sql: statement.text(),
        params: statement.params(),
        prechecks: statement.prechecks(),
        cascade_counts: statement.cascade_counts(),
        estimate_caps: statement.estimate_caps(),
        awaits_estimate: statement.awaits_estimate(),
        max_affected: statement.max_affected(),
    }
}

/// A ticket for a [`Backend`](crate::guard::Backend) without a `Guard`.
///
/// Who calls it has to admit changes, scan what comes back, count failures and record, as a `Guard` does.
#[must_use]
pub fn ticket(statement: &Arc<RewrittenStatement>) -> Ticket {
    Ticket::issue(statement)
}
