//! UPDATE: what policy still has to say of rows once the values that are assigned are known.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{Assignment, AssignmentTarget};

use crate::rewrite::{
    change::{
        ChangeRewriter, RewrittenChange, disclosure,
        new_row::{
            converted::{StoredValue, fold_presence},
            fold,
            fold::{Folded, fold},
        },
        precheck::{Violation, ViolationQuery},
        refusal::{not_admitted, undecided_row},
    },
    relation_source::row_filter,
};
use crate::{
    catalog::{Change, Relation, computed_from},
    policy::{
        WriteDecision,
        obligation::{Predicate, RowFilter},
    },
    rejection::Rejection,
    resolve::is_default,
};

impl ChangeRewriter<'_> {
    /// What an UPDATE needs around it: the rows that it finds, those that it leaves, and those that hang on them, are within policy.
    pub(in crate::rewrite) fn rewrite_update(
        &self,
        assignments: &[Assignment],
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        functions: &mut BTreeSet<String>,
    ) -> Result<RewrittenChange, Rejection> {
        let mut rewritten = RewrittenChange::default();
        let row = self.assigned_values(assignments, Change::Update, relation);
        let changed = self.residual_check(&write.add, seen, &row, relation)?;
        let joined = self.target.joined;
        let reached = [seen, &write.change];
        let reads = &mut rewritten.reads;
        let within = self.build_write_filter(&reached, relation, joined, reads, functions)?;
        let filters = [seen, &write.change, &changed];
        rewritten.obligations.write_filter =
            self.build_write_filter(&filters, relation, joined, reads, functions)?;
        if let Some(rest) = not_entailed(&changed, &reached) {
            let admitted = self.qualified_condition(rest, relation, joined, functions)?;
            rewritten.violations.push(ViolationQuery::Target {
                within: within.map(Box::new),
                admitted: Box::new(admitted),
                violation: Violation::NotAdmitted,
            });
        }
        let updated = self.updated_columns(assignments, relation);
        self.keep_dependents(
            &mut rewritten,
            relation,
            Change::Update,
            &updated,
            functions,
        )?;
        Ok(rewritten)
    }

    /// The columns that decide which rows of `relation` are seen, may be changed and may be left.
    fn policy_columns(&self, relation: &Relation) -> BTreeSet<u16> {
        let seen = self.permit.relations().get(&relation.id);
        let write = self.permit.writes().get(&relation.id);
        let filters = seen.map(|seen| &seen.rows).into_iter();
        let filters = filters.chain(write.into_iter().flat_map(|w| [&w.change, &w.add]));
        let mut decisive = BTreeSet::new();
        for filter in filters {
            if let RowFilter::Where(predicate) = filter {
                row_filter::columns(predicate, &mut decisive);
            }
        }
        decisive
    }

    /// What each assigned column holds afterwards, of those that decide anything; nothing where only the engine knows.
    pub(in crate::rewrite) fn assigned_values(
        &self,
        assignments: &[Assignment],
        change: Change,
        relation: &Relation,
    ) -> BTreeMap<u16, StoredValue> {
        let mut row = BTreeMap::new();
        let mut kept = BTreeSet::new();
        let decisive = self.policy_columns(relation);
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(name) => {
                    if let Some((index, column)) = self.column(relation, name) {
                        // It stays as it is.
                        if self.is_itself(value, column) {
                            kept.insert(index);
                            continue;
                        }
                        let stored = match is_default(value) {
                            true => self.default_value(index, change, relation),
                            // No policy looks at its value.
                            false if !decisive.contains(&index) => StoredValue::Unknown,
                            false => self.stored_value(value, column),
                        };
                        row.insert(index, stored);
                    }
                }
                AssignmentTarget::Tuple(names) => {
                    for name in names {
                        if let Some((index, _)) = self.column(relation, name) {
                            row.insert(index, StoredValue::Unknown);
                        }
                    }
                }
            }
        }
        // The engine gives them the time.
        for index in relation
            .retimed
            .iter()
            .filter(|index| !kept.contains(index))
        {
            row.entry(*index).or_insert(StoredValue::Unknown);
        }
        let dialect = self.catalog.dialect();
        for (id, _) in relation.column_ids() {
            let is_computed = relation
                .column(id.index)
                .is_some_and(|column| column.generated.is_some());
            // It is computed again from what is assigned.
            if is_computed
                && computed_from([id.index], relation, dialect)
                    .iter()
                    .any(|from| row.contains_key(from))
            {
                row.insert(id.index, StoredValue::Unknown);
            }
        }
        row
    }

    /// The filter of old rows that policy admits once the columns of `row` are assigned. Rows that RETURNING gives back must still
    /// be visible, as in PostgreSQL.
    pub(in crate::rewrite) fn residual_check(
        &self,
        add: &RowFilter,
        seen: &RowFilter,
        row: &BTreeMap<u16, StoredValue>,
        relation: &Relation,
    ) -> Result<RowFilter, Rejection> {
        let changed = self.check_on_old_row(add, seen, row, relation)?;
        self.require_still_visible(seen, row, relation)?;
        let RowFilter::Where(predicate) = seen else {
            return Ok(changed);
        };
        if !self.target.returns {
            return Ok(changed);
        }
        let shown = match fold_with_row(predicate, row, relation)? {
            Folded::Known(Some(true)) => return Ok(changed),
            Folded::Known(Some(false) | None) => {
                return Err(not_admitted(
                    "with these values, rows may not be seen any more, and RETURNING would show them: leave it out",
                ));
            }
            Folded::Rest(rest) => rest,
        };
        if disclosure::discloses(&shown, predicate, None, |index| {
            self.is_plain(relation, index)
        }) {
            return Err(not_admitted(
                "with these values, what is not shown would decide which rows may be given back",
            ));
        }
        if disclosure::is_entailed(&shown, [predicate].into_iter()) {
            return Ok(changed);
        }
        Ok(RowFilter::Where(match changed {
            RowFilter::Everything => shown,
            RowFilter::Nothing => return Ok(RowFilter::Nothing),
            RowFilter::Where(changed) => Predicate::And(vec![changed, shown]),
        }))
    }

    /// `add` where the columns of `row` are assigned, as a filter of the rows as they were, which are `seen`.
    pub(in crate::rewrite) fn check_on_old_row(
        &self,
        add: &RowFilter,
        seen: &RowFilter,
        row: &BTreeMap<u16, StoredValue>,
        relation: &Relation,
    ) -> Result<RowFilter, Rejection> {
        let predicate = match add {
            RowFilter::Everything => return Ok(RowFilter::Everything),
            RowFilter::Nothing => return Err(not_admitted("no row may be left so")),
            RowFilter::Where(predicate) => predicate,
        };
        match fold_with_row(predicate, row, relation)? {
            Folded::Known(Some(true)) => Ok(RowFilter::Everything),
            Folded::Known(Some(false) | None) => Err(not_admitted(
                "the values assigned would put rows outside of what policy admits",
            )),
            Folded::Rest(rest) => {
                let seen = match seen {
                    RowFilter::Where(seen) => Some(seen),
                    RowFilter::Everything | RowFilter::Nothing => None,
                };
                if disclosure::discloses(&rest, predicate, seen, |index| {
                    self.is_plain(relation, index)
                }) {
                    return Err(not_admitted(
                        "with these values, what is not shown would decide which rows policy admits",
                    ));
                }
                Ok(RowFilter::Where(rest))
            }
        }
    }

    /// Checks that no column that is not shown decides which of the changed rows may still be seen: whether a row
    /// is still there would tell what it holds. Rows that all go, or go by what is shown, tell nothing.
    pub(in crate::rewrite) fn require_still_visible(
        &self,
        seen: &RowFilter,
        row: &BTreeMap<u16, StoredValue>,
        relation: &Relation,
    ) -> Result<(), Rejection> {
        let RowFilter::Where(seen) = seen else {
            return Ok(());
        };
        let settles = |condition: &Predicate| match fold_with_row(condition, row, relation) {
            Ok(Folded::Known(_)) => true,
            Ok(Folded::Rest(rest)) => {
                let mut looked = BTreeSet::new();
                row_filter::columns(&rest, &mut looked);
                looked
                    .into_iter()
                    .all(|index| self.is_plain(relation, index))
            }
            Err(_) => false,
        };
        let shown = |index| self.is_plain(relation, index);
        if disclosure::hidden_beside(seen, |index| row.contains_key(&index), shown)
            .all(|condition| settles(&condition))
        {
            Ok(())
        } else {
            Err(not_admitted(
                "with these values, what is not shown would decide which rows may still be seen",
            ))
        }
    }
}

/// What rows must be like that are `changed`, unless all that are `reached` are like that.
pub(in crate::rewrite) fn not_entailed<'c>(
    changed: &'c RowFilter,
    reached: &[&RowFilter],
) -> Option<&'c Predicate> {
    match changed {
        RowFilter::Everything | RowFilter::Nothing => None,
        RowFilter::Where(rest) => {
            let known = reached.iter().filter_map(|rows| match rows {
                RowFilter::Where(known) => Some(known),
                RowFilter::Everything | RowFilter::Nothing => None,
            });
            (!disclosure::is_entailed(rest, known)).then_some(rest)
        }
    }
}

/// What is left of `predicate` where the columns of `row` are written.
pub(in crate::rewrite) fn fold_with_row(
    predicate: &Predicate,
    row: &BTreeMap<u16, StoredValue>,
    relation: &Relation,
) -> Result<Folded, Rejection> {
    let present = row
        .iter()
        .filter(|(_, stored)| **stored == StoredValue::NotNull);
    let present: BTreeSet<u16> = present.map(|(index, _)| *index).collect();
    let predicate = fold_presence(predicate, &present);
    let mut looked = BTreeSet::new();
    row_filter::columns(&predicate, &mut looked);
    let mut known = BTreeMap::new();
    for index in looked {
        match row.get(&index) {
            Some(StoredValue::Known(value)) => {
                known.insert(index, value.clone());
            }
            Some(StoredValue::NotNull | StoredValue::Unknown) => {
                return Err(undecided_row(relation, relation.column(index)));
            }
            None => {}
        }
    }
    fold(&predicate, &known).map_err(|fold::Undecided| undecided_row(relation, None))
}
