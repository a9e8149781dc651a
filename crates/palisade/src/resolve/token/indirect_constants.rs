//! Constants that are compared with tokens where they do not stand themselves: in VALUES, behind a SELECT without FROM, in a
//! call that gives one of its arguments, in an array.
//!
//! Whether a column that is made of no other is compared with tokens is known after it was read. Then the text is read again, and
//! values say of which constants they are; and again, until no constant is found that must be a token and was not taken for one. Such
//! a constant stands without its tag, and what it flows into is a token like one from a column. Statements
//! that compare no such column with tokens are read once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sqlparser::{
    ast::{
        DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, TypedString, Value,
        ValueWithSpan,
    },
    tokenizer::Location,
};

use crate::resolve::{
    Resolver,
    scope::{Origin, Output, Scope},
    token::{
        Beside, TOKEN, TokenParameter, Wanted, foreign, not_alone, place,
        provenance::{Made, given, inside, is_bare},
        wanted,
    },
};
use crate::{
    catalog::ColumnId,
    code::Code,
    lineage::{Given, Lineage, Place, Tokens},
    rejection::Rejection,
};

/// How often a text is read again at most.
pub(in crate::resolve) const READINGS: usize = 8;

/// The constants that must be tokens, by where they stand.
pub(in crate::resolve) type Taken = BTreeMap<Place, Wanted>;

/// What a reading knows of constants, and finds out.
#[derive(Debug, Default)]
pub(in crate::resolve) struct Constants {
    /// Whether values say of which constants they are.
    pub(in crate::resolve) are_noted: bool,
    /// Whether a column that is made of no other was compared with tokens, and did not say of which constants it is.
    is_asked: bool,
    /// Those that were found to be compared with tokens by an earlier reading.
    taken: Taken,
    /// Those that were found by this one.
    found: Taken,
    /// The tokens that constants were found to be, where they stand without tags.
    opened: BTreeMap<Place, Tokens>,
    /// Of which constants a column of a subquery is, by where that stands; none until they are noted.
    pub(in crate::resolve) subqueries: HashMap<(Location, usize), Option<Arc<Given>>>,
}

impl Constants {
    /// What a reading begins with after another has found what is `taken`.
    pub(in crate::resolve) fn noted(taken: Taken) -> Self {
        Self {
            are_noted: true,
            taken,
            ..Self::default()
        }
    }

    /// With what the text must be read again, if it must.
    ///
    /// # Errors
    /// `token.foreign` if what must be a token was not seen to be one.
    pub(in crate::resolve) fn next(self) -> Result<Option<Taken>, Rejection> {
        if !self.are_noted {
            return Ok(self.is_asked.then(Taken::new));
        }
        let mut taken = self.taken;
        for (place, wanted) in &taken {
            if !self.opened.contains_key(place) {
                not_alone(wanted.beside)?;
            }
        }
        if self.found.is_empty() {
            return Ok(None);
        }
        taken.extend(self.found);
        Ok(Some(taken))
    }

    /// Whether none is known to be a token.
    pub(in crate::resolve) fn are_unknown(&self) -> bool {
        self.taken.is_empty()
    }

    /// The tokens that the constant at `start` is.
    pub(in crate::resolve) fn known(&self, start: Location, is_array: bool) -> Option<Tokens> {
        if self.opened.is_empty() {
            return None;
        }
        self.opened.get(&placed(start, is_array)).cloned()
    }

    /// What was found so far.
    pub(in crate::resolve) fn found(&self) -> Taken {
        self.found.clone()
    }

    /// Forgets what was found in a tree that is dropped.
    pub(in crate::resolve) fn forget(&mut self, found: &Taken) {
        if !self.found.is_empty() {
            self.found.clone_from(found);
        }
    }

    /// Notes that the constant at `place` must be what is `wanted`.
    fn take(&mut self, place: Place, wanted: &Wanted) -> Result<(), Rejection> {
        let beside = match wanted.beside {
            Beside::Nothing => Beside::Nothing,
            // It may come out among tokens.
            Beside::Constants | Beside::Harmless => Beside::Harmless,
        };
        match self.found.get(&place).or_else(|| self.taken.get(&place)) {
            Some(known) if known.keys != wanted.keys => return not_alone(wanted.beside),
            Some(known) if known.beside <= beside => return Ok(()),
            Some(_) | None => {}
        }
        let wanted = Wanted {
            keys: Arc::clone(&wanted.keys),
            beside,
            is_array: place.is_array,
        };
        self.found.insert(place, wanted);
        Ok(())
    }
}

impl<'a> Resolver<'a> {
    /// Whether anything so far may be a token.
    pub(in crate::resolve) fn knows_tokens(&self) -> bool {
        self.gives_tokens || !self.constants.are_unknown()
    }

    /// The lineage of an expression that has been resolved and is made from `columns`.
    pub(in crate::resolve) fn lineage_of(
        &self,
        columns: Vec<ColumnId>,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Lineage {
        Lineage::computed(columns)
            .with_tokens(self.tokens_of(expr, scope))
            .with_given(self.given_of(expr, scope))
            .whole(self.is_whole(expr))
    }

    /// Of which constants an expression is, where that is noted.
    fn given_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<Arc<Given>> {
        if !self.constants.are_noted {
            return None;
        }
        given(self.made(expr, scope))
    }

    /// What the elements of an array are, which has been resolved: tokens, and of which constants.
    pub(in crate::resolve) fn elements_of(
        &self,
        array: &Expr,
        scope: &Scope<'a, '_>,
    ) -> (Option<Tokens>, Option<Arc<Given>>) {
        if !self.constants.are_noted {
            return (None, None);
        }
        let given = given(self.made_of_elements(array, scope));
        let tokens = given
            .is_some()
            .then(|| self.tokens_of_elements(array, scope));
        (tokens.flatten(), given)
    }

    /// Of which constants something is that a function gives as a table, and that is made from `columns`.
    pub(in crate::resolve) fn given_by_table(&self, columns: &[ColumnId]) -> Option<Arc<Given>> {
        (self.constants.are_noted && columns.is_empty()).then(|| {
            Arc::new(Given {
                is_computed: true,
                ..Given::default()
            })
        })
    }

    /// Notes of which constants the columns of a subquery are.
    pub(in crate::resolve) fn keep_given(&mut self, query: &Query, outputs: &[Output]) {
        for (at, output) in outputs.iter().enumerate() {
            let lineage = &output.lineage;
            let is_asked = self.constants.are_noted || is_bare(&lineage.columns, &lineage.tokens);
            if let Some(place) = is_asked.then(|| place(query)).flatten() {
                let given = lineage.given.clone();
                self.constants.subqueries.insert((place, at), given);
            }
        }
    }

    /// Takes the tag off the constant at `start`, if that must be a token.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn take_tag(
        &mut self,
        value: &mut Value,
        start: Location,
    ) -> Result<(), Rejection> {
        if self.constants.are_unknown() {
            return Ok(());
        }
        for place in [false, true].map(|is_array| placed(start, is_array)) {
            let Some(wanted) = self.constants.taken.get(&place).cloned() else {
                continue;
            };
            if let Some(tokens) = self.open_value(value, start, &wanted)? {
                self.constants.opened.insert(place, tokens);
            }
        }
        Ok(())
    }

    /// Takes the tags off the constants that `expr` is, which is compared with tokens. What is made of anything else than
    /// constants is left as it is.
    ///
    /// # Errors
    /// `token.foreign`.
    pub(in crate::resolve) fn without_tag(
        &mut self,
        expr: &mut Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        let made = match (&*expr, wanted.is_array) {
            (Expr::Value(_), _) => Made::nothing(),
            (_, false) => self.made(expr, scope),
            (_, true) => self.made_of_elements(expr, scope),
        };
        match made {
            Made::Of(_) => self.open(expr, wanted, scope),
            Made::Perhaps => {
                self.constants.is_asked = true;
                Ok(())
            }
            Made::Otherwise => self.beside_tokens(expr, wanted, scope),
        }
    }

    /// Takes the tags off those constants that are tokens and stand beside tokens in `expr`, which gives one of both:
    /// `coalesce($1, email)`.
    ///
    /// # Errors
    /// `token.foreign` for a constant that is a token of something else elsewhere.
    pub(in crate::resolve) fn beside_tokens(
        &mut self,
        expr: &mut Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if wanted.is_array || !self.is_beside_tokens(expr, wanted, scope) {
            return Ok(());
        }
        let wanted = Wanted {
            beside: Beside::Constants,
            ..wanted.clone()
        };
        self.open(expr, &wanted, scope)
    }

    /// As [`without_tag`](Self::without_tag), of a column of a subquery.
    pub(in crate::resolve) fn rows_without_tags(
        &mut self,
        place: Location,
        at: usize,
        wanted: &Wanted,
    ) -> Result<(), Rejection> {
        match self.constants.subqueries.get(&(place, at)).cloned() {
            Some(Some(given)) => self.take_given(&given, wanted),
            Some(None) => {
                self.constants.is_asked = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// As [`tokens`](Self::tokens), of columns that a join merges, of which INTERSECT or EXCEPT compares the rows, or of which UNION
    /// gives either; `beside` says what may stand beside tokens there.
    pub(in crate::resolve) fn merged_tokens(
        &mut self,
        origins: &[Origin<'_>],
        beside: Beside,
    ) -> Result<(), Rejection> {
        if !self.knows_tokens() || !self.checks_tokens() {
            return Ok(());
        }
        let tokens: Vec<Option<Tokens>> = origins.iter().map(Origin::tokens).collect();
        let Some(mut wanted) = wanted(tokens.iter().flatten()) else {
            return Ok(());
        };
        wanted.beside = wanted.beside.max(beside);
        for (origin, tokens) in origins.iter().zip(tokens) {
            let made = self.made_of_column(origin);
            self.take_made(made, tokens.as_ref(), &wanted)?;
        }
        Ok(())
    }

    /// As [`tokens`](Self::tokens), of values of which one is given: what is a token among the constants is one like those of the columns,
    /// so that equal ones are equal in what comes of it.
    pub(in crate::resolve) fn given_tokens(
        &mut self,
        values: &[&Expr],
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if !self.knows_tokens() || !self.checks_tokens() {
            return Ok(());
        }
        let tokens = values.iter().map(|value| self.tokens_of(value, scope));
        let tokens: Vec<Option<Tokens>> = tokens.collect();
        let Some(mut wanted) = wanted(tokens.iter().flatten()) else {
            return Ok(());
        };
        wanted.beside = wanted.beside.max(Beside::Constants);
        for (value, tokens) in values.iter().zip(tokens) {
            let made = self.made(value, scope);
            self.take_made(made, tokens.as_ref(), &wanted)?;
        }
        Ok(())
    }

    /// Takes the tags off constants that stand beside what is `wanted`, where they are no tokens yet.
    fn take_made(
        &mut self,
        made: Made,
        tokens: Option<&Tokens>,
        wanted: &Wanted,
    ) -> Result<(), Rejection> {
        match made {
            Made::Of(given) if tokens.is_none_or(|t| t.keys().is_none()) => {
                // What is found is kept only in a reading that asks for constants.
                self.constants.is_asked |= !given.places.is_empty();
                self.take_given(&given, wanted)
            }
            Made::Perhaps => {
                self.constants.is_asked = true;
                Ok(())
            }
            Made::Of(_) | Made::Otherwise => Ok(()),
        }
    }

    fn take_given(&mut self, given: &Given, wanted: &Wanted) -> Result<(), Rejection> {
        if given.is_computed {
            understood(wanted)?;
        }
        (given.places.iter()).try_for_each(|place| self.constants.take(*place, wanted))
    }

    /// Takes the tags off the constants of which `expr` is one.
    fn open(
        &mut self,
        expr: &mut Expr,
        wanted: &Wanted,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if let Some(inner) = inside(expr, wanted.is_array, self.catalog.dialect()) {
            return self.open(inner, wanted, scope);
        }
        match expr {
            Expr::Value(ValueWithSpan { value, span })
            | Expr::TypedString(TypedString {
                data_type: DataType::Text,
                value: ValueWithSpan { value, span },
                uses_odbc_syntax: _,
            }) => match self.constants.known(span.start, wanted.is_array) {
                // It stands without its tag already.
                Some(tokens) if tokens.keys() == Some(&wanted.keys) => Ok(()),
                Some(_) => not_alone(wanted.beside),
                None => self.open_value(value, span.start, wanted).map(|_| ()),
            },
            Expr::Array(array) if wanted.is_array => array.elem.iter_mut().try_for_each(|item| {
                let is_array = matches!(item, Expr::Array(_));
                let wanted = Wanted {
                    is_array,
                    ..wanted.clone()
                };
                self.open(item, &wanted, scope)
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
                    .try_for_each(|result| self.open(result, wanted, scope))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => {
                match self.made(expr, scope) {
                    Made::Of(given) => self.take_given(&given, wanted),
                    Made::Perhaps | Made::Otherwise => not_alone(wanted.beside),
                }
            }
            Expr::Function(function) => {
                let Some(compared) = self.picks(function).map(|picks| picks.compared) else {
                    return understood(wanted);
                };
                let FunctionArguments::List(list) = &mut function.args else {
                    return understood(wanted);
                };
                for (at, arg) in list.args.iter_mut().enumerate() {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg
                        && compared.contains(&at)
                    {
                        self.open(arg, wanted, scope)?;
                    }
                }
                Ok(())
            }
            // What is not understood may be no token.
            other => {
                debug_assert!(!matches!(other, Expr::Value(_)), "answered above");
                understood(wanted)
            }
        }
    }

    /// Takes the tag off a literal or placeholder, and gives the tokens that it is then.
    fn open_value(
        &mut self,
        value: &mut Value,
        start: Location,
        wanted: &Wanted,
    ) -> Result<Option<Tokens>, Rejection> {
        let Wanted {
            keys,
            beside,
            is_array,
        } = wanted;
        let of = || Some(Tokens::Of(Arc::clone(keys)));
        let among = || Some(Tokens::Among(Arc::clone(keys)));
        match value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::NationalStringLiteral(text) => {
                if !is_array {
                    if let Some(hash) = keys.open(text) {
                        *text = hash.to_owned();
                        return Ok(of());
                    }
                } else if let Some(opened) = keys.open_array(text) {
                    if !opened.has_other {
                        *text = opened.text;
                        return Ok(of());
                    }
                    not_alone(*beside)?;
                    if !opened.has_hash {
                        *text = opened.text;
                        return Ok(among());
                    }
                }
                not_alone(*beside).map(|()| None)
            }
            Value::Null => Ok(None),
            // It stands for one already.
            Value::Placeholder(text) if text.starts_with(TOKEN) => Ok(None),
            Value::Placeholder(text) => {
                let placeholder = self.written(text, start).ok_or_else(foreign)?;
                *text = format!("{TOKEN}{}", self.token_parameters.len());
                self.token_parameters.push(TokenParameter {
                    placeholder,
                    wanted: wanted.clone(),
                });
                Ok(match beside {
                    Beside::Nothing => of(),
                    Beside::Constants => None,
                    Beside::Harmless => among(),
                })
            }
            _ if *beside == Beside::Nothing => Err(foreign()),
            other => {
                debug_assert!(!matches!(other, Value::Placeholder(_)), "answered above");
                Ok(None)
            }
        }
    }
}

pub(in crate::resolve) fn placed(start: Location, is_array: bool) -> Place {
    Place {
        line: start.line,
        column: start.column,
        is_array,
    }
}

/// Refuses what is made of constants in a way that is not understood, where it must be a token.
fn understood(wanted: &Wanted) -> Result<(), Rejection> {
    match wanted.beside {
        Beside::Nothing => Err(Rejection::new(
            Code::TokenForeign,
            "what is computed is no token; write a token as a literal or parameter where it is compared",
        )),
        Beside::Constants | Beside::Harmless => Ok(()),
    }
}
