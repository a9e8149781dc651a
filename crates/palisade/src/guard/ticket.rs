//! The right to run one statement, once, over the catalog for which it was decided.

use std::sync::Arc;

use crate::{
    catalog::Catalog,
    guard::{
        backend_error::{BackendError, BackendErrorKind},
        cancel::Cancel,
        checks::Checks,
        estimates::Estimates,
    },
    rewrite::RewrittenStatement,
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

/// A statement in the hands of the backend that runs it.
///
/// Its text may be prepared and planned at once. The text to run is at the end of its [`checks`](Self::checks), and nowhere else:
///
/// ```compile_fail,E0599
/// fn skip(ticket: &palisade::guard::OpenTicket) -> &str {
///     ticket.sql()
/// }
/// ```
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

    /// The way to the text, check by check. The schema must be looked at as it is under the statement's locks.
    #[must_use]
    pub fn checks(&self) -> Checks<'_> {
        let statement = &self.statement;
        Checks::new(
            statement.text(),
            Estimates::from_statement(statement),
            (statement.prechecks(), statement.cascade_counts()),
            statement.max_affected(),
        )
    }
}
