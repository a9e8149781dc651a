//! What must not be found before a change runs: rows that it would change, and that policy does not admit as they
//! would be afterwards.
//!
//! The change keeps within what is admitted whatever was found; it would leave out the rest, and who asked would take
//! what was done for what was asked. So the same rows are looked for first, by the same conditions, in the same
//! transaction. What is hidden is not looked at: rows count that may be seen and changed, and no others.

pub(in crate::rewrite) mod cascade_count;
pub(in crate::rewrite) mod foreign_keys;
pub(in crate::rewrite) mod query;
pub(in crate::rewrite) mod resolution;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sqlparser::ast::{Expr, Ident};

use crate::rewrite::{
    change::upsert::on_conflict::Proposed, relation_source::row_filter::ColumnSet,
};
use crate::{
    catalog::{Change, Relation, RelationId},
    resolve::WriteFilter,
    value::Value,
};

/// A query that must give no row when it runs in the transaction of a change, before it.
#[derive(Debug, PartialEq)]
pub struct Precheck {
    pub(in crate::rewrite) sql: Arc<str>,
    pub(in crate::rewrite) params: Vec<Value>,
    pub(in crate::rewrite) violation: Violation,
}

/// What it says of a change that a row is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Policy does not admit a row as it would be.
    NotAdmitted,
    /// A row that may not be changed conflicts, as a constraint of an INSERT would say, or references a changed row, as a
    /// foreign key without an action would say.
    OutOfReach,
}

impl Precheck {
    /// The text to run, and nothing else.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values to bind, the first to the first parameter.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// What it says of the change if it gives a row.
    #[must_use]
    pub fn violation(&self) -> Violation {
        self.violation
    }
}

/// Which rows of a change may not be admitted.
#[derive(Debug)]
pub(in crate::rewrite) enum ViolationQuery {
    /// Rows of the target that pass `within`, if they are not `admitted`.
    Target {
        within: Option<Box<WriteFilter>>,
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows of the query that an INSERT takes, if they are not `admitted`.
    Rows {
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows whose values are known, of which only the database knows whether they are `admitted`.
    Values { admitted: Box<Expr> },
    /// Rows that conflict with what an upsert proposes.
    Conflicts {
        within: Option<Box<WriteFilter>>,
        admitted: Box<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows that an upsert proposes with equal `keys`.
    RepeatedKeys {
        keys: Vec<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows of the target, called `alias`, that conflict with what an INSERT proposes, if they are not `admitted`.
    KeyConflicts {
        alias: Ident,
        conflict: Box<Expr>,
        admitted: Box<Expr>,
        violation: Violation,
    },
}

impl ViolationQuery {
    /// What it says of the change that a row is found.
    pub(in crate::rewrite) fn violation(&self) -> Violation {
        match self {
            Self::Conflicts {
                within: _,
                admitted: _,
                proposed: _,
            }
            | Self::RepeatedKeys {
                keys: _,
                proposed: _,
            }
            | Self::Values { admitted: _ } => Violation::NotAdmitted,
            Self::Rows {
                admitted: _,
                violation,
            }
            | Self::Target {
                within: _,
                admitted: _,
                violation,
            }
            | Self::KeyConflicts {
                alias: _,
                conflict: _,
                admitted: _,
                violation,
            } => *violation,
        }
    }
}

/// What is looked for of what a change reaches by foreign keys.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct ProbedRows {
    /// The columns that are read for it.
    pub(in crate::rewrite) reads: BTreeMap<RelationId, ColumnSet>,
    /// The changes that it is about.
    pub(in crate::rewrite) changes: BTreeSet<(RelationId, Change)>,
}

impl ProbedRows {
    fn columns_of(&mut self, relation: &Relation) -> &mut ColumnSet {
        self.reads.entry(relation.id).or_default()
    }
}
