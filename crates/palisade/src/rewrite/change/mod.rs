//! Obligations of statements that change rows: which rows they reach, and which rows they leave behind.
//!
//! A target cannot be replaced by a derived table. Its filter becomes a guard around the statement's own
//! condition: beside it where that is leak-proof, else a `CASE` that tries it only on rows that the guard
//! lets through. What rows must be like afterwards (`add`, SQL's WITH CHECK) is decided before anything
//! runs where the values are literals or parameters; what depends on the row as it was becomes part of
//! the guard, and the rows of a query are filtered. Where such a row could be left out, `proviso` looks for one first.

pub(in crate::rewrite) mod determinism;
pub(in crate::rewrite) mod disclosure;
pub(in crate::rewrite) mod guard;
pub(in crate::rewrite) mod guard_cache;
pub(in crate::rewrite) mod insert_select;
pub(in crate::rewrite) mod merge;
pub(in crate::rewrite) mod new_row;
pub(in crate::rewrite) mod precheck;
pub(in crate::rewrite) mod upsert;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
};

use sqlparser::{
    ast::{
        Assignment, AssignmentTarget, DoUpdate, Expr, Insert, ObjectName, ObjectNamePart,
        OnConflict, OnConflictAction, OnInsert, Query, SetExpr, Statement, TableFactor, Update,
        Value as SqlValue, Values, Visit, Visitor,
    },
    tokenizer::Location,
};

use crate::rewrite::{
    change::{
        guard_cache::Conditions,
        insert_select::{Framed, Meeting},
        new_row::{
            converted::{Held, held, with_present},
            fold,
            fold::{Constant, Folded, constant, fold},
            storage,
        },
        precheck::{Doubt, Found, foreign_keys::Looked},
        upsert::{
            duplicate_key,
            excluded::of_update,
            on_conflict::{Proposed, Unknown},
        },
    },
    not_as_decided,
    output::parameter_values::Given,
    source::{cache::FormCache, row_filter},
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, Change, Column, Relation, RelationId, computed_from},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    policy::{
        Permit, WriteDecision,
        obligation::{ColumnLevel, Predicate, RowFilter},
    },
    rejection::Rejection,
    resolve::{Conflict, Reference, Target, Visible, WriteForm, is_default, reference_index},
    syntax::{encode, key},
    value::{Placeholder, Value},
};

/// What the rewriting of a change looks at.
pub(in crate::rewrite) struct Job<'j> {
    pub(in crate::rewrite) target: &'j Target,
    pub(in crate::rewrite) permit: &'j Permit,
    pub(in crate::rewrite) catalog: &'j Catalog,
    pub(in crate::rewrite) given: &'j Given<'j>,
    pub(in crate::rewrite) placeholders: &'j BTreeMap<Placeholder, u32>,
    /// Names of the statement's common table expressions, folded.
    pub(in crate::rewrite) ctes: &'j BTreeSet<String>,
    /// The number of each `?` by its place in the statement.
    pub(in crate::rewrite) positions: &'j HashMap<Location, u32>,
    /// How often each placeholder stands in the statement, by its text.
    pub(in crate::rewrite) uses: &'j BTreeMap<String, usize>,
    pub(in crate::rewrite) references: &'j [Reference],
    pub(in crate::rewrite) access: &'j AccessSet,
    pub(in crate::rewrite) visible: &'j dyn Visible,
    pub(in crate::rewrite) known: &'j FormCache,
    /// What stands for the conditions of guards.
    pub(in crate::rewrite) conditions: &'j Conditions,
    pub(in crate::rewrite) limits: &'j Limits,
    pub(in crate::rewrite) failing: Failing,
}

/// What in the statement may fail.
#[derive(Debug, Clone, Copy)]
pub(in crate::rewrite) struct Failing {
    /// Whether anything may run on rows that a filter hides, and tell.
    pub(in crate::rewrite) needs_fence: bool,
    /// Whether the plan decides whether the statement fails.
    pub(in crate::rewrite) by_plan: bool,
}

/// The columns that the engine reads for what policy demands.
pub(in crate::rewrite) type Reads = BTreeSet<u16>;

/// What a change needs.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct Formed {
    pub(in crate::rewrite) form: WriteForm,
    pub(in crate::rewrite) reads: Reads,
    /// What is looked for of what foreign keys change.
    pub(in crate::rewrite) looked: Looked,
    /// Rows that may have to refuse it.
    pub(in crate::rewrite) doubts: Vec<Doubt>,
    /// Conditions of the rows in the way of an INSERT, where they are known.
    pub(in crate::rewrite) met: Option<Vec<Expr>>,
}

impl Job<'_> {
    /// What must stand around `change`, and what must be looked for before it.
    ///
    /// # Errors
    /// `write.row-not-admitted` where a row would be outside of what policy admits, or nobody can tell;
    /// `obligation.inapplicable` where a filter cannot be put around this form of statement.
    pub(in crate::rewrite) fn form(
        &self,
        change: &SetExpr,
        functions: &mut BTreeSet<String>,
    ) -> Result<Formed, Rejection> {
        let unknown = || not_as_decided("a change of another catalog");
        let relation = self
            .catalog
            .relation(self.target.relation)
            .ok_or_else(unknown)?;
        let write = self.permit.writes().get(&relation.id).ok_or_else(unknown)?;
        let seen = match self.permit.relations().get(&relation.id) {
            Some(decision) => decision.rows.clone(),
            // Rows are added, and none is looked at.
            None if self.target.reference.is_none()
                && !self.target.returns
                && self.target.on_conflict == Conflict::DoNothing =>
            {
                RowFilter::Everything
            }
            None => return Err(not_as_decided("rows are reached that were not decided")),
        };
        let mut formed = Formed::default();
        let Formed {
            form,
            reads,
            looked,
            doubts,
            met,
        } = &mut formed;
        match change {
            SetExpr::Insert(Statement::Insert(insert)) => {
                *met = self.in_the_way(insert, relation);
                let parts = (form, reads, looked);
                *doubts = self.insert(insert, relation, write, &seen, parts, functions)?;
            }
            SetExpr::Update(Statement::Update(Update {
                update_token: _,
                optimizer_hints: _,
                table: _,
                assignments,
                from: _,
                selection: _,
                returning: _,
                output: _,
                or: _,
                order_by: _,
                limit: _,
            })) => {
                let row = self.constants(assignments, Change::Update, relation);
                let changed = self.left(&write.add, &seen, &row, relation)?;
                let joined = self.target.joined;
                let reached = [&seen, &write.change];
                let within = self.guard(&reached, relation, joined, reads, functions)?;
                let filters = [&seen, &write.change, &changed];
                form.guard = self.guard(&filters, relation, joined, reads, functions)?;
                if let Some(rest) = unimplied(&changed, &reached) {
                    let admitted = self.condition(rest, relation, joined, functions)?;
                    doubts.push(Doubt::Target {
                        within: within.map(Box::new),
                        admitted: Box::new(admitted),
                        found: Found::NotAdmitted,
                    });
                }
                let updated = self.assigned(assignments, relation);
                let change = Change::Update;
                if let Some(untouched) =
                    self.untouched(relation, change, &updated, looked, functions)?
                {
                    let guard = &mut form.guard;
                    doubts.push(self.keep_untouched(guard, untouched, relation, reads, looked)?);
                }
            }
            SetExpr::Delete(_) => {
                let filters = [&seen, &write.change];
                let joined = self.target.joined;
                form.guard = self.guard(&filters, relation, joined, reads, functions)?;
                let change = Change::Delete;
                if let Some(untouched) = self.untouched(relation, change, &[], looked, functions)? {
                    let guard = &mut form.guard;
                    doubts.push(self.keep_untouched(guard, untouched, relation, reads, looked)?);
                }
            }
            SetExpr::Merge(Statement::Merge(merge)) => {
                let parts = (form, reads, looked);
                *doubts = self.merge(merge, relation, write, &seen, parts, functions)?;
            }
            SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Merge(_)
            | SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left: _,
                right: _,
            }
            | SetExpr::Values(_)
            | SetExpr::Table(_) => return Err(not_as_decided("a change of another form")),
        }
        Ok(formed)
    }

    fn insert(
        &self,
        insert: &Insert,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        (form, reads, looked): (&mut WriteForm, &mut Reads, &mut Looked),
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<Doubt>, Rejection> {
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
            self.is_stored(insert, relation, &predicates)?;
        }
        let mut doubts = Vec::new();
        // What a query gives is looked at in the frame around it.
        let met = match duplicate_key::rows(insert) {
            Some(_) => None,
            None => self.met_by_query(insert, relation, write, seen, reads, functions)?,
        };
        if !predicates.is_empty() || met.is_some() {
            let met = met.as_ref();
            if let Some(Framed {
                admission,
                doubts: of_rows,
            }) = self.admit(insert, relation, &predicates, met, functions)?
            {
                form.admission = Some(admission);
                doubts.extend(of_rows);
            }
        }
        match self.target.on_conflict {
            Conflict::DoNothing => Ok(doubts),
            Conflict::Replaces => {
                if duplicate_key::rows(insert).is_some() {
                    doubts.extend(self.removed(insert, relation, write, seen, reads, functions)?);
                    let change = Change::Delete;
                    if let Some(untouched) =
                        self.untouched(relation, change, &[], looked, functions)?
                    {
                        // Nothing hangs on a row that another of the statement has added.
                        let met = self.met("REPLACE", insert, relation, true, reads)?;
                        doubts.extend(self.doubts(&met, &untouched, Found::OutOfReach));
                    }
                }
                Ok(doubts)
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
                        if duplicate_key::rows(insert).is_none() =>
                    {
                        return Ok(doubts);
                    }
                    Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                        self.reaches_nothing(assignments, relation, looked, functions)?;
                        let more = self.updated(
                            insert,
                            assignments,
                            relation,
                            write,
                            seen,
                            reads,
                            functions,
                        )?;
                        doubts.extend(more);
                        return Ok(doubts);
                    }
                    _ => return Err(not_as_decided("a conflict of another form")),
                };
                self.reaches_nothing(assignments, relation, looked, functions)?;
                let add = match self.is_as_proposed(&write.add, assignments, relation) {
                    true => &RowFilter::Everything,
                    false => &write.add,
                };
                let assignments = self.with_proposed(assignments, insert, relation);
                let row = self.constants(&assignments, Change::Update, relation);
                let changed = self
                    .left(add, seen, &row, relation)
                    .map_err(|why| of_update(&why))?;
                let reached = [seen, &write.change];
                if let Some(rest) = unimplied(&changed, &reached) {
                    let within = self.guard(&reached, relation, true, reads, functions)?;
                    let admitted = self.condition(rest, relation, true, functions)?;
                    let proposed = self.proposed(insert, relation)?;
                    doubts.extend(self.twice(insert, relation, &proposed, write, seen, &changed)?);
                    doubts.push(Doubt::InTheWay {
                        within: within.map(Box::new),
                        admitted: Box::new(admitted),
                        proposed: Box::new(proposed),
                    });
                }
                let filters = [seen, &write.change, &changed];
                form.guard = self.guard(&filters, relation, true, reads, functions)?;
                Ok(doubts)
            }
        }
    }

    /// What the rows of an upsert are met by. Which rows are in the way is known before where the keys are.
    fn proposed(&self, insert: &Insert, relation: &Relation) -> Result<Proposed, Rejection> {
        if self.reads_changed(insert, relation) {
            return Err(unseen(&Unknown::Reads));
        }
        let given = |value: &Expr| {
            determinism::is_settled(value, self.uses, self.catalog, self.visible, self.limits)
        };
        Proposed::of(
            insert,
            relation,
            self.catalog,
            self.target,
            encode(&self.unused_name(), self.catalog.dialect()),
            given,
            |value, column| self.constant(value, column),
        )
        .map_err(|unknown| unseen(&unknown))
    }

    /// Whether one key given twice has to be looked for: on SQLite the second row meets the first, as it was added. PostgreSQL
    /// refuses it. A row that was there and was updated is as policy admits it, and stays so.
    fn twice(
        &self,
        insert: &Insert,
        relation: &Relation,
        proposed: &Proposed,
        write: &WriteDecision,
        seen: &RowFilter,
        changed: &RowFilter,
    ) -> Result<Option<Doubt>, Rejection> {
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
        if is_one || unimplied(changed, &known).is_none() {
            return Ok(None);
        }
        let keys = proposed
            .key_values(relation)
            .ok_or_else(|| unseen(&Unknown::Twice))?;
        Ok(Some(Doubt::Twice {
            keys,
            proposed: Box::new(proposed.clone()),
        }))
    }

    /// Whether a subquery of an upsert's condition may find what the statement itself has changed by then, as it does on SQLite, where
    /// what is looked for finds the rows as they were. PostgreSQL shows a statement nothing of what it changes.
    fn reads_changed(&self, insert: &Insert, relation: &Relation) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => {}
            Dialect::Postgres | Dialect::Mysql => return false,
        }
        let mut read = Reading {
            references: self.references,
            found: BTreeSet::new(),
        };
        if let Some(OnInsert::OnConflict(OnConflict {
            conflict_target: _,
            action:
                OnConflictAction::DoUpdate(DoUpdate {
                    assignments: _,
                    selection: Some(condition),
                }),
        })) = &insert.on
        {
            let _ = Visit::visit(condition, &mut read);
        }
        // The row in the way of the only one is met before anything is changed.
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

    /// The columns that decide which rows of `relation` are seen, may be changed and may be left.
    fn decisive(&self, relation: &Relation) -> BTreeSet<u16> {
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
    pub(in crate::rewrite) fn constants(
        &self,
        assignments: &[Assignment],
        change: Change,
        relation: &Relation,
    ) -> BTreeMap<u16, Held> {
        let mut row = BTreeMap::new();
        let mut kept = BTreeSet::new();
        let decisive = self.decisive(relation);
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(name) => {
                    if let Some((index, column)) = self.column(relation, name) {
                        // It stays as it is.
                        if self.is_itself(value, column) {
                            kept.insert(index);
                            continue;
                        }
                        let held = match is_default(value) {
                            true => self.by_default(index, change, relation),
                            // Its value matters to nobody.
                            false if !decisive.contains(&index) => Held::Unknown,
                            false => self.held(value, column),
                        };
                        row.insert(index, held);
                    }
                }
                AssignmentTarget::Tuple(names) => {
                    for name in names {
                        if let Some((index, _)) = self.column(relation, name) {
                            row.insert(index, Held::Unknown);
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
            row.entry(*index).or_insert(Held::Unknown);
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
                row.insert(id.index, Held::Unknown);
            }
        }
        row
    }

    /// What rows must be like, as they were, of which the columns of `row` are assigned, so that policy admits them as they are then.
    /// Those that are given back must be ones that may still be seen, as PostgreSQL has it.
    pub(in crate::rewrite) fn left(
        &self,
        add: &RowFilter,
        seen: &RowFilter,
        row: &BTreeMap<u16, Held>,
        relation: &Relation,
    ) -> Result<RowFilter, Rejection> {
        let changed = self.after(add, seen, row, relation)?;
        self.stays_in_sight(seen, row, relation)?;
        let RowFilter::Where(predicate) = seen else {
            return Ok(changed);
        };
        if !self.target.returns {
            return Ok(changed);
        }
        let shown = match folded(predicate, row, relation)? {
            Folded::Known(Some(true)) => return Ok(changed),
            Folded::Known(Some(false) | None) => {
                return Err(not_admitted(
                    "with these values, rows may not be seen any more, and RETURNING would show them: leave it out",
                ));
            }
            Folded::Rest(rest) => rest,
        };
        if disclosure::tells(&shown, predicate, None, |index| {
            self.is_plain(relation, index)
        }) {
            return Err(not_admitted(
                "with these values, what is not shown would decide which rows may be given back",
            ));
        }
        if disclosure::follows(&shown, [predicate].into_iter()) {
            return Ok(changed);
        }
        Ok(RowFilter::Where(match changed {
            RowFilter::Everything => shown,
            RowFilter::Nothing => return Ok(RowFilter::Nothing),
            RowFilter::Where(changed) => Predicate::And(vec![changed, shown]),
        }))
    }

    /// `add` where the columns of `row` are assigned, as a filter of the rows as they were, which are `seen`.
    pub(in crate::rewrite) fn after(
        &self,
        add: &RowFilter,
        seen: &RowFilter,
        row: &BTreeMap<u16, Held>,
        relation: &Relation,
    ) -> Result<RowFilter, Rejection> {
        let predicate = match add {
            RowFilter::Everything => return Ok(RowFilter::Everything),
            RowFilter::Nothing => return Err(not_admitted("no row may be left so")),
            RowFilter::Where(predicate) => predicate,
        };
        match folded(predicate, row, relation)? {
            Folded::Known(Some(true)) => Ok(RowFilter::Everything),
            Folded::Known(Some(false) | None) => Err(not_admitted(
                "the values assigned would put rows outside of what policy admits",
            )),
            Folded::Rest(rest) => {
                let seen = match seen {
                    RowFilter::Where(seen) => Some(seen),
                    RowFilter::Everything | RowFilter::Nothing => None,
                };
                if disclosure::tells(&rest, predicate, seen, |index| {
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
    pub(in crate::rewrite) fn stays_in_sight(
        &self,
        seen: &RowFilter,
        row: &BTreeMap<u16, Held>,
        relation: &Relation,
    ) -> Result<(), Rejection> {
        let RowFilter::Where(seen) = seen else {
            return Ok(());
        };
        let settles = |condition: &Predicate| match folded(condition, row, relation) {
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

    /// Whether the session sees the column's values.
    pub(in crate::rewrite) fn is_plain(&self, relation: &Relation, index: u16) -> bool {
        self.permit
            .relations()
            .get(&relation.id)
            .and_then(|decision| decision.columns.get(usize::from(index)))
            .is_some_and(|column| column.level == ColumnLevel::Plain)
    }

    /// Checks that the rows of an INSERT satisfy `predicates`; or what makes those of a query do.
    fn admit(
        &self,
        insert: &Insert,
        relation: &Relation,
        predicates: &[&Predicate],
        meeting: Option<&Meeting>,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<Framed>, Rejection> {
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
            let mut row = self.constants(&insert.assignments, Change::Insert, relation);
            row.extend(self.unsaid(&looked, |index| row.contains_key(&index), relation));
            self.admit_row(&row, relation, predicates, &looked)?;
            return Ok(None);
        };
        let is_given = |index| columns.iter().any(|(known, _)| *known == index);
        let unsaid = self.unsaid(&looked, is_given, relation);
        if let SetExpr::Values(Values {
            explicit_row: _,
            value_keyword: _,
            rows,
        }) = &*source.body
        {
            for values in rows {
                let mut row = unsaid.clone();
                let given = columns.iter().zip(&values.content);
                let given = given.filter(|((index, _), _)| looked.contains(index));
                row.extend(given.map(|((index, column), value)| {
                    let held = match is_default(value) {
                        true => self.by_default(*index, Change::Insert, relation),
                        false => self.held(value, column),
                    };
                    (*index, held)
                }));
                self.admit_row(&row, relation, predicates, &looked)?;
            }
            return Ok(None);
        }
        let mut left = Vec::with_capacity(predicates.len());
        for predicate in predicates {
            match folded(predicate, &unsaid, relation)? {
                Folded::Known(Some(true)) => {}
                Folded::Known(Some(false) | None) => {
                    return Err(not_admitted(
                        "every row would be outside of what policy admits",
                    ));
                }
                Folded::Rest(rest) => left.push(rest),
            }
        }
        if left.is_empty() && meeting.is_none() {
            return Ok(None);
        }
        let left: Vec<&Predicate> = left.iter().collect();
        // With IGNORE, a value that does not fit is stored as another.
        if meeting.is_none()
            && !insert.ignore
            && self.gives_admitted(source, relation, &columns, &left, &looked)
        {
            return Ok(None);
        }
        let frame = self.frame(insert, relation, &columns, &left, meeting, functions)?;
        Ok(Some(frame))
    }

    pub(in crate::rewrite) fn admit_row(
        &self,
        row: &BTreeMap<u16, Held>,
        relation: &Relation,
        predicates: &[&Predicate],
        looked: &BTreeSet<u16>,
    ) -> Result<(), Rejection> {
        for index in looked {
            if !row.contains_key(index) {
                return Err(unassigned(relation, *index));
            }
        }
        for predicate in predicates {
            match folded(predicate, row, relation)? {
                Folded::Known(Some(true)) => {}
                Folded::Known(Some(false) | None) => {
                    return Err(not_admitted("a row would be outside of what policy admits"));
                }
                Folded::Rest(_) => return Err(undecided(relation, None)),
            }
        }
        Ok(())
    }

    /// A name that neither a relation nor a common table expression of the statement has, nor the target; folded.
    pub(in crate::rewrite) fn unused_name(&self) -> String {
        let mut name = "admitted_rows".to_owned();
        let target = key(&self.target.qualifier, self.catalog.dialect()).to_lowercase();
        while self.catalog.lookup(&name).is_some() || self.ctes.contains(&name) || name == target {
            name.push('_');
        }
        name
    }

    pub(in crate::rewrite) fn column<'r>(
        &self,
        relation: &'r Relation,
        name: &ObjectName,
    ) -> Option<(u16, &'r Column)> {
        let Some(ObjectNamePart::Identifier(ident)) = name.0.last() else {
            return None;
        };
        let index = relation.position(&key(ident, self.catalog.dialect()))?;
        Some((index, relation.column(index)?))
    }

    /// The value that `column` certainly holds as it is written.
    pub(in crate::rewrite) fn constant(&self, value: &Expr, column: &Column) -> Option<Constant> {
        if is_default(value) {
            return None;
        }
        let dialect = self.catalog.dialect();
        let column = storage::behind(column, self.catalog);
        constant(value, &column, dialect, &|expr| self.parameter(expr))
    }

    /// What `column` holds once it is given `value`.
    pub(in crate::rewrite) fn held(&self, value: &Expr, column: &Column) -> Held {
        let dialect = self.catalog.dialect();
        let column = storage::behind(column, self.catalog);
        held(value, &column, dialect, &|expr| self.parameter(expr))
    }

    /// The value of a parameter.
    pub(in crate::rewrite) fn parameter(&self, expr: &Expr) -> Option<Value> {
        let Expr::Value(value) = expr else {
            return None;
        };
        let SqlValue::Placeholder(text) = &value.value else {
            return None;
        };
        let number = match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Postgres => text.get(1..)?.parse().ok()?,
            Dialect::Mysql => *self.positions.get(&value.span.start)?,
        };
        let mut known = self.placeholders.iter();
        let placeholder = known.find(|(_, n)| **n == number)?.0;
        self.given.value(placeholder).cloned()
    }
}

/// The changes in a statement, in the order in which they are resolved: those in its WITH, then its own.
pub(in crate::rewrite) fn changes(query: &Query) -> Vec<&SetExpr> {
    let Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch: _,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators: _,
    } = query;
    let tables = with.iter().flat_map(|with| &with.cte_tables);
    tables
        .map(|cte| &cte.query.body)
        .chain([body])
        .map(|body| &**body)
        .filter(|body| is_change(body))
        .collect()
}

/// [`changes`], to be changed themselves.
pub(in crate::rewrite) fn changes_mut(query: &mut Query) -> Vec<&mut SetExpr> {
    let Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch: _,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators: _,
    } = query;
    let tables = with.iter_mut().flat_map(|with| &mut with.cte_tables);
    tables
        .map(|cte| &mut cte.query.body)
        .chain([body])
        .map(|body| &mut **body)
        .filter(|body| is_change(body))
        .collect()
}

/// The text of a WITH in which rows are changed.
pub(in crate::rewrite) fn changing_with(query: &Query) -> Option<String> {
    let with = query.with.as_ref()?;
    let mut tables = with.cte_tables.iter();
    tables
        .any(|cte| is_change(&cte.query.body))
        .then(|| with.to_string())
}

/// Whether a body changes rows.
pub(in crate::rewrite) fn is_change(body: &SetExpr) -> bool {
    match body {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => true,
        SetExpr::Select(_)
        | SetExpr::Query(_)
        | SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left: _,
            right: _,
        }
        | SetExpr::Values(_)
        | SetExpr::Table(_) => false,
    }
}

/// What rows must be like that are `changed`, unless all that are `reached` are like that.
pub(in crate::rewrite) fn unimplied<'c>(
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
            (!disclosure::follows(rest, known)).then_some(rest)
        }
    }
}

/// What is left of `predicate` where the columns of `row` are written.
fn folded(
    predicate: &Predicate,
    row: &BTreeMap<u16, Held>,
    relation: &Relation,
) -> Result<Folded, Rejection> {
    let present = row.iter().filter(|(_, held)| **held == Held::Present);
    let present: BTreeSet<u16> = present.map(|(index, _)| *index).collect();
    let predicate = with_present(predicate, &present);
    let mut looked = BTreeSet::new();
    row_filter::columns(&predicate, &mut looked);
    let mut known = BTreeMap::new();
    for index in looked {
        match row.get(&index) {
            Some(Held::Known(value)) => {
                known.insert(index, value.clone());
            }
            Some(Held::Present | Held::Unknown) => {
                return Err(undecided(relation, relation.column(index)));
            }
            None => {}
        }
    }
    fold(&predicate, &known).map_err(|fold::Undecided| undecided(relation, None))
}

/// The relations that a part of a statement reads, views and what stands below them included.
struct Reading<'r> {
    references: &'r [Reference],
    found: BTreeSet<RelationId>,
}

impl Reading<'_> {
    fn read(&mut self, reference: &Reference) {
        self.found.insert(reference.relation);
        if let Some(body) = &reference.body {
            for inner in &body.resolved.references {
                self.read(inner);
            }
        }
    }
}

impl Visitor for Reading<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            alias: _,
            args: _,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = factor
        {
            let references = self.references;
            match reference_index(name) {
                Some(index) => references.get(index..=index),
                // A common table expression, which reads any of them.
                None => Some(references),
            }
            .into_iter()
            .flatten()
            .for_each(|reference| self.read(reference));
        }
        ControlFlow::Continue(())
    }
}

pub(in crate::rewrite) fn not_admitted(message: &str) -> Rejection {
    Rejection::new(Code::WriteRowNotAdmitted, message)
}

fn unseen(unknown: &Unknown) -> Rejection {
    not_admitted(&format!(
        "policy looks at columns that the update of the row in the way leaves as they are, and that row cannot be \
         looked for{unknown}; or assign those columns too"
    ))
}

pub(in crate::rewrite) fn unassigned(relation: &Relation, index: u16) -> Rejection {
    let column = relation.column(index);
    let name = column.map_or("", |c| &*c.name);
    let instead = match column.and_then(|c| c.generated.as_ref()) {
        Some(_) => {
            "which the table computes by itself: before they are added, nobody can tell what it holds"
        }
        None => "and the statement gives it no value",
    };
    not_admitted(&format!(
        "policy looks at column `{name}` of new rows, {instead}"
    ))
}

pub(in crate::rewrite) fn undecided(relation: &Relation, column: Option<&Column>) -> Rejection {
    match column {
        Some(column) if column.generated.is_some() => not_admitted(&format!(
            "policy looks at column `{}` of new rows, which the table computes from what is assigned: before that, nobody can \
             tell what it holds",
            column.name
        )),
        Some(column) => not_admitted(&format!(
            "policy looks at column `{}` of new rows: write it as a literal or parameter of the column's type",
            column.name
        )),
        None => not_admitted(&format!(
            "nobody can tell whether the new rows of `{}` are ones that policy admits",
            relation.name
        )),
    }
}

pub(in crate::rewrite) fn inapplicable(what: &str, relation: &Relation) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!(
            "{what} could reach rows of `{}` that policy keeps apart",
            relation.name
        ),
    )
}
