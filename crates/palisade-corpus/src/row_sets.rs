//! Rows of several tables, with the parents that foreign keys ask for.

use std::collections::{BTreeMap, BTreeSet};

use palisade::{
    catalog::{Catalog, ForeignKey, Relation, RelationId, RelationKind},
    dialect::Dialect,
};

use crate::{
    probe,
    row_maker::{Cell, Values, usual},
};

/// So many parents of parents are made.
const MAX_DEPTH: usize = 8;

/// Rows by table.
pub(crate) struct RowSets<'c> {
    catalog: &'c Catalog,
    rows: BTreeMap<RelationId, Vec<Values>>,
    /// A row of each table that its constraints are known to take.
    samples: BTreeMap<RelationId, Values>,
}

impl<'c> RowSets<'c> {
    pub(crate) fn new(catalog: &'c Catalog, samples: BTreeMap<RelationId, Values>) -> Self {
        Self {
            catalog,
            rows: BTreeMap::new(),
            samples,
        }
    }

    /// Adds a row with `values`, and whatever it references. A row whose key is there already is left out.
    pub(crate) fn add(&mut self, relation: &'c Relation, values: &Values) {
        self.add_below(relation, values, 0);
    }

    fn add_below(&mut self, relation: &'c Relation, values: &Values, depth: usize) {
        if depth > MAX_DEPTH || relation.kind != RelationKind::Table {
            return;
        }
        if self.has(relation.id, &relation.primary_key, values) {
            return;
        }
        let mut row = values.clone();
        for key in &relation.foreign_keys {
            self.settle(relation, key, &mut row, depth);
        }
        for (index, column) in (0_u16..).zip(&relation.columns) {
            if column.generated.is_some() || row.contains_key(&index) {
                continue;
            }
            let sample = self.samples.get(&relation.id);
            let sample = sample.and_then(|sample| sample.get(&index));
            let cell = match sample.filter(|_| !is_key(relation, index)) {
                Some(cell) => cell.clone(),
                None => self.fresh(relation, index),
            };
            row.insert(index, cell);
        }
        if !self.has(relation.id, &relation.primary_key, &row) {
            self.rows.entry(relation.id).or_default().push(row);
        }
    }

    /// Gives the columns of a foreign key the values of a row that is there, or makes the row that they name.
    fn settle(&mut self, relation: &'c Relation, key: &ForeignKey, row: &mut Values, depth: usize) {
        let Some(parent) = self.find_parent(key) else {
            return;
        };
        let own: Vec<u16> = key
            .columns
            .iter()
            .filter_map(|name| find_column(relation, name))
            .collect();
        let referenced: Vec<u16> = match key.references.is_empty() {
            true => parent.primary_key.clone(),
            false => key
                .references
                .iter()
                .filter_map(|name| find_column(parent, name))
                .collect(),
        };
        if own.len() != referenced.len() {
            return;
        }
        let pairs: Vec<(u16, u16)> = own.into_iter().zip(referenced).collect();
        let given: Values = pairs
            .iter()
            .filter_map(|(own, referenced)| Some((*referenced, row.get(own)?.clone())))
            .collect();
        if given.values().any(|cell| *cell == Cell::Null) {
            return;
        }
        let matches = |candidate: &Values| {
            given
                .iter()
                .all(|(index, cell)| candidate.get(index) == Some(cell))
        };
        let found = |sets: &Self| {
            let rows = sets.rows.get(&parent.id).into_iter().flatten();
            rows.clone().find(|candidate| matches(candidate)).cloned()
        };
        let mut source = found(self);
        if source.is_none() && parent.id != relation.id {
            self.add_below(parent, &given, depth + 1);
            source = found(self);
        }
        for (own, referenced) in pairs {
            if row.contains_key(&own) {
                continue;
            }
            let cell = source.as_ref().and_then(|source| source.get(&referenced));
            let nullable = relation.column(own).is_some_and(|column| column.nullable);
            match cell {
                Some(cell) => drop(row.insert(own, cell.clone())),
                None if nullable => drop(row.insert(own, Cell::Null)),
                None => {}
            }
        }
    }

    fn find_parent(&self, key: &ForeignKey) -> Option<&'c Relation> {
        let is = |relation: &&Relation| {
            relation.name.eq_ignore_ascii_case(&key.table)
                && relation.schema.eq_ignore_ascii_case(&key.schema)
        };
        self.catalog.relations().iter().find(is)
    }

    /// Whether a row has the same in all of `columns`, where `values` name them all.
    fn has(&self, relation: RelationId, columns: &[u16], values: &Values) -> bool {
        let wanted: Option<Vec<&Cell>> = columns.iter().map(|index| values.get(index)).collect();
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
            return false;
        };
        let mut rows = self.rows.get(&relation).into_iter().flatten();
        rows.any(|row| {
            let own = columns.iter().map(|index| row.get(index));
            own.zip(&wanted).all(|(own, wanted)| own == Some(*wanted))
        })
    }

    /// A value that no row of the table has in this column.
    fn fresh(&self, relation: &Relation, index: u16) -> Cell {
        let rows = self.rows.get(&relation.id);
        let taken: BTreeSet<&Cell> = rows
            .into_iter()
            .flatten()
            .filter_map(|row| row.get(&index))
            .collect();
        let first = taken.len() + 1;
        let mut numbers = first..first * 2 + 8;
        let fresh = numbers.find_map(|number| {
            let cell = usual(index, relation, number);
            (!taken.contains(&cell)).then_some(cell)
        });
        fresh.unwrap_or_else(|| usual(index, relation, first))
    }

    /// A statement for each row, parents before children.
    pub(crate) fn inserts(&self) -> Vec<String> {
        let mut order = Vec::new();
        for relation in self.catalog.relations() {
            self.visit(relation, &mut order, 0);
        }
        let mut out = Vec::new();
        for relation in order {
            for row in self.rows.get(&relation.id).into_iter().flatten() {
                out.push(insert(self.catalog, relation, row));
            }
        }
        out
    }

    fn visit(&self, relation: &'c Relation, order: &mut Vec<&'c Relation>, depth: usize) {
        let is_there = |order: &[&Relation]| order.iter().any(|one| one.id == relation.id);
        if is_there(order) {
            return;
        }
        if depth <= MAX_DEPTH {
            for key in &relation.foreign_keys {
                let parent = self.find_parent(key).filter(|one| one.id != relation.id);
                if let Some(parent) = parent {
                    self.visit(parent, order, depth + 1);
                }
            }
        }
        if !is_there(order) {
            order.push(relation);
        }
    }
}

/// Whether a column may be one of a key, so that its values differ between rows.
fn is_key(relation: &Relation, index: u16) -> bool {
    let keys = relation.unique_keys.as_ref();
    relation.primary_key.contains(&index)
        || keys.is_none_or(|keys| keys.iter().any(|key| key.columns.contains(&index)))
}

fn find_column(relation: &Relation, name: &str) -> Option<u16> {
    let mut columns = (0_u16..).zip(&relation.columns);
    let found = columns.find(|(_, column)| column.name.eq_ignore_ascii_case(name));
    found.map(|(index, _)| index)
}

fn insert(catalog: &Catalog, relation: &Relation, row: &Values) -> String {
    let dialect = catalog.dialect();
    let named = row.iter().filter_map(|(index, cell)| {
        let column = relation.column(*index)?;
        Some((
            probe::name_in(dialect, &column.name),
            cell.sql(dialect, column),
        ))
    });
    let (names, cells): (Vec<String>, Vec<String>) = named.unzip();
    let table = probe::name_table(dialect, relation, catalog);
    let own_keys = match dialect {
        // Also into a column whose values the engine counts.
        Dialect::Postgres => " OVERRIDING SYSTEM VALUE",
        Dialect::Sqlite | Dialect::Mysql => "",
    };
    format!(
        "INSERT INTO {table} ({}){own_keys} VALUES ({});",
        names.join(", "),
        cells.join(", ")
    )
}
