//! What must not be found before a change runs: rows that it would change, and that policy does not admit as they
//! would be afterwards.
//!
//! The change keeps within what is admitted whatever was found; it would leave out the rest, and who asked would take
//! what was done for what was asked. So the same rows are looked for first, by the same conditions, in the same
//! transaction. What is hidden is not looked at: rows count that may be seen and changed, and no others.

pub(in crate::rewrite) mod cascade_count;
pub(in crate::rewrite) mod foreign_keys;
pub(in crate::rewrite) mod query;

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{Expr, Ident, Query};

use crate::rewrite::change::upsert::on_conflict::Proposed;
use crate::{
    access::AccessSet,
    catalog::{Catalog, functions::Safety},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    rejection::Rejection,
    resolve::{self, Guard, Mode, Visible},
    syntax::{Outline, ParsedQuery},
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
        within: Option<Box<Guard>>,
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows of the query that an INSERT takes, if they are not `admitted`.
    Rows {
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows that conflict with what an upsert proposes.
    Conflicts {
        within: Option<Box<Guard>>,
        admitted: Box<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows that an upsert proposes with equal `keys`.
    RepeatedKeys {
        keys: Vec<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows of the target, called `alias`, that meet what an INSERT proposes, if they are not `admitted`.
    KeyConflicts {
        alias: Ident,
        meets: Box<Expr>,
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
            } => Violation::NotAdmitted,
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
                meets: _,
                admitted: _,
                violation,
            } => *violation,
        }
    }
}

/// Refuses a statement with a function that must not run twice, once to look and once in the change. PostgreSQL looks
/// where nothing can be written, and SQLite has no such functions.
pub(in crate::rewrite) fn require_repeatable(
    reads: &AccessSet,
    catalog: &Catalog,
) -> Result<(), Rejection> {
    match catalog.dialect() {
        Dialect::Sqlite | Dialect::Postgres => return Ok(()),
        Dialect::Mysql => {}
    }
    for uid in reads.functions() {
        match catalog
            .function(uid)
            .map_or(Safety::Unknown, |def| def.safety)
        {
            Safety::Pure
            | Safety::Volatile
            | Safety::Session
            | Safety::Catalog
            | Safety::Resource => {}
            Safety::File
            | Safety::Network
            | Safety::DynamicSql
            | Safety::Lock
            | Safety::Admin
            | Safety::Unknown => {
                let message = format!(
                    "`{uid}` would have to run before the statement too, to tell whether policy admits its rows"
                );
                return Err(Rejection::new(Code::WriteRowNotAdmitted, message));
            }
        }
    }
    Ok(())
}

/// Adds to the `decided` functions what else is called by what is looked for: it compares keys as an index would, by a type's
/// own operator. Refuses a function of unknown effect.
pub(in crate::rewrite) fn collect_functions(
    reads: &AccessSet,
    decided: &mut BTreeSet<String>,
    catalog: &Catalog,
) -> Result<(), Rejection> {
    for uid in reads.functions() {
        if decided.contains(uid) {
            continue;
        }
        match catalog
            .function(uid)
            .map_or(Safety::Unknown, |def| def.safety)
        {
            Safety::Pure => {
                decided.insert(uid.to_owned());
            }
            Safety::Volatile
            | Safety::Session
            | Safety::Catalog
            | Safety::File
            | Safety::Network
            | Safety::DynamicSql
            | Safety::Lock
            | Safety::Admin
            | Safety::Resource
            | Safety::Unknown => {
                let message = format!(
                    "`{uid}` would have to be called before the statement, to tell whether policy admits its rows"
                );
                return Err(Rejection::new(Code::WriteRowNotAdmitted, message));
            }
        }
    }
    Ok(())
}

/// What the text of a query reads and calls, whoever looks: below masks and filters, as its conditions do.
pub(in crate::rewrite) fn resolve_reads(
    sql: &str,
    query: Box<Query>,
    catalog: &Catalog,
    visible: &dyn Visible,
    limits: &Limits,
) -> Result<AccessSet, Rejection> {
    let mut outline = Outline::default();
    outline
        .positional
        .extend(crate::rewrite::output::parameters::positions(&query));
    let parsed = ParsedQuery {
        text: sql,
        query,
        outline,
        explain: None,
    };
    let below = Mode::View { within: &[] };
    resolve::resolve(parsed, catalog, visible, below, limits)
        .map(|resolved| resolved.access)
        .map_err(crate::rewrite::refusal::unresolved)
}
