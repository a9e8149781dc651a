//! The one gate to a database.

use std::{future::Future, ops::ControlFlow};

use crate::{dialect::Dialect, rewrite::RewrittenStatement, value::Value};

/// A database behind the gate: a driver and nothing else. It holds no policy; what it adds is the
/// engine's own locks (read-only mode, time-outs, authorizer).
pub trait Backend: Send + Sync {
    /// The dialect it runs.
    fn dialect(&self) -> Dialect;

    /// Runs `statement` exactly as printed and feeds its rows to `sink` until the sink breaks.
    fn execute(
        &self,
        statement: &RewrittenStatement,
        sink: &mut (dyn RowSink + Send),
    ) -> impl Future<Output = Result<(), BackendError>> + Send;
}

/// Takes the rows of an answer, one at a time.
pub trait RowSink {
    /// The names the engine gives the columns, before the first row. A break means that the answer
    /// has another shape than was decided; nothing more is read.
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()>;

    /// One row, a cell for each column. A break means that no more rows are wanted.
    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()>;
}

/// Why a database did not answer. The detail is the operator's: an engine's message can hold data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?}: {detail}")]
pub struct BackendError {
    /// What kind of failure.
    pub kind: BackendErrorKind,
    /// The engine's message, for the operator's log only.
    pub detail: String,
}

/// The kinds of failure an agent can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendErrorKind {
    /// The statement ran out of time.
    Timeout,
    /// The engine's limit on size or memory.
    Resource,
    /// The engine refused the statement: a type, a value, an arithmetic error.
    Rejected,
    /// The engine's second lock refused what the firewall had permitted: an incident.
    SecondLock,
    /// No connection, or a broken database.
    Unavailable,
}
