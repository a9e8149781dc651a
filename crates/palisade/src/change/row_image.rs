//! What a change did to each row, as a text for the operator's own database: by it, a change is undone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    catalog::{Catalog, Relation},
    change::difference::{Difference, RowDifference, parse_value, spell},
    value::Value,
};

/// The table of an operator's database in which images of rows stand: a change's id, the number of the part, when the change was kept,
/// and the part, as `change_id`, `part`, `kept_ms` and `image`. It stands beside the [ledger](super::LEDGER), and catalogs leave it out.
pub const IMAGES: &str = "palisade_images";

/// The most bytes of images of one change.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// About how many bytes one part has.
const PART_BYTES: usize = 48 * 1024;

/// What a change did to one row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowImage {
    /// The schema of its table, as declared.
    pub schema: String,
    /// The table, as declared.
    pub table: String,
    /// The values of its primary key, by column: as the change left the row, or of a deleted one, as it was.
    pub key: BTreeMap<String, Value>,
    /// What was done.
    pub cells: ImageCells,
}

/// The cells of a row that a change wrote, by column.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageCells {
    /// All cells of a new row.
    Inserted(BTreeMap<String, Value>),
    /// Those that are different: before and after.
    Updated(BTreeMap<String, (Value, Value)>),
    /// All cells of a row that is not there any more.
    Deleted(BTreeMap<String, Value>),
}

/// Why a change has no images of rows by which it could be undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    /// They are not what was written.
    #[error("the images of its rows cannot be read")]
    Unreadable,
    /// A row of this table cannot be found again.
    #[error("the table {0} has no primary key")]
    NoKey(String),
    /// There are too many of them.
    #[error("its rows have more than 16 MiB")]
    TooLarge,
}

/// A part, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    too_large: bool,
    rows: Vec<WrittenRow>,
}

/// A row, as it is written: each value with its type.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    schema: String,
    table: String,
    key: BTreeMap<String, String>,
    cells: WrittenCells,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenCells {
    Inserted(BTreeMap<String, String>),
    Updated(BTreeMap<String, (String, String)>),
    Deleted(BTreeMap<String, String>),
}

impl Part {
    fn empty() -> Self {
        Self {
            version: 1,
            no_key: None,
            too_large: false,
            rows: Vec::new(),
        }
    }
}

/// What is kept of `difference`, in parts. Where it cannot be undone by it, one part says why.
#[must_use]
pub fn write_images(difference: &Difference, catalog: &Catalog) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut part, mut part_bytes, mut bytes) = (Part::empty(), 0_usize, 0_usize);
    for table in &difference.tables {
        let name = format!("{}.{}", table.schema, table.table);
        let relation = catalog.find(&table.schema, &table.table);
        for row in &table.rows {
            let image = relation.and_then(|relation| RowImage::take(relation, row));
            let Some(image) = image else {
                return write_part(&Part {
                    no_key: Some(name),
                    ..Part::empty()
                });
            };
            let written = image.write();
            let size = written.size();
            bytes = bytes.saturating_add(size);
            if bytes > MAX_BYTES {
                return write_part(&Part {
                    too_large: true,
                    ..Part::empty()
                });
            }
            if part_bytes > 0 && part_bytes.saturating_add(size) > PART_BYTES {
                let full = std::mem::replace(&mut part, Part::empty());
                parts.extend(write_part(&full));
                part_bytes = 0;
            }
            part.rows.push(written);
            part_bytes = part_bytes.saturating_add(size);
        }
    }
    parts.extend(write_part(&part));
    parts
}

/// The parts as one text, for a digest.
#[must_use]
pub(crate) fn images_text(parts: &[String]) -> String {
    parts
        .iter()
        .fold("palisade images 1\n".to_owned(), |text, part| {
            format!("{text}{} {part}", part.len())
        })
}

fn write_part(part: &Part) -> Vec<String> {
    // Texts and maps of texts can always be written.
    serde_json::to_string(part).into_iter().collect()
}

/// What [`write_images`] wrote, in the order of the parts.
///
/// # Errors
/// If it is something else, or says that the change cannot be undone.
pub fn read_images(parts: &[String]) -> Result<Vec<RowImage>, ImageFault> {
    let mut images = Vec::new();
    if parts.is_empty() {
        return Err(ImageFault::Unreadable);
    }
    for part in parts {
        let part: Part = serde_json::from_str(part).map_err(|_| ImageFault::Unreadable)?;
        if part.version != 1 {
            return Err(ImageFault::Unreadable);
        }
        if let Some(table) = part.no_key {
            return Err(ImageFault::NoKey(table));
        }
        if part.too_large {
            return Err(ImageFault::TooLarge);
        }
        let rows = part.rows.iter().map(WrittenRow::read);
        let rows: Vec<RowImage> = rows.collect::<Option<_>>().ok_or(ImageFault::Unreadable)?;
        images.extend(rows);
    }
    Ok(images)
}

impl RowImage {
    /// The image of a row of `relation`; none if the row cannot be found again.
    fn take(relation: &Relation, row: &RowDifference) -> Option<Self> {
        let named = |cells: &[Value]| -> Option<BTreeMap<String, Value>> {
            let names = relation
                .columns
                .iter()
                .map(|column| column.name.to_string());
            (cells.len() == relation.columns.len())
                .then(|| names.zip(cells.iter().cloned()).collect())
        };
        let (left, cells) = match (&row.before, &row.after) {
            (None, None) => return None,
            (None, Some(after)) => (after, ImageCells::Inserted(named(after)?)),
            (Some(before), None) => (before, ImageCells::Deleted(named(before)?)),
            (Some(before), Some(after)) => {
                let (before, new) = (named(before)?, named(after)?);
                let pairs = before.into_iter().zip(new.into_values());
                let different = pairs.filter(|((_, old), new)| old != new);
                let cells = different.map(|((name, old), new)| (name, (old, new)));
                (after, ImageCells::Updated(cells.collect()))
            }
        };
        Some(Self {
            schema: relation.schema.clone(),
            table: relation.name.clone(),
            key: take_key(relation, left)?,
            cells,
        })
    }

    fn write(&self) -> WrittenRow {
        let write = |cells: &BTreeMap<String, Value>| -> BTreeMap<String, String> {
            let written = cells
                .iter()
                .map(|(name, value)| (name.clone(), spell(value)));
            written.collect()
        };
        WrittenRow {
            schema: self.schema.clone(),
            table: self.table.clone(),
            key: write(&self.key),
            cells: match &self.cells {
                ImageCells::Inserted(cells) => WrittenCells::Inserted(write(cells)),
                ImageCells::Deleted(cells) => WrittenCells::Deleted(write(cells)),
                ImageCells::Updated(cells) => {
                    let written = cells
                        .iter()
                        .map(|(name, (old, new))| (name.clone(), (spell(old), spell(new))));
                    WrittenCells::Updated(written.collect())
                }
            },
        }
    }
}

/// The primary key of a row, by column; none of a table without one.
pub(super) fn take_key(relation: &Relation, cells: &[Value]) -> Option<BTreeMap<String, Value>> {
    let key = relation.primary_key.iter().map(|at| {
        let column = relation.columns.get(usize::from(*at))?;
        let value = cells.get(usize::from(*at))?;
        Some((column.name.to_string(), value.clone()))
    });
    let key: BTreeMap<String, Value> = key.collect::<Option<_>>()?;
    (!key.is_empty()).then_some(key)
}

impl WrittenRow {
    /// About how many bytes it takes.
    fn size(&self) -> usize {
        let sum = |cells: &BTreeMap<String, String>| -> usize {
            cells
                .iter()
                .map(|(name, value)| name.len() + value.len() + 6)
                .sum()
        };
        let cells = match &self.cells {
            WrittenCells::Inserted(cells) | WrittenCells::Deleted(cells) => sum(cells),
            WrittenCells::Updated(cells) => cells
                .iter()
                .map(|(name, (old, new))| name.len() + old.len() + new.len() + 10)
                .sum(),
        };
        self.schema.len() + self.table.len() + sum(&self.key) + cells + 60
    }

    fn read(&self) -> Option<RowImage> {
        let read = |cells: &BTreeMap<String, String>| -> Option<BTreeMap<String, Value>> {
            let read = cells
                .iter()
                .map(|(name, value)| Some((name.clone(), parse_value(value)?)));
            read.collect()
        };
        Some(RowImage {
            schema: self.schema.clone(),
            table: self.table.clone(),
            key: read(&self.key).filter(|key| !key.is_empty())?,
            cells: match &self.cells {
                WrittenCells::Inserted(cells) => ImageCells::Inserted(read(cells)?),
                WrittenCells::Deleted(cells) => ImageCells::Deleted(read(cells)?),
                WrittenCells::Updated(cells) => {
                    let read = cells.iter().map(|(name, (old, new))| {
                        Some((name.clone(), (parse_value(old)?, parse_value(new)?)))
                    });
                    ImageCells::Updated(read.collect::<Option<_>>()?)
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        catalog::{ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass},
        change::TableDifference,
        dialect::Dialect,
    };

    /// A row of `t` that is updated in a column whose name is so long.
    fn write_update(name_bytes: usize) -> (usize, Result<usize, ImageFault>) {
        let column = |name: String| ColumnDef {
            name,
            type_name: "INTEGER".to_owned(),
            class: TypeClass::Integer,
            nullable: true,
            collation: "BINARY".to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        };
        let columns = vec![column("id".to_owned()), column("n".repeat(name_bytes))];
        let mut table = RelationDef::new("main", "t", RelationKind::Table, columns);
        table.primary_key = vec!["id".to_owned()];
        let catalog = Catalog::builder(Dialect::Sqlite).relation(table);
        let catalog = catalog.build().unwrap();
        let cells = |value| Some(vec![Value::Integer(1), Value::Integer(value)]);
        let row = RowDifference {
            before: cells(1),
            after: cells(2),
        };
        let relation = catalog.find("main", "t").unwrap();
        let size = RowImage::take(relation, &row).unwrap().write().size();
        let table = TableDifference {
            schema: "main".to_owned(),
            table: "t".to_owned(),
            rows: vec![row],
        };
        let tables = vec![table];
        let read = read_images(&write_images(&Difference { tables }, &catalog));
        (size, read.map(|images| images.len()))
    }

    #[test]
    fn images_are_kept_up_to_their_limit() {
        let (least, _) = write_update(1);
        let most = MAX_BYTES - least + 1;
        assert_eq!(write_update(most), (MAX_BYTES, Ok(1)));
        let refused = write_update(most + 1).1;
        assert_eq!(refused, Err(ImageFault::TooLarge));
    }

    #[test]
    fn parts_of_one_text_are_the_same_parts() {
        let text_of = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            images_text(&parts)
        };
        let parts: [&[&str]; 6] = [&[], &[""], &["a"], &["ab"], &["a", "b"], &["b", "a"]];
        for (at, one) in parts.iter().enumerate() {
            for (other_at, other) in parts.iter().enumerate() {
                let is_same = text_of(one) == text_of(other);
                assert_eq!(is_same, at == other_at, "{one:?} {other:?}");
            }
        }
    }
}
