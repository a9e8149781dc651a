//! Parameters of the statement that runs: what is bound, in the engine's own order.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use sqlparser::{
    ast::{Query, Value as SqlValue, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut},
    tokenizer::Location,
};

use super::not_as_decided;
use crate::{dialect::Dialect, rejection::Rejection, value::Placeholder};

/// What to bind to `query`, the first to its first parameter. `gone` is the position, from 1, of a
/// `?` that stood in the statement and does not any more.
///
/// # Errors
/// `internal` if the tree has another number of them.
pub(super) fn order(
    query: &mut Query,
    placeholders: &BTreeMap<Placeholder, u32>,
    dialect: Dialect,
    gone: Option<usize>,
) -> Result<Vec<Placeholder>, Rejection> {
    let mut numbered: Vec<_> = placeholders.iter().map(|(p, n)| (*n, p.clone())).collect();
    numbered.sort_unstable();
    match dialect {
        // A limit above the cap has been replaced, and with it perhaps the last placeholder.
        Dialect::Sqlite => {
            let highest = seen(query, '?').into_keys().max().unwrap_or_default();
            numbered.truncate(usize::try_from(highest).unwrap_or(usize::MAX));
        }
        // PostgreSQL knows no type for a parameter that stands nowhere.
        Dialect::Postgres => {
            let used = seen(query, '$');
            numbered.retain(|(number, _)| used.contains_key(number));
            if used.len() != numbered.len() {
                return Err(not_as_decided("a parameter has no value"));
            }
            let _ = VisitMut::visit(query, &mut Renumbering { numbers: &used });
        }
        Dialect::Mysql => {
            if let Some(index) = gone.and_then(|n| n.checked_sub(1)) {
                if index >= numbered.len() {
                    return Err(not_as_decided("a parameter has no value"));
                }
                numbered.remove(index);
            }
            if count(query) != numbered.len() {
                return Err(not_as_decided("a parameter has no value"));
            }
        }
    }
    Ok(numbered
        .into_iter()
        .map(|(_, placeholder)| placeholder)
        .collect())
}

/// How many placeholders stand in `node`.
pub(super) fn count(node: &impl Visit) -> usize {
    let mut all = All(Vec::new());
    let _ = Visit::visit(node, &mut all);
    all.0.len()
}

/// The number of each `?` in a query that was read from a text, by its place there.
pub(super) fn positions(query: &Query) -> HashMap<Location, u32> {
    let mut all = All(Vec::new());
    let _ = Visit::visit(query, &mut all);
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
fn seen(query: &Query, sigil: char) -> BTreeMap<u32, u32> {
    let mut all = All(Vec::new());
    let _ = Visit::visit(query, &mut all);
    let numbers: BTreeMap<u32, u32> = all
        .0
        .iter()
        .filter_map(|(text, _)| text.strip_prefix(sigil)?.parse().ok())
        .map(|number| (number, 0))
        .collect();
    numbers.into_keys().zip(1..).collect()
}

struct All(Vec<(String, Location)>);

impl Visitor for All {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        if let SqlValue::Placeholder(text) = &value.value {
            self.0.push((text.clone(), value.span.start));
        }
        ControlFlow::Continue(())
    }
}

struct Renumbering<'n> {
    numbers: &'n BTreeMap<u32, u32>,
}

impl VisitorMut for Renumbering<'_> {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let SqlValue::Placeholder(text) = &mut value.value
            && let Some(number) = text.strip_prefix('$').and_then(|n| n.parse().ok())
            && let Some(rank) = self.numbers.get(&number)
        {
            *text = Dialect::Postgres.placeholder(*rank);
        }
        ControlFlow::Continue(())
    }
}
