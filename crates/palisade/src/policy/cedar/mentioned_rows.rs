//! Which row types policies name beside the one they decide about, as in `unless { resource is row::main::tickets }`.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::{Relation, RelationId};

/// The relations whose row types must be known to evaluate the row policies of another relation.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct MentionedRows {
    /// Named by policies that may decide about any rows.
    by_any: BTreeSet<RelationId>,
    /// Named by policies that decide about the rows of this relation alone.
    by_relation: HashMap<RelationId, BTreeSet<RelationId>>,
}

impl MentionedRows {
    /// A policy of the rows of `about` alone, or of any rows, names the row types of `mentioned`.
    pub(in crate::policy) fn add(
        &mut self,
        about: Option<RelationId>,
        mentioned: impl Iterator<Item = RelationId>,
    ) {
        match about {
            Some(one) => self.by_relation.entry(one).or_default().extend(mentioned),
            None => self.by_any.extend(mentioned),
        }
    }

    /// The relations whose row types policies about rows of `relation` may look at, itself among them.
    pub(in crate::policy) fn list_with(&self, relation: &Relation) -> BTreeSet<RelationId> {
        let mut out = BTreeSet::from([relation.id]);
        out.extend(&self.by_any);
        out.extend(self.by_relation.get(&relation.id).into_iter().flatten());
        out
    }
}
