//! What columns of rows hold of which a statement says nothing, or `DEFAULT`: what the catalog knows of their defaults.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{Expr, UnaryOperator, Value as SqlValue, ValueWithSpan};

use crate::rewrite::change::{
    ChangeRewriter,
    new_row::{
        column_storage,
        converted::{StoredValue, stored_value},
        fold::Constant,
    },
};
use crate::{
    catalog::{Change, DefaultValue, Relation},
    resolve::sets_off_triggers,
};

impl ChangeRewriter<'_> {
    /// What the columns `looked` of a new row hold, as far as that is known of those that are not `given`.
    pub(in crate::rewrite) fn omitted_values(
        &self,
        looked: &BTreeSet<u16>,
        given: impl Fn(u16) -> bool,
        relation: &Relation,
    ) -> BTreeMap<u16, StoredValue> {
        let left_out = looked.iter().filter(|index| !given(**index));
        left_out
            .map(|index| (*index, self.default_value(*index, Change::Insert, relation)))
            .filter(|(_, stored)| *stored != StoredValue::Unknown)
            .collect()
    }

    /// What the column at `index` holds by itself once there was this change.
    pub(in crate::rewrite) fn default_value(
        &self,
        index: u16,
        change: Change,
        relation: &Relation,
    ) -> StoredValue {
        let Some(column) = relation.column(index) else {
            return StoredValue::Unknown;
        };
        // Keys are counted up, and what is there in the place of nothing is often a trigger's.
        let is_key = relation.primary_key.contains(&index) || relation.rowid_alias == Some(index);
        if is_key || column.generated.is_some() || sets_off_triggers(relation, change, self.catalog)
        {
            return StoredValue::Unknown;
        }
        let value = match &column.filled {
            DefaultValue::Unknown => return StoredValue::Unknown,
            DefaultValue::Null if !column.nullable => return StoredValue::Unknown,
            DefaultValue::Null => return StoredValue::Known(Constant::Null),
            DefaultValue::Number(text) => match text.strip_prefix('-') {
                Some(digits) => Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(literal(SqlValue::Number(digits.to_owned(), false))),
                },
                None => literal(SqlValue::Number(text.clone(), false)),
            },
            DefaultValue::Text(text) => {
                literal(SqlValue::SingleQuotedString(text.replace('\'', "''")))
            }
            DefaultValue::Boolean(value) => literal(SqlValue::Boolean(*value)),
        };
        let column = column_storage::storage_column(column, self.catalog);
        stored_value(&value, &column, self.catalog.dialect(), &|_| None)
    }
}

fn literal(value: SqlValue) -> Expr {
    Expr::Value(ValueWithSpan::from(value))
}
