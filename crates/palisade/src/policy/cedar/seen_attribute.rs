//! Attributes of rows that say whether the row of another table that they refer to is seen: `resource.order_id_is_seen`.
//!
//! A child table often has no column by which its rows could be told apart; its parent has. By a foreign key, its rows follow their
//! parent's, whatever policies say of that.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    catalog::{Catalog, ForeignKey, Relation, RelationId, RelationKind},
    policy::cedar::attribute_type::{AttributeType, attribute_type},
};

/// What the name of such an attribute ends with, behind the name of the column that refers.
pub(in crate::policy) const SUFFIX: &str = "_is_seen";

/// Such an attribute of a relation's rows.
#[derive(Debug, Clone)]
pub(in crate::policy) struct SeenAttribute<'c> {
    /// Its name.
    pub(in crate::policy) name: String,
    /// The column that refers, by position.
    pub(in crate::policy) column: u16,
    /// The table that is referred to.
    pub(in crate::policy) parent: &'c Relation,
    /// The column of it that is referred to, by position.
    pub(in crate::policy) key: u16,
}

/// Those of `relation`, in the order of its columns.
///
/// There is one for each column that is a foreign key by itself, to another table, where both columns have the same values for policies
/// and the same collation. One row at most is referred to: the column of the other table is a unique key by itself, and no rows of other
/// tables are among that table's. A column of the relation that is called so takes the name.
pub(in crate::policy) fn seen_attributes<'c>(
    catalog: &'c Catalog,
    relation: &Relation,
) -> Vec<SeenAttribute<'c>> {
    let mut found: BTreeMap<u16, Vec<SeenAttribute<'c>>> = BTreeMap::new();
    for key in &relation.foreign_keys {
        let Some(attribute) = read_key(catalog, relation, key) else {
            continue;
        };
        let of_column = found.entry(attribute.column).or_default();
        let is_known = |known: &SeenAttribute<'_>| {
            known.parent.id == attribute.parent.id && known.key == attribute.key
        };
        if !of_column.iter().any(is_known) {
            of_column.push(attribute);
        }
    }
    // A column that refers to rows of two tables refers to none of them in particular.
    let single = found.into_values().filter(|found| found.len() == 1);
    single.flatten().collect()
}

/// The one called `name`.
pub(in crate::policy) fn find_seen_attribute<'c>(
    catalog: &'c Catalog,
    relation: &Relation,
    name: &str,
) -> Option<SeenAttribute<'c>> {
    let column = relation.position(name.strip_suffix(SUFFIX)?)?;
    let mut all = seen_attributes(catalog, relation).into_iter();
    all.find(|attribute| attribute.column == column)
}

fn read_key<'c>(
    catalog: &'c Catalog,
    relation: &Relation,
    key: &ForeignKey,
) -> Option<SeenAttribute<'c>> {
    let ([own], [theirs]) = (key.columns.as_slice(), key.references.as_slice()) else {
        return None;
    };
    let parent = catalog.find(&key.schema, &key.table)?;
    if parent.id == relation.id || parent.kind != RelationKind::Table || parent.has_children {
        return None;
    }
    let dialect = catalog.dialect();
    let column = relation.position(&dialect.fold(own))?;
    let key = parent.position(&dialect.fold(theirs))?;
    let (own, theirs) = (relation.column(column)?, parent.column(key)?);
    let kind = attribute_type(own, dialect)?;
    let is_same = own.class == theirs.class && own.collation == theirs.collation;
    let is_key_type = match kind {
        AttributeType::Long | AttributeType::Text => true,
        AttributeType::Bool | AttributeType::Decimal | AttributeType::Datetime => false,
    };
    let name = format!("{}{SUFFIX}", own.key);
    let is_unique = is_unique(parent, key);
    (is_same && is_key_type && is_unique && relation.position(&name).is_none()).then_some(
        SeenAttribute {
            name,
            column,
            parent,
            key,
        },
    )
}

/// Whether no two rows of `relation` have the same value in a column.
fn is_unique(relation: &Relation, column: u16) -> bool {
    let mut keys = relation.unique_keys.iter().flatten();
    relation.primary_key == [column] || keys.any(|key| key.plain && key.columns == [column])
}

/// The tables on whose rows it depends, over any number of keys, which rows of `relation` are seen: as far as policies can ask.
pub(in crate::policy) fn collect_parents<'c>(
    catalog: &'c Catalog,
    relation: &Relation,
) -> Vec<&'c Relation> {
    let mut seen: BTreeSet<RelationId> = BTreeSet::from([relation.id]);
    let mut out = Vec::new();
    let mut pending = seen_attributes(catalog, relation);
    while let Some(attribute) = pending.pop() {
        if seen.insert(attribute.parent.id) {
            out.push(attribute.parent);
            pending.extend(seen_attributes(catalog, attribute.parent));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::catalog::test_ddl;

    #[test]
    fn a_key_of_one_column_is_asked_whether_its_row_is_seen() {
        let catalog = test_ddl::postgres(
            "CREATE TABLE orders (id bigint PRIMARY KEY, code text UNIQUE, due date UNIQUE);
             CREATE TABLE items (
                 id bigint PRIMARY KEY,
                 order_id bigint REFERENCES orders (id),
                 order_code text REFERENCES orders (code),
                 due date REFERENCES orders (due),
                 parent_id bigint REFERENCES items (id),
                 plain_id bigint,
                 due_id bigint);
             CREATE TABLE notes (item_id bigint REFERENCES items (id), item_id_is_seen boolean);
             CREATE TABLE lines (item_id bigint REFERENCES items (id));",
            "public",
        )
        .unwrap();
        let names = |table: &str| {
            let relation = catalog.find("public", table).unwrap();
            let found = seen_attributes(&catalog, relation).into_iter();
            found.map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names("items"), ["order_id_is_seen", "order_code_is_seen"]);
        assert_eq!(names("orders"), [""; 0]);
        // The column has the name.
        assert_eq!(names("notes"), [""; 0]);
        let lines = catalog.find("public", "lines").unwrap();
        let parents: Vec<_> = collect_parents(&catalog, lines)
            .into_iter()
            .map(|parent| parent.name.as_str())
            .collect();
        assert_eq!(parents, ["items", "orders"]);
    }
}
