//! What a session may change: for whoever gives an account no more than that.

use std::collections::{BTreeMap, BTreeSet};

use crate::firewall::Firewall;
use crate::{
    catalog::{Catalog, Change, Relation, RelationId},
    policy::{WriteDecision, obligation::RowFilter},
    rejection::Rejection,
    rewrite::{columns_of_condition, columns_referred_to, keys_read},
    session::Session,
};

/// What a principal may change of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermittedChange {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
    /// How; never empty.
    pub changes: BTreeSet<Change>,
    /// The columns that an INSERT or UPDATE may assign, in the catalog's order.
    pub assigned: Vec<String>,
    /// The columns that the firewall's own checks read, in the catalog's order: those of policies on changed rows, and the keys
    /// of dependent rows. The principal may be unable to read them.
    pub looked_at: Vec<String>,
    /// The columns that those checks read of other tables, to which rows refer: by schema and name.
    pub looked_at_beyond: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Firewall {
    /// What `session` may change, in the catalog's order: nothing where changes are not allowed. A statement can
    /// be refused all the same, for what else it does.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn changes(&self, session: &Session) -> Result<Vec<PermittedChange>, Rejection> {
        let mut found = Vec::new();
        if !self.may_change(session) {
            return Ok(found);
        }
        let session_view = self.policies.session(session);
        let mut filtered = BTreeSet::new();
        for relation in self.catalog.relations() {
            let (seen, write) = (
                session_view.relation(relation.id)?,
                session_view.write(relation.id)?,
            );
            let mut rows = [&seen.rows, &write.change, &write.add].into_iter();
            if !rows.all(|rows| *rows == RowFilter::Everything) {
                filtered.extend([Change::Update, Change::Delete].map(|c| (relation.id, c)));
            }
        }
        for relation in self.catalog.relations() {
            let keys = keys_read(relation, &filtered, &self.catalog);
            found.extend(describe_change(
                relation,
                &*session_view.write(relation.id)?,
                keys,
                &self.catalog,
            ));
        }
        Ok(found)
    }
}

/// Columns by the schemas and names of their tables.
pub(super) fn name_columns(
    columns: &BTreeMap<RelationId, BTreeSet<u16>>,
    catalog: &Catalog,
) -> BTreeMap<(String, String), BTreeSet<String>> {
    let tables = columns.iter().filter_map(|(id, columns)| {
        let table = catalog.relation(*id)?;
        let columns = columns.iter().filter_map(|index| table.column(*index));
        let columns = columns.map(|column| column.name.to_string()).collect();
        Some(((table.schema.clone(), table.name.clone()), columns))
    });
    tables.collect()
}

/// What is permitted of `relation`, whose `keys` are read to look for what hangs on its rows.
fn describe_change(
    relation: &Relation,
    write: &WriteDecision,
    keys: BTreeSet<u16>,
    catalog: &Catalog,
) -> Option<PermittedChange> {
    let columns: Vec<_> = relation.column_ids().collect();
    let names = |wanted: &dyn Fn(u16) -> bool| -> Vec<String> {
        let wanted = columns.iter().filter(|(id, _)| wanted(id.index));
        wanted.map(|(_, column)| column.name.to_string()).collect()
    };
    // The engine makes the value of a generated column, whatever policies permit.
    let assigned = names(&|index| {
        let column = relation.column(index);
        write.assigns(index) && column.is_some_and(|column| column.generated.is_none())
    });
    let reaches = write.change != RowFilter::Nothing;
    let leaves = write.add != RowFilter::Nothing;
    let is_possible = |change: &Change| {
        write.action(*change).permitted
            && match change {
                Change::Insert => leaves && !assigned.is_empty(),
                Change::Update => reaches && leaves && !assigned.is_empty(),
                Change::Delete => reaches,
                Change::Truncate => true,
            }
    };
    let changes: BTreeSet<Change> = Change::ALL.into_iter().filter(is_possible).collect();
    if changes.is_empty() {
        return None;
    }
    let (mut conditions, mut beyond) = (BTreeSet::new(), BTreeMap::new());
    for filter in [&write.change, &write.add] {
        if let RowFilter::Where(predicate) = filter {
            columns_referred_to(predicate, &mut beyond);
        }
    }
    if changes.contains(&Change::Update) || changes.contains(&Change::Delete) {
        for filter in [&write.change, &write.add] {
            if let RowFilter::Where(predicate) = filter {
                columns_of_condition(predicate, &mut conditions);
            }
        }
        conditions.extend(keys);
    }
    Some(PermittedChange {
        schema: relation.schema.clone(),
        name: relation.name.clone(),
        assigned: match changes.contains(&Change::Insert) || changes.contains(&Change::Update) {
            true => assigned,
            false => Vec::new(),
        },
        looked_at: names(&|index| conditions.contains(&index)),
        looked_at_beyond: name_columns(&beyond, catalog),
        changes,
    })
}
