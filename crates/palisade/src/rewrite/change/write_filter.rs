//! The write filter around a change's own conditions: which one, how it stands there, and putting it there.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, Delete, DoUpdate, Expr, FromTable, OnConflict, OnConflictAction, OnInsert,
    SetExpr, Statement, TableFactor, TableWithJoins, Update,
};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter,
        write_filter_cache::{FilterKey, FilterParts, PrintedFilter},
    },
    refusal::not_as_decided,
    relation_source::{
        row_filter,
        row_filter::{ColumnSet, Qualifier},
    },
};
use crate::{
    catalog::Relation,
    code::Code,
    dialect::Dialect,
    policy::obligation::{Predicate, RowFilter},
    rejection::Rejection,
    resolve::{
        Conflict, Placement, Prefix, Seeing, TermPlacement, WriteFilter, WriteObligations,
        joins_that_see, reference_index,
    },
    syntax::{TableRole, table_role, visit_tree_mut},
};

impl ChangeRewriter<'_> {
    /// The write filter of rows that pass all of `filters`; none where all pass everything.
    pub(in crate::rewrite) fn build_write_filter(
        &self,
        filters: &[&RowFilter],
        relation: &Relation,
        qualified: bool,
        reads: &mut ColumnSet,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<WriteFilter>, Rejection> {
        let mut distinct: Vec<&RowFilter> = Vec::new();
        for filter in filters {
            if **filter != RowFilter::Everything && !distinct.contains(filter) {
                distinct.push(filter);
            }
        }
        if distinct.is_empty() {
            return Ok(None);
        }
        let (condition, mut looked) =
            match self.cached_write_filter(&distinct, relation, qualified)? {
                Some(condition) => {
                    functions.extend(condition.functions.iter().cloned());
                    let looked = condition.reads.clone();
                    let place = self
                        .conditions
                        .placeholder(condition, self.catalog.dialect());
                    (place, looked)
                }
                None => self.print_filters(&distinct, relation, qualified, functions)?,
            };
        let placement = self.placement(relation, &looked)?;
        reads.append(&mut looked);
        Ok(Some(WriteFilter {
            condition,
            placement,
        }))
    }

    /// The condition that all of `filters` hold, and the columns that it looks at.
    fn print_filters(
        &self,
        filters: &[&RowFilter],
        relation: &Relation,
        qualified: bool,
        functions: &mut BTreeSet<String>,
    ) -> Result<(Expr, ColumnSet), Rejection> {
        let mut conditions = Vec::with_capacity(filters.len());
        let mut looked = ColumnSet::new();
        for filter in filters {
            match filter {
                RowFilter::Everything => {}
                RowFilter::Nothing => conditions.push(ast::boolean(false)),
                RowFilter::Where(predicate) => {
                    row_filter::columns(predicate, &mut looked);
                    let condition =
                        row_filter::expression(predicate, relation, self.catalog, functions)?;
                    // Other policies may say the same in other words.
                    if !conditions.contains(&condition) {
                        conditions.push(condition);
                    }
                }
            }
        }
        let condition = ast::join_by(conditions, &BinaryOperator::And, true);
        Ok((self.qualify(condition, qualified), looked))
    }

    /// That condition as it is made once for a session, where `filters` say nothing of this statement.
    fn cached_write_filter(
        &self,
        filters: &[&RowFilter],
        relation: &Relation,
        qualified: bool,
    ) -> Result<Option<Arc<PrintedFilter>>, Rejection> {
        let seen = self.permit.relations().get(&relation.id);
        let Some(changed) = self.permit.writes().get(&relation.id) else {
            return Ok(None);
        };
        let mut of = FilterParts {
            seen: false,
            changed: false,
        };
        for filter in filters {
            if seen.is_some_and(|seen| seen.rows == **filter) {
                of.seen = true;
            } else if changed.change == **filter {
                of.changed = true;
            } else {
                return Ok(None);
            }
        }
        let qualifier = qualified.then_some(&self.target.qualifier);
        let key = FilterKey::new(relation.id, seen, changed, of, qualifier);
        if let Some(known) = self.known.write_filter(&key) {
            return Ok(Some(known));
        }
        let mut functions = BTreeSet::new();
        let (tree, reads) = self.print_filters(filters, relation, qualified, &mut functions)?;
        let dialect = self.catalog.dialect();
        let made = PrintedFilter::new(&tree, reads, functions, dialect, self.limits)?;
        if let Some(condition) = &made {
            self.known.keep_write_filter(key, condition, seen, changed);
        }
        Ok(made)
    }

    /// How a write filter that looks at these columns stands.
    pub(in crate::rewrite) fn placement(
        &self,
        relation: &Relation,
        looked: &ColumnSet,
    ) -> Result<Placement, Rejection> {
        if self.target.on_conflict == Conflict::Updates {
            return Ok(Placement::Around);
        }
        let mut all = self.target.conditions.iter().flatten();
        let may_fail = match (self.catalog.dialect(), self.target.joined) {
            // An outer join may keep a row of the target for later tables, whose own conditions may fail there.
            (Dialect::Mysql, true) => true,
            (Dialect::Mysql, false) | (Dialect::Sqlite | Dialect::Postgres, _) => {
                all.any(Option::is_none) || self.failing.by_plan
            }
        };
        if !(may_fail && self.failing.needs_fence) {
            return Ok(Placement::Beside);
        }
        let (prefix, opaque) = match (self.catalog.dialect(), self.target.joined) {
            (Dialect::Postgres, _) => (Prefix::Plain, false),
            (Dialect::Sqlite | Dialect::Mysql, false) => (Prefix::Nothing, true),
            (Dialect::Sqlite | Dialect::Mysql, true) => (Prefix::Opaque, true),
        };
        if let Some(why) = self.target.in_the_open {
            return Err(refuse_unprotected(relation, why));
        }
        if opaque && !self.target.merged.is_disjoint(looked) {
            return Err(refuse_unprotected(
                relation,
                "USING merges a column that the filter looks at: compare it with ON",
            ));
        }
        let stands = |named: &Option<BTreeSet<u16>>| match named {
            None => TermPlacement::Tried,
            // What stands beside the write filter is estimated by statistics: the plan would follow those of hidden rows, and decide
            // what fails elsewhere.
            Some(_) if self.failing.by_plan => TermPlacement::Tried,
            // An engine that learns a column's value beside the write filter would put it into the write filter.
            Some(named) if opaque && !named.is_disjoint(looked) => TermPlacement::Behind,
            Some(_) => TermPlacement::Beside,
        };
        let places = self.target.conditions.iter();
        Ok(Placement::Apart {
            prefix,
            places: places
                .map(|conjuncts| conjuncts.iter().map(stands).collect())
                .collect(),
        })
    }

    /// The condition of rows of the target that `predicate` is.
    pub(in crate::rewrite) fn qualified_condition(
        &self,
        predicate: &Predicate,
        relation: &Relation,
        qualified: bool,
        functions: &mut BTreeSet<String>,
    ) -> Result<Expr, Rejection> {
        let condition = row_filter::expression(predicate, relation, self.catalog, functions)?;
        Ok(self.qualify(condition, qualified))
    }

    /// A condition over the target, whose columns are told from those of other tables beside it.
    fn qualify(&self, mut condition: Expr, qualified: bool) -> Expr {
        if qualified {
            let _ = visit_tree_mut(
                &mut condition,
                &mut Qualifier {
                    qualifier: &self.target.qualifier,
                },
            );
        }
        condition
    }
}

/// Puts the obligations around a change of what `target` is among the references.
pub(in crate::rewrite) fn put_write_filters(
    change: &mut SetExpr,
    obligations: &WriteObligations,
    target: Option<usize>,
) -> Result<(), Rejection> {
    let WriteObligations {
        write_filter,
        admission,
    } = obligations;
    let misplaced = || not_as_decided("a change of another form");
    match change {
        SetExpr::Insert(Statement::Insert(insert)) => {
            if let Some(admission) = admission {
                let source = insert.source.take().ok_or_else(misplaced)?;
                insert.source = Some(admission.wrap(source));
            }
            if let Some(write_filter) = write_filter {
                let Some(OnInsert::OnConflict(OnConflict {
                    conflict_target: _,
                    action:
                        OnConflictAction::DoUpdate(DoUpdate {
                            assignments: _,
                            selection,
                        }),
                })) = &mut insert.on
                else {
                    return Err(misplaced());
                };
                *selection = Some(write_filter.wrap(selection.take(), 0));
            }
            Ok(())
        }
        SetExpr::Update(Statement::Update(update)) => {
            if let Some(write_filter) = write_filter {
                filter_update(update, write_filter, target)?;
            }
            Ok(())
        }
        SetExpr::Delete(Statement::Delete(Delete {
            delete_token: _,
            optimizer_hints: _,
            tables: _,
            from: FromTable::WithFromKeyword(tables),
            using: _,
            selection,
            returning: _,
            output: _,
            order_by: _,
            limit: _,
        })) => {
            if let Some(write_filter) = write_filter {
                filter_rows(tables, selection, write_filter, target)?;
            }
            Ok(())
        }
        SetExpr::Merge(_) if write_filter.is_none() && admission.is_none() => Ok(()),
        _ => Err(misplaced()),
    }
}

/// Puts the write filter around what an UPDATE says of its rows.
pub(in crate::rewrite) fn filter_update(
    update: &mut Update,
    write_filter: &WriteFilter,
    target: Option<usize>,
) -> Result<(), Rejection> {
    let tables = std::slice::from_mut(&mut update.table);
    filter_rows(tables, &mut update.selection, write_filter, target)
}

/// Puts the write filter around the condition of rows of `tables`.
pub(in crate::rewrite) fn filter_rows(
    tables: &mut [TableWithJoins],
    condition: &mut Option<Expr>,
    write_filter: &WriteFilter,
    target: Option<usize>,
) -> Result<(), Rejection> {
    *condition = Some(write_filter.wrap(condition.take(), 0));
    filter_joins(tables, write_filter, target)
}

fn filter_joins(
    tables: &mut [TableWithJoins],
    write_filter: &WriteFilter,
    target: Option<usize>,
) -> Result<(), Rejection> {
    if write_filter.joins() == 0 {
        return Ok(());
    }
    let is_target = |factor: &TableFactor| match table_role(factor) {
        TableRole::Named(name) => target.is_some() && reference_index(name) == target,
        TableRole::Called(_) | TableRole::Other => false,
    };
    let mut count = 0;
    for seeing in joins_that_see(tables, &is_target) {
        if let Seeing::On(condition) = seeing {
            count += 1;
            *condition = write_filter.wrap(Some(condition.clone()), count);
        }
    }
    if count == write_filter.joins() {
        Ok(())
    } else {
        Err(not_as_decided(
            "a join sees the target, and was not decided",
        ))
    }
}

fn refuse_unprotected(relation: &Relation, why: &str) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!("`{}` has a row filter, and {why}", relation.name),
    )
}
