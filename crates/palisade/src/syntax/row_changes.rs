//! Which parts of a statement change rows, by their verbs alone.

use sqlparser::ast::{Query, SetExpr};

/// Whether `body` itself is a change of rows.
pub(crate) fn is_change(body: &SetExpr) -> bool {
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

/// Whether `body` is a change of rows, or a query in parentheses around one.
pub(crate) fn is_change_within(body: &SetExpr) -> bool {
    match body {
        SetExpr::Query(query) => is_change_within(&query.body),
        other => is_change(other),
    }
}

/// Whether `query`, a common table expression of it, or a query in it, changes rows.
pub(crate) fn contains_change(query: &Query) -> bool {
    let common = query.with.iter().flat_map(|with| &with.cte_tables);
    has_change(&query.body) || common.into_iter().any(|cte| contains_change(&cte.query))
}

fn has_change(body: &SetExpr) -> bool {
    match body {
        SetExpr::Query(query) => contains_change(query),
        SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left,
            right,
        } => has_change(left) || has_change(right),
        other => is_change(other),
    }
}
