//! Atoms of a condition: parts that have one truth, under one text.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use crate::resolve::change::condition::{NULL, TargetRows};

impl TargetRows<'_, '_> {
    /// What is asked, and whether it is asked that it holds: contraries ask the same. NULL is left out of account.
    pub(super) fn atom(&self, expr: &Expr, holds: bool) -> (String, bool) {
        let two = |left: &Expr, word: &str, right: &Expr| {
            format!("{} {word} {}", self.spell(left), self.spell(right))
        };
        let either = |left: &Expr, right: &Expr| {
            let (one, other) = (self.spell(left), self.spell(right));
            let (first, last) = if one <= other {
                (one, other)
            } else {
                (other, one)
            };
            format!("{first} = {last}")
        };
        match expr {
            Expr::Nested(inner) | Expr::IsTrue(inner) | Expr::IsNotFalse(inner) => {
                self.atom(inner, holds)
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not | UnaryOperator::BangNot,
                expr: inner,
            }
            | Expr::IsFalse(inner)
            | Expr::IsNotTrue(inner) => self.atom(inner, !holds),
            Expr::IsNull(inner) | Expr::IsUnknown(inner) => {
                (format!("{}{NULL}", self.spell(inner)), holds)
            }
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => {
                (format!("{}{NULL}", self.spell(inner)), !holds)
            }
            Expr::IsNotDistinctFrom(left, right) => (either(left, right), holds),
            Expr::IsDistinctFrom(left, right) => (either(left, right), !holds),
            Expr::BinaryOp { left, op, right } => {
                let compared = match op {
                    BinaryOperator::Eq | BinaryOperator::Spaceship => {
                        Some((either(left, right), holds))
                    }
                    BinaryOperator::NotEq => Some((either(left, right), !holds)),
                    BinaryOperator::Lt => Some((two(left, "<", right), holds)),
                    BinaryOperator::GtEq => Some((two(left, "<", right), !holds)),
                    BinaryOperator::Gt => Some((two(right, "<", left), holds)),
                    BinaryOperator::LtEq => Some((two(right, "<", left), !holds)),
                    _ => None,
                };
                compared.unwrap_or_else(|| (self.spell(expr), holds))
            }
            Expr::InList {
                expr: one,
                list,
                negated,
            } => {
                let list: Vec<String> = list.iter().map(|item| self.spell(item)).collect();
                let all = format!("{} in {}", self.spell(one), list.join(", "));
                (all, *negated != holds)
            }
            Expr::InSubquery {
                expr: one,
                subquery,
                negated,
            } => {
                let all = format!("{} in {subquery}", self.spell(one));
                (all, *negated != holds)
            }
            Expr::Exists { subquery, negated } => (subquery.to_string(), *negated != holds),
            Expr::Between {
                expr: one,
                negated,
                low,
                high,
            } => {
                let (low, high) = (self.spell(low), self.spell(high));
                let all = format!("{} between {low} {high}", self.spell(one));
                (all, *negated != holds)
            }
            Expr::Like {
                negated,
                any: _,
                expr: one,
                pattern,
                escape_char: _,
            }
            | Expr::ILike {
                negated,
                any: _,
                expr: one,
                pattern,
                escape_char: _,
            } => (two(one, "like", pattern), *negated != holds),
            other => (self.spell(other), holds),
        }
    }
}
