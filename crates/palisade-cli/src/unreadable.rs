//! Tables that no policy can permit: an operator who is not told looks for a mistake in the policies.

use std::collections::BTreeSet;

use palisade::catalog::{Catalog, Relation, RelationKind};

/// How many of them are named.
const NAMED: usize = 5;

/// What is to be told of the virtual tables of a catalog; none where there are none.
pub(crate) fn describe(catalog: &Catalog) -> Option<String> {
    let all = list_virtual(catalog);
    let named: Vec<String> = all
        .iter()
        .take(NAMED)
        .map(|relation| format!("`{}`", relation.uid))
        .collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (what, are, hold) = match all.len() {
        0 => return None,
        1 => ("virtual table", "is", "what it is made of"),
        _ => ("virtual tables", "are", "what they are made of"),
    };
    Some(format!(
        "the {what} {}{more} {are} not read through the firewall, and no policy can permit it: let agents read a table or view of {hold}",
        named.join(", ")
    ))
}

/// Whether `relation` is a virtual table or belongs to one.
pub(crate) fn is_unreadable(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Virtual => true,
        RelationKind::Table
        | RelationKind::View
        | RelationKind::Materialized
        | RelationKind::System => false,
    }
}

/// Those that people know: without the tables in which another one of them keeps what it holds, which begin with its name.
fn list_virtual(catalog: &Catalog) -> Vec<&Relation> {
    let relations = catalog.relations().iter();
    let all: Vec<&Relation> = relations.filter(|one| is_unreadable(one)).collect();
    let keys: BTreeSet<(&str, &str)> = all
        .iter()
        .map(|one| (&*one.schema_key, &*one.key))
        .collect();
    let is_shadow = |one: &&&Relation| {
        let mut ends = one.key.match_indices('_');
        ends.any(|(end, _)| {
            let owner = one.key.get(..end).unwrap_or_default();
            keys.contains(&(&*one.schema_key, owner))
        })
    };
    all.iter().filter(|one| !is_shadow(one)).copied().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use palisade::{catalog::RelationDef, dialect::Dialect};

    use super::*;

    #[test]
    fn virtual_tables_are_named_without_what_belongs_to_them() {
        let told = |virtual_tables: &[&str]| {
            let mut builder = Catalog::builder(Dialect::Sqlite).relation(RelationDef::new(
                "main",
                "pages",
                RelationKind::Table,
                Vec::new(),
            ));
            for name in virtual_tables {
                let kind = RelationKind::Virtual;
                builder = builder.relation(RelationDef::new("main", *name, kind, Vec::new()));
            }
            describe(&builder.build().unwrap())
        };
        assert_eq!(told(&[]), None);
        assert_eq!(
            told(&["pages_fts", "pages_fts_data", "pages_fts_docsize"]).as_deref(),
            Some(
                "the virtual table `main.pages_fts` is not read through the firewall, and no policy can permit it: let agents read a table or view of what it is made of"
            )
        );
        let many = told(&["a", "b", "c", "d", "e", "f"]).unwrap();
        assert!(many.contains("`main.e` and 1 more are not read"), "{many}");
    }
}
