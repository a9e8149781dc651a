//! Other tables beside what a change is of: what of them can see its target before the statement's own condition does.
//!
//! On PostgreSQL and SQLite nothing there sees the target: they refuse a condition of a join that names it. (SQLite has a lone
//! table function see it, which runs below the target, whose rows the write filter has let through by then.)

use sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    TableFactor, TableWithJoins,
};
use std::{collections::BTreeSet, ops::ControlFlow};

use crate::resolve::{
    Resolver,
    change::{
        Target,
        write_filter::{Conjunct, conjuncts},
    },
    not_as_decided,
    scope::{Found, Scope},
};
use crate::{
    catalog::Relation,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{Role, each_expr, name_parts, role},
};

/// What stands in FROM where the target is in sight.
pub(crate) enum Seeing<'t> {
    /// The condition of a join.
    On(&'t mut Expr),
    /// Columns that a join merges.
    Using(&'t [ObjectName]),
    /// All columns of a name.
    Natural,
    /// Rows that are made from those of other tables.
    Computed,
}

/// What of the `tables` of a change sees its target on MySQL, in the order in which it stands.
pub(crate) fn joins_that_see<'t>(
    tables: &'t mut [TableWithJoins],
    is_target: &dyn Fn(&TableFactor) -> bool,
) -> Vec<Seeing<'t>> {
    let mut out = Vec::new();
    // What stands before a comma is out of sight for conditions, and not for what is computed.
    for table in tables {
        collect_joins(table, is_target, &mut out);
    }
    out
}

/// Whether the target is among the tables.
fn collect_joins<'t>(
    table: &'t mut TableWithJoins,
    is_target: &dyn Fn(&TableFactor) -> bool,
    out: &mut Vec<Seeing<'t>>,
) -> bool {
    let TableWithJoins { relation, joins } = table;
    let mut in_sight = factor(relation, is_target, out);
    for join in joins {
        let Join {
            relation,
            global: _,
            join_operator,
        } = join;
        in_sight |= factor(relation, is_target, out);
        if !in_sight {
            continue;
        }
        match join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::StraightJoin(constraint) => match constraint {
                JoinConstraint::On(condition) => out.push(Seeing::On(condition)),
                JoinConstraint::Using(columns) => out.push(Seeing::Using(columns)),
                JoinConstraint::Natural => out.push(Seeing::Natural),
                JoinConstraint::None => {}
            },
            JoinOperator::Semi(_)
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
            | JoinOperator::InnerArrayJoin => out.push(Seeing::Computed),
        }
    }
    in_sight
}

fn factor<'t>(
    factor: &'t mut TableFactor,
    is_target: &dyn Fn(&TableFactor) -> bool,
    out: &mut Vec<Seeing<'t>>,
) -> bool {
    if is_target(factor) {
        return true;
    }
    if let TableFactor::NestedJoin {
        table_with_joins,
        alias: _,
    } = factor
    {
        return collect_joins(table_with_joins, is_target, out);
    }
    let stands_alone = matches!(
        factor,
        TableFactor::Table {
            name: _,
            alias: _,
            args: None,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } | TableFactor::Derived {
            lateral: false,
            subquery: _,
            alias: _,
            sample: _,
        } | TableFactor::JsonTable {
            json_expr: Expr::Value(_),
            json_path: _,
            columns: _,
            alias: _,
        }
    );
    if !stands_alone {
        out.push(Seeing::Computed);
    }
    false
}

impl<'a> Resolver<'a> {
    /// Takes the write filter off the conditions of joins, where this is our own output.
    pub(in crate::resolve) fn strip_join_filters(
        &self,
        tables: &mut [TableWithJoins],
        key: Option<&str>,
    ) -> Result<(), Rejection> {
        let Some(write_filter) = self.write_filter() else {
            return Ok(());
        };
        if write_filter.joins() == 0 {
            return Ok(());
        }
        let is_target =
            |factor: &TableFactor| key.is_some() && self.factor_key(factor).as_deref() == key;
        let mut count = 0;
        for seeing in joins_that_see(tables, &is_target) {
            if let Seeing::On(condition) = seeing {
                count += 1;
                let own = write_filter.extract_own(condition.clone(), count);
                *condition = own
                    .ok()
                    .flatten()
                    .ok_or_else(|| not_as_decided("the write filter of a join is missing"))?;
            }
        }
        if count != write_filter.joins() {
            return Err(not_as_decided("a join has no write filter"));
        }
        Ok(())
    }

    /// Takes the conditions of a change apart, for where the statement needs a fence.
    pub(in crate::resolve) fn take_apart(
        &self,
        target: &mut Target,
        selection: Option<&Expr>,
        tables: &mut [TableWithJoins],
        relation: &Relation,
        scope: &Scope<'a, '_>,
    ) {
        if self.mode.is_output() {
            return;
        }
        let parts = |condition: &Expr| self.parts(condition, relation, scope);
        target.conditions = vec![selection.map(parts).unwrap_or_default()];
        match self.catalog.dialect() {
            Dialect::Mysql => {}
            Dialect::Sqlite | Dialect::Postgres => return,
        }
        let key = self.table_key(&target.qualifier);
        let is_target = |factor: &TableFactor| self.factor_key(factor).as_deref() == Some(&*key);
        for seeing in joins_that_see(tables, &is_target) {
            match seeing {
                Seeing::On(condition) => target.conditions.push(parts(condition)),
                Seeing::Using(columns) => {
                    for column in columns {
                        if let Some(ObjectNamePart::Identifier(name)) = column.0.last() {
                            target.merged.extend(relation.position(&self.key(name)));
                        }
                    }
                }
                Seeing::Natural => {
                    target.in_the_open =
                        Some("NATURAL JOIN compares any of its columns: name them with ON");
                }
                Seeing::Computed => {
                    target.in_the_open =
                        Some("a table that is computed from other tables could look at them");
                }
            }
        }
    }

    /// The conjuncts of a condition.
    pub(in crate::resolve) fn parts(
        &self,
        condition: &Expr,
        relation: &Relation,
        scope: &Scope<'a, '_>,
    ) -> Vec<Conjunct> {
        if !self.groups_as_parsed(condition) {
            return vec![None];
        }
        let part = |part: &Expr| {
            self.is_leakproof(part, scope).then(|| {
                let mut named = BTreeSet::new();
                let _ = each_expr(part, &mut |expr| {
                    let (qualifier, name) = match name_parts(expr) {
                        [name] => (None, name),
                        [qualifier, name] => (Some(self.table_key(qualifier)), name),
                        [] | [_, _, _, ..] => return ControlFlow::Continue(()),
                    };
                    if let Found::Column(origin, _) =
                        scope.find(qualifier.as_deref(), &self.key(name))
                    {
                        let columns = origin.columns().iter();
                        let own = columns.filter(|column| column.relation == relation.id);
                        named.extend(own.map(|column| column.index));
                    }
                    ControlFlow::Continue(())
                });
                named
            })
        };
        conjuncts(condition).into_iter().map(part).collect()
    }

    /// Whether MySQL groups a condition as the parser does: every operator in it binds at least as strongly as AND to both, or is OR.
    /// MySQL reads `||` as OR, and XOR and `:=` bind less than AND there.
    pub(in crate::resolve) fn groups_as_parsed(&self, condition: &Expr) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Postgres => return true,
            Dialect::Mysql => {}
        }
        let other = each_expr(condition, &mut |expr| match role(expr) {
            Role::Operator(op) if !binds_as_parsed(op) => ControlFlow::Break(()),
            // Only an operator between two sides can take a part of a neighbour.
            Role::Operator(_)
            | Role::Name(_)
            | Role::Path(_)
            | Role::WholeRow(_)
            | Role::Star
            | Role::Columns(_)
            | Role::Value(_)
            | Role::Access
            | Role::Call(_)
            | Role::Collation
            | Role::Other => ControlFlow::Continue(()),
        });
        other.is_continue()
    }
}

/// Whether an operator binds alike for MySQL and for the parser.
fn binds_as_parsed(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::And
            | BinaryOperator::Or
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship
            | BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::MyIntegerDivide
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::BitwiseXor
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
            | BinaryOperator::Regexp
            | BinaryOperator::Match
            | BinaryOperator::Arrow
            | BinaryOperator::LongArrow
    )
}
