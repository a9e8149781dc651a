//! How many rows foreign keys change with a statement, which the server does not tell.
//!
//! The rows of the tables that are reached are counted before and after, in one transaction that sees one state of the
//! database beside its own changes. What others commit in between it does not see; where `innodb_snapshot_isolation` is on
//! (MariaDB's default since 11.6) it fails on it. A key that changes is not to be told from one
//! that does not: there every row that refers to anything counts. A row that several keys reach counts for each.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::{Conn, prelude::Queryable as _};
use palisade::{
    catalog::{Catalog, Change, ForeignKey, ReferenceAction, Relation},
    guard::BackendError,
};

use crate::{fault, settings::identifier};

/// What is counted of the tables that a change reaches.
#[derive(Debug, Default)]
pub(crate) struct Reach(BTreeMap<String, Count>);

/// How many rows of a query's count were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Count {
    /// Those that are not there afterwards.
    Gone,
    /// Those, without the statement's own.
    GoneBesideOwn,
    /// At most those that were there before.
    AtMost,
}

impl Reach {
    /// What the changes `writes` reach, those of foreign keys among them.
    pub(crate) fn of(catalog: &Catalog, writes: &BTreeSet<(Change, String, String)>) -> Self {
        let mut counts = BTreeMap::new();
        for child in catalog.relations() {
            for key in &child.foreign_keys {
                let Some(parent) = catalog.find(&key.schema, &key.table) else {
                    continue;
                };
                // Another database's table of the same name counts as well.
                let of_parent = || (writes.iter()).filter(|(_, table, _)| **table == *parent.key);
                let is_key = |column: &str| {
                    let fold = |name: &String| catalog.dialect().fold(name);
                    key.references.is_empty()
                        || key.references.iter().any(|name| fold(name) == column)
                };
                for (change, _, column) in of_parent() {
                    let count = match change {
                        Change::Insert | Change::Truncate => continue,
                        Change::Delete => after(key.on_delete, Change::Delete, parent, child),
                        Change::Update if is_key(column) => {
                            after(key.on_update, Change::Update, parent, child)
                        }
                        Change::Update => continue,
                    };
                    if let Some(count) = count {
                        let sql = query(child, key, count);
                        let known = counts.entry(sql).or_insert(count);
                        *known = count.max(*known);
                    }
                }
            }
        }
        Self(counts)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What there is to be counted, one number for each.
    pub(crate) async fn count(&self, conn: &mut Conn) -> Result<Vec<u64>, BackendError> {
        let mut counts = Vec::with_capacity(self.0.len());
        for sql in self.0.keys() {
            let count: Option<u64> = conn
                .query_first(sql.as_str())
                .await
                .map_err(|e| fault::engine(&e))?;
            counts.push(count.ok_or_else(|| BackendError::second_lock("a count gave no row"))?);
        }
        Ok(counts)
    }

    /// How many rows were changed, at most, beside `own`.
    pub(crate) fn changed(&self, before: &[u64], after: &[u64], own: u64) -> u64 {
        (self.0.values())
            .zip(before.iter().zip(after))
            .map(|(count, (before, after))| match count {
                Count::Gone => before.saturating_sub(*after),
                Count::GoneBesideOwn => before.saturating_sub(*after).saturating_sub(own),
                Count::AtMost => *before,
            })
            .fold(0, u64::saturating_add)
    }
}

/// How the rows are counted that `action` reaches; `None` if it reaches none.
fn after(
    action: ReferenceAction,
    change: Change,
    parent: &Relation,
    child: &Relation,
) -> Option<Count> {
    match (action, change) {
        (ReferenceAction::Refuse, _) => None,
        (ReferenceAction::Cascade, Change::Delete) if parent.id == child.id => {
            Some(Count::GoneBesideOwn)
        }
        (ReferenceAction::Cascade, Change::Delete) | (ReferenceAction::SetNull, _) => {
            Some(Count::Gone)
        }
        (ReferenceAction::Cascade | ReferenceAction::SetDefault, _) => Some(Count::AtMost),
    }
}

/// Counts rows of `child` that refer to something by `key`: those it loses are deleted, or refer to nothing any more.
fn query(child: &Relation, key: &ForeignKey, count: Count) -> String {
    let table = format!("{}.{}", identifier(&child.schema), identifier(&child.name));
    let refers: Vec<String> = (key.columns.iter())
        .map(|column| format!("{} IS NOT NULL", identifier(column)))
        .collect();
    match count {
        // Its own rows refer to something or not.
        Count::GoneBesideOwn => format!("SELECT COUNT(*) FROM {table}"),
        Count::Gone | Count::AtMost => {
            format!(
                "SELECT COUNT(*) FROM {table} WHERE {}",
                refers.join(" AND ")
            )
        }
    }
}
