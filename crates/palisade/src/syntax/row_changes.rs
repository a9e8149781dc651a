//! Whether a statement changes rows, before any name in it is resolved.

use sqlparser::ast::{Query, SetExpr};

/// Whether `query`, or a common table expression of it, changes rows.
pub(crate) fn changes_rows(query: &Query) -> bool {
    let common = query.with.iter().flat_map(|with| &with.cte_tables);
    body_changes_rows(&query.body) || common.into_iter().any(|cte| changes_rows(&cte.query))
}

fn body_changes_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => true,
        SetExpr::Query(query) => changes_rows(query),
        SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left,
            right,
        } => body_changes_rows(left) || body_changes_rows(right),
        SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Table(_) => false,
    }
}
