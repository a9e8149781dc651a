//! Rows of our own making: what shows each of them may show every row, and what shows not each of them does not.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Entity, RestrictedExpression};

use crate::catalog::{Column, Relation};
use crate::policy::{
    cedar::{
        attribute_type::{AttributeType, attribute_type, shows_presence},
        entities::{resource, row_ancestors},
        schema,
        seen_attribute::seen_attributes,
    },
    set::Loaded,
};

/// Which of the rows: they differ in every value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Sample {
    First,
    Second,
    /// As the first, without what may be missing.
    Empty,
}

impl Sample {
    pub(in crate::policy) const ALL: [Self; 3] = [Self::First, Self::Second, Self::Empty];

    /// The row as an entity.
    pub(in crate::policy) fn make(
        self,
        loaded: &Loaded,
        relation: &Relation,
    ) -> Result<Entity, String> {
        let mut attributes = HashMap::new();
        for column in &relation.columns {
            if self == Self::Empty && column.nullable {
                continue;
            }
            if let Some(value) = self.value(column, loaded)? {
                attributes.insert(column.key.to_string(), value);
            }
        }
        for attribute in seen_attributes(&loaded.catalog, relation) {
            let value = RestrictedExpression::new_bool(self == Self::First);
            attributes.insert(attribute.name, value);
        }
        // What it is in beyond these follows from the table.
        let above = row_ancestors(&loaded.catalog, &loaded.tags, relation).into_iter();
        let parents =
            above.filter(|(kind, _)| ["Table", schema::HAS_COLUMN, schema::TAGGED].contains(kind));
        let parents = parents.map(|(kind, id)| resource(kind, &id));
        let parents: HashSet<_> = parents
            .collect::<Result<_, _>>()
            .map_err(|failure| failure.detail)?;
        let uid =
            resource(&schema::row_type(relation), "sample").map_err(|failure| failure.detail)?;
        Entity::new(uid, attributes, parents).map_err(|error| error.to_string())
    }

    /// Values that hardly any policy names; where one does, less is proved and nothing wrong.
    fn value(
        self,
        column: &Column,
        loaded: &Loaded,
    ) -> Result<Option<RestrictedExpression>, String> {
        let pick = |first, second| match self {
            Self::First | Self::Empty => first,
            Self::Second => second,
        };
        let dialect = loaded.catalog.dialect();
        Ok(match attribute_type(column, dialect) {
            Some(AttributeType::Long) => {
                Some(RestrictedExpression::new_long(if self == Self::Second {
                    -706_050_403
                } else {
                    706_050_401
                }))
            }
            Some(AttributeType::Bool) => Some(RestrictedExpression::new_bool(self != Self::Second)),
            Some(AttributeType::Text) => {
                let text = pick("\u{1}first", "\u{2}second");
                Some(RestrictedExpression::new_string(text.to_owned()))
            }
            Some(AttributeType::Decimal) => Some(RestrictedExpression::new_decimal(pick(
                "706050.1",
                "-706050.3",
            ))),
            Some(AttributeType::Datetime) => {
                let text = pick("1801-01-01T00:00:00Z", "2801-01-01T00:00:00Z");
                Some(RestrictedExpression::new_datetime(text))
            }
            None if shows_presence(column, dialect) => {
                let record = RestrictedExpression::new_record([]);
                Some(record.map_err(|error| error.to_string())?)
            }
            None => None,
        })
    }
}
