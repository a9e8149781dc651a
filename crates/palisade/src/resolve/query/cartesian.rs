//! Tables combined without a condition between them: each multiplies the rows that the engine
//! looks at, and no LIMIT above an aggregate bounds that.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr};

use crate::resolve::{Resolver, scope::Scope};
use crate::{
    code::Code,
    rejection::Rejection,
    syntax::{each_expr, name_parts},
};

/// Which sources of a SELECT are tied to which by conditions.
#[derive(Default)]
pub(in crate::resolve) struct Links {
    /// For each source's position one of a source that it is tied to, never a later one; those beyond the
    /// end are tied to nothing.
    earlier: Vec<usize>,
}

impl Links {
    /// Ties two sources together.
    pub(in crate::resolve) fn tie(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        let (first, later) = (one.min(other), one.max(other));
        if first != later {
            let known = self.earlier.len();
            self.earlier.extend(known..=later);
            if let Some(earlier) = self.earlier.get_mut(later) {
                *earlier = first;
            }
        }
    }

    /// The first of the sources that are tied to the one at `position`.
    fn first(&self, mut position: usize) -> usize {
        while let Some(earlier) = self.earlier.get(position) {
            if *earlier == position {
                break;
            }
            position = *earlier;
        }
        position
    }

    /// How many of so many sources are tied to none before them.
    fn groups(&self, sources: usize) -> usize {
        (0..sources)
            .filter(|position| self.earlier.get(*position).is_none_or(|e| e == position))
            .count()
    }
}

impl<'a> Resolver<'a> {
    /// Ties the sources that each part of a condition names.
    pub(in crate::resolve) fn tie(&self, condition: &Expr, scope: &mut Scope<'a, '_>) {
        // One table has nothing to be tied to.
        if scope.sources.len() < 2 || self.mode.is_output() {
            return;
        }
        match condition {
            Expr::Nested(inner) => self.tie(inner, scope),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => {
                self.tie(left, scope);
                self.tie(right, scope);
            }
            other => {
                let mut links = std::mem::take(&mut scope.links);
                self.tie_named(other, scope, &mut links);
                scope.links = links;
            }
        }
    }

    /// Ties this query's sources that names in `expr` can mean. Measuring only: what is missed makes the
    /// answer a refusal too many, not a leak.
    fn tie_named(&self, expr: &Expr, scope: &Scope<'a, '_>, links: &mut Links) {
        let mut named = None;
        let _ = each_expr(expr, &mut |expr| {
            let (qualifier, name) = match name_parts(expr) {
                [name] => (None, name),
                [qualifier, name] => (Some(self.table_key(qualifier)), name),
                [] | [_, _, _, ..] => return ControlFlow::Continue(()),
            };
            let key = self.key(name);
            for position in scope.positions(qualifier.as_deref(), &key) {
                links.tie(*named.get_or_insert(position), position);
            }
            ControlFlow::Continue(())
        });
    }

    /// Refuses more groups of untied sources than the limit.
    pub(in crate::resolve) fn bound_product(
        &mut self,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if self.mode.is_output() {
            return Ok(());
        }
        let groups = scope.links.groups(scope.sources.len());
        self.shape.unjoined = self.shape.unjoined.max(groups.saturating_sub(1));
        if groups > self.limits.max_unjoined {
            return Err(Rejection::new(
                Code::LimitCost,
                format!(
                    "{groups} tables are combined without a condition between them; the limit is {}",
                    self.limits.max_unjoined
                ),
            ));
        }
        Ok(())
    }
}
