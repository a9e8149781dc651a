//! MERGE, as PostgreSQL has it.

use sqlparser::ast::{
    CaseWhen, CastKind, DataType, Expr, Merge, MergeAction, MergeClause, MergeClauseKind,
    MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, MergeUpdateKind, ObjectName, Parens,
    TableWithJoins, Value, Values, helpers::attached_token::AttachedToken,
};

use crate::resolve::{
    Mode, Resolver,
    change::guard::Unguarded,
    query::Ctes,
    scope::{Output, Scope},
    unsupported,
};
use crate::{
    access::Usage,
    catalog::{Change, ColumnId, Relation},
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
};

/// What stands in a MERGE beside the guard of its ON.
#[derive(Debug, Clone, Default)]
pub(crate) struct MergeForm {
    /// What rows are like that may be changed: others that match stay as they are, by a clause before all others.
    pub(crate) changeable: Option<Expr>,
    /// For each clause of the statement's own.
    pub(crate) clauses: Vec<ClauseForm>,
}

/// What stands in a clause of a MERGE.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClauseForm {
    /// What must hold where its own condition does.
    pub(crate) admitted: Option<Expr>,
    /// The types that values are given which policy looks at.
    pub(crate) types: Vec<Option<DataType>>,
}

impl MergeForm {
    /// Puts the form into the clauses.
    pub(crate) fn put(&self, clauses: &mut Vec<MergeClause>) {
        for (clause, form) in clauses.iter_mut().zip(&self.clauses) {
            if let Some(admitted) = &form.admitted {
                clause.predicate = Some(match clause.predicate.take() {
                    None => nest(admitted.clone()),
                    Some(own) => case(nest(own), nest(admitted.clone()), false),
                });
            }
            for (value, data_type) in values_of(&mut clause.action).zip(&form.types) {
                if let Some(data_type) = data_type {
                    *value = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(nest(value.clone())),
                        data_type: data_type.clone(),
                        format: None,
                    };
                }
            }
        }
        clauses.splice(0..0, self.first());
    }

    /// Takes it out again; an error if it is not there.
    fn take(&self, clauses: &mut Vec<MergeClause>) -> Result<(), Unguarded> {
        if let Some(first) = self.first()
            && (clauses.is_empty() || clauses.remove(0) != first)
        {
            return Err(Unguarded);
        }
        if clauses.len() != self.clauses.len() {
            return Err(Unguarded);
        }
        for (clause, form) in clauses.iter_mut().zip(&self.clauses) {
            if let Some(admitted) = &form.admitted {
                clause.predicate = match clause.predicate.take() {
                    Some(expr) if expr == nest(admitted.clone()) => None,
                    Some(Expr::Case {
                        case_token: _,
                        end_token: _,
                        operand: None,
                        mut conditions,
                        else_result: Some(otherwise),
                    }) if *otherwise == boolean(false) && conditions.len() == 1 => {
                        match conditions.pop() {
                            Some(CaseWhen {
                                condition: Expr::Nested(own),
                                result,
                            }) if result == nest(admitted.clone()) => Some(*own),
                            _ => return Err(Unguarded),
                        }
                    }
                    _ => return Err(Unguarded),
                };
            }
            let mut given = values_of(&mut clause.action);
            for wanted in &form.types {
                match (given.next(), wanted) {
                    (Some(_), None) => {}
                    (Some(value), Some(wanted)) => match value {
                        Expr::Cast {
                            kind: CastKind::Cast,
                            expr,
                            data_type,
                            format: None,
                        } if data_type == wanted => match &**expr {
                            Expr::Nested(own) => *value = (**own).clone(),
                            _ => return Err(Unguarded),
                        },
                        _ => return Err(Unguarded),
                    },
                    (None, _) => return Err(Unguarded),
                }
            }
        }
        Ok(())
    }

    /// `WHEN MATCHED AND` the row may not be changed `THEN DO NOTHING`
    fn first(&self) -> Option<MergeClause> {
        let changeable = self.changeable.clone()?;
        let kept = case(nest(changeable), boolean(false), true);
        Some(MergeClause {
            when_token: AttachedToken::empty(),
            clause_kind: MergeClauseKind::Matched,
            predicate: Some(kept),
            action: MergeAction::DoNothing {
                do_token: AttachedToken::empty(),
                nothing_token: AttachedToken::empty(),
            },
        })
    }
}

/// The values that an action inserts.
fn values_of(action: &mut MergeAction) -> impl Iterator<Item = &mut Expr> {
    let rows = if let MergeAction::Insert(MergeInsertExpr {
        insert_token: _,
        columns: _,
        kind_token: _,
        kind:
            MergeInsertKind::Values(Values {
                explicit_row: _,
                value_keyword: _,
                rows,
            }),
        insert_predicate: _,
    }) = action
    {
        rows.as_mut_slice()
    } else {
        &mut []
    };
    rows.iter_mut().flat_map(|row| &mut row.content)
}

fn case(condition: Expr, result: Expr, otherwise: bool) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: Some(Box::new(boolean(otherwise))),
    }
}

fn nest(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn merge_into(
        &mut self,
        merge: &mut Merge,
        ctes: Ctes<'_>,
    ) -> Result<Vec<Output>, Rejection> {
        let Merge {
            merge_token: _,
            optimizer_hints,
            into,
            table,
            source,
            on,
            clauses,
            output,
        } = merge;
        if self.catalog.dialect() != Dialect::Postgres {
            return Err(unsupported("MERGE"));
        }
        if output.is_some() {
            return Err(unsupported("RETURNING or OUTPUT in MERGE"));
        }
        self.unguard_merge(on, clauses)?;
        let is_idle = |clause: &MergeClause| match clause.action {
            MergeAction::DoNothing {
                do_token: _,
                nothing_token: _,
            } => true,
            MergeAction::Insert(_)
            | MergeAction::Update(_)
            | MergeAction::Delete { delete_token: _ } => false,
        };
        // Nobody would have decided about a change of its target.
        if clauses.iter().all(is_idle) {
            return Err(unsupported("a MERGE that changes nothing"));
        }
        optimizer_hints.clear();
        *into = true;
        let mut scope = Scope::new(Dialect::Postgres, None);
        self.expect_target(self.factor_key(table), Change::Update);
        self.table_factor(table, &mut scope, ctes)?;
        let (relation, mut target) = self.take_target_in_from()?;
        self.table_factor(source, &mut scope, ctes)?;
        target.joined = true;
        scope.reached.take();
        // It is all that MERGE joins by, in one place.
        self.on_guarded_rows(false, |resolver| {
            resolver.predicate(on, &scope, ctes, Usage::Join)
        })?;
        let mut reached = scope.reached.take();
        let beside = TableWithJoins {
            relation: source.clone(),
            joins: Vec::new(),
        };
        let own = TableWithJoins {
            relation: table.clone(),
            joins: Vec::new(),
        };
        self.take_apart(&mut target, Some(on), &mut [], relation, &scope);
        for MergeClause {
            when_token: _,
            clause_kind,
            predicate,
            action,
        } in clauses
        {
            if let Some(predicate) = &mut *predicate {
                // It is asked of rows that ON has matched, or has not: the same ones by every plan.
                self.on_answered_rows(|resolver| {
                    resolver.predicate(predicate, &scope, ctes, Usage::Filter)
                })?;
                reached.append(&mut scope.reached.take());
            }
            let predicate = predicate.as_ref();
            let (tables, conditions): (&[_], Vec<&Expr>) = match clause_kind {
                MergeClauseKind::Matched
                | MergeClauseKind::NotMatched
                | MergeClauseKind::NotMatchedByTarget => (
                    &[&own, &beside],
                    std::iter::once(&**on).chain(predicate).collect(),
                ),
                // Rows of the target that nothing matches are not chosen by what would match.
                MergeClauseKind::NotMatchedBySource => (&[&own], predicate.into_iter().collect()),
            };
            let conditioned = self.is_conditioned(target.reference, tables, &conditions, &reached);
            match action {
                MergeAction::DoNothing {
                    do_token: _,
                    nothing_token: _,
                } => {}
                MergeAction::Delete { delete_token: _ } => {
                    target.conditioned &= conditioned;
                    self.change(relation, Change::Delete, conditioned);
                }
                MergeAction::Update(MergeUpdateExpr {
                    update_token: _,
                    kind: MergeUpdateKind::Set(assignments),
                    update_predicate: None,
                    delete_predicate: None,
                }) => {
                    target.conditioned &= conditioned;
                    let updated =
                        self.assignments(assignments, (relation, &target.qualifier), &scope, ctes)?;
                    self.change_columns(relation, Change::Update, conditioned, &updated);
                }
                MergeAction::Insert(MergeInsertExpr {
                    insert_token: _,
                    columns,
                    kind_token: _,
                    kind: MergeInsertKind::Values(values),
                    insert_predicate: None,
                }) => self.merged_row(columns, values, relation, &scope, ctes)?,
                MergeAction::Update(_) | MergeAction::Insert(_) => {
                    return Err(unsupported("an action of this form in MERGE"));
                }
            }
        }
        self.targets.push(target);
        Ok(Vec::new())
    }

    /// Takes off what must stand in a MERGE, where this is our own output.
    fn unguard_merge(
        &self,
        on: &mut Expr,
        clauses: &mut Vec<MergeClause>,
    ) -> Result<(), Rejection> {
        let missing = || self.not_as_decided("the guard of the target is missing");
        if let Some(guard) = self.guard() {
            let own = guard.extract_own(on.clone(), 0).map_err(|_| missing())?;
            *on = own.ok_or_else(missing)?;
        }
        let form = match self.mode {
            Mode::Rewritten { forms: _, writes } => writes.get(self.targets.len()),
            Mode::Statement | Mode::View { within: _ } => None,
        };
        match form.and_then(|form| form.merge.as_ref()) {
            Some(form) => form.take(clauses).map_err(|_| missing()),
            None => Ok(()),
        }
    }

    fn merged_row(
        &mut self,
        columns: &mut Vec<ObjectName>,
        values: &mut Values,
        relation: &'a Relation,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        self.change(relation, Change::Insert, true);
        let Values {
            explicit_row: false,
            value_keyword: false,
            rows,
        } = values
        else {
            return Err(unsupported("values of this form in MERGE"));
        };
        let [
            Parens {
                opening_token: _,
                content,
                closing_token: _,
            },
        ] = rows.as_mut_slice()
        else {
            return Err(unsupported("several rows in MERGE"));
        };
        let assigned: Vec<ColumnId> = if columns.is_empty() {
            let all: Vec<_> = self
                .assignable(relation)?
                .into_iter()
                .take(content.len())
                .collect();
            *columns = self.column_names(relation, &all);
            all
        } else {
            columns
                .iter_mut()
                .map(|name| self.assigned_column(relation, name))
                .collect::<Result<_, _>>()?
        };
        if assigned.len() != content.len() {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("{} values for {} columns", content.len(), assigned.len()),
            ));
        }
        for value in content {
            self.assigned_value(value, scope, ctes)?;
        }
        self.assign(&assigned)?;
        Ok(())
    }
}
