//! The right to run one statement, once, over the catalog for which it was decided.

use std::sync::Arc;

use crate::{
    catalog::Catalog,
    guard::{
        backend_error::{BackendError, BackendErrorKind},
        cancel::Cancel,
    },
    rewrite::{CascadeCount, Precheck, RewrittenStatement},
};

/// The right to run one statement. A [`Guard`](crate::guard::Guard) makes one for each statement that it hands to its backend.
/// [`danger::ticket`](crate::danger::ticket) is the only other way.
///
/// Other code cannot make one:
///
/// ```compile_fail,E0451
/// use palisade::{guard::Ticket, rewrite::RewrittenStatement};
/// fn forge(statement: std::sync::Arc<RewrittenStatement>) -> Ticket {
///     Ticket { statement, cancel: Default::default() }
/// }
/// ```
///
/// It is good for one run:
///
/// ```compile_fail,E0382
/// use palisade::{catalog::Catalog, guard::Ticket};
/// fn run_twice(ticket: Ticket, catalog: &Catalog) {
///     let first = ticket.open(catalog);
///     let second = ticket.open(catalog);
/// }
/// ```
#[derive(Debug)]
pub struct Ticket {
    statement: Arc<RewrittenStatement>,
    cancel: Cancel,
}

impl Ticket {
    pub(crate) fn issue(statement: &Arc<RewrittenStatement>) -> Self {
        Self {
            statement: Arc::clone(statement),
            cancel: Cancel::default(),
        }
    }

    /// The same for a caller that may give up.
    pub(in crate::guard) fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            ..self
        }
    }

    /// Takes the statement out of it, for a backend that has `catalog`.
    ///
    /// # Errors
    /// `SchemaChanged` if the statement was decided over another catalog.
    pub fn open(self, catalog: &Catalog) -> Result<OpenTicket, BackendError> {
        let Self { statement, cancel } = self;
        if statement.catalog_version() == catalog.version() {
            Ok(OpenTicket { statement, cancel })
        } else {
            Err(BackendError::new(
                BackendErrorKind::SchemaChanged,
                "the statement was decided over another catalog",
            ))
        }
    }
}

/// A statement in the hands of the backend that runs it: the text, and what has to be looked at before it.
///
/// The text may be prepared and planned at once. Before it runs, in the same transaction, come the estimates, each precheck
/// and each count.
#[derive(Debug)]
pub struct OpenTicket {
    statement: Arc<RewrittenStatement>,
    cancel: Cancel,
}

impl OpenTicket {
    /// What was decided of it.
    #[must_use]
    pub fn statement(&self) -> &RewrittenStatement {
        &self.statement
    }

    /// What says that its caller has given up. A backend ends the statement on its server then, with
    /// [`BackendErrorKind::Cancelled`]; a change that is being kept is kept.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The text to run, and nothing else.
    #[must_use]
    pub fn sql(&self) -> &str {
        self.statement.text()
    }

    /// What must give no row when it runs in the statement's transaction, before it. Such a row is not admitted by policy as the
    /// statement would leave it, or the statement would reach it and may not.
    ///
    /// The first that gives a row refuses the statement, by [`BackendError::violated`], and nothing is changed. The transaction
    /// must see the same rows from the first of these to the statement's end, or fail as [`BackendErrorKind::Conflict`]. The schema
    /// must be looked at as it is under the statement's locks.
    #[must_use]
    pub fn prechecks(&self) -> &[Precheck] {
        self.statement.prechecks()
    }

    /// Queries for rows that the statement changes and others refer to, on MySQL and MariaDB. The engine does not count what
    /// foreign keys change, which counts against [`max_affected`](RewrittenStatement::max_affected). The transaction must see
    /// the same rows, and the same time, from these to the statement's end.
    #[must_use]
    pub fn cascade_counts(&self) -> &[CascadeCount] {
        self.statement.cascade_counts()
    }
}
