//! References of a statement to relations with obligations, and putting source subqueries in their place.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{Query, TableFactor, VisitMut, VisitorMut};

use crate::rewrite::{
    ast,
    output::expected_access::ExpectedAccess,
    refusal::not_as_decided,
    source,
    source::cache::{PrintedSource, PrintedSources, SourceCache},
};
use crate::{
    access::AccessSet,
    catalog::{Catalog, RelationId},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    rejection::Rejection,
    resolve::{self, Reference, Target},
};

/// Whether a source subquery must stand in the place of `reference`.
pub(in crate::rewrite) fn has_obligations(reference: &Reference) -> bool {
    let body = reference.body.as_ref();
    reference.decision.has_obligation() || body.is_some_and(|body| body.has_obligation)
}

/// A read of which no query plan is shown: the plan would show estimates, conditions and keys of hidden rows and columns.
pub(in crate::rewrite) enum UnplannableRead<'r> {
    /// A relation with masks or row filters.
    Reference(&'r Reference),
    /// One of the engine's own.
    System,
}

/// The first such read of a statement.
pub(in crate::rewrite) fn unplannable_read<'r>(
    references: &'r [Reference],
    access: &AccessSet,
    catalog: &Catalog,
) -> Option<UnplannableRead<'r>> {
    if let Some(reference) = references.iter().find(|r| has_obligations(r)) {
        return Some(UnplannableRead::Reference(reference));
    }
    let mut read = access.relations().filter_map(|id| catalog.relation(id));
    let is_system = access.system_relations().next().is_some()
        || read.any(|relation| relation.system.is_some());
    is_system.then_some(UnplannableRead::System)
}

impl UnplannableRead<'_> {
    /// The refusal of EXPLAIN over it.
    pub(in crate::rewrite) fn refusal(&self, catalog: &Catalog) -> Rejection {
        let message = match self {
            Self::System => "the plan of a statement over system relations is not shown".to_owned(),
            Self::Reference(reference) => {
                let name = catalog
                    .relation(reference.relation)
                    .map_or("", |relation| relation.name.as_str());
                format!(
                    "the plan of a statement over `{name}` would show what masks and filters hide"
                )
            }
        };
        Rejection::new(Code::ObligationInapplicable, message)
    }
}

/// The source subquery of `reference`, from the cache where it has no parameters.
pub(in crate::rewrite) fn source_of(
    reference: &Reference,
    place: source::Place<'_>,
    is_fenced: bool,
    cache: &SourceCache,
    expected: &mut ExpectedAccess,
    limits: &Limits,
) -> Result<PrintedSource, Rejection> {
    let mut with_parameters = None;
    let printed = cache.get_or_print(reference, is_fenced, place.keyed, || {
        let mut functions = BTreeSet::new();
        let tree = source::source_query(reference, place, is_fenced, &mut functions)?;
        let relation = place.catalog.relation(reference.relation);
        let reads = relation.map(|relation| source::columns_read(reference, relation));
        let (reads, dialect) = (reads.unwrap_or_default(), place.catalog.dialect());
        let printed = source::cache::print_source(&tree, &functions, reads, dialect, limits)?;
        if printed.is_none() {
            with_parameters = Some((tree, functions));
        }
        Ok(printed)
    })?;
    match (printed, with_parameters) {
        (Some(printed), _) => {
            expected.allow_functions(&printed.functions);
            Ok(PrintedSource::Text(printed))
        }
        (None, Some((tree, functions))) => {
            expected.functions.extend(functions);
            Ok(PrintedSource::Tree(tree))
        }
        (None, None) => Err(not_as_decided("a relation has no source subquery")),
    }
}

/// Puts `sources` where the marked references to their relations stand, except those to `targets`. Gives how many placeholder names
/// were put.
///
/// # Errors
/// `internal` unless each reference stands in the query exactly once.
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
    let _ = VisitMut::visit(query, &mut visitor);
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

impl VisitorMut for ReferenceReplacer<'_> {
    type Break = ();

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
            return ControlFlow::Continue(());
        };
        let Some((index, source)) = self.source_of(reference.relation) else {
            return ControlFlow::Continue(());
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
                source::cache::placeholder(index, alias, self.dialect)
            }
        };
        ControlFlow::Continue(())
    }
}
