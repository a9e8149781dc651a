//! Raw parts of a decided statement, for embedders with drivers of their own.
//!
//! A [`Guard`](crate::guard::Guard) needs none of this. Each item here has duties, and nothing checks that they are done.

use std::sync::Arc;

use crate::{
    guard::{Checks, Estimates, Ticket},
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
/// | `estimates` | where they are wanted, ask the engine for its estimates first, and hand them to [`Estimates::admit`] |
/// | `max_affected` | roll back where more rows were changed |
///
/// [`checks`] leads through all but the last of them, in order. Rows go through a [`ScanSession`](crate::answer::ScanSession). The limits of time are in
/// [`limits`](RewrittenStatement::limits).
///
/// [`BackendError::violated`]: crate::guard::BackendError::violated
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
    /// What the engine's estimates may be, and whether policies have to be asked with them.
    pub estimates: Estimates<'s>,
    /// The most rows that it may change.
    pub max_affected: u64,
}

impl<'s> RawParts<'s> {
    /// A text before which nothing has to be looked at. What a [`Firewall`](crate::firewall::Firewall) decided has
    /// [`parts`] of its own.
    #[must_use]
    pub fn from_sql(sql: &'s str) -> Self {
        Self {
            sql,
            params: &[],
            prechecks: &[],
            cascade_counts: &[],
            estimates: Estimates::default(),
            max_affected: u64::MAX,
        }
    }
}

/// The parts of `statement`. Whoever runs them has the duties of [`RawParts`].
#[must_use]
pub fn parts(statement: &RewrittenStatement) -> RawParts<'_> {
    RawParts {
        sql: statement.text(),
        params: statement.params(),
        prechecks: statement.prechecks(),
        cascade_counts: statement.cascade_counts(),
        estimates: Estimates::from_statement(statement),
        max_affected: statement.max_affected(),
    }
}

/// The way to the text of `parts`, check by check. Where the parts are not those of a decided statement, neither is the text.
#[must_use]
pub fn checks<'s>(parts: &RawParts<'s>) -> Checks<'s> {
    Checks::new(
        parts.sql,
        parts.estimates,
        (parts.prechecks, parts.cascade_counts),
        parts.max_affected,
    )
}

/// A ticket for a [`Backend`](crate::guard::Backend) without a `Guard`.
///
/// Who calls it has to admit changes, scan what comes back, count failures and record, as a `Guard` does.
#[must_use]
pub fn ticket(statement: &Arc<RewrittenStatement>) -> Ticket {
    Ticket::issue(statement)
}
