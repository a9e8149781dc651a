//! INSERT … SELECT whose rows are known where policy looks at them: each column that it looks at is given a constant.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, SetExpr};

use crate::rewrite::change::ChangeRewriter;
use crate::{
    catalog::{Column, Relation},
    policy::obligation::Predicate,
};

impl ChangeRewriter<'_> {
    /// Whether every row of `source` is certainly one of which `predicates` hold, which look at these columns, whatever rows there are.
    pub(in crate::rewrite) fn gives_admitted(
        &self,
        source: &Query,
        relation: &Relation,
        columns: &[(u16, &Column)],
        predicates: &[&Predicate],
        looked: &BTreeSet<u16>,
    ) -> bool {
        let Some(values) = items(source) else {
            return false;
        };
        let row: BTreeMap<_, _> = columns
            .iter()
            .zip(values)
            .filter(|((index, _), _)| looked.contains(index))
            .map(|((index, column), value)| (*index, self.stored_value(value, column)))
            .collect();
        let left = self.admit_row(&row, relation, predicates, looked);
        left.is_ok_and(|left| left.is_empty())
    }
}

/// What a query gives for its first columns, up to a star; none where a row may hold something else.
fn items(source: &Query) -> Option<Vec<&Expr>> {
    let SetExpr::Select(select) = &*source.body else {
        return None;
    };
    let Select {
        select_token: _,
        optimizer_hints: _,
        distinct: _,
        select_modifiers: _,
        top: _,
        top_before_distinct: _,
        projection,
        exclude: _,
        into: _,
        from: _,
        lateral_views: _,
        prewhere: _,
        selection: _,
        connect_by: _,
        group_by,
        cluster_by: _,
        distribute_by: _,
        sort_by: _,
        having: _,
        named_window: _,
        qualify: _,
        window_before_qualify: _,
        value_table_mode: _,
        flavor: _,
    } = &**select;
    // Rows of several levels have NULL in the place of what a level is not grouped by.
    match group_by {
        GroupByExpr::Expressions(expressions, modifiers)
            if expressions.is_empty() && modifiers.is_empty() => {}
        GroupByExpr::Expressions(_, _) | GroupByExpr::All(_) => return None,
    }
    let items = projection.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => Some(expr),
        SelectItem::ExprWithAliases {
            expr: _,
            aliases: _,
        }
        | SelectItem::QualifiedWildcard(_, _)
        | SelectItem::Wildcard(_) => None,
    });
    Some(items.collect())
}
