//! Tags of constants: taken off where a constant stands beside a column of tokens, or is chosen among tokens.
//!
//! A constant that stands elsewhere (in VALUES, a SELECT without FROM, a table function, an array that is unnested) keeps its tag,
//! and so cannot be compared with tokens: it is refused.

use std::sync::Arc;

use sqlparser::{
    ast::{
        DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, TypedString,
        Value, ValueWithSpan,
    },
    tokenizer::Location,
};

use crate::resolve::{
    Mode, Resolver,
    query::recursive_cte::Comparisons,
    scope::{Origin, Scope},
    token::{
        OtherValues, SubqueryColumn, TOKEN, TokenParameter, Wanted, demand_tokens, foreign,
        provenance::Provenance, token_index, wrapper::peel_mut,
    },
};
use crate::{
    code::Code,
    dialect::Dialect,
    lineage::TokenLineage,
    rejection::Rejection,
    token::{HASH_DIGITS, has_token_form, is_hash},
};

impl<'a> Resolver<'a> {
    /// Takes the tags off the constants that `expr` is, which is compared with tokens. What is made of anything else than
    /// constants is left as it is.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn untag_constants(
        &mut self,
        expr: &mut Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let provenance = if wanted.is_array {
            self.provenance_of_elements(expr, scope)
        } else {
            self.provenance(expr, scope)
        };
        match provenance {
            Provenance::Null | Provenance::Constants => self.untag(expr, wanted, scope),
            Provenance::Other => Ok(()),
        }
    }

    /// Takes the tags off the constants among `values`, of which an expression gives one, if others are tokens: equal ones
    /// are equal texts then, and the expression gives tokens.
    ///
    /// # Errors
    /// `token.foreign` for a constant that stands elsewhere and may be a token.
    pub(in crate::resolve) fn untag_choice<'e>(
        &mut self,
        values: impl IntoIterator<Item = &'e mut Expr>,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.tokens.are_given || !self.is_statement() {
            return Ok(());
        }
        let values = values.into_iter().map(|value| {
            let tokens = self.tokens_of(value, scope);
            (value, tokens)
        });
        let values: Vec<_> = values.collect();
        let Some(wanted) = demand_tokens(values.iter().filter_map(|(_, tokens)| tokens.as_ref()))
        else {
            return Ok(());
        };
        let wanted = Wanted {
            others: OtherValues::Harmless,
            ..wanted
        };
        for (value, tokens) in values {
            if tokens.is_some_and(|tokens| tokens.keys().is_some()) {
                continue;
            }
            let untagged = self.untag_constants(value, &wanted, scope);
            match self.tokens.comparisons {
                Comparisons::Checked => untagged?,
                // The tree is dropped, and read again with the tokens that come out.
                Comparisons::Left => {}
            }
        }
        Ok(())
    }

    /// As [`untag_choice`](Self::untag_choice), of a call that gives one of its arguments.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn untag_call(
        &mut self,
        function: &mut Function,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.tokens.are_given {
            return Ok(());
        }
        let Some(chosen) = self.choice_call(function).map(|call| call.chosen) else {
            return Ok(());
        };
        self.untag_choice(arguments_at(function, &chosen), scope)
    }

    /// Refuses columns of queries that are made of constants where they are brought together with tokens. A join merges columns,
    /// INTERSECT and EXCEPT compare them, and UNION gives either. `others` says what may stand beside tokens there.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn check_merged_tokens(
        &self,
        origins: &[Origin<'_>],
        others: OtherValues,
    ) -> Result<(), Rejection> {
        if !self.tokens.are_given || !self.checks_tokens() {
            return Ok(());
        }
        let tokens: Vec<Option<TokenLineage>> = origins.iter().map(Origin::tokens).collect();
        let Some(wanted) = demand_tokens(tokens.iter().flatten()) else {
            return Ok(());
        };
        let others = wanted.others.max(others);
        origins.iter().try_for_each(|origin| match origin {
            Origin::Base(_, _, _) => Ok(()),
            Origin::Derived(lineage) => SubqueryColumn::new(lineage).check(others),
            Origin::Merged(lineage) => SubqueryColumn::new(lineage).check(others),
        })
    }

    /// Takes the tags off the constants of which `expr` is one.
    fn untag(
        &mut self,
        expr: &mut Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if let Some(inner) = peel_mut(expr, wanted.is_array, self.catalog.dialect()) {
            return self.untag(inner, wanted, scope);
        }
        match expr {
            Expr::Value(ValueWithSpan { value, span })
            | Expr::TypedString(TypedString {
                data_type: DataType::Text,
                value: ValueWithSpan { value, span },
                uses_odbc_syntax: _,
            }) => self.untag_value(value, span.start, wanted),
            Expr::Array(array) if wanted.is_array => array.elem.iter_mut().try_for_each(|item| {
                let is_array = matches!(item, Expr::Array(_));
                let wanted = Wanted {
                    is_array,
                    ..wanted.clone()
                };
                self.untag(item, &wanted, scope)
            }),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: _,
                conditions,
                else_result,
            } => {
                let results = conditions.iter_mut().map(|when| &mut when.result);
                results
                    .chain(else_result.as_deref_mut())
                    .try_for_each(|result| self.untag(result, wanted, scope))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                match self.column_named(expr, scope) {
                    Some(Origin::Base(_, _, _)) | None => wanted.others.admit(),
                    Some(Origin::Derived(lineage)) => {
                        SubqueryColumn::new(lineage).check(wanted.others)
                    }
                    Some(Origin::Merged(lineage)) => {
                        SubqueryColumn::new(&lineage).check(wanted.others)
                    }
                }
            }
            Expr::Subquery(query) => match self.subquery_column(query) {
                Some(column) => column.check(wanted.others),
                None => wanted.others.admit(),
            },
            Expr::Function(function) => {
                let Some(compared) = self.choice_call(function).map(|call| call.compared) else {
                    return refuse_computed(wanted);
                };
                arguments_at(function, &compared)
                    .into_iter()
                    .try_for_each(|arg| self.untag(arg, wanted, scope))
            }
            // What is not understood may be no token.
            other => {
                debug_assert!(!matches!(other, Expr::Value(_)), "answered above");
                refuse_computed(wanted)
            }
        }
    }

    /// Takes the tag off a literal or placeholder.
    fn untag_value(
        &mut self,
        value: &mut Value,
        start: Location,
        wanted: &Wanted,
    ) -> Result<(), Rejection> {
        if let Some(tokens) = self.find_untagged(value, start) {
            return match tokens.keys() {
                Some(keys) if *keys == wanted.keys => Ok(()),
                Some(_) | None => wanted.others.admit(),
            };
        }
        let Wanted {
            keys,
            others,
            is_array,
        } = wanted;
        match value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::NationalStringLiteral(text) => {
                if *is_array {
                    if let Some(opened) = keys.open_array(text)
                        && (!opened.has_other || *others != OtherValues::Refused)
                    {
                        if !opened.has_hash {
                            *text = opened.text;
                        }
                        return Ok(());
                    }
                } else if let Some(hash) = keys.open(text) {
                    *text = hash.to_owned();
                    // What was not read from a text has no place.
                    if start.line > 0 {
                        self.tokens
                            .untagged_literals
                            .insert(start, Arc::clone(keys));
                    }
                    return Ok(());
                }
                others.admit()
            }
            Value::Null => Ok(()),
            Value::Placeholder(text) => {
                let placeholder = self.placeholder_at(text, start).ok_or_else(foreign)?;
                *text = format!("{TOKEN}{}", self.tokens.parameters.len());
                self.tokens.parameters.push(TokenParameter {
                    placeholder,
                    wanted: wanted.clone(),
                });
                Ok(())
            }
            other => {
                debug_assert!(*other != Value::Null, "answered above");
                others.admit()
            }
        }
    }

    /// The tokens that a literal or placeholder is, if it stands without its tag already.
    fn find_untagged(&self, value: &Value, start: Location) -> Option<TokenLineage> {
        match value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::NationalStringLiteral(text)
                if is_hash(text) =>
            {
                // In a tree that was dropped it may have been another text.
                self.tokens
                    .untagged_literals
                    .get(&start)
                    .cloned()
                    .map(TokenLineage::Of)
            }
            Value::Placeholder(text) => {
                let parameter = self.tokens.parameters.get(token_index(text)?)?;
                let keys = Arc::clone(&parameter.wanted.keys);
                Some(match parameter.wanted.others {
                    OtherValues::Refused => TokenLineage::Of(keys),
                    OtherValues::Harmless => TokenLineage::Among(keys),
                    // It may be the hash of any token.
                    OtherValues::Constants => TokenLineage::Unopened,
                })
            }
            _ => None,
        }
    }

    /// What a literal or placeholder is beside tokens.
    pub(in crate::resolve) fn tokens_of_value(
        &self,
        value: &ValueWithSpan,
    ) -> Option<TokenLineage> {
        if let Some(tokens) = self.find_untagged(&value.value, value.span.start) {
            return match tokens {
                TokenLineage::Of(_) | TokenLineage::Among(_) => Some(tokens),
                TokenLineage::Nothing | TokenLineage::Constants | TokenLineage::Unopened => None,
            };
        }
        let of_text = |text: &str| {
            if has_token_form(text) {
                Some(TokenLineage::Unopened)
            } else {
                (!is_hash(text) && !text.contains('\\')).then_some(TokenLineage::Constants)
            }
        };
        match &value.value {
            Value::Null => Some(TokenLineage::Nothing),
            Value::Placeholder(_) => Some(TokenLineage::Unopened),
            Value::SingleQuotedString(text) => of_text(text),
            Value::DoubleQuotedString(text) if self.catalog.dialect() == Dialect::Mysql => {
                of_text(text)
            }
            Value::Number(digits, _) if digits.len() < HASH_DIGITS / 2 => {
                Some(TokenLineage::Constants)
            }
            Value::Boolean(_) => Some(TokenLineage::Constants),
            _ => None,
        }
    }

    /// Whether the text is a principal's statement: in a view literals are no principal's, and in our own output tokens have no
    /// tags.
    pub(in crate::resolve) fn is_statement(&self) -> bool {
        match self.mode {
            Mode::Statement => true,
            Mode::View { within: _ }
            | Mode::Rewritten {
                sources: _,
                writes: _,
            } => false,
        }
    }
}

impl SubqueryColumn {
    /// Refuses constants that stand elsewhere, beside tokens and these `others`.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn check(&self, others: OtherValues) -> Result<(), Rejection> {
        let is_refused = match others {
            OtherValues::Refused => self.is_constant,
            // A constant that cannot be a token is what it is.
            OtherValues::Constants | OtherValues::Harmless => {
                self.tokens == Some(TokenLineage::Unopened)
            }
        };
        if is_refused {
            return Err(Rejection::new(
                Code::TokenForeign,
                "a constant that is compared with a column of tokens does not stand beside it: put the token beside the column, \
                 as `column = 'tok_…'` or `column IN ('tok_…', …)`",
            ));
        }
        Ok(())
    }
}

/// The arguments of a call at these positions.
fn arguments_at<'e>(function: &'e mut Function, positions: &[usize]) -> Vec<&'e mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return Vec::new();
    };
    let args = list.args.iter_mut().enumerate();
    args.filter_map(|(at, arg)| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) if positions.contains(&at) => Some(arg),
        _ => None,
    })
    .collect()
}

/// Refuses what is made of constants in a way that is not understood, where it must be a token.
fn refuse_computed(wanted: &Wanted) -> Result<(), Rejection> {
    match wanted.others {
        OtherValues::Refused => Err(Rejection::new(
            Code::TokenForeign,
            "what is computed is no token; write a token as a literal or parameter where it is compared",
        )),
        OtherValues::Constants | OtherValues::Harmless => Ok(()),
    }
}
