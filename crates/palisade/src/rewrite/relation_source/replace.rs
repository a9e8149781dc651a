//! Which references have obligations, and putting source subqueries in their place.

use std::ops::ControlFlow;

use sqlparser::ast::{Query, TableFactor};

use crate::rewrite::{
    ast,
    refusal::not_as_decided,
    relation_source::cache::{self, PrintedSource, PrintedSources},
};
use crate::{
    catalog::RelationId,
    dialect::Dialect,
    rejection::Rejection,
    resolve::{self, Reference, Target},
    syntax::{TreeVisitorMut, visit_tree_mut},
};

/// Whether a source subquery must stand in the place of `reference`.
pub(in crate::rewrite) fn has_obligations(reference: &Reference) -> bool {
    let body = reference.body.as_ref();
    reference.decision.has_obligation() || body.is_some_and(|body| body.has_obligation)
}

/// Puts `sources` where the marked references to their relations stand, except those to `targets`. Gives how many placeholder names
/// were put.
///
/// # Errors
/// `internal` unless each reference stands in the query exactly once, and has a source where it has obligations.
pub(in crate::rewrite) fn replace_references(
    query: &mut Query,
    references: &[Reference],
    targets: &[Target],
    sources: &PrintedSources,
    dialect: Dialect,
) -> Result<usize, Rejection> {
    // Where no relation has obligations, all stay as they are.
    if sources.is_empty() {
        return Ok(0);
    }
    let mut visitor = ReferenceReplacer {
        references,
        sources,
        targets,
        dialect,
        seen: vec![0; references.len()],
        placeholders: 0,
    };
    if visit_tree_mut(query, &mut visitor).is_break() {
        return Err(not_as_decided("a reference has no source subquery"));
    }
    if visitor.seen.iter().any(|count| *count != 1) {
        return Err(not_as_decided("a reference does not stand exactly once"));
    }
    Ok(visitor.placeholders)
}

struct ReferenceReplacer<'r> {
    references: &'r [Reference],
    sources: &'r PrintedSources,
    dialect: Dialect,
    /// Their references stay as they are: the statement changes them.
    targets: &'r [Target],
    seen: Vec<usize>,
    placeholders: usize,
}

impl ReferenceReplacer<'_> {
    fn source_of(&self, relation: RelationId) -> Option<(usize, &PrintedSource)> {
        let mut all = self.sources.iter().enumerate();
        let (index, (_, source)) = all.find(|(_, (id, _))| *id == relation)?;
        Some((index, source))
    }
}

impl TreeVisitorMut for ReferenceReplacer<'_> {
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table {
            name,
            alias,
            args: _,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let Some(index) = resolve::reference_index(name) else {
            return ControlFlow::Continue(());
        };
        if let Some(count) = self.seen.get_mut(index) {
            *count += 1;
        }
        let mut targets = self.targets.iter();
        if targets.any(|target| target.reference == Some(index)) {
            return ControlFlow::Continue(());
        }
        let Some(reference) = self.references.get(index) else {
            return ControlFlow::Break(());
        };
        let Some((index, source)) = self.source_of(reference.relation) else {
            return match has_obligations(reference) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
        };
        let own = name.0.last().and_then(|part| part.as_ident()).cloned();
        let alias = alias.take().or_else(|| own.map(ast::alias));
        *factor = match source {
            PrintedSource::Tree(subquery) => TableFactor::Derived {
                lateral: false,
                subquery: subquery.clone(),
                alias,
                sample: None,
            },
            PrintedSource::Text(_) => {
                self.placeholders += 1;
                cache::placeholder(index, alias, self.dialect)
            }
        };
        ControlFlow::Continue(())
    }
}
