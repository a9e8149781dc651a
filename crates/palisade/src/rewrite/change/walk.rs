//! The changes in a statement, in the order in which they are resolved.

use sqlparser::ast::{Query, SetExpr};

use crate::syntax::is_change;

/// The changes in a statement, in the order in which they are resolved: those in its WITH, then its own.
pub(in crate::rewrite) fn changes(query: &Query) -> Vec<&SetExpr> {
    let Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch: _,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators: _,
    } = query;
    let tables = with.iter().flat_map(|with| &with.cte_tables);
    tables
        .map(|cte| &cte.query.body)
        .chain([body])
        .map(|body| &**body)
        .filter(|body| is_change(body))
        .collect()
}

/// [`changes`], to be changed themselves.
pub(in crate::rewrite) fn changes_mut(query: &mut Query) -> Vec<&mut SetExpr> {
    let Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch: _,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators: _,
    } = query;
    let tables = with.iter_mut().flat_map(|with| &mut with.cte_tables);
    tables
        .map(|cte| &mut cte.query.body)
        .chain([body])
        .map(|body| &mut **body)
        .filter(|body| is_change(body))
        .collect()
}

/// The text of a WITH in which rows are changed.
pub(in crate::rewrite) fn print_changing_with(query: &Query) -> Option<String> {
    let with = query.with.as_ref()?;
    let mut tables = with.cte_tables.iter();
    tables
        .any(|cte| is_change(&cte.query.body))
        .then(|| with.to_string())
}
