//! Whether a join of MySQL's chooses rows of the target as a condition would.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableFactor,
    TableWithJoins, visit_expressions,
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
                before.push(relation);
                let is_linked = constraint.is_some_and(|on| self.links(on, target, &before));
                let mut others = before.iter().map(|table| self.joined_relation(table));
                is_linked
                    && match kind {
                        Kind::Inner => true,
                        Kind::Outer => others.any(|other| {
                            let is_of = |id: &ColumnId| other.is_none_or(|o| id.relation == o);
                            let is_other = |id: &ColumnId| id.relation != target.relation;
                            read.iter().any(|id| is_other(id) && is_of(id))
                        }),
                        Kind::Other => false,
                    }
            })
        })
    }

    /// Whether what a join of these tables demands is about the target.
    fn links(&self, constraint: &JoinConstraint, target: &Target, tables: &[&TableFactor]) -> bool {
        match constraint {
            JoinConstraint::On(condition) => self.names_target(condition, target),
            JoinConstraint::Using(columns) => {
                let relation = self.catalog.relation(target.relation);
                let is_own = |name: &ObjectName| match name.0.as_slice() {
                    [ObjectNamePart::Identifier(name)] => relation
                        .is_some_and(|relation| relation.position(&self.key(name)).is_some()),
                    [] | [_, ..] => false,
                };
                let mut tables = tables.iter();
                tables
                    .any(|table| target.reference.is_some() && reference(table) == target.reference)
                    && columns.iter().any(is_own)
            }
            JoinConstraint::Natural | JoinConstraint::None => false,
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
        let reference = self.references.get(reference(factor)?)?;
        Some(reference.relation)
    }
}

/// Which reference stands there by itself.
fn reference(factor: &TableFactor) -> Option<usize> {
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
        } => reference_index(name),
        _ => None,
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
