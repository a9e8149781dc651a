//! Comparisons in a condition: whether they narrow the rows.

use sqlparser::ast::{Array, BinaryOperator, Expr, Query};

use crate::resolve::change::condition::{
    TargetRows,
    rows::RowColumn,
    trivial::{bare, is_constant, is_null, only_item},
};

/// How two sides are compared, where the comparison has to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SideRelation {
    /// What is the same on both sides holds: `=`, `<=`, `>=`.
    Reflexive,
    /// It does not: `<>`, `<`, `>`.
    Strict,
}

impl SideRelation {
    pub(super) fn from_operator(op: &BinaryOperator) -> Option<Self> {
        match op {
            BinaryOperator::Eq
            | BinaryOperator::LtEq
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship => Some(Self::Reflexive),
            BinaryOperator::NotEq | BinaryOperator::Lt | BinaryOperator::Gt => Some(Self::Strict),
            _ => None,
        }
    }

    pub(super) fn if_it(self, holds: bool) -> Self {
        match (self, holds) {
            (relation, true) => relation,
            (Self::Reflexive, false) => Self::Strict,
            (Self::Strict, false) => Self::Reflexive,
        }
    }
}

/// A side of a comparison, looked at once.
pub(super) struct ComparedSide<'e> {
    expr: &'e Expr,
    text: String,
    /// The columns that it may be.
    essences: Vec<RowColumn>,
    varies: bool,
}

impl TargetRows<'_, '_> {
    /// A side of a comparison.
    pub(super) fn side<'e>(&mut self, expr: &'e Expr) -> ComparedSide<'e> {
        let expr = bare(expr);
        ComparedSide {
            expr,
            text: self.spell(expr),
            essences: self.essences(expr),
            varies: self.varies(expr),
        }
    }

    /// Whether what two sides are to each other says something of the target's row.
    pub(super) fn compares(&mut self, left: &Expr, right: &Expr, relation: SideRelation) -> bool {
        let left = self.side(left);
        self.compares_side(&left, right, relation)
    }

    pub(super) fn compares_side(
        &mut self,
        left: &ComparedSide<'_>,
        right: &Expr,
        relation: SideRelation,
    ) -> bool {
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
                SideRelation::Reflexive => {
                    pairs.any(|(one, other)| self.compares(one, other, relation))
                }
                SideRelation::Strict => {
                    pairs.all(|(one, other)| self.compares(one, other, relation))
                }
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
    pub(super) fn is_same(
        &mut self,
        left: &ComparedSide<'_>,
        right: &ComparedSide<'_>,
        relation: SideRelation,
    ) -> bool {
        for one in &left.essences {
            for other in &right.essences {
                if one.source == other.source && one.key == other.key {
                    return true;
                }
                let is_one_column = one.id.is_some() && one.id == other.id;
                if !(is_one_column && relation == SideRelation::Reflexive) {
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
    pub(super) fn compares_with(
        &mut self,
        one: &Expr,
        others: &[Expr],
        relation: SideRelation,
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

    pub(super) fn compares_quantified(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        holds: bool,
        every: bool,
    ) -> bool {
        let relation = SideRelation::from_operator(op)
            .map_or(SideRelation::Strict, |relation| relation.if_it(holds));
        match bare(right) {
            Expr::Array(Array { elem, named: _ }) => {
                self.compares_with(left, elem, relation, every)
            }
            right => self.compares(left, right, relation),
        }
    }

    /// Whether a comparison with what a query gives says something of the target's row.
    pub(super) fn compares_query(
        &mut self,
        one: &ComparedSide<'_>,
        query: &Query,
        relation: SideRelation,
    ) -> bool {
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
}
