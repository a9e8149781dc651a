//! MERGE over a target of which policy keeps rows apart (PostgreSQL).
//!
//! To whom a row is not shown, it is not there: ON does not match it. A row that is shown and may not be changed matches, and
//! stays as it is before any clause of the statement's own is tried. What rows must be like afterwards (`add`) is folded for each
//! clause as for UPDATE and INSERT; what is left is a condition of the clause, and rows of which it does not hold are
//! looked for first: they refuse the statement.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, Merge, MergeAction,
    MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr,
    MergeUpdateKind, ObjectName, Parens, Query, TableWithJoins, Values, VisitMut, VisitorMut,
};

use crate::rewrite::{
    ast,
    change::{
        Job, Reads, inapplicable,
        new_row::{
            converted::{Held, typed},
            fold,
            fold::{Folded, fold},
            storage,
        },
        not_admitted as outside,
        precheck::{Doubt, Found, foreign_keys::Looked, one, refused, select},
        unassigned, undecided, unimplied,
    },
    not_as_decided,
    source::row_filter,
};
use crate::{
    catalog::{Change, Column, Relation},
    dialect::Dialect,
    policy::{WriteDecision, obligation::RowFilter},
    rejection::Rejection,
    resolve::{ClauseForm, MergeForm, Placement, WriteForm, WriteGuard, is_default},
    syntax::encode,
};

impl Job<'_> {
    /// What must stand in a MERGE, and what must be looked for before it.
    pub(in crate::rewrite) fn merge(
        &self,
        merge: &Merge,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        (form, reads, looked): (&mut WriteForm, &mut Reads, &mut Looked),
        functions: &mut BTreeSet<String>,
    ) -> Result<Vec<Doubt>, Rejection> {
        let rows = [seen, &write.change, &write.add];
        if rows.into_iter().all(|rows| *rows == RowFilter::Everything)
            && self.permit.kept_apart().is_empty()
        {
            return Ok(Vec::new());
        }
        form.guard = self.guard(&[seen], relation, true, reads, functions)?;
        let mut all = MergeForm::default();
        let mut doubts = Vec::new();
        let mut matches = false;
        for (number, clause) in merge.clauses.iter().enumerate() {
            let MergeClause {
                when_token: _,
                clause_kind,
                predicate: _,
                action,
            } = clause;
            match clause_kind {
                MergeClauseKind::Matched => matches = true,
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {}
                // Every row that is not shown would be one of them.
                MergeClauseKind::NotMatchedBySource => {
                    return Err(inapplicable("WHEN NOT MATCHED BY SOURCE", relation));
                }
            }
            let mut untouched = None;
            let mut own = match action {
                MergeAction::DoNothing {
                    do_token: _,
                    nothing_token: _,
                } => ClauseForm::default(),
                MergeAction::Delete { delete_token: _ } => {
                    untouched = self.untouched(relation, Change::Delete, &[], looked, functions)?;
                    ClauseForm::default()
                }
                MergeAction::Update(MergeUpdateExpr {
                    update_token: _,
                    kind: MergeUpdateKind::Set(assignments),
                    update_predicate: None,
                    delete_predicate: None,
                }) => {
                    let row = self.constants(assignments, Change::Update, relation);
                    let changed = self.left(&write.add, seen, &row, relation)?;
                    let admitted = match unimplied(&changed, &[seen, &write.change]) {
                        None => None,
                        Some(rest) => {
                            row_filter::columns(rest, reads);
                            Some(self.condition(rest, relation, true, functions)?)
                        }
                    };
                    let updated = self.assigned(assignments, relation);
                    untouched =
                        self.untouched(relation, Change::Update, &updated, looked, functions)?;
                    ClauseForm {
                        admitted,
                        types: Vec::new(),
                    }
                }
                MergeAction::Insert(MergeInsertExpr {
                    insert_token: _,
                    columns,
                    kind_token: _,
                    kind:
                        MergeInsertKind::Values(Values {
                            explicit_row: _,
                            value_keyword: _,
                            rows,
                        }),
                    insert_predicate: None,
                }) => {
                    let [
                        Parens {
                            opening_token: _,
                            content,
                            closing_token: _,
                        },
                    ] = rows.as_slice()
                    else {
                        return Err(not_as_decided("a MERGE of another form"));
                    };
                    self.inserted(columns, content, relation, &write.add, functions)?
                }
                MergeAction::Update(_) | MergeAction::Insert(_) => {
                    return Err(not_as_decided("a MERGE of another form"));
                }
            };
            let mut doubt = |admitted: &Expr, found| {
                doubts.push(Doubt::Clause {
                    clause: number,
                    admitted: Box::new(admitted.clone()),
                    found,
                });
            };
            if let Some(admitted) = &own.admitted {
                doubt(admitted, Found::NotAdmitted);
            }
            if let Some(untouched) = untouched {
                doubt(&untouched, Found::OutOfReach);
                let admitted = own.admitted.take().into_iter().map(ast::parens);
                let conditions = admitted.chain([untouched]).collect();
                own.admitted = Some(ast::joined(conditions, &BinaryOperator::And, true));
            }
            all.clauses.push(own);
        }
        let is_open = match &write.change {
            RowFilter::Everything => true,
            RowFilter::Nothing => false,
            RowFilter::Where(_) => unimplied(&write.change, &[seen]).is_none(),
        };
        if matches && !is_open {
            let guard = self.guard(&[&write.change], relation, true, reads, functions)?;
            all.changeable = guard.map(|guard| guard.condition);
        }
        form.merge = Some(all);
        Ok(doubts)
    }

    /// What must stand in a clause that inserts these values.
    fn inserted(
        &self,
        columns: &[ObjectName],
        values: &[Expr],
        relation: &Relation,
        add: &RowFilter,
        functions: &mut BTreeSet<String>,
    ) -> Result<ClauseForm, Rejection> {
        let predicate = match add {
            RowFilter::Everything => return Ok(ClauseForm::default()),
            RowFilter::Nothing => return Err(outside("no row may be added")),
            RowFilter::Where(predicate) => predicate,
        };
        let columns: Option<Vec<(u16, &Column)>> = columns
            .iter()
            .map(|name| self.column(relation, name))
            .collect();
        let columns = columns.ok_or_else(|| not_as_decided("a column of another relation"))?;
        let mut looked = BTreeSet::new();
        row_filter::columns(predicate, &mut looked);
        let mut known = BTreeMap::new();
        let mut given = BTreeMap::new();
        for index in looked {
            let position = columns.iter().position(|(column, _)| *column == index);
            let found = position.and_then(|at| Some((at, columns.get(at)?.1, values.get(at)?)));
            let (at, column, value) = match found {
                Some(found) if !is_default(found.2) => found,
                found => match self.by_default(index, Change::Insert, relation) {
                    Held::Known(constant) => {
                        known.insert(index, constant);
                        continue;
                    }
                    Held::Present | Held::Unknown => {
                        return Err(match found {
                            Some((_, column, _)) => undecided(relation, Some(column)),
                            None => unassigned(relation, index),
                        });
                    }
                },
            };
            match self.constant(value, column) {
                Some(constant) => {
                    known.insert(index, constant);
                }
                None => {
                    given.insert(index, (at, column, value));
                }
            }
        }
        let rest =
            match fold(predicate, &known).map_err(|fold::Undecided| undecided(relation, None))? {
                Folded::Known(Some(true)) => return Ok(ClauseForm::default()),
                Folded::Known(Some(false) | None) => {
                    return Err(outside("a row would be outside of what policy admits"));
                }
                Folded::Rest(rest) => rest,
            };
        let dialect = self.catalog.dialect();
        let mut admitted = row_filter::expression(&rest, relation, dialect, functions)?;
        let mut fitting = Vec::new();
        let mut types = vec![None; values.len()];
        let mut given_as = Vec::with_capacity(given.len());
        for (at, column, value) in given.into_values() {
            // It is looked at before it is stored, and is the same both times.
            if !is_column(value) {
                return Err(unknown(relation, column));
            }
            let behind = storage::behind(column, self.catalog);
            let value = typed(ast::parens(value.clone()), &behind, dialect);
            let Some(Expr::Cast {
                kind,
                expr,
                data_type,
                format,
            }) = value
            else {
                return Err(undecided(relation, Some(column)));
            };
            if let Some(place) = types.get_mut(at) {
                *place = Some(data_type.clone());
            }
            let value = Expr::Cast {
                kind,
                expr,
                data_type,
                format,
            };
            fitting.extend(storage::kept(&value, &behind, dialect, functions));
            given_as.push((encode(&column.name, dialect), value));
        }
        let _ = VisitMut::visit(&mut admitted, &mut Storing { stored: &given_as });
        let conditions = [admitted].into_iter().chain(fitting).collect();
        Ok(ClauseForm {
            admitted: Some(ast::joined(conditions, &BinaryOperator::And, true)),
            types,
        })
    }
}

/// The query that finds a row of which a MERGE chooses a `clause`, and that is not `admitted`.
pub(in crate::rewrite) fn not_admitted(
    merge: &Merge,
    form: &WriteForm,
    clause: usize,
    admitted: &Expr,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let misplaced = || not_as_decided("a MERGE of another form");
    let Merge {
        merge_token: _,
        optimizer_hints: _,
        into: _,
        table,
        source,
        on,
        clauses,
        output: _,
    } = merge;
    let own = form.merge.as_ref().ok_or_else(misplaced)?;
    let chosen = clauses.get(clause).ok_or_else(misplaced)?;
    let kind = chosen.clause_kind;
    let mut arms = Vec::new();
    if let Some(changeable) = &own.changeable
        && kind == MergeClauseKind::Matched
    {
        arms.push((refused(changeable.clone()), ast::boolean(false)));
    }
    let earlier = clauses.iter().take(clause);
    for before in earlier.filter(|before| is_same(before.clause_kind, kind)) {
        let applies = before
            .predicate
            .clone()
            .map_or(ast::boolean(true), ast::parens);
        arms.push((applies, ast::boolean(false)));
    }
    let applies = chosen
        .predicate
        .clone()
        .map_or(ast::boolean(true), ast::parens);
    arms.push((applies, refused(admitted.clone())));
    let found = ast::case(arms, Some(ast::boolean(false)));
    let on = match &form.guard {
        Some(guard) => guard.wrap(Some((**on).clone()), 0),
        None => ast::parens((**on).clone()),
    };
    // Conditions of clauses may fail, and are tried on no other rows than in the change.
    let around = |condition: Expr| {
        let fence = WriteGuard {
            condition,
            placement: Placement::Around,
        };
        fence.wrap(Some(found), 0)
    };
    let tables = |relation, joins| vec![TableWithJoins { relation, joins }];
    Ok(match kind {
        MergeClauseKind::Matched => {
            let join = Join {
                relation: source.clone(),
                global: false,
                join_operator: JoinOperator::Inner(JoinConstraint::On(on.clone())),
            };
            let tables = tables(table.clone(), vec![join]);
            select(vec![one(dialect)], tables, Some(around(on)))
        }
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
            let matching = select(
                vec![one(dialect)],
                tables(table.clone(), Vec::new()),
                Some(on),
            );
            let unmatched = Expr::Exists {
                subquery: Box::new(matching),
                negated: true,
            };
            let tables = tables(source.clone(), Vec::new());
            select(vec![one(dialect)], tables, Some(around(unmatched)))
        }
        MergeClauseKind::NotMatchedBySource => return Err(misplaced()),
    })
}

/// Whether clauses of two kinds are for the same rows.
fn is_same(one: MergeClauseKind, other: MergeClauseKind) -> bool {
    let is_target = |kind| match kind {
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => true,
        MergeClauseKind::Matched | MergeClauseKind::NotMatchedBySource => false,
    };
    one == other || (is_target(one) && is_target(other))
}

/// Whether a value is a column as it is.
fn is_column(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_column(inner),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        _ => false,
    }
}

/// Puts what columns are given in their place.
struct Storing<'s> {
    stored: &'s [(Ident, Expr)],
}

impl VisitorMut for Storing<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some((_, value)) = self.stored.iter().find(|(column, _)| column == name)
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

fn unknown(relation: &Relation, column: &Column) -> Rejection {
    outside(&format!(
        "policy looks at column `{}` of new rows of `{}`: give it a literal, a parameter or a column of the source, of the column's type",
        column.name, relation.name
    ))
}
