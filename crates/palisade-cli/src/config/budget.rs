//! What principals may take over time: `[budgets]` of the configuration.

use std::sync::Arc;

use palisade::guard::{Allowance, Budgets};
use serde::Deserialize;
use toml::Spanned;

use crate::{config::Reader, exit::Failure};

/// `[budgets]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetTable {
    /// What a principal may take within a minute.
    minute: Option<BudgetSpan>,
    /// What a principal may take within a day.
    day: Option<BudgetSpan>,
}

/// `[budgets.minute]`, `[budgets.day]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetSpan {
    /// Statements, those that are refused among them.
    statements: Option<Spanned<u64>>,
    /// Rows of answers.
    rows: Option<Spanned<u64>>,
    /// Cells of answers.
    cells: Option<Spanned<u64>>,
    /// Seconds that statements take, those for waiting among them.
    seconds: Option<Spanned<u64>>,
}

impl Reader<'_> {
    /// What principals may take over all connections; none if nothing is bounded.
    pub(crate) fn budgets(&self, table: BudgetTable) -> Result<Option<Arc<Budgets>>, Failure> {
        let BudgetTable { minute, day } = table;
        if minute.is_none() && day.is_none() {
            return Ok(None);
        }
        let minute = self.allowance(minute.unwrap_or_default())?;
        let day = self.allowance(day.unwrap_or_default())?;
        Ok(Some(Arc::new(Budgets::new(minute, day))))
    }

    fn allowance(&self, span: BudgetSpan) -> Result<Allowance, Failure> {
        let BudgetSpan {
            statements,
            rows,
            cells,
            seconds,
        } = span;
        let number = |value, key| self.number(value, (key, 1..=1_000_000_000_000));
        Ok(Allowance {
            statements: number(statements, "statements")?,
            rows: number(rows, "rows")?,
            cells: number(cells, "cells")?,
            seconds: number(seconds, "seconds")?,
        })
    }
}
