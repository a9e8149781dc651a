//! INSERT: the rows that it may add, and the rows with which it may conflict.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{
    BinaryOperator, DoUpdate, Expr, Insert, OnConflict, OnConflictAction, OnInsert, SetExpr,
    TableFactor, Values,
};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter, RewrittenChange, determinism,
        new_row::{converted::StoredValue, fold::Folded},
        precheck::{Violation, ViolationQuery},
        refusal::{cannot_find_conflicts, not_admitted, unassigned_column, undecided_row},
        update::{fold_with_row, not_entailed},
        upsert::{
            excluded::refusal_of_update,
            on_conflict::{Proposed, UnknownRows},
            proposed_rows,
        },
    },
    refusal::not_as_decided,
    relation_source::row_filter,
};
use crate::{
    catalog::{Change, Column, Relation, RelationId},
    dialect::Dialect,
    policy::{
        WriteDecision,
        obligation::{Predicate, RowFilter},
    },
    rejection::Rejection,
    resolve::{Admission, Conflict, Reference, is_default, reference_index},
    syntax::{TableRole, TreeVisitor, encode, table_role, visit_tree},
};

impl ChangeRewriter<'_> {
    /// What an INSERT needs around it: the rows that it adds, and those that it finds in their places, are within policy.
    pub(in crate::rewrite) fn rewrite_insert(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        functions: &mut BTreeSet<String>,
    ) -> Result<RewrittenChange, Rejection> {
        let mut rewritten = RewrittenChange {
            conflicts: self.conflicting_rows(insert, relation),
            ..RewrittenChange::default()
        };
        let RewrittenChange {
            obligations,
            reads,
            looked,
            violations,
            conflicts: _,
        } = &mut rewritten;
        // As PostgreSQL does: a row that is given back must be one that may be seen.
        let mut admitted = vec![&write.add];
        if self.target.returns {
            admitted.push(seen);
        }
        let mut predicates: Vec<&Predicate> = Vec::new();
        for filter in admitted {
            match filter {
                RowFilter::Everything => {}
                RowFilter::Nothing => return Err(not_admitted("no row may be added")),
                RowFilter::Where(predicate) if predicates.contains(&predicate) => {}
                RowFilter::Where(predicate) => predicates.push(predicate),
            }
        }
        if !predicates.is_empty() && insert.ignore {
            self.require_stored_unchanged(insert, relation, &predicates)?;
        }
        if proposed_rows::proposed_rows(insert).is_none() {
            self.require_free_conflicts(insert, relation, write, seen, reads, functions)?;
        }
        if !predicates.is_empty() {
            match self.admit(insert, relation, &predicates, functions)? {
                Admitted::Known => {}
                Admitted::If(conditions) => {
                    let admitted = self.print_conditions(&conditions, relation, functions)?;
                    violations.push(ViolationQuery::Values {
                        admitted: Box::new(admitted),
                    });
                }
                Admitted::Within(admission, precheck) => {
                    obligations.admission = Some(*admission);
                    violations.push(precheck);
                }
            }
        }
        match self.target.on_conflict {
            Conflict::DoNothing => Ok(rewritten),
            Conflict::Replaces => {
                if proposed_rows::proposed_rows(insert).is_some() {
                    violations.extend(
                        self.replaced_rows(insert, relation, write, seen, reads, functions)?,
                    );
                    let change = Change::Delete;
                    if let Some(untouched) =
                        self.no_filtered_dependents(relation, change, &[], looked, functions)?
                    {
                        // Nothing hangs on a row that another of the statement has added.
                        let conflicts =
                            self.conflict_conditions("REPLACE", insert, relation, true, reads)?;
                        violations.extend(self.violations_of(
                            &conflicts,
                            &untouched,
                            Violation::OutOfReach,
                        ));
                    }
                }
                Ok(rewritten)
            }
            Conflict::Updates => {
                let assignments = match &insert.on {
                    Some(OnInsert::OnConflict(OnConflict {
                        conflict_target: _,
                        action:
                            OnConflictAction::DoUpdate(DoUpdate {
                                assignments,
                                selection: _,
                            }),
                    })) => assignments,
                    Some(OnInsert::DuplicateKeyUpdate(_))
                        if proposed_rows::proposed_rows(insert).is_none() =>
                    {
                        return Ok(rewritten);
                    }
                    Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                        self.require_no_filtered_cascade(assignments, relation, looked, functions)?;
                        let more = self.prechecks_of_update(
                            insert,
                            assignments,
                            relation,
                            write,
                            seen,
                            reads,
                            functions,
                        )?;
                        violations.extend(more);
                        return Ok(rewritten);
                    }
                    _ => return Err(not_as_decided("a conflict of another form")),
                };
                self.require_no_filtered_cascade(assignments, relation, looked, functions)?;
                let add = match self.is_as_proposed(&write.add, assignments, relation) {
                    true => &RowFilter::Everything,
                    false => &write.add,
                };
                let assignments = self.substitute_excluded(assignments, insert, relation);
                let row = self.assigned_values(&assignments, Change::Update, relation);
                let changed = self
                    .residual_check(add, seen, &row, relation)
                    .map_err(|why| refusal_of_update(&why))?;
                let reached = [seen, &write.change];
                if let Some(rest) = not_entailed(&changed, &reached) {
                    let within =
                        self.build_write_filter(&reached, relation, true, reads, functions)?;
                    let admitted = self.qualified_condition(rest, relation, true, functions)?;
                    let proposed = self.proposed_rows(insert, relation)?;
                    violations.extend(self.duplicate_in_statement(
                        insert, relation, &proposed, write, seen, &changed,
                    )?);
                    violations.push(ViolationQuery::Conflicts {
                        within: within.map(Box::new),
                        admitted: Box::new(admitted),
                        proposed: Box::new(proposed),
                    });
                }
                let filters = [seen, &write.change, &changed];
                obligations.write_filter =
                    self.build_write_filter(&filters, relation, true, reads, functions)?;
                Ok(rewritten)
            }
        }
    }

    /// The rows that an upsert proposes. The conflicting rows are known before where their keys are.
    fn proposed_rows(&self, insert: &Insert, relation: &Relation) -> Result<Proposed, Rejection> {
        if self.condition_reads_changed_rows(insert, relation) {
            return Err(cannot_find_conflicts(&UnknownRows::ReadsChangedTable));
        }
        let given = |value: &Expr| {
            determinism::is_settled(value, self.uses, self.catalog, self.visible, self.limits)
        };
        Proposed::new(
            insert,
            relation,
            self.catalog,
            self.target,
            encode(&self.unused_name(), self.catalog.dialect()),
            given,
            |value, column| self.constant(value, column),
        )
        .map_err(|unknown| cannot_find_conflicts(&unknown))
    }

    /// Whether one key given twice has to be looked for: on SQLite the second row conflicts with the first, as it was added. PostgreSQL
    /// refuses it. A row that was there and was updated is as policy admits it, and stays so.
    fn duplicate_in_statement(
        &self,
        insert: &Insert,
        relation: &Relation,
        proposed: &Proposed,
        write: &WriteDecision,
        seen: &RowFilter,
        changed: &RowFilter,
    ) -> Result<Option<ViolationQuery>, Rejection> {
        match self.catalog.dialect() {
            Dialect::Sqlite => {}
            Dialect::Postgres | Dialect::Mysql => return Ok(None),
        }
        let is_one = matches!(
            insert.source.as_deref().map(|source| &*source.body),
            Some(SetExpr::Values(Values {
                explicit_row: _,
                value_keyword: _,
                rows,
            })) if rows.len() == 1
        );
        let known = [&write.add, &write.change, seen];
        if is_one || not_entailed(changed, &known).is_none() {
            return Ok(None);
        }
        let keys = proposed
            .key_values(relation)
            .ok_or_else(|| cannot_find_conflicts(&UnknownRows::RepeatedKeys))?;
        Ok(Some(ViolationQuery::RepeatedKeys {
            keys,
            proposed: Box::new(proposed.clone()),
        }))
    }

    /// Whether a subquery of an upsert's condition may find what the statement itself has changed by then, as it does on SQLite, where
    /// what is looked for finds the rows as they were. PostgreSQL shows a statement nothing of what it changes.
    fn condition_reads_changed_rows(&self, insert: &Insert, relation: &Relation) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => {}
            Dialect::Postgres | Dialect::Mysql => return false,
        }
        let mut read = ReadRelations {
            references: self.references,
            found: BTreeSet::new(),
        };
        match &insert.on {
            Some(OnInsert::OnConflict(OnConflict {
                conflict_target: _,
                action:
                    OnConflictAction::DoUpdate(DoUpdate {
                        assignments: _,
                        selection: Some(condition),
                    }),
            })) => {
                let _ = visit_tree(condition, &mut read);
            }
            // There is no condition.
            Some(OnInsert::OnConflict(OnConflict {
                conflict_target: _,
                action:
                    OnConflictAction::DoNothing
                    | OnConflictAction::DoUpdate(DoUpdate {
                        assignments: _,
                        selection: None,
                    }),
            }))
            | Some(OnInsert::DuplicateKeyUpdate(_))
            | None => {}
            // One that is not known here.
            Some(_) => return true,
        }
        // The conflicting row of a single proposed row is found before anything is changed.
        let is_one = match insert.source.as_deref().map(|source| &*source.body) {
            Some(SetExpr::Values(Values {
                explicit_row: _,
                value_keyword: _,
                rows,
            })) => rows.len() == 1 && relation.triggers.is_empty(),
            _ => false,
        };
        self.access
            .changes()
            .map(|change| change.relation)
            .filter(|changed| !(is_one && *changed == relation.id))
            .any(|changed| read.found.contains(&changed))
    }

    /// All of `conditions`, which look at no column of `relation`.
    fn print_conditions(
        &self,
        conditions: &[Predicate],
        relation: &Relation,
        functions: &mut BTreeSet<String>,
    ) -> Result<Expr, Rejection> {
        let mut all: Vec<Expr> = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let condition = row_filter::expression(condition, relation, self.catalog, functions)?;
            // Several rows may refer to one.
            if !all.contains(&condition) {
                all.push(condition);
            }
        }
        Ok(ast::join_by(all, &BinaryOperator::And, true))
    }

    /// Checks that the rows of an INSERT satisfy `predicates`; or what makes those of a query do.
    fn admit(
        &self,
        insert: &Insert,
        relation: &Relation,
        predicates: &[&Predicate],
        functions: &mut BTreeSet<String>,
    ) -> Result<Admitted, Rejection> {
        let columns: Option<Vec<(u16, &Column)>> = insert
            .columns
            .iter()
            .map(|name| self.column(relation, name))
            .collect();
        let columns = columns.ok_or_else(|| not_as_decided("a column of another relation"))?;
        let mut looked = BTreeSet::new();
        for predicate in predicates {
            row_filter::columns(predicate, &mut looked);
        }
        let Some(source) = &insert.source else {
            let mut row = self.assigned_values(&insert.assignments, Change::Insert, relation);
            row.extend(self.omitted_values(&looked, |index| row.contains_key(&index), relation));
            let left = self.admit_row(&row, relation, predicates, &looked)?;
            return Ok(Admitted::if_all(left));
        };
        let is_given = |index| columns.iter().any(|(known, _)| *known == index);
        let omitted = self.omitted_values(&looked, is_given, relation);
        if let SetExpr::Values(Values {
            explicit_row: _,
            value_keyword: _,
            rows,
        }) = &*source.body
        {
            let mut left = Vec::new();
            for values in rows {
                let mut row = omitted.clone();
                let given = columns.iter().zip(&values.content);
                let given = given.filter(|((index, _), _)| looked.contains(index));
                row.extend(given.map(|((index, column), value)| {
                    let stored = match is_default(value) {
                        true => self.default_value(*index, Change::Insert, relation),
                        false => self.stored_value(value, column),
                    };
                    (*index, stored)
                }));
                left.append(&mut self.admit_row(&row, relation, predicates, &looked)?);
            }
            return Ok(Admitted::if_all(left));
        }
        let mut left = Vec::with_capacity(predicates.len());
        for predicate in predicates {
            match fold_with_row(predicate, &omitted, relation)? {
                Folded::Known(Some(true)) => {}
                Folded::Known(Some(false) | None) => {
                    return Err(not_admitted(
                        "every row would be outside of what policy admits",
                    ));
                }
                Folded::Rest(rest) => left.push(rest),
            }
        }
        if left.is_empty() {
            return Ok(Admitted::Known);
        }
        let left: Vec<&Predicate> = left.iter().collect();
        // With IGNORE, a value that does not fit is stored as another.
        if !insert.ignore && self.gives_admitted(source, relation, &columns, &left, &looked) {
            return Ok(Admitted::Known);
        }
        let (admission, precheck) = self.frame(insert, relation, &columns, &left, functions)?;
        Ok(Admitted::Within(Box::new(admission), precheck))
    }

    /// Checks that a row satisfies `predicates`. Gives what only the database knows: conditions without a column of the row.
    pub(in crate::rewrite) fn admit_row(
        &self,
        row: &BTreeMap<u16, StoredValue>,
        relation: &Relation,
        predicates: &[&Predicate],
        looked: &BTreeSet<u16>,
    ) -> Result<Vec<Predicate>, Rejection> {
        for index in looked {
            if !row.contains_key(index) {
                return Err(unassigned_column(relation, *index));
            }
        }
        let mut left = Vec::new();
        for predicate in predicates {
            match fold_with_row(predicate, row, relation)? {
                Folded::Known(Some(true)) => {}
                Folded::Known(Some(false) | None) => {
                    return Err(not_admitted("a row would be outside of what policy admits"));
                }
                Folded::Rest(rest) => {
                    let mut open = BTreeSet::new();
                    row_filter::columns(&rest, &mut open);
                    if !open.is_empty() {
                        return Err(undecided_row(relation, None));
                    }
                    left.push(rest);
                }
            }
        }
        Ok(left)
    }
}

/// Whether policy admits the rows of an INSERT.
enum Admitted {
    /// It does.
    Known,
    /// If these hold, which look at no column of the rows.
    If(Vec<Predicate>),
    /// Those of its query that a condition around it leaves; there must be no others.
    Within(Box<Admission>, ViolationQuery),
}

impl Admitted {
    fn if_all(conditions: Vec<Predicate>) -> Self {
        match conditions.is_empty() {
            true => Self::Known,
            false => Self::If(conditions),
        }
    }
}

/// The relations that a part of a statement reads, views and what stands below them included.
struct ReadRelations<'r> {
    references: &'r [Reference],
    found: BTreeSet<RelationId>,
}

impl ReadRelations<'_> {
    fn read(&mut self, reference: &Reference) {
        self.found.insert(reference.relation);
        if let Some(body) = &reference.body {
            for inner in &body.resolved.references {
                self.read(inner);
            }
        }
    }
}

impl TreeVisitor for ReadRelations<'_> {
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match table_role(factor) {
            TableRole::Named(name) | TableRole::Called(name) => {
                let references = self.references;
                reference_index(name)
                    .and_then(|index| references.get(index..=index))
                    // A common table expression, which reads any of them.
                    .unwrap_or(references)
                    .iter()
                    .for_each(|reference| self.read(reference));
            }
            // What stands in it is looked at by itself.
            TableRole::Other => {}
        }
        ControlFlow::Continue(())
    }
}
