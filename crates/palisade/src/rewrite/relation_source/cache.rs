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
    resolve::{Reference, SourceForm, ViewBody, form_name, form_place},
    syntax::{self, Readings, TreeVisitorMut, visit_tree_mut},
};

/// The text of a source form, with what the engine calls and reads to compute it.
#[derive(Debug)]
pub(in crate::rewrite) struct SourceText {
    pub(in crate::rewrite) text: Arc<str>,
    pub(in crate::rewrite) functions: BTreeSet<String>,
    /// The columns, folded, that it reads of the relation in whose place it stands.
    pub(in crate::rewrite) reads: Arc<[Arc<str>]>,
    /// What it is made of, for engines whose backends ask for that.
    pub(in crate::rewrite) facts: Option<TextFacts>,
}

/// `query` as a form that is made once, if it holds no parameter: those are numbered anew in each statement.
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

/// What a form is made from. An address is that of one thing alone as long as somebody holds on to it, and
/// [`CachedSource`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SourceKey {
    relation: RelationId,
    decision: usize,
    body: Option<usize>,
    fence: bool,
    keyed: bool,
}

/// A form, and the things whose addresses it is found by. They may go; their addresses stay taken.
#[derive(Debug, Clone)]
struct CachedSource {
    form: Arc<SourceText>,
    _decision: Weak<RelationDecision>,
    _body: Option<Weak<ViewBody>>,
}

/// Printed source subqueries and guards, by the decisions they were made from, and the texts that were read back; bounded in bytes.
pub(crate) struct SourceCache {
    forms: Cache<SourceKey, CachedSource, Weight>,
    guards: Cache<
        write_filter_cache::FilterKey,
        write_filter_cache::CachedFilter,
        write_filter_cache::Weight,
    >,
    pub(in crate::rewrite) readings: Readings,
}

/// Bytes that sources, and that guards may take: the least used are forgotten first.
const FORM_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of a form, about, for a first guess of how many fit.
const TYPICAL_BYTES: u64 = 1024;

impl Default for SourceCache {
    fn default() -> Self {
        let items = usize::try_from(FORM_BYTES / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self {
            forms: Cache::with_weighter(items, FORM_BYTES, Weight),
            guards: Cache::with_weighter(items, FORM_BYTES, write_filter_cache::Weight),
            readings: Readings::default(),
        }
    }
}

impl fmt::Debug for SourceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceCache")
            .field("forms", &self.forms.len())
            .field("guards", &self.guards.len())
            .field("readings", &self.readings)
            .finish()
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<SourceKey, CachedSource> for Weight {
    fn weight(&self, _: &SourceKey, kept: &CachedSource) -> u64 {
        let functions: usize = kept.form.functions.iter().map(|f| 48 + f.len()).sum();
        // The names are the catalog's.
        let reads = kept.form.reads.len() * size_of::<Arc<str>>();
        let bytes = size_of::<SourceKey>()
            + size_of::<CachedSource>()
            + kept.form.text.len()
            + functions
            + reads
            + (kept.form.facts.as_ref()).map_or(0, |facts| facts.bytes(48));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl SourceCache {
    /// The form that stands for `reference`, made by `make` if it is not known.
    ///
    /// # Errors
    /// Those of `make`.
    pub(in crate::rewrite) fn get_or_print(
        &self,
        reference: &Reference,
        fence: bool,
        keyed: bool,
        make: impl FnOnce() -> Result<Option<Arc<SourceText>>, Rejection>,
    ) -> Result<Option<Arc<SourceText>>, Rejection> {
        let (decision, body) = (&reference.decision, reference.body.as_ref());
        let key = SourceKey {
            relation: reference.relation,
            decision: Arc::as_ptr(decision).addr(),
            body: body.map(|body| Arc::as_ptr(body).addr()),
            fence,
            keyed,
        };
        if let Some(kept) = self.forms.get(&key) {
            return Ok(Some(kept.form));
        }
        let made = make()?;
        if let Some(form) = &made {
            let kept = CachedSource {
                form: Arc::clone(form),
                _decision: Arc::downgrade(decision),
                _body: body.map(Arc::downgrade),
            };
            self.forms.insert(key, kept);
        }
        Ok(made)
    }

    /// The condition of a guard that was made from this.
    pub(in crate::rewrite) fn guard(
        &self,
        key: &write_filter_cache::FilterKey,
    ) -> Option<Arc<PrintedFilter>> {
        self.guards.get(key).map(|kept| kept.condition)
    }

    /// Keeps a condition that was made from these decisions.
    pub(in crate::rewrite) fn keep_guard(
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
        self.guards.insert(key, kept);
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

/// The forms of a statement, by relation.
pub(in crate::rewrite) type PrintedSources = Vec<(RelationId, PrintedSource)>;

/// How the second resolution knows each of `forms`.
pub(in crate::rewrite) fn source_forms(
    forms: &PrintedSources,
) -> Vec<(RelationId, SourceForm<'_>)> {
    forms
        .iter()
        .map(|(id, form)| match form {
            PrintedSource::Tree(query) => (*id, SourceForm::Tree(query)),
            PrintedSource::Text(_) => (*id, SourceForm::Named),
        })
        .collect()
}

/// The text of each of `forms`, for the operator.
pub(in crate::rewrite) fn texts(
    forms: &PrintedSources,
) -> impl Iterator<Item = (RelationId, Arc<str>)> {
    forms.iter().map(|(id, form)| match form {
        PrintedSource::Tree(query) => (*id, query.to_string().into()),
        PrintedSource::Text(ready) => (*id, Arc::clone(&ready.text)),
    })
}

/// The name, as a table, that stands for the form at `index`.
pub(in crate::rewrite) fn placeholder(
    index: usize,
    alias: Option<TableAlias>,
    dialect: Dialect,
) -> TableFactor {
    TableFactor::Table {
        name: ObjectName(vec![ObjectNamePart::Identifier(form_name(index, dialect))]),
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
    forms: &'f PrintedSources,
    dialect: Dialect,
) -> Option<&'f SourceText> {
    let mut forms = forms.iter().enumerate();
    forms.find_map(|(index, (_, form))| match form {
        PrintedSource::Text(ready) => (*name == form_name(index, dialect)).then_some(&**ready),
        PrintedSource::Tree(_) => None,
    })
}

/// `text`, printed from a tree in which names stand for `forms`, with the forms in their places.
///
/// # Errors
/// `internal` if something else is left of a name.
pub(in crate::rewrite) fn fill_texts(
    text: String,
    forms: &PrintedSources,
    dialect: Dialect,
) -> Result<String, Rejection> {
    if !text.contains('\0') {
        return Ok(text);
    }
    let texts = forms.iter().map(|(_, form)| match form {
        PrintedSource::Tree(_) => 0,
        PrintedSource::Text(ready) => ready.text.len(),
    });
    let mut out = String::with_capacity(text.len() + texts.sum::<usize>());
    let mut rest = text.as_str();
    while let Some((before, index, after)) = form_place(rest, dialect)
        && let Some((_, PrintedSource::Text(ready))) = forms.get(index)
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
            "a name that stands for a source form is left",
        ));
    }
    Ok(out)
}

/// Puts the trees of `forms` where their names stand in `query`.
///
/// # Errors
/// `syntax.not-stable` if a form does not read back.
pub(in crate::rewrite) fn put_trees(
    query: &mut Query,
    forms: &PrintedSources,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(), Rejection> {
    let mut filling = Filling {
        forms,
        dialect,
        limits,
        failed: None,
    };
    let _ = visit_tree_mut(query, &mut filling);
    filling.failed.map_or(Ok(()), Err)
}

/// Whether `text` reads back as `query` with the `forms` and `guards` in it.
///
/// # Errors
/// `syntax.not-stable` if it does not.
pub(in crate::rewrite) fn reads_back_whole(
    query: &Query,
    text: &str,
    forms: &PrintedSources,
    guards: &PrintedFilters,
    dialect: Dialect,
    limits: &Limits,
) -> Result<bool, Rejection> {
    let mut query = query.clone();
    put_trees(&mut query, forms, dialect, limits)?;
    guards.put_trees(&mut query, dialect);
    Ok(syntax::print_stable(&query, dialect, limits)?.0 == text)
}

/// Puts the trees of forms where their names stand.
struct Filling<'f> {
    forms: &'f PrintedSources,
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
        for (index, (_, form)) in self.forms.iter().enumerate() {
            let PrintedSource::Text(ready) = form else {
                continue;
            };
            if name.to_string() != form_name(index, self.dialect).to_string() {
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

    fn form(text: &str) -> (RelationId, PrintedSource) {
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
            let forms: PrintedSources = (0..11).map(|n| form(&format!("SELECT {n}"))).collect();
            let [one, ten] = [1, 10].map(|index| form_name(index, dialect));
            let text = format!("SELECT * FROM {one} AS a, {ten} AS b, {one}");
            let filled = fill_texts(text, &forms, dialect).unwrap();
            assert_eq!(
                filled,
                "SELECT * FROM (SELECT 1) AS a, (SELECT 10) AS b, (SELECT 1)"
            );
        }
    }

    #[test]
    fn a_name_without_a_form_does_not_run() {
        let forms: PrintedSources = vec![form("SELECT 1")];
        for index in [1, 10] {
            let text = format!("SELECT * FROM {}", form_name(index, Dialect::Sqlite));
            assert!(fill_texts(text, &forms, Dialect::Sqlite).is_err());
        }
    }
}
