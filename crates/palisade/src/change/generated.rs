//! Which columns an engine makes anew each time, by two runs of one change over the same rows.

use std::collections::BTreeMap;

use crate::{
    catalog::Catalog,
    change::difference::{
        Columns, Difference, GeneratedColumns, RowDifference, TableDifference, given_key, spell_row,
    },
    value::Value,
};

impl Difference {
    /// The columns in which `self` and `other`, two runs of one change over the same rows, wrote different values: a clock's, random
    /// ones, and keys that the engine gives. None if the runs changed other rows than each other, or made more of them.
    ///
    /// New rows are compared column by column, whatever their order. A column that refers to a new row is no such column, where both
    /// runs refer to the same one.
    #[must_use]
    pub fn find_generated(&self, other: &Self, catalog: &Catalog) -> Option<GeneratedColumns> {
        if self.tables.len() != other.tables.len() {
            return None;
        }
        let pairs = self.tables.iter().map(|table| {
            let same =
                |one: &&TableDifference| (&one.schema, &one.table) == (&table.schema, &table.table);
            other.tables.iter().find(same).map(|other| (table, other))
        });
        let pairs: Vec<(&TableDifference, &TableDifference)> = pairs.collect::<Option<_>>()?;
        let mut keys = GeneratedColumns::new();
        for (first, second) in &pairs {
            let relation = catalog.find(&first.schema, &first.table)?;
            let [only] = relation.primary_key.as_slice() else {
                continue;
            };
            let at = usize::from(*only);
            let given = |table: &TableDifference| -> Option<Vec<i64>> {
                let new = table.rows.iter().filter(|row| row.before.is_none());
                let mut keys = new
                    .map(|row| match row.after.as_ref()?.get(at)? {
                        Value::Integer(key) => Some(*key),
                        Value::Null
                        | Value::Bool(_)
                        | Value::Real(_)
                        | Value::Text(_)
                        | Value::Blob(_) => None,
                    })
                    .collect::<Option<Vec<i64>>>()?;
                keys.sort_unstable();
                Some(keys)
            };
            if let (Some(one), Some(other)) = (given(first), given(second))
                && one != other
                && let Some(column) = relation.columns.get(at)
            {
                keys.insert((
                    first.schema.clone(),
                    first.table.clone(),
                    column.name.to_string(),
                ));
            }
        }
        let numbers = (
            self.number_new_rows(catalog, &keys),
            other.number_new_rows(catalog, &keys),
        );
        let mut generated = keys.clone();
        for (first, second) in pairs {
            let relation = catalog.find(&first.schema, &first.table)?;
            let one = Columns::new(first, catalog, &keys, &numbers.0);
            let other = Columns::new(second, catalog, &keys, &numbers.1);
            let (one, other) = (spell_columns(&one, first), spell_columns(&other, second));
            if !one.keys().eq(other.keys()) {
                return None;
            }
            for (row, values) in one {
                let others = other.get(&row)?;
                if values.iter().map(Vec::len).ne(others.iter().map(Vec::len)) {
                    return None;
                }
                for (at, (one, other)) in values.iter().zip(others).enumerate() {
                    let is_key = given_key(relation, &keys) == Some(at);
                    if one != other
                        && !is_key
                        && let Some(column) = relation.columns.get(at)
                    {
                        generated.insert((
                            first.schema.clone(),
                            first.table.clone(),
                            column.name.to_string(),
                        ));
                    }
                }
            }
        }
        Some(generated)
    }
}

/// What was written into each column, sorted, by what the row was before. New rows were nothing; a deleted row has no columns.
fn spell_columns(
    columns: &Columns<'_>,
    table: &TableDifference,
) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for row in &table.rows {
        let RowDifference { before, after } = row;
        let name = match (before, after) {
            (None, _) => "new".to_owned(),
            (Some(before), None) => format!("deleted {}", spell_row(before)),
            (Some(before), Some(_)) => format!("updated {}", spell_row(before)),
        };
        let values = all.entry(name).or_default();
        let Some(after) = after else {
            // So many rows as these were deleted.
            match values.first_mut() {
                Some(count) => count.push(String::new()),
                None => values.push(vec![String::new()]),
            }
            continue;
        };
        for (at, value) in after.iter().enumerate() {
            if values.len() <= at {
                values.push(Vec::new());
            }
            if let Some(column) = values.get_mut(at) {
                column.push(columns.spell_after(row, at, value));
            }
        }
    }
    for column in all.values_mut().flatten() {
        column.sort();
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A row of the table `t (id, n, at)`, if there is one.
    type Row = Option<[i64; 3]>;

    /// What is different in that table, row by row.
    fn run(rows: &[(Row, Row)]) -> Difference {
        let cells = |cells: &Row| cells.map(|all| all.map(Value::Integer).to_vec());
        let rows = rows.iter().map(|(before, after)| RowDifference {
            before: cells(before),
            after: cells(after),
        });
        let table = TableDifference {
            schema: "public".to_owned(),
            table: "t".to_owned(),
            rows: rows.collect(),
        };
        Difference {
            tables: vec![table],
        }
    }

    #[test]
    fn what_two_runs_write_otherwise_is_generated() {
        let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer, at integer);";
        let catalog = crate::catalog::test_ddl::postgres(schema, "d").unwrap();
        let updated = |id, n, at| (Some([id, 0, 0]), Some([id, n, at]));
        let new = |id, n, at| (None, Some([id, n, at]));
        let gone = |id, n, at| (Some([id, n, at]), None);
        for (first, second, expected) in [
            (vec![updated(1, 5, 7)], vec![updated(1, 5, 7)], Some("")),
            (vec![updated(1, 5, 7)], vec![updated(1, 5, 8)], Some("at")),
            (vec![new(1, 5, 7)], vec![new(1, 6, 8)], Some("at n")),
            (vec![new(1, 5, 7)], vec![new(2, 5, 7)], Some("id")),
            // Of new rows the order is the engine's.
            (
                vec![new(1, 5, 7), new(2, 6, 7)],
                vec![new(2, 6, 7), new(1, 5, 7)],
                Some(""),
            ),
            (vec![gone(1, 5, 7)], vec![gone(1, 5, 7)], Some("")),
            // Other rows, or more of them.
            (vec![updated(1, 5, 7)], vec![updated(2, 5, 7)], None),
            (vec![gone(1, 5, 7)], vec![gone(1, 5, 8)], None),
            (vec![new(1, 5, 7)], vec![new(1, 5, 7), new(2, 5, 7)], None),
            (vec![updated(1, 5, 7)], vec![gone(1, 0, 0)], None),
        ] {
            let found = run(&first).find_generated(&run(&second), &catalog);
            let found = found.map(|all| {
                let names = all.into_iter().map(|(_, _, column)| column);
                names.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{first:?} {second:?}");
        }
    }
}
