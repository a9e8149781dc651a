//! Write filters that are made once: text that was printed, read back and found to be the same tree.
//!
//! What keeps a change within the rows of a session is the same in every change of a relation, and often longer than the
//! change. As for source subqueries, a name stands for it in the tree that no text can spell, until that was printed and
//! read back. What the whole text means follows from its two parts: the name stands in parentheses where a condition may, which
//! the second resolution sees to, and what is in parentheses is read without regard to what stands around it.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    ops::ControlFlow,
    sync::{Arc, Weak},
};

use quick_cache::Weighter;
use sqlparser::ast::{Expr, Ident, Query};

use crate::rewrite::{
    ast,
    output::{
        parameters,
        text_facts::{TextFacts, read_whole},
    },
    refusal::not_as_decided,
    relation_source::row_filter::ColumnSet,
};
use crate::{
    catalog::RelationId,
    dialect::Dialect,
    limits::Limits,
    policy::{WriteDecision, obligation::RelationDecision},
    rejection::Rejection,
    syntax::{self, TreeVisitorMut, visit_tree_mut},
};

/// The condition of a write filter, with the columns that it looks at and the functions that it calls.
#[derive(Debug)]
pub(in crate::rewrite) struct PrintedFilter {
    tree: Expr,
    text: String,
    pub(in crate::rewrite) reads: ColumnSet,
    pub(in crate::rewrite) functions: BTreeSet<String>,
    /// What it is made of, for engines whose backends ask for that.
    pub(in crate::rewrite) facts: Option<TextFacts>,
}

impl PrintedFilter {
    /// `tree`, if it holds no parameter: those are numbered anew in each statement.
    ///
    /// # Errors
    /// `syntax.not-stable`.
    pub(in crate::rewrite) fn new(
        tree: &Expr,
        reads: ColumnSet,
        functions: BTreeSet<String>,
        dialect: Dialect,
        limits: &Limits,
    ) -> Result<Option<Arc<Self>>, Rejection> {
        let condition = Some(ast::parens(tree.clone()));
        let whole = ast::select_from(vec![ast::select_one(dialect)], Vec::new(), condition);
        if parameters::has_placeholders(&whole) {
            return Ok(None);
        }
        let (_, again) = syntax::print_stable(&whole, dialect, limits)?;
        Ok(Some(Arc::new(Self {
            facts: read_whole(&again, dialect)?,
            text: tree.to_string(),
            tree: tree.clone(),
            reads,
            functions,
        })))
    }
}

/// Of which of a relation's row filters a write filter is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::rewrite) struct FilterParts {
    pub(in crate::rewrite) seen: bool,
    pub(in crate::rewrite) changed: bool,
}

/// What a condition is made from. An address is that of one thing alone as long as somebody holds on to it, and
/// [`CachedFilter`] does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::rewrite) struct FilterKey {
    relation: RelationId,
    seen: Option<usize>,
    changed: usize,
    filters: FilterParts,
    qualifier: Option<String>,
}

impl FilterKey {
    pub(in crate::rewrite) fn new(
        relation: RelationId,
        seen: Option<&Arc<RelationDecision>>,
        changed: &Arc<WriteDecision>,
        filters: FilterParts,
        qualifier: Option<&Ident>,
    ) -> Self {
        Self {
            relation,
            seen: seen.map(|seen| Arc::as_ptr(seen).addr()),
            changed: Arc::as_ptr(changed).addr(),
            filters,
            qualifier: qualifier.map(ToString::to_string),
        }
    }
}

/// A condition, and the things whose addresses it is found by. They may go; their addresses stay taken.
#[derive(Debug, Clone)]
pub(in crate::rewrite) struct CachedFilter {
    pub(in crate::rewrite) condition: Arc<PrintedFilter>,
    pub(in crate::rewrite) _seen: Option<Weak<RelationDecision>>,
    pub(in crate::rewrite) _changed: Weak<WriteDecision>,
}

#[derive(Clone)]
pub(in crate::rewrite) struct Weight;

impl Weighter<FilterKey, CachedFilter> for Weight {
    fn weight(&self, key: &FilterKey, kept: &CachedFilter) -> u64 {
        /// Bytes of a tree for each of its text, about.
        const TREE: usize = 24;
        let condition = &kept.condition;
        let functions: usize = condition.functions.iter().map(|f| 48 + f.len()).sum();
        let bytes = size_of::<FilterKey>()
            + size_of::<CachedFilter>()
            + key.qualifier.as_ref().map_or(0, String::len)
            + condition.text.len() * TREE
            + functions
            + (condition.facts.as_ref()).map_or(0, |facts| facts.bytes(48));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The conditions of a statement for which names stand.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct PrintedFilters(RefCell<Vec<Arc<PrintedFilter>>>);

/// What such names begin with, after the character that no text holds.
const FILTER: &str = "filter ";

impl PrintedFilters {
    /// The name that stands for `condition`.
    pub(in crate::rewrite) fn placeholder(
        &self,
        condition: Arc<PrintedFilter>,
        dialect: Dialect,
    ) -> Expr {
        let mut all = self.0.borrow_mut();
        let known = all.iter().position(|known| Arc::ptr_eq(known, &condition));
        let index = known.unwrap_or_else(|| {
            all.push(condition);
            all.len() - 1
        });
        Expr::Identifier(placeholder_name(index, dialect))
    }

    /// The condition for which `name` stands.
    pub(in crate::rewrite) fn find(
        &self,
        name: &Ident,
        dialect: Dialect,
    ) -> Option<Arc<PrintedFilter>> {
        let all = self.0.borrow();
        let mut all = all.iter().enumerate();
        let found = all.find(|(index, _)| *name == placeholder_name(*index, dialect))?;
        Some(Arc::clone(found.1))
    }

    /// How many such names are in a printed text.
    pub(in crate::rewrite) fn count_placeholders(&self, text: &str) -> usize {
        if self.0.borrow().is_empty() {
            return 0;
        }
        let names = text.split('\0').skip(1);
        names.filter(|name| name.starts_with(FILTER)).count()
    }

    /// `text`, printed from a tree in which names stand for conditions, with the conditions in their places.
    ///
    /// # Errors
    /// `internal` if something is left of a name.
    pub(in crate::rewrite) fn fill_texts(
        &self,
        text: String,
        dialect: Dialect,
    ) -> Result<String, Rejection> {
        let all = self.0.borrow();
        if all.is_empty() {
            return Ok(text);
        }
        let quote = dialect.quote();
        let mut out =
            String::with_capacity(text.len() + all.iter().map(|c| c.text.len()).sum::<usize>());
        let mut parts = text.split('\0');
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let Some(name) = part.strip_prefix(FILTER) else {
                // Another name.
                out.push('\0');
                out.push_str(part);
                continue;
            };
            let place = || {
                let (index, after) = name.split_once(quote)?;
                let condition = all.get(index.parse::<usize>().ok()?)?;
                let opening = out.len().checked_sub(quote.len_utf8())?;
                out.ends_with(quote).then_some((opening, condition, after))
            };
            let (opening, condition, after) = place()
                .ok_or_else(|| not_as_decided("a name that stands for a write filter is left"))?;
            out.truncate(opening);
            out.push_str(&condition.text);
            out.push_str(after);
        }
        Ok(out)
    }

    /// Puts the trees of conditions where their names stand in `query`.
    pub(in crate::rewrite) fn put_trees(&self, query: &mut Query, dialect: Dialect) {
        let all = self.0.borrow();
        if !all.is_empty() {
            let _ = visit_tree_mut(query, &mut Filling { all: &all, dialect });
        }
    }
}

fn placeholder_name(index: usize, dialect: Dialect) -> Ident {
    Ident::with_quote(dialect.quote(), format!("\0{FILTER}{index}"))
}

struct Filling<'f> {
    all: &'f [Arc<PrintedFilter>],
    dialect: Dialect,
}

impl TreeVisitorMut for Filling<'_> {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && ident.value.starts_with('\0')
        {
            let mut all = self.all.iter().enumerate();
            if let Some((_, condition)) =
                all.find(|(index, _)| *ident == placeholder_name(*index, self.dialect))
            {
                *expr = condition.tree.clone();
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::policy::obligation::{Caps, RowFilter, Visibility};

    #[test]
    fn a_key_tells_apart_what_a_condition_is_made_from() {
        let seen = || {
            Arc::new(RelationDecision {
                visibility: Visibility::Selectable,
                columns: Vec::new(),
                rows: RowFilter::Everything,
                caps: Caps::default(),
                policies: Vec::new(),
                message: None,
                has_hidden_children: false,
                past: None,
            })
        };
        let changed = || Arc::new(WriteDecision::nothing());
        let filters = |seen, changed| FilterParts { seen, changed };
        let (seen, other_seen) = (seen(), seen());
        let (changed, other_changed) = (changed(), changed());
        let (table, other_table) = (RelationId(1), RelationId(2));
        let (t, u) = (Ident::new("t"), Ident::new("u"));
        let both = filters(true, true);
        let keys = [
            FilterKey::new(table, Some(&seen), &changed, both, Some(&t)),
            FilterKey::new(other_table, Some(&seen), &changed, both, Some(&t)),
            FilterKey::new(table, Some(&other_seen), &changed, both, Some(&t)),
            FilterKey::new(table, None, &changed, both, Some(&t)),
            FilterKey::new(table, Some(&seen), &other_changed, both, Some(&t)),
            FilterKey::new(table, Some(&seen), &changed, filters(true, false), Some(&t)),
            FilterKey::new(table, Some(&seen), &changed, filters(false, true), Some(&t)),
            FilterKey::new(table, Some(&seen), &changed, both, Some(&u)),
            FilterKey::new(table, Some(&seen), &changed, both, None),
        ];
        let distinct: std::collections::HashSet<&FilterKey> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
    }

    #[test]
    fn conditions_stand_where_their_names_stood() {
        for dialect in Dialect::ALL {
            let conditions = PrintedFilters::default();
            let places: Vec<Expr> = (0..11)
                .map(|n| {
                    let tree = ast::binary(
                        ast::column(dialect, "a"),
                        sqlparser::ast::BinaryOperator::Eq,
                        ast::integer(n),
                    );
                    let limits = Limits::default();
                    let (reads, functions) = (ColumnSet::new(), BTreeSet::new());
                    let made = PrintedFilter::new(&tree, reads, functions, dialect, &limits);
                    conditions.placeholder(made.unwrap().unwrap(), dialect)
                })
                .collect();
            let text = format!("({}) AND ({}) AND ({})", places[1], places[10], places[1]);
            assert_eq!(conditions.count_placeholders(&text), 3);
            let (quoted, a) = (dialect.quote(), "a");
            assert_eq!(
                conditions.fill_texts(text, dialect).unwrap(),
                format!(
                    "({quoted}{a}{quoted} = 1) AND ({quoted}{a}{quoted} = 10) AND ({quoted}{a}{quoted} = 1)"
                )
            );
            let unknown = placeholder_name(11, dialect).to_string();
            assert!(conditions.fill_texts(unknown, dialect).is_err());
        }
    }

    /// How much is remembered is bounded in bytes.
    #[test]
    fn a_remembered_condition_counts_its_text_and_its_functions() {
        let weight = |text: &str, functions: &[&str]| {
            let condition = PrintedFilter {
                tree: ast::integer(1),
                text: text.to_owned(),
                reads: ColumnSet::new(),
                functions: functions.iter().map(|name| (*name).to_owned()).collect(),
                facts: None,
            };
            let changed = Arc::new(WriteDecision::nothing());
            let filters = FilterParts {
                seen: true,
                changed: true,
            };
            let key = FilterKey::new(RelationId(1), None, &changed, filters, None);
            let kept = CachedFilter {
                condition: Arc::new(condition),
                _seen: None,
                _changed: Arc::downgrade(&changed),
            };
            Weight.weight(&key, &kept)
        };
        let long = "a".repeat(1000);
        assert!(weight(&long, &[]) >= weight("", &[]) + 1000);
        assert!(weight("", &["lower", &long]) > weight("", &["lower"]) + 1000);
    }
}
