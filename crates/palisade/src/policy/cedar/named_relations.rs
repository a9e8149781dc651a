//! Which relation a policy's scope names, found at once in a catalog of any size.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{EntityUid, ResourceConstraint};
use serde_json::Value;

use crate::catalog::{Catalog, Relation};
use crate::policy::cedar::schema::{self, ROW_NAMESPACE};

/// The relations of a catalog by what policies call them, their columns and their rows.
pub(in crate::policy) struct NamedRelations<'c> {
    tables: HashMap<&'c str, &'c Relation>,
    columns: HashMap<&'c str, &'c Relation>,
    /// In the catalog's order.
    pub(in crate::policy) all: Vec<&'c Relation>,
    rows: HashMap<String, &'c Relation>,
}

impl<'c> NamedRelations<'c> {
    /// Those of `catalog` that policies can name.
    pub(in crate::policy) fn new(catalog: &'c Catalog) -> Self {
        let all: Vec<&Relation> = catalog
            .relations()
            .iter()
            .filter(|relation| schema::has_entity(relation))
            .collect();
        let columns = all.iter().flat_map(|relation| {
            let columns = relation.columns.iter();
            columns.map(|column| (column.uid.as_str(), *relation))
        });
        Self {
            tables: all.iter().map(|r| (r.uid.as_str(), *r)).collect(),
            columns: columns.collect(),
            rows: all.iter().map(|r| (schema::row_type(r), *r)).collect(),
            all,
        }
    }

    /// The relation of this row type.
    pub(in crate::policy) fn with_row_type(&self, kind: &str) -> Option<&'c Relation> {
        self.rows.get(kind).copied()
    }

    /// The relation that is this table, or has this column.
    pub(in crate::policy) fn with_uid(&self, uid: &EntityUid) -> Option<&'c Relation> {
        let id = uid.id().unescaped();
        match uid.type_name().to_string().as_str() {
            "Table" => self.tables.get(id).copied(),
            "Column" => self.columns.get(id).copied(),
            _ => None,
        }
    }

    /// The relation that a scope names: itself, its rows or one of its columns.
    pub(in crate::policy) fn in_scope(&self, scope: &ResourceConstraint) -> Option<&'c Relation> {
        match scope {
            ResourceConstraint::Any => None,
            ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) => self.with_uid(uid),
            ResourceConstraint::Is(kind) => self.with_row_type(&kind.to_string()),
            ResourceConstraint::IsIn(kind, uid) => self
                .with_row_type(&kind.to_string())
                .or_else(|| self.with_uid(uid)),
        }
    }

    /// The relations whose row types stand anywhere in a policy.
    pub(in crate::policy) fn mentioned_in(&self, json: &Value) -> Vec<&'c Relation> {
        let kinds = row_types(json).into_iter();
        kinds.filter_map(|kind| self.with_row_type(kind)).collect()
    }

    /// The relations whose rows a scope may admit.
    pub(in crate::policy) fn with_rows_in_scope(
        &self,
        scope: &ResourceConstraint,
    ) -> Vec<&'c Relation> {
        let one = match scope {
            ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => {
                self.with_row_type(&kind.to_string())
            }
            ResourceConstraint::In(uid) if uid.type_name().to_string() == "Table" => {
                self.with_uid(uid)
            }
            ResourceConstraint::Any | ResourceConstraint::In(_) | ResourceConstraint::Eq(_) => {
                return self.all.clone();
            }
        };
        one.into_iter().collect()
    }
}

/// The row types that stand anywhere in a policy.
fn row_types(json: &Value) -> BTreeSet<&str> {
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
