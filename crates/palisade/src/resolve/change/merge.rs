//! MERGE, as PostgreSQL has it.

use sqlparser::ast::{
    Expr, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind,
    MergeUpdateExpr, MergeUpdateKind, ObjectName, Parens, TableWithJoins, Values,
};

use crate::resolve::{
    Resolver, not_as_decided,
    query::Ctes,
    refuse_unsupported,
    scope::{Output, Scope},
};
use crate::{
    access::Usage,
    catalog::{Change, ColumnId, Relation},
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
};

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
            return Err(refuse_unsupported("MERGE"));
        }
        if output.is_some() {
            return Err(refuse_unsupported("RETURNING or OUTPUT in MERGE"));
        }
        // The rewriter refuses a MERGE over a filtered target.
        if self.write_filter().is_some() {
            return Err(not_as_decided("a write filter is decided for a MERGE"));
        }
        let is_idle = |clause: &MergeClause| match clause.action {
            MergeAction::DoNothing {
                do_token: _,
                nothing_token: _,
            } => true,
            MergeAction::Insert(_)
            | MergeAction::Update(_)
            | MergeAction::Delete { delete_token: _ } => false,
        };
        // No policy would have decided about a change of its target.
        if clauses.iter().all(is_idle) {
            return Err(refuse_unsupported("a MERGE that changes nothing"));
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
        self.on_filtered_rows(false, |resolver| {
            resolver.resolve_condition(on, &scope, ctes, Usage::Join)
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
                    resolver.resolve_condition(predicate, &scope, ctes, Usage::Filter)
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
                    return Err(refuse_unsupported("an action of this form in MERGE"));
                }
            }
        }
        self.changes.targets.push(target);
        Ok(Vec::new())
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
            return Err(refuse_unsupported("values of this form in MERGE"));
        };
        let [
            Parens {
                opening_token: _,
                content,
                closing_token: _,
            },
        ] = rows.as_mut_slice()
        else {
            return Err(refuse_unsupported("several rows in MERGE"));
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
        let mut given = Vec::with_capacity(content.len());
        for value in content {
            given.push(self.assigned_value(value, scope, ctes)?);
        }
        self.assign(&assigned, &given)?;
        Ok(())
    }
}
