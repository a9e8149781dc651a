//! What foreign keys do by themselves when rows that they refer to change, one step at a time.

use std::collections::BTreeSet;

use crate::catalog::{Catalog, Change, ForeignKey, ReferenceAction, Relation};

/// Rows that change because rows that they refer to do.
#[derive(Debug, Clone)]
pub struct Cascade<'c> {
    /// The relation that they are of.
    pub child: &'c Relation,
    /// By which they refer.
    pub key: &'c ForeignKey,
    /// What becomes of them.
    pub change: Change,
    /// Positions of their columns that get other values.
    pub columns: BTreeSet<u16>,
}

impl ForeignKey {
    /// What becomes of rows that refer to rows of which `change` happens, by `touches_key` to what they refer to.
    #[must_use]
    pub fn effect(&self, change: Change, touches_key: bool) -> Option<Change> {
        let action = match change {
            Change::Delete => self.on_delete,
            Change::Update if touches_key || self.references.is_empty() => self.on_update,
            Change::Update | Change::Insert | Change::Truncate => return None,
        };
        match (action, change) {
            (ReferenceAction::Refuse, _) => None,
            (ReferenceAction::Cascade, Change::Delete) => Some(Change::Delete),
            (
                ReferenceAction::Cascade | ReferenceAction::SetNull | ReferenceAction::SetDefault,
                _,
            ) => Some(Change::Update),
        }
    }
}

impl Catalog {
    /// What foreign keys to `relation` do when its rows are deleted, or get other values in `updated`.
    #[must_use]
    pub fn cascades<'c>(
        &'c self,
        relation: &Relation,
        change: Change,
        updated: &BTreeSet<u16>,
    ) -> Vec<Cascade<'c>> {
        let mut found = Vec::new();
        for child in self.relations() {
            for key in &child.foreign_keys {
                let parent = self.find(&key.schema, &key.table);
                if parent.is_none_or(|parent| parent.id != relation.id) {
                    continue;
                }
                let mut references = key.references.iter();
                let touches_key = references.any(|name| {
                    position(self, relation, name).is_none_or(|index| updated.contains(&index))
                });
                let Some(change) = key.effect(change, touches_key) else {
                    continue;
                };
                let columns = match change {
                    Change::Update => (key.columns.iter())
                        .filter_map(|name| position(self, child, name))
                        .collect(),
                    Change::Insert | Change::Delete | Change::Truncate => BTreeSet::new(),
                };
                found.push(Cascade {
                    child,
                    key,
                    change,
                    columns,
                });
            }
        }
        found
    }
}

fn position(catalog: &Catalog, relation: &Relation, name: &str) -> Option<u16> {
    relation.position(&catalog.dialect().fold(name))
}
