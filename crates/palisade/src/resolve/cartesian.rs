//! Tables combined without a condition between them (F10): each multiplies the rows that the engine
//! looks at, and no LIMIT above an aggregate bounds that.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{BinaryOperator, Expr, visit_expressions};

use super::{Resolver, scope::Scope};
use crate::{code::Code, rejection::Rejection};

/// Which sources of a SELECT are tied to which by conditions: sets of source positions.
#[derive(Default)]
pub(super) struct Links {
    sets: Vec<BTreeSet<usize>>,
}

impl Links {
    /// Ties `sources` together.
    pub(super) fn tie(&mut self, sources: BTreeSet<usize>) {
        let (touching, apart) = std::mem::take(&mut self.sets)
            .into_iter()
            .partition(|set| !set.is_disjoint(&sources));
        self.sets = apart;
        let touching: Vec<BTreeSet<usize>> = touching;
        self.sets
            .push(touching.into_iter().fold(sources, |mut all, set| {
                all.extend(set);
                all
            }));
    }

    fn groups(&self, sources: usize) -> usize {
        let tied: usize = self.sets.iter().map(BTreeSet::len).sum();
        self.sets.len() + sources.saturating_sub(tied)
    }
}

impl<'a> Resolver<'a> {
    /// Ties the sources that each part of a condition names.
    pub(super) fn tie(&self, condition: &Expr, scope: &mut Scope<'a, '_>) {
        // One table has nothing to be tied to.
        if scope.sources.len() < 2 {
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
                let named = self.named_in(other, scope);
                if !named.is_empty() {
                    scope.links.tie(named);
                }
            }
        }
    }

    /// The positions of this query's sources that names in `expr` can mean. Measuring only: what is missed
    /// makes the answer a refusal too many, not a leak.
    fn named_in(&self, expr: &Expr, scope: &Scope<'a, '_>) -> BTreeSet<usize> {
        let mut named = BTreeSet::new();
        let _ = visit_expressions(expr, |expr| {
            let (qualifier, name) = match expr {
                Expr::Identifier(name) => (None, name),
                Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                    [qualifier, name] => (Some(self.table_key(qualifier)), name),
                    _ => return ControlFlow::<()>::Continue(()),
                },
                _ => return ControlFlow::Continue(()),
            };
            let key = self.key(name);
            named.extend(scope.positions(qualifier.as_deref(), &key));
            ControlFlow::Continue(())
        });
        named
    }

    /// Refuses more groups of untied sources than the limit.
    pub(super) fn bound_product(&self, scope: &Scope<'a, '_>) -> Result<(), Rejection> {
        let groups = scope.links.groups(scope.sources.len());
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
