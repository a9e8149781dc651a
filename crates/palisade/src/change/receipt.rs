//! What is left of a change that was kept.

use serde::{Deserialize, Serialize};

use crate::{
    catalog::Catalog,
    change::{
        difference::{Difference, spell_row},
        written::ChangeWrite,
    },
    value::Value,
};

/// The table of an operator's database in which receipts stand: a change's id and its receipt, as `change_id` and `receipt`. It is in
/// the first schema of the search path. Catalogs leave it out, so that no statement reads or writes it.
pub const LEDGER: &str = "palisade_receipts";

/// What a database says of a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEntry {
    /// It has no table of receipts.
    NoLedger,
    /// No such change was kept.
    Absent,
    /// The receipt, as JSON.
    Found(String),
}

/// What a change that was kept leaves behind. It holds no value of a row: digests are under a store's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Its id.
    pub id: String,
    /// When it was kept, in milliseconds since 1970-01-01 UTC.
    pub kept_ms: u64,
    /// Who proposed the change.
    #[serde(default)]
    pub proposed_by: String,
    /// Who approved the change, where that was demanded.
    pub approved_by: Option<String>,
    /// A digest of the statements and their parameters.
    pub statements: String,
    /// The fingerprint of each statement: two that differ in literals alone have the same. Empty for what undoes a change or sets a table
    /// back: which statements that takes follows from old values.
    #[serde(default)]
    pub fingerprints: Vec<String>,
    /// Ids of the policies that demanded an approval.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Ids of the policies that permitted its statements, and of those that demanded masks, filters or caps of them. Empty in what
    /// principals are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permitted_by: Vec<String>,
    /// What its statements were permitted to write. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<ChangeWrite>,
    /// Of the policies and principals by which it was decided, and the catalog. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy_version: String,
    /// Of the catalog alone. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub catalog_version: String,
    /// A digest of what binds of the difference, as it was looked at and as it was kept. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub difference: String,
    /// A digest of the keys of all rows that are different. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub keys: String,
    /// A digest of the images of its rows, by which it can be undone. Empty in what principals are told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub images: String,
    /// How many rows are different, by table.
    pub tables: Vec<TableCount>,
}

/// How many rows of a table a change made different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableCount {
    /// Its schema, as declared.
    pub schema: String,
    /// Its name, as declared.
    pub table: String,
    /// New rows.
    pub inserted: u64,
    /// Rows that have other values.
    pub updated: u64,
    /// Rows that are not there any more.
    pub deleted: u64,
}

/// A row of a table by the values of its primary key, in the key's order. A number and its digits are one text, since drivers tell keys
/// either way.
#[must_use]
pub fn row_text(schema: &str, table: &str, key: &[Value]) -> String {
    let plain = |value: &Value| match value {
        Value::Null => Value::Null,
        Value::Bool(bool) => Value::text(if *bool { "1" } else { "0" }),
        Value::Integer(integer) => Value::text(integer.to_string()),
        Value::Real(real) => Value::text(real.to_string()),
        Value::Text(bytes) | Value::Blob(bytes) => Value::Text(bytes.clone()),
    };
    let row = [Value::text(schema), Value::text(table)];
    let row: Vec<Value> = row.into_iter().chain(key.iter().map(plain)).collect();
    spell_row(&row)
}

impl Difference {
    /// How many rows are different, by table.
    #[must_use]
    pub fn count_by_table(&self) -> Vec<TableCount> {
        let count = |of: &dyn Fn(bool, bool) -> bool, rows: &[super::RowDifference]| {
            let rows = rows
                .iter()
                .filter(|row| of(row.before.is_some(), row.after.is_some()));
            u64::try_from(rows.count()).unwrap_or(u64::MAX)
        };
        let tables = self.tables.iter().map(|table| TableCount {
            schema: table.schema.clone(),
            table: table.table.clone(),
            inserted: count(&|before, _| !before, &table.rows),
            updated: count(&|before, after| before && after, &table.rows),
            deleted: count(&|_, after| !after, &table.rows),
        });
        tables.collect()
    }

    /// The rows that are different and have a primary key, each as a text that [`row_text`] gives too.
    #[must_use]
    pub fn row_texts(&self, catalog: &Catalog) -> Vec<String> {
        let mut texts = Vec::new();
        for table in &self.tables {
            let Some(relation) = catalog.find(&table.schema, &table.table) else {
                continue;
            };
            if relation.primary_key.is_empty() {
                continue;
            }
            for cells in table.rows.iter().flat_map(|row| [&row.before, &row.after]) {
                let Some(cells) = cells else {
                    continue;
                };
                let key = relation.primary_key.iter();
                let key: Option<Vec<Value>> =
                    key.map(|at| cells.get(usize::from(*at)).cloned()).collect();
                texts.extend(key.map(|key| row_text(&relation.schema, &relation.name, &key)));
            }
        }
        texts.sort();
        texts.dedup();
        texts
    }

    /// The primary keys of all rows that are different, as one text. Of a table without one, all values of its rows.
    #[must_use]
    pub fn key_text(&self, catalog: &Catalog) -> String {
        let mut lines = Vec::new();
        for table in &self.tables {
            let relation = catalog.find(&table.schema, &table.table);
            let keys: &[u16] = relation.map_or(&[], |relation| &relation.primary_key);
            for cells in table.rows.iter().flat_map(|row| [&row.before, &row.after]) {
                let Some(cells) = cells else {
                    continue;
                };
                let key: Vec<Value> = match keys {
                    [] => cells.clone(),
                    keys => keys
                        .iter()
                        .filter_map(|at| cells.get(usize::from(*at)).cloned())
                        .collect(),
                };
                let row = [Value::text(&table.schema), Value::text(&table.table)];
                let row: Vec<Value> = row.into_iter().chain(key).collect();
                lines.push(spell_row(&row));
            }
        }
        lines.sort();
        lines.dedup();
        lines.concat()
    }
}
