//! What stands behind the gate: a database that tells its schema and runs what was printed.

use std::future::Future;

use crate::guard::{backend_error::BackendError, ticket::Ticket};
use crate::{catalog::Catalog, dialect::Dialect, value::RowSink};

/// A database behind the gate: a driver and nothing else. It holds no policy; what it adds is the
/// engine's own locks (read-only mode, time-outs, authorizer).
///
/// A value is the database as it was when its catalog was read, and never changes: what is decided over
/// [`catalog`](Introspect::catalog) runs on that schema or not at all.
pub trait Backend: Introspect + Send + Sync {
    /// The dialect it runs.
    fn dialect(&self) -> Dialect;

    /// Opens `ticket` for the backend's catalog, runs the statement exactly as printed, and feeds its rows to `sink` until the
    /// sink breaks.
    ///
    /// In the same transaction, before it: where one of its [prechecks](crate::guard::OpenTicket::prechecks) gives a row, it is
    /// [not admitted](BackendError::not_admitted); where it [awaits an estimate](crate::rewrite::RewrittenStatement::awaits_estimate) or has
    /// caps on one, the engine's decides, by [`unless_admitted`](BackendError::unless_admitted).
    fn execute(
        &self,
        ticket: Ticket<'_>,
        sink: &mut (dyn RowSink + Send),
    ) -> impl Future<Output = Result<Completion, BackendError>> + Send;
}

/// What a statement has done besides giving rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// How many rows it changed; none for a statement that reads.
    pub affected: Option<u64>,
}

/// A database that tells its schema.
pub trait Introspect: Sized {
    /// What the database held when this value was made.
    fn catalog(&self) -> &Catalog;

    /// Whether it still holds that, by a question that costs little beside reading everything. A yes may
    /// overlook what statements would be refused for anyway.
    fn is_current(&self) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// The database as it is now, if that is something else.
    fn refreshed(&self) -> impl Future<Output = Result<Option<Self>, BackendError>> + Send;
}
