//! REPLACE and ON DUPLICATE KEY UPDATE over relations with row policies.
//!
//! Neither statement has a condition that could leave a row alone, and a row may conflict by any unique key. So prechecks look for
//! the conflicting rows by each key, whose values must be known before. They refuse the change in two cases:
//!
//! * The session may not change a conflicting row: the refusal is that of a unique key.
//! * Policy would not admit the row afterwards.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use sqlparser::ast::{Assignment, AssignmentTarget, Expr, Insert, OnInsert};

use crate::rewrite::{
    change::{
        ChangeRewriter, determinism, disclosure,
        new_row::{converted::StoredValue, fold::Constant},
        precheck::{Violation, ViolationQuery},
        update::not_entailed,
        upsert::{
            excluded::refusal_of_update,
            key_values::KeyValue,
            proposed_rows::{given_columns, proposed_rows},
        },
    },
    refusal::not_as_decided,
    relation_source::{row_filter, row_filter::ColumnSet},
};
use crate::{
    catalog::{Change, Column, Relation, UniqueKey},
    code::Code,
    dialect::Dialect,
    policy::{
        WriteDecision,
        obligation::{Comparison, Operand, Predicate, RowFilter},
    },
    rejection::Rejection,
    resolve::{Conflict, is_default},
};

impl ChangeRewriter<'_> {
    /// Prechecks of the rows that REPLACE would remove.
    pub(in crate::rewrite) fn replaced_rows(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut ColumnSet,
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<ViolationQuery>, Rejection> {
        let reached = [seen, &write.change];
        let Some(within) = self.build_write_filter(&reached, relation, true, reads, functions)?
        else {
            return Ok(Vec::new());
        };
        let free = admits_all_added(&reached, write);
        let conflicts = self.conflict_conditions(REPLACE, insert, relation, free, reads)?;
        Ok(self.violations_of(&conflicts, &within.condition, Violation::OutOfReach))
    }

    /// Prechecks of the rows that ON DUPLICATE KEY UPDATE would change.
    #[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
    pub(in crate::rewrite) fn prechecks_of_update(
        &self,
        insert: &Insert,
        assignments: &[Assignment],
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut ColumnSet,
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<ViolationQuery>, Rejection> {
        let Some(update) =
            self.update_on_duplicate(insert, assignments, relation, write, seen, reads, functions)?
        else {
            return Ok(Vec::new());
        };
        let conflicts =
            self.conflict_conditions(DUPLICATE, insert, relation, update.free, reads)?;
        if proposed_rows(insert).is_some_and(|rows| rows.len() > 1)
            && !update.free
            && !update.keeps_conflicts
        {
            return Err(cannot_precheck(DUPLICATE, relation, ONE_BY_ONE));
        }
        let mut violations = Vec::new();
        for (admitted, found) in update.admitted {
            violations.extend(self.violations_of(&conflicts, &admitted, found));
        }
        Ok(violations)
    }

    /// Checks of rows that a query gives to REPLACE or ON DUPLICATE KEY UPDATE that policy has nothing to say of the rows they
    /// conflict with: their keys are known only once the query has run.
    ///
    /// # Errors
    /// `obligation.inapplicable`.
    pub(in crate::rewrite) fn require_free_conflicts(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut ColumnSet,
        functions: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        let constrained = match (self.target.on_conflict, &insert.on) {
            (Conflict::Replaces, _) => [seen, &write.change]
                .into_iter()
                .any(|rows| *rows != RowFilter::Everything)
                .then_some(REPLACE),
            (Conflict::Updates, Some(OnInsert::DuplicateKeyUpdate(assignments))) => self
                .update_on_duplicate(insert, assignments, relation, write, seen, reads, functions)?
                .map(|_| DUPLICATE),
            (Conflict::DoNothing | Conflict::Updates, _) => None,
        };
        match constrained {
            None => Ok(()),
            Some(what) => Err(cannot_precheck(
                what,
                relation,
                "a query gives the rows: give them by VALUES",
            )),
        }
    }

    /// What ON DUPLICATE KEY UPDATE does to conflicting rows; none where it may do that to any.
    #[expect(clippy::too_many_arguments, reason = "the parts of one statement")]
    fn update_on_duplicate(
        &self,
        insert: &Insert,
        assignments: &[Assignment],
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        reads: &mut ColumnSet,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<UpdateOnDuplicate>, Rejection> {
        let row = self.assigned_values(
            &self.as_proposed(assignments, insert, relation),
            Change::Update,
            relation,
        );
        let changed = self
            .residual_check(&write.add, seen, &row, relation)
            .map_err(|why| refusal_of_update(&why))?;
        let reached = [seen, &write.change];
        let within = self.build_write_filter(&reached, relation, true, reads, functions)?;
        let rest = not_entailed(&changed, &reached);
        if within.is_none() && rest.is_none() {
            return Ok(None);
        }
        if insert.ignore {
            return Err(cannot_precheck(
                DUPLICATE,
                relation,
                "IGNORE changes values: leave it out",
            ));
        }
        let mut admitted = Vec::new();
        if let Some(within) = within {
            admitted.push((within.condition, Violation::OutOfReach));
        }
        if let Some(rest) = rest {
            row_filter::columns(rest, reads);
            let rest = self.qualified_condition(rest, relation, true, functions)?;
            admitted.push((rest, Violation::NotAdmitted));
        }
        let keeps = stays_reachable(&row, &reached);
        let anew = [seen, &write.change, &changed];
        Ok(Some(UpdateOnDuplicate {
            admitted,
            free: keeps && admits_all_added(&anew, write),
            keeps_conflicts: keeps && keeps_keys(&row, &reached, relation),
        }))
    }

    /// Conditions of the rows that conflict with the proposed ones, where they are known. None where the
    /// statement leaves them alone.
    pub(in crate::rewrite) fn conflicting_rows(
        &self,
        insert: &Insert,
        relation: &Relation,
    ) -> Option<Vec<Expr>> {
        match (self.catalog.dialect(), self.target.on_conflict) {
            (Dialect::Mysql, Conflict::Updates | Conflict::Replaces) => self
                .conflict_conditions("", insert, relation, false, &mut ColumnSet::new())
                .ok(),
            (Dialect::Sqlite | Dialect::Postgres, _) | (Dialect::Mysql, Conflict::DoNothing) => {
                None
            }
        }
    }

    pub(in crate::rewrite) fn violations_of(
        &self,
        conflicts: &[Expr],
        admitted: &Expr,
        violation: Violation,
    ) -> Vec<ViolationQuery> {
        conflicts
            .iter()
            .map(|conflict| ViolationQuery::KeyConflicts {
                alias: self.target.qualifier.clone(),
                conflict: Box::new(conflict.clone()),
                admitted: Box::new(admitted.clone()),
                violation,
            })
            .collect()
    }

    /// The assignments with what is proposed in the place of `VALUES(column)`, where it is one constant for all rows and goes
    /// to the same column: in another it could have become something else before.
    fn as_proposed(
        &self,
        assignments: &[Assignment],
        insert: &Insert,
        relation: &Relation,
    ) -> Vec<Assignment> {
        let proposed = |target: &AssignmentTarget, expr: &Expr| -> Option<Expr> {
            let column = determinism::values_column(expr)?;
            let AssignmentTarget::ColumnName(name) = target else {
                return None;
            };
            if *self.column(relation, name)?.1.key != *column {
                return None;
            }
            let at = given_columns(self, insert, relation)
                .iter()
                .position(|index| relation.column(*index).is_some_and(|c| *c.key == *column))?;
            let mut values = proposed_rows(insert)?
                .into_iter()
                .map(|row| row.get(at).copied());
            let first = values.next()??;
            values
                .all(|value| value == Some(first))
                .then(|| first.clone())
        };
        assignments
            .iter()
            .map(|Assignment { target, value }| Assignment {
                target: target.clone(),
                value: proposed(target, value).unwrap_or_else(|| value.clone()),
            })
            .collect()
    }

    /// Conditions of the target's rows that conflict with proposed rows, by each key, for some rows at a time. Where `free`, a
    /// proposed row may conflict with an earlier one of the statement.
    pub(in crate::rewrite) fn conflict_conditions(
        &self,
        what: &str,
        insert: &Insert,
        relation: &Relation,
        free: bool,
        reads: &mut ColumnSet,
    ) -> Result<Vec<Expr>, Rejection> {
        let keys = self.unique_keys(what, relation)?;
        let rows = proposed_rows(insert).ok_or_else(|| not_as_decided("rows of a query"))?;
        let given = given_columns(self, insert, relation);
        if rows.iter().any(|row| row.len() != given.len()) {
            return Err(not_as_decided("rows of another width"));
        }
        let mut conflicts = Vec::new();
        for key in keys {
            let mut found = Vec::with_capacity(rows.len());
            let mut known = HashSet::new();
            for row in &rows {
                let Some(values) = self.values_of_key(what, key, relation, &given, row)? else {
                    continue;
                };
                if rows.len() > 1 && !free {
                    let distinct = self.key_text(key, relation, &given, row);
                    if !distinct.is_some_and(|distinct| known.insert(distinct)) {
                        return Err(cannot_precheck(what, relation, ONE_BY_ONE));
                    }
                }
                found.push(values);
            }
            if found.is_empty() {
                continue;
            }
            reads.extend(&key.columns);
            conflicts.extend(self.key_equals(key, relation, found));
        }
        Ok(conflicts)
    }

    /// A key by its name, where that tells of no column that is not shown.
    fn key_description(&self, key: &UniqueKey, relation: &Relation) -> String {
        let is_shown = |index: &u16| self.is_plain(relation, *index);
        match &key.name {
            Some(name) if key.columns.iter().all(is_shown) => format!("its unique key `{name}`"),
            Some(_) | None => "a unique key of it".to_owned(),
        }
    }

    /// What each column of `key` is given by `row`; nothing where no row conflicts by it.
    fn values_of_key(
        &self,
        what: &str,
        key: &UniqueKey,
        relation: &Relation,
        given: &[u16],
        row: &[&Expr],
    ) -> Result<Option<Vec<Expr>>, Rejection> {
        let mut values = Vec::with_capacity(key.columns.len());
        let mut unknown = None;
        for index in &key.columns {
            let column = relation
                .column(*index)
                .ok_or_else(|| not_as_decided("a key of another relation"))?;
            let at = given.iter().position(|other| other == index);
            let value = at.and_then(|at| row.get(at).copied());
            let is_filled = key.filled.contains(index);
            let known = match value.filter(|value| !is_default(value)) {
                None if is_filled || column.generated.is_some() => None,
                None => Some(KeyValue::NoConflict),
                Some(value) => self.key_value(value, column, is_filled),
            };
            match known {
                Some(KeyValue::NoConflict) if key.plain => return Ok(None),
                Some(KeyValue::Equal(value)) => values.push(*value),
                Some(KeyValue::NoConflict) | None => unknown = Some(column),
            }
        }
        let is_given = |column: &Column| {
            let mut given = given.iter().filter_map(|i| relation.column(*i));
            given.any(|c| c.key == column.key)
        };
        match unknown {
            None if key.plain => Ok(Some(values)),
            unknown => {
                let is_given = unknown.is_some_and(is_given);
                Err(self.unknown_key(what, key, relation, unknown, is_given))
            }
        }
    }

    /// The unique keys of the table.
    fn unique_keys<'r>(
        &self,
        what: &str,
        relation: &'r Relation,
    ) -> Result<&'r [UniqueKey], Rejection> {
        relation.unique_keys.as_deref().ok_or_else(|| {
            cannot_precheck(
                what,
                relation,
                "the catalog does not know all of its unique keys",
            )
        })
    }

    /// Why rows cannot be looked for by `key`: for `unknown`, a column of it.
    pub(in crate::rewrite) fn unknown_key(
        &self,
        what: &str,
        key: &UniqueKey,
        relation: &Relation,
        unknown: Option<&Column>,
        is_given: bool,
    ) -> Rejection {
        let why = match unknown {
            _ if !key.plain => format!(
                "{} is of expressions, of parts of values, or of a part of the rows: INSERT and UPDATE by themselves",
                self.key_description(key, relation)
            ),
            Some(column) if column.generated.is_some() => {
                format!(
                    "{} is of a generated column: INSERT and UPDATE by themselves",
                    self.key_description(key, relation)
                )
            }
            Some(column) if is_given => format!(
                "give `{}` by a literal or parameter of the column's type, which is stored as it is",
                column.name
            ),
            // A column of a key that is given nothing may be one that is not shown.
            Some(_) | None => {
                "a column of a unique key has a default: give every column of its keys a value"
                    .to_owned()
            }
        };
        cannot_precheck(what, relation, &why)
    }
}

const REPLACE: &str = "REPLACE";

const DUPLICATE: &str = "ON DUPLICATE KEY UPDATE";

/// What ON DUPLICATE KEY UPDATE does to rows that are there.
struct UpdateOnDuplicate {
    /// What they must be like, and what it says of the change where one is not.
    admitted: Vec<(Expr, Violation)>,
    /// Whether it may do so to what other rows of the statement have added or updated.
    free: bool,
    /// Whether a row that the statement has updated conflicts with its other rows as it did before.
    keeps_conflicts: bool,
}

/// Whether all rows that are added are ones that pass `filters`.
fn admits_all_added(filters: &[&RowFilter], write: &WriteDecision) -> bool {
    filters.iter().all(|filter| {
        **filter != RowFilter::Nothing && not_entailed(filter, &[&write.add]).is_none()
    })
}

/// What all rows within reach are like.
fn known_predicates<'f>(reached: &[&'f RowFilter]) -> impl Iterator<Item = &'f Predicate> {
    reached.iter().filter_map(|rows| match rows {
        RowFilter::Where(known) => Some(known),
        RowFilter::Everything | RowFilter::Nothing => None,
    })
}

/// Whether rows within reach may have another value in a column once `row` is assigned: what every such row has, none gets anew.
fn may_change_column(index: u16, row: &BTreeMap<u16, StoredValue>, reached: &[&RowFilter]) -> bool {
    match row.get(&index) {
        Some(StoredValue::Known(Constant::Value(value))) => {
            let has = Predicate::Compare(
                Operand::Column(index),
                Comparison::Equal,
                Operand::Literal(value.clone()),
            );
            !disclosure::is_entailed(&has, known_predicates(reached))
        }
        Some(StoredValue::Known(Constant::Null) | StoredValue::NotNull | StoredValue::Unknown) => {
            true
        }
        None => false,
    }
}

/// Whether rows within reach are within reach still once they are updated.
fn stays_reachable(row: &BTreeMap<u16, StoredValue>, reached: &[&RowFilter]) -> bool {
    let mut looked = BTreeSet::new();
    for predicate in known_predicates(reached) {
        row_filter::columns(predicate, &mut looked);
    }
    !looked
        .iter()
        .any(|index| may_change_column(*index, row, reached))
}

/// Whether rows within reach have the keys that they had once they are updated.
fn keeps_keys(
    row: &BTreeMap<u16, StoredValue>,
    reached: &[&RowFilter],
    relation: &Relation,
) -> bool {
    let mut keys = relation.unique_keys.iter().flatten();
    keys.all(|key| {
        key.plain
            && !key
                .columns
                .iter()
                .any(|index| may_change_column(*index, row, reached))
    })
}

const ONE_BY_ONE: &str = "one row of it may meet another: give one row at a time";

fn cannot_precheck(what: &str, relation: &Relation, why: &str) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!(
            "{what} could change rows of `{}` that row policies protect, and no precheck can find them: {why}",
            relation.name
        ),
    )
}
