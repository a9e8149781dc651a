//! What is compared with a column of tokens must be a token of the session's own for that column.
//!
//! In the text that runs a token stands without its tag, as the engine computes it. What picks one of several tokens of
//! one domain gives a token of it; what computes anything else of one gives an ordinary string. Beside constants that nobody
//! takes for a hash (`coalesce(email, 'none')`) it stays one, and may be compared with other text too.

use std::sync::Arc;

use sqlparser::{
    ast::{
        BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
        ObjectNamePart, Query, SetExpr, Value, ValueWithSpan,
    },
    tokenizer::Location,
};

use super::{
    Mode, Resolver,
    recursive::Comparisons,
    scope::{Found, Output, Scope},
};
use crate::{
    code::Code,
    dialect::Dialect,
    lineage::Tokens,
    rejection::Rejection,
    token::{HASH_DIGITS, TokenKeys, is_hash},
    value::Placeholder,
};

/// A parameter that is compared with a column of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenParameter {
    /// The parameter.
    pub(crate) placeholder: Placeholder,
    /// The keys of the column's tokens.
    pub(crate) keys: Arc<TokenKeys>,
    pub(crate) beside: Beside,
}

/// What else a value may be that can be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beside {
    /// Nothing, so that it is compared with tokens alone.
    Nothing,
    /// Some constant.
    Constants,
}

/// What the text of a placeholder for a token begins with, before its index.
const TOKEN: &str = "\0token ";

/// The index among the statement's [`TokenParameter`]s of a placeholder that stands for one.
pub(crate) fn token_index(text: &str) -> Option<usize> {
    text.strip_prefix(TOKEN)?.parse().ok()
}

/// The refusal of a value that is no token.
pub(crate) fn foreign() -> Rejection {
    Rejection::new(Code::TokenForeign, Code::TokenForeign.summary())
}

/// Whether an operator compares its sides.
pub(super) fn compares(op: &BinaryOperator) -> bool {
    [
        BinaryOperator::Eq,
        BinaryOperator::NotEq,
        BinaryOperator::Lt,
        BinaryOperator::LtEq,
        BinaryOperator::Gt,
        BinaryOperator::GtEq,
        BinaryOperator::Spaceship,
    ]
    .contains(op)
}

impl<'a> Resolver<'a> {
    /// Takes the tags off the literals and parameters among `sides`, which have been resolved and are compared
    /// with each other, if one of `sides` is a column of tokens.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(super) fn tokens(
        &mut self,
        sides: &mut [&mut Expr],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.gives_tokens || !self.checks_tokens() {
            return Ok(());
        }
        let rows: Vec<Option<usize>> = sides.iter().map(|side| row(side)).collect();
        let Some(width) = rows.iter().flatten().copied().max() else {
            return self.of_column(sides, scope);
        };
        // Rows are compared column by column, with what is in a row of rows too.
        for at in 0..width {
            let mut column: Vec<&mut Expr> = Vec::with_capacity(sides.len());
            for side in sides.iter_mut() {
                column.extend(field(side, at));
            }
            self.tokens(&mut column, scope)?;
        }
        Ok(())
    }

    /// Whether what is compared with tokens must be one.
    fn checks_tokens(&self) -> bool {
        match self.mode {
            Mode::Statement => self.comparisons == Comparisons::Checked,
            // A view's own literals are no principal's; in our own output tokens have no tags.
            Mode::View { within: _ }
            | Mode::Rewritten {
                forms: _,
                writes: _,
            } => false,
        }
    }

    fn of_column(
        &mut self,
        sides: &mut [&mut Expr],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let tokens = sides.iter().filter_map(|side| self.tokens_of(side, scope));
        let demands = tokens.filter_map(|tokens| demanded(&tokens));
        // What stands beside tokens alone is a token, whatever else is compared.
        let Some((keys, beside)) = demands.min_by_key(|(_, beside)| *beside) else {
            return Ok(());
        };
        sides
            .iter_mut()
            .try_for_each(|side| self.without_tag(side, &keys, beside))
    }

    /// As [`tokens`](Self::tokens), of what is looked for among the rows of a subquery.
    pub(super) fn tokens_in(&mut self, expr: &mut Expr, subquery: &Query) -> Result<(), Rejection> {
        if !self.checks_tokens() {
            return Ok(());
        }
        let width = row(expr).unwrap_or(1);
        for at in 0..width {
            let tokens = place(subquery).and_then(|place| self.subquery_tokens.get(&(place, at)));
            let Some((keys, beside)) = tokens.and_then(demanded) else {
                continue;
            };
            let side = match row(expr) {
                Some(_) => field(expr, at),
                None => Some(&mut *expr),
            };
            if let Some(side) = side {
                self.without_tag(side, &keys, beside)?;
            }
        }
        Ok(())
    }

    /// Notes which tokens the columns of a subquery are.
    pub(super) fn keep_tokens(&mut self, query: &Query, outputs: &[Output]) {
        let Some(place) = place(query).filter(|_| self.gives_tokens) else {
            return;
        };
        for (at, output) in outputs.iter().enumerate() {
            match &output.lineage.tokens {
                Some(tokens) => self.subquery_tokens.insert((place, at), tokens.clone()),
                None => self.subquery_tokens.remove(&(place, at)),
            };
        }
    }

    /// The tokens that an expression gives, which has been resolved: a column's under any name, or one of several.
    pub(super) fn tokens_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<Tokens> {
        if let Expr::Value(value) = expr {
            return self.constant(&value.value);
        }
        if !self.gives_tokens {
            return None;
        }
        match expr {
            Expr::Nested(inner)
            | Expr::Collate {
                expr: inner,
                collation: _,
            } => self.tokens_of(inner, scope),
            // PostgreSQL writes such casts into the definitions of views.
            Expr::Cast {
                kind: _,
                expr: inner,
                data_type:
                    DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None),
                format: None,
            } => self.tokens_of(inner, scope),
            Expr::Identifier(name) => found(scope.find(None, &self.key(name))),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => {
                    found(scope.find(Some(&self.table_key(qualifier)), &self.key(name)))
                }
                _ => None,
            },
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: _,
                conditions,
                else_result,
            } => {
                let results = conditions.iter().map(|when| &when.result);
                let otherwise = match else_result {
                    Some(otherwise) => self.tokens_of(otherwise, scope),
                    None => Some(Tokens::Nothing),
                };
                results.fold(otherwise, |tokens, result| {
                    Tokens::either(tokens, self.tokens_of(result, scope))
                })
            }
            Expr::Subquery(query) => {
                let tokens = self.subquery_tokens.get(&(place(query)?, 0)).cloned();
                // Without a row it is NULL.
                Tokens::either(tokens, Some(Tokens::Nothing))
            }
            Expr::Function(function) => self.tokens_of_call(function, scope),
            _ => None,
        }
    }

    /// The tokens of a call that gives one of its arguments, or of the values of one.
    fn tokens_of_call(&self, function: &Function, scope: &Scope<'a, '_>) -> Option<Tokens> {
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
        let FunctionArguments::List(list) = &function.args else {
            return None;
        };
        let args = list.args.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg),
            _ => None,
        });
        let args: Vec<&Expr> = args.collect::<Option<_>>()?;
        let one_of = |args: &[&Expr]| {
            args.iter().try_fold(Tokens::Nothing, |tokens, arg| {
                Tokens::either(Some(tokens), self.tokens_of(arg, scope))
            })
        };
        match (&*name, args.as_slice(), dialect) {
            ("coalesce" | "greatest" | "least", all @ [_, ..], _)
            | ("ifnull", all @ [_, _], Dialect::Sqlite | Dialect::Mysql)
            | ("min" | "max", all @ [_, _, ..], Dialect::Sqlite)
            | ("iif", [_, all @ ..], Dialect::Sqlite)
            | ("if", [_, all @ ..], Dialect::Mysql) => one_of(all),
            (
                "nullif" | "min" | "max" | "any_value" | "first_value" | "last_value" | "nth_value",
                [first, ..],
                _,
            ) => one_of(&[first]),
            ("lag" | "lead", [first, _, default], _) => one_of(&[first, default]),
            ("lag" | "lead", [first, ..], _) => one_of(&[first]),
            (_, _, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => None,
        }
    }

    /// What a constant is beside tokens: nothing that could be stamped as one.
    fn constant(&self, value: &Value) -> Option<Tokens> {
        let harmless = match value {
            Value::Null => return Some(Tokens::Nothing),
            Value::SingleQuotedString(text) => !is_hash(text) && !text.contains('\\'),
            Value::DoubleQuotedString(text) => {
                self.catalog.dialect() == Dialect::Mysql && !is_hash(text) && !text.contains('\\')
            }
            Value::Number(digits, _) => digits.len() < HASH_DIGITS / 2,
            Value::Boolean(_) => true,
            _ => false,
        };
        harmless.then_some(Tokens::Constants)
    }

    fn without_tag(
        &mut self,
        expr: &mut Expr,
        keys: &Arc<TokenKeys>,
        beside: Beside,
    ) -> Result<(), Rejection> {
        for constant in constants(expr).into_iter().flatten() {
            let Some(value) = constant else {
                not_alone(beside)?;
                continue;
            };
            match &mut value.value {
                Value::SingleQuotedString(text)
                | Value::DoubleQuotedString(text)
                | Value::NationalStringLiteral(text) => match keys.open(text) {
                    Some(hash) => *text = hash.to_owned(),
                    None => not_alone(beside)?,
                },
                Value::Null => {}
                Value::Placeholder(text) => {
                    let placeholder = self.written(text, value.span.start).ok_or_else(foreign)?;
                    *text = format!("{TOKEN}{}", self.token_parameters.len());
                    self.token_parameters.push(TokenParameter {
                        placeholder,
                        keys: Arc::clone(keys),
                        beside,
                    });
                }
                _ if beside == Beside::Constants => {}
                _ => return Err(foreign()),
            }
        }
        Ok(())
    }
}

/// What a side that gives these tokens demands of the others.
fn demanded(tokens: &Tokens) -> Option<(Arc<TokenKeys>, Beside)> {
    match tokens {
        Tokens::Of(keys) => Some((Arc::clone(keys), Beside::Nothing)),
        Tokens::Among(keys) => Some((Arc::clone(keys), Beside::Constants)),
        Tokens::Nothing | Tokens::Constants => None,
    }
}

/// What is no token may be compared with what may be something else.
fn not_alone(beside: Beside) -> Result<(), Rejection> {
    match beside {
        Beside::Nothing => Err(foreign()),
        Beside::Constants => Ok(()),
    }
}

fn found(found: Found<'_>) -> Option<Tokens> {
    match found {
        Found::Column(origin, _) => origin.tokens(),
        Found::Alias(lineage) => lineage.tokens.clone(),
        _ => None,
    }
}

/// Where the first SELECT of a query stands, of which a text has one at a place.
fn place(query: &Query) -> Option<Location> {
    let mut body = &*query.body;
    loop {
        body = match body {
            SetExpr::Select(select) => {
                let start = select.select_token.0.span.start;
                // What was not read from a text has no place.
                return (start.line > 0).then_some(start);
            }
            SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier: _,
                right: _,
            } => left,
            SetExpr::Query(query) => &query.body,
            _ => return None,
        };
    }
}

/// The constants that an expression is; one that cannot be a token is none. An expression that is computed is no
/// constant, but an ordinary string.
fn constants(expr: &mut Expr) -> Option<Vec<Option<&mut ValueWithSpan>>> {
    match expr {
        Expr::Nested(inner)
        | Expr::Collate {
            expr: inner,
            collation: _,
        } => constants(inner),
        // The elements of `ANY (ARRAY[…])`.
        Expr::Array(array) => Some(
            array
                .elem
                .iter_mut()
                .filter_map(constants)
                .flatten()
                .collect(),
        ),
        Expr::Value(value) => Some(vec![Some(value)]),
        // A number with a sign, and literals that have a type or a character set written before them.
        Expr::UnaryOp { op: _, expr: inner } if matches!(**inner, Expr::Value(_)) => {
            Some(vec![None])
        }
        Expr::TypedString(_)
        | Expr::Prefixed {
            prefix: _,
            value: _,
        } => Some(vec![None]),
        _ => None,
    }
}

/// How many columns a row value has; none of what is no row.
fn row(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Tuple(fields) => Some(fields.len()),
        _ => None,
    }
}

/// The field of a row at `at`.
fn field(expr: &mut Expr, at: usize) -> Option<&mut Expr> {
    match expr {
        Expr::Tuple(fields) => fields.get_mut(at),
        _ => None,
    }
}
