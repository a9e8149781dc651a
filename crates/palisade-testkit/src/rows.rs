//! What a backend answered, kept as it came.

use std::ops::ControlFlow;

use palisade::{guard::RowSink, value::Value};

/// Takes rows until it has enough.
#[derive(Debug)]
pub struct Rows {
    /// The columns' names.
    pub names: Vec<String>,
    /// Their cells.
    pub rows: Vec<Vec<Value>>,
    /// How many rows the backend says that it changed, for whoever notes it here.
    pub affected: Option<u64>,
    stop_after: usize,
}

impl Rows {
    /// Takes every row.
    #[must_use]
    pub fn all() -> Self {
        Self::until(usize::MAX)
    }

    /// Has enough after so many; with 0, when it hears of the columns.
    #[must_use]
    pub fn until(stop_after: usize) -> Self {
        Self {
            names: Vec::new(),
            rows: Vec::new(),
            affected: None,
            stop_after,
        }
    }

    /// The only cell of the only row.
    #[must_use]
    pub fn cell(&self) -> Option<&Value> {
        match self.rows.as_slice() {
            [row] => row.first(),
            _ => None,
        }
    }

    fn enough(&self) -> ControlFlow<()> {
        if self.rows.len() >= self.stop_after {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl RowSink for Rows {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        self.names = names.iter().map(|n| (*n).to_owned()).collect();
        self.enough()
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        self.rows.push(cells);
        self.enough()
    }
}
