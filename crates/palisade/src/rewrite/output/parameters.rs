//! Parameters of the statement that runs: what is bound, in the engine's own order.
//!
//! Beside those of the statement there are our own: keys, and tokens without their tags. In the tree one
//! of ours is a placeholder with a text that no statement can spell, until it gets a number after the
//! statement's own.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use sqlparser::{
    ast::{Expr, Query, Value as SqlValue, ValueWithSpan, Visit},
    tokenizer::Location,
};

use crate::rewrite::{output::bound::Bound, refusal::not_as_decided};
use crate::{
    dialect::Dialect,
    rejection::Rejection,
    resolve::{TokenParameter, token_index},
    syntax::{TreeVisitor, TreeVisitorMut, visit_tree, visit_tree_mut},
    value::Placeholder,
};

/// What the text of a placeholder for a key begins with; no text that is parsed holds the character.
const SECRET: &str = "\0secret ";

/// A parameter that holds `text`.
pub(in crate::rewrite) fn secret(text: String) -> Expr {
    let text = format!("{SECRET}{text}");
    Expr::Value(SqlValue::Placeholder(text).into())
}

/// What to bind to a statement, as far as its tree says.
#[derive(Debug, Default, PartialEq)]
pub(in crate::rewrite) struct Binding {
    /// The statement's own, in their order.
    agent: Vec<Placeholder>,
    /// Ours, in the order of their numbers.
    own: Vec<Bound>,
    /// On an engine that tells parameters by their places: which of ours each placeholder is, in the order
    /// of a visit; none for the statement's own.
    places: Vec<Option<usize>>,
}

/// Numbers the parameters of `query` and of the `sources` that stand in it. `gone` is the position, from 1,
/// of a `?` that stood in the statement and does not any more.
///
/// # Errors
/// `internal` if the tree has another number of them.
pub(in crate::rewrite) fn renumber(
    query: &mut Query,
    sources: &mut [&mut Query],
    placeholders: &BTreeMap<Placeholder, u32>,
    tokens: &[TokenParameter],
    dialect: Dialect,
    gone: Option<usize>,
) -> Result<Binding, Rejection> {
    let mut numbered: Vec<_> = placeholders.iter().map(|(p, n)| (*n, p.clone())).collect();
    numbered.sort_unstable();
    let mut numbers = BTreeMap::new();
    match dialect {
        Dialect::Sqlite | Dialect::Postgres if numbered.is_empty() => {}
        // A limit above the cap has been replaced, and with it perhaps the last placeholder.
        Dialect::Sqlite => {
            let highest = count_numbers(query, '?')
                .into_keys()
                .max()
                .unwrap_or_default();
            numbered.truncate(usize::try_from(highest).unwrap_or(usize::MAX));
        }
        // PostgreSQL knows no type for a parameter that stands nowhere.
        Dialect::Postgres => {
            numbers = count_numbers(query, '$');
            numbered.retain(|(number, _)| numbers.contains_key(number));
            if numbers.len() != numbered.len() {
                return Err(not_as_decided("a parameter has no value"));
            }
        }
        Dialect::Mysql => {
            if let Some(index) = gone.and_then(|n| n.checked_sub(1)) {
                if index >= numbered.len() {
                    return Err(not_as_decided("a parameter has no value"));
                }
                numbered.remove(index);
            }
        }
    }
    let after = u32::try_from(numbered.len()).unwrap_or(u32::MAX);
    let mut visitor = Renumbering {
        dialect,
        numbers: &numbers,
        tokens,
        after,
        own: Vec::new(),
        places: Vec::new(),
        unknown: false,
    };
    let _ = visit_tree_mut(query, &mut visitor);
    let places = std::mem::take(&mut visitor.places);
    for source in sources {
        let _ = visit_tree_mut(&mut **source, &mut visitor);
    }
    let (own, unknown) = (visitor.own, visitor.unknown);
    if unknown {
        return Err(not_as_decided("a parameter is not known"));
    }
    if numbered.is_empty() && places.contains(&None) {
        return Err(not_as_decided("a parameter has no value"));
    }
    let own: Vec<Bound> = own.into_iter().map(|(_, bound)| bound).collect();
    let agent: Vec<Placeholder> = numbered.into_iter().map(|(_, p)| p).collect();
    if dialect == Dialect::Mysql {
        let standing = places.iter().filter(|own| own.is_none()).count();
        // What a token stands in for has its place, and not the statement's own placeholder.
        let replaced = own.iter().filter_map(Bound::replaced).count();
        if standing + replaced != agent.len() {
            return Err(not_as_decided("a parameter has no value"));
        }
    }
    Ok(Binding { agent, own, places })
}

/// Numbers the parameters of a query that runs by itself, and is made of parts of a statement whose placeholders stand
/// at `positions`.
///
/// # Errors
/// `internal` if one of them is not known.
pub(in crate::rewrite) fn bind_in_place(
    query: &mut Query,
    positions: &HashMap<Location, u32>,
    placeholders: &BTreeMap<Placeholder, u32>,
    tokens: &[TokenParameter],
    dialect: Dialect,
) -> Result<Binding, Rejection> {
    let mut visitor = Numbering {
        dialect,
        positions,
        placeholders,
        tokens,
        own: Vec::new(),
        places: Vec::new(),
    };
    match visit_tree_mut(query, &mut visitor) {
        ControlFlow::Continue(()) => Ok(Binding {
            agent: Vec::new(),
            own: visitor.own,
            places: visitor.places,
        }),
        ControlFlow::Break(()) => Err(not_as_decided("a parameter is not known")),
    }
}

struct Numbering<'n> {
    dialect: Dialect,
    positions: &'n HashMap<Location, u32>,
    placeholders: &'n BTreeMap<Placeholder, u32>,
    tokens: &'n [TokenParameter],
    own: Vec<Bound>,
    places: Vec<Option<usize>>,
}

impl Numbering<'_> {
    fn resolve(&self, text: &str, at: Location) -> Option<Bound> {
        if text.starts_with('\0') {
            return self
                .tokens
                .get(token_index(text)?)
                .cloned()
                .map(Bound::Token);
        }
        let number = match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => text.get(1..)?.parse().ok()?,
            Dialect::Mysql => *self.positions.get(&at)?,
        };
        let mut known = self.placeholders.iter();
        let (placeholder, _) = known.find(|(_, n)| **n == number)?;
        Some(Bound::Agent(placeholder.clone()))
    }
}

impl TreeVisitorMut for Numbering<'_> {
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        let SqlValue::Placeholder(text) = &mut value.value else {
            return ControlFlow::Continue(());
        };
        let Some(bound) = self.resolve(text, value.span.start) else {
            return ControlFlow::Break(());
        };
        let known = self.own.iter().position(|own| *own == bound);
        let index = known.unwrap_or(self.own.len());
        if known.is_none() {
            self.own.push(bound);
        }
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        *text = self.dialect.placeholder(number.saturating_add(1));
        self.places.push(Some(index));
        ControlFlow::Continue(())
    }
}

impl Binding {
    /// What to bind, the first to the first parameter of the text that `again` was read from.
    ///
    /// # Errors
    /// `internal` if that has other parameters than the tree it was printed from.
    pub(in crate::rewrite) fn bind_printed(
        self,
        again: &Query,
        dialect: Dialect,
    ) -> Result<Vec<Bound>, Rejection> {
        let Self { agent, own, places } = self;
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                let agent = agent.into_iter().map(Bound::Agent);
                Ok(agent.chain(own).collect())
            }
            Dialect::Mysql => {
                let mut all = All(Vec::new());
                let _ = visit_tree(again, &mut all);
                if all.0.len() != places.len() {
                    return Err(not_as_decided("a parameter has no place"));
                }
                // The same tree is visited in the same order, whatever that is; the text has one of its own.
                let mut placed: Vec<_> = all.0.into_iter().map(|(_, at)| at).zip(places).collect();
                placed.sort_unstable();
                let replaced: Vec<&Placeholder> = own.iter().filter_map(Bound::replaced).collect();
                let mut agent = agent.iter().filter(|p| !replaced.contains(p));
                placed
                    .into_iter()
                    .map(|(_, which)| match which {
                        Some(index) => own.get(index).cloned(),
                        None => agent.next().cloned().map(Bound::Agent),
                    })
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| not_as_decided("a parameter has no value"))
            }
        }
    }
}

/// How many placeholders of the statement's own stand in `node`.
pub(in crate::rewrite) fn count(node: &impl Visit) -> usize {
    let mut all = All(Vec::new());
    let _ = visit_tree(node, &mut all);
    let own = |text: &String| !text.starts_with(SECRET);
    all.0.iter().filter(|(text, _)| own(text)).count()
}

/// How often each placeholder stands in `node`, by its text.
pub(in crate::rewrite) fn uses(node: &impl Visit) -> BTreeMap<String, usize> {
    let mut all = All(Vec::new());
    let _ = visit_tree(node, &mut all);
    let mut uses = BTreeMap::new();
    for (text, _) in all.0 {
        *uses.entry(text).or_default() += 1;
    }
    uses
}

/// Whether any placeholder stands in `query`, the statement's own or ours.
pub(in crate::rewrite) fn has_placeholders(query: &Query) -> bool {
    let mut all = All(Vec::new());
    let _ = visit_tree(query, &mut all);
    !all.0.is_empty()
}

/// The number of each `?` in a query that was read from a text, by its place there.
pub(in crate::rewrite) fn positions(query: &Query) -> HashMap<Location, u32> {
    let mut all = All(Vec::new());
    let _ = visit_tree(query, &mut all);
    let mut places: Vec<Location> = all
        .0
        .into_iter()
        .filter(|(text, _)| text == "?")
        .map(|(_, place)| place)
        .collect();
    places.sort_unstable();
    places.into_iter().zip(1..).collect()
}

/// The numbers that stand in `query` after `sigil`, each with its rank from 1.
fn count_numbers(query: &Query, sigil: char) -> BTreeMap<u32, u32> {
    let mut all = All(Vec::new());
    let _ = visit_tree(query, &mut all);
    let numbers: BTreeMap<u32, u32> = all
        .0
        .iter()
        .filter_map(|(text, _)| text.strip_prefix(sigil)?.parse().ok())
        .map(|number| (number, 0))
        .collect();
    numbers.into_keys().zip(1..).collect()
}

struct All(Vec<(String, Location)>);

impl TreeVisitor for All {
    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let SqlValue::Placeholder(text) = &value.value {
            self.0.push((text.clone(), value.span.start));
        }
        ControlFlow::Continue(())
    }
}

struct Renumbering<'n> {
    dialect: Dialect,
    /// New numbers of the statement's own, where they have other ones.
    numbers: &'n BTreeMap<u32, u32>,
    /// Parameters that were compared with a column of tokens.
    tokens: &'n [TokenParameter],
    /// How many the statement has.
    after: u32,
    /// Ours so far: the text each had, and what is bound.
    own: Vec<(String, Bound)>,
    places: Vec<Option<usize>>,
    unknown: bool,
}

impl Renumbering<'_> {
    /// What is bound to a placeholder of ours.
    fn resolve(&self, text: &str) -> Option<Bound> {
        if let Some(secret) = text.strip_prefix(SECRET) {
            return Some(Bound::Secret(secret.to_owned()));
        }
        let token = token_index(text)?;
        self.tokens.get(token).cloned().map(Bound::Token)
    }
}

impl TreeVisitorMut for Renumbering<'_> {
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        let SqlValue::Placeholder(text) = &mut value.value else {
            return ControlFlow::Continue(());
        };
        if !text.starts_with('\0') {
            let number = text.strip_prefix('$').and_then(|n| n.parse().ok());
            if let Some(rank) = number.and_then(|number: u32| self.numbers.get(&number)) {
                *text = self.dialect.placeholder(*rank);
            }
            self.places.push(None);
            return ControlFlow::Continue(());
        }
        let known = self.own.iter().position(|(own, _)| own == text);
        let index = known.unwrap_or(self.own.len());
        if known.is_none() {
            match self.resolve(text) {
                Some(bound) => self.own.push((text.clone(), bound)),
                None => self.unknown = true,
            }
        }
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        *text = self
            .dialect
            .placeholder(self.after.saturating_add(number).saturating_add(1));
        self.places.push(Some(index));
        ControlFlow::Continue(())
    }
}
