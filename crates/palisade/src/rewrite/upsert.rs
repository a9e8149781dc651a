//! What an upsert gives its rows, as a table beside the rows that are in their way: by what is looked for before it runs.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{
    BinaryOperator, ConflictTarget, DataType, DoUpdate, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Insert, ObjectName, OnConflict, OnConflictAction,
    OnInsert, Parens, Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Values, Visit as _,
    VisitMut, Visitor, VisitorMut,
};

use super::{null, sql};
use crate::{
    catalog::{Catalog, Column, Relation, TypeClass},
    dialect::Dialect,
    syntax::key,
};

/// What both engines call the row that could not be inserted.
const EXCLUDED: &str = "excluded";

/// Which of the values that an upsert gives are looked at, and as what.
#[derive(Debug)]
pub(super) struct Proposed {
    /// A name that nothing else in the statement has.
    name: Ident,
    /// The columns that the statement gives values, in its order.
    given: Vec<Ident>,
    /// Which of them are looked at: by place, with the type to take them as where that has to be said.
    looked_at: Vec<(usize, Option<DataType>)>,
    /// Those of ON CONFLICT.
    keys: Vec<Ident>,
    /// What the row in the way is called.
    pub(super) alias: Ident,
}

impl Proposed {
    /// What `insert`, which updates the row in the way, gives its rows; nothing where that cannot be told before it runs.
    /// `is_stored` says whether a column certainly holds a value as it is written.
    pub(super) fn of(
        insert: &Insert,
        relation: &Relation,
        catalog: &Catalog,
        alias: &Ident,
        name: Ident,
        is_stored: impl Fn(&Expr, &Column) -> bool,
    ) -> Option<Self> {
        let dialect = catalog.dialect();
        let Some(OnInsert::OnConflict(OnConflict {
            conflict_target: Some(ConflictTarget::Columns(keys)),
            action:
                OnConflictAction::DoUpdate(DoUpdate {
                    assignments: _,
                    selection,
                }),
        })) = &insert.on
        else {
            return None;
        };
        let given: Vec<Ident> = insert
            .columns
            .iter()
            .map(|name| last(name).cloned())
            .collect::<Option<_>>()?;
        let used = match selection {
            Some(condition) => Used::by(condition, relation, alias, dialect)?,
            None => Used::default(),
        };
        let position = |ident: &Ident| relation.position(&key(ident, dialect));
        let keys_at: BTreeSet<u16> = keys.iter().map(position).collect::<Option<_>>()?;
        let mut looked_at = Vec::new();
        for index in keys_at.union(&used.proposed) {
            let at = given.iter().position(|g| position(g) == Some(*index))?;
            let column = relation.column(*index)?;
            let data_type = match dialect {
                Dialect::Postgres => Some(null::data_type(column, catalog)?),
                // The key in the table says how it is compared.
                Dialect::Sqlite if !used.proposed.contains(index) => None,
                Dialect::Sqlite => Some(as_stored(insert, at, column, &is_stored)?),
                Dialect::Mysql => return None,
            };
            looked_at.push((at, data_type));
        }
        // A value has no collation of a column's.
        let is_binary = |index: &u16| {
            let column = relation.column(*index);
            column.is_some_and(|c| c.class != TypeClass::Text || c.collation == "BINARY")
        };
        let mut compared = used.present.union(&used.proposed);
        if dialect == Dialect::Sqlite && !used.proposed.is_empty() && !compared.all(is_binary) {
            return None;
        }
        let proposed = Self {
            name,
            given,
            looked_at,
            keys: keys.clone(),
            alias: alias.clone(),
        };
        match rows(insert) {
            Some(rows) if !rows.iter().all(|row| proposed.values(row).is_some()) => None,
            Some(_) | None => Some(proposed),
        }
    }

    /// That the row in the way has the keys of one that is proposed.
    pub(super) fn meets(&self) -> Expr {
        let of = |table: &Ident, column: &Ident| {
            Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
        };
        let excluded = Ident::new(EXCLUDED);
        let equal = self.keys.iter().map(|column| {
            let (own, proposed) = (of(&self.alias, column), of(&excluded, column));
            sql::binary(own, BinaryOperator::Eq, proposed)
        });
        sql::joined(equal.collect(), &BinaryOperator::And, true)
    }

    /// The condition under which `insert` updates the row in the way, as that of a query over both.
    pub(super) fn condition(&self, insert: &Insert, dialect: Dialect) -> Option<Expr> {
        let Some(OnInsert::OnConflict(OnConflict {
            conflict_target: _,
            action:
                OnConflictAction::DoUpdate(DoUpdate {
                    assignments: _,
                    selection: Some(condition),
                }),
        })) = &insert.on
        else {
            return None;
        };
        let mut condition = condition.clone();
        let alias = &self.alias;
        let _ = VisitMut::visit(&mut condition, &mut Naming { alias, dialect });
        Some(condition)
    }

    /// The rows of `insert`, called as its condition calls them.
    pub(super) fn table(&self, insert: &Insert, dialect: Dialect) -> Option<TableFactor> {
        let source = insert.source.as_ref()?;
        let column = |at: usize| self.given.get(at).cloned();
        let looked_at = self.looked_at.iter();
        let (columns, source, casts): (Vec<Ident>, Query, Vec<Option<DataType>>) =
            match rows(insert) {
                // Nothing else of them is worked out.
                Some(rows) => (
                    looked_at
                        .map(|(at, _)| column(*at))
                        .collect::<Option<_>>()?,
                    sql::query(SetExpr::Values(Values {
                        explicit_row: false,
                        value_keyword: false,
                        rows: rows
                            .iter()
                            .map(|row| Some(Parens::with_empty_span(self.values(row)?)))
                            .collect::<Option<_>>()?,
                    })),
                    vec![None; self.looked_at.len()],
                ),
                None => (
                    self.given.clone(),
                    (**source).clone(),
                    looked_at.map(|(_, data_type)| data_type.clone()).collect(),
                ),
            };
        let items = self.looked_at.iter().zip(casts).map(|((at, _), cast)| {
            let ident = column(*at)?;
            let plain = Expr::Identifier(ident.clone());
            Some(match cast {
                Some(data_type) => SelectItem::ExprWithAlias {
                    expr: sql::cast(plain, data_type),
                    alias: ident,
                },
                None => SelectItem::UnnamedExpr(plain),
            })
        });
        let rows = sql::table(dialect, &[&key(&self.name, dialect)]);
        let mut query = sql::select(items.collect::<Option<_>>()?, rows, None);
        query.with = Some(sql::with(self.name.clone(), columns, source));
        Some(TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(sql::alias(Ident::new(EXCLUDED))),
            sample: None,
        })
    }

    /// What `row` gives of what is looked at; nothing unless it says so itself.
    fn values(&self, row: &[Expr]) -> Option<Vec<Expr>> {
        self.looked_at
            .iter()
            .map(|(at, data_type)| {
                let value = row.get(*at).filter(|value| is_written(value))?;
                let value = sql::parens(value.clone());
                Some(match data_type {
                    Some(data_type) => sql::cast(value, data_type.clone()),
                    None => value,
                })
            })
            .collect()
    }
}

/// The rows of VALUES.
fn rows(insert: &Insert) -> Option<Vec<&[Expr]>> {
    match &*insert.source.as_ref()?.body {
        SetExpr::Values(Values {
            explicit_row: _,
            value_keyword: _,
            rows,
        }) => Some(rows.iter().map(|row| row.content.as_slice()).collect()),
        _ => None,
    }
}

/// The type as which SQLite certainly stores what the column at this place is given.
fn as_stored(
    insert: &Insert,
    at: usize,
    column: &Column,
    is_stored: &impl Fn(&Expr, &Column) -> bool,
) -> Option<DataType> {
    let is_stored = |row: &&[Expr]| row.get(at).is_some_and(|value| is_stored(value, column));
    if !rows(insert)?.iter().all(is_stored) {
        return None;
    }
    match column.class {
        TypeClass::Integer => Some(DataType::Integer(None)),
        TypeClass::Text => Some(DataType::Text),
        _ => None,
    }
}

/// Whether a value is a literal or a parameter.
fn is_written(value: &Expr) -> bool {
    match value {
        Expr::Value(_) => true,
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => matches!(**expr, Expr::Value(_)),
        _ => false,
    }
}

fn last(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

fn is_excluded(ident: &Ident, dialect: Dialect) -> bool {
    key(ident, dialect) == EXCLUDED
}

/// The columns that a condition looks at: of the row that is there, and of the one that is proposed.
#[derive(Debug, Default)]
struct Used {
    present: BTreeSet<u16>,
    proposed: BTreeSet<u16>,
}

impl Used {
    /// Nothing where it looks at anything else.
    fn by(condition: &Expr, relation: &Relation, alias: &Ident, dialect: Dialect) -> Option<Self> {
        if is_excluded(alias, dialect) {
            return None;
        }
        let mut looking = Looking {
            relation,
            alias,
            dialect,
            used: Self::default(),
        };
        match condition.visit(&mut looking) {
            ControlFlow::Continue(()) => Some(looking.used),
            ControlFlow::Break(()) => None,
        }
    }
}

struct Looking<'l> {
    relation: &'l Relation,
    alias: &'l Ident,
    dialect: Dialect,
    used: Used,
}

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        // Names in it may be its own.
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let (columns, column) = match named(expr) {
            Some(Named::Column(column)) => (&mut self.used.present, column),
            Some(Named::Of(table, column)) if is_excluded(table, self.dialect) => {
                (&mut self.used.proposed, column)
            }
            Some(Named::Of(table, column))
                if key(table, self.dialect) == key(self.alias, self.dialect) =>
            {
                (&mut self.used.present, column)
            }
            Some(Named::Of(_, _) | Named::Other) => return ControlFlow::Break(()),
            None => return ControlFlow::Continue(()),
        };
        match self.relation.position(&key(column, self.dialect)) {
            Some(index) => {
                columns.insert(index);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

/// What an expression names itself.
enum Named<'e> {
    Column(&'e Ident),
    Of(&'e Ident, &'e Ident),
    /// Whole rows, or a column by its schema too.
    Other,
}

fn named(expr: &Expr) -> Option<Named<'_>> {
    if let Expr::Identifier(column) = expr {
        return Some(Named::Column(column));
    }
    if let Expr::CompoundIdentifier(parts) = expr {
        return Some(match parts.as_slice() {
            [table, column] => Named::Of(table, column),
            [] | [_] | [_, _, ..] => Named::Other,
        });
    }
    let takes_rows = |arg: &FunctionArgExpr| match arg {
        FunctionArgExpr::Expr(_) => false,
        FunctionArgExpr::QualifiedWildcard(_)
        | FunctionArgExpr::Wildcard
        | FunctionArgExpr::WildcardWithOptions(_) => true,
    };
    let is_other = match expr {
        Expr::Function(Function {
            name: _,
            uses_odbc_syntax: _,
            parameters: _,
            args: FunctionArguments::List(list),
            filter: _,
            null_treatment: _,
            over: _,
            within_group: _,
        }) => list.args.iter().any(|arg| match arg {
            FunctionArg::Named {
                name: _,
                arg,
                operator: _,
            }
            | FunctionArg::ExprNamed {
                name: _,
                arg,
                operator: _,
            }
            | FunctionArg::Unnamed(arg) => takes_rows(arg),
        }),
        other => matches!(
            other,
            Expr::QualifiedWildcard(_, _)
                | Expr::Wildcard(_)
                | Expr::CompoundFieldAccess {
                    root: _,
                    access_chain: _
                }
        ),
    };
    is_other.then_some(Named::Other)
}

/// Has each name say of which row it is.
struct Naming<'n> {
    alias: &'n Ident,
    dialect: Dialect,
}

impl VisitorMut for Naming<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let of =
            |column: &Ident| Expr::CompoundIdentifier(vec![self.alias.clone(), column.clone()]);
        let named = match named(expr) {
            Some(Named::Column(column)) => Some(of(column)),
            // Of the column's own type and collation.
            Some(Named::Of(table, column))
                if self.dialect == Dialect::Postgres && is_excluded(table, self.dialect) =>
            {
                let arms = vec![(sql::boolean(false), of(column))];
                Some(sql::parens(sql::case(arms, Some(expr.clone()))))
            }
            Some(Named::Of(_, _) | Named::Other) | None => None,
        };
        if let Some(named) = named {
            *expr = named;
        }
        ControlFlow::Continue(())
    }
}
