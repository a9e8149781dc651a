//! What must not be found before a change runs: rows that it would change, and that policy does not admit as they
//! would be afterwards.
//!
//! The change keeps within what is admitted whatever was found; it would leave out the rest, and who asked would take
//! what was done for what was asked. So the same rows are looked for first, by the same conditions, in the same
//! transaction. What is hidden is not looked at: rows count that may be seen and changed, and no others.

pub(in crate::rewrite) mod cascade_count;
pub(in crate::rewrite) mod foreign_keys;
pub(in crate::rewrite) mod returning;

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, Cte, Delete, Expr, FromTable, GroupByExpr, Ident, Insert, LimitClause,
    ObjectName, ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr,
    Statement, TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind, Visit,
    Visitor, With,
};

use crate::rewrite::{
    ast, change,
    change::{guard, merge, upsert::on_conflict::Proposed},
    not_as_decided,
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, functions::Safety},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    rejection::Rejection,
    resolve::{self, Mode, Placement, Target, Visible, WriteForm, WriteGuard},
    syntax::{Outline, ParsedQuery, encode, key},
    value::Value,
};

/// A query that must give no row when it runs in the transaction of a change, before it.
#[derive(Debug, PartialEq)]
pub struct Proviso {
    pub(in crate::rewrite) sql: Arc<str>,
    pub(in crate::rewrite) params: Vec<Value>,
    pub(in crate::rewrite) found: Found,
}

/// What it says of a change that a row is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A row would be one that policy does not admit.
    NotAdmitted,
    /// A row that may not be changed is in the way, as a constraint would say of an INSERT, or hangs on one that would be changed, as a
    /// foreign key without an action would.
    OutOfReach,
}

impl Proviso {
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
    pub fn found(&self) -> Found {
        self.found
    }
}

/// Which rows of a change may not be admitted.
#[derive(Debug)]
pub(in crate::rewrite) enum Doubt {
    /// Rows of the target that pass `within`, if they are not `admitted`.
    Target {
        within: Option<Box<WriteGuard>>,
        admitted: Box<Expr>,
        found: Found,
    },
    /// Rows of the query that an INSERT takes, if they are not `admitted`.
    Rows { admitted: Box<Expr>, found: Found },
    /// Rows of which a MERGE chooses this clause, if they are not `admitted`.
    Clause {
        clause: usize,
        admitted: Box<Expr>,
        found: Found,
    },
    /// Rows in the way of what an upsert proposes.
    InTheWay {
        within: Option<Box<WriteGuard>>,
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
        found: Found,
    },
}

impl Doubt {
    /// What it says of the change that a row is found.
    pub(in crate::rewrite) fn found(&self) -> Found {
        match self {
            Self::InTheWay {
                within: _,
                admitted: _,
                proposed: _,
            }
            | Self::Twice {
                keys: _,
                proposed: _,
            } => Found::NotAdmitted,
            Self::Rows { admitted: _, found }
            | Self::Target {
                within: _,
                admitted: _,
                found,
            }
            | Self::Clause {
                clause: _,
                admitted: _,
                found,
            }
            | Self::Met {
                alias: _,
                meets: _,
                admitted: _,
                found,
            } => *found,
        }
    }
}

/// The query that finds a row of `change` that is not admitted. `target` is its own among the references, and `with` stands
/// before the statement; `changes` are all its changes, in their order, with what each is a change of.
///
/// # Errors
/// `write.row-not-admitted` where what it looks at is only there once another change has run.
pub(in crate::rewrite) fn query(
    change: &SetExpr,
    form: &WriteForm,
    doubt: &Doubt,
    target: Option<usize>,
    (with, changes): (Option<&With>, &[(&WriteForm, &Target)]),
    catalog: &Catalog,
) -> Result<Query, Rejection> {
    let dialect = catalog.dialect();
    let misplaced = || not_as_decided("a change of another form");
    let mut query = match (change, doubt) {
        (
            SetExpr::Update(Statement::Update(update)),
            Doubt::Target {
                within,
                admitted,
                found: _,
            },
        ) => {
            let reached = updated(update, within.as_deref(), target)?;
            of_target(reached, admitted, dialect)
        }
        (
            SetExpr::Delete(Statement::Delete(delete)),
            Doubt::Target {
                within,
                admitted,
                found: _,
            },
        ) => {
            let reached = deleted(delete, within.as_deref(), target)?;
            of_target(reached, admitted, dialect)
        }
        (SetExpr::Insert(Statement::Insert(insert)), Doubt::Rows { admitted, found: _ }) => {
            let admission = form.admission.as_ref().ok_or_else(misplaced)?;
            let source = insert.source.clone().ok_or_else(misplaced)?;
            let mut query = *admission.wrap(source);
            let SetExpr::Select(select) = &mut *query.body else {
                return Err(misplaced());
            };
            select.projection = vec![one(dialect)];
            select.selection = Some(refused((**admitted).clone()));
            query
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            Doubt::InTheWay {
                within,
                admitted,
                proposed,
            },
        ) => in_the_way(insert, within.as_deref(), admitted, proposed, dialect)?,
        (
            SetExpr::Merge(Statement::Merge(statement)),
            Doubt::Clause {
                clause,
                admitted,
                found: _,
            },
        ) => merge::not_admitted(statement, form, *clause, admitted, dialect)?,
        (SetExpr::Insert(Statement::Insert(insert)), Doubt::Twice { keys, proposed }) => {
            twice(insert, keys, proposed, dialect)?
        }
        (
            SetExpr::Insert(Statement::Insert(insert)),
            Doubt::Met {
                alias,
                meets,
                admitted,
                found: _,
            },
        ) => {
            let target = target_as(insert, alias)?;
            let conditions = vec![(**meets).clone(), refused((**admitted).clone())];
            let condition = ast::joined(conditions, &BinaryOperator::And, true);
            ast::select(vec![one(dialect)], target, Some(condition))
        }
        _ => return Err(misplaced()),
    };
    query.limit_clause = Some(limited(ast::integer(1)));
    precede(&mut query, with, changes, catalog)?;
    Ok(query)
}

/// Refuses a statement with a function that must not run twice, once to look and once in the change. PostgreSQL looks
/// where nothing can be written, and SQLite has no such functions.
pub(in crate::rewrite) fn runs_twice(
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
pub(in crate::rewrite) fn calls(
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
pub(in crate::rewrite) fn reads(
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
        .map_err(crate::rewrite::unread)
}

/// The rows that a change reaches.
struct Reached {
    tables: Vec<TableWithJoins>,
    condition: Option<Expr>,
    order_by: Vec<OrderByExpr>,
    limit: Option<Expr>,
}

/// Those of an UPDATE that is kept `within`.
fn updated(
    update: &Update,
    within: Option<&WriteGuard>,
    target: Option<usize>,
) -> Result<Reached, Rejection> {
    let mut update = update.clone();
    if let Some(within) = within {
        guard::keep_within(&mut update, within, target)?;
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
    Ok(Reached {
        tables,
        condition,
        order_by,
        limit,
    })
}

/// Those of a DELETE that is kept `within`.
fn deleted(
    delete: &Delete,
    within: Option<&WriteGuard>,
    target: Option<usize>,
) -> Result<Reached, Rejection> {
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
        guard::keep_rows_within(&mut tables, &mut condition, within, target)?;
    }
    tables.extend(using.iter().flatten().cloned());
    Ok(Reached {
        tables,
        condition,
        order_by: order_by.clone(),
        limit: limit.clone(),
    })
}

/// One of the rows that are `reached` and are not `admitted`.
fn of_target(reached: Reached, admitted: &Expr, dialect: Dialect) -> Query {
    let Reached {
        tables,
        condition,
        order_by,
        limit,
    } = reached;
    let refused = refused(admitted.clone());
    let Some(limit) = limit else {
        let conditions = condition.into_iter().chain([refused]).collect();
        let condition = ast::joined(conditions, &BinaryOperator::And, true);
        return select(vec![one(dialect)], tables, Some(condition));
    };
    // Which rows those are that the limit takes is settled before any of them is looked at.
    let mut taken = select(
        vec![ast::item(dialect, refused, REFUSED)],
        tables,
        condition,
    );
    taken.order_by = (!order_by.is_empty()).then_some(OrderBy {
        kind: OrderByKind::Expressions(order_by),
        interpolate: None,
    });
    taken.limit_clause = Some(limited(limit));
    let taken = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(taken),
        alias: Some(ast::alias(encode("taken_rows", dialect))),
        sample: None,
    };
    ast::select(
        vec![one(dialect)],
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

fn in_the_way(
    insert: &Insert,
    within: Option<&WriteGuard>,
    admitted: &Expr,
    proposed: &Proposed,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let target = target_as(insert, &proposed.alias)?;
    let rows = proposed
        .table(insert, dialect)
        .ok_or_else(|| not_as_decided("an upsert of other rows"))?;
    let tables = [target, rows].map(|relation| TableWithJoins {
        relation,
        joins: Vec::new(),
    });
    let within = within.map(|guard| ast::parens(guard.condition.clone()));
    let reached = within.into_iter().chain([proposed.meets()]).collect();
    let reached = ast::joined(reached, &BinaryOperator::And, true);
    let mut conditions = vec![reached.clone(), refused(admitted.clone())];
    if let Some(own) = proposed.condition(insert, dialect) {
        // It may fail, and is tried on no other rows than in the change.
        let fence = WriteGuard {
            condition: reached,
            placement: Placement::Around,
        };
        conditions.push(fence.wrap(Some(own), 0));
    }
    let condition = ast::joined(conditions, &BinaryOperator::And, true);
    Ok(select(vec![one(dialect)], tables.into(), Some(condition)))
}

fn twice(
    insert: &Insert,
    keys: &[Expr],
    proposed: &Proposed,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let rows = proposed
        .table(insert, dialect)
        .ok_or_else(|| not_as_decided("an upsert of other rows"))?;
    // What is not there is in nobody's way.
    let given = keys
        .iter()
        .map(|key| Expr::IsNotNull(Box::new(ast::parens(key.clone()))))
        .collect();
    let given = ast::joined(given, &BinaryOperator::And, true);
    let mut query = ast::select(vec![one(dialect)], rows, Some(given));
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
pub(in crate::rewrite) fn one(dialect: Dialect) -> SelectItem {
    ast::item(dialect, ast::integer(1), REFUSED)
}

/// That `admitted` is false or NULL.
pub(in crate::rewrite) fn refused(admitted: Expr) -> Expr {
    ast::case(
        vec![(ast::parens(admitted), ast::boolean(false))],
        Some(ast::boolean(true)),
    )
}

pub(in crate::rewrite) fn limited(limit: Expr) -> LimitClause {
    LimitClause::LimitOffset {
        limit: Some(limit),
        offset: None,
        limit_by: Vec::new(),
    }
}

pub(in crate::rewrite) fn select(
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

/// Puts those tables of `with` before `query` that it reads; `changes` are those in it, in their order.
pub(in crate::rewrite) fn precede(
    query: &mut Query,
    with: Option<&With>,
    changes: &[(&WriteForm, &Target)],
    catalog: &Catalog,
) -> Result<(), Rejection> {
    let dialect = catalog.dialect();
    let Some(With {
        with_token: _,
        recursive,
        cte_tables,
    }) = with
    else {
        return Ok(());
    };
    let mut names = Names {
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
    let mut changes = changes.iter();
    for cte in cte_tables {
        let change = change::is_change(&cte.query.body)
            .then(|| changes.next())
            .flatten();
        if !needed.contains(&name(cte)) {
            continue;
        }
        let mut cte = cte.clone();
        if change::is_change(&cte.query.body) {
            *cte.query = change
                .and_then(|(form, target)| returning::query(&cte.query.body, form, target, catalog))
                .ok_or_else(depends)?;
        }
        tables.push(cte);
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

fn depends() -> Rejection {
    Rejection::new(
        Code::WriteRowNotAdmitted,
        "which rows are changed depends on another change in the same statement, so that nobody can tell before whether \
         policy admits them; that can be told of a DELETE or UPDATE that gives back columns of its own table whose values are known before, \
         of VALUES, and of rows of a query that gives what policy looks at as literals or parameters, without GROUP BY or UNION",
    )
}

/// Names without a schema: in a normalised tree those of common table expressions alone.
struct Names {
    dialect: Dialect,
    found: BTreeSet<String>,
}

impl Visitor for Names {
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
