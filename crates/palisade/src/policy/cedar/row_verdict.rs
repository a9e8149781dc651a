//! Which rows of a relation a principal sees, may change or may add, and what decided it.

use std::collections::BTreeSet;

use cedar_policy::Effect;

use crate::policy::{
    cedar::residual::Untranslatable,
    obligation::{Caps, RowFilter},
};

/// The rows, and what decided them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) struct Rows {
    pub(in crate::policy) filter: RowFilter,
    /// What forbids alone leave: everything if none matches any row.
    pub(in crate::policy) unforbidden: RowFilter,
    /// Policies that forbid some row, sorted.
    pub(in crate::policy) forbidding: BTreeSet<String>,
    /// Policies of the action that permit or forbid some row, sorted.
    pub(in crate::policy) policies: BTreeSet<String>,
    /// The tightest caps among them.
    pub(in crate::policy) caps: Caps,
    /// Policies whose condition has no SQL form: such a permit permits nothing, such a forbid
    /// forbids every row.
    pub(in crate::policy) untranslatable: Vec<(String, Effect, Untranslatable)>,
}
