//! What policies call a schema, where that is not what the database calls it.

use std::collections::{BTreeMap, HashSet};

use crate::{
    catalog::{Catalog, system_schemas},
    ident,
};

/// Names of schemas that cannot hold beside each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaNameError {
    /// Policies could not tell two schemas of the database apart.
    #[error("policies would call two schemas `{name}`: `{one}` and `{other}`")]
    Shared {
        /// What policies would call both.
        name: String,
        /// A schema, as the database calls it.
        one: String,
        /// The other one.
        other: String,
    },
    /// One of the engine's own, which have the same name everywhere.
    #[error("`{0}` is a schema of the engine's own, and keeps its name")]
    System(String),
}

impl Catalog {
    /// The same, where policies call some schemas otherwise: `names` has what policies call a schema by what the database calls it.
    /// Those that the database lacks have no effect. Ids and version stay: the database is the same.
    ///
    /// # Errors
    /// If policies could not tell two schemas of the database apart, or one is the engine's own.
    pub fn with_policy_schemas(
        mut self,
        names: &BTreeMap<String, String>,
    ) -> Result<Self, SchemaNameError> {
        self.policy_schemas = BTreeMap::new();
        for (schema, name) in names {
            let (schema, name) = (self.fold_relation(schema), self.fold_relation(name));
            for named in [&schema, &name] {
                if system_schemas(self.dialect).contains(&named.as_str()) {
                    return Err(SchemaNameError::System(named.clone()));
                }
            }
            self.policy_schemas.insert(schema, name);
        }
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        for schema in self.schema_keys() {
            let name = self.policy_schema(&schema);
            match by_name.insert(name.clone(), schema.clone()) {
                Some(one) => {
                    return Err(SchemaNameError::Shared {
                        name,
                        one,
                        other: schema,
                    });
                }
                None => continue,
            }
        }
        let mut relations = std::mem::take(&mut self.relations);
        for relation in &mut relations {
            let schema = self.policy_schema(&relation.schema);
            if *schema == *relation.policy_schema {
                continue;
            }
            relation.uid = ident::qualify([schema.as_str(), &*relation.key]);
            for column in &mut relation.columns {
                column.uid = ident::qualify([schema.as_str(), &*relation.key, &*column.key]);
            }
            relation.policy_schema = schema.into();
        }
        self.relations = relations;
        Ok(self)
    }

    /// What policies call the schema that the database calls `schema`, folded.
    #[must_use]
    pub fn policy_schema(&self, schema: &str) -> String {
        let key = self.fold_relation(schema);
        self.policy_schemas.get(&key).cloned().unwrap_or(key)
    }

    /// What policies call schemas otherwise than the database.
    pub(crate) fn policy_schemas(&self) -> &BTreeMap<String, String> {
        &self.policy_schemas
    }

    /// The keys of the schemas that hold something, each once.
    fn schema_keys(&self) -> HashSet<String> {
        let relations = self.relations.iter();
        let mut keys: HashSet<String> = relations.map(|r| r.schema_key.to_string()).collect();
        keys.extend(self.functions.iter().filter_map(|def| def.schema.clone()));
        keys.extend(self.search_keys.iter().cloned());
        keys.retain(|key| !key.is_empty());
        keys
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::{
        catalog::{RelationDef, RelationKind},
        dialect::Dialect,
    };

    fn catalog(schemas: &[&str]) -> Catalog {
        let tables = schemas
            .iter()
            .map(|schema| RelationDef::new(*schema, "orders", RelationKind::Table, Vec::new()));
        let builder = Catalog::builder(Dialect::Mysql).database("shop_eu");
        let builder = tables.fold(builder, |builder, table| builder.relation(table));
        builder.build().unwrap()
    }

    fn name(catalog: Catalog, names: &[(&str, &str)]) -> Result<Catalog, SchemaNameError> {
        let names = names
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        catalog.with_policy_schemas(&names.collect())
    }

    #[test]
    fn a_schema_is_called_as_policies_call_it() {
        let before = catalog(&["shop_eu", "hr"]);
        let version = before.version().to_owned();
        let named = name(before, &[("shop_eu", "shop"), ("shop_us", "shop")]).unwrap();
        let uids: Vec<_> = named.relations().iter().map(|r| r.uid.as_str()).collect();
        assert_eq!(uids, ["shop.orders", "hr.orders"]);
        assert_eq!(named.relations()[0].schema, "shop_eu");
        assert_eq!(named.version(), version);
        assert!(named.find("shop_eu", "orders").is_some());
        assert!(named.find("shop", "orders").is_none());
        let back = name(named, &[]).unwrap();
        assert_eq!(back.relations()[0].uid, "shop_eu.orders");
    }

    #[test]
    fn names_that_two_schemas_would_share_are_refused() {
        for (schemas, names) in [
            (&["shop_eu", "hr"][..], &[("shop_eu", "hr")][..]),
            (
                &["shop_eu", "shop_us"],
                &[("shop_eu", "s"), ("shop_us", "s")],
            ),
            (&["shop_eu"], &[("shop_eu", "mysql")]),
            (&["shop_eu"], &[("information_schema", "shop")]),
        ] {
            assert!(name(catalog(schemas), names).is_err(), "{names:?}");
        }
        // They may change places.
        let names = [("shop_eu", "hr"), ("hr", "shop_eu")];
        assert!(name(catalog(&["shop_eu", "hr"]), &names).is_ok());
    }
}
