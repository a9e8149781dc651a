//! The rows that an upsert proposes, as a table beside the conflicting rows: a precheck looks for them before it runs.

use std::{collections::BTreeSet, fmt, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    BinaryOperator, ConflictTarget, DataType, DoUpdate, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, Parens, Query, SelectItem, SetExpr, TableFactor, UnaryOperator,
    Values,
};

use crate::rewrite::{
    ast,
    change::{determinism, new_row::fold::Constant},
    relation_source::typed_null,
};
use crate::{
    catalog::{Catalog, Column, Relation, TypeClass},
    dialect::Dialect,
    resolve::{EXCLUDED, Target},
    syntax::{Role, TreeVisitor, TreeVisitorMut, key, role, visit_tree, visit_tree_mut},
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
    /// What the conflicting row is called.
    pub(in crate::rewrite) alias: Ident,
    dialect: Dialect,
}

/// Why no precheck can find the conflicting row.
#[derive(Debug)]
pub(in crate::rewrite) enum UnknownRows {
    /// The keys are not named, or not given.
    Keys,
    /// A column is given a value that is not known before.
    Given(Arc<str>),
    /// A column is given a value that the engine may store as another.
    Stored(Arc<str>),
    /// The condition looks at a value that is not known before.
    Condition,
    /// A subquery of the condition has a table with the name of one of the rows.
    AmbiguousName,
    /// The condition reads a table that the statement changes.
    ReadsChangedTable,
    /// Two proposed rows may have one key.
    RepeatedKeys,
}

impl fmt::Display for UnknownRows {
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
                " by `{column}`: give it a literal, a parameter, a deterministic expression of these, or a query"
            ),
            Self::Stored(column) => write!(
                f,
                ", since `{column}` may be stored as another value: give a literal or parameter of the column's type, or CAST to \
                 that type"
            ),
            Self::Condition => write!(
                f,
                " by the condition of DO UPDATE: compare columns of the row with columns of `excluded` that the statement gives \
                 values"
            ),
            Self::AmbiguousName => write!(
                f,
                " by the condition of DO UPDATE: give each table in its subqueries a name of its own, and qualify each column"
            ),
            Self::ReadsChangedTable => write!(
                f,
                " by the condition of DO UPDATE, whose subquery reads a table that the statement changes: query that table first, \
                 and give the result as literals or parameters"
            ),
            Self::RepeatedKeys => write!(
                f,
                " where two rows may have one key: insert one row at a time"
            ),
        }
    }
}

impl Proposed {
    /// What `insert`, which updates the conflicting row, gives its rows. `is_settled` says whether a value is the same each
    /// time that it is worked out, `constant` as what a column certainly stores it.
    ///
    /// # Errors
    /// [`UnknownRows`] where that cannot be told before it runs.
    pub(in crate::rewrite) fn new(
        insert: &Insert,
        relation: &Relation,
        catalog: &Catalog,
        target: &Target,
        name: Ident,
        is_settled: impl Fn(&Expr) -> bool,
        constant: impl Fn(&Expr, &Column) -> Option<Constant>,
    ) -> Result<Self, UnknownRows> {
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
            return Err(UnknownRows::Keys);
        };
        let given: Vec<Ident> = insert
            .columns
            .iter()
            .map(|name| last_part(name).cloned())
            .collect::<Option<_>>()
            .ok_or(UnknownRows::Keys)?;
        let used = match selection {
            Some(condition) => UsedColumns::require_only(condition, relation, target, dialect)?,
            None => UsedColumns::default(),
        };
        let position = |ident: &Ident| relation.position(&key(ident, dialect));
        let keys_at: BTreeSet<u16> = keys
            .iter()
            .map(position)
            .collect::<Option<_>>()
            .ok_or(UnknownRows::Keys)?;
        let mut looked_at = Vec::new();
        for index in keys_at.union(&used.proposed) {
            let column = relation.column(*index).ok_or(UnknownRows::Keys)?;
            let shown_name = || Arc::clone(&column.name);
            let at = given.iter().position(|g| position(g) == Some(*index));
            let at = at.ok_or_else(|| {
                if keys_at.contains(index) {
                    UnknownRows::Keys
                } else {
                    UnknownRows::Given(shown_name())
                }
            })?;
            let written = |row: &&[Expr]| {
                let value = row.get(at);
                value.is_some_and(|value| determinism::is_written(value) || is_settled(value))
            };
            if let Some(rows) = values_rows(insert)
                && !rows.iter().all(written)
            {
                return Err(UnknownRows::Given(shown_name()));
            }
            let computed = |row: &&[Expr]| row.get(at).is_some_and(|v| !determinism::is_written(v));
            let computes = values_rows(insert).is_none_or(|rows| rows.iter().any(computed));
            let data_type = match dialect {
                Dialect::Postgres => Some(
                    typed_null::data_type(column, catalog)
                        .filter(|known| !computes || has_known_collation(known, column))
                        .ok_or_else(|| UnknownRows::Stored(shown_name()))?,
                ),
                // The key in the table says how it is compared.
                Dialect::Sqlite if !used.proposed.contains(index) => None,
                Dialect::Sqlite => Some(
                    stored_type(insert, at, column, &constant)
                        .ok_or_else(|| UnknownRows::Stored(shown_name()))?,
                ),
                Dialect::Mysql => return Err(UnknownRows::Keys),
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
            return Err(UnknownRows::Condition);
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

    /// The condition that the conflicting row has the keys of a proposed row.
    pub(in crate::rewrite) fn conflict_condition(&self) -> Expr {
        let of = |table: &Ident, column: &Ident| {
            Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
        };
        let excluded = Ident::new(EXCLUDED);
        let equal = self.keys.iter().map(|column| {
            let (own, proposed) = (of(&self.alias, column), of(&excluded, column));
            ast::binary(own, BinaryOperator::Eq, proposed)
        });
        ast::join_by(equal.collect(), &BinaryOperator::And, true)
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

    /// The condition under which `insert` updates the conflicting row, as that of a query over both.
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
        let mut naming = ExcludedRenamer {
            alias: &self.alias,
            dialect,
            depth: 0,
        };
        let _ = visit_tree_mut(&mut condition, &mut naming);
        Some(condition)
    }

    /// The rows of `insert`, called as its condition calls them.
    pub(in crate::rewrite) fn rows_table(
        &self,
        insert: &Insert,
        dialect: Dialect,
    ) -> Option<TableFactor> {
        let source = insert.source.as_ref()?;
        let column = |at: usize| self.given.get(at).cloned();
        let looked_at = self.looked_at.iter();
        let (columns, source, casts): (Vec<Ident>, Query, Vec<Option<DataType>>) =
            match values_rows(insert) {
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
                    expr: self.cast_to_column(plain, data_type),
                    alias: ident,
                },
                None => SelectItem::UnnamedExpr(plain),
            })
        });
        let rows = ast::table(dialect, &[&key(&self.name, dialect)]);
        let mut query = ast::select(items.collect::<Option<_>>()?, rows, None);
        query.with = Some(ast::with_query(self.name.clone(), columns, source));
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
                    (Some(data_type), false) => self.cast_to_column(nested, data_type.clone()),
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
    fn cast_to_column(&self, value: Expr, data_type: DataType) -> Expr {
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
fn values_rows(insert: &Insert) -> Option<Vec<&[Expr]>> {
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
fn stored_type(
    insert: &Insert,
    at: usize,
    column: &Column,
    constant: &impl Fn(&Expr, &Column) -> Option<Constant>,
) -> Option<DataType> {
    let constant = |value: &Expr| constant(value, column);
    let is_held = |row: &&[Expr]| {
        let value = row.get(at);
        value.is_some_and(|value| determinism::is_stored_unchanged(value, column, &constant))
    };
    if !values_rows(insert)?.iter().all(is_held) {
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

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

fn is_excluded(ident: &Ident, dialect: Dialect) -> bool {
    key(ident, dialect) == EXCLUDED
}

/// The columns that a condition looks at, of the existing row and of the proposed row.
#[derive(Debug, Default)]
struct UsedColumns {
    present: BTreeSet<u16>,
    proposed: BTreeSet<u16>,
}

impl UsedColumns {
    /// An error where it looks at anything else that is of these rows.
    fn require_only(
        condition: &Expr,
        relation: &Relation,
        target: &Target,
        dialect: Dialect,
    ) -> Result<Self, UnknownRows> {
        let alias = &target.qualifier;
        if is_excluded(alias, dialect) {
            return Err(UnknownRows::Condition);
        }
        if target.untold {
            return Err(UnknownRows::AmbiguousName);
        }
        let mut looking = ColumnSearch {
            relation,
            alias,
            dialect,
            used: Self::default(),
            depth: 0,
        };
        match visit_tree(condition, &mut looking) {
            ControlFlow::Continue(()) => Ok(looking.used),
            ControlFlow::Break(()) => Err(UnknownRows::Condition),
        }
    }
}

struct ColumnSearch<'l> {
    relation: &'l Relation,
    alias: &'l Ident,
    dialect: Dialect,
    used: UsedColumns,
    /// How many subqueries stand around: in one, names of the rows say so.
    depth: usize,
}

impl TreeVisitor for ColumnSearch<'_> {
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let (columns, column) = match column_name(expr) {
            Some(ColumnName::Column(_)) if self.depth > 0 => return ControlFlow::Continue(()),
            Some(ColumnName::Column(column)) => (&mut self.used.present, column),
            Some(ColumnName::Of(table, column)) if is_excluded(table, self.dialect) => {
                (&mut self.used.proposed, column)
            }
            Some(ColumnName::Of(table, column))
                if key(table, self.dialect) == key(self.alias, self.dialect) =>
            {
                (&mut self.used.present, column)
            }
            Some(ColumnName::Of(_, _) | ColumnName::All) if self.depth > 0 => {
                return ControlFlow::Continue(());
            }
            Some(ColumnName::Of(_, _) | ColumnName::All | ColumnName::Other) => {
                return ControlFlow::Break(());
            }
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
enum ColumnName<'e> {
    Column(&'e Ident),
    Of(&'e Ident, &'e Ident),
    /// Rows of all that stands around: `count(*)`.
    All,
    /// Whole rows, or a column by its schema too.
    Other,
}

fn column_name(expr: &Expr) -> Option<ColumnName<'_>> {
    let rows = |arg: &FunctionArgExpr| match arg {
        FunctionArgExpr::Expr(_) => None,
        FunctionArgExpr::Wildcard => Some(ColumnName::All),
        FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::WildcardWithOptions(_) => {
            Some(ColumnName::Other)
        }
    };
    match role(expr) {
        Role::Name(column) => Some(ColumnName::Column(column)),
        Role::Path([table, column]) => Some(ColumnName::Of(table, column)),
        Role::Path(_) => Some(ColumnName::Other),
        Role::Call(Function {
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
        // Subqueries among the arguments are looked at by themselves.
        Role::Call(Function {
            name: _,
            uses_odbc_syntax: _,
            parameters: _,
            args: FunctionArguments::None | FunctionArguments::Subquery(_),
            filter: _,
            null_treatment: _,
            over: _,
            within_group: _,
        })
        | Role::Value(_)
        | Role::Operator(_)
        | Role::Collation
        | Role::Other => None,
        Role::WholeRow(_) | Role::Star | Role::Columns(_) | Role::Access => Some(ColumnName::Other),
    }
}

/// Has each name say of which row it is.
struct ExcludedRenamer<'n> {
    alias: &'n Ident,
    dialect: Dialect,
    depth: usize,
}

impl TreeVisitorMut for ExcludedRenamer<'_> {
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
        let named = match column_name(expr) {
            Some(ColumnName::Column(column)) if self.depth == 0 => Some(of(column)),
            // Of the column's own type and collation.
            Some(ColumnName::Of(table, column))
                if self.dialect == Dialect::Postgres && is_excluded(table, self.dialect) =>
            {
                let arms = vec![(ast::boolean(false), of(column))];
                Some(ast::parens(ast::case(arms, Some(expr.clone()))))
            }
            Some(
                ColumnName::Column(_) | ColumnName::Of(_, _) | ColumnName::All | ColumnName::Other,
            )
            | None => None,
        };
        if let Some(named) = named {
            *expr = named;
        }
        ControlFlow::Continue(())
    }
}
