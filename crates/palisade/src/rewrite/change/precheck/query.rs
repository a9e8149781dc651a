//! The query that finds a row for which policy refuses a change.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{
    BinaryOperator, Cte, Delete, Expr, FromTable, GroupByExpr, Ident, Insert, ObjectName,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, SetExpr, Statement, TableFactor,
    TableObject, TableWithJoins, Update, UpdateTableFromKind, With,
};

use crate::rewrite::{
    ast,
    change::precheck::ViolationQuery,
    change::{upsert::on_conflict::Proposed, write_filter},
    refusal::not_as_decided,
};
use crate::{
    catalog::Catalog,
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    resolve::{Placement, WriteFilter, WriteObligations},
    syntax::{self, TableRole, TreeVisitor, encode, key, table_role, visit_tree},
};

/// The query that finds a row of `change` that is not admitted. `target` is its own among the references, and `with` stands
/// before the statement.
///
/// # Errors
/// `write.row-not-admitted` where what it looks at is only there once another change has run.
pub(in crate::rewrite) fn violation_query(
    change: &SetExpr,
    obligations: &WriteObligations,
    violation: &ViolationQuery,
    target: Option<usize>,
    with: Option<&With>,
    catalog: &Catalog,
) -> Result<Query, Rejection> {
    let dialect = catalog.dialect();
    let misplaced = || not_as_decided("a change of another form");
    let mut query = match (change, violation) {
        (
            SetExpr::Update(Statement::Update(update)),
            ViolationQuery::Target {
                within,
                admitted,
                violation: _,
            },
        ) => {
            let reached = rows_of_update(update, within.as_deref(), target)?;
            select_target_rows(reached, admitted, dialect)
        }
        (
            SetExpr::Delete(Statement::Delete(delete)),
            ViolationQuery::Target {
                within,
                admitted,
                violation: _,
            },
        ) => {
            let reached = rows_of_delete(delete, within.as_deref(), target)?;
            select_target_rows(reached, admitted, dialect)
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::Rows {
                admitted,
                violation: _,
            },
        ) => {
            let admission = obligations.admission.as_ref().ok_or_else(misplaced)?;
            let source = insert.source.clone().ok_or_else(misplaced)?;
            let mut query = *admission.wrap(source);
            let SetExpr::Select(select) = &mut *query.body else {
                return Err(misplaced());
            };
            select.projection = vec![ast::select_one(dialect)];
            select.selection = Some(ast::not_true((**admitted).clone()));
            query
        }
        (SetExpr::Insert(Statement::Insert(_)), ViolationQuery::Values { admitted }) => {
            // MySQL has no WHERE without FROM.
            let one = ast::select(vec![ast::select_one(dialect)], None, None);
            let one = TableFactor::Derived {
                lateral: false,
                subquery: Box::new(one),
                alias: Some(ast::alias(encode("one_row", dialect))),
                sample: None,
            };
            let refused = ast::not_true((**admitted).clone());
            ast::select(vec![ast::select_one(dialect)], one, Some(refused))
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::Conflicts {
                within,
                admitted,
                proposed,
            },
        ) => conflicting_rows(insert, within.as_deref(), admitted, proposed, dialect)?,
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::RepeatedKeys { keys, proposed },
        ) => duplicate_keys(insert, keys, proposed, dialect)?,
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::KeyConflicts {
                alias,
                conflict,
                admitted,
                violation: _,
            },
        ) => {
            let target = target_as(insert, alias)?;
            let conditions = vec![(**conflict).clone(), ast::not_true((**admitted).clone())];
            let condition = ast::join_by(conditions, &BinaryOperator::And, true);
            ast::select(vec![ast::select_one(dialect)], target, Some(condition))
        }
        _ => return Err(misplaced()),
    };
    query.limit_clause = Some(ast::limit_to(ast::integer(1)));
    prepend_ctes(&mut query, with, dialect)?;
    Ok(query)
}

/// The rows that a change reaches.
struct ReachedRows {
    tables: Vec<TableWithJoins>,
    condition: Option<Expr>,
    order_by: Vec<OrderByExpr>,
    limit: Option<Expr>,
}

/// Those of an UPDATE that is kept `within`.
fn rows_of_update(
    update: &Update,
    within: Option<&WriteFilter>,
    target: Option<usize>,
) -> Result<ReachedRows, Rejection> {
    let mut update = update.clone();
    if let Some(within) = within {
        write_filter::filter_update(&mut update, within, target)?;
    }
    let Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments: _,
        from,
        selection: condition,
        returning: _,
        output: _,
        or: _,
        order_by,
        limit,
    } = update;
    let mut tables = vec![table];
    match from {
        None => {}
        Some(UpdateTableFromKind::AfterSet(more)) => tables.extend(more),
        Some(UpdateTableFromKind::BeforeSet(_)) => {
            return Err(not_as_decided("a change of another form"));
        }
    }
    Ok(ReachedRows {
        tables,
        condition,
        order_by,
        limit,
    })
}

/// Those of a DELETE that is kept `within`.
fn rows_of_delete(
    delete: &Delete,
    within: Option<&WriteFilter>,
    target: Option<usize>,
) -> Result<ReachedRows, Rejection> {
    let Delete {
        delete_token: _,
        optimizer_hints: _,
        tables: _,
        from: FromTable::WithFromKeyword(tables),
        using,
        selection,
        returning: _,
        output: _,
        order_by,
        limit,
    } = delete
    else {
        return Err(not_as_decided("a change of another form"));
    };
    let (mut tables, mut condition) = (tables.clone(), selection.clone());
    if let Some(within) = within {
        write_filter::filter_rows(&mut tables, &mut condition, within, target)?;
    }
    tables.extend(using.iter().flatten().cloned());
    Ok(ReachedRows {
        tables,
        condition,
        order_by: order_by.clone(),
        limit: limit.clone(),
    })
}

/// One of the rows that are `reached` and are not `admitted`.
fn select_target_rows(reached: ReachedRows, admitted: &Expr, dialect: Dialect) -> Query {
    let ReachedRows {
        tables,
        condition,
        order_by,
        limit,
    } = reached;
    let refused = ast::not_true(admitted.clone());
    let Some(limit) = limit else {
        let conditions = condition.into_iter().chain([refused]).collect();
        let condition = ast::join_by(conditions, &BinaryOperator::And, true);
        return ast::select_from(vec![ast::select_one(dialect)], tables, Some(condition));
    };
    // Which rows those are that the limit takes is settled before any of them is looked at.
    let mut taken = ast::select_from(
        vec![ast::item(dialect, refused, REFUSED)],
        tables,
        condition,
    );
    taken.order_by = (!order_by.is_empty()).then_some(OrderBy {
        kind: OrderByKind::Expressions(order_by),
        interpolate: None,
    });
    taken.limit_clause = Some(ast::limit_to(limit));
    let taken = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(taken),
        alias: Some(ast::alias(encode("taken_rows", dialect))),
        sample: None,
    };
    ast::select(
        vec![ast::select_one(dialect)],
        taken,
        Some(ast::column(dialect, REFUSED)),
    )
}

/// The table that `insert` adds to, called `alias`.
pub(in crate::rewrite) fn target_as(
    insert: &Insert,
    alias: &Ident,
) -> Result<TableFactor, Rejection> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(not_as_decided("a change of another form"));
    };
    Ok(TableFactor::Table {
        name: name.clone(),
        alias: Some(ast::alias(alias.clone())),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    })
}

fn conflicting_rows(
    insert: &Insert,
    within: Option<&WriteFilter>,
    admitted: &Expr,
    proposed: &Proposed,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let target = target_as(insert, &proposed.alias)?;
    let rows = proposed
        .rows_table(insert, dialect)
        .ok_or_else(|| not_as_decided("an upsert of other rows"))?;
    let tables = [target, rows].map(|relation| TableWithJoins {
        relation,
        joins: Vec::new(),
    });
    let within = within.map(|write_filter| ast::parens(write_filter.condition.clone()));
    let reached = within
        .into_iter()
        .chain([proposed.conflict_condition()])
        .collect();
    let reached = ast::join_by(reached, &BinaryOperator::And, true);
    let mut conditions = vec![reached.clone(), ast::not_true(admitted.clone())];
    if let Some(own) = proposed.condition(insert, dialect) {
        // It may fail, and is tried on no other rows than in the change.
        let fence = WriteFilter {
            condition: reached,
            placement: Placement::Around,
        };
        conditions.push(fence.wrap(Some(own), 0));
    }
    let condition = ast::join_by(conditions, &BinaryOperator::And, true);
    Ok(ast::select_from(
        vec![ast::select_one(dialect)],
        tables.into(),
        Some(condition),
    ))
}

fn duplicate_keys(
    insert: &Insert,
    keys: &[Expr],
    proposed: &Proposed,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let rows = proposed
        .rows_table(insert, dialect)
        .ok_or_else(|| not_as_decided("an upsert of other rows"))?;
    // A NULL in a key conflicts with no row.
    let given = keys
        .iter()
        .map(|key| Expr::IsNotNull(Box::new(ast::parens(key.clone()))))
        .collect();
    let given = ast::join_by(given, &BinaryOperator::And, true);
    let mut query = ast::select(vec![ast::select_one(dialect)], rows, Some(given));
    if let SetExpr::Select(select) = &mut *query.body {
        select.group_by = GroupByExpr::Expressions(keys.to_vec(), Vec::new());
        select.having = Some(ast::binary(
            ast::call(dialect, "count", vec![ast::integer(1)]),
            BinaryOperator::Gt,
            ast::integer(1),
        ));
    }
    Ok(query)
}

const REFUSED: &str = "refused";

/// Puts those tables of `with` before `query` that it reads.
///
/// # Errors
/// `write.row-not-admitted` if one of them is a change: what it gives back is only there once it has run.
pub(in crate::rewrite) fn prepend_ctes(
    query: &mut Query,
    with: Option<&With>,
    dialect: Dialect,
) -> Result<(), Rejection> {
    let Some(With {
        with_token: _,
        recursive,
        cte_tables,
    }) = with
    else {
        return Ok(());
    };
    let mut names = CteNames {
        dialect,
        found: BTreeSet::new(),
    };
    let _ = visit_tree(query, &mut names);
    let name = |cte: &Cte| key(&cte.alias.name, dialect).into_owned();
    // Each reads what stands before it, or beside it where they are recursive.
    let mut needed = BTreeSet::new();
    while let Some(cte) = cte_tables
        .iter()
        .find(|cte| names.found.contains(&name(cte)) && !needed.contains(&name(cte)))
    {
        needed.insert(name(cte));
        let _ = visit_tree(cte, &mut names);
    }
    let mut tables = Vec::with_capacity(needed.len());
    for cte in cte_tables.iter().filter(|cte| needed.contains(&name(cte))) {
        if syntax::is_change(&cte.query.body) {
            return Err(depends_on_change());
        }
        tables.push(cte.clone());
    }
    if tables.is_empty() {
        return Ok(());
    }
    let own = query.with.take();
    let is_recursive = *recursive || own.as_ref().is_some_and(|own| own.recursive);
    tables.extend(own.into_iter().flat_map(|own| own.cte_tables));
    query.with = Some(With {
        with_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        recursive: is_recursive,
        cte_tables: tables,
    });
    Ok(())
}

fn depends_on_change() -> Rejection {
    Rejection::new(
        Code::WriteRowNotAdmitted,
        "the rows depend on what another change in the same statement gives back, so policy cannot check them before it runs: \
         write two statements, one after the other",
    )
}

/// CteNames without a schema: in a normalised tree those of common table expressions alone.
struct CteNames {
    dialect: Dialect,
    found: BTreeSet<String>,
}

impl TreeVisitor for CteNames {
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match table_role(factor) {
            TableRole::Named(ObjectName(parts)) | TableRole::Called(ObjectName(parts)) => {
                if let [ObjectNamePart::Identifier(name)] = parts.as_slice() {
                    self.found.insert(key(name, self.dialect).into_owned());
                }
            }
            TableRole::Other => {}
        }
        ControlFlow::Continue(())
    }
}
