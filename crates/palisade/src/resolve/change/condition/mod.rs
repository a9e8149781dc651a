//! Whether the condition of a change says anything of the rows that it changes.
//!
//! A condition is one where a conjunct that has to hold for every changed row compares a column of the target with something else
//! than that column. Constants, a column beside itself, and conditions on other tables alone are none. An OR is one where each arm
//! is, and no arm is another's contrary. What the data are like is nobody's knowledge here: `id > 0` names a condition.
//!
//! No value is looked at that a shape leaves open (`syntax/shape.rs`), so that the answer holds for all statements of a shape.

pub(in crate::resolve) mod rows;

use std::collections::BTreeSet;

use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Query, Select, SelectItem, SetExpr, SetOperator,
    UnaryOperator, Value,
};

pub(in crate::resolve) use rows::Rows;

/// Calls that give the first of their arguments that is not NULL.
const FIRST_OF: [&str; 3] = ["coalesce", "ifnull", "nvl"];

/// Calls that say the same of every row: what a column's type is.
const OF_TYPES: [&str; 1] = ["pg_typeof"];

/// What ends the question whether something is NULL.
const NULL: &str = " null";

/// How two sides are compared, where the comparison has to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// What is the same on both sides holds: `=`, `<=`, `>=`.
    Reflexive,
    /// It does not: `<>`, `<`, `>`.
    Strict,
}

impl Relation {
    fn of(op: &BinaryOperator) -> Option<Self> {
        match op {
            BinaryOperator::Eq
            | BinaryOperator::LtEq
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship => Some(Self::Reflexive),
            BinaryOperator::NotEq | BinaryOperator::Lt | BinaryOperator::Gt => Some(Self::Strict),
            _ => None,
        }
    }

    fn if_it(self, holds: bool) -> Self {
        match (self, holds) {
            (relation, true) => relation,
            (Self::Reflexive, false) => Self::Strict,
            (Self::Strict, false) => Self::Reflexive,
        }
    }
}

/// A side of a comparison, looked at once.
struct Side<'e> {
    expr: &'e Expr,
    text: String,
    /// The columns that it may be.
    essences: Vec<rows::Named>,
    varies: bool,
}

impl Rows<'_, '_> {
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
        let asked = self.asked(expr, holds);
        if let Some(known) = self.known(asked) {
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
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Xor,
                right,
            } => {
                let both = |rows: &mut Self, side: &Expr| {
                    rows.narrows(side, true) && rows.narrows(side, false)
                };
                let (one, other) = (self.atom(left, true).0, self.atom(right, true).0);
                !(one == other && self.is_known(&one)) && (both(self, left) || both(self, right))
            }
            Expr::BinaryOp { left, op, right } => match Relation::of(op) {
                Some(relation) => match (is_null(left), is_null(right)) {
                    (false, true) if *op == BinaryOperator::Spaceship => self.is_nullable(left),
                    (true, false) if *op == BinaryOperator::Spaceship => self.is_nullable(right),
                    (true | false, true | false) => {
                        self.compares(left, right, relation.if_it(holds))
                    }
                },
                None if matches_text(op) => {
                    !is_any_pattern(op, right) && self.compares(left, right, Relation::Strict)
                }
                None => self.varies(expr),
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                let is_same = matches!(expr, Expr::IsNotDistinctFrom(_, _)) == holds;
                match (is_null(left), is_null(right)) {
                    (false, true) => self.is_nullable(left),
                    (true, false) => self.is_nullable(right),
                    (true, true) | (false, false) if is_same => {
                        self.compares(left, right, Relation::Reflexive)
                    }
                    (true, true) | (false, false) => self.compares(left, right, Relation::Strict),
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
                let relation = Relation::Reflexive.if_it(is_in);
                self.compares_with(expr, list, relation, is_in)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let is_between = *negated != holds;
                let relation = Relation::Reflexive.if_it(is_between);
                let low = self.compares(expr, low, relation);
                let high = self.compares(expr, high, relation);
                if is_between { low || high } else { low && high }
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let relation = Relation::Reflexive.if_it(*negated != holds);
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
                !is_any && self.compares(expr, pattern, Relation::Strict)
            }
            Expr::RLike {
                negated: _,
                expr,
                pattern,
                regexp: _,
            } => {
                let is_any = text(pattern).is_some_and(is_any_regex);
                !is_any && self.compares(expr, pattern, Relation::Strict)
            }
            Expr::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            } => self.quantified(left, compare_op, right, holds, holds),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, holds, !holds),
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

    /// What is asked, and whether it is asked that it holds: contraries ask the same. NULL is left out of account.
    fn atom(&self, expr: &Expr, holds: bool) -> (String, bool) {
        let two = |left: &Expr, word: &str, right: &Expr| {
            format!("{} {word} {}", self.spelled(left), self.spelled(right))
        };
        let either = |left: &Expr, right: &Expr| {
            let (one, other) = (self.spelled(left), self.spelled(right));
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
                (format!("{}{NULL}", self.spelled(inner)), holds)
            }
            Expr::IsNotNull(inner) | Expr::IsNotUnknown(inner) => {
                (format!("{}{NULL}", self.spelled(inner)), !holds)
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
                compared.unwrap_or_else(|| (self.spelled(expr), holds))
            }
            Expr::InList {
                expr: one,
                list,
                negated,
            } => {
                let list: Vec<String> = list.iter().map(|item| self.spelled(item)).collect();
                let all = format!("{} in {}", self.spelled(one), list.join(", "));
                (all, *negated != holds)
            }
            Expr::InSubquery {
                expr: one,
                subquery,
                negated,
            } => {
                let all = format!("{} in {subquery}", self.spelled(one));
                (all, *negated != holds)
            }
            Expr::Exists { subquery, negated } => (subquery.to_string(), *negated != holds),
            Expr::Between {
                expr: one,
                negated,
                low,
                high,
            } => {
                let (low, high) = (self.spelled(low), self.spelled(high));
                let all = format!("{} between {low} {high}", self.spelled(one));
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
            other => (self.spelled(other), holds),
        }
    }

    /// A side of a comparison.
    fn side<'e>(&mut self, expr: &'e Expr) -> Side<'e> {
        let expr = bare(expr);
        Side {
            expr,
            text: self.spelled(expr),
            essences: self.essences(expr),
            varies: self.varies(expr),
        }
    }

    /// Whether what two sides are to each other says something of the target's row.
    fn compares(&mut self, left: &Expr, right: &Expr, relation: Relation) -> bool {
        let left = self.side(left);
        self.compares_side(&left, right, relation)
    }

    fn compares_side(&mut self, left: &Side<'_>, right: &Expr, relation: Relation) -> bool {
        let right = bare(right);
        if is_null(left.expr) || is_null(right) {
            return false;
        }
        if is_constant(right) {
            return left.varies;
        }
        if let (Expr::Tuple(ones), Expr::Tuple(others)) = (left.expr, right)
            && ones.len() == others.len()
        {
            let mut pairs = ones.iter().zip(others);
            return match relation {
                Relation::Reflexive => {
                    pairs.any(|(one, other)| self.compares(one, other, relation))
                }
                Relation::Strict => pairs.all(|(one, other)| self.compares(one, other, relation)),
            };
        }
        if let Expr::Subquery(query) = right {
            return self.compares_query(left, query, relation);
        }
        if let Expr::Subquery(query) = left.expr {
            let right = self.side(right);
            return self.compares_query(&right, query, relation);
        }
        let right = self.side(right);
        if left.text == right.text || self.is_same(left, &right, relation) {
            return false;
        }
        left.varies || right.varies
    }

    /// Whether two sides may be one column, but for constants that are added; notes the row of another source that is the target's.
    fn is_same(&mut self, left: &Side<'_>, right: &Side<'_>, relation: Relation) -> bool {
        for one in &left.essences {
            for other in &right.essences {
                if one.source == other.source && one.key == other.key {
                    return true;
                }
                let is_one_column = one.id.is_some() && one.id == other.id;
                if !(is_one_column && relation == Relation::Reflexive) {
                    continue;
                }
                match (self.is_linked(one.source), self.is_linked(other.source)) {
                    (true, true) => return true,
                    (true, false) => {
                        self.link(other.source);
                        return true;
                    }
                    (false, true) => {
                        self.link(one.source);
                        return true;
                    }
                    (false, false) => {}
                }
            }
        }
        false
    }

    /// Whether a comparison with each of several says something; of one of them, where that suffices.
    fn compares_with(
        &mut self,
        one: &Expr,
        others: &[Expr],
        relation: Relation,
        every: bool,
    ) -> bool {
        let one = self.side(one);
        let mut compares = |other: &Expr| self.compares_side(&one, other, relation);
        match others {
            [] => false,
            [_, ..] if every => others.iter().all(&mut compares),
            [_, ..] => others.iter().any(&mut compares),
        }
    }

    fn quantified(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        holds: bool,
        every: bool,
    ) -> bool {
        let relation = Relation::of(op).map_or(Relation::Strict, |relation| relation.if_it(holds));
        match bare(right) {
            Expr::Array(Array { elem, named: _ }) => {
                self.compares_with(left, elem, relation, every)
            }
            right => self.compares(left, right, relation),
        }
    }

    /// Whether a comparison with what a query gives says something of the target's row.
    fn compares_query(&mut self, one: &Side<'_>, query: &Query, relation: Relation) -> bool {
        let Some((select, item)) = only_item(query) else {
            return one.varies || self.query_narrows(query);
        };
        let depth = self.enter(&select.from);
        let linked = self.linked_count();
        let mut says = self.compares_side(one, item, relation);
        if !says && self.linked_count() > linked {
            // It gives the target's own rows: those that it leaves out.
            let is_cut = query.limit_clause.is_some() || query.fetch.is_some();
            says = is_cut || select.having.is_some();
        }
        says = says || self.select_narrows(select);
        self.leave(depth);
        says
    }

    /// Whether a query has rows, or which, hangs on the target's row.
    fn query_narrows(&mut self, query: &Query) -> bool {
        self.body_narrows(&query.body)
    }

    fn body_narrows(&mut self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                // One row, whatever there is.
                let is_one = select.having.is_none()
                    && !rows::is_grouped(select)
                    && select.projection.iter().any(|item| self.is_aggregate(item));
                if is_one {
                    return false;
                }
                let depth = self.enter(&select.from);
                let says = self.select_narrows(select);
                self.leave(depth);
                says
            }
            SetExpr::Query(query) => self.query_narrows(query),
            SetExpr::SetOperation {
                op,
                set_quantifier: _,
                left,
                right,
            } => match op {
                SetOperator::Union => self.body_narrows(left) && self.body_narrows(right),
                SetOperator::Intersect | SetOperator::Except | SetOperator::Minus => {
                    self.body_narrows(left) || self.body_narrows(right)
                }
            },
            SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => false,
        }
    }

    /// Whether which rows a SELECT takes hangs on the target's row; its sources are in sight.
    fn select_narrows(&mut self, select: &Select) -> bool {
        let before = self.linked_count();
        let mut conjuncts: Vec<&Expr> = select.selection.iter().collect();
        let mut derived = Vec::new();
        rows::inner_conditions(&select.from, &mut conjuncts, &mut derived);
        conjuncts.extend(&select.having);
        if self.any_narrows(&conjuncts) {
            return true;
        }
        // How many of the target's own kind there are.
        let counts = select
            .having
            .as_ref()
            .is_some_and(|having| self.has_aggregate(having));
        (counts && self.linked_count() > before)
            || derived.into_iter().any(|query| self.query_narrows(query))
    }

    /// Whether the value of `expr` may be another for another row of the target.
    fn varies(&mut self, expr: &Expr) -> bool {
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
                ) || Relation::of(op).is_some()
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
    fn cancels(&self, left: &Expr, op: &BinaryOperator, right: &Expr) -> bool {
        match op {
            BinaryOperator::Minus
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::MyIntegerDivide
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::BitwiseXor => self.spelled(left) == self.spelled(right),
            BinaryOperator::Multiply | BinaryOperator::BitwiseAnd => {
                is_number(left, "0") || is_number(right, "0")
            }
            _ => false,
        }
    }

    fn call_varies(&mut self, function: &Function) -> bool {
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
                    self.spelled(one) != self.spelled(other)
                        && (self.varies(one) || self.varies(other))
                }
                _ => false,
            },
            Some(arguments) => arguments.into_iter().any(|one| self.varies(one)),
            None => self.names_target(&Expr::Function(function.clone())),
        }
    }

    /// Whether what a CASE gives is chosen by the target's row: each choice hangs on it, and not all of them are the same.
    fn chooses(
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
                 }| self.spelled(result),
            )
            .collect();
        results.insert(otherwise.map_or_else(|| "NULL".to_owned(), |e| self.spelled(e)));
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
                        self.compares_side(&operand, condition, Relation::Strict)
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

    fn all_arms(
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
    fn is_nullable(&mut self, expr: &Expr) -> bool {
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
                if Relation::of(op).is_some()
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

    /// The columns that a side may be, but for constants that are added or written behind it.
    fn essences(&self, expr: &Expr) -> Vec<rows::Named> {
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

/// What is left of a side without a constant that is added to it.
fn essence(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => Some(inner),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::Plus | BinaryOperator::StringConcat if is_constant(left) => Some(right),
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::StringConcat
                if is_constant(right) =>
            {
                Some(left)
            }
            BinaryOperator::Multiply | BinaryOperator::Divide if is_number(right, "1") => {
                Some(left)
            }
            BinaryOperator::Multiply if is_number(left, "1") => Some(right),
            _ => None,
        },
        _ => None,
    }
}

/// The parts that `op` puts together.
fn collect<'e>(expr: &'e Expr, op: &BinaryOperator, out: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Nested(inner) => collect(inner, op, out),
        Expr::BinaryOp {
            left,
            op: own,
            right,
        } if own == op => {
            collect(left, op, out);
            collect(right, op, out);
        }
        other => out.push(other),
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

fn is_null(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(value) => matches!(value.value, Value::Null),
        Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => is_null(expr),
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { op: _, expr }
        | Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => is_constant(expr),
        _ => false,
    }
}

fn is_number(expr: &Expr, number: &str) -> bool {
    matches!(bare(expr), Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if text == number))
}

fn text(expr: &Expr) -> Option<&str> {
    match bare(expr) {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn is_only(text: &str, sign: char) -> bool {
    !text.is_empty() && text.chars().all(|c| c == sign)
}

fn is_any_regex(text: &str) -> bool {
    let inner = text.strip_prefix('^').unwrap_or(text);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    inner == ".*" || (inner.is_empty() && text.len() < 2)
}

fn matches_text(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Match
            | BinaryOperator::Regexp
            | BinaryOperator::Glob
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
            | BinaryOperator::PGLikeMatch
            | BinaryOperator::PGILikeMatch
            | BinaryOperator::PGNotLikeMatch
            | BinaryOperator::PGNotILikeMatch
    )
}

/// Whether every text is like this.
fn is_any_pattern(op: &BinaryOperator, pattern: &Expr) -> bool {
    let Some(text) = text(pattern) else {
        return false;
    };
    match op {
        BinaryOperator::Glob => is_only(text, '*'),
        BinaryOperator::PGLikeMatch
        | BinaryOperator::PGILikeMatch
        | BinaryOperator::PGNotLikeMatch
        | BinaryOperator::PGNotILikeMatch => is_only(text, '%'),
        BinaryOperator::Match
        | BinaryOperator::Regexp
        | BinaryOperator::PGRegexMatch
        | BinaryOperator::PGRegexIMatch
        | BinaryOperator::PGRegexNotMatch
        | BinaryOperator::PGRegexNotIMatch => is_any_regex(text),
        _ => false,
    }
}

/// The arguments of a plain call.
fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: _,
        args,
        clauses,
    }) = &function.args
    else {
        return None;
    };
    if !clauses.is_empty() || function.over.is_some() || function.filter.is_some() {
        return None;
    }
    args.iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

/// The one value that a plain SELECT gives.
fn only_item(query: &Query) -> Option<(&Select, &Expr)> {
    match &*query.body {
        SetExpr::Query(query) => only_item(query),
        SetExpr::Select(select) => match select.projection.as_slice() {
            [
                SelectItem::UnnamedExpr(item)
                | SelectItem::ExprWithAlias {
                    expr: item,
                    alias: _,
                },
            ] => Some((select, item)),
            _ => None,
        },
        _ => None,
    }
}
