//! Policies by which it would depend on itself which rows of a table are seen, or on more keys than are followed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    catalog::{Catalog, RelationId},
    policy::{
        cedar::{
            attribute_names::attribute_names, by_action::covers, named_relations::NamedRelations,
            schema::PolicyAction, seen_attribute::find_seen_attribute,
        },
        decide::rows::KEYS,
        load::{diagnostic::PolicyProblem, source::Located},
    },
};

/// The tables whose rows decide, by policies of `see`, which rows of each table are seen.
type Edges = BTreeMap<RelationId, BTreeSet<RelationId>>;

/// Reports the policies of `see` that lead from a table over foreign keys back to it, or over too many of them.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    named: &NamedRelations<'_>,
    problems: &mut Vec<PolicyProblem>,
) {
    let mut edges = Edges::new();
    let mut by_policy = Vec::new();
    for located in located {
        let Some(json) = &located.json else {
            continue;
        };
        if !covers(&located.policy, PolicyAction::See) {
            continue;
        }
        let names = attribute_names(json);
        for relation in named.with_rows_in_scope(&located.policy.resource_constraint()) {
            for name in names.clone() {
                if let Some(attribute) = find_seen_attribute(catalog, relation, &name) {
                    let parents = edges.entry(relation.id).or_default();
                    parents.insert(attribute.parent.id);
                    by_policy.push((located, name, relation.id, attribute.parent.id));
                }
            }
        }
    }
    for (located, name, from, to) in by_policy {
        let Some(path) = find_path(&edges, to, from) else {
            let keys = 1 + count_keys(&edges, to, KEYS);
            if keys > KEYS {
                let message = format!(
                    "more than {KEYS} keys, one after the other, decide which rows are seen"
                );
                let help = "let a table on the way be decided by its own columns";
                let problem = located.origin.at_attribute(&name, message);
                problems.push(problem.with_help(Some(help)));
            }
            continue;
        };
        let tables = std::iter::once(from).chain(path);
        let tables: Vec<String> = tables
            .filter_map(|id| catalog.relation(id))
            .map(|relation| format!("`{}`", relation.uid))
            .collect();
        let message = format!(
            "which rows are seen would depend on itself: {}",
            tables.join(" follows ")
        );
        let help = "let one of these tables be decided by its own columns";
        let problem = located.origin.at_attribute(&name, message);
        problems.push(problem.with_help(Some(help)));
    }
}

/// The most keys that are followed from a table, one after the other; some more than `most` where there are more.
fn count_keys(edges: &Edges, from: RelationId, most: usize) -> usize {
    let mut reached = BTreeSet::from([from]);
    for count in 0..=most {
        let next = reached.iter().filter_map(|table| edges.get(table));
        let next: BTreeSet<RelationId> = next.flatten().copied().collect();
        if next.is_empty() {
            return count;
        }
        reached = next;
    }
    most + 1
}

/// The tables on the way from one to another, both included.
fn find_path(edges: &Edges, from: RelationId, to: RelationId) -> Option<Vec<RelationId>> {
    let mut before: BTreeMap<RelationId, Option<RelationId>> = BTreeMap::from([(from, None)]);
    let mut pending = vec![from];
    while let Some(at) = pending.pop() {
        if at == to {
            let mut path = vec![at];
            let mut step = at;
            while let Some(Some(earlier)) = before.get(&step) {
                path.push(*earlier);
                step = *earlier;
            }
            path.reverse();
            return Some(path);
        }
        for next in edges.get(&at).into_iter().flatten() {
            if !before.contains_key(next) {
                before.insert(*next, Some(at));
                pending.push(*next);
            }
        }
    }
    None
}
