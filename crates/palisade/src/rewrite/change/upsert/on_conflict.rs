//! What an upsert gives its rows, as a table beside the rows that are in their way: by what is looked for before it runs.

use std::{collections::BTreeSet, fmt, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, ConflictTarget, DataType, DoUpdate, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, Parens, Query, SelectItem, SetExpr, TableFactor, UnaryOperator,
    Values, Visit as _, VisitMut, Visitor, VisitorMut,
};

use crate::rewrite::{
    ast,
    change::{determinism, new_row::fold::Constant},
    source::typed_null,
};
use crate::{
    catalog::{Catalog, Column, Relation, TypeClass},
    dialect::Dialect,
    resolve::{EXCLUDED, Target},
    syntax::key,
};

/// Which of the values that an upsert gives are looked at, and as what.
#[derive(Debug, Clone)]
pub(in crate::rewrite) struct Proposed {
    /// A name that nothing else in the statement has.
    name: Ident,
    /// The columns that the statement gives values, in its order.
    given: Vec<Ident>,
    /// Which of them are looked at: by place, with the type to take them as where that has to be said.
    looked_at: Vec<(usize, Option<DataType>)>,
    /// Those of ON CONFLICT.
    keys: Vec<Ident>,
    /// What the row in the way is called.
    pub(in crate::rewrite) alias: Ident,
    dialect: Dialect,
}

/// Why the row in the way cannot be looked for.
#[derive(Debug)]
pub(in crate::rewrite) enum Unknown {
    /// The keys are not named, or not given.
    Keys,
    /// A column is given what is not known before, or what is only known as the engine stores it.
    Given(Arc<str>),
    Stored(Arc<str>),
    /// The condition looks at what is not known before.
    Condition,
    /// A subquery of the condition has a table that is called as one of the rows.
    Untold,
    /// The condition reads what the statement changes meanwhile.
    Reads,
    /// One of several rows may meet another.
    Twice,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys => {
                write!(
                    f,
                    ": name the key's columns in ON CONFLICT, and give them values"
                )
            }
            Self::Given(column) => write!(
                f,
                " by `{column}`: give it by a literal, a parameter, what is computed from these alone and the same each \
                 time, or a query"
            ),
            Self::Stored(column) => write!(
                f,
                ", since `{column}` may be stored otherwise than it is given: give it by a literal or parameter of the \
                 column's type, or CAST it to that"
            ),
            Self::Condition => write!(
                f,
                " by the condition of DO UPDATE: have it compare columns of the row, and columns of `excluded` that the \
                 statement gives values"
            ),
            Self::Untold => write!(
                f,
                " by the condition of DO UPDATE: give the tables in its subqueries names of their own, and have each column say \
                 of which table it is"
            ),
            Self::Reads => write!(
                f,
                " by the condition of DO UPDATE, whose subquery reads a table that the statement changes meanwhile: read that \
                 first, and give what it says as literals or parameters"
            ),
            Self::Twice => write!(
                f,
                " where two rows may have one key: insert one row at a time"
            ),
        }
    }
}

impl Proposed {
    /// What `insert`, which updates the row in the way, gives its rows. `is_settled` says whether a value is the same each
    /// time that it is worked out, `constant` as what a column certainly stores it.
    ///
    /// # Errors
    /// [`Unknown`] where that cannot be told before it runs.
    pub(in crate::rewrite) fn of(
        insert: &Insert,
        relation: &Relation,
        catalog: &Catalog,
        target: &Target,
        name: Ident,
        is_settled: impl Fn(&Expr) -> bool,
        constant: impl Fn(&Expr, &Column) -> Option<Constant>,
    ) -> Result<Self, Unknown> {
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
            return Err(Unknown::Keys);
        };
        let given: Vec<Ident> = insert
            .columns
            .iter()
            .map(|name| last(name).cloned())
            .collect::<Option<_>>()
            .ok_or(Unknown::Keys)?;
        let used = match selection {
            Some(condition) => Used::by(condition, relation, target, dialect)?,
            None => Used::default(),
        };
        let position = |ident: &Ident| relation.position(&key(ident, dialect));
        let keys_at: BTreeSet<u16> = keys
            .iter()
            .map(position)
            .collect::<Option<_>>()
            .ok_or(Unknown::Keys)?;
        let mut looked_at = Vec::new();
        for index in keys_at.union(&used.proposed) {
            let column = relation.column(*index).ok_or(Unknown::Keys)?;
            let named = || Arc::clone(&column.name);
            let at = given.iter().position(|g| position(g) == Some(*index));
            let at = at.ok_or_else(|| {
                if keys_at.contains(index) {
                    Unknown::Keys
                } else {
                    Unknown::Given(named())
                }
            })?;
            let written = |row: &&[Expr]| {
                let value = row.get(at);
                value.is_some_and(|value| determinism::is_written(value) || is_settled(value))
            };
            if let Some(rows) = rows(insert)
                && !rows.iter().all(written)
            {
                return Err(Unknown::Given(named()));
            }
            let computed = |row: &&[Expr]| row.get(at).is_some_and(|v| !determinism::is_written(v));
            let computes = rows(insert).is_none_or(|rows| rows.iter().any(computed));
            let data_type = match dialect {
                Dialect::Postgres => Some(
                    typed_null::data_type(column, catalog)
                        .filter(|known| !computes || has_known_collation(known, column))
                        .ok_or_else(|| Unknown::Stored(named()))?,
                ),
                // The key in the table says how it is compared.
                Dialect::Sqlite if !used.proposed.contains(index) => None,
                Dialect::Sqlite => Some(
                    as_stored(insert, at, column, &constant)
                        .ok_or_else(|| Unknown::Stored(named()))?,
                ),
                Dialect::Mysql => return Err(Unknown::Keys),
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
            return Err(Unknown::Condition);
        }
        Ok(Self {
            name,
            given,
            looked_at,
            keys: keys.clone(),
            alias: target.qualifier.clone(),
            dialect,
        })
    }

    /// That the row in the way has the keys of one that is proposed.
    pub(in crate::rewrite) fn meets(&self) -> Expr {
        let of = |table: &Ident, column: &Ident| {
            Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
        };
        let excluded = Ident::new(EXCLUDED);
        let equal = self.keys.iter().map(|column| {
            let (own, proposed) = (of(&self.alias, column), of(&excluded, column));
            ast::binary(own, BinaryOperator::Eq, proposed)
        });
        ast::joined(equal.collect(), &BinaryOperator::And, true)
    }

    /// The keys, so that two that are one to SQLite's column are equal: for numbers and text, of which it is known.
    pub(in crate::rewrite) fn key_values(&self, relation: &Relation) -> Option<Vec<Expr>> {
        self.keys
            .iter()
            .map(|ident| {
                let plain = Expr::Identifier(ident.clone());
                let column = relation.column(relation.position(&key(ident, self.dialect))?)?;
                match column.class {
                    TypeClass::Integer | TypeClass::Number | TypeClass::Boolean => {
                        Some(ast::cast(plain, DataType::Numeric(ExactNumberInfo::None)))
                    }
                    TypeClass::Text => Some(ast::collate(
                        ast::cast(plain, DataType::Text),
                        &column.collation,
                        self.dialect,
                    )),
                    _ => None,
                }
            })
            .collect()
    }

    /// The condition under which `insert` updates the row in the way, as that of a query over both.
    pub(in crate::rewrite) fn condition(&self, insert: &Insert, dialect: Dialect) -> Option<Expr> {
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
        let mut naming = Naming {
            alias: &self.alias,
            dialect,
            depth: 0,
        };
        let _ = VisitMut::visit(&mut condition, &mut naming);
        Some(condition)
    }

    /// The rows of `insert`, called as its condition calls them.
    pub(in crate::rewrite) fn table(
        &self,
        insert: &Insert,
        dialect: Dialect,
    ) -> Option<TableFactor> {
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
                    ast::query(SetExpr::Values(Values {
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
                    expr: self.typed(plain, data_type),
                    alias: ident,
                },
                None => SelectItem::UnnamedExpr(plain),
            })
        });
        let rows = ast::table(dialect, &[&key(&self.name, dialect)]);
        let mut query = ast::select(items.collect::<Option<_>>()?, rows, None);
        query.with = Some(ast::with(self.name.clone(), columns, source));
        Some(TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(ast::alias(Ident::new(EXCLUDED))),
            sample: None,
        })
    }

    /// What `row` gives of what is looked at.
    fn values(&self, row: &[Expr]) -> Option<Vec<Expr>> {
        self.looked_at
            .iter()
            .map(|(at, data_type)| {
                let value = row.get(*at)?;
                let nested = ast::parens(value.clone());
                Some(match (data_type, determinism::is_written(value)) {
                    (Some(data_type), true) => ast::cast(nested, data_type.clone()),
                    (Some(data_type), false) => self.typed(nested, data_type.clone()),
                    (None, true) => nested,
                    // A cast has an affinity of its own, which a value that is stored has not.
                    (None, false) => ast::parens(Expr::UnaryOp {
                        op: UnaryOperator::Plus,
                        expr: Box::new(nested),
                    }),
                })
            })
            .collect()
    }

    /// `value` as the column's type, and with no collation that a column's would not give way to.
    fn typed(&self, value: Expr, data_type: DataType) -> Expr {
        let name = data_type.to_string();
        let typed = ast::cast(value, data_type);
        match (self.dialect, TypeClass::from_name(self.dialect, &name)) {
            // The type called "char" has none.
            (Dialect::Postgres, TypeClass::Text | TypeClass::Padded) if !name.starts_with('"') => {
                ast::collate(typed, "default", self.dialect)
            }
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => typed,
        }
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
    constant: &impl Fn(&Expr, &Column) -> Option<Constant>,
) -> Option<DataType> {
    let constant = |value: &Expr| constant(value, column);
    let is_held = |row: &&[Expr]| {
        let value = row.get(at);
        value.is_some_and(|value| determinism::is_held(value, column, &constant))
    };
    if !rows(insert)?.iter().all(is_held) {
        return None;
    }
    match column.class {
        TypeClass::Integer => Some(DataType::Integer(None)),
        TypeClass::Text => Some(DataType::Text),
        _ => None,
    }
}

/// Whether it is known that values of this type, which is `column`'s, have a collation, or that they have none. Some types of
/// extensions have one.
fn has_known_collation(data_type: &DataType, column: &Column) -> bool {
    let class = TypeClass::from_name(Dialect::Postgres, &data_type.to_string());
    class != TypeClass::Other || column.class == TypeClass::Enum
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
    /// An error where it looks at anything else that is of these rows.
    fn by(
        condition: &Expr,
        relation: &Relation,
        target: &Target,
        dialect: Dialect,
    ) -> Result<Self, Unknown> {
        let alias = &target.qualifier;
        if is_excluded(alias, dialect) {
            return Err(Unknown::Condition);
        }
        if target.untold {
            return Err(Unknown::Untold);
        }
        let mut looking = Looking {
            relation,
            alias,
            dialect,
            used: Self::default(),
            depth: 0,
        };
        match condition.visit(&mut looking) {
            ControlFlow::Continue(()) => Ok(looking.used),
            ControlFlow::Break(()) => Err(Unknown::Condition),
        }
    }
}

struct Looking<'l> {
    relation: &'l Relation,
    alias: &'l Ident,
    dialect: Dialect,
    used: Used,
    /// How many subqueries stand around: in one, names of the rows say so.
    depth: usize,
}

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let (columns, column) = match named(expr) {
            Some(Named::Column(_)) if self.depth > 0 => return ControlFlow::Continue(()),
            Some(Named::Column(column)) => (&mut self.used.present, column),
            Some(Named::Of(table, column)) if is_excluded(table, self.dialect) => {
                (&mut self.used.proposed, column)
            }
            Some(Named::Of(table, column))
                if key(table, self.dialect) == key(self.alias, self.dialect) =>
            {
                (&mut self.used.present, column)
            }
            Some(Named::Of(_, _) | Named::All) if self.depth > 0 => {
                return ControlFlow::Continue(());
            }
            Some(Named::Of(_, _) | Named::All | Named::Other) => return ControlFlow::Break(()),
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
    /// Rows of all that stands around: `count(*)`.
    All,
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
    let rows = |arg: &FunctionArgExpr| match arg {
        FunctionArgExpr::Expr(_) => None,
        FunctionArgExpr::Wildcard => Some(Named::All),
        FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_) => {
            Some(Named::Other)
        }
    };
    match expr {
        Expr::Function(Function {
            name: _,
            uses_odbc_syntax: _,
            parameters: _,
            args: FunctionArguments::List(list),
            filter: _,
            null_treatment: _,
            over: _,
            within_group: _,
        }) => list.args.iter().find_map(|arg| match arg {
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
            | FunctionArg::Unnamed(arg) => rows(arg),
        }),
        other => matches!(
            other,
            Expr::QualifiedWildcard(_, _)
                | Expr::Wildcard(_)
                | Expr::CompoundFieldAccess {
                    root: _,
                    access_chain: _
                }
        )
        .then_some(Named::Other),
    }
}

/// Has each name say of which row it is.
struct Naming<'n> {
    alias: &'n Ident,
    dialect: Dialect,
    depth: usize,
}

impl VisitorMut for Naming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let of =
            |column: &Ident| Expr::CompoundIdentifier(vec![self.alias.clone(), column.clone()]);
        let named = match named(expr) {
            Some(Named::Column(column)) if self.depth == 0 => Some(of(column)),
            // Of the column's own type and collation.
            Some(Named::Of(table, column))
                if self.dialect == Dialect::Postgres && is_excluded(table, self.dialect) =>
            {
                let arms = vec![(ast::boolean(false), of(column))];
                Some(ast::parens(ast::case(arms, Some(expr.clone()))))
            }
            Some(Named::Column(_) | Named::Of(_, _) | Named::All | Named::Other) | None => None,
        };
        if let Some(named) = named {
            *expr = named;
        }
        ControlFlow::Continue(())
    }
}
