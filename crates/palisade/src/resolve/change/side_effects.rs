//! What a change of rows sets off: triggers, rules, and the actions of foreign keys.

use crate::resolve::Resolver;
use crate::{
    access::{ChangeAccess, Usage},
    catalog::{
        Catalog, Change, ColumnId, ForeignKey, ReferenceAction, Relation, RelationId, Trigger,
        computed_from,
    },
};

/// Columns to which an UPDATE gives values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::resolve) struct Updated {
    /// All of them, by which triggers are set off.
    pub(in crate::resolve) assigned: Vec<ColumnId>,
    /// Those that may get other values than they have, by which foreign keys are.
    pub(in crate::resolve) changed: Vec<ColumnId>,
}

impl Updated {
    /// Columns each of which may get another value.
    pub(in crate::resolve) fn from_columns(columns: Vec<ColumnId>) -> Self {
        Self {
            assigned: columns.clone(),
            changed: columns,
        }
    }
}

impl Resolver<'_> {
    /// Notes a change with what the engine does by itself for it.
    pub(in crate::resolve) fn change(
        &mut self,
        relation: &Relation,
        change: Change,
        conditioned: bool,
    ) {
        let every: Vec<ColumnId> = match change {
            Change::Update => relation.column_ids().map(|(id, _)| id).collect(),
            Change::Insert | Change::Delete | Change::Truncate => Vec::new(),
        };
        self.change_columns(relation, change, conditioned, &Updated::from_columns(every))
    }

    pub(in crate::resolve) fn change_columns(
        &mut self,
        relation: &Relation,
        change: Change,
        conditioned: bool,
        updated: &Updated,
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
    pub(in crate::resolve) fn effects(
        &mut self,
        relation: &Relation,
        change: Change,
        updated: &Updated,
        done: &mut Vec<(RelationId, Change, Updated)>,
    ) {
        let known = (relation.id, change, updated.clone());
        if done.contains(&known) {
            return;
        }
        done.push(known);
        let catalog = self.catalog;
        let family = family(relation, catalog.relations());
        let moves = may_move(&family, change);
        for member in &family {
            for trigger in &member.triggers {
                if moves || fires(trigger, relation, change, &updated.assigned, catalog) {
                    self.access.functions.insert(trigger.uid(catalog.dialect()));
                }
            }
        }
        for link in links(relation, change, &updated.changed, catalog) {
            let Link {
                child,
                change,
                action: _,
                own,
                referenced,
            } = link;
            self.access.changes.insert(ChangeAccess {
                relation: child.id,
                change,
                cascaded: true,
                conditioned: true,
            });
            // What they hold decides which rows are reached, and what is left tells it: of the rows that reference, and of those that
            // they reference.
            let theirs = referenced.iter().filter_map(|name| match change {
                // Whatever they hold.
                Change::Truncate => None,
                Change::Insert | Change::Update | Change::Delete => relation.position(name),
            });
            let theirs = theirs.map(|index| ColumnId {
                relation: relation.id,
                index,
            });
            for id in own.iter().copied().chain(theirs) {
                self.touch(id, Usage::Filter);
            }
            if change == Change::Update {
                for id in &own {
                    self.touch(*id, Usage::Write);
                }
            }
            self.effects(child, change, &Updated::from_columns(own), done)
        }
    }

    /// Whether a row that is inserted may have been changed by a trigger before.
    pub(in crate::resolve) fn sets_off_triggers(&self, relation: &Relation) -> bool {
        sets_off_triggers(relation, Change::Insert, self.catalog)
    }
}

/// Rows that the engine changes by itself, by one foreign key, where rows that it references are changed.
pub(crate) struct Link<'c> {
    /// Whose rows those are.
    pub(crate) child: &'c Relation,
    /// What becomes of them.
    pub(crate) change: Change,
    /// Why.
    pub(crate) action: ReferenceAction,
    /// The columns that reference.
    pub(crate) own: Vec<ColumnId>,
    /// Names of the columns that they reference, folded, in their order.
    pub(crate) referenced: Vec<String>,
}

/// Whose rows the engine changes where rows of `relation` are changed, those in the columns `updated`.
pub(crate) fn links<'c>(
    relation: &Relation,
    change: Change,
    updated: &[ColumnId],
    catalog: &'c Catalog,
) -> Vec<Link<'c>> {
    let fold = |name: &String| catalog.dialect().fold(name);
    let family = family(relation, catalog.relations());
    let references = |key: &ForeignKey| {
        let table = catalog.fold_relation(&key.table);
        let schema = catalog.fold_relation(&key.schema);
        let mut family = family.iter();
        family.any(|parent| *parent.key == *table && *parent.schema_key == *schema)
    };
    let is_touched = |index: u16| is_touched(index, relation, updated, catalog);
    let mut found = Vec::new();
    for child in catalog.relations() {
        for key in child.foreign_keys.iter().filter(|key| references(key)) {
            let referenced: Vec<String> = key.references.iter().map(fold).collect();
            let touches_key = referenced
                .iter()
                .filter_map(|name| relation.position(name))
                .any(is_touched);
            let Some(theirs) = key.effect(change, touches_key) else {
                continue;
            };
            let action = match change {
                Change::Delete => key.on_delete,
                Change::Update | Change::Insert | Change::Truncate => key.on_update,
            };
            let own = key.columns.iter();
            let own = own.filter_map(|name| child.position(&fold(name)));
            found.push(Link {
                child,
                change: theirs,
                action,
                own: own
                    .map(|index| ColumnId {
                        relation: child.id,
                        index,
                    })
                    .collect(),
                referenced,
            });
        }
    }
    found
}

/// Whether a statement that assigns `updated` gives the column at `index` another value: what is computed of what is updated is
/// updated, and what is given the time where anything is.
fn is_touched(index: u16, relation: &Relation, updated: &[ColumnId], catalog: &Catalog) -> bool {
    let is_retimed = |index| !updated.is_empty() && relation.retimed.contains(&index);
    let is_updated = |index: u16| updated.iter().any(|id| id.index == index) || is_retimed(index);
    let is_computed = relation
        .column(index)
        .is_some_and(|column| column.generated.is_some());
    is_updated(index)
        || (is_computed
            && computed_from([index], relation, catalog.dialect())
                .into_iter()
                .any(is_updated))
}

/// Whether `change` of `relation`, which assigns these columns, sets `trigger` off. `UPDATE OF` names columns: it sets the trigger off if one
/// of them is assigned, or computed of an assigned column. The row's other columns do not matter
/// (<https://www.postgresql.org/docs/current/sql-createtrigger.html>, <https://www.sqlite.org/lang_createtrigger.html>).
fn fires(
    trigger: &Trigger,
    relation: &Relation,
    change: Change,
    assigned: &[ColumnId],
    catalog: &Catalog,
) -> bool {
    let is_its = |column: &String| {
        let index = relation.position(&catalog.dialect().fold(column));
        // What is not known counts.
        index.is_none_or(|index| is_touched(index, relation, assigned, catalog))
    };
    let is_meant = match change {
        Change::Update => trigger.columns.is_empty() || trigger.columns.iter().any(is_its),
        Change::Insert | Change::Delete | Change::Truncate => true,
    };
    trigger.on.contains(&change) && is_meant
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
