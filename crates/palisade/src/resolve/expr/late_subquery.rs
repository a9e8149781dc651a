//! Subqueries in a condition that an engine runs only once a row needs what they give.
//!
//! A subquery without columns of the query around it is run once. Engines wait with that for the first row that passed the terms before
//! it, and those may be looked at before a filter. So the time that it takes, or that it fails, tells whether a hidden row passed a
//! term. A fence keeps hidden rows from all terms.
//!
//! | engine | what comes before the filter | what waits |
//! |---|---|---|
//! | PostgreSQL | any term that is as cheap, in the order of the text | what is no join: a value, `NOT IN`, and whatever stands below OR |
//! | SQLite, MySQL, MariaDB | terms before a filter that looks rows up | a value |

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, FunctionArguments, Query, UnaryOperator};

use crate::resolve::{Resolver, scope::Scope};
use crate::{
    dialect::Dialect,
    policy::obligation::RowFilter,
    syntax::{TreeVisitor, each_expr, visit_tree},
};

impl<'a> Resolver<'a> {
    /// Whether the engine may wait with a subquery of a condition for a row that has not passed its filter.
    pub(in crate::resolve) fn runs_subquery_late(&self, condition: &Expr) -> bool {
        self.is_statement()
            && match self.catalog.dialect() {
                Dialect::Postgres => waits_on_postgres(condition, self.looks_rows_up()),
                Dialect::Sqlite | Dialect::Mysql => has_value(condition) && self.looks_rows_up(),
            }
    }

    /// The same of a condition over groups: terms with an aggregate stay above them, and groups are of rows that passed their filters.
    pub(in crate::resolve) fn runs_subquery_late_below_groups(
        &self,
        condition: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        match condition {
            Expr::Nested(inner) => self.runs_subquery_late_below_groups(inner, scope),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => {
                self.runs_subquery_late_below_groups(left, scope)
                    || self.runs_subquery_late_below_groups(right, scope)
            }
            Expr::BinaryOp { left, op: _, right }
                if self.is_aggregate(left, scope) || self.is_aggregate(right, scope) =>
            {
                false
            }
            other => self.runs_subquery_late(other),
        }
    }

    /// Whether the filter of a relation that the statement touches looks at rows of another.
    fn looks_rows_up(&self) -> bool {
        self.access.relations.iter().any(|id| {
            let decision = self.visible.relation(*id);
            decision.is_ok_and(|decision| match &decision.rows {
                RowFilter::Where(predicate) => predicate.looks_rows_up(),
                RowFilter::Everything | RowFilter::Nothing => false,
            })
        })
    }
}

/// Whether PostgreSQL runs a subquery of a term on the way through a table's rows. `IN` and `EXISTS` that are terms by themselves become
/// joins, or are asked before the first row. One for each row comes after what is cheaper, and so before a filter that looks rows up.
fn waits_on_postgres(condition: &Expr, looks_rows_up: bool) -> bool {
    match condition {
        Expr::Nested(inner) => waits_on_postgres(inner, looks_rows_up),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => waits_on_postgres(left, looks_rows_up) || waits_on_postgres(right, looks_rows_up),
        Expr::InSubquery {
            expr,
            subquery: _,
            negated: false,
        } => has_query(expr),
        Expr::Exists {
            subquery: _,
            negated: _,
        } => looks_rows_up,
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } if is_exists(expr) => looks_rows_up,
        other => has_query(other),
    }
}

/// Whether a query stands anywhere in `expr`.
fn has_query(expr: &Expr) -> bool {
    struct Seeker;

    impl TreeVisitor for Seeker {
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }

    visit_tree(expr, &mut Seeker).is_break()
}

fn has_value(expr: &Expr) -> bool {
    each_expr(expr, &mut |part| match is_value(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether `expr` is a query in the place of a value or of a list.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) => true,
        Expr::Function(call) => matches!(call.args, FunctionArguments::Subquery(_)),
        _ => false,
    }
}

fn is_exists(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists {
            subquery: _,
            negated: _,
        }
    )
}
