//! What stands behind the gate: a database that tells its schema and runs what was printed.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::guard::{
    backend_error::{BackendError, BackendErrorKind},
    change::{ChangeEnd, ChangeOrder},
    ticket::Ticket,
};
use crate::{
    catalog::{Catalog, Companion, Relation},
    change::LedgerEntry,
    dialect::Dialect,
    past::{HistoryOrder, Label, LabelStanding},
    value::{RowSink, Value},
};

/// What a backend gives later.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// A database behind the gate: a driver and nothing else. It holds no policy; what it adds is the
/// engine's own locks (read-only mode, time-outs, authorizer).
///
/// A value is the database as it was when its catalog was read, and never changes: what is decided over
/// [`catalog`](Self::catalog) runs on that schema or not at all.
///
/// The trait is object-safe, so that a program may choose the engine when it runs.
pub trait Backend: Send + Sync + 'static {
    /// The dialect it runs.
    fn dialect(&self) -> Dialect;

    /// What the database held when this value was made.
    fn catalog(&self) -> &Catalog;

    /// Whether it still holds that, by a question that costs little beside reading everything. A yes may
    /// overlook what statements would be refused for anyway.
    fn is_current(&self) -> BackendFuture<'_, bool>;

    /// The database as it is now, if that is something else.
    fn refreshed(&self) -> BackendFuture<'_, Option<Arc<dyn Backend>>>;

    /// Which estimates the engine gives before a statement runs.
    fn gives_estimates(&self) -> GivenEstimates;

    /// Opens `ticket` for the backend's catalog, runs the statement exactly as printed, and feeds its rows to `sink` until the
    /// sink breaks.
    ///
    /// In the same transaction, before it, the backend takes the steps of [`OpenTicket::checks`](crate::guard::OpenTicket::checks):
    ///
    /// 1. It gives each check what the check asks for: an estimate, a number of rows, or whether there is a row.
    /// 2. It stops with the error that a check answers.
    /// 3. It runs the text that [`Check::Ready`](crate::guard::Check::Ready) gives at their end, and no other.
    /// 4. It rolls back a change that reaches more rows than the statement's `max_affected`.
    fn execute<'a>(
        &'a self,
        ticket: Ticket,
        sink: &'a mut (dyn RowSink + Send),
    ) -> BackendFuture<'a, Completion>;

    /// Whether [`change`](Self::change) does more than to refuse.
    fn previews_changes(&self) -> bool {
        false
    }

    /// The receipt of the change with this id in the database's [ledger](crate::change::LEDGER).
    fn find_receipt<'a>(&'a self, change: &'a str) -> BackendFuture<'a, LedgerEntry> {
        let _ = change;
        Box::pin(async { Ok(LedgerEntry::NoLedger) })
    }

    /// All receipts of the database's [ledger](crate::change::LEDGER): ids of changes, and receipts as JSON. None where it has no ledger.
    fn list_receipts(&self) -> BackendFuture<'_, Option<Vec<(String, String)>>> {
        Box::pin(async { Ok(None) })
    }

    /// The parts of the [images](crate::change::IMAGES) of a change's rows, in their order. None where the database has no table of them.
    fn read_images<'a>(&'a self, change: &'a str) -> BackendFuture<'a, Option<Vec<String>>> {
        let _ = change;
        Box::pin(async { Ok(None) })
    }

    /// Deletes the [images](crate::change::IMAGES) of changes that were kept before `kept_ms`, in milliseconds since 1970-01-01 UTC; how
    /// many parts there were. None where the database has no table of them.
    fn prune_images(&self, kept_ms: u64) -> BackendFuture<'_, Option<u64>> {
        let _ = kept_ms;
        Box::pin(async { Ok(None) })
    }

    /// The state of committed transactions by now. None where the database keeps no history.
    fn take_label(&self) -> BackendFuture<'_, Option<Label>> {
        Box::pin(async { Ok(None) })
    }

    /// The primary keys of rows of `relation` that are not at the second label, or by now, what they were at the first: each once, `most` and
    /// one at the most.
    fn list_changed_keys<'a>(
        &'a self,
        relation: &'a Relation,
        between: (&'a Label, Option<&'a Label>),
        most: u32,
    ) -> BackendFuture<'a, Vec<Vec<Value>>> {
        let _ = (relation, between, most);
        Box::pin(async {
            Err(BackendError::unavailable(
                "no history is kept on this database",
            ))
        })
    }

    /// The transactions, or changes on SQLite, by which a row of `relation` came to another state, by the primary key of the row; of any
    /// row where there is none. The newest `most`, each once, newest first.
    fn list_writes<'a>(
        &'a self,
        relation: &'a Relation,
        key: Option<&'a [Value]>,
        most: u32,
    ) -> BackendFuture<'a, Vec<u64>> {
        let _ = (relation, key, most);
        Box::pin(async {
            Err(BackendError::unavailable(
                "no history is kept on this database",
            ))
        })
    }

    /// The statements by which the database's owner does to the history of `relation` what is ordered.
    ///
    /// # Errors
    /// Why no history can be kept of it, with what would have to be otherwise.
    fn write_history_script(
        &self,
        relation: &Relation,
        order: &HistoryOrder,
    ) -> Result<String, String> {
        let _ = (relation, order);
        Err("no history can be kept on this database".to_owned())
    }

    /// Whether `label` is of this database, and its history in `companions` reaches back that far, by now. What was read before a yes
    /// was whole: history is only ever pruned.
    fn check_label<'a>(
        &'a self,
        label: &'a Label,
        companions: &'a [Companion],
    ) -> BackendFuture<'a, LabelStanding> {
        let _ = (label, companions);
        Box::pin(async { Ok(LabelStanding::Foreign) })
    }

    /// Runs the statements of a change in one transaction, each with its prechecks right before it, and tells what it did row by row.
    ///
    /// What it tells is whole: triggers, foreign keys and conflicting rows included. Where that cannot be, or where something would
    /// stay of a change that is taken back, nothing is run, as [not previewable](BackendErrorKind::NotPreviewable).
    ///
    /// With a change that is kept, what it [leaves](crate::guard::Expectation::leave) is written into the tables for it that are there.
    fn change(&self, order: ChangeOrder) -> BackendFuture<'_, ChangeEnd> {
        drop(order);
        Box::pin(async {
            Err(BackendError::new(
                BackendErrorKind::NotPreviewable,
                "changes cannot be looked at before they are kept on this database yet; use execute",
            ))
        })
    }
}

/// What a statement has done besides giving rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// How many rows it changed; none for a statement that reads.
    pub affected: Option<u64>,
}

/// The estimates that an engine gives. A cap on another one refuses every statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenEstimates {
    /// Of the cost, in the engine's own unit.
    pub cost: bool,
    /// Of the rows that a statement looks at or gives.
    pub rows: bool,
}
