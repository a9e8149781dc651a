//! What a gate asks of a backend for a change that is looked at before it is kept.

use std::{sync::Arc, time::Duration};

use crate::{
    change::{Difference, GeneratedColumns},
    guard::{backend_error::BackendError, ticket::Ticket},
    value::Value,
};

/// The statements of one change, in order, for one transaction, and how it ends.
pub struct ChangeOrder {
    /// The right to run each.
    pub tickets: Vec<Ticket>,
    /// What it is run for.
    pub purpose: Purpose,
    /// Whether they undo a change. What triggers did is part of what they undo, so that triggers stay off, where the engine can do that
    /// for one transaction.
    pub is_inverse: bool,
}

/// What a change that is kept leaves in the database, in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces {
    /// The id of the change.
    pub change: String,
    /// Its receipt, for the [ledger](crate::change::LEDGER), if there is one.
    pub receipt: String,
    /// When it is kept, in milliseconds since 1970-01-01 UTC.
    pub kept_ms: u64,
    /// The [images](crate::change::IMAGES) of its rows in parts, for their table, if there is one.
    pub images: Vec<String>,
}

/// What a change is run for.
pub enum Purpose {
    /// To know what it does. It is taken back in any case.
    Preview(Arc<dyn Lens>),
    /// To keep it, if it does what was looked at.
    Keep(Arc<dyn Expectation>),
}

/// Through which somebody looks at a difference.
pub trait Lens: Send + Sync {
    /// The queries that show its rows, decided for whoever looks. Each is run where the change was made, and where it was not.
    fn looks(&self, difference: &Difference) -> Vec<Ticket>;
}

/// What a change is expected to do.
pub trait Expectation: Send + Sync {
    /// Whether this is it.
    fn is_met(&self, difference: &Difference) -> bool;

    /// What is to be written into the database's own tables. Asked for once the difference is as expected.
    ///
    /// # Errors
    /// If what has to be noted before a change is kept cannot be. The change is not kept then.
    fn leave(&self, run: &ChangeRun) -> Result<Option<Traces>, BackendError>;
}

/// What became of a change that a backend ran.
#[derive(Debug)]
pub enum ChangeEnd {
    /// It ran.
    Ran(ChangeRun),
    /// A statement failed, and nothing was changed.
    Failed {
        /// Which, the first being 0.
        statement: usize,
        /// Why.
        error: BackendError,
    },
}

/// A change that ran.
#[derive(Debug, Default)]
pub struct ChangeRun {
    /// Whether it is kept.
    pub is_kept: bool,
    /// How many rows each statement changed by itself.
    pub affected: Vec<u64>,
    /// What it did.
    pub difference: Difference,
    /// Columns in which two runs over the same rows wrote different values.
    pub generated: GeneratedColumns,
    /// What each query of a lens gave.
    pub looked: Vec<BeforeAndAfter>,
    /// How long no other change of the database could be written, where there is one writer.
    pub lock_held: Option<Duration>,
}

/// What one query gave without the change and with it.
#[derive(Debug, Default)]
pub struct BeforeAndAfter {
    /// Rows without the change.
    pub before: Vec<Vec<Value>>,
    /// Rows with it.
    pub after: Vec<Vec<Value>>,
}
