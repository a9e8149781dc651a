//! Whether an expression has other values for other rows.

use std::collections::BTreeSet;

use sqlparser::ast::{Array, BinaryOperator, CaseWhen, Expr, Function, UnaryOperator};

use crate::resolve::change::condition::{
    TargetRows,
    comparison::SideRelation,
    trivial::{arguments, is_constant, is_null, is_number, matches_text, only_item},
};

/// Calls that give the first of their arguments that is not NULL.
pub(super) const FIRST_OF: [&str; 3] = ["coalesce", "ifnull", "nvl"];

/// Calls that say the same of every row: what a column's type is.
const OF_TYPES: [&str; 1] = ["pg_typeof"];

impl TargetRows<'_, '_> {
    /// Whether the value of `expr` may be another for another row of the target.
    pub(super) fn varies(&mut self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.varies(inner),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                self.column(expr).is_some_and(|c| self.is_linked(c.source))
            }
            Expr::Value(_) | Expr::TypedString(_) => false,
            Expr::UnaryOp {
                op: UnaryOperator::Not | UnaryOperator::BangNot,
                expr,
            } => self.narrows(expr, true),
            Expr::UnaryOp { op: _, expr } | Expr::Collate { expr, collation: _ } => {
                self.varies(expr)
            }
            Expr::Cast {
                kind: _,
                expr,
                data_type: _,
                format: _,
            } => self.varies(expr),
            Expr::BinaryOp { left, op, right } => {
                if is_null(left) || is_null(right) {
                    return false;
                }
                let is_truth = matches!(
                    op,
                    BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor
                ) || SideRelation::from_operator(op).is_some()
                    || matches_text(op);
                if is_truth {
                    return self.narrows(expr, true);
                }
                !self.cancels(left, op, right) && (self.varies(left) || self.varies(right))
            }
            Expr::Subquery(query) => {
                let before = self.linked_count();
                let is_constant = only_item(query).is_some_and(|(_, item)| is_constant(item));
                let says = match only_item(query) {
                    Some((select, item)) => {
                        let depth = self.enter(&select.from);
                        let says = self.varies(item) || self.select_narrows(select);
                        self.leave(depth);
                        says
                    }
                    None => self.query_narrows(query),
                };
                // A value of the rows that go with the target's own.
                says || (!is_constant && self.linked_count() > before)
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                self.chooses(operand.as_deref(), conditions, else_result.as_deref())
                    || self.all_arms(conditions, else_result.as_deref(), Self::varies)
            }
            Expr::Function(function) => self.call_varies(function),
            Expr::Tuple(all) => all.iter().any(|one| self.varies(one)),
            Expr::Array(Array { elem, named: _ }) => elem.iter().any(|one| self.varies(one)),
            Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::IsDistinctFrom(_, _)
            | Expr::IsNotDistinctFrom(_, _)
            | Expr::InList {
                expr: _,
                list: _,
                negated: _,
            }
            | Expr::InSubquery {
                expr: _,
                subquery: _,
                negated: _,
            }
            | Expr::Between {
                expr: _,
                negated: _,
                low: _,
                high: _,
            }
            | Expr::Exists {
                subquery: _,
                negated: _,
            }
            | Expr::Like {
                negated: _,
                any: _,
                expr: _,
                pattern: _,
                escape_char: _,
            }
            | Expr::ILike {
                negated: _,
                any: _,
                expr: _,
                pattern: _,
                escape_char: _,
            }
            | Expr::SimilarTo {
                negated: _,
                expr: _,
                pattern: _,
                escape_char: _,
            }
            | Expr::RLike {
                negated: _,
                expr: _,
                pattern: _,
                regexp: _,
            }
            | Expr::AnyOp {
                left: _,
                compare_op: _,
                right: _,
                is_some: _,
            }
            | Expr::AllOp {
                left: _,
                compare_op: _,
                right: _,
            } => self.narrows(expr, true),
            // What is made of a column's value: parts of texts and dates, members of documents, searches.
            other => self.names_target(other),
        }
    }

    /// Whether what is computed is the same whatever its sides are.
    pub(super) fn cancels(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> bool {
        match op {
            BinaryOperator::Minus
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::MyIntegerDivide
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::BitwiseXor => self.spell(left) == self.spell(right),
            BinaryOperator::Multiply | BinaryOperator::BitwiseAnd => {
                is_number(left, "0") || is_number(right, "0")
            }
            BinaryOperator::Plus | BinaryOperator::StringConcat | BinaryOperator::BitwiseOr => {
                false
            }
            // Of an operator that is not known, one value with itself is taken for a constant.
            other => {
                debug_assert!(*other != BinaryOperator::Minus, "answered above");
                self.spell(left) == self.spell(right)
            }
        }
    }

    pub(super) fn call_varies(&mut self, function: &Function) -> bool {
        let name = self.name_of(function);
        if OF_TYPES.contains(&&*name) {
            return false;
        }
        match arguments(function) {
            Some(arguments) if FIRST_OF.contains(&&*name) => {
                arguments.first().is_some_and(|first| self.varies(first))
            }
            Some(arguments) if name == "nullif" => match arguments.as_slice() {
                [one, other] => {
                    self.spell(one) != self.spell(other) && (self.varies(one) || self.varies(other))
                }
                _ => false,
            },
            Some(arguments) => arguments.into_iter().any(|one| self.varies(one)),
            None => self.names_target(&Expr::Function(function.clone())),
        }
    }

    /// Whether what a CASE gives is chosen by the target's row: each choice hangs on it, and not all of them are the same.
    pub(super) fn chooses(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> bool {
        let mut results: BTreeSet<String> = conditions
            .iter()
            .map(
                |CaseWhen {
                     condition: _,
                     result,
                 }| self.spell(result),
            )
            .collect();
        results.insert(otherwise.map_or_else(|| "NULL".to_owned(), |e| self.spell(e)));
        if results.len() < 2 {
            return false;
        }
        match operand {
            Some(operand) => {
                let operand = self.side(operand);
                conditions.iter().all(
                    |CaseWhen {
                         condition,
                         result: _,
                     }| {
                        self.compares_side(&operand, condition, SideRelation::Strict)
                    },
                )
            }
            None => conditions.iter().all(
                |CaseWhen {
                     condition,
                     result: _,
                 }| self.narrows(condition, true),
            ),
        }
    }

    pub(super) fn all_arms(
        &mut self,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
        mut says: impl FnMut(&mut Self, &Expr) -> bool,
    ) -> bool {
        otherwise.is_some_and(|otherwise| says(self, otherwise))
            && conditions.iter().all(
                |CaseWhen {
                     condition: _,
                     result,
                 }| says(self, result),
            )
    }

    /// Whether it is NULL for some rows of the target and not for others, as far as the catalog tells.
    pub(super) fn is_nullable(&mut self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_nullable(inner),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self
                .column(expr)
                .is_some_and(|column| column.nullable && self.is_linked(column.source)),
            Expr::Cast {
                kind: _,
                expr,
                data_type: _,
                format: _,
            }
            | Expr::Collate { expr, collation: _ } => self.is_nullable(expr),
            // NULL where one side is.
            Expr::BinaryOp { left, op, right }
                if SideRelation::from_operator(op).is_some()
                    || matches!(
                        op,
                        BinaryOperator::Plus
                            | BinaryOperator::Minus
                            | BinaryOperator::Multiply
                            | BinaryOperator::StringConcat
                    ) =>
            {
                !is_null(left)
                    && !is_null(right)
                    && (self.is_nullable(left) || self.is_nullable(right))
            }
            Expr::Function(function) if FIRST_OF.contains(&&*self.name_of(function)) => {
                arguments(function).is_some_and(|all| all.into_iter().all(|e| self.is_nullable(e)))
            }
            Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::Value(_) => false,
            other => self.varies(other),
        }
    }
}
