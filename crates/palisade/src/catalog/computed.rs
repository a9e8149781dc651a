//! Which columns a generated column is computed from.

use std::collections::BTreeSet;

use super::{Relation, may_name, may_name_rows};
use crate::dialect::Dialect;

/// `columns`, and those that the generated ones among them are computed from, however far.
pub(crate) fn computed_from(
    columns: impl IntoIterator<Item = u16>,
    relation: &Relation,
    dialect: Dialect,
) -> BTreeSet<u16> {
    let mut found: BTreeSet<u16> = columns.into_iter().collect();
    let mut waiting: Vec<u16> = found.iter().copied().collect();
    while let Some(index) = waiting.pop() {
        let text = relation.column(index).and_then(|c| c.generated.as_deref());
        let Some(text) = text else {
            continue;
        };
        let every = may_name_rows(text, &relation.name, dialect);
        for (id, column) in relation.column_ids() {
            if (every || may_name(text, &column.name, dialect)) && found.insert(id.index) {
                waiting.push(id.index);
            }
        }
    }
    found
}
