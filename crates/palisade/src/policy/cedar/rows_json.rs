//! The row types and the actions on them as Cedar's JSON, which it reads several times as fast as the text that people see.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    catalog::{Catalog, Relation},
    policy::cedar::{
        attribute_type::AttributeType,
        schema::{
            Attribute, HAS_COLUMN, PRINCIPAL_TYPES, PolicyAction, ROW_NAMESPACE, RowAttribute,
            TAGGED, context, mangle, row_attributes, row_type,
        },
        seen_attribute::seen_attributes,
    },
};

/// The types of the rows of `relations`, and the actions on them. There is at least one relation.
pub(in crate::policy) fn rows_json(catalog: &Catalog, relations: &[&Relation]) -> Value {
    let mut namespaces: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for relation in relations {
        let namespace = format!("{ROW_NAMESPACE}::{}", mangle(&relation.policy_schema));
        let entities = namespaces.entry(namespace).or_default();
        entities.insert(mangle(&relation.key), row_entity(catalog, relation));
    }
    let row_types: Vec<String> = relations
        .iter()
        .map(|relation| row_type(relation))
        .collect();
    let actions: Map<String, Value> = PolicyAction::filter(PolicyAction::is_of_rows)
        .map(|action| {
            let applies = json!({
                "principalTypes": PRINCIPAL_TYPES,
                "resourceTypes": row_types,
                "context": record(&context(action)),
            });
            (action.name().to_owned(), json!({ "appliesTo": applies }))
        })
        .collect();
    let mut out = Map::new();
    out.insert(
        String::new(),
        json!({ "entityTypes": {}, "actions": actions }),
    );
    for (namespace, entities) in namespaces {
        out.insert(namespace, json!({ "entityTypes": entities, "actions": {} }));
    }
    Value::Object(out)
}

fn row_entity(catalog: &Catalog, relation: &Relation) -> Value {
    let mut attributes: Map<String, Value> = row_attributes(catalog, relation)
        .map(|(column, shown)| {
            let kind = match shown {
                RowAttribute::Value(class) => class.json(),
                RowAttribute::Presence => json!({ "type": "Record", "attributes": {} }),
            };
            (column.key.to_string(), with_presence(kind, column.nullable))
        })
        .collect();
    let seen = seen_attributes(catalog, relation).into_iter();
    attributes.extend(seen.map(|seen| (seen.name, AttributeType::Bool.json())));
    json!({
        "memberOfTypes": ["Table", HAS_COLUMN, TAGGED],
        "shape": { "type": "Record", "attributes": attributes },
    })
}

fn record(attributes: &[Attribute]) -> Value {
    let attributes: Map<String, Value> = attributes
        .iter()
        .map(|attribute| {
            let kind = match attribute.kind {
                "datetime" => AttributeType::Datetime.json(),
                kind => json!({ "type": kind }),
            };
            (
                attribute.name.to_owned(),
                with_presence(kind, attribute.is_optional),
            )
        })
        .collect();
    json!({ "type": "Record", "attributes": attributes })
}

fn with_presence(mut kind: Value, is_optional: bool) -> Value {
    if let (true, Some(fields)) = (is_optional, kind.as_object_mut()) {
        fields.insert("required".to_owned(), Value::Bool(false));
    }
    kind
}

impl AttributeType {
    /// The type in a schema as JSON.
    fn json(self) -> Value {
        match self {
            Self::Long => json!({ "type": "Long" }),
            Self::Bool => json!({ "type": "Boolean" }),
            Self::Text => json!({ "type": "String" }),
            Self::Decimal => json!({ "type": "Extension", "name": "decimal" }),
            Self::Datetime => json!({ "type": "Extension", "name": "datetime" }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use cedar_policy::SchemaFragment;

    use super::*;
    use crate::{
        catalog::TypeClass,
        dialect::Dialect,
        policy::{cedar::schema::rows_text, tests::fixture},
    };

    /// Both forms are the same schema, as Cedar prints it.
    #[test]
    fn the_json_says_what_the_text_says() {
        let strange = [
            "in",
            "a b",
            "principal",
            "users",
            "a\nb",
            "é",
            "Set",
            "_q_in",
        ];
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
            let mut builder = Catalog::builder(dialect);
            for name in strange {
                let mut relation = fixture::table(name, &["id"]);
                let classes = [
                    TypeClass::Text,
                    TypeClass::Integer,
                    TypeClass::Boolean,
                    TypeClass::Decimal,
                    TypeClass::TimestampTz,
                    TypeClass::Blob,
                ];
                let columns = strange.iter().zip(classes.iter().cycle());
                relation.columns = columns
                    .enumerate()
                    .map(|(index, (name, class))| {
                        let mut column = fixture::column(name, *class);
                        column.nullable = index % 2 == 0;
                        column
                    })
                    .collect();
                builder = builder.relation(relation);
            }
            for catalog in [builder.build().unwrap(), fixture::catalog()] {
                let all: Vec<&Relation> = catalog.relations().iter().collect();
                for relations in [&all[..1], &all[..]] {
                    let (text, _) =
                        SchemaFragment::from_cedarschema_str(&rows_text(&catalog, relations))
                            .unwrap();
                    let json =
                        SchemaFragment::from_json_value(rows_json(&catalog, relations)).unwrap();
                    let print = |fragment: SchemaFragment| {
                        fragment.to_cedarschema().unwrap().replace("__cedar::", "")
                    };
                    assert_eq!(print(json), print(text));
                }
            }
        }
    }
}
