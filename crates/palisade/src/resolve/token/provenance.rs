//! Of what a value is made: of constants or of anything else.

use std::ops::ControlFlow;

use sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
    TableFactor, TypedString, Value, ValueWithSpan,
};

use crate::resolve::{
    Resolver,
    scope::{Found, Origin, Scope},
    token::wrapper::peel,
};
use crate::{
    catalog::ColumnId,
    dialect::Dialect,
    lineage::{Lineage, TokenLineage},
    syntax::{Role, TableRole, TreeVisitor, role, table_role, visit_tree},
};

/// Of what a value is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::resolve) enum Provenance {
    /// NULL alone.
    Null,
    /// Of constants: literals and parameters, wherever they stand, and what is computed of them.
    Constants,
    /// Of something else.
    Other,
}

/// A call that gives one of its arguments.
pub(in crate::resolve) struct ChoiceCall<'e> {
    pub(in crate::resolve) args: Vec<&'e Expr>,
    /// The positions of the arguments of which it gives one.
    pub(in crate::resolve) chosen: Vec<usize>,
    /// The positions of the arguments that must be compared alike with these.
    pub(in crate::resolve) compared: Vec<usize>,
}

impl Provenance {
    /// The provenance of a value that is one or the other.
    fn either(self, other: Self) -> Self {
        self.max(other)
    }
}

impl<'a> Resolver<'a> {
    /// Of what an expression is made, which has been resolved.
    pub(in crate::resolve) fn provenance(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Provenance {
        if let Some(inner) = peel(expr, false, self.catalog.dialect()) {
            return self.provenance(inner, scope);
        }
        match expr {
            Expr::Value(value)
            | Expr::TypedString(TypedString {
                data_type: DataType::Text,
                value,
                uses_odbc_syntax: _,
            }) => value_provenance(value),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match self.meaning(expr, scope) {
                NameMeaning::Column(origin) => column_provenance(&origin),
                NameMeaning::Other | NameMeaning::Nothing => Provenance::Other,
            },
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: _,
                conditions,
                else_result,
            } => {
                let results = conditions.iter().map(|when| &when.result);
                results
                    .chain(else_result.as_deref())
                    .fold(Provenance::Null, |made, result| {
                        made.either(self.provenance(result, scope))
                    })
            }
            Expr::Subquery(query) => match self.subquery_column(query) {
                Some(column) if column.is_constant => Provenance::Constants,
                Some(_) | None => Provenance::Other,
            },
            Expr::Function(function) => match self.choice_call(function) {
                Some(ChoiceCall {
                    args,
                    chosen: _,
                    compared,
                }) => {
                    let compared = compared.iter().filter_map(|at| args.get(*at));
                    compared.fold(Provenance::Null, |made, arg| {
                        made.either(self.provenance(arg, scope))
                    })
                }
                None => self.provenance_of_parts(expr, scope),
            },
            other => self.provenance_of_parts(other, scope),
        }
    }

    /// Of what the elements of an array are made.
    pub(in crate::resolve) fn provenance_of_elements(
        &self,
        array: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Provenance {
        if let Some(inner) = peel(array, true, self.catalog.dialect()) {
            return self.provenance_of_elements(inner, scope);
        }
        match array {
            Expr::Value(value) => value_provenance(value),
            Expr::Array(array) => array.elem.iter().fold(Provenance::Null, |made, item| {
                made.either(match item {
                    Expr::Array(_) => self.provenance_of_elements(item, scope),
                    item => self.provenance(item, scope),
                })
            }),
            other => match self.provenance(other, scope) {
                Provenance::Null | Provenance::Constants => Provenance::Constants,
                Provenance::Other => Provenance::Other,
            },
        }
    }

    /// Of what something is made that is computed of its parts.
    fn provenance_of_parts(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Provenance {
        let mut parts = Parts {
            resolver: self,
            scope,
            has_constants: false,
            provenance: Provenance::Null,
        };
        let _ = visit_tree(expr, &mut parts);
        match parts.provenance {
            Provenance::Null | Provenance::Constants if parts.has_constants => {
                Provenance::Constants
            }
            Provenance::Null | Provenance::Constants | Provenance::Other => Provenance::Other,
        }
    }

    /// The column that a resolved name means.
    pub(in crate::resolve) fn column_named<'s>(
        &self,
        name: &Expr,
        scope: &'s Scope<'a, '_>,
    ) -> Option<Origin<'s>> {
        match self.meaning(name, scope) {
            NameMeaning::Column(origin) => Some(origin),
            NameMeaning::Other | NameMeaning::Nothing => None,
        }
    }

    /// What a resolved name means.
    fn meaning<'s>(&self, expr: &Expr, scope: &'s Scope<'a, '_>) -> NameMeaning<'s> {
        let found = match expr {
            Expr::Identifier(name) => scope.find(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => {
                    scope.find(Some(&self.table_key(qualifier)), &self.key(name))
                }
                [] | [_] => return NameMeaning::Nothing,
            },
            other => {
                debug_assert!(false, "{other} is no name");
                return NameMeaning::Other;
            }
        };
        match found {
            Found::Column(origin, _) => NameMeaning::Column(origin),
            Found::Alias(lineage) => NameMeaning::Column(Origin::Derived(lineage)),
            Found::RowIdAlias {
                origin: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId
            | Found::WholeRow(_)
            | Found::Ambiguous => NameMeaning::Other,
            Found::Nothing => NameMeaning::Nothing,
        }
    }

    /// The choice that a call makes, if it gives one of its arguments, or of the values of one.
    pub(in crate::resolve) fn choice_call<'e>(
        &self,
        function: &'e Function,
    ) -> Option<ChoiceCall<'e>> {
        let dialect = self.catalog.dialect();
        let name = match (function.name.0.as_slice(), dialect) {
            (
                [
                    ObjectNamePart::Identifier(schema),
                    ObjectNamePart::Identifier(name),
                ],
                Dialect::Postgres,
            ) if self.key(schema) == "pg_catalog" => self.key(name),
            // What a database adds has its schema by now, and so has what PostgreSQL's grammar does not know.
            ([ObjectNamePart::Identifier(name)], _) => self.key(name),
            (_, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => return None,
        };
        let args = arguments(function)?;
        let count = args.len();
        let chosen: Vec<usize> = match (&*name, count, dialect) {
            ("coalesce" | "greatest" | "least", 1.., _)
            | ("ifnull", 2, Dialect::Sqlite | Dialect::Mysql)
            | ("min" | "max", 2.., Dialect::Sqlite) => (0..count).collect(),
            ("iif", 1.., Dialect::Sqlite) | ("if", 1.., Dialect::Mysql) => (1..count).collect(),
            (
                "nullif" | "min" | "max" | "any_value" | "first_value" | "last_value" | "nth_value",
                1..,
                _,
            ) => vec![0],
            ("lag" | "lead", 3, _) => vec![0, 2],
            ("lag" | "lead", 1.., _) => vec![0],
            (_, _, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => return None,
        };
        let compared = if name == "nullif" {
            (0..count).collect()
        } else {
            chosen.clone()
        };
        Some(ChoiceCall {
            args,
            chosen,
            compared,
        })
    }
}

/// What a name means, as far as constants go.
enum NameMeaning<'f> {
    Column(Origin<'f>),
    /// Something else than a column of a query.
    Other,
    /// No column: a word that PostgreSQL takes for a call.
    Nothing,
}

/// Looks through the parts of an expression for anything but constants.
struct Parts<'r, 'a, 's> {
    resolver: &'r Resolver<'a>,
    scope: &'r Scope<'a, 's>,
    has_constants: bool,
    provenance: Provenance,
}

impl TreeVisitor for Parts<'_, '_, '_> {
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match table_role(factor) {
            TableRole::Named(_) => {
                self.provenance = Provenance::Other;
                ControlFlow::Break(())
            }
            // Its parts come next.
            TableRole::Called(_) | TableRole::Other => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let provenance = match role(expr) {
            Role::Name(_) | Role::Path(_) => match self.resolver.meaning(expr, self.scope) {
                NameMeaning::Column(origin) => column_provenance(&origin),
                NameMeaning::Other => Provenance::Other,
                NameMeaning::Nothing => Provenance::Null,
            },
            Role::Star | Role::WholeRow(_) => Provenance::Other,
            Role::Value(value) => value_provenance(value),
            // Its parts come next.
            Role::Columns(_)
            | Role::Access
            | Role::Call(_)
            | Role::Operator(_)
            | Role::Collation
            | Role::Other => Provenance::Null,
        };
        self.has_constants |= provenance == Provenance::Constants;
        self.provenance = self.provenance.either(provenance);
        match self.provenance {
            Provenance::Other => ControlFlow::Break(()),
            Provenance::Null | Provenance::Constants => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        self.has_constants |= value.value != Value::Null;
        ControlFlow::Continue(())
    }
}

fn value_provenance(value: &ValueWithSpan) -> Provenance {
    if value.value == Value::Null {
        Provenance::Null
    } else {
        Provenance::Constants
    }
}

fn column_provenance(origin: &Origin<'_>) -> Provenance {
    let lineage = match origin {
        Origin::Base(_, _, _) => return Provenance::Other,
        Origin::Derived(lineage) => *lineage,
        Origin::Merged(lineage) => lineage,
    };
    if is_constant(lineage) {
        Provenance::Constants
    } else if lineage.tokens == Some(TokenLineage::Nothing) {
        Provenance::Null
    } else {
        Provenance::Other
    }
}

/// Whether a column of a query is made of no other column, and is not NULL alone.
pub(in crate::resolve) fn is_constant(lineage: &Lineage) -> bool {
    let columns: &[ColumnId] = &lineage.columns;
    columns.is_empty()
        && match lineage.tokens {
            Some(TokenLineage::Nothing | TokenLineage::Of(_) | TokenLineage::Among(_)) => false,
            Some(TokenLineage::Constants | TokenLineage::Unopened) | None => true,
        }
}

/// The arguments of a call without names.
fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg),
        _ => None,
    });
    args.collect()
}
