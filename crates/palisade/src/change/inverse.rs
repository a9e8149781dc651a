//! What undoes a change: statements like any others, and what they have to do.
//!
//! It is by column: a changed row gets back the columns that the change wrote, and what others wrote into its other columns stays.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    catalog::{Catalog, Relation},
    change::{
        difference::{Difference, RowDifference, spell},
        row_image::{ImageCells, RowImage, take_key},
    },
    value::{Params, Value},
};

/// The most rows that one statement of an inverse names.
const ROWS_AT_A_TIME: usize = 200;

/// The most parameters of one statement of an inverse; engines take 32,766 and more.
const MAX_PARAMS: usize = 16_000;

/// The most statements of an inverse.
const MAX_STATEMENTS: usize = 1_000;

/// Why there are no statements that undo a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InverseFault {
    /// A table is not as it was then.
    #[error("the table {0} has other columns than when the change was kept")]
    OtherTable(String),
    /// There are too many rows that each get values of their own.
    #[error("it would take more than {MAX_STATEMENTS} statements")]
    TooMany,
}

/// A row in which an inverse does something else than to set back what the change wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherRow {
    /// The schema of its table, as declared.
    pub schema: String,
    /// Its table, as declared.
    pub table: String,
    /// Its key, for a person: `id=1`.
    pub key: String,
}

/// The inverse of a change that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Inverse {
    images: Vec<RowImage>,
}

/// A table and its rows of one kind.
type Rows<'a> = Vec<(&'a RowImage, &'a Relation)>;

impl Inverse {
    /// That of the change that left these images.
    #[must_use]
    pub fn new(images: Vec<RowImage>) -> Self {
        Self { images }
    }

    /// What the change left.
    pub(crate) fn images(&self) -> &[RowImage] {
        &self.images
    }

    /// The statements, in their order: rows that refer to others are deleted before them, and written after them.
    ///
    /// # Errors
    /// If the schema is another by now, or there would be too many.
    pub fn statements(&self, catalog: &Catalog) -> Result<Vec<(String, Params)>, InverseFault> {
        let (mut inserted, mut updated, mut deleted) = (Rows::new(), Rows::new(), Rows::new());
        for image in &self.images {
            let relation = find_table(image, catalog)?;
            match &image.cells {
                ImageCells::Inserted(_) => inserted.push((image, relation)),
                ImageCells::Updated(_) => updated.push((image, relation)),
                ImageCells::Deleted(_) => deleted.push((image, relation)),
            }
        }
        let mut writer = Writer {
            catalog,
            statements: Vec::new(),
        };
        let order = order_tables(&self.images, catalog);
        // What is deleted makes room for values that are unique.
        for name in order.iter().rev() {
            let mut rows = take_table(&inserted, name);
            order_rows(&mut rows);
            rows.reverse();
            writer.delete(&rows);
        }
        // Columns that refer to a row are written once it is there again; others before, for the same reason.
        let (referring, plain): (Rows<'_>, Rows<'_>) = updated.into_iter().partition(refers);
        for name in order.iter().rev() {
            writer.update(&take_table(&plain, name));
        }
        for name in &order {
            let mut rows = take_table(&deleted, name);
            order_rows(&mut rows);
            writer.insert(&rows);
        }
        for name in &order {
            writer.update(&take_table(&referring, name));
        }
        match writer.statements.len() > MAX_STATEMENTS {
            true => Err(InverseFault::TooMany),
            false => Ok(writer.statements),
        }
    }

    /// The rows in which `difference`, which the statements made, is not the inverse: they were not as the change had left them, are
    /// not again as they were before it, or others are different too. None where it is the inverse.
    #[must_use]
    pub fn find_other_rows(&self, difference: &Difference, catalog: &Catalog) -> Vec<OtherRow> {
        let mut wanted: BTreeMap<(String, String, String), &RowImage> = BTreeMap::new();
        for image in &self.images {
            let name = (image.schema.clone(), image.table.clone());
            wanted.insert((name.0, name.1, spell_key(&image.key)), image);
        }
        let mut others = BTreeSet::new();
        for table in &difference.tables {
            let relation = catalog.find(&table.schema, &table.table);
            for row in &table.rows {
                for row in self.split_row(relation, row) {
                    let key = relation.and_then(|relation| row_key(relation, &row));
                    let other = |key: String| OtherRow {
                        schema: table.schema.clone(),
                        table: table.table.clone(),
                        key,
                    };
                    let (Some(relation), Some(key)) = (relation, key) else {
                        others.insert(other(String::new()));
                        continue;
                    };
                    let name = (table.schema.clone(), table.table.clone(), spell_key(&key));
                    match wanted.remove(&name) {
                        Some(image) if is_undone(image, &row, relation) => {}
                        Some(_) | None => {
                            others.insert(other(write_key(&key)));
                        }
                    }
                }
            }
        }
        // What the statements did not find, or had nothing to do with.
        others.extend(wanted.into_values().map(|image| OtherRow {
            schema: image.schema.clone(),
            table: image.table.clone(),
            key: write_key(&image.key),
        }));
        others.into_iter().collect()
    }
}

impl Inverse {
    /// A row that is different, as the images know it. Where one row takes the place of another, an engine may tell of a single row whose key
    /// has changed.
    fn split_row(&self, relation: Option<&Relation>, row: &RowDifference) -> Vec<RowDifference> {
        let (Some(relation), Some(before), Some(after)) = (relation, &row.before, &row.after)
        else {
            return vec![row.clone()];
        };
        let (old, new) = (take_key(relation, before), take_key(relation, after));
        let is_meant = |image: &RowImage| {
            let is_update = match &image.cells {
                ImageCells::Updated(_) => true,
                ImageCells::Inserted(_) | ImageCells::Deleted(_) => false,
            };
            is_update
                && image.schema == relation.schema
                && image.table == relation.name
                && Some(&image.key) == old.as_ref()
        };
        if old == new || self.images.iter().any(is_meant) {
            return vec![row.clone()];
        }
        let gone = RowDifference {
            before: Some(before.clone()),
            after: None,
        };
        let put = RowDifference {
            before: None,
            after: Some(after.clone()),
        };
        vec![gone, put]
    }
}

/// The table of an image, with the columns that the image has.
fn find_table<'c>(image: &RowImage, catalog: &'c Catalog) -> Result<&'c Relation, InverseFault> {
    let fault = || InverseFault::OtherTable(format!("{}.{}", image.schema, image.table));
    let relation = catalog
        .find(&image.schema, &image.table)
        .ok_or_else(fault)?;
    let has = |name: &String| relation.columns.iter().any(|column| *column.name == **name);
    let keys: BTreeSet<&str> = (relation.primary_key.iter())
        .filter_map(|at| relation.columns.get(usize::from(*at)))
        .map(|column| &*column.name)
        .collect();
    let is_same_key = image.key.keys().map(String::as_str).eq(keys);
    let is_same = match &image.cells {
        ImageCells::Inserted(cells) | ImageCells::Deleted(cells) => {
            cells.len() == relation.columns.len() && cells.keys().all(has)
        }
        ImageCells::Updated(cells) => cells.keys().all(has),
    };
    (is_same_key && is_same)
        .then_some(relation)
        .ok_or_else(fault)
}

/// A table: schema and name, as declared.
type TableName = (String, String);

/// The tables of these images, each after those that it refers to.
fn order_tables(images: &[RowImage], catalog: &Catalog) -> Vec<TableName> {
    let names = images
        .iter()
        .map(|image| (image.schema.clone(), image.table.clone()));
    let mut left: BTreeSet<TableName> = names.collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let refers_to_left = |name: &&TableName| {
            let relation = catalog.find(&name.0, &name.1);
            let keys = relation
                .into_iter()
                .flat_map(|relation| &relation.foreign_keys);
            let mut parents = keys.filter_map(|key| catalog.find(&key.schema, &key.table));
            parents.any(|parent| {
                let parent = (parent.schema.clone(), parent.name.clone());
                parent != **name && left.contains(&parent)
            })
        };
        let free: Vec<TableName> = left
            .iter()
            .filter(|name| !refers_to_left(name))
            .cloned()
            .collect();
        if free.is_empty() {
            // They refer to each other in a circle; the engine says whether that can be written.
            order.extend(left);
            break;
        }
        left.retain(|name| !free.contains(name));
        order.extend(free);
    }
    order
}

fn take_table<'a>(rows: &Rows<'a>, (schema, table): &TableName) -> Rows<'a> {
    let of_table = rows
        .iter()
        .filter(|(image, _)| image.schema == *schema && image.table == *table);
    of_table.copied().collect()
}

/// Puts rows of one table after those that they refer to.
fn order_rows(rows: &mut Rows<'_>) {
    let Some((_, relation)) = rows.first() else {
        return;
    };
    let own: Vec<_> = (relation.foreign_keys.iter())
        .filter(|key| key.schema == relation.schema && key.table == relation.name)
        .collect();
    if own.is_empty() {
        return;
    }
    let value = |image: &RowImage, name: &String| match &image.cells {
        ImageCells::Inserted(cells) | ImageCells::Deleted(cells) => cells.get(name).map(spell),
        ImageCells::Updated(_) => None,
    };
    let mut left = std::mem::take(rows);
    while !left.is_empty() {
        let is_free = |(image, _): &(&RowImage, &Relation)| {
            own.iter().all(|key| {
                let refers_to = |(other, _): &(&RowImage, &Relation)| {
                    !std::ptr::eq(*other, *image)
                        && key
                            .columns
                            .iter()
                            .zip(&key.references)
                            .all(|(column, target)| {
                                value(image, column)
                                    .is_some_and(|one| Some(one) == value(other, target))
                            })
                };
                !left.iter().any(refers_to)
            })
        };
        let (free, bound): (Rows<'_>, Rows<'_>) = left.iter().copied().partition(is_free);
        if free.is_empty() {
            // They refer to each other in a circle; the engine says whether that can be written.
            rows.extend(bound);
            return;
        }
        rows.extend(free);
        left = bound;
    }
}

/// Rows that get the same values, and these as they are spelled.
type Group<'a> = (BTreeMap<String, String>, Vec<&'a RowImage>);

/// The order in which rows get values that are unique: each after the row that has its value now. Of rows that wait for each other in a
/// circle one goes first, which no engine takes.
fn order_updates(groups: &[Group<'_>], relation: &Relation) -> Vec<usize> {
    if groups.len() > MAX_STATEMENTS {
        // They are too many anyway.
        return (0..groups.len()).collect();
    }
    let keys: Vec<Vec<&str>> = (relation.unique_keys.iter().flatten())
        .map(|key| {
            let columns = key.columns.iter().filter_map(|at| relation.column(*at));
            columns.map(|column| &*column.name).collect()
        })
        .collect();
    // Which rows have a value now, and give it back. Of columns of a key that stay as they are nothing is known.
    let mut holders: BTreeMap<(&str, String), BTreeSet<usize>> = BTreeMap::new();
    let unique: BTreeSet<&str> = keys.iter().flatten().copied().collect();
    for (at, (_, images)) in groups.iter().enumerate() {
        for image in images {
            let ImageCells::Updated(cells) = &image.cells else {
                continue;
            };
            for name in &unique {
                if let Some((_, left)) = cells.get(*name)
                    && *left != Value::Null
                {
                    let holder = holders.entry((*name, spell(left))).or_default();
                    holder.insert(at);
                }
            }
        }
    }
    let is_changed = |at: usize, name: &str| {
        let values = groups.get(at).map(|(values, _)| values);
        values.is_some_and(|values| values.contains_key(name))
    };
    let nobody = BTreeSet::new();
    let mut waits: Vec<BTreeSet<usize>> = Vec::new();
    for (at, (values, _)) in groups.iter().enumerate() {
        let mut waits_for = BTreeSet::new();
        for key in &keys {
            let wanted: Vec<(&str, &BTreeSet<usize>)> = (key.iter())
                .filter_map(|name| {
                    let value = values.get(*name)?;
                    Some((
                        *name,
                        holders.get(&(*name, value.clone())).unwrap_or(&nobody),
                    ))
                })
                .collect();
            let may_have_all = |other: &usize| {
                let mut wanted = wanted.iter();
                wanted.all(|(name, has)| has.contains(other) || !is_changed(*other, name))
            };
            let some = wanted.iter().flat_map(|(_, has)| has.iter().copied());
            waits_for.extend(some.filter(may_have_all));
        }
        waits_for.remove(&at);
        waits.push(waits_for);
    }
    let mut awaited_by: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, waits_for) in waits.iter().enumerate() {
        for other in waits_for {
            awaited_by.entry(*other).or_default().push(at);
        }
    }
    let is_free = |at: &usize| waits.get(*at).is_none_or(BTreeSet::is_empty);
    let mut free: BTreeSet<usize> = (0..groups.len()).filter(is_free).collect();
    let mut left: BTreeSet<usize> = (0..groups.len()).collect();
    let mut order = Vec::new();
    while let Some(at) = free.pop_first().or_else(|| left.first().copied()) {
        left.remove(&at);
        order.push(at);
        for other in awaited_by.remove(&at).unwrap_or_default() {
            let Some(waits_for) = waits.get_mut(other) else {
                continue;
            };
            waits_for.remove(&at);
            if waits_for.is_empty() && left.contains(&other) {
                free.insert(other);
            }
        }
    }
    order
}

/// Whether columns that refer to other rows are written.
fn refers((image, relation): &(&RowImage, &Relation)) -> bool {
    let ImageCells::Updated(cells) = &image.cells else {
        return false;
    };
    let mut referring = relation.foreign_keys.iter().flat_map(|key| &key.columns);
    referring.any(|name| cells.contains_key(name))
}

/// Whether `row` sets back what `image` says that a change wrote, and nothing else.
fn is_undone(image: &RowImage, row: &RowDifference, relation: &Relation) -> bool {
    let cells = |cells: &[Value]| -> BTreeMap<String, String> {
        let names = relation
            .columns
            .iter()
            .map(|column| column.name.to_string());
        names.zip(cells.iter().map(spell)).collect()
    };
    let is = |cells: &BTreeMap<String, Value>, found: &BTreeMap<String, String>| {
        cells.len() == found.len()
            && cells
                .iter()
                .all(|(name, value)| found.get(name) == Some(&spell(value)))
    };
    match (&image.cells, &row.before, &row.after) {
        (ImageCells::Inserted(wrote), Some(before), None) => is(wrote, &cells(before)),
        (ImageCells::Deleted(was), None, Some(after)) => is(was, &cells(after)),
        (ImageCells::Updated(wrote), Some(before), Some(after)) => {
            let (before, after) = (cells(before), cells(after));
            before.iter().all(|(name, found)| match wrote.get(name) {
                Some((was, left)) => *found == spell(left) && after.get(name) == Some(&spell(was)),
                None => after.get(name) == Some(found),
            })
        }
        (
            ImageCells::Inserted(_) | ImageCells::Updated(_) | ImageCells::Deleted(_),
            Some(_) | None,
            Some(_) | None,
        ) => false,
    }
}

/// The key by which an inverse finds a row: as it was before the inverse, or of a row that was put back, as it is.
fn row_key(relation: &Relation, row: &RowDifference) -> Option<BTreeMap<String, Value>> {
    let cells = row.before.as_ref().or(row.after.as_ref())?;
    take_key(relation, cells)
}

fn spell_key(key: &BTreeMap<String, Value>) -> String {
    let parts = key
        .iter()
        .map(|(name, value)| format!("{name:?}: {}", spell(value)));
    parts.collect::<Vec<_>>().join(", ")
}

/// A key, for a person.
pub(crate) fn write_key(key: &BTreeMap<String, Value>) -> String {
    let write = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) | Value::Blob(text) => String::from_utf8_lossy(text).into_owned(),
    };
    let parts = key
        .iter()
        .map(|(name, value)| format!("{name}={}", write(value)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Writes statements.
struct Writer<'c> {
    catalog: &'c Catalog,
    statements: Vec<(String, Params)>,
}

/// A statement that is being written.
struct Draft {
    sql: String,
    values: Vec<Value>,
}

impl Writer<'_> {
    fn name(&self, name: &str) -> String {
        self.catalog.dialect().identifier(name)
    }

    fn table(&self, relation: &Relation) -> String {
        format!(
            "{}.{}",
            self.name(&relation.schema),
            self.name(&relation.name)
        )
    }

    /// The next parameter of `draft`.
    fn bind(&self, draft: &mut Draft, value: &Value) -> String {
        draft.values.push(value.clone());
        let number = u32::try_from(draft.values.len()).unwrap_or(u32::MAX);
        self.catalog.dialect().placeholder(number)
    }

    fn push(&mut self, draft: Draft) {
        let params = Params::Positional(draft.values);
        self.statements.push((draft.sql, params));
    }

    /// How many rows of `relation` one statement takes.
    fn rows_at_a_time(relation: &Relation, values: usize) -> usize {
        let refers_to_itself = (relation.foreign_keys.iter())
            .any(|key| key.schema == relation.schema && key.table == relation.name);
        match refers_to_itself {
            // Some engines check each row by itself.
            true => 1,
            false => (MAX_PARAMS / values.max(1)).clamp(1, ROWS_AT_A_TIME),
        }
    }

    /// The condition that finds these rows.
    fn find_rows(&self, rows: &[&RowImage], draft: &mut Draft) -> String {
        let first = rows.first().map(|image| &image.key);
        let only = first
            .filter(|key| key.len() == 1)
            .and_then(|key| key.keys().next());
        if let (Some(name), 2..) = (only, rows.len()) {
            let values = rows.iter().flat_map(|image| image.key.values());
            let places: Vec<String> = values.map(|value| self.bind(draft, value)).collect();
            return format!("{} IN ({})", self.name(name), places.join(", "));
        }
        let conditions = rows.iter().map(|image| {
            let parts = image.key.iter().map(|(name, value)| {
                let place = self.bind(draft, value);
                format!("{} = {place}", self.name(name))
            });
            format!("({})", parts.collect::<Vec<_>>().join(" AND "))
        });
        conditions.collect::<Vec<_>>().join(" OR ")
    }

    fn delete(&mut self, rows: &Rows<'_>) {
        let Some((_, relation)) = rows.first() else {
            return;
        };
        let at_a_time = Self::rows_at_a_time(relation, relation.primary_key.len());
        for rows in rows.chunks(at_a_time) {
            let images: Vec<&RowImage> = rows.iter().map(|(image, _)| *image).collect();
            let mut draft = Draft {
                sql: String::new(),
                values: Vec::new(),
            };
            let condition = self.find_rows(&images, &mut draft);
            draft.sql = format!("DELETE FROM {} WHERE {condition}", self.table(relation));
            self.push(draft);
        }
    }

    fn insert(&mut self, rows: &Rows<'_>) {
        let Some((_, relation)) = rows.first() else {
            return;
        };
        let written: Vec<&str> = (relation.columns.iter())
            .filter(|column| column.generated.is_none())
            .map(|column| &*column.name)
            .collect();
        let at_a_time = Self::rows_at_a_time(relation, written.len());
        for rows in rows.chunks(at_a_time) {
            let mut draft = Draft {
                sql: String::new(),
                values: Vec::new(),
            };
            let mut tuples = Vec::new();
            for (image, _) in rows {
                let ImageCells::Deleted(cells) = &image.cells else {
                    continue;
                };
                let values = written.iter().filter_map(|name| cells.get(*name));
                let places: Vec<String> =
                    values.map(|value| self.bind(&mut draft, value)).collect();
                tuples.push(format!("({})", places.join(", ")));
            }
            let names: Vec<String> = written.iter().map(|name| self.name(name)).collect();
            draft.sql = format!(
                "INSERT INTO {} ({}) VALUES {}",
                self.table(relation),
                names.join(", "),
                tuples.join(", ")
            );
            self.push(draft);
        }
    }

    /// Rows that get the same values are written by one statement.
    fn update(&mut self, rows: &Rows<'_>) {
        let Some((_, relation)) = rows.first() else {
            return;
        };
        let is_computed = |name: &str| {
            let mut columns = relation.columns.iter();
            columns.any(|column| *column.name == *name && column.generated.is_some())
        };
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut places: BTreeMap<BTreeMap<String, String>, usize> = BTreeMap::new();
        for (image, _) in rows {
            let ImageCells::Updated(cells) = &image.cells else {
                continue;
            };
            let values = cells.iter().filter(|(name, _)| !is_computed(name));
            let values: BTreeMap<String, String> = values
                .map(|(name, (was, _))| (name.clone(), spell(was)))
                .collect();
            if values.is_empty() {
                // What is computed follows.
                continue;
            }
            match places.get(&values).and_then(|at| groups.get_mut(*at)) {
                Some((_, images)) => images.push(image),
                None => {
                    places.insert(values.clone(), groups.len());
                    groups.push((values, vec![image]));
                }
            }
        }
        for at in order_updates(&groups, relation) {
            let Some((columns, images)) = groups.get(at) else {
                continue;
            };
            let at_a_time = Self::rows_at_a_time(relation, relation.primary_key.len());
            for images in images.chunks(at_a_time) {
                let mut draft = Draft {
                    sql: String::new(),
                    values: Vec::new(),
                };
                let Some(ImageCells::Updated(cells)) = images.first().map(|image| &image.cells)
                else {
                    continue;
                };
                let written = cells.iter().filter(|(name, _)| columns.contains_key(*name));
                let set: Vec<String> = written
                    .map(|(name, (was, _))| {
                        let place = self.bind(&mut draft, was);
                        format!("{} = {place}", self.name(name))
                    })
                    .collect();
                let condition = self.find_rows(images, &mut draft);
                draft.sql = format!(
                    "UPDATE {} SET {} WHERE {condition}",
                    self.table(relation),
                    set.join(", ")
                );
                self.push(draft);
            }
        }
    }
}
