//! Which row types policies name beside the one they decide about, as in `unless { resource is row::main::tickets }`.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::ResourceConstraint;
use serde_json::Value;

use crate::catalog::{Relation, RelationId};
use crate::policy::cedar::{named_relations::NamedRelations, schema::ROW_NAMESPACE};

/// The relations whose row types must be known to evaluate the row policies of another relation.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct MentionedRows {
    /// Named by policies that may decide about any rows.
    by_any: BTreeSet<RelationId>,
    /// Named by policies that decide about the rows of this relation alone.
    by_relation: HashMap<RelationId, BTreeSet<RelationId>>,
}

impl MentionedRows {
    /// What a policy of this scope names. One that cannot be written down has no `json`, and may name anything.
    pub(in crate::policy) fn add(
        &mut self,
        named: &NamedRelations<'_>,
        scope: &ResourceConstraint,
        json: Option<&Value>,
    ) {
        let mentioned: BTreeSet<RelationId> = match json {
            Some(json) => row_types(json)
                .iter()
                .filter_map(|kind| named.with_row_type(kind))
                .map(|relation| relation.id)
                .collect(),
            None => named.all.iter().map(|relation| relation.id).collect(),
        };
        if mentioned.is_empty() {
            return;
        }
        match named.with_rows_in_scope(scope).as_slice() {
            [one] => self.by_relation.entry(one.id).or_default().extend(mentioned),
            _ => self.by_any.extend(mentioned),
        }
    }

    /// The relations whose row types policies about rows of `relation` may look at, itself among them.
    pub(in crate::policy) fn beside(&self, relation: &Relation) -> BTreeSet<RelationId> {
        let mut out = BTreeSet::from([relation.id]);
        out.extend(&self.by_any);
        out.extend(self.by_relation.get(&relation.id).into_iter().flatten());
        out
    }
}

/// The row types that stand anywhere in a policy.
pub(in crate::policy) fn row_types(json: &Value) -> BTreeSet<&str> {
    let mut out = BTreeSet::new();
    collect_row_types(json, &mut out);
    out
}

fn collect_row_types<'a>(json: &'a Value, out: &mut BTreeSet<&'a str>) {
    match json {
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_row_types(field, out)),
        Value::Array(items) => items.iter().for_each(|item| collect_row_types(item, out)),
        Value::String(word) => {
            let rest = word.strip_prefix(ROW_NAMESPACE);
            if rest.is_some_and(|rest| rest.starts_with("::")) {
                out.insert(word);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
