//! A row as a program reads it.

use serde::{Serialize, Serializer};

use crate::answer::{OutputColumn, cell::Cell};

/// A row of an answer. As JSON it is an object with a key for each column, in order.
#[derive(Debug, Clone, Copy)]
pub struct ScannedRow<'a> {
    /// With names made unique.
    pub(in crate::answer) columns: &'a [OutputColumn],
    /// One for each column.
    pub(in crate::answer) cells: &'a [Cell],
}

impl<'a> ScannedRow<'a> {
    /// The cells, one for each column.
    #[must_use]
    pub fn cells(self) -> &'a [Cell] {
        self.cells
    }

    /// The cell of the column of this name, as [`ScannedRows::columns`](crate::answer::ScannedRows::columns) spells it.
    #[must_use]
    pub fn cell(self, column: &str) -> Option<&'a Cell> {
        let at = self.columns.iter().position(|one| *one.name == *column)?;
        self.cells.get(at)
    }
}

impl Serialize for ScannedRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.columns.iter().map(|column| &column.name);
        serializer.collect_map(names.zip(self.cells))
    }
}
