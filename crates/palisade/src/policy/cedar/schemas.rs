//! The schemas that Cedar checks against: each knows the row types that its use looks at.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::{Schema, SchemaFragment};
use serde_json::Value;

use crate::{
    catalog::{Catalog, Relation, RelationId},
    policy::cedar::{
        failure::Failure, mentioned_rows::MentionedRows, rows_json::rows_json, schema::rows_text,
        schema_fragment,
    },
};

/// What Cedar checks policies and requests against. A schema of every row type of a large catalog takes seconds, so each use
/// gets the row types that it looks at.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Schemas {
    /// The operator's types and all of the catalog's but those of rows.
    pub(in crate::policy) fixed: Schema,
    /// The operator's types, to which the catalog's are added.
    principals: SchemaFragment,
    /// Which other row types the policies of a relation's rows name.
    mentioned: MentionedRows,
    /// By the relation whose rows a schema knows.
    by_relation: Arc<Mutex<HashMap<RelationId, Arc<Schema>>>>,
}

/// How many relations' schemas are remembered; when more come, all are forgotten.
const SCHEMAS: usize = 256;

impl Schemas {
    /// With the operator's types, if Cedar takes them beside the catalog's.
    pub(in crate::policy) fn new(principals: SchemaFragment) -> Option<Self> {
        let no_rows = schema_fragment::row_actions()?.clone();
        let fixed = join(&principals, schema_fragment::fixed_types()?, no_rows).ok()?;
        Some(Self {
            fixed,
            principals,
            mentioned: MentionedRows::default(),
            by_relation: Arc::default(),
        })
    }

    /// With what policies name, which is known after the types are.
    pub(in crate::policy) fn with_mentioned(self, mentioned: MentionedRows) -> Self {
        Self { mentioned, ..self }
    }

    /// The operator's types, as Cedar writes them.
    ///
    /// # Errors
    /// If Cedar does not write them down.
    pub(in crate::policy) fn principals_text(&self) -> Result<String, String> {
        let text = self.principals.to_cedarschema();
        text.map_err(|error| error.to_string())
    }

    /// The names of all attributes that the operator's types demand.
    ///
    /// # Errors
    /// If Cedar does not write them down.
    pub(in crate::policy) fn required_attributes(&self) -> Result<BTreeSet<String>, String> {
        let json = self.principals.clone().to_json_value();
        let json = json.map_err(|error| error.to_string())?;
        let mut out = BTreeSet::new();
        collect_required(&json, &mut out);
        Ok(out)
    }

    /// The row type of `relation`, and those that policies of its rows name, with the actions on them.
    pub(in crate::policy) fn rows_text(&self, catalog: &Catalog, relation: &Relation) -> String {
        rows_text(catalog, &self.relations_with(catalog, relation))
    }

    fn relations_with<'c>(&self, catalog: &'c Catalog, relation: &Relation) -> Vec<&'c Relation> {
        let ids = self.mentioned.list_with(relation).into_iter();
        ids.filter_map(|id| catalog.relation(id)).collect()
    }

    /// With the row types of `relations`.
    ///
    /// # Errors
    /// If Cedar does not take them beside the operator's, which would be a defect of ours.
    pub(in crate::policy) fn with_rows(
        &self,
        catalog: &Catalog,
        relations: &[&Relation],
    ) -> Result<Schema, Failure> {
        self.join_rows(catalog, relations, schema_fragment::fixed_types())
    }

    /// As [`with_rows`](Self::with_rows), with other fixed types.
    fn join_rows(
        &self,
        catalog: &Catalog,
        relations: &[&Relation],
        fixed: Option<&SchemaFragment>,
    ) -> Result<Schema, Failure> {
        let unread = || Failure::new("Cedar does not read our types");
        let rows = match relations {
            [] => schema_fragment::row_actions().ok_or_else(unread)?.clone(),
            relations => SchemaFragment::from_json_value(rows_json(catalog, relations))
                .map_err(Failure::new)?,
        };
        join(&self.principals, fixed.ok_or_else(unread)?, rows)
    }

    /// With the row type of `relation`, and those that policies of its rows name, for decisions about its rows alone: the other
    /// actions are names in it.
    ///
    /// # Errors
    /// As [`with_rows`](Self::with_rows).
    pub(in crate::policy) fn of_rows(
        &self,
        catalog: &Catalog,
        relation: &Relation,
    ) -> Result<Arc<Schema>, Failure> {
        // A poisoned lock guards a map of finished values; the panic was elsewhere.
        let known = || {
            self.by_relation
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(schema) = known().get(&relation.id) {
            return Ok(Arc::clone(schema));
        }
        let relations = self.relations_with(catalog, relation);
        let fixed = schema_fragment::fixed_types_for_rows();
        let schema = Arc::new(self.join_rows(catalog, &relations, fixed)?);
        let mut known = known();
        if known.len() >= SCHEMAS {
            known.clear();
        }
        known.insert(relation.id, Arc::clone(&schema));
        Ok(schema)
    }
}

/// The attributes below `json` that are not said to be optional.
fn collect_required(json: &Value, out: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            let attributes = fields.get("attributes").and_then(Value::as_object);
            for (name, declared) in attributes.into_iter().flatten() {
                if declared.get("required").and_then(Value::as_bool) != Some(false) {
                    out.insert(name.clone());
                }
            }
            fields
                .values()
                .for_each(|field| collect_required(field, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_required(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The operator's types, the fixed ones and those of rows as one.
fn join(
    principals: &SchemaFragment,
    fixed: &SchemaFragment,
    rows: SchemaFragment,
) -> Result<Schema, Failure> {
    Schema::from_schema_fragments([principals.clone(), fixed.clone(), rows]).map_err(Failure::new)
}
