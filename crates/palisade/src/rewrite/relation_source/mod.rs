//! What stands in the place of a relation with obligations.

pub(in crate::rewrite) mod cache;
pub(in crate::rewrite) mod json_paths;
pub(in crate::rewrite) mod keyed_hash;
pub(in crate::rewrite) mod mask;
pub(in crate::rewrite) mod mask_expr;
pub(in crate::rewrite) mod past;
pub(in crate::rewrite) mod predicate_sql;
pub(in crate::rewrite) mod replace;
pub(in crate::rewrite) mod row_filter;
pub(in crate::rewrite) mod typed_null;

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, Cte, Expr, LimitClause, Offset, OffsetRows, Query, SelectItem, TableAlias,
    TableAliasColumnDef, Value, With, helpers::attached_token::AttachedToken,
};

use crate::rewrite::{
    ast,
    relation_source::cache::{PrintedSource, PrintedSources},
    relation_source::replace::{has_obligations, replace_references},
    relation_source::row_filter::{KeyLookup, LookupTime},
};
use crate::{
    answer::EmptyReason,
    catalog::{Catalog, Relation, RelationId, RelationKind},
    code::Code,
    dialect::Dialect,
    lineage::TokenLineage,
    policy::obligation::{ColumnLevel, Mask, RowFilter},
    rejection::Rejection,
    resolve::Reference,
    syntax::{encode, output_name::is_truth},
};

/// Where a source subquery stands.
#[derive(Clone, Copy)]
pub(in crate::rewrite) struct Place<'c> {
    pub(in crate::rewrite) catalog: &'c Catalog,
    /// Whether keys of hashes can be bound there; where not, such columns are NULL.
    pub(in crate::rewrite) keyed: bool,
    /// Whether it stands in a view's query.
    pub(in crate::rewrite) in_view: bool,
    /// Whether the statement reads nothing else.
    pub(in crate::rewrite) is_alone: bool,
    /// Whether the term by which the statement narrows it stands behind its fence.
    pub(in crate::rewrite) is_narrowed: bool,
}

/// `(SELECT what may be seen FROM relation WHERE filter)`, fenced if asked. In a view hidden columns
/// are NULL, so that its definition still finds them.
///
/// A materialised view's definition is never printed in its place: that would read other rows than it
/// holds. It is read itself, and refused where what it was computed from has obligations, since its rows
/// were computed before any mask or filter.
pub(in crate::rewrite) fn source_query(
    reference: &Reference,
    place: Place<'_>,
    is_fenced: bool,
    functions: &mut BTreeSet<String>,
) -> Result<Box<Query>, Rejection> {
    let Place {
        catalog,
        keyed,
        in_view,
        is_alone,
        is_narrowed,
    } = place;
    let unknown = || Rejection::new(Code::Internal, "a reference of another catalog");
    let relation = catalog.relation(reference.relation).ok_or_else(unknown)?;
    let body = match (relation.kind, &reference.body) {
        (RelationKind::Materialized, _) if reference.decision.past.is_some() => {
            past::companion(relation, catalog)?;
            None
        }
        (RelationKind::Materialized, Some(body)) if body.has_obligation => {
            let what = if in_view {
                "a materialised view below a view".to_owned()
            } else {
                format!("the materialised view `{}`", relation.name)
            };
            return Err(Rejection::new(
                Code::ObligationInapplicable,
                format!("{what} holds rows from before the masks and filters that policy demands"),
            )
            .with_operator_detail(format!("materialised view `{}`", relation.uid)));
        }
        // Without its definition its contents are not known.
        (RelationKind::Materialized, None) => return Err(unknown()),
        (RelationKind::Materialized, Some(_)) => None,
        (
            RelationKind::Table | RelationKind::View | RelationKind::Virtual | RelationKind::System,
            body,
        ) => body.as_ref(),
    };
    let dialect = catalog.dialect();
    let is_filtered = match (&reference.decision.past, &reference.decision.rows) {
        // Rows of other moments must not make a statement fail.
        (Some(_), _) => true,
        (None, RowFilter::Everything) => false,
        (None, RowFilter::Nothing | RowFilter::Where(_)) => true,
    };
    let fenced = is_fenced && is_filtered;
    let mut projection: Vec<SelectItem> = Vec::new();
    for ((id, column), decided) in relation.column_ids().zip(&reference.decision.columns) {
        let lost = match &decided.level {
            ColumnLevel::Plain | ColumnLevel::Masked(_) => {
                dialect == Dialect::Sqlite && is_truth(&column.name)
            }
            ColumnLevel::Hidden => false,
        };
        if lost {
            return Err(Rejection::new(
                Code::ObligationInapplicable,
                format!(
                    "`{}` has a column called `{}`, a name that SQLite takes from what a subquery gives",
                    relation.name, column.name
                ),
            ));
        }
        match &decided.level {
            // What guarded aggregates see.
            ColumnLevel::Masked(_) if reference.opens(id.index) => {
                projection.push(value_column(&column.name, fenced, dialect));
            }
            ColumnLevel::Plain | ColumnLevel::Masked(Mask::Inherited(_)) => {
                projection.push(value_column(&column.name, fenced, dialect));
            }
            // What a view's query gives as tokens already stays as it is.
            ColumnLevel::Masked(mask) if keyed && is_token(reference, id.index, mask) => {
                projection.push(SelectItem::UnnamedExpr(ast::column(dialect, &column.name)));
            }
            ColumnLevel::Masked(mask) => {
                let mask = if keyed || !mask.is_keyed() {
                    mask
                } else {
                    &Mask::Null
                };
                let masked = mask::expression(mask, column, catalog, functions);
                projection.push(ast::item(dialect, masked, &column.name));
            }
            ColumnLevel::Hidden if in_view => {
                projection.push(ast::item(
                    dialect,
                    typed_null::typed_null(column, catalog),
                    &column.name,
                ));
            }
            ColumnLevel::Hidden => {}
        }
    }
    if projection.is_empty() {
        return Err(Rejection::new(
            Code::PolicyNoPermit,
            format!("no column of `{}` may be read", relation.name),
        ));
    }
    let selection = match &reference.decision.rows {
        RowFilter::Everything => None,
        RowFilter::Nothing => Some(ast::boolean(false)),
        RowFilter::Where(predicate) => {
            let lookup = KeyLookup::for_source(fenced || is_alone, dialect);
            let time = match &reference.decision.past {
                Some(_) => LookupTime::Ever,
                None => LookupTime::Now,
            };
            Some(row_filter::expression_at(
                (lookup, time),
                predicate,
                relation,
                catalog,
                functions,
            )?)
        }
    };
    let narrowing = (reference.narrowed_by.as_ref()).filter(|_| is_narrowed && fenced);
    let selection = match (selection, narrowing) {
        (Some(filter), Some(term)) => {
            let both = vec![filter, term.clone()];
            Some(ast::join_by(both, &BinaryOperator::And, true))
        }
        (selection, _) => selection,
    };
    let mut query = match (body, &reference.decision.past) {
        (None, None) => ast::select(
            projection,
            ast::table(dialect, &[&relation.schema, &relation.name]),
            selection,
        ),
        (None, Some(label)) => {
            let (table, condition) = past::slice(relation, label, selection, catalog)?;
            ast::select(projection, table, Some(condition))
        }
        (Some(body), _) => {
            let is_fenced = is_fenced || body.resolved.needs_fence;
            let definition = view_query(&body.resolved, place, is_fenced, functions)?;
            let name = unused_name(catalog, relation.id);
            let mut query = ast::select(projection, ast::table(dialect, &[&name]), selection);
            query.with = Some(With {
                with_token: AttachedToken::empty(),
                recursive: false,
                cte_tables: vec![Cte {
                    alias: TableAlias {
                        explicit: false,
                        name: encode(&name, dialect),
                        columns: relation
                            .columns
                            .iter()
                            .map(|c| TableAliasColumnDef {
                                name: encode(&c.name, dialect),
                                data_type: None,
                            })
                            .collect(),
                        at: None,
                    },
                    query: definition,
                    from: None,
                    materialized: None,
                    closing_paren_token: AttachedToken::empty(),
                }],
            });
            query
        }
    };
    if fenced {
        query.limit_clause = Some(fence(catalog.dialect()));
    }
    Ok(Box::new(query))
}

/// A column as it is, behind a fence or not.
fn value_column(name: &str, fenced: bool, dialect: Dialect) -> SelectItem {
    if fenced {
        without_statistics(name, dialect)
    } else {
        SelectItem::UnnamedExpr(ast::column(dialect, name))
    }
}

/// A column as it leaves a fence: without statistics, by which the planner would see the values of rows that the filter hides.
///
/// PostgreSQL looks through a subquery at the statistics of a bare column of it, and of nothing else (`examine_simple_variable`
/// in its `selfuncs.c`); COALESCE of a column twice is that column, of the same type, modifier and collation. SQLite and MySQL
/// keep none of what a subquery gives.
fn without_statistics(name: &str, dialect: Dialect) -> SelectItem {
    let column = || ast::column(dialect, name);
    match dialect {
        Dialect::Postgres => {
            let twice = ast::keyword_call("coalesce", vec![column(), column()]);
            ast::item(dialect, twice, name)
        }
        Dialect::Sqlite | Dialect::Mysql => SelectItem::UnnamedExpr(column()),
    }
}

/// Whether a view's query gives the very tokens that `mask` asks for at `index`.
fn is_token(reference: &Reference, index: u16, mask: &Mask) -> bool {
    let output = reference
        .body
        .as_ref()
        .and_then(|body| body.resolved.outputs.get(usize::from(index)));
    let tokens = output.and_then(|output| output.lineage.tokens.as_ref());
    match (tokens, mask.token()) {
        (Some(TokenLineage::Of(below)), Some(keys)) => below == keys,
        (
            Some(
                TokenLineage::Nothing
                | TokenLineage::Constants
                | TokenLineage::Unopened
                | TokenLineage::Among(_),
            )
            | None,
            _,
        )
        | (Some(TokenLineage::Of(_)), None) => false,
    }
}

/// Whether a mask at or below any of `references` calls a function. For some functions SQLite looks at short values alone in the whole
/// statement, and fails on others.
pub(in crate::rewrite) fn computes_masks(references: &[Reference]) -> bool {
    references.iter().any(|reference| {
        let mut columns = reference.decision.columns.iter();
        columns.any(|column| match &column.level {
            ColumnLevel::Masked(mask) => mask::reads_column(mask),
            ColumnLevel::Plain | ColumnLevel::Hidden => false,
        }) || reference
            .body
            .as_ref()
            .is_some_and(|body| computes_masks(&body.resolved.references))
    })
}

/// Why an answer over `references` may be empty: by the filters at and below them.
pub(in crate::rewrite) fn if_empty(references: &[Reference]) -> EmptyReason {
    let of = |reference: &Reference| {
        let own = match reference.decision.rows {
            RowFilter::Everything => EmptyReason::NoMatch,
            RowFilter::Nothing => EmptyReason::NoRowsPermitted,
            RowFilter::Where(_) => EmptyReason::NoMatchOrFiltered,
        };
        let below = reference.body.as_ref();
        own.max(below.map_or(EmptyReason::NoMatch, |body| {
            if_empty(&body.resolved.references)
        }))
    };
    references
        .iter()
        .map(of)
        .max()
        .unwrap_or(EmptyReason::NoMatch)
}

/// The columns that the source subquery reads of `relation`.
pub(in crate::rewrite) fn columns_read(
    reference: &Reference,
    relation: &Relation,
) -> Arc<[Arc<str>]> {
    let decision = &reference.decision;
    let projected = (0u16..).zip(&decision.columns);
    let mut reads: BTreeSet<u16> = projected
        .filter(|(index, column)| match &column.level {
            ColumnLevel::Plain => true,
            ColumnLevel::Masked(mask) => reference.opens(*index) || mask::reads_column(mask),
            ColumnLevel::Hidden => false,
        })
        .map(|(index, _)| index)
        .collect();
    if let RowFilter::Where(predicate) = &decision.rows {
        row_filter::columns(predicate, &mut reads);
    }
    let columns = reads.into_iter().filter_map(|index| relation.column(index));
    columns.map(|column| Arc::clone(&column.key)).collect()
}

/// A view's query, with the sources of what it reads in their places.
fn view_query(
    resolved: &crate::resolve::ResolvedStatement,
    place: Place<'_>,
    is_fenced: bool,
    functions: &mut BTreeSet<String>,
) -> Result<Box<Query>, Rejection> {
    let within = Place {
        in_view: true,
        is_alone: false,
        is_narrowed: false,
        ..place
    };
    let mut query = resolved.query.clone();
    let mut sources = PrintedSources::new();
    for reference in &resolved.references {
        if has_obligations(reference) && !sources.iter().any(|(id, _)| *id == reference.relation) {
            sources.push((
                reference.relation,
                PrintedSource::Tree(source_query(reference, within, is_fenced, functions)?),
            ));
        }
    }
    let dialect = place.catalog.dialect();
    replace_references(&mut query, &resolved.references, &[], &sources, dialect)?;
    Ok(query)
}

/// A name that no relation has, for the view's query; folded.
pub(in crate::rewrite) fn unused_name(catalog: &Catalog, view: RelationId) -> String {
    let mut name = match catalog.relation(view) {
        Some(relation) => format!("{}_view", relation.key),
        None => "view".to_owned(),
    };
    while catalog.lookup(&name).is_some() {
        name.push('_');
    }
    name
}

/// What keeps the engine from running the agent's predicates before the filter.
///
/// SQLite neither flattens a subquery that has a LIMIT into a query with a WHERE clause or a join,
/// nor pushes conditions into it (<https://www.sqlite.org/optoverview.html#subquery_flattening>).
pub(in crate::rewrite) fn fence(dialect: Dialect) -> LimitClause {
    match dialect {
        Dialect::Sqlite => LimitClause::LimitOffset {
            limit: Some(Expr::UnaryOp {
                op: sqlparser::ast::UnaryOperator::Minus,
                expr: Box::new(ast::integer(1)),
            }),
            offset: Some(Offset {
                value: ast::integer(0),
                rows: OffsetRows::None,
            }),
            limit_by: Vec::new(),
        },
        // OFFSET 0 keeps PostgreSQL from pulling the subquery up and from pushing conditions down
        // (<https://www.postgresql.org/docs/current/queries-with.html>, `is_simple_subquery`).
        Dialect::Postgres => LimitClause::LimitOffset {
            limit: None,
            offset: Some(Offset {
                value: ast::integer(0),
                rows: OffsetRows::None,
            }),
            limit_by: Vec::new(),
        },
        // A derived table with a LIMIT is materialised, and no condition is pushed into it
        // (<https://dev.mysql.com/doc/refman/8.4/en/derived-table-optimization.html>).
        Dialect::Mysql => LimitClause::LimitOffset {
            limit: Some(Expr::Value(
                Value::Number(u64::MAX.to_string(), false).into(),
            )),
            offset: None,
            limit_by: Vec::new(),
        },
    }
}
