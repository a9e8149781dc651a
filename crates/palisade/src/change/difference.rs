//! What a change does, row by row, as the engine tells it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    catalog::{Catalog, Relation},
    value::Value,
};

/// Everything that a change does, what triggers and foreign keys did with it included. Raw values: they leave in an answer that is decided
/// for whoever looks, and in no other way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    /// The tables in which something is different.
    pub tables: Vec<TableDifference>,
}

/// What is different in one table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDifference {
    /// Its schema, as declared.
    pub schema: String,
    /// Its name, as declared.
    pub table: String,
    /// Its rows, in the order in which the change came to them.
    pub rows: Vec<RowDifference>,
}

/// One row, a cell for each column of the catalog. A new row has nothing before, a deleted row nothing after.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDifference {
    /// What it was.
    pub before: Option<Vec<Value>>,
    /// What it is.
    pub after: Option<Vec<Value>>,
}

/// Columns whose values the engine makes anew each time, by schema, table and column: a clock's, or random ones.
pub type GeneratedColumns = BTreeSet<(String, String, String)>;

/// What is different between rows of `relation` before and after, whatever their order: rows with the same primary key are one row.
/// Rows of a table without one are deleted and new.
#[must_use]
pub fn pair_rows(
    relation: &Relation,
    before: impl IntoIterator<Item = Vec<Value>>,
    after: impl IntoIterator<Item = Vec<Value>>,
) -> Vec<RowDifference> {
    let key = |cells: &[Value]| -> String {
        let keys = relation.primary_key.iter();
        let keys: Vec<&Value> = keys.filter_map(|at| cells.get(usize::from(*at))).collect();
        match keys.is_empty() {
            true => spell_row(cells),
            false => keys.into_iter().map(spell).collect::<Vec<_>>().join(" "),
        }
    };
    let mut new: BTreeMap<String, Vec<Vec<Value>>> = BTreeMap::new();
    for cells in after {
        new.entry(key(&cells)).or_default().push(cells);
    }
    let mut rows = Vec::new();
    for cells in before {
        let after = new.get_mut(&key(&cells)).and_then(Vec::pop);
        if after.as_ref() != Some(&cells) {
            rows.push(RowDifference {
                before: Some(cells),
                after,
            });
        }
    }
    let new = new.into_values().flatten();
    rows.extend(new.map(|cells| RowDifference {
        before: None,
        after: Some(cells),
    }));
    rows
}

impl Difference {
    /// How many rows are different.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.tables.iter().map(|table| table.rows.len()).sum()
    }

    /// What binds, as a text: two differences with the same text do the same.
    ///
    /// Columns of `generated` are left out of what is written. An integer key that an engine gives to a new row stands there as the row's
    /// number within this change, wherever another row of the change refers to it.
    #[must_use]
    pub fn binding_text(&self, catalog: &Catalog, generated: &GeneratedColumns) -> String {
        let new_keys = self.number_new_rows(catalog, generated);
        let mut tables: Vec<&TableDifference> = self.tables.iter().collect();
        tables.sort_by(|a, b| (&a.schema, &a.table).cmp(&(&b.schema, &b.table)));
        let mut text = "palisade difference 1\n".to_owned();
        for table in tables {
            let columns = Columns::new(table, catalog, generated, &new_keys);
            let mut rows: Vec<String> = table
                .rows
                .iter()
                .map(|row| columns.spell_row(row))
                .collect();
            // The order in which an engine comes to rows is its own.
            rows.sort();
            push_part(&mut text, "table", &table.schema);
            push_part(&mut text, "", &table.table);
            for row in rows {
                push_part(&mut text, "row", &row);
            }
        }
        text
    }

    /// The new rows with a key that the engine gives, by table and key.
    pub(super) fn number_new_rows(
        &self,
        catalog: &Catalog,
        generated: &GeneratedColumns,
    ) -> NewRows {
        let mut numbers = BTreeMap::new();
        for table in &self.tables {
            let relation = catalog.find(&table.schema, &table.table);
            let Some(at) = relation.and_then(|relation| given_key(relation, generated)) else {
                continue;
            };
            let new = table.rows.iter().filter(|row| row.before.is_none());
            let keys = new.map(|row| match row.after.as_ref()?.get(at)? {
                Value::Integer(key) => Some(*key),
                Value::Null | Value::Bool(_) | Value::Real(_) | Value::Text(_) | Value::Blob(_) => {
                    None
                }
            });
            let mut keys: Vec<(usize, i64)> = keys
                .enumerate()
                .filter_map(|(number, key)| key.map(|key| (number, key)))
                .collect();
            if relation.is_some_and(|relation| relation.rowid_alias.is_none()) {
                // Servers count keys up, and tell rows in any order.
                keys.sort_by_key(|(_, key)| *key);
                for (rank, (number, _)) in keys.iter_mut().enumerate() {
                    *number = rank;
                }
            }
            for (number, key) in keys {
                numbers.insert((table.schema.clone(), table.table.clone(), key), number);
            }
        }
        numbers
    }
}

/// The numbers of new rows, by schema, table and key.
pub(super) type NewRows = BTreeMap<(String, String, i64), usize>;

/// The position of the key that the engine gives to new rows of `relation`, if it does: SQLite's row id, or a primary key that is made
/// anew each time.
pub(super) fn given_key(relation: &Relation, generated: &GeneratedColumns) -> Option<usize> {
    if let Some(alias) = relation.rowid_alias {
        return Some(usize::from(alias));
    }
    let [only] = relation.primary_key.as_slice() else {
        return None;
    };
    let column = relation.columns.get(usize::from(*only))?;
    let name = (
        relation.schema.clone(),
        relation.name.clone(),
        column.name.to_string(),
    );
    generated.contains(&name).then(|| usize::from(*only))
}

/// A row of cells as a text.
pub(super) fn spell_row(cells: &[Value]) -> String {
    let mut text = String::new();
    for value in cells {
        push_part(&mut text, "", &spell(value));
    }
    text
}

/// How the rows of a table are spelled.
pub(super) struct Columns<'a> {
    table: &'a TableDifference,
    relation: Option<&'a Relation>,
    catalog: &'a Catalog,
    generated: &'a GeneratedColumns,
    new_keys: &'a NewRows,
}

impl<'a> Columns<'a> {
    pub(super) fn new(
        table: &'a TableDifference,
        catalog: &'a Catalog,
        generated: &'a GeneratedColumns,
        new_keys: &'a NewRows,
    ) -> Self {
        Self {
            table,
            relation: catalog.find(&table.schema, &table.table),
            catalog,
            generated,
            new_keys,
        }
    }

    /// A value of `row` as the change left it.
    pub(super) fn spell_after(&self, row: &RowDifference, at: usize, value: &Value) -> String {
        let before = row.before.as_ref().and_then(|before| before.get(at));
        match before == Some(value) {
            true => spell(value),
            false => self.spell_written(at, value),
        }
    }

    fn spell_row(&self, row: &RowDifference) -> String {
        let mut text = String::new();
        for (when, is_after, cells) in [("before", false, &row.before), ("after", true, &row.after)]
        {
            let Some(cells) = cells else {
                continue;
            };
            push_part(&mut text, when, &cells.len().to_string());
            for (at, value) in cells.iter().enumerate() {
                let spelled = match is_after {
                    true => self.spell_after(row, at, value),
                    false => spell(value),
                };
                push_part(&mut text, "", &spelled);
            }
        }
        text
    }

    /// A value that the change wrote.
    fn spell_written(&self, at: usize, value: &Value) -> String {
        let Some(relation) = self.relation else {
            return spell(value);
        };
        let Some(column) = relation.columns.get(at) else {
            return spell(value);
        };
        let name = (
            self.table.schema.clone(),
            self.table.table.clone(),
            column.name.to_string(),
        );
        if let Value::Integer(key) = value
            && let Some((schema, table)) = self.keyed_table(relation, at)
            && let Some(number) = self.new_keys.get(&(schema, table.clone(), *key))
        {
            return format!("new row {number} of {table}");
        }
        if self.generated.contains(&name) {
            return "generated".to_owned();
        }
        spell(value)
    }

    /// The table whose key stands in a column: its own table, or what the column refers to.
    fn keyed_table(&self, relation: &Relation, at: usize) -> Option<(String, String)> {
        if given_key(relation, self.generated) == Some(at) {
            return Some((relation.schema.clone(), relation.name.clone()));
        }
        let column = relation.columns.get(at)?;
        let key = relation.foreign_keys.iter().find(|key| {
            matches!(key.columns.as_slice(), [only] if only.eq_ignore_ascii_case(&column.name))
        })?;
        let parent = self.catalog.find(&key.schema, &key.table)?;
        Some((parent.schema.clone(), parent.name.clone()))
    }
}

/// A part with its length, so that no two rows of parts have one text.
fn push_part(text: &mut String, kind: &str, part: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{kind} {} {part}", part.len());
}

/// A value with its type, so that no two have one text. [`parse_value`] reads it.
pub(crate) fn spell(value: &Value) -> String {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => format!("bool {bool}"),
        Value::Integer(integer) => format!("integer {integer}"),
        Value::Real(real) => format!("real {:016x}", real.to_bits()),
        Value::Text(text) => format!("text {}", hex(text)),
        Value::Blob(bytes) => format!("blob {}", hex(bytes)),
    }
}

/// The value of this text, which [`spell`] gave.
pub(super) fn parse_value(spelled: &str) -> Option<Value> {
    let (kind, text) = spelled.split_once(' ').unwrap_or((spelled, ""));
    let bytes = || -> Option<Vec<u8>> {
        let digits = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| {
            let is_byte = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            let pair = std::str::from_utf8(pair).ok().filter(|_| is_byte)?;
            u8::from_str_radix(pair, 16).ok()
        };
        digits.map(byte).collect()
    };
    match kind {
        "null" => Some(Value::Null),
        "bool" => text.parse().ok().map(Value::Bool),
        "integer" => text.parse().ok().map(Value::Integer),
        "real" => {
            let bits = u64::from_str_radix(text, 16).ok()?;
            Some(Value::Real(f64::from_bits(bits)))
        }
        "text" => bytes().map(Value::Text),
        "blob" => bytes().map(Value::Blob),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn differences_of_one_text_do_the_same() {
        let schema = "CREATE TABLE t (id integer PRIMARY KEY, a text, b text);
            CREATE TABLE u (id integer PRIMARY KEY, a text, b text);";
        let catalog = crate::catalog::test_ddl::postgres(schema, "d").unwrap();
        let row = |id: i64, a: &str, b: &str| {
            Some(vec![Value::Integer(id), Value::text(a), Value::text(b)])
        };
        let text_of = |table: &str, rows: &[RowDifference]| {
            let table = TableDifference {
                schema: "public".to_owned(),
                table: table.to_owned(),
                rows: rows.to_vec(),
            };
            let tables = vec![table];
            Difference { tables }.binding_text(&catalog, &GeneratedColumns::new())
        };
        let new = |id, a, b| RowDifference {
            before: None,
            after: row(id, a, b),
        };
        let gone = RowDifference {
            before: row(1, "x", "yz"),
            after: None,
        };
        let updated = RowDifference {
            before: row(1, "x", "y"),
            after: row(1, "x", "yz"),
        };
        let rows = [new(1, "x", "yz"), new(2, "", "")];
        let text = text_of("t", &rows);
        // Engines come to rows in any order.
        assert_eq!(text, text_of("t", &[new(2, "", ""), new(1, "x", "yz")]));
        for (table, rows) in [
            ("u", rows.to_vec()),
            ("t", vec![new(1, "xy", "z"), new(2, "", "")]),
            ("t", vec![new(1, "x", "yz"), new(3, "", "")]),
            ("t", vec![new(1, "x", "yz")]),
            ("t", vec![gone, new(2, "", "")]),
            ("t", vec![updated, new(2, "", "")]),
            ("t", Vec::new()),
        ] {
            assert_ne!(text_of(table, &rows), text, "{table} {rows:?}");
        }
    }

    #[test]
    fn values_are_spelled_and_read() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Integer(i64::MIN),
            Value::Integer(7),
            Value::Real(-0.0),
            Value::Real(1.1),
            Value::Real(f64::INFINITY),
            Value::text(""),
            Value::text("a é\n\0"),
            Value::Text(vec![0xff, 0xfe]),
            Value::Blob(vec![]),
            Value::Blob((0..=255).collect()),
        ] {
            let read = parse_value(&spell(&value));
            assert_eq!(read.as_ref().map(spell), Some(spell(&value)), "{value:?}");
        }
        for wrong in [
            "",
            "nul",
            "integer",
            "integer x",
            "text 0",
            "text zz",
            "bool 1",
            "real x",
        ] {
            assert_eq!(parse_value(wrong), None, "{wrong}");
        }
    }
}
