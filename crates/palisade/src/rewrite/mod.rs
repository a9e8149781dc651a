//! Before the database: the permit becomes a statement that is safe to run exactly as printed.

use std::collections::BTreeSet;

use crate::{limits::Limits, scan::ScanPlan, value::Value};

/// A statement that may be run exactly as printed. Only [`rewrite`](self) makes one, from a permit
/// taken by value; it cannot be serialised or built from text.
#[derive(Debug)]
pub struct RewrittenStatement {
    pub(crate) sql: String,
    pub(crate) params: Vec<Value>,
    pub(crate) scan_plan: ScanPlan,
    pub(crate) engine_reads: BTreeSet<(String, String)>,
    pub(crate) engine_functions: BTreeSet<&'static str>,
    pub(crate) limits: Limits,
}

impl RewrittenStatement {
    /// The text to run, and nothing else.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values to bind, the first to `?1`.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// How the answer must be scanned.
    #[must_use]
    pub fn scan_plan(&self) -> &ScanPlan {
        &self.scan_plan
    }

    /// The (relation, column) pairs, folded, that the engine may read while it runs this: the second
    /// lock. A relation that is read without any column stands with an empty column name.
    #[must_use]
    pub fn engine_reads(&self) -> &BTreeSet<(String, String)> {
        &self.engine_reads
    }

    /// The functions, folded, that the engine may call while it runs this.
    #[must_use]
    pub fn engine_functions(&self) -> &BTreeSet<&'static str> {
        &self.engine_functions
    }

    /// What it may cost.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
