//! Lineage: which base columns reach a value, and whether unchanged.

use crate::catalog::ColumnId;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lineage {
    /// The column it is, unchanged, if it is one.
    pub identity: Option<ColumnId>,
    /// Every column it is made from, the identity included; may repeat.
    pub columns: Vec<ColumnId>,
}

impl Lineage {
    /// The lineage of a reference to `column`.
    #[must_use]
    pub fn of(column: ColumnId) -> Self {
        Self {
            identity: Some(column),
            columns: vec![column],
        }
    }

    /// The lineage of a value computed from `columns`.
    #[must_use]
    pub fn computed(mut columns: Vec<ColumnId>) -> Self {
        columns.sort_unstable();
        columns.dedup();
        Self {
            identity: None,
            columns,
        }
    }

    /// The lineage of a column of a set operation, from its arms.
    #[must_use]
    pub fn either(self, other: &Self) -> Self {
        let identity = if self.identity == other.identity {
            self.identity
        } else {
            None
        };
        let mut columns = self.columns;
        columns.extend(&other.columns);
        columns.sort_unstable();
        columns.dedup();
        Self { identity, columns }
    }
}
