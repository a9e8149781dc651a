//! What is compared with a column of tokens must be a token of the session's own for that column.
//!
//! In the text that runs a token stands without its tag, as the engine computes it. Elsewhere in a statement a
//! token is an ordinary string.

use std::sync::Arc;

use sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};

use super::{
    Mode, Resolver,
    scope::{Found, Scope},
};
use crate::{code::Code, rejection::Rejection, token::TokenKeys, value::Placeholder};

/// A parameter that is compared with a column of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenParameter {
    /// The parameter.
    pub(crate) placeholder: Placeholder,
    /// The keys of the column's tokens.
    pub(crate) keys: Arc<TokenKeys>,
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
        match self.mode {
            Mode::Statement => {}
            // A view's own literals are no principal's; in our own output tokens have no tags.
            Mode::View { within: _ }
            | Mode::Rewritten {
                forms: _,
                writes: _,
            } => return Ok(()),
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

    fn of_column(
        &mut self,
        sides: &mut [&mut Expr],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let Some(keys) = sides.iter().find_map(|side| self.token_of(side, scope)) else {
            return Ok(());
        };
        sides
            .iter_mut()
            .try_for_each(|side| self.without_tag(side, &keys))
    }

    /// The keys of the tokens that an expression gives: a column's, under any name.
    fn token_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<Arc<TokenKeys>> {
        let found = match expr {
            Expr::Nested(inner) => return self.token_of(inner, scope),
            Expr::Collate {
                expr: inner,
                collation: _,
            } => return self.token_of(inner, scope),
            Expr::Identifier(name) => scope.find(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => {
                    scope.find(Some(&self.table_key(qualifier)), &self.key(name))
                }
                _ => return None,
            },
            _ => return None,
        };
        let identity = match found {
            Found::Column(origin, _) => origin.identity()?,
            Found::Alias(lineage) => lineage.identity?,
            _ => return None,
        };
        let decision = self.visible.relation(identity.relation).ok()?;
        decision.token(identity.index).cloned()
    }

    fn without_tag(&mut self, expr: &mut Expr, keys: &Arc<TokenKeys>) -> Result<(), Rejection> {
        for constant in constants(expr).into_iter().flatten() {
            let value = constant.ok_or_else(foreign)?;
            match &mut value.value {
                Value::SingleQuotedString(text)
                | Value::DoubleQuotedString(text)
                | Value::NationalStringLiteral(text) => {
                    *text = keys.open(text).ok_or_else(foreign)?.to_owned();
                }
                Value::Null => {}
                Value::Placeholder(text) => {
                    let placeholder = self.written(text, value.span.start).ok_or_else(foreign)?;
                    *text = format!("{TOKEN}{}", self.token_parameters.len());
                    self.token_parameters.push(TokenParameter {
                        placeholder,
                        keys: Arc::clone(keys),
                    });
                }
                _ => return Err(foreign()),
            }
        }
        Ok(())
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
