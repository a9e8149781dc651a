//! Of what a value is made: of constants, of columns, or nobody knows yet.

use std::{ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, TableFactor, TypedString, UnaryOperator,
    Value, ValueWithSpan, Visit, Visitor,
};

use crate::resolve::{
    Resolver,
    scope::{Found, Origin, Scope},
    token::{Wanted, indirect_constants::placed, place},
};
use crate::{
    catalog::ColumnId,
    dialect::Dialect,
    lineage::{Given, Tokens},
    token::TOKEN_LENGTH,
};

/// Of what a value is made.
pub(in crate::resolve) enum Made {
    /// Of these constants.
    Of(Given),
    /// Of constants, unless it is of nothing at all.
    Perhaps,
    /// Of something else.
    Otherwise,
}

/// A call that gives one of its arguments.
pub(in crate::resolve) struct Picks<'e> {
    pub(in crate::resolve) args: Vec<&'e Expr>,
    /// Those of which it gives one.
    pub(in crate::resolve) picked: Vec<usize>,
    /// Those that must be compared alike with these.
    pub(in crate::resolve) compared: Vec<usize>,
}

impl<'e> Picks<'e> {
    /// The arguments of which it gives one.
    pub(in crate::resolve) fn values(&self) -> Vec<&'e Expr> {
        let picked = self.picked.iter();
        picked
            .filter_map(|at| self.args.get(*at).copied())
            .collect()
    }
}

impl Made {
    /// That of a value that is one or the other.
    pub(in crate::resolve) fn either(self, other: Self) -> Self {
        match (self, other) {
            (Self::Otherwise, _) | (_, Self::Otherwise) => Self::Otherwise,
            (Self::Perhaps, _) | (_, Self::Perhaps) => Self::Perhaps,
            (Self::Of(mut one), Self::Of(other)) => {
                one.places.extend(other.places);
                one.is_computed |= other.is_computed;
                Self::Of(one)
            }
        }
    }

    /// NULL alone.
    pub(in crate::resolve) fn nothing() -> Self {
        Self::Of(Given::default())
    }

    /// Something that is made of constants.
    fn computed() -> Self {
        Self::Of(Given {
            is_computed: true,
            ..Given::default()
        })
    }
}

impl<'a> Resolver<'a> {
    /// Of what an expression is made, which has been resolved.
    pub(in crate::resolve) fn made(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Made {
        if let Some(inner) = within(expr, false, self.catalog.dialect()) {
            return self.made(inner, scope);
        }
        match expr {
            Expr::Value(value)
            | Expr::TypedString(TypedString {
                data_type: DataType::Text,
                value,
                uses_odbc_syntax: _,
            }) => made_of_value(value, false),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match self.named(expr, scope) {
                Named::Column(origin) => self.made_of_column(&origin),
                Named::Other | Named::Nothing => Made::Otherwise,
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
                    .fold(Made::nothing(), |made, result| {
                        made.either(self.made(result, scope))
                    })
            }
            Expr::Subquery(query) => {
                let known =
                    place(query).and_then(|place| self.constants.subqueries.get(&(place, 0)));
                match known {
                    Some(Some(given)) => Made::Of((**given).clone()),
                    Some(None) if !self.constants.are_noted => Made::Perhaps,
                    Some(None) | None => Made::Otherwise,
                }
            }
            Expr::Function(function) => match self.picks(function) {
                Some(Picks {
                    args,
                    picked: _,
                    compared,
                }) => {
                    let compared = compared.iter().filter_map(|at| args.get(*at));
                    compared.fold(Made::nothing(), |made, arg| {
                        made.either(self.made(arg, scope))
                    })
                }
                None => match unnested(function) {
                    Some(array) => self.made_of_elements(array, scope),
                    None => self.made_of_parts(expr, scope),
                },
            },
            other => self.made_of_parts(other, scope),
        }
    }

    /// Whether an expression gives one of constants and tokens of these keys.
    pub(in crate::resolve) fn is_beside_tokens(
        &self,
        expr: &Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> bool {
        let is_beside = |expr: &Expr| self.is_beside_tokens(expr, wanted, scope);
        match expr {
            Expr::Nested(inner) => is_beside(inner),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: _,
                conditions,
                else_result,
            } => {
                let results = conditions.iter().map(|when| &when.result);
                results.chain(else_result.as_deref()).all(is_beside)
            }
            Expr::Function(function) if self.picks(function).is_some() => {
                self.picks(function).is_some_and(|picks| {
                    let mut compared = picks.compared.iter();
                    compared.all(|at| picks.args.get(*at).is_some_and(|arg| is_beside(arg)))
                })
            }
            other => {
                let tokens = self.tokens_of(other, scope);
                tokens.as_ref().and_then(Tokens::keys) == Some(&wanted.keys)
                    || matches!(self.made(other, scope), Made::Of(_))
            }
        }
    }

    /// Of what the elements of an array are made.
    pub(in crate::resolve) fn made_of_elements(&self, array: &Expr, scope: &Scope<'a, '_>) -> Made {
        if let Some(inner) = within(array, true, self.catalog.dialect()) {
            return self.made_of_elements(inner, scope);
        }
        match array {
            Expr::Value(value) => made_of_value(value, true),
            Expr::Array(array) => array.elem.iter().fold(Made::nothing(), |made, item| {
                made.either(match item {
                    Expr::Array(_) => self.made_of_elements(item, scope),
                    item => self.made(item, scope),
                })
            }),
            other => match self.made(other, scope) {
                Made::Of(_) => Made::computed(),
                made @ (Made::Perhaps | Made::Otherwise) => made,
            },
        }
    }

    /// Which tokens the elements of an array of constants are.
    pub(in crate::resolve) fn tokens_of_elements(
        &self,
        array: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<Tokens> {
        if let Some(inner) = within(array, true, self.catalog.dialect()) {
            return self.tokens_of_elements(inner, scope);
        }
        match array {
            Expr::Value(value) => self.constants.known(value.span.start, true),
            Expr::Array(array) => {
                let items = array.elem.iter().map(|item| match item {
                    Expr::Array(_) => self.tokens_of_elements(item, scope),
                    item => self.tokens_of(item, scope),
                });
                items.fold(Some(Tokens::Nothing), Tokens::either)
            }
            _ => None,
        }
    }

    /// As [`tokens_of`](Self::tokens_of), of `unnest` of constants.
    pub(in crate::resolve) fn tokens_of_unnested(
        &self,
        function: &Function,
        scope: &Scope<'a, '_>,
    ) -> Option<Tokens> {
        let array = unnested(function).filter(|_| !self.constants.are_unknown())?;
        self.tokens_of_elements(array, scope)
    }

    /// Of what something is made that is computed of its parts.
    fn made_of_parts(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Made {
        let mut parts = Parts {
            resolver: self,
            scope,
            has_constants: false,
            made: Made::nothing(),
        };
        let _ = Visit::visit(expr, &mut parts);
        match parts.made {
            Made::Of(_) if parts.has_constants => Made::computed(),
            Made::Perhaps => Made::Perhaps,
            Made::Of(_) | Made::Otherwise => Made::Otherwise,
        }
    }

    pub(in crate::resolve) fn made_of_column(&self, origin: &Origin<'_>) -> Made {
        let lineage = match origin {
            Origin::Base(_, _, _) => return Made::Otherwise,
            Origin::Derived(lineage) => *lineage,
            Origin::Merged(lineage) => lineage,
        };
        match &lineage.given {
            Some(given) => Made::Of((**given).clone()),
            None if self.constants.are_noted => Made::Otherwise,
            None if is_bare(&lineage.columns, &lineage.tokens) => Made::Perhaps,
            None if lineage.tokens == Some(Tokens::Nothing) => Made::nothing(),
            None => Made::Otherwise,
        }
    }

    /// What a name means that has been resolved.
    fn named<'s>(&self, expr: &Expr, scope: &'s Scope<'a, '_>) -> Named<'s> {
        let found = match expr {
            Expr::Identifier(name) => scope.find(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => {
                    scope.find(Some(&self.table_key(qualifier)), &self.key(name))
                }
                [] | [_] => return Named::Nothing,
            },
            other => {
                debug_assert!(false, "{other} is no name");
                return Named::Other;
            }
        };
        match found {
            Found::Column(origin, _) => Named::Column(origin),
            Found::Alias(lineage) => Named::Column(Origin::Derived(lineage)),
            Found::RowIdAlias {
                origin: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId
            | Found::WholeRow(_)
            | Found::Ambiguous => Named::Other,
            Found::Nothing => Named::Nothing,
        }
    }

    /// What a call picks, if it gives one of its arguments, or of the values of one.
    pub(in crate::resolve) fn picks<'e>(&self, function: &'e Function) -> Option<Picks<'e>> {
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
        let picked: Vec<usize> = match (&*name, count, dialect) {
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
            picked.clone()
        };
        Some(Picks {
            args,
            picked,
            compared,
        })
    }
}

/// What a name means, as far as constants go.
enum Named<'f> {
    Column(Origin<'f>),
    /// What is no column of a query.
    Other,
    /// No column: a word that PostgreSQL takes for a call.
    Nothing,
}

/// Looks through the parts of an expression for anything but constants.
struct Parts<'r, 'a, 's> {
    resolver: &'r Resolver<'a>,
    scope: &'r Scope<'a, 's>,
    has_constants: bool,
    made: Made,
}

impl Visitor for Parts<'_, '_, '_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name: _,
                alias: _,
                args: None,
                with_hints: _,
                version: _,
                with_ordinality: _,
                partitions: _,
                json_path: _,
                sample: _,
                index_hints: _,
            } => {
                self.made = Made::Otherwise;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let made = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                match self.resolver.named(expr, self.scope) {
                    Named::Column(origin) => self.resolver.made_of_column(&origin),
                    Named::Other => Made::Otherwise,
                    Named::Nothing => Made::nothing(),
                }
            }
            Expr::Wildcard(_) | Expr::QualifiedWildcard(_, _) => Made::Otherwise,
            Expr::Value(value) => made_of_value(value, false),
            // Its parts come next.
            whole => {
                debug_assert!(!matches!(whole, Expr::Identifier(_)), "answered above");
                Made::nothing()
            }
        };
        self.has_constants |= matches!(&made, Made::Of(given) if *given != Given::default());
        let before = std::mem::replace(&mut self.made, Made::Otherwise);
        self.made = before.either(made);
        match self.made {
            Made::Otherwise => ControlFlow::Break(()),
            Made::Of(_) | Made::Perhaps => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        self.has_constants |= value.value != Value::Null;
        ControlFlow::Continue(())
    }
}

fn made_of_value(value: &ValueWithSpan, is_array: bool) -> Made {
    let start = value.span.start;
    match &value.value {
        Value::Null => Made::nothing(),
        // What was not read from a text has no place.
        other if start.line == 0 || matches!(other, Value::Boolean(_)) => Made::computed(),
        other => {
            debug_assert!(*other != Value::Null, "answered above");
            Made::Of(Given {
                places: [placed(start, is_array)].into(),
                is_computed: false,
            })
        }
    }
}

pub(in crate::resolve) fn given(made: Made) -> Option<Arc<Given>> {
    match made {
        Made::Of(given) => Some(Arc::new(given)),
        Made::Perhaps | Made::Otherwise => None,
    }
}

/// Whether a column is made of no other, and is not NULL alone.
pub(in crate::resolve) fn is_bare(columns: &[ColumnId], tokens: &Option<Tokens>) -> bool {
    columns.is_empty()
        && match tokens {
            Some(Tokens::Nothing | Tokens::Of(_) | Tokens::Among(_)) => false,
            Some(Tokens::Constants) | None => true,
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

/// The array that is unnested.
fn unnested(function: &Function) -> Option<&Expr> {
    let is_unnest = match function.name.0.last()? {
        ObjectNamePart::Identifier(name) => name.value.eq_ignore_ascii_case("unnest"),
        ObjectNamePart::Function(_) => false,
    };
    match arguments(function)?.as_slice() {
        [array] if is_unnest => Some(array),
        _ => None,
    }
}

/// What is inside of something that leaves a text, or an array of texts, as it is, by whichever kind of reference.
macro_rules! inside_of {
    ($expr:expr, $is_array:expr, $dialect:expr) => {
        match $expr {
            Expr::Nested(inner)
            | Expr::Collate {
                expr: inner,
                collation: _,
            } => Some(inner),
            Expr::Cast {
                kind: _,
                expr: inner,
                data_type,
                format: None,
            } if keeps_text(data_type, $is_array, $dialect) => Some(inner),
            Expr::Convert {
                is_try: false,
                expr: inner,
                data_type,
                charset,
                target_before_value: false,
                styles: _,
            } if match (&*data_type, &*charset) {
                (Some(data_type), charset) => {
                    keeps_text(data_type, $is_array, $dialect)
                        && charset.as_ref().is_none_or(keeps_ascii)
                }
                // `CONVERT(… USING utf8mb4)`
                (None, Some(charset)) => !$is_array && keeps_ascii(charset),
                (None, None) => false,
            } =>
            {
                Some(inner)
            }
            // A plus gives what stands after it, whatever that is (<https://www.sqlite.org/lang_expr.html>; MySQL's grammar leaves it
            // out). PostgreSQL has none of text.
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr: inner,
            } if !$is_array && $dialect != Dialect::Postgres => Some(inner),
            // `_utf8mb4'…'`
            Expr::Prefixed {
                prefix,
                value: inner,
            } if !$is_array && $dialect == Dialect::Mysql && introduces_ascii(prefix) => {
                Some(inner)
            }
            _ => None,
        }
    };
}

/// The text, or array of texts, that is inside of something that leaves it as it is.
pub(in crate::resolve) fn within(expr: &Expr, is_array: bool, dialect: Dialect) -> Option<&Expr> {
    inside_of!(expr, is_array, dialect).map(|inner| &**inner)
}

/// As [`within`], to be changed.
pub(in crate::resolve) fn inside(
    expr: &mut Expr,
    is_array: bool,
    dialect: Dialect,
) -> Option<&mut Expr> {
    inside_of!(expr, is_array, dialect).map(|inner| &mut **inner)
}

/// Character sets of MySQL in which the digits of a token are the same bytes.
const ASCII: &[&str] = &["ascii", "binary", "latin1", "utf8", "utf8mb3", "utf8mb4"];

fn keeps_ascii(charset: &ObjectName) -> bool {
    match charset.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => is_ascii(&name.value),
        _ => false,
    }
}

/// Whether a literal after this word is text in such a character set.
fn introduces_ascii(prefix: &Ident) -> bool {
    prefix.value.strip_prefix('_').is_some_and(is_ascii)
}

fn is_ascii(charset: &str) -> bool {
    ASCII.iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// Whether a cast to this type leaves a token as it is, or an array of tokens.
pub(in crate::resolve) fn keeps_text(
    data_type: &DataType,
    is_array: bool,
    dialect: Dialect,
) -> bool {
    let fits = |length: &CharacterLength| match length {
        CharacterLength::IntegerLength { length, unit: _ } => {
            usize::try_from(*length).is_ok_and(|length| length >= TOKEN_LENGTH)
        }
        CharacterLength::Max => false,
    };
    match data_type {
        // There no length cuts anything.
        DataType::Varchar(_)
        | DataType::CharVarying(_)
        | DataType::CharacterVarying(_)
        | DataType::Char(_)
        | DataType::Character(_)
        | DataType::Clob(_)
            if dialect == Dialect::Sqlite =>
        {
            !is_array
        }
        DataType::Binary(None) => !is_array && dialect == Dialect::Mysql,
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _),
        ) => is_array && keeps_text(element, false, dialect),
        _ if is_array => false,
        DataType::Text => true,
        DataType::Varchar(length)
        | DataType::CharVarying(length)
        | DataType::CharacterVarying(length) => length.as_ref().is_none_or(fits),
        // Without a length it is one character to PostgreSQL.
        DataType::Char(length) | DataType::Character(length) => match length {
            Some(length) => fits(length),
            None => dialect != Dialect::Postgres,
        },
        _ => false,
    }
}
