//! A table as it was: its companion, and of that the rows that were there at a label.
//!
//! Nothing that the session may not see by now is seen in the past. Masks and columns are those of now. A row filter must admit a row as it
//! was then, and in each state that came after: a row that has moved out of sight is out of sight in all of its past. A row that follows
//! another is seen where the other is, and was in each of its recorded states: a key may have been another row's.

use std::collections::BTreeMap;

use sqlparser::ast::{BinaryOperator, DataType, Expr, ObjectName, TableFactor};

use crate::rewrite::{ast, relation_source::row_filter};
use crate::{
    catalog::{Catalog, Companion, Relation, RelationId, RelationKind},
    code::Code,
    dialect::Dialect,
    past::{CommittedState, FROM, Label, TO},
    policy::obligation::RowFilter,
    rejection::Rejection,
    resolve::Reference,
    syntax::encode,
};

/// The alias of a companion where a state of a row is compared with later ones.
const THEN: &str = "palisade_then";

/// The alias of the later ones.
const LATER: &str = "palisade_later";

/// The relation that is read in the place of `relation` as of `label`, and which of its rows: `filter` is what policy says of them.
pub(in crate::rewrite) fn slice(
    relation: &Relation,
    label: &Label,
    filter: Option<Expr>,
    catalog: &Catalog,
) -> Result<(TableFactor, Expr), Rejection> {
    let companion = companion(relation, catalog)?;
    let dialect = catalog.dialect();
    let state = label.state();
    let own = |name: &str| ast::column(dialect, name);
    let began = is_committed(own(FROM), state, dialect);
    let is_open = || Expr::IsNull(Box::new(own(TO)));
    let mut conditions = vec![began];
    if let Some(early) = ended_long_ago(own(TO), state, dialect) {
        let late = vec![is_open(), ast::not(early)];
        conditions.push(ast::join_by(late, &BinaryOperator::Or, false));
    }
    let lasts = vec![is_open(), is_later(own(TO), state, dialect)];
    conditions.push(ast::join_by(lasts, &BinaryOperator::Or, false));
    let table = |alias: Option<&str>| {
        let alias = alias.map(|alias| encode(alias, dialect));
        ast::table_as(dialect, &[&companion.schema, &companion.name], alias)
    };
    let source = match filter {
        None => table(None),
        Some(filter) => {
            let mut later: Vec<Expr> = (relation.primary_key.iter())
                .filter_map(|index| relation.column(*index))
                .map(|key| {
                    let of = |alias: &str| compound(dialect, alias, &key.name);
                    ast::binary(of(LATER), BinaryOperator::Eq, of(THEN))
                })
                .collect();
            let since = compound(dialect, LATER, FROM);
            later.push(is_later(since, state, dialect));
            // Its columns are those of the later state: the innermost relation has them.
            later.push(ast::not_true(filter.clone()));
            let hidden = ast::select(
                vec![ast::item(dialect, ast::integer(1), "hidden")],
                table(Some(LATER)),
                Some(ast::join_by(later, &BinaryOperator::And, true)),
            );
            conditions.push(filter);
            conditions.push(Expr::Exists {
                subquery: Box::new(hidden),
                negated: true,
            });
            table(Some(THEN))
        }
    };
    let condition = ast::join_by(conditions, &BinaryOperator::And, true);
    Ok((source, condition))
}

/// Where `relation` is kept as it was.
///
/// # Errors
/// `history.not-kept`.
pub(in crate::rewrite) fn companion<'c>(
    relation: &Relation,
    catalog: &'c Catalog,
) -> Result<&'c Companion, Rejection> {
    let what = match relation.kind {
        RelationKind::Table if relation.primary_key.is_empty() => "which has no primary key",
        RelationKind::Table => match catalog.companion(relation) {
            Some(companion) => return Ok(companion),
            None => "of which no history is kept",
        },
        RelationKind::View => "a view whose query is not known",
        RelationKind::Materialized => "a materialised view, which is as it was refreshed",
        RelationKind::Virtual => "a virtual table",
        RelationKind::System => "a relation of the engine's own",
    };
    Err(Rejection::new(
        Code::HistoryNotKept,
        format!("the statement reads `{}`, {what}", relation.name),
    ))
}

/// The tables to which the row filter of `reference` follows keys.
pub(in crate::rewrite) fn list_referred(reference: &Reference) -> Vec<RelationId> {
    let mut referred = BTreeMap::new();
    if let RowFilter::Where(predicate) = &reference.decision.rows {
        row_filter::columns_referred_to(predicate, &mut referred);
    }
    referred.into_keys().collect()
}

/// The companions that `references` read, views below them included.
pub(in crate::rewrite) fn companions(
    references: &[Reference],
    catalog: &Catalog,
) -> Vec<Companion> {
    let mut found = Vec::new();
    collect_companions(references, catalog, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_companions(references: &[Reference], catalog: &Catalog, into: &mut Vec<Companion>) {
    for reference in references {
        if let Some(body) = &reference.body {
            collect_companions(&body.resolved.references, catalog, into);
        } else if reference.decision.past.is_some() {
            let read = std::iter::once(reference.relation).chain(list_referred(reference));
            let relations = read.filter_map(|id| catalog.relation(id));
            into.extend(relations.filter_map(|relation| catalog.companion(relation).cloned()));
        }
    }
}

/// Whether the transaction in `column` had certainly ended at a label, by a comparison that an index answers, where there is one.
fn ended_long_ago(column: Expr, state: &CommittedState, dialect: Dialect) -> Option<Expr> {
    match state {
        CommittedState::Snapshot { epoch: _, snapshot } => {
            let first = vec![snapshot_value(snapshot, dialect)];
            let first = ast::call(dialect, "pg_snapshot_xmin", first);
            Some(ast::binary(column, BinaryOperator::Lt, first))
        }
        // The comparison itself is one.
        CommittedState::Sequence { last: _, mark: _ }
        | CommittedState::Counter {
            epoch: _,
            next: _,
            active: _,
        } => None,
    }
}

/// A snapshot of PostgreSQL as a value.
fn snapshot_value(snapshot: &str, dialect: Dialect) -> Expr {
    let name = ["pg_catalog", "pg_snapshot"].map(|part| encode(part, dialect));
    let kind = DataType::Custom(ObjectName::from(name.to_vec()), Vec::new());
    ast::cast(ast::text(dialect, snapshot), kind)
}

/// Whether the transaction in `column` had committed at a label.
fn is_committed(column: Expr, state: &CommittedState, dialect: Dialect) -> Expr {
    let number = |number: String| Expr::Value(sqlparser::ast::Value::Number(number, false).into());
    match state {
        CommittedState::Sequence { last, mark: _ } => {
            ast::binary(column, BinaryOperator::LtEq, number(last.to_string()))
        }
        CommittedState::Snapshot { epoch: _, snapshot } => {
            let label = || snapshot_value(snapshot, dialect);
            let call = |name: &str, arguments| ast::call(dialect, name, arguments);
            // The first condition is one that an index answers.
            let below = ast::binary(
                column.clone(),
                BinaryOperator::Lt,
                call("pg_snapshot_xmax", vec![label()]),
            );
            let seen = call("pg_visible_in_snapshot", vec![column, label()]);
            ast::join_by(vec![below, seen], &BinaryOperator::And, true)
        }
        CommittedState::Counter {
            epoch: _,
            next,
            active,
        } => {
            let mut conditions = vec![ast::binary(
                column.clone(),
                BinaryOperator::Lt,
                number(next.to_string()),
            )];
            let single = active.iter().filter(|range| range.first == range.last);
            let single: Vec<Expr> = single
                .map(|range| number(range.first.to_string()))
                .collect();
            if !single.is_empty() {
                conditions.push(Expr::InList {
                    expr: Box::new(column.clone()),
                    list: single,
                    negated: true,
                });
            }
            let wide = active.iter().filter(|range| range.first < range.last);
            conditions.extend(wide.map(|range| Expr::Between {
                expr: Box::new(column.clone()),
                negated: true,
                low: Box::new(number(range.first.to_string())),
                high: Box::new(number(range.last.to_string())),
            }));
            ast::join_by(conditions, &BinaryOperator::And, true)
        }
    }
}

/// Whether the transaction in `column`, which is not NULL, had not committed at a label.
fn is_later(column: Expr, state: &CommittedState, dialect: Dialect) -> Expr {
    match state {
        // SQLite looks for a comparison in an index, and for its negation in none.
        CommittedState::Sequence { last, mark: _ } => {
            let last = sqlparser::ast::Value::Number(last.to_string(), false);
            ast::binary(column, BinaryOperator::Gt, Expr::Value(last.into()))
        }
        CommittedState::Snapshot {
            epoch: _,
            snapshot: _,
        }
        | CommittedState::Counter {
            epoch: _,
            next: _,
            active: _,
        } => ast::not(is_committed(column, state, dialect)),
    }
}

fn compound(dialect: Dialect, alias: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![encode(alias, dialect), encode(name, dialect)])
}
