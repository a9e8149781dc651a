//! MERGE, as PostgreSQL has it.

use sqlparser::ast::{
    Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind,
    MergeUpdateExpr, MergeUpdateKind, ObjectName, Parens, Values,
};

use super::{
    Resolver,
    query::Ctes,
    scope::{Output, Scope},
    unsupported,
    write::Target,
};
use crate::{
    access::Usage,
    catalog::{Change, ColumnId, Relation},
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
};

impl<'a> Resolver<'a> {
    pub(super) fn merge_into(
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
        optimizer_hints.clear();
        *into = true;
        let mut scope = Scope::inside(Dialect::Postgres, None);
        self.await_target(self.factor_key(table), Change::Update);
        self.table_factor(table, &mut scope, ctes)?;
        let (relation, target) = self.claimed_target()?;
        self.table_factor(source, &mut scope, ctes)?;
        self.predicate(on, &scope, ctes, Usage::Join)?;
        for MergeClause {
            when_token: _,
            clause_kind,
            predicate,
            action,
        } in clauses
        {
            // Rows of the target that nothing matches are not chosen by the condition.
            let conditioned = match clause_kind {
                MergeClauseKind::Matched
                | MergeClauseKind::NotMatched
                | MergeClauseKind::NotMatchedByTarget => true,
                MergeClauseKind::NotMatchedBySource => predicate.is_some(),
            };
            if let Some(predicate) = predicate {
                self.predicate(predicate, &scope, ctes, Usage::Filter)?;
            }
            match action {
                MergeAction::DoNothing {
                    do_token: _,
                    nothing_token: _,
                } => {}
                MergeAction::Delete { delete_token: _ } => {
                    self.change(relation, Change::Delete, conditioned);
                }
                MergeAction::Update(MergeUpdateExpr {
                    update_token: _,
                    kind: MergeUpdateKind::Set(assignments),
                    update_predicate: None,
                    delete_predicate: None,
                }) => {
                    let updated = self.assignments(assignments, relation, &scope, ctes)?;
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
        self.targets.push(Target {
            joined: true,
            ..target
        });
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
                .map(|name| self.assigned(relation, name))
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
