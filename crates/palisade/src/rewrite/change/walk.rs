//! The changes in a statement, in the order in which they are resolved.

use sqlparser::ast::{Query, SetExpr};

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
        .filter(|body| changes_rows(body))
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
        .filter(|body| changes_rows(body))
        .collect()
}

/// The text of a WITH in which rows are changed.
pub(in crate::rewrite) fn print_changing_with(query: &Query) -> Option<String> {
    let with = query.with.as_ref()?;
    let mut tables = with.cte_tables.iter();
    tables
        .any(|cte| changes_rows(&cte.query.body))
        .then(|| with.to_string())
}

/// Whether a body changes rows.
pub(in crate::rewrite) fn changes_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => true,
        SetExpr::Select(_)
        | SetExpr::Query(_)
        | SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left: _,
            right: _,
        }
        | SetExpr::Values(_)
        | SetExpr::Table(_) => false,
    }
}
