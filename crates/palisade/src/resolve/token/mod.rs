//! What is compared with a column of tokens must be a token of the session's own for that column.
//!
//! In the text that runs a token stands without its tag, as the engine computes it. What picks one of several tokens of
//! one domain gives a token of it; what computes anything else of one gives an ordinary string. Beside constants that cannot
//! be a hash (`coalesce(email, 'none')`) it stays one, and may be compared with other text too.

pub(in crate::resolve) mod provenance;
mod untag;
mod wrapper;

use std::sync::Arc;

use sqlparser::{
    ast::{BinaryOperator, DataType, Expr, Function, Query, SetExpr},
    tokenizer::Location,
};

use crate::resolve::{
    Resolver,
    query::recursive_cte::Comparisons,
    scope::{Found, Output, Scope},
    token::{
        provenance::{ChoiceCall, Provenance, is_constant},
        wrapper::{keeps_text, peel},
    },
};
use crate::{
    catalog::ColumnId,
    code::Code,
    dialect::Dialect,
    lineage::{Lineage, TokenLineage},
    rejection::Rejection,
    token::{TOKEN_LENGTH, TokenKeys, is_hash},
    value::{Placeholder, Value},
};

/// A parameter that is compared with a column of tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenParameter {
    /// The parameter.
    pub(crate) placeholder: Placeholder,
    /// What it must be.
    pub(in crate::resolve) wanted: Wanted,
}

/// What is compared with tokens must be.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::resolve) struct Wanted {
    /// The keys of these tokens.
    pub(in crate::resolve) keys: Arc<TokenKeys>,
    /// What else it may be.
    pub(in crate::resolve) others: OtherValues,
    /// Whether it is an array whose elements are meant.
    pub(in crate::resolve) is_array: bool,
}

/// What else a value may be that can be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::resolve) enum OtherValues {
    /// Nothing else: it is compared with tokens alone.
    Refused,
    /// Some constant.
    Constants,
    /// Some constant that cannot be taken for a token's hash, as it may come out among tokens.
    Harmless,
}

impl OtherValues {
    /// Refuses what is no token, where it can be nothing else.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn admit(self) -> Result<(), Rejection> {
        match self {
            Self::Refused => Err(foreign()),
            Self::Constants | Self::Harmless => Ok(()),
        }
    }
}

/// What is known of a column of a subquery, as far as tokens go.
#[derive(Debug, Clone)]
pub(in crate::resolve) struct SubqueryColumn {
    /// The tokens that it gives.
    pub(in crate::resolve) tokens: Option<TokenLineage>,
    /// Whether it is made of constants.
    pub(in crate::resolve) is_constant: bool,
}

impl SubqueryColumn {
    pub(in crate::resolve) fn new(lineage: &Lineage) -> Self {
        Self {
            tokens: lineage.tokens.clone(),
            is_constant: is_constant(lineage),
        }
    }
}

impl TokenParameter {
    /// What is bound where `value` is given: tokens without their tags.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(crate) fn bind(&self, value: Value) -> Result<Value, Rejection> {
        let Wanted {
            keys,
            others,
            is_array,
        } = &self.wanted;
        let text = match &value {
            Value::Null => return Ok(value),
            Value::Text(text) => std::str::from_utf8(text).ok(),
            Value::Bool(_) | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => None,
        };
        let (opened, has_other, has_hash) = match (text, is_array) {
            (None, _) => (None, true, false),
            (Some(text), false) => match keys.open(text) {
                Some(hash) => (Some(hash.to_owned()), false, false),
                None => (None, true, is_hash(text)),
            },
            (Some(text), true) => match keys.open_array(text) {
                Some(opened) => (Some(opened.text), opened.has_other, opened.has_hash),
                None => (None, true, true),
            },
        };
        let is_refused = match others {
            OtherValues::Refused => has_other,
            OtherValues::Constants => false,
            OtherValues::Harmless => has_hash,
        };
        match opened {
            _ if is_refused => Err(foreign()),
            Some(text) => Ok(Value::text(text)),
            None => Ok(value),
        }
    }
}

/// What the text of a placeholder for a token begins with, before its index.
pub(in crate::resolve) const TOKEN: &str = "\0token ";

/// The index among the statement's [`TokenParameter`]s of a placeholder that stands for one.
pub(crate) fn token_index(text: &str) -> Option<usize> {
    text.strip_prefix(TOKEN)?.parse().ok()
}

/// The refusal of a value that is no token.
pub(crate) fn foreign() -> Rejection {
    Rejection::from(Code::TokenForeign)
}

/// Whether an operator compares its sides.
pub(in crate::resolve) fn compares(op: &BinaryOperator) -> bool {
    if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
        return parts.last().is_some_and(|symbol| {
            matches!(&**symbol, "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=")
        });
    }
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
    pub(in crate::resolve) fn untag_compared(
        &mut self,
        sides: &mut [&mut Expr],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.tokens.are_given || !self.checks_tokens() {
            return Ok(());
        }
        let sides = sides.iter_mut().map(|side| TokenSide::One(side));
        self.untag_sides(sides.collect(), scope)
    }

    /// As [`untag_compared`](Self::untag_compared), of what is compared with each element of an array, or each row of a subquery.
    pub(in crate::resolve) fn untag_quantified(
        &mut self,
        left: &mut Expr,
        right: &mut Expr,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.tokens.are_given || !self.checks_tokens() {
            return Ok(());
        }
        let mut sides = vec![TokenSide::One(left)];
        collect_elements(right, &mut sides);
        self.untag_sides(sides, scope)
    }

    /// As [`untag_compared`](Self::untag_compared), of what is looked for among the rows of a subquery.
    pub(in crate::resolve) fn untag_in_subquery(
        &mut self,
        expr: &mut Expr,
        subquery: &Query,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        match locate_query(subquery) {
            Some(place) if self.tokens.are_given && self.checks_tokens() => {
                self.untag_sides(vec![TokenSide::One(expr), TokenSide::Rows(place, 0)], scope)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn untag_sides(
        &mut self,
        mut sides: Vec<TokenSide<'_>>,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let Some(width) = sides.iter().filter_map(TokenSide::width).max() else {
            return self.untag_column(sides, scope);
        };
        // Rows are compared column by column, with what is in a row of rows too.
        for at in 0..width {
            let column = sides.iter_mut().filter_map(|side| side.column(at));
            self.untag_sides(column.collect(), scope)?;
        }
        Ok(())
    }

    /// Whether what is compared with tokens must be one.
    pub(in crate::resolve) fn checks_tokens(&self) -> bool {
        self.is_statement() && self.tokens.comparisons == Comparisons::Checked
    }

    /// The type of a text that holds a token of `inner` as it is, where a cast to `data_type` would give another text for the
    /// same: blanks at its end, or bytes.
    pub(in crate::resolve) fn text_of_token(
        &self,
        inner: &Expr,
        data_type: &DataType,
        scope: &Scope<'a, '_>,
    ) -> Option<DataType> {
        let dialect = self.catalog.dialect();
        let text = match (data_type, dialect) {
            (DataType::Char(_) | DataType::Character(_), Dialect::Postgres) => DataType::Text,
            (DataType::Binary(None), Dialect::Mysql) => DataType::Char(None),
            (_, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => return None,
        };
        let keeps = keeps_text(data_type, false, dialect);
        let is_token = || {
            let tokens = self.tokens_of(inner, scope);
            tokens.is_some_and(|tokens| tokens.keys().is_some())
        };
        (keeps && is_token()).then_some(text)
    }

    /// Whether `expr` is a cast of tokens to what does not hold them.
    fn is_cut(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        if let Some(inner) = peel(expr, false, self.catalog.dialect()) {
            return self.is_cut(inner, scope);
        }
        match expr {
            Expr::Cast {
                kind: _,
                expr: inner,
                data_type: _,
                format: _,
            }
            | Expr::Convert {
                is_try: _,
                expr: inner,
                data_type: _,
                charset: _,
                target_before_value: _,
                styles: _,
            } => {
                let tokens = self.tokens_of(inner, scope);
                tokens.is_some_and(|tokens| tokens.keys().is_some()) || self.is_cut(inner, scope)
            }
            _ => false,
        }
    }

    /// Whether a side may be a constant of the statement.
    fn may_be_constant(&self, side: &TokenSide<'_>, scope: &Scope<'a, '_>) -> bool {
        match side {
            TokenSide::One(expr) => match self.provenance(expr, scope) {
                Provenance::Constants => true,
                Provenance::Null | Provenance::Other => false,
            },
            TokenSide::Elements(_) => true,
            TokenSide::Rows(place, at) => {
                let column = self.tokens.subquery_columns.get(&(*place, *at));
                column.is_some_and(|column| column.is_constant)
            }
        }
    }

    /// Refuses constants beside casts of tokens that no token is equal to.
    fn refuse_cut_tokens(
        &self,
        sides: &[TokenSide<'_>],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let is_cut = |side: &TokenSide<'_>| match side {
            TokenSide::One(expr) => self.is_cut(expr, scope),
            TokenSide::Elements(_) | TokenSide::Rows(_, _) => false,
        };
        if !sides.iter().any(is_cut) || !sides.iter().any(|side| self.may_be_constant(side, scope))
        {
            return Ok(());
        }
        Err(Rejection::new(
            Code::TokenForeign,
            format!(
                "what this cast makes of a token is none: compare the column itself, or a cast to text of {TOKEN_LENGTH} or more characters"
            ),
        ))
    }

    fn untag_column(
        &mut self,
        sides: Vec<TokenSide<'_>>,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        self.refuse_cut_tokens(&sides, scope)?;
        let tokens = sides.iter().map(|side| match side {
            TokenSide::One(expr) => self.tokens_of(expr, scope),
            TokenSide::Elements(_) => None,
            TokenSide::Rows(place, at) => {
                let column = self.tokens.subquery_columns.get(&(*place, *at));
                column.and_then(|column| column.tokens.clone())
            }
        });
        let tokens: Vec<Option<TokenLineage>> = tokens.collect();
        // What stands beside tokens alone is a token, whatever else is compared.
        let Some(wanted) = demand_tokens(tokens.iter().flatten()) else {
            return Ok(());
        };
        for (side, tokens) in sides.into_iter().zip(tokens) {
            if tokens.is_some_and(|tokens| tokens.keys().is_some()) {
                continue;
            }
            match side {
                TokenSide::One(expr) => self.untag_constants(expr, &wanted, scope)?,
                TokenSide::Elements(expr) => {
                    let wanted = Wanted {
                        is_array: true,
                        ..wanted.clone()
                    };
                    self.untag_constants(expr, &wanted, scope)?;
                }
                TokenSide::Rows(place, at) => {
                    if let Some(column) = self.tokens.subquery_columns.get(&(place, at)) {
                        column.check(wanted.others)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes which tokens the columns of a subquery are, and which are made of constants.
    pub(in crate::resolve) fn note_subquery(&mut self, query: &Query, outputs: &[Output]) {
        let Some(place) = locate_query(query) else {
            return;
        };
        for (at, output) in outputs.iter().enumerate() {
            let column = SubqueryColumn::new(&output.lineage);
            if column.is_constant || column.tokens.is_some() {
                self.tokens.subquery_columns.insert((place, at), column);
            } else {
                self.tokens.subquery_columns.remove(&(place, at));
            }
        }
    }

    /// What is noted of the first column of a subquery.
    pub(in crate::resolve) fn subquery_column(&self, query: &Query) -> Option<&SubqueryColumn> {
        self.tokens.subquery_columns.get(&(locate_query(query)?, 0))
    }

    /// The lineage of an expression that has been resolved and is made from `columns`.
    pub(in crate::resolve) fn computed_lineage(
        &self,
        columns: Vec<ColumnId>,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Lineage {
        Lineage::from_columns(columns)
            .with_tokens(self.tokens_of(expr, scope))
            .with_whole(self.is_whole(expr))
    }

    /// The tokens that an expression gives, which has been resolved: a column's under any name, or one of several.
    pub(in crate::resolve) fn tokens_of(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<TokenLineage> {
        if let Expr::Value(value) = expr {
            return self.tokens_of_value(value);
        }
        if !self.tokens.are_given {
            return None;
        }
        // PostgreSQL writes casts into the definitions of views.
        if let Some(inner) = peel(expr, false, self.catalog.dialect()) {
            return self.tokens_of(inner, scope);
        }
        match expr {
            Expr::Identifier(name) => tokens_of_name(scope.find(None, &self.key(name))),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., qualifier, name] => {
                    tokens_of_name(scope.find(Some(&self.table_key(qualifier)), &self.key(name)))
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
                    None => Some(TokenLineage::Nothing),
                };
                results.fold(otherwise, |tokens, result| {
                    TokenLineage::either(tokens, self.tokens_of(result, scope))
                })
            }
            Expr::Subquery(query) => {
                // Without a row it is NULL.
                TokenLineage::either(
                    self.subquery_column(query)?.tokens.clone(),
                    Some(TokenLineage::Nothing),
                )
            }
            Expr::Function(function) => self.tokens_of_call(function, scope),
            _ => None,
        }
    }

    /// The tokens of a call that gives one of its arguments, or one of the values of an argument.
    fn tokens_of_call(&self, function: &Function, scope: &Scope<'a, '_>) -> Option<TokenLineage> {
        let ChoiceCall {
            args,
            chosen,
            compared: _,
        } = self.choice_call(function)?;
        let mut chosen = chosen.into_iter().filter_map(|at| args.get(at));
        chosen.try_fold(TokenLineage::Nothing, |tokens, arg| {
            TokenLineage::either(Some(tokens), self.tokens_of(arg, scope))
        })
    }
}

/// One side of a comparison.
enum TokenSide<'e> {
    One(&'e mut Expr),
    /// The elements of an array.
    Elements(&'e mut Expr),
    /// A column of a subquery's rows, by where its first SELECT stands.
    Rows(Location, usize),
}

impl TokenSide<'_> {
    /// How many columns a row value has; none of what is no row.
    fn width(&self) -> Option<usize> {
        match self {
            Self::One(Expr::Tuple(fields)) => Some(fields.len()),
            Self::One(_) | Self::Elements(_) | Self::Rows(_, _) => None,
        }
    }

    /// The column of a row at `at`.
    fn column(&mut self, at: usize) -> Option<TokenSide<'_>> {
        match self {
            Self::One(Expr::Tuple(fields)) => fields.get_mut(at).map(TokenSide::One),
            Self::One(Expr::Subquery(query)) => Some(TokenSide::Rows(locate_query(query)?, at)),
            Self::Rows(place, _) => Some(TokenSide::Rows(*place, at)),
            Self::One(_) | Self::Elements(_) => None,
        }
    }
}

/// Adds what stands at the right of ANY or ALL to `sides`.
fn collect_elements<'e>(expr: &'e mut Expr, sides: &mut Vec<TokenSide<'e>>) {
    match expr {
        Expr::Subquery(_) => sides.push(TokenSide::One(expr)),
        Expr::Array(array) => array.elem.iter_mut().for_each(|item| match item {
            Expr::Array(_) => collect_elements(item, sides),
            item => sides.push(TokenSide::One(item)),
        }),
        Expr::Nested(inner) => collect_elements(inner, sides),
        other if is_array_of_texts(other) => {
            if let Expr::Cast {
                kind: _,
                expr: inner,
                data_type: _,
                format: _,
            } = other
            {
                collect_elements(inner, sides);
            }
        }
        other => sides.push(TokenSide::Elements(other)),
    }
}

/// Whether an expression is a cast of ARRAY[…] that leaves its elements as they are.
fn is_array_of_texts(expr: &Expr) -> bool {
    match expr {
        Expr::Cast {
            kind: _,
            expr: inner,
            data_type,
            format: None,
        } => matches!(**inner, Expr::Array(_)) && keeps_text(data_type, true, Dialect::Postgres),
        _ => false,
    }
}

/// What tokens demand of what is compared with all of these.
pub(in crate::resolve) fn demand_tokens<'t>(
    tokens: impl Iterator<Item = &'t TokenLineage>,
) -> Option<Wanted> {
    let demands = tokens.filter_map(|tokens| match tokens {
        TokenLineage::Of(keys) => Some((keys, OtherValues::Refused)),
        TokenLineage::Among(keys) => Some((keys, OtherValues::Constants)),
        TokenLineage::Nothing | TokenLineage::Constants | TokenLineage::Unopened => None,
    });
    let (keys, others) = demands.min_by_key(|(_, others)| *others)?;
    Some(Wanted {
        keys: Arc::clone(keys),
        others,
        is_array: false,
    })
}

fn tokens_of_name(found: Found<'_>) -> Option<TokenLineage> {
    match found {
        Found::Column(origin, _) => origin.tokens(),
        Found::Alias(lineage) => lineage.tokens.clone(),
        _ => None,
    }
}

/// Where the first SELECT of a query stands, or the first row of VALUES, of which a text has one at a place.
pub(in crate::resolve) fn locate_query(query: &Query) -> Option<Location> {
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
            SetExpr::Values(values) => {
                let start = values.rows.first()?.opening_token.0.span.start;
                return (start.line > 0).then_some(start);
            }
            _ => return None,
        };
    }
}
