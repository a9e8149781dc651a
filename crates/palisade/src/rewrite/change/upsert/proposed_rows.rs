//! The rows that an INSERT proposes.

use sqlparser::ast::{AssignmentTarget, Expr, Insert, SetExpr, Values};

use crate::catalog::Relation;
use crate::rewrite::change::ChangeRewriter;

/// The rows that are proposed.
pub(in crate::rewrite) fn proposed_rows(insert: &Insert) -> Option<Vec<Vec<&Expr>>> {
    let Some(source) = &insert.source else {
        return Some(vec![insert.assignments.iter().map(|a| &a.value).collect()]);
    };
    match &*source.body {
        SetExpr::Values(Values {
            explicit_row: _,
            value_keyword: _,
            rows,
        }) => Some(
            rows.iter()
                .map(|row| row.content.iter().collect())
                .collect(),
        ),
        _ => None,
    }
}

/// The columns that they are given values of.
pub(in crate::rewrite) fn given_columns(
    job: &ChangeRewriter<'_>,
    insert: &Insert,
    relation: &Relation,
) -> Vec<u16> {
    let assigned = insert.assignments.iter().filter_map(|a| match &a.target {
        AssignmentTarget::ColumnName(name) => Some(name),
        AssignmentTarget::Tuple(_) => None,
    });
    let names = insert.columns.iter().chain(assigned);
    names
        .filter_map(|name| job.column(relation, name))
        .map(|(index, _)| index)
        .collect()
}
