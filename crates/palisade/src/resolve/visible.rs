//! What exists for a session.

use std::sync::Arc;

use crate::resolve::{change_permission::Changes, statement::ViewBody};
use crate::{
    catalog::{RelationId, SystemRelation, functions::FunctionDef},
    policy::{WriteDecision, obligation::RelationDecision},
    rejection::Rejection,
};

/// What exists: a session's view of the catalog, or everything.
pub(crate) trait Visible {
    /// What is decided about a relation.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection>;

    /// What is decided about changing a relation.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn write(&self, id: RelationId) -> Result<Arc<WriteDecision>, Rejection>;

    /// Whether changes are looked at.
    fn changes(&self) -> Changes;

    /// Whether a relation of the engine's own that no policy names may be read.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn reads_system(&self, known: &SystemRelation) -> Result<bool, Rejection>;

    /// Whether a function may be called.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn calls(&self, def: &FunctionDef) -> Result<bool, Rejection>;

    /// Who asks, and what it is in, for the operator.
    fn shown_principal(&self) -> String;

    /// Names of the relations that may be known of, for "did you mean".
    fn names(&self) -> Vec<String>;

    /// The resolved query of a view, if it was kept: it depends on the session alone.
    fn cached_view(&self, id: RelationId) -> Option<Arc<ViewBody>>;

    /// Keeps the resolved query of a view.
    fn cache_view(&self, id: RelationId, body: &Arc<ViewBody>);
}
