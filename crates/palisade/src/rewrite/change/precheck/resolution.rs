//! What a query of ours reads and calls, and whether it may run before the change too.

use std::collections::BTreeSet;

use sqlparser::ast::Query;

use crate::{
    access::AccessSet,
    catalog::{
        Catalog,
        functions::{Safety, shown_name},
    },
    code::Code,
    dialect::Dialect,
    limits::Limits,
    rejection::Rejection,
    resolve::{self, Mode, Visible},
    syntax::{Outline, ParsedQuery},
};

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
        .map_err(crate::rewrite::refusal::refuse_unresolved)
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
            | Safety::Account
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
                    "`{}` would have to run before the statement too, to tell whether policy admits its rows",
                    shown_name(uid)
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
            | Safety::Account
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
                    "`{}` would have to be called before the statement, to tell whether policy admits its rows",
                    shown_name(uid)
                );
                return Err(Rejection::new(Code::WriteRowNotAdmitted, message));
            }
        }
    }
    Ok(())
}
