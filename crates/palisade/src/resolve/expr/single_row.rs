//! Which subqueries give one row at most.

use sqlparser::{
    ast::{Expr, FunctionArguments, GroupByExpr, LimitClause, Query, SelectItem, SetExpr, Value},
    tokenizer::Location,
};

use crate::resolve::{
    Resolver, expr::constant_form::plain_argument, scope::Scope, token::locate_query,
};

impl<'a> Resolver<'a> {
    /// Whether a query that has been resolved gives one row at most.
    pub(in crate::resolve) fn gives_one_row(&self, query: &Query) -> bool {
        let limit = match &query.limit_clause {
            Some(LimitClause::LimitOffset {
                limit: Some(Expr::Value(value)),
                offset: _,
                limit_by: _,
            }) => match &value.value {
                Value::Number(text, _) => text.parse::<u64>().ok(),
                _ => None,
            },
            _ => None,
        };
        let is_single = || match &*query.body {
            SetExpr::Select(_) => {
                locate_query(query).is_some_and(|place| self.single_rows.contains(&place))
            }
            _ => false,
        };
        limit.is_some_and(|rows| rows <= 1) || is_single()
    }

    /// Notes that the SELECT at `place` gives one row for all that it reads, if it does: what it gives is an aggregate.
    pub(in crate::resolve) fn note_single_row(
        &mut self,
        place: Location,
        items: &[SelectItem],
        group_by: &GroupByExpr,
        scope: &Scope<'a, '_>,
    ) {
        let is_grouped = match group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(terms, modifiers) => {
                !terms.is_empty() || !modifiers.is_empty()
            }
        };
        let is_single = !is_grouped
            && match items {
                [
                    SelectItem::UnnamedExpr(item)
                    | SelectItem::ExprWithAlias {
                        expr: item,
                        alias: _,
                    },
                ] => self.is_made_of_aggregate(item, scope),
                _ => false,
            };
        if is_single {
            self.single_rows.insert(place);
        } else {
            self.single_rows.remove(&place);
        }
    }

    /// Whether an aggregate over this query's own rows is in `expr`.
    fn is_made_of_aggregate(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner)
            | Expr::UnaryOp { op: _, expr: inner }
            | Expr::Cast {
                kind: _,
                expr: inner,
                data_type: _,
                format: _,
            } => self.is_made_of_aggregate(inner, scope),
            Expr::BinaryOp { left, op: _, right } => {
                self.is_made_of_aggregate(left, scope) || self.is_made_of_aggregate(right, scope)
            }
            Expr::Function(call) => {
                let in_arguments = || match &call.args {
                    FunctionArguments::List(list) => list.args.iter().any(|arg| {
                        plain_argument(arg).is_some_and(|arg| self.is_made_of_aggregate(arg, scope))
                    }),
                    FunctionArguments::None | FunctionArguments::Subquery(_) => false,
                };
                self.is_aggregate(expr, scope) || (call.over.is_none() && in_arguments())
            }
            _ => false,
        }
    }
}
