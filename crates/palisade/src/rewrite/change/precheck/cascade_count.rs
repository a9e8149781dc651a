//! Counts of rows that foreign keys change, on MySQL and MariaDB.
//!
//! InnoDB changes referencing rows below the level that counts affected rows, so no figure is known afterwards. A query finds the
//! referenced rows before the change, in its transaction. The rows that foreign keys follow from them count against the cap.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, Delete, Distinct, Expr, FromTable, Insert,
    ObjectNamePart, OnInsert, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr,
    SetOperator, SetQuantifier, Statement, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind, With,
};

use crate::rewrite::{
    ast,
    change::{determinism::is_written, precheck},
    refusal::not_as_decided,
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, Change, Relation, RelationId, functions::Safety},
    dialect::Dialect,
    rejection::Rejection,
    resolve::{Conflict, Target, stays},
    syntax::{encode, key},
    value::Value,
};

/// Functions whose results depend on more than their arguments, and are the same from a look at the rows to their change: a backend
/// has the time stand still in between.
const STEADY: &[&str] = &[
    "connection_id",
    "curdate",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "curtime",
    "database",
    "localtime",
    "localtimestamp",
    "now",
    "schema",
    "session_user",
    "system_user",
    "unix_timestamp",
    "user",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "version",
];

/// A query for the rows of a statement's target that foreign keys may follow. Each row that the statement deletes, or gives another
/// key, is among them.
#[derive(Debug, PartialEq)]
pub struct CascadeCount {
    pub(in crate::rewrite) sql: Arc<str>,
    pub(in crate::rewrite) params: Vec<Value>,
    pub(in crate::rewrite) origin: Arc<CascadeOrigin>,
}

/// What happens to the rows that are found.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rewrite) struct CascadeOrigin {
    relation: RelationId,
    change: Change,
    columns: BTreeSet<u16>,
}

impl CascadeCount {
    /// The text to run, and nothing else. It gives the columns that foreign keys refer to, by their names; the primary key's too
    /// where foreign keys lead back to the target.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values to bind, the first to the first parameter.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// The relation that the rows are of.
    #[must_use]
    pub fn relation(&self) -> RelationId {
        self.origin.relation
    }

    /// What becomes of them.
    #[must_use]
    pub fn change(&self) -> Change {
        self.origin.change
    }

    /// Positions of their columns that get other values.
    #[must_use]
    pub fn columns(&self) -> &BTreeSet<u16> {
        &self.origin.columns
    }
}

/// A look at the rows of a target before it is printed.
pub(in crate::rewrite) struct CascadeProbe {
    /// The rows that the statement's own condition finds.
    pub(in crate::rewrite) found: Query,
    /// Every row, where that condition could find others a moment later.
    pub(in crate::rewrite) every: Query,
    pub(in crate::rewrite) origin: Arc<CascadeOrigin>,
}

/// How to look at the rows of `change` that foreign keys may follow, if any does. `conflicts` are conditions of the rows with which an
/// INSERT conflicts, if that is known; `with` stands before the statement.
pub(in crate::rewrite) fn probe(
    change: &SetExpr,
    target: &Target,
    conflicts: Option<&[Expr]>,
    with: Option<&With>,
    catalog: &Catalog,
) -> Result<Option<CascadeProbe>, Rejection> {
    let dialect = catalog.dialect();
    match dialect {
        // The engine counts them itself.
        Dialect::Sqlite | Dialect::Postgres => return Ok(None),
        Dialect::Mysql => {}
    }
    let relation = catalog
        .relation(target.relation)
        .ok_or_else(|| not_as_decided("a change of another catalog"))?;
    let (effect, assignments) = match change {
        SetExpr::Update(Statement::Update(update)) => {
            (Change::Update, update.assignments.as_slice())
        }
        SetExpr::Delete(_) => (Change::Delete, &[][..]),
        SetExpr::Insert(Statement::Insert(insert)) => match (target.on_conflict, &insert.on) {
            (Conflict::DoNothing, _) => return Ok(None),
            (Conflict::Replaces, _) => (Change::Delete, &[][..]),
            (Conflict::Updates, Some(OnInsert::DuplicateKeyUpdate(assignments))) => {
                (Change::Update, assignments.as_slice())
            }
            (Conflict::Updates, _) => {
                return Err(not_as_decided("a conflict of another form"));
            }
        },
        _ => return Err(not_as_decided("a change of another form")),
    };
    let columns = changed_columns(assignments, target, relation, catalog)?;
    let direct = catalog.cascades(relation, effect, &columns);
    if direct.is_empty() {
        return Ok(None);
    }
    let mut given: BTreeSet<u16> = direct
        .iter()
        .flat_map(|cascade| &cascade.key.references)
        .filter_map(|name| relation.position(&dialect.fold(name)))
        .collect();
    let changed = given.intersection(&columns).copied().collect();
    if leads_back(catalog, relation, effect, &columns) {
        given.extend(&relation.primary_key);
    }
    let found = match change {
        SetExpr::Update(Statement::Update(update)) => {
            let kept = keys_unchanged(&update.assignments, &changed, target, relation, dialect);
            Some(rows_of_update(
                update, kept, target, relation, &given, dialect,
            )?)
        }
        SetExpr::Delete(Statement::Delete(delete)) => {
            Some(rows_of_delete(delete, target, relation, &given, dialect)?)
        }
        SetExpr::Insert(Statement::Insert(insert)) => conflicts
            .map(|conflicts| rows_of_insert(insert, conflicts, target, relation, &given, dialect))
            .transpose()?,
        _ => return Err(not_as_decided("a change of another form")),
    };
    let every = ast::select(
        key_items(&given, None, relation, dialect),
        ast::table(dialect, &[&relation.schema, &relation.name]),
        None,
    );
    let mut found = found.unwrap_or_else(|| every.clone());
    precheck::query::prepend_ctes(&mut found, with, dialect)?;
    Ok(Some(CascadeProbe {
        found,
        every,
        origin: Arc::new(CascadeOrigin {
            relation: relation.id,
            change: effect,
            columns,
        }),
    }))
}

/// Whether what a query `reads` is the same from the look to the change: other transactions are kept from what it reads of tables.
pub(in crate::rewrite) fn is_steady(reads: &AccessSet, catalog: &Catalog) -> bool {
    reads.system_relations().next().is_none()
        && reads.functions().all(|uid| {
            let known = catalog.function(uid);
            known.is_some_and(|def| {
                def.safety == Safety::Pure || STEADY.contains(&def.name.as_str())
            })
        })
}

/// The columns that are assigned another value than their own or given the time, and those that are computed from them.
fn changed_columns(
    assignments: &[Assignment],
    target: &Target,
    relation: &Relation,
    catalog: &Catalog,
) -> Result<BTreeSet<u16>, Rejection> {
    let dialect = catalog.dialect();
    let mut found = BTreeSet::new();
    let mut kept = BTreeSet::new();
    for assignment in assignments {
        let index = target_column(assignment, relation, dialect)
            .ok_or_else(|| not_as_decided("an assignment of another form"))?;
        let own = &target.qualifier;
        let is_kept = |column| stays(&assignment.value, column, own, catalog);
        if relation.column(index).is_some_and(is_kept) {
            kept.insert(index);
        } else {
            found.insert(index);
        }
    }
    // What is assigned at all is not given the time, and where nothing changes, nothing is.
    if !found.is_empty() {
        found.extend(
            relation
                .retimed
                .iter()
                .filter(|index| !kept.contains(*index)),
        );
    }
    for (id, column) in relation.column_ids() {
        let sources = || crate::catalog::computed_from([id.index], relation, dialect);
        if column.generated.is_some() && !sources().is_disjoint(&found) {
            found.insert(id.index);
        }
    }
    Ok(found)
}

fn target_column(assignment: &Assignment, relation: &Relation, dialect: Dialect) -> Option<u16> {
    let AssignmentTarget::ColumnName(name) = &assignment.target else {
        return None;
    };
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => relation.position(&key(ident, dialect)),
        Some(ObjectNamePart::Function(_)) | None => None,
    }
}

/// Whether rows of `relation` itself are among those that foreign keys lead to.
fn leads_back(
    catalog: &Catalog,
    relation: &Relation,
    change: Change,
    columns: &BTreeSet<u16>,
) -> bool {
    let mut known = BTreeSet::new();
    let mut waiting = catalog.cascades(relation, change, columns);
    while let Some(cascade) = waiting.pop() {
        if cascade.child.id == relation.id {
            return true;
        }
        if known.insert((cascade.child.id, cascade.change, cascade.columns.clone())) {
            waiting.extend(catalog.cascades(cascade.child, cascade.change, &cascade.columns));
        }
    }
    false
}

/// The columns `given`, each by its own name.
fn key_items(
    given: &BTreeSet<u16>,
    target: Option<&Target>,
    relation: &Relation,
    dialect: Dialect,
) -> Vec<SelectItem> {
    let columns = given.iter().filter_map(|index| relation.column(*index));
    columns
        .map(|column| {
            ast::item(
                dialect,
                column_ref(&column.name, target, dialect),
                &column.name,
            )
        })
        .collect()
}

/// A column, as one of `target`'s where that is told.
fn column_ref(name: &str, target: Option<&Target>, dialect: Dialect) -> Expr {
    match target {
        Some(target) => {
            Expr::CompoundIdentifier(vec![target.qualifier.clone(), encode(name, dialect)])
        }
        None => ast::column(dialect, name),
    }
}

/// That every `changed` column holds what it is given, byte by byte: such rows keep their keys. Nothing where a value is not
/// written.
fn keys_unchanged(
    assignments: &[Assignment],
    changed: &BTreeSet<u16>,
    target: &Target,
    relation: &Relation,
    dialect: Dialect,
) -> Option<Expr> {
    let mut same = Vec::new();
    for index in changed {
        let mut own = assignments
            .iter()
            .filter(|assignment| target_column(assignment, relation, dialect) == Some(*index));
        let (Some(Assignment { target: _, value }), None) = (own.next(), own.next()) else {
            return None;
        };
        if !is_written(value) {
            return None;
        }
        let name = &relation.column(*index)?.name;
        let column = column_ref(name, target.joined.then_some(target), dialect);
        let equal = |left: Expr, right: Expr| ast::binary(left, BinaryOperator::Spaceship, right);
        same.push(equal(column.clone(), value.clone()));
        same.push(equal(
            ast::mysql_bytes(column),
            ast::mysql_bytes(value.clone()),
        ));
    }
    Some(ast::join_by(same, &BinaryOperator::And, false))
}

fn rows_of_update(
    update: &Update,
    kept: Option<Expr>,
    target: &Target,
    relation: &Relation,
    given: &BTreeSet<u16>,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments: _,
        from,
        selection,
        returning: _,
        output: _,
        or: _,
        order_by,
        limit,
    } = update;
    if from.as_ref().is_some_and(|from| match from {
        UpdateTableFromKind::BeforeSet(_) | UpdateTableFromKind::AfterSet(_) => true,
    }) {
        return Err(not_as_decided("a change of another form"));
    }
    let conditions = selection.iter().cloned();
    // Which rows a limit takes is settled before any of them is looked at.
    let changes = kept.filter(|_| limit.is_none()).map(ast::not);
    let conditions: Vec<Expr> = conditions.chain(changes).collect();
    let condition =
        (!conditions.is_empty()).then(|| ast::join_by(conditions, &BinaryOperator::And, true));
    let tables = vec![table.clone()];
    let taken = (order_by.as_slice(), limit.as_ref());
    Ok(select_rows(
        tables, condition, taken, target, relation, given, dialect,
    ))
}

fn rows_of_delete(
    delete: &Delete,
    target: &Target,
    relation: &Relation,
    given: &BTreeSet<u16>,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let Delete {
        delete_token: _,
        optimizer_hints: _,
        tables: _,
        from: FromTable::WithFromKeyword(from),
        using: None,
        selection,
        returning: _,
        output: _,
        order_by,
        limit,
    } = delete
    else {
        return Err(not_as_decided("a change of another form"));
    };
    let taken = (order_by.as_slice(), limit.as_ref());
    Ok(select_rows(
        from.clone(),
        selection.clone(),
        taken,
        target,
        relation,
        given,
        dialect,
    ))
}

fn select_rows(
    tables: Vec<TableWithJoins>,
    condition: Option<Expr>,
    (order_by, limit): (&[OrderByExpr], Option<&Expr>),
    target: &Target,
    relation: &Relation,
    given: &BTreeSet<u16>,
    dialect: Dialect,
) -> Query {
    let qualified = target.joined.then_some(target);
    let items = key_items(given, qualified, relation, dialect);
    let mut query = ast::select_from(items, tables, condition);
    if target.joined
        && let SetExpr::Select(select) = &mut *query.body
    {
        // A row with several matches is changed once.
        select.distinct = Some(Distinct::Distinct);
    }
    // Which rows a limit takes is known where their order is; else it could take any.
    if let Some(limit) = limit
        && orders_all(order_by, relation, dialect)
    {
        query.order_by = Some(OrderBy {
            kind: OrderByKind::Expressions(order_by.to_vec()),
            interpolate: None,
        });
        query.limit_clause = Some(ast::limit_to(limit.clone()));
    }
    query
}

/// Whether no two rows are equal by this order: the primary key's columns are in it.
fn orders_all(order_by: &[OrderByExpr], relation: &Relation, dialect: Dialect) -> bool {
    let ordered: BTreeSet<u16> = order_by
        .iter()
        .filter_map(|order| match &order.expr {
            Expr::Identifier(name) => relation.position(&key(name, dialect)),
            Expr::CompoundIdentifier(parts) => relation.position(&key(parts.last()?, dialect)),
            _ => None,
        })
        .collect();
    !relation.primary_key.is_empty() && relation.primary_key.iter().all(|i| ordered.contains(i))
}

/// The rows that one of the conditions `conflicts` finds, each by an index of its own.
fn rows_of_insert(
    insert: &Insert,
    conflicts: &[Expr],
    target: &Target,
    relation: &Relation,
    given: &BTreeSet<u16>,
    dialect: Dialect,
) -> Result<Query, Rejection> {
    let table: TableFactor = precheck::query::target_as(insert, &target.qualifier)?;
    let one = |condition: Expr| {
        let items = key_items(given, Some(target), relation, dialect);
        ast::select(items, table.clone(), Some(condition))
    };
    let mut all = conflicts.iter().cloned().map(one);
    // It conflicts with no row.
    let first = all.next().unwrap_or_else(|| one(ast::boolean(false)));
    Ok(all.fold(first, |left, right| {
        ast::query(SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::Distinct,
            left: left.body,
            right: right.body,
        })
    }))
}
