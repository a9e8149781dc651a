//! Whether a join of MySQL's chooses rows of the target as a condition would.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins, visit_expressions,
};

use super::{Resolver, from::reference_index, write::Target};
use crate::catalog::{ColumnId, RelationId};

/// Which rows of a table a join leaves out.
enum Kind {
    /// Those that meet none of the other side.
    Inner,
    /// None of one side, so that a condition on the other may leave out those that meet one, or none.
    Outer,
    /// What is not known.
    Other,
}

impl Resolver<'_> {
    /// Whether rows of the target are chosen by what they meet: an inner join with a condition on its columns does that as a
    /// WHERE would, and an outer one where the statement's condition, which reads `read`, looks at what it joins.
    pub(super) fn is_joined(
        &self,
        tables: &[TableWithJoins],
        target: &Target,
        read: &[ColumnId],
    ) -> bool {
        tables.iter().any(|TableWithJoins { relation, joins }| {
            let mut before = vec![relation];
            joins.iter().any(|join| {
                let Join {
                    relation,
                    global: _,
                    join_operator,
                } = join;
                let (kind, constraint) = parts(join_operator);
                let is_linked = constraint.is_some_and(|on| self.links(on, target));
                let others = before.iter().copied().chain([relation]);
                let mut others = others.map(|table| self.joined_relation(table));
                let chooses = is_linked
                    && match kind {
                        Kind::Inner => true,
                        Kind::Outer => others.any(|other| {
                            let is_of = |id: &ColumnId| other.is_none_or(|o| id.relation == o);
                            let is_other = |id: &ColumnId| id.relation != target.relation;
                            read.iter().any(|id| is_other(id) && is_of(id))
                        }),
                        Kind::Other => false,
                    };
                before.push(relation);
                chooses
            })
        })
    }

    /// Whether what a join demands is about the target.
    fn links(&self, constraint: &JoinConstraint, target: &Target) -> bool {
        match constraint {
            JoinConstraint::On(condition) => self.names_target(condition, target),
            JoinConstraint::Using(_) | JoinConstraint::Natural => !target.merged.is_empty(),
            JoinConstraint::None => false,
        }
    }

    fn names_target(&self, condition: &Expr, target: &Target) -> bool {
        let own = self.table_key(&target.qualifier);
        let found = visit_expressions(condition, |expr| match expr {
            Expr::CompoundIdentifier(parts) if matches!(parts.as_slice(), [qualifier, _] if self.table_key(qualifier) == own) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// The relation of the catalog that stands there by itself; none where that is something else.
    fn joined_relation(&self, factor: &TableFactor) -> Option<RelationId> {
        match factor {
            TableFactor::Table {
                name,
                alias: _,
                args: None,
                with_hints: _,
                version: _,
                with_ordinality: _,
                partitions: _,
                json_path: _,
                sample: _,
                index_hints: _,
            } => {
                let reference = self.references.get(reference_index(name)?)?;
                Some(reference.relation)
            }
            _ => None,
        }
    }
}

fn parts(operator: &JoinOperator) -> (Kind, Option<&JoinConstraint>) {
    match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::StraightJoin(on) => {
            (Kind::Inner, Some(on))
        }
        JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on) => (Kind::Outer, Some(on)),
        JoinOperator::FullOuter(_)
        | JoinOperator::CrossJoin(_)
        | JoinOperator::Semi(_)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::RightSemi(_)
        | JoinOperator::Anti(_)
        | JoinOperator::LeftAnti(_)
        | JoinOperator::RightAnti(_)
        | JoinOperator::CrossApply
        | JoinOperator::OuterApply
        | JoinOperator::AsOf {
            match_condition: _,
            constraint: _,
        }
        | JoinOperator::ArrayJoin
        | JoinOperator::LeftArrayJoin
        | JoinOperator::InnerArrayJoin => (Kind::Other, None),
    }
}
