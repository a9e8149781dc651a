//! What must not be found before a change runs: rows that it would change, and that policy does not admit as they
//! would be afterwards.
//!
//! The change keeps within what is admitted whatever was found; it would leave out the rest, and who asked would take
//! what was done for what was asked. So the same rows are looked for first, by the same conditions, in the same
//! transaction. What is hidden is not looked at: rows count that may be seen and changed, and no others.

pub(in crate::rewrite) mod cascade_count;
pub(in crate::rewrite) mod foreign_keys;

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, Cte, Delete, Expr, FromTable, GroupByExpr, Ident, Insert, LimitClause,
    ObjectName, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr,
    Statement, TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Visit,
    Visitor, With,
};

use crate::rewrite::{
    ast, change,
    change::{guard, upsert::on_conflict::Proposed},
    refusal::not_as_decided,
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, functions::Safety},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    rejection::Rejection,
    resolve::{self, Guard, Mode, Stance, Visible, WriteForm},
    syntax::{Outline, ParsedQuery, encode, key},
    value::Value,
};

/// A query that must give no row when it runs in the transaction of a change, before it.
#[derive(Debug, PartialEq)]
pub struct Precheck {
    pub(in crate::rewrite) sql: Arc<str>,
    pub(in crate::rewrite) params: Vec<Value>,
    pub(in crate::rewrite) violation: Violation,
}

/// What it says of a change that a row is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A row would be one that policy does not admit.
    NotAdmitted,
    /// A row that may not be changed is in the way, as a constraint would say of an INSERT, or hangs on one that would be changed, as a
    /// foreign key without an action would.
    OutOfReach,
}

impl Precheck {
    /// The text to run, and nothing else.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values to bind, the first to the first parameter.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// What it says of the change if it gives a row.
    #[must_use]
    pub fn violation(&self) -> Violation {
        self.violation
    }
}

/// Which rows of a change may not be admitted.
#[derive(Debug)]
pub(in crate::rewrite) enum ViolationQuery {
    /// Rows of the target that pass `within`, if they are not `admitted`.
    Target {
        within: Option<Box<Guard>>,
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows of the query that an INSERT takes, if they are not `admitted`.
    Rows {
        admitted: Box<Expr>,
        violation: Violation,
    },
    /// Rows in the way of what an upsert proposes.
    InTheWay {
        within: Option<Box<Guard>>,
        admitted: Box<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows that an upsert proposes with equal `keys`.
    Twice {
        keys: Vec<Expr>,
        proposed: Box<Proposed>,
    },
    /// Rows of the target, called `alias`, that meet what an INSERT proposes, if they are not `admitted`.
    Met {
        alias: Ident,
        meets: Box<Expr>,
        admitted: Box<Expr>,
        violation: Violation,
    },
}

impl ViolationQuery {
    /// What it says of the change that a row is found.
    pub(in crate::rewrite) fn violation(&self) -> Violation {
        match self {
            Self::InTheWay {
                within: _,
                admitted: _,
                proposed: _,
            }
            | Self::Twice {
                keys: _,
                proposed: _,
            } => Violation::NotAdmitted,
            Self::Rows {
                admitted: _,
                violation,
            }
            | Self::Target {
                within: _,
                admitted: _,
                violation,
            }
            | Self::Met {
                alias: _,
                meets: _,
                admitted: _,
                violation,
            } => *violation,
        }
    }
}

/// The query that finds a row of `change` that is not admitted. `target` is its own among the references, and `with` stands
/// before the statement.
///
/// # Errors
/// `write.row-not-admitted` where what it looks at is only there once another change has run.
pub(in crate::rewrite) fn violation_query(
    change: &SetExpr,
    form: &WriteForm,
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
            let admission = form.admission.as_ref().ok_or_else(misplaced)?;
            let source = insert.source.clone().ok_or_else(misplaced)?;
            let mut query = *admission.around(source);
            let SetExpr::Select(select) = &mut *query.body else {
                return Err(misplaced());
            };
            select.projection = vec![select_one(dialect)];
            select.selection = Some(not_true((**admitted).clone()));
            query
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::InTheWay {
                within,
                admitted,
                proposed,
            },
        ) => conflicting_rows(insert, within.as_deref(), admitted, proposed, dialect)?,
        (SetExpr::Insert(Statement::Insert(insert)), ViolationQuery::Twice { keys, proposed }) => {
            duplicate_keys(insert, keys, proposed, dialect)?
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            ViolationQuery::Met {
                alias,
                meets,
                admitted,
                violation: _,
            },
        ) => {
            let target = target_as(insert, alias)?;
            let conditions = vec![(**meets).clone(), not_true((**admitted).clone())];
            let condition = ast::join_by(conditions, &BinaryOperator::And, true);
            ast::select(vec![select_one(dialect)], target, Some(condition))
        }
        _ => return Err(misplaced()),
    };
    query.limit_clause = Some(limit_to(ast::integer(1)));
    prepend_ctes(&mut query, with, dialect)?;
    Ok(query)
}

/// Refuses a statement with a function that must not run twice, once to look and once in the change. PostgreSQL looks
/// where nothing can be written, and SQLite has no such functions.
pub(in crate::rewrite) fn require_repeatable(
    reads: &AccessSet,
    catalog: &Catalog,
) -> Result<(), Rejection> {
    match catalog.dialect() {
        Dialect::Sqlite | Dialect::Postgres => return Ok(()),
        Dialect::Mysql => {}
    }
    for uid in reads.functions() {
        match catalog
            .function(uid)
            .map_or(Safety::Unknown, |def| def.safety)
        {
            Safety::Pure
            | Safety::Volatile
            | Safety::Session
            | Safety::Catalog
            | Safety::Resource => {}
            Safety::File
            | Safety::Network
            | Safety::DynamicSql
            | Safety::Lock
            | Safety::Admin
            | Safety::Unknown => {
                let message = format!(
                    "`{uid}` would have to run before the statement too, to tell whether policy admits its rows"
                );
                return Err(Rejection::new(Code::WriteRowNotAdmitted, message));
            }
        }
    }
    Ok(())
}

/// Adds to the `decided` functions what else is called by what is looked for: it compares keys as an index would, by a type's
/// own operator. Refuses one of which nobody knows what it does.
pub(in crate::rewrite) fn collect_functions(
    reads: &AccessSet,
    decided: &mut BTreeSet<String>,
    catalog: &Catalog,
) -> Result<(), Rejection> {
    for uid in reads.functions() {
        if decided.contains(uid) {
            continue;
        }
        match catalog
            .function(uid)
            .map_or(Safety::Unknown, |def| def.safety)
        {
            Safety::Pure => {
                decided.insert(uid.to_owned());
            }
            Safety::Volatile
            | Safety::Session
            | Safety::Catalog
            | Safety::File
            | Safety::Network
            | Safety::DynamicSql
            | Safety::Lock
            | Safety::Admin
            | Safety::Resource
            | Safety::Unknown => {
                let message = format!(
                    "`{uid}` would have to be called before the statement, to tell whether policy admits its rows"
                );
                return Err(Rejection::new(Code::WriteRowNotAdmitted, message));
            }
        }
    }
    Ok(())
}

/// What the text of a query reads and calls, whoever looks: below masks and filters, as its conditions do.
pub(in crate::rewrite) fn resolve_reads(
    sql: &str,
    query: Box<Query>,
    catalog: &Catalog,
    visible: &dyn Visible,
    limits: &Limits,
) -> Result<AccessSet, Rejection> {
    let mut outline = Outline::default();
    outline
        .positional
        .extend(crate::rewrite::output::parameters::positions(&query));
    let parsed = ParsedQuery {
        text: sql,
        query,
        outline,
        explain: None,
    };
    let below = Mode::View { within: &[] };
    resolve::resolve(parsed, catalog, visible, below, limits)
        .map(|resolved| resolved.access)
        .map_err(crate::rewrite::refusal::unresolved)
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
    within: Option<&Guard>,
    target: Option<usize>,
) -> Result<ReachedRows, Rejection> {
    let mut update = update.clone();
    if let Some(within) = within {
        guard::filter_update(&mut update, within, target)?;
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
    within: Option<&Guard>,
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
        guard::filter_rows(&mut tables, &mut condition, within, target)?;
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
    let refused = not_true(admitted.clone());
    let Some(limit) = limit else {
        let conditions = condition.into_iter().chain([refused]).collect();
        let condition = ast::join_by(conditions, &BinaryOperator::And, true);
        return select_from(vec![select_one(dialect)], tables, Some(condition));
    };
    // Which rows those are that the limit takes is settled before any of them is looked at.
    let mut taken = select_from(
        vec![ast::item(dialect, refused, REFUSED)],
        tables,
        condition,
    );
    taken.order_by = (!order_by.is_empty()).then_some(OrderBy {
        kind: OrderByKind::Expressions(order_by),
        interpolate: None,
    });
    taken.limit_clause = Some(limit_to(limit));
    let taken = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(taken),
        alias: Some(ast::alias(encode("taken_rows", dialect))),
        sample: None,
    };
    ast::select(
        vec![select_one(dialect)],
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
    within: Option<&Guard>,
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
    let within = within.map(|guard| ast::parens(guard.condition.clone()));
    let reached = within
        .into_iter()
        .chain([proposed.conflict_condition()])
        .collect();
    let reached = ast::join_by(reached, &BinaryOperator::And, true);
    let mut conditions = vec![reached.clone(), not_true(admitted.clone())];
    if let Some(own) = proposed.condition(insert, dialect) {
        // It may fail, and is tried on no other rows than in the change.
        let fence = Guard {
            condition: reached,
            stance: Stance::Around,
        };
        conditions.push(fence.around(Some(own), 0));
    }
    let condition = ast::join_by(conditions, &BinaryOperator::And, true);
    Ok(select_from(
        vec![select_one(dialect)],
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
    // What is not there is in nobody's way.
    let given = keys
        .iter()
        .map(|key| Expr::IsNotNull(Box::new(ast::parens(key.clone()))))
        .collect();
    let given = ast::join_by(given, &BinaryOperator::And, true);
    let mut query = ast::select(vec![select_one(dialect)], rows, Some(given));
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

/// What each row that is found gives: nothing of its own.
pub(in crate::rewrite) fn select_one(dialect: Dialect) -> SelectItem {
    ast::item(dialect, ast::integer(1), REFUSED)
}

/// That `admitted` is false or NULL.
pub(in crate::rewrite) fn not_true(admitted: Expr) -> Expr {
    ast::case(
        vec![(ast::parens(admitted), ast::boolean(false))],
        Some(ast::boolean(true)),
    )
}

pub(in crate::rewrite) fn limit_to(limit: Expr) -> LimitClause {
    LimitClause::LimitOffset {
        limit: Some(limit),
        offset: None,
        limit_by: Vec::new(),
    }
}

pub(in crate::rewrite) fn select_from(
    projection: Vec<SelectItem>,
    tables: Vec<TableWithJoins>,
    condition: Option<Expr>,
) -> Query {
    let mut query = ast::select(projection, None, condition);
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = tables;
    }
    query
}

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
    let _ = Visit::visit(query, &mut names);
    let name = |cte: &Cte| key(&cte.alias.name, dialect).into_owned();
    // Each reads what stands before it, or beside it where they are recursive.
    let mut needed = BTreeSet::new();
    while let Some(cte) = cte_tables
        .iter()
        .find(|cte| names.found.contains(&name(cte)) && !needed.contains(&name(cte)))
    {
        needed.insert(name(cte));
        let _ = Visit::visit(cte, &mut names);
    }
    let mut tables = Vec::with_capacity(needed.len());
    for cte in cte_tables.iter().filter(|cte| needed.contains(&name(cte))) {
        if change::changes_rows(&cte.query.body) {
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

impl Visitor for CteNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name: ObjectName(parts),
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
            && let [ObjectNamePart::Identifier(name)] = parts.as_slice()
        {
            self.found.insert(key(name, self.dialect).into_owned());
        }
        ControlFlow::Continue(())
    }
}
