//! What a change of rows sets off: triggers, rules, and the actions of foreign keys.

use super::Resolver;
use crate::{
    access::{ChangeAccess, Usage},
    catalog::{Catalog, Change, ColumnId, ForeignKey, Relation, RelationId},
};

impl Resolver<'_> {
    /// Notes a change with what the engine does by itself for it.
    pub(super) fn change(&mut self, relation: &Relation, change: Change, conditioned: bool) {
        let every: Vec<ColumnId> = match change {
            Change::Update => relation.column_ids().map(|(id, _)| id).collect(),
            Change::Insert | Change::Delete | Change::Truncate => Vec::new(),
        };
        self.change_columns(relation, change, conditioned, &every)
    }

    pub(super) fn change_columns(
        &mut self,
        relation: &Relation,
        change: Change,
        conditioned: bool,
        updated: &[ColumnId],
    ) {
        self.access.changes.insert(ChangeAccess {
            relation: relation.id,
            change,
            cascaded: false,
            conditioned,
        });
        self.effects(relation, change, updated, &mut Vec::new())
    }

    /// Triggers, rules and foreign keys that a change sets off.
    pub(super) fn effects(
        &mut self,
        relation: &Relation,
        change: Change,
        updated: &[ColumnId],
        done: &mut Vec<(RelationId, Change)>,
    ) {
        if done.contains(&(relation.id, change)) {
            return;
        }
        done.push((relation.id, change));
        let catalog = self.catalog;
        let family = family(relation, catalog.relations());
        let moves = may_move(&family, change);
        for member in &family {
            for trigger in &member.triggers {
                if moves || trigger.on.contains(&change) {
                    self.access.functions.insert(trigger.uid(catalog.dialect()));
                }
            }
        }
        for child in catalog.relations() {
            for key in &child.foreign_keys {
                let references = |parent: &Relation| {
                    *parent.key == *catalog.fold_relation(&key.table)
                        && *parent.schema_key == *catalog.fold_relation(&key.schema)
                };
                if !family.iter().any(|parent| references(parent)) {
                    continue;
                }
                let touches_key = updated.iter().any(|id| {
                    relation.column(id.index).is_some_and(|column| {
                        key.references
                            .iter()
                            .any(|name| *self.fold(name) == *column.key)
                    })
                });
                let Some(theirs) = key.effect(change, touches_key) else {
                    continue;
                };
                self.referenced(child, key, theirs, done);
            }
        }
    }

    /// Whether a row that is inserted may have been changed by a trigger before.
    pub(super) fn sets_off_triggers(&self, relation: &Relation) -> bool {
        sets_off_triggers(relation, Change::Insert, self.catalog)
    }

    /// Notes what a foreign key does to the rows of `child`.
    fn referenced(
        &mut self,
        child: &Relation,
        key: &ForeignKey,
        theirs: Change,
        done: &mut Vec<(RelationId, Change)>,
    ) {
        let own: Vec<ColumnId> = key
            .columns
            .iter()
            .filter_map(|name| child.position(&self.fold(name)))
            .map(|index| ColumnId {
                relation: child.id,
                index,
            })
            .collect();
        self.access.changes.insert(ChangeAccess {
            relation: child.id,
            change: theirs,
            cascaded: true,
            conditioned: true,
        });
        // What they hold decides which rows are reached, and what is left tells it.
        for id in &own {
            self.touch(*id, Usage::Filter);
        }
        if theirs == Change::Update {
            for id in &own {
                self.touch(*id, Usage::Write);
            }
        }
        self.effects(child, theirs, &own, done)
    }
}

/// Whether `change` of `relation` sets off triggers, which may change its rows before.
pub(crate) fn sets_off_triggers(relation: &Relation, change: Change, catalog: &Catalog) -> bool {
    let family = family(relation, catalog.relations());
    let moves = may_move(&family, change);
    let mut triggers = family.iter().flat_map(|member| &member.triggers);
    triggers.any(|trigger| moves || trigger.on.contains(&change))
}

/// Whether a row may move to another partition, which deletes and inserts it.
fn may_move(family: &[&Relation], change: Change) -> bool {
    family.len() > 1 && change == Change::Update
}

/// A relation with those whose rows it holds, and whose rows hold its own.
fn family<'c>(relation: &'c Relation, all: &'c [Relation]) -> Vec<&'c Relation> {
    let mut family = vec![relation];
    let mut next = 0;
    while let Some(member) = family.get(next).copied() {
        next += 1;
        for other in all {
            let related = other.parents.contains(&member.id) || member.parents.contains(&other.id);
            if related && family.iter().all(|known| known.id != other.id) {
                family.push(other);
            }
        }
    }
    family
}
