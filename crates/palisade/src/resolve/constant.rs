//! Constants that are compared with tokens where they do not stand themselves: in VALUES, behind a SELECT without FROM, in a
//! call that gives one of its arguments, in an array.
//!
//! Whether a column that is made of no other is compared with tokens is known after it was read. Then the text is read again, and
//! values say of which constants they are; and again, until no constant is found that must be a token and was not taken for one. Such
//! a constant stands without its tag, and what it flows into is a token like one from a column. Statements
//! that compare no such column with tokens are read once.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use sqlparser::{
    ast::{
        ArrayElemTypeDef, CharacterLength, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
        FunctionArguments, ObjectNamePart, Query, TypedString, Value, ValueWithSpan, Visit,
        Visitor,
    },
    tokenizer::Location,
};

use super::{
    Resolver,
    scope::{Found, Origin, Output, Scope},
    token::{Beside, TOKEN, TokenParameter, Wanted, foreign, not_alone, place, wanted},
};
use crate::{
    catalog::ColumnId,
    code::Code,
    dialect::Dialect,
    lineage::{Given, Lineage, Place, Tokens},
    rejection::Rejection,
    token::TOKEN_LENGTH,
};

/// How often a text is read again at most.
pub(super) const READINGS: usize = 8;

/// The constants that must be tokens, by where they stand.
pub(super) type Taken = BTreeMap<Place, Wanted>;

/// What a reading knows of constants, and finds out.
#[derive(Debug, Default)]
pub(super) struct Constants {
    /// Whether values say of which constants they are.
    are_noted: bool,
    /// Whether a column that is made of no other was compared with tokens, and did not say of which constants it is.
    is_asked: bool,
    /// Those that were found to be compared with tokens by an earlier reading.
    taken: Taken,
    /// Those that were found by this one.
    found: Taken,
    /// The tokens that constants were found to be, where they stand without tags.
    opened: BTreeMap<Place, Tokens>,
    /// Of which constants a column of a subquery is, by where that stands; none until they are noted.
    subqueries: HashMap<(Location, usize), Option<Arc<Given>>>,
}

/// Of what a value is made.
enum Made {
    /// Of these constants.
    Of(Given),
    /// Of constants, unless it is of nothing at all.
    Perhaps,
    /// Of something else.
    Otherwise,
}

/// A call that gives one of its arguments.
pub(super) struct Picks<'e> {
    pub(super) args: Vec<&'e Expr>,
    /// Those of which it gives one.
    pub(super) picked: Vec<usize>,
    /// Those that must be compared alike with these.
    pub(super) compared: Vec<usize>,
}

impl Constants {
    /// What a reading begins with after another has found what is `taken`.
    pub(super) fn noted(taken: Taken) -> Self {
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
    pub(super) fn next(self) -> Result<Option<Taken>, Rejection> {
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
    pub(super) fn are_unknown(&self) -> bool {
        self.taken.is_empty()
    }

    /// The tokens that the constant at `start` is.
    pub(super) fn known(&self, start: Location, is_array: bool) -> Option<Tokens> {
        if self.opened.is_empty() {
            return None;
        }
        self.opened.get(&placed(start, is_array)).cloned()
    }

    /// What was found so far.
    pub(super) fn found(&self) -> Taken {
        self.found.clone()
    }

    /// Forgets what was found in a tree that is dropped.
    pub(super) fn forget(&mut self, found: &Taken) {
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

impl Made {
    /// That of a value that is one or the other.
    fn either(self, other: Self) -> Self {
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
    fn nothing() -> Self {
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
    /// Whether anything so far may be a token.
    pub(super) fn knows_tokens(&self) -> bool {
        self.gives_tokens || !self.constants.are_unknown()
    }

    /// The lineage of an expression that has been resolved and is made from `columns`.
    pub(super) fn lineage_of(
        &self,
        columns: Vec<ColumnId>,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Lineage {
        Lineage::computed(columns)
            .with_tokens(self.tokens_of(expr, scope))
            .with_given(self.given_of(expr, scope))
    }

    /// Of which constants an expression is, where that is noted.
    fn given_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<Arc<Given>> {
        if !self.constants.are_noted {
            return None;
        }
        given(self.made(expr, scope))
    }

    /// What the elements of an array are, which has been resolved: tokens, and of which constants.
    pub(super) fn elements_of(
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
    pub(super) fn given_by_table(&self, columns: &[ColumnId]) -> Option<Arc<Given>> {
        (self.constants.are_noted && columns.is_empty()).then(|| {
            Arc::new(Given {
                is_computed: true,
                ..Given::default()
            })
        })
    }

    /// Notes of which constants the columns of a subquery are.
    pub(super) fn keep_given(&mut self, query: &Query, outputs: &[Output]) {
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
    pub(super) fn take_tag(&mut self, value: &mut Value, start: Location) -> Result<(), Rejection> {
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
    pub(super) fn without_tag(
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
            Made::Otherwise => Ok(()),
        }
    }

    /// As [`without_tag`](Self::without_tag), of a column of a subquery.
    pub(super) fn rows_without_tags(
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

    /// As [`tokens`](Self::tokens), of columns that a join merges, or of which INTERSECT or EXCEPT compares the rows.
    pub(super) fn merged_tokens(&mut self, origins: &[Origin<'_>]) -> Result<(), Rejection> {
        if !self.knows_tokens() || !self.checks_tokens() {
            return Ok(());
        }
        let tokens: Vec<Option<Tokens>> = origins.iter().map(Origin::tokens).collect();
        let Some(wanted) = wanted(tokens.iter().flatten()) else {
            return Ok(());
        };
        for origin in origins {
            match self.made_of_column(origin) {
                Made::Of(given) if origin.tokens().is_none_or(|t| t.keys().is_none()) => {
                    self.take_given(&given, &wanted)?;
                }
                Made::Perhaps => self.constants.is_asked = true,
                Made::Of(_) | Made::Otherwise => {}
            }
        }
        Ok(())
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

    /// Of what an expression is made, which has been resolved.
    fn made(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Made {
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

    /// Of what the elements of an array are made.
    fn made_of_elements(&self, array: &Expr, scope: &Scope<'a, '_>) -> Made {
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
    fn tokens_of_elements(&self, array: &Expr, scope: &Scope<'a, '_>) -> Option<Tokens> {
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
    pub(super) fn tokens_of_unnested(
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

    fn made_of_column(&self, origin: &Origin<'_>) -> Made {
        let lineage = match origin {
            Origin::Base(_, _) => return Made::Otherwise,
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
    pub(super) fn picks<'e>(&self, function: &'e Function) -> Option<Picks<'e>> {
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

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.made = Made::Otherwise;
        ControlFlow::Break(())
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

fn given(made: Made) -> Option<Arc<Given>> {
    match made {
        Made::Of(given) => Some(Arc::new(given)),
        Made::Perhaps | Made::Otherwise => None,
    }
}

fn placed(start: Location, is_array: bool) -> Place {
    Place {
        line: start.line,
        column: start.column,
        is_array,
    }
}

/// Whether a column is made of no other, and is not NULL alone.
fn is_bare(columns: &[ColumnId], tokens: &Option<Tokens>) -> bool {
    columns.is_empty()
        && match tokens {
            Some(Tokens::Nothing | Tokens::Of(_) | Tokens::Among(_)) => false,
            Some(Tokens::Constants) | None => true,
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

/// The text, or array of texts, that is inside of something that leaves it as it is.
fn within(expr: &Expr, is_array: bool, dialect: Dialect) -> Option<&Expr> {
    match expr {
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
        }
        | Expr::Convert {
            is_try: false,
            expr: inner,
            data_type: Some(data_type),
            charset: _,
            target_before_value: false,
            styles: _,
        } if keeps_text(data_type, is_array, dialect) => Some(inner),
        _ => None,
    }
}

/// As [`within`], to be changed.
fn inside(expr: &mut Expr, is_array: bool, dialect: Dialect) -> Option<&mut Expr> {
    match expr {
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
        }
        | Expr::Convert {
            is_try: false,
            expr: inner,
            data_type: Some(data_type),
            charset: _,
            target_before_value: false,
            styles: _,
        } if keeps_text(data_type, is_array, dialect) => Some(inner),
        _ => None,
    }
}

/// Whether a cast to this type leaves a token as it is, or an array of tokens.
pub(super) fn keeps_text(data_type: &DataType, is_array: bool, dialect: Dialect) -> bool {
    let fits = |length: &CharacterLength| match length {
        CharacterLength::IntegerLength { length, unit: _ } => {
            usize::try_from(*length).is_ok_and(|length| length >= TOKEN_LENGTH)
        }
        CharacterLength::Max => false,
    };
    match data_type {
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
