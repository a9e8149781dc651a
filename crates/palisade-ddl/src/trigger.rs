//! Triggers and rules of relations, while a text is read.

use std::collections::BTreeSet;

use crate::{
    cursor::{Cursor, Name},
    state::SchemaState,
};
use palisade::catalog::{Change, Trigger};

/// A trigger or rule of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Armed {
    pub(super) name: String,
    pub(super) runs: Runs,
    pub(super) on: BTreeSet<Change>,
    /// The columns of `UPDATE OF`.
    pub(super) columns: BTreeSet<String>,
    /// Fires for each row: what is set on a partitioned table is set on its partitions.
    pub(super) each_row: bool,
    pub(super) enabled: bool,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runs {
    /// A function of this schema and name.
    Function(String, String),
    /// The trigger's own body.
    Body,
    /// A rule of PostgreSQL, whose name is of another kind than those of triggers.
    Rule,
}

/// What PostgreSQL's own triggers call, in the schema that comes first in every search path.
const OF_THE_SERVER: &[&str] = &[
    "suppress_redundant_updates_trigger",
    "tsvector_update_trigger",
    "tsvector_update_trigger_column",
    "unique_key_recheck",
];

impl Armed {
    /// As the catalog holds it, on a relation of `schema`; none if it is switched off.
    pub(super) fn trigger(&self, schema: &str) -> Option<Trigger> {
        let (schema, function) = match &self.runs {
            Runs::Function(schema, name) => (schema.clone(), name.clone()),
            Runs::Body | Runs::Rule => (schema.to_owned(), self.name.clone()),
        };
        self.enabled.then(|| Trigger {
            schema,
            function,
            on: self.on.clone(),
            columns: self.columns.clone(),
        })
    }

    fn is(&self, what: What<'_>) -> bool {
        let is_rule = self.runs == Runs::Rule;
        match what {
            What::Trigger(name) => !is_rule && self.name == name,
            What::Rule(name) => is_rule && self.name == name,
            What::Triggers => !is_rule,
        }
    }
}

/// Which triggers or rules of a relation are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What<'n> {
    Trigger(&'n str),
    Rule(&'n str),
    /// Every trigger.
    Triggers,
}

/// The changes between `BEFORE`, `AFTER` or `INSTEAD OF` and `ON`; what is not clear counts as all.
pub(super) fn changes(events: Cursor<'_>) -> BTreeSet<Change> {
    let mut rest = events;
    let mut on = BTreeSet::new();
    loop {
        let event = rest.until(&["or"]);
        let Some(change) = (Change::ALL.into_iter()).find(|change| event.sees(change.name()))
        else {
            return Change::ALL.into();
        };
        on.insert(change);
        if !rest.eat("or") {
            return on;
        }
    }
}

/// The columns of `UPDATE OF` among the same; none where any update counts, or what is not clear.
pub(super) fn columns(events: Cursor<'_>) -> BTreeSet<String> {
    let mut rest = events;
    loop {
        let mut event = rest.until(&["or"]);
        if event.eat("update of") {
            let columns = event.idents().unwrap_or_default();
            return columns.into_iter().collect();
        }
        if !rest.eat("or") {
            return BTreeSet::new();
        }
    }
}

impl SchemaState {
    /// Puts a trigger or rule on the relation that `table` means, in place of one of the same name. Where there is
    /// no such relation there is nothing that a catalog could say of it.
    pub(super) fn arm(&mut self, table: &Name, armed: &Armed) {
        let what = match armed.runs {
            Runs::Function(..) | Runs::Body => What::Trigger(&armed.name),
            Runs::Rule => What::Rule(&armed.name),
        };
        for index in self.family(table, armed.each_row) {
            if let Some(table) = self.relations.get_mut(index) {
                table.triggers.retain(|old| !old.is(what));
                table.triggers.push(armed.clone());
            }
        }
    }

    /// Takes triggers or rules off a relation, and off its partitions what they have from it.
    pub(super) fn disarm(&mut self, table: &Name, what: What<'_>) {
        self.each_armed(table, what, true, |triggers, position| {
            triggers.remove(position);
        });
    }

    /// Switches triggers or rules on or off, on partitions too unless it is `only` for the relation itself.
    pub(super) fn switch(&mut self, table: &Name, what: What<'_>, enabled: bool, only: bool) {
        self.each_armed(table, what, !only, |triggers, position| {
            if let Some(armed) = triggers.get_mut(position) {
                armed.enabled = enabled;
            }
        });
    }

    /// Gives a trigger or rule another name.
    pub(super) fn rename(&mut self, table: &Name, what: What<'_>, new: &str) {
        self.each_armed(table, what, true, |triggers, position| {
            if let Some(armed) = triggers.get_mut(position) {
                new.clone_into(&mut armed.name);
            }
        });
    }

    /// Takes a trigger off whichever table of its schema has it, as MySQL names them.
    pub(super) fn disarm_anywhere(&mut self, trigger: &Name) {
        let Some(schema) = trigger.schema.as_ref().or(self.path.first()) else {
            return;
        };
        for table in &mut self.relations {
            if table.def.schema == *schema {
                let what = What::Trigger(&trigger.name);
                table.triggers.retain(|armed| !armed.is(what));
            }
        }
    }

    /// Gives a new partition what its parent has for each row.
    pub(super) fn arm_partition(&mut self, partition: &Name, parent: &Name) {
        let cloned: Vec<Armed> = (self.relation(parent).into_iter())
            .flat_map(|table| &table.triggers)
            .filter(|armed| armed.each_row)
            .cloned()
            .collect();
        for armed in cloned {
            self.arm(partition, &armed);
        }
    }

    /// The schema and name of a trigger's function.
    pub(super) fn trigger_function(&self, name: Name) -> (String, String) {
        let server = "pg_catalog".to_owned();
        let schema = match name.schema {
            Some(schema) => schema,
            None if OF_THE_SERVER.contains(&name.name.as_str()) => server,
            None => {
                let known = |schema: &&String| {
                    let mut functions = self.trigger_functions.iter();
                    functions.any(|(s, function)| s == *schema && *function == name.name)
                };
                let found = self.path.iter().find(known).or(self.path.first());
                found.cloned().unwrap_or(server)
            }
        };
        (schema, name.name)
    }

    /// The relation, and with `below` its partitions at every depth.
    pub(super) fn family(&self, table: &Name, below: bool) -> Vec<usize> {
        let mut found: Vec<usize> = self.position(table).into_iter().collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).and_then(|index| self.relations.get(*index)) {
            next += 1;
            if !below {
                break;
            }
            let place = (parent.def.schema.clone(), parent.def.name.clone());
            for (index, table) in self.relations.iter().enumerate() {
                let is_below = table.is_partition && table.def.parents.contains(&place);
                if is_below && !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        found
    }

    fn each_armed(
        &mut self,
        table: &Name,
        what: What<'_>,
        below: bool,
        change: impl Fn(&mut Vec<Armed>, usize),
    ) {
        for (depth, index) in self.family(table, below).into_iter().enumerate() {
            let Some(table) = self.relations.get_mut(index) else {
                continue;
            };
            for position in (0..table.triggers.len()).rev() {
                let is_meant = (table.triggers.get(position))
                    .is_some_and(|armed| armed.is(what) && (depth == 0 || armed.each_row));
                if is_meant {
                    change(&mut table.triggers, position);
                }
            }
        }
    }
}
