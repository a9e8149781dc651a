//! Whether the condition of a change says anything of the rows that it changes.
//!
//! A condition is one where a conjunct that has to hold for every changed row compares a column of the target with something else
//! than that column. Constants, a column beside itself, and conditions on other tables alone are none. An OR is one where each arm
//! is, and no arm is another's contrary. The data are not known here: `id > 0` is a condition.

mod atom;
mod comparison;
pub(in crate::resolve) mod rows;
mod subquery;
mod trivial;
mod variation;

use std::collections::BTreeSet;

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use crate::resolve::change::condition::{
    comparison::SideRelation,
    trivial::{
        arguments, collect, essence, is_any_pattern, is_any_regex, is_constant, is_null, is_only,
        matches_text, text,
    },
    variation::FIRST_OF,
};

pub(in crate::resolve) use rows::TargetRows;

/// What ends the question whether something is NULL.
const NULL: &str = " null";

impl TargetRows<'_, '_> {
    /// Whether one of these, all of which hold for every changed row, says something of it.
    pub(in crate::resolve) fn any_narrows(&mut self, conjuncts: &[&Expr]) -> bool {
        loop {
            let linked = self.linked_count();
            // One may show that another table's row is the target's own, so that a condition on that counts.
            if conjuncts.iter().any(|expr| self.narrows(expr, true)) {
                return true;
            }
            if self.linked_count() == linked {
                return false;
            }
        }
    }

    /// Whether that `expr` is true, or that it is not, says something of the target's row.
    fn narrows(&mut self, expr: &Expr, holds: bool) -> bool {
        // Asked again of parts of an OR: each is looked at once.
        let asked = self.ask(expr, holds);
        if let Some(known) = self.recall(asked) {
            return known;
        }
        let says = self.says(expr, holds);
        self.note(asked, says);
        says
    }

    fn says(&mut self, expr: &Expr, holds: bool) -> bool {
        match expr {
            Expr::Nested(inner) => self.narrows(inner, holds),
            Expr::UnaryOp {
                op: UnaryOperator::Not | UnaryOperator::BangNot,
                expr,
            } => self.narrows(expr, !holds),
            Expr::IsTrue(inner) | Expr::IsNotFalse(inner) => self.narrows(inner, holds),
            Expr::IsFalse(inner) | Expr::IsNotTrue(inner) => self.narrows(inner, !holds),
            Expr::BinaryOp {
                left: _,
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                right: _,
            } => {
                let mut parts = Vec::new();
                collect(expr, op, &mut parts);
                // What is not true of all is false of one.
                if (*op == BinaryOperator::And) == holds {
                    parts.iter().any(|part| self.narrows(part, holds))
                } else {
                    self.each_of(&parts, holds)
                }
            }
            // MySQL alone has it, and groups it otherwise than it is parsed.
            Expr::BinaryOp {
                left: _,
                op: BinaryOperator::Xor,
                right: _,
            } => false,
            Expr::BinaryOp { left, op, right } => match SideRelation::from_operator(op) {
                Some(relation) => match (is_null(left), is_null(right)) {
                    (false, true) if *op == BinaryOperator::Spaceship => self.is_nullable(left),
                    (true, false) if *op == BinaryOperator::Spaceship => self.is_nullable(right),
                    (true | false, true | false) => {
                        self.compares(left, right, relation.if_it(holds))
                    }
                },
                None if matches_text(op) => {
                    !is_any_pattern(op, right) && self.compares(left, right, SideRelation::Strict)
                }
                None => self.varies(expr),
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                let is_same = matches!(expr, Expr::IsNotDistinctFrom(_, _)) == holds;
                match (is_null(left), is_null(right)) {
                    (false, true) => self.is_nullable(left),
                    (true, false) => self.is_nullable(right),
                    (true, true) | (false, false) if is_same => {
                        self.compares(left, right, SideRelation::Reflexive)
                    }
                    (true, true) | (false, false) => {
                        self.compares(left, right, SideRelation::Strict)
                    }
                }
            }
            Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.is_nullable(inner),
            Expr::InList {
                expr,
                list,
                negated,
            } => {
                let is_in = *negated != holds;
                let relation = SideRelation::Reflexive.if_it(is_in);
                self.compares_with(expr, list, relation, is_in)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let is_between = *negated != holds;
                let relation = SideRelation::Reflexive.if_it(is_between);
                let low = self.compares(expr, low, relation);
                let high = self.compares(expr, high, relation);
                if is_between { low || high } else { low && high }
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let relation = SideRelation::Reflexive.if_it(*negated != holds);
                let one = self.side(expr);
                self.compares_query(&one, subquery, relation)
            }
            Expr::Exists {
                subquery,
                negated: _,
            } => self.query_narrows(subquery),
            Expr::Like {
                negated: _,
                any: _,
                expr,
                pattern,
                escape_char: _,
            }
            | Expr::ILike {
                negated: _,
                any: _,
                expr,
                pattern,
                escape_char: _,
            }
            | Expr::SimilarTo {
                negated: _,
                expr,
                pattern,
                escape_char: _,
            } => {
                let is_any = text(pattern).is_some_and(|text| is_only(text, '%'));
                !is_any && self.compares(expr, pattern, SideRelation::Strict)
            }
            Expr::RLike {
                negated: _,
                expr,
                pattern,
                regexp: _,
            } => {
                let is_any = text(pattern).is_some_and(is_any_regex);
                !is_any && self.compares(expr, pattern, SideRelation::Strict)
            }
            Expr::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            } => self.compares_quantified(left, compare_op, right, holds, holds),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.compares_quantified(left, compare_op, right, holds, !holds),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                self.chooses(operand.as_deref(), conditions, else_result.as_deref())
                    || self.all_arms(conditions, else_result.as_deref(), |rows, arm| {
                        rows.narrows(arm, holds)
                    })
            }
            other => self.varies(other),
        }
    }

    /// Whether each of these, of which one holds, says something, and none of them the contrary of another.
    fn each_of(&mut self, parts: &[&Expr], holds: bool) -> bool {
        let mut atoms = BTreeSet::new();
        for part in parts {
            if !self.narrows(part, holds) {
                return false;
            }
            let core = self.core(part, holds);
            let (atom, positive) = self.atom(core.0, core.1);
            if !self.is_known(&atom) {
                continue;
            }
            if atoms.contains(&(atom.clone(), !positive)) {
                return false;
            }
            atoms.insert((atom, positive));
        }
        true
    }

    /// What of `expr` says something, where one part of it alone does.
    fn core<'e>(&mut self, expr: &'e Expr, holds: bool) -> (&'e Expr, bool) {
        match expr {
            Expr::Nested(inner) => self.core(inner, holds),
            Expr::UnaryOp {
                op: UnaryOperator::Not | UnaryOperator::BangNot,
                expr,
            } => self.core(expr, !holds),
            Expr::BinaryOp {
                left: _,
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                right: _,
            } if (*op == BinaryOperator::And) == holds => {
                let mut parts = Vec::new();
                collect(expr, op, &mut parts);
                let mut saying = parts.into_iter().filter(|part| self.narrows(part, holds));
                match (saying.next(), saying.next()) {
                    (Some(only), None) => {
                        drop(saying);
                        self.core(only, holds)
                    }
                    (None, _) | (Some(_), Some(_)) => (expr, holds),
                }
            }
            other => (other, holds),
        }
    }

    /// Whether what is asked is the same for all statements of a shape: in a query literals are open under OR as well.
    fn is_known(&self, atom: &str) -> bool {
        self.is_change() || atom.ends_with(NULL)
    }

    /// The columns that a side may be, but for constants that are added or written behind it.
    fn essences(&self, expr: &Expr) -> Vec<rows::RowColumn> {
        if let Some(inner) = essence(expr) {
            return self.essences(inner);
        }
        let mut all = match expr {
            Expr::Function(function) if FIRST_OF.contains(&&*self.name_of(function)) => {
                arguments(function)
            }
            _ => None,
        }
        .unwrap_or_default();
        all.retain(|one| !is_constant(one));
        let of_arguments = all.into_iter().flat_map(|one| self.essences(one));
        self.column(expr).into_iter().chain(of_arguments).collect()
    }
}
