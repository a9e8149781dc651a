//! A statement of a change, as it is decided.

use std::sync::Arc;

use crate::{
    change::{ChangeBody, Inverse},
    guard::run::Run,
    policy::ApprovalDemand,
    rewrite::RewrittenStatement,
};

/// A statement of a change that is decided.
pub(super) struct Decision {
    pub(super) run: Run,
    pub(super) sql: String,
    pub(super) statement: Arc<RewrittenStatement>,
    pub(super) demand: Option<ApprovalDemand>,
    /// What all statements of the change do together, where they undo another one.
    pub(super) inverse: Option<Arc<Inverse>>,
    /// The change that they undo.
    pub(super) undone: Option<Arc<ChangeBody>>,
}
