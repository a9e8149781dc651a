//! Source subqueries that are printed once for a session.
//!
//! A source subquery is the same for every statement of a session, and often longer than the statement. The tree contains a
//! placeholder name with a NUL byte, which no SQL text can contain. After the printed text has been parsed again and compared,
//! the subquery's text replaces the placeholder. The meaning of the whole text follows from its two parts:
//!
//! * Both were read back on their own.
//! * The placeholder stands as a table, as the tree that was read back shows.
//! * A parser reads a subquery in parentheses in the place of a table without regard to the text around it.
//!
//! Builds with debug assertions read the whole text back as well.

use std::{
    collections::BTreeSet,
    fmt,
    ops::ControlFlow,
    sync::{Arc, Weak},
};

use quick_cache::{Weighter, sync::Cache};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor};

use crate::rewrite::{
    change::{
        write_filter_cache,
        write_filter_cache::{PrintedFilter, PrintedFilters},
    },
    output::{
        parameters,
        text_facts::{TextFacts, read_whole},
    },
    refusal::not_as_decided,
};
use crate::{
    catalog::RelationId,
    dialect::Dialect,
    limits::Limits,
    policy::{WriteDecision, obligation::RelationDecision},
    rejection::Rejection,
    resolve::{PlacedSource, Reference, ViewBody, find_source_name, source_name},
    syntax::{self, Readings, TreeVisitorMut, visit_tree_mut},
};

/// The text of a source subquery, with what the engine calls and reads to compute it.
#[derive(Debug)]
pub(in crate::rewrite) struct SourceText {
    pub(in crate::rewrite) text: Arc<str>,
    pub(in crate::rewrite) functions: BTreeSet<String>,
    /// The columns, folded, that it reads of the relation in whose place it stands.
    pub(in crate::rewrite) reads: Arc<[Arc<str>]>,
    /// What it is made of, for engines whose backends ask for that.
    pub(in crate::rewrite) facts: Option<TextFacts>,
}

/// `query` as a text that is printed once, if it holds no parameter: those are numbered anew in each statement.
///
/// # Errors
/// `syntax.not-stable`.
pub(in crate::rewrite) fn print_source(
    query: &Query,
    functions: &BTreeSet<String>,
    reads: Arc<[Arc<str>]>,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Option<Arc<SourceText>>, Rejection> {
    if parameters::has_placeholders(query) {
        return Ok(None);
    }
    let (text, again) = syntax::print_stable(query, dialect, limits)?;
    Ok(Some(Arc::new(SourceText {
        facts: read_whole(&again, dialect)?,
        text: text.into(),
        functions: functions.clone(),
        reads,
    })))
}

/// What a source subquery is made from. An address is that of one thing alone as long as somebody holds on to it, and
/// [`CachedSource`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SourceKey {
    relation: RelationId,
    decision: usize,
    body: Option<usize>,
    fence: bool,
    keyed: bool,
    is_alone: bool,
}

/// A source subquery, and the things whose addresses it is found by. They may go; their addresses stay taken.
#[derive(Debug, Clone)]
struct CachedSource {
    source: Arc<SourceText>,
    _decision: Weak<RelationDecision>,
    _body: Option<Weak<ViewBody>>,
}

/// Printed source subqueries and write filters, by the decisions they were made from, and the texts that were read back; bounded in bytes.
pub(crate) struct SourceCache {
    sources: Cache<SourceKey, CachedSource, Weight>,
    write_filters: Cache<
        write_filter_cache::FilterKey,
        write_filter_cache::CachedFilter,
        write_filter_cache::Weight,
    >,
    pub(in crate::rewrite) readings: Readings,
}

/// Bytes that sources, and that write filters may take: the least used are forgotten first.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of a source subquery, about, for a first guess of how many fit.
const TYPICAL_BYTES: u64 = 1024;

impl Default for SourceCache {
    fn default() -> Self {
        let items = usize::try_from(CACHE_BYTES / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self {
            sources: Cache::with_weighter(items, CACHE_BYTES, Weight),
            write_filters: Cache::with_weighter(items, CACHE_BYTES, write_filter_cache::Weight),
            readings: Readings::default(),
        }
    }
}

impl fmt::Debug for SourceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceCache")
            .field("sources", &self.sources.len())
            .field("write_filters", &self.write_filters.len())
            .field("readings", &self.readings)
            .finish()
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<SourceKey, CachedSource> for Weight {
    fn weight(&self, _: &SourceKey, kept: &CachedSource) -> u64 {
        let functions: usize = kept.source.functions.iter().map(|f| 48 + f.len()).sum();
        // The names are the catalog's.
        let reads = kept.source.reads.len() * size_of::<Arc<str>>();
        let bytes = size_of::<SourceKey>()
            + size_of::<CachedSource>()
            + kept.source.text.len()
            + functions
            + reads
            + (kept.source.facts.as_ref()).map_or(0, |facts| facts.bytes(48));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl SourceCache {
    /// The source subquery that stands for `reference`, made by `make` if it is not known.
    ///
    /// # Errors
    /// Those of `make`.
    pub(in crate::rewrite) fn get_or_print(
        &self,
        reference: &Reference,
        fence: bool,
        (keyed, is_alone): (bool, bool),
        make: impl FnOnce() -> Result<Option<Arc<SourceText>>, Rejection>,
    ) -> Result<Option<Arc<SourceText>>, Rejection> {
        // What is opened depends on the statement.
        if !reference.opened.is_empty() {
            return make();
        }
        let (decision, body) = (&reference.decision, reference.body.as_ref());
        let key = SourceKey {
            relation: reference.relation,
            decision: Arc::as_ptr(decision).addr(),
            body: body.map(|body| Arc::as_ptr(body).addr()),
            fence,
            keyed,
            is_alone,
        };
        if let Some(kept) = self.sources.get(&key) {
            return Ok(Some(kept.source));
        }
        let made = make()?;
        if let Some(source) = &made {
            let kept = CachedSource {
                source: Arc::clone(source),
                _decision: Arc::downgrade(decision),
                _body: body.map(Arc::downgrade),
            };
            self.sources.insert(key, kept);
        }
        Ok(made)
    }

    /// The condition of a write filter that was made from this.
    pub(in crate::rewrite) fn write_filter(
        &self,
        key: &write_filter_cache::FilterKey,
    ) -> Option<Arc<PrintedFilter>> {
        self.write_filters.get(key).map(|kept| kept.condition)
    }

    /// Keeps a condition that was made from these decisions.
    pub(in crate::rewrite) fn keep_write_filter(
        &self,
        key: write_filter_cache::FilterKey,
        condition: &Arc<PrintedFilter>,
        seen: Option<&Arc<RelationDecision>>,
        changed: &Arc<WriteDecision>,
    ) {
        let kept = write_filter_cache::CachedFilter {
            condition: Arc::clone(condition),
            _seen: seen.map(Arc::downgrade),
            _changed: Arc::downgrade(changed),
        };
        self.write_filters.insert(key, kept);
    }
}

/// What stands in the place of a relation in this statement.
#[derive(Debug)]
pub(in crate::rewrite) enum PrintedSource {
    /// A tree: with parameters.
    Tree(Box<Query>),
    /// A text, for which a name stands in the tree.
    Text(Arc<SourceText>),
}

/// The source subqueries of a statement, by relation.
pub(in crate::rewrite) type PrintedSources = Vec<(RelationId, PrintedSource)>;

/// How the second resolution knows each of `sources`.
pub(in crate::rewrite) fn placed_sources(
    sources: &PrintedSources,
) -> Vec<(RelationId, PlacedSource<'_>)> {
    sources
        .iter()
        .map(|(id, source)| match source {
            PrintedSource::Tree(query) => (*id, PlacedSource::Tree(query)),
            PrintedSource::Text(_) => (*id, PlacedSource::Named),
        })
        .collect()
}

/// The text of each of `sources`, for the operator.
pub(in crate::rewrite) fn texts(
    sources: &PrintedSources,
) -> impl Iterator<Item = (RelationId, Arc<str>)> {
    sources.iter().map(|(id, source)| match source {
        PrintedSource::Tree(query) => (*id, query.to_string().into()),
        PrintedSource::Text(ready) => (*id, Arc::clone(&ready.text)),
    })
}

/// The name, as a table, that stands for the source subquery at `index`.
pub(in crate::rewrite) fn placeholder(
    index: usize,
    alias: Option<TableAlias>,
    dialect: Dialect,
) -> TableFactor {
    TableFactor::Table {
        name: ObjectName(vec![ObjectNamePart::Identifier(source_name(
            index, dialect,
        ))]),
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// The text for which `name` stands in a tree.
pub(in crate::rewrite) fn find_text<'f>(
    name: &Ident,
    sources: &'f PrintedSources,
    dialect: Dialect,
) -> Option<&'f SourceText> {
    let mut sources = sources.iter().enumerate();
    sources.find_map(|(index, (_, source))| match source {
        PrintedSource::Text(ready) => (*name == source_name(index, dialect)).then_some(&**ready),
        PrintedSource::Tree(_) => None,
    })
}

/// `text`, printed from a tree in which names stand for `sources`, with their texts in the places of the names.
///
/// # Errors
/// `internal` if something else is left of a name.
pub(in crate::rewrite) fn fill_texts(
    text: String,
    sources: &PrintedSources,
    dialect: Dialect,
) -> Result<String, Rejection> {
    if !text.contains('\0') {
        return Ok(text);
    }
    let texts = sources.iter().map(|(_, source)| match source {
        PrintedSource::Tree(_) => 0,
        PrintedSource::Text(ready) => ready.text.len(),
    });
    let mut out = String::with_capacity(text.len() + texts.sum::<usize>());
    let mut rest = text.as_str();
    while let Some((before, index, after)) = find_source_name(rest, dialect)
        && let Some((_, PrintedSource::Text(ready))) = sources.get(index)
    {
        out.push_str(before);
        out.push('(');
        out.push_str(&ready.text);
        out.push(')');
        rest = after;
    }
    out.push_str(rest);
    if out.contains('\0') {
        return Err(not_as_decided(
            "a name that stands for a source subquery is left",
        ));
    }
    Ok(out)
}

/// Puts the trees of `sources` where their names stand in `query`.
///
/// # Errors
/// `syntax.not-stable` if a source subquery does not read back.
pub(in crate::rewrite) fn put_trees(
    query: &mut Query,
    sources: &PrintedSources,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(), Rejection> {
    let mut filling = Filling {
        sources,
        dialect,
        limits,
        failed: None,
    };
    let _ = visit_tree_mut(query, &mut filling);
    filling.failed.map_or(Ok(()), Err)
}

/// Whether `text` reads back as `query` with the `sources` and `write_filters` in it.
///
/// # Errors
/// `syntax.not-stable` if it does not.
pub(in crate::rewrite) fn reads_back_whole(
    query: &Query,
    text: &str,
    sources: &PrintedSources,
    write_filters: &PrintedFilters,
    dialect: Dialect,
    limits: &Limits,
) -> Result<bool, Rejection> {
    let mut query = query.clone();
    put_trees(&mut query, sources, dialect, limits)?;
    write_filters.put_trees(&mut query, dialect);
    Ok(syntax::print_stable(&query, dialect, limits)?.0 == text)
}

/// Puts the trees of source subqueries where their names stand.
struct Filling<'f> {
    sources: &'f PrintedSources,
    dialect: Dialect,
    limits: &'f Limits,
    failed: Option<Rejection>,
}

impl TreeVisitorMut for Filling<'_> {
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
        for (index, (_, source)) in self.sources.iter().enumerate() {
            let PrintedSource::Text(ready) = source else {
                continue;
            };
            if name.to_string() != source_name(index, self.dialect).to_string() {
                continue;
            }
            match syntax::read_query(&ready.text, self.dialect, self.limits) {
                Ok(subquery) => {
                    *factor = TableFactor::Derived {
                        lateral: false,
                        subquery,
                        alias: alias.take(),
                        sample: None,
                    };
                }
                Err(why) => self.failed = Some(why),
            }
            break;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn printed(text: &str) -> (RelationId, PrintedSource) {
        let ready = SourceText {
            text: text.into(),
            functions: BTreeSet::new(),
            reads: Arc::default(),
            facts: None,
        };
        (RelationId(0), PrintedSource::Text(Arc::new(ready)))
    }

    #[test]
    fn forms_stand_where_their_names_stood() {
        for dialect in Dialect::ALL {
            let sources: PrintedSources =
                (0..11).map(|n| printed(&format!("SELECT {n}"))).collect();
            let [one, ten] = [1, 10].map(|index| source_name(index, dialect));
            let text = format!("SELECT * FROM {one} AS a, {ten} AS b, {one}");
            let filled = fill_texts(text, &sources, dialect).unwrap();
            assert_eq!(
                filled,
                "SELECT * FROM (SELECT 1) AS a, (SELECT 10) AS b, (SELECT 1)"
            );
        }
    }

    #[test]
    fn a_name_without_a_form_does_not_run() {
        let sources: PrintedSources = vec![printed("SELECT 1")];
        for index in [1, 10] {
            let text = format!("SELECT * FROM {}", source_name(index, Dialect::Sqlite));
            assert!(fill_texts(text, &sources, Dialect::Sqlite).is_err());
        }
    }

    /// How much is remembered is bounded in bytes.
    #[test]
    fn a_remembered_source_counts_its_text_and_its_functions() {
        let weight = |text: &str, functions: &[&str]| {
            let key = SourceKey {
                relation: RelationId(0),
                decision: 0,
                body: None,
                fence: false,
                keyed: false,
                is_alone: false,
            };
            let source = SourceText {
                text: text.into(),
                functions: functions.iter().map(|name| (*name).to_owned()).collect(),
                reads: Arc::default(),
                facts: None,
            };
            let kept = CachedSource {
                source: Arc::new(source),
                _decision: Weak::new(),
                _body: None,
            };
            Weight.weight(&key, &kept)
        };
        let long = "a".repeat(1000);
        assert_eq!(weight(&long, &[]), weight("", &[]) + 1000);
        assert!(weight("", &["lower", &long]) > weight("", &["lower"]) + 1000);
    }
}
