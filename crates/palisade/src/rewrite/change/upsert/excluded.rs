//! What an upsert gives the conflicting row of the row that it proposes: `excluded.column`, assigned to the same column.

use std::collections::BTreeSet;

use sqlparser::ast::{Assignment, AssignmentTarget, Expr, Insert};

use crate::rewrite::{
    change::{
        ChangeRewriter,
        upsert::proposed_rows::{given_columns, proposed_rows},
    },
    relation_source::row_filter,
};
use crate::{
    catalog::{Change, Column, Relation},
    policy::obligation::RowFilter,
    rejection::Rejection,
    resolve::{EXCLUDED, is_itself, is_named, sets_off_triggers},
};

impl ChangeRewriter<'_> {
    /// The assignments with what is proposed in the place of `excluded.column`, where that is one constant for all rows.
    pub(in crate::rewrite) fn substitute_excluded(
        &self,
        assignments: &[Assignment],
        insert: &Insert,
        relation: &Relation,
    ) -> Vec<Assignment> {
        let proposed = |assignment: &Assignment| -> Option<Expr> {
            let index = self.excluded_column(assignment, relation)?;
            let at = given_columns(self, insert, relation)
                .iter()
                .position(|given| *given == index)?;
            let mut values = proposed_rows(insert)?
                .into_iter()
                .map(|row| row.get(at).copied());
            let first = values.next()??;
            values
                .all(|value| value == Some(first))
                .then(|| first.clone())
        };
        assignments
            .iter()
            .map(|assignment| Assignment {
                target: assignment.target.clone(),
                value: proposed(assignment).unwrap_or_else(|| assignment.value.clone()),
            })
            .collect()
    }

    /// Whether `add` looks only at columns that the update takes from the proposed row, which it has admitted.
    pub(in crate::rewrite) fn is_as_proposed(
        &self,
        add: &RowFilter,
        assignments: &[Assignment],
        relation: &Relation,
    ) -> bool {
        let RowFilter::Where(predicate) = add else {
            return false;
        };
        let same: BTreeSet<u16> = assignments
            .iter()
            .filter_map(|assignment| self.excluded_column(assignment, relation))
            .collect();
        let mut looked = BTreeSet::new();
        row_filter::columns(predicate, &mut looked);
        looked.is_subset(&same)
    }

    /// The column that is given its own proposed value, as the statement has it.
    fn excluded_column(&self, assignment: &Assignment, relation: &Relation) -> Option<u16> {
        // A trigger may propose another row than the statement.
        if sets_off_triggers(relation, Change::Insert, self.catalog) {
            return None;
        }
        let Assignment { target, value } = assignment;
        let AssignmentTarget::ColumnName(name) = target else {
            return None;
        };
        let (index, column) = self.column(relation, name)?;
        self.is_column_of(value, EXCLUDED, column).then_some(index)
    }

    /// Whether `value` is `column` of the target, as it was.
    pub(in crate::rewrite) fn is_itself(&self, value: &Expr, column: &Column) -> bool {
        is_itself(value, column, &self.target.qualifier, self.catalog)
    }

    /// Whether `value` is `column` of what is called `table`.
    fn is_column_of(&self, value: &Expr, table: &str, column: &Column) -> bool {
        is_named(value, table, column, self.catalog)
    }
}

/// A refusal of what the conflicting row would become.
pub(in crate::rewrite) fn refusal_of_update(why: &Rejection) -> Rejection {
    Rejection::new(
        why.code(),
        format!("in what the conflicting row is given, {}", why.message()),
    )
}
