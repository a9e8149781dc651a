//! Typed limits. Every limit has a finite default; a caller may lower the operator's, never raise them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// SQLite's functions that cost the product of their arguments' lengths: `instr` of a megabyte takes 5 s that nothing can interrupt, `trim`
/// with many characters to trim takes minutes. While one is used, its adapter takes short values alone, and fails on others.
pub const SQLITE_QUADRATIC: &[&str] = &[
    "instr",
    "json_patch",
    "jsonb_patch",
    "ltrim",
    "replace",
    "rtrim",
    "trim",
    "unhex",
];

/// The longest pattern of LIKE and GLOB that SQLite's adapter takes, in bytes. Matching costs text times pattern, and the deadline is not
/// looked at inside an instruction: 0.1 s for a megabyte of text.
pub const SQLITE_PATTERN_BYTES: u8 = 100;

/// What one statement may cost, before and after it runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of SQL text. Longer text is `limit.query-size`.
    pub max_query_bytes: usize,
    /// Nested parentheses, subqueries and `CASE`s. Deeper nesting is `limit.depth`.
    pub max_nesting: usize,
    /// Operators chained in one run (`a OR b OR …`, `UNION` arms). Each is a level of the tree.
    pub max_chain: usize,
    /// Relations a statement may reference, and common table expressions of one WITH. A view counts with the relations below it.
    /// Each reading of a common table expression counts, and a recursive query once for each time it is read.
    pub max_relations: usize,
    /// Columns one SELECT may give. Stars over stars double them.
    pub max_columns: usize,
    /// Groups of tables that one SELECT may combine without a condition between them. Each multiplies the rows to look at.
    pub max_unjoined: usize,
    /// Terms of one GROUP BY, ORDER BY or DISTINCT ON, and of all windows of one SELECT. Each window, and each use of one by its name,
    /// counts as one more. More is `limit.work`. Engines compare each term with all before it, and SQLite checks no time-out meanwhile.
    pub max_terms: usize,
    /// Steps of reading a statement: one for each expression, after subqueries, views and aliases are expanded. A query over a
    /// set operation takes its steps once for each arm. More is `limit.work`.
    pub max_steps: u64,
    /// Rows of an answer.
    pub max_rows: u64,
    /// Bytes of all rows of an answer: cells, and the names that each row spells again.
    pub max_result_bytes: usize,
    /// Bytes of one cell. A longer cell is cut, and a notice says so.
    pub max_cell_bytes: usize,
    /// Rows that one statement may change. More is `limit.affected-rows`, and nothing is changed.
    pub max_affected_rows: u64,
    /// Milliseconds of a whole request: to decide, to wait for a connection, and to run. More is `limit.time`.
    pub statement_timeout_ms: u64,
    /// Statements of one principal over row-filtered tables that may end without an answer within an hour: refused by the database, out of memory or time, or cancelled. More are `limit.failures`.
    /// Whether a statement fails can tell how many rows are hidden.
    pub max_failures: u32,
    /// The cost of a statement by the engine's own estimate, in the engine's unit. More is `limit.cost`. Statements over masks or filters are
    /// not estimated, because the estimate would tell what they hide.
    pub max_cost: Option<u64>,
    /// Rows that the engine expects in any one step of a statement's plan. More is `limit.cost`. Not estimated over masks or filters either.
    pub max_estimated_rows: Option<u64>,
}

/// What the engine's estimates of one statement may say at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateCaps {
    /// The cost.
    pub cost: Option<u64>,
    /// The rows that one step works on.
    pub rows: Option<u64>,
}

/// What an engine expects of a statement, as far as it tells.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// The cost of all of it, in the engine's own unit.
    pub cost: Option<f64>,
    /// The rows of the step that works on the most.
    pub rows: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_query_bytes: 256 * 1024,
            max_nesting: 64,
            max_chain: 500,
            max_relations: 128,
            max_columns: 2000,
            max_unjoined: 4,
            max_terms: 500,
            max_steps: 500_000,
            max_rows: 1000,
            max_result_bytes: 4 * 1024 * 1024,
            max_cell_bytes: 64 * 1024,
            max_affected_rows: 1000,
            statement_timeout_ms: 30_000,
            max_failures: 100,
            max_cost: None,
            max_estimated_rows: None,
        }
    }
}

impl Limits {
    /// How long the engine may work on one statement.
    #[must_use]
    pub fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms)
    }

    /// The caps on estimates, if there are any.
    #[must_use]
    pub fn estimate_caps(&self) -> Option<EstimateCaps> {
        let (cost, rows) = (self.max_cost, self.max_estimated_rows);
        (cost.is_some() || rows.is_some()).then_some(EstimateCaps { cost, rows })
    }

    /// Each limit at the smaller of the two: what a caller asks for may lower, never raise.
    #[must_use]
    pub fn lowered_by(&self, other: &Self) -> Self {
        Self {
            max_query_bytes: self.max_query_bytes.min(other.max_query_bytes),
            max_nesting: self.max_nesting.min(other.max_nesting),
            max_chain: self.max_chain.min(other.max_chain),
            max_relations: self.max_relations.min(other.max_relations),
            max_columns: self.max_columns.min(other.max_columns),
            max_unjoined: self.max_unjoined.min(other.max_unjoined),
            max_terms: self.max_terms.min(other.max_terms),
            max_steps: self.max_steps.min(other.max_steps),
            max_rows: self.max_rows.min(other.max_rows),
            max_result_bytes: self.max_result_bytes.min(other.max_result_bytes),
            max_cell_bytes: self.max_cell_bytes.min(other.max_cell_bytes),
            max_affected_rows: self.max_affected_rows.min(other.max_affected_rows),
            statement_timeout_ms: self.statement_timeout_ms.min(other.statement_timeout_ms),
            max_failures: self.max_failures.min(other.max_failures),
            max_cost: self.max_cost.into_iter().chain(other.max_cost).min(),
            max_estimated_rows: self
                .max_estimated_rows
                .into_iter()
                .chain(other.max_estimated_rows)
                .min(),
        }
    }
}
