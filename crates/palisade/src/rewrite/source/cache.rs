//! Source forms that are made once: text that was printed, read back and found to be the same tree.
//!
//! A form is the same for every statement of a session, and often longer than the statement. In the tree a
//! name stands for it that no text can spell; when the tree has been printed and read back, the form's text is put where
//! the name stands. What the whole text means follows from its two parts: both were read back on their own,
//! the name stands as a table and nothing else (the tree that was read back says so), and what is in parentheses in
//! the place of a table is read without regard to what stands around it. Builds with debug assertions read the
//! whole back as well.

use std::{
    collections::BTreeSet,
    fmt,
    ops::ControlFlow,
    sync::{Arc, Weak},
};

use quick_cache::{Weighter, sync::Cache};
use sqlparser::ast::{
    ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use crate::rewrite::{
    change::{
        guard_cache,
        guard_cache::{Condition, Conditions},
    },
    not_as_decided,
    output::parameters,
};
use crate::{
    catalog::RelationId,
    dialect::Dialect,
    limits::Limits,
    policy::{WriteDecision, obligation::RelationDecision},
    rejection::Rejection,
    resolve::{Reference, SourceForm, ViewBody, form_name, form_place},
    syntax::{self, Readings},
};

/// The text of a source form, with what the engine calls and reads to compute it.
#[derive(Debug)]
pub(in crate::rewrite) struct Ready {
    pub(in crate::rewrite) text: Arc<str>,
    pub(in crate::rewrite) functions: BTreeSet<String>,
    /// The columns, folded, that it reads of the relation in whose place it stands.
    pub(in crate::rewrite) reads: Arc<[Arc<str>]>,
}

/// `query` as a form that is made once, if it holds no parameter: those are numbered anew in each statement.
///
/// # Errors
/// `syntax.not-stable`.
pub(in crate::rewrite) fn ready(
    query: &Query,
    functions: &BTreeSet<String>,
    reads: Arc<[Arc<str>]>,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Option<Arc<Ready>>, Rejection> {
    if parameters::any(query) {
        return Ok(None);
    }
    let (text, _) = syntax::print_stable(query, dialect, limits)?;
    Ok(Some(Arc::new(Ready {
        text: text.into(),
        functions: functions.clone(),
        reads,
    })))
}

/// What a form is made from. An address is that of one thing alone as long as somebody holds on to it, and
/// [`Kept`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    relation: RelationId,
    decision: usize,
    body: Option<usize>,
    fence: bool,
    keyed: bool,
}

/// A form, and the things whose addresses it is found by. They may go; their addresses stay taken.
#[derive(Debug, Clone)]
struct Kept {
    form: Arc<Ready>,
    _decision: Weak<RelationDecision>,
    _body: Option<Weak<ViewBody>>,
}

/// Forms, and conditions of guards, by what they were made from, and what statements read back as; bounded in bytes.
pub(crate) struct FormCache {
    forms: Cache<Key, Kept, Weight>,
    conditions: Cache<guard_cache::Key, guard_cache::Kept, guard_cache::Weight>,
    pub(in crate::rewrite) readings: Readings,
}

/// Bytes that forms, and that conditions may take until those that nobody asks for are forgotten.
const FORM_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of a form, about, for a first guess of how many fit.
const TYPICAL_BYTES: u64 = 1024;

impl Default for FormCache {
    fn default() -> Self {
        let items = usize::try_from(FORM_BYTES / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self {
            forms: Cache::with_weighter(items, FORM_BYTES, Weight),
            conditions: Cache::with_weighter(items, FORM_BYTES, guard_cache::Weight),
            readings: Readings::default(),
        }
    }
}

impl fmt::Debug for FormCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormCache")
            .field("forms", &self.forms.len())
            .field("conditions", &self.conditions.len())
            .field("readings", &self.readings)
            .finish()
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Kept> for Weight {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        let functions: usize = kept.form.functions.iter().map(|f| 48 + f.len()).sum();
        // The names are the catalog's.
        let reads = kept.form.reads.len() * size_of::<Arc<str>>();
        let bytes = size_of::<Key>() + size_of::<Kept>() + kept.form.text.len() + functions + reads;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl FormCache {
    /// The form that stands for `reference`, made by `make` if it is not known.
    ///
    /// # Errors
    /// Those of `make`.
    pub(in crate::rewrite) fn get(
        &self,
        reference: &Reference,
        fence: bool,
        keyed: bool,
        make: impl FnOnce() -> Result<Option<Arc<Ready>>, Rejection>,
    ) -> Result<Option<Arc<Ready>>, Rejection> {
        let (decision, body) = (&reference.decision, reference.body.as_ref());
        let key = Key {
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
            let kept = Kept {
                form: Arc::clone(form),
                _decision: Arc::downgrade(decision),
                _body: body.map(Arc::downgrade),
            };
            self.forms.insert(key, kept);
        }
        Ok(made)
    }

    /// The condition of a guard that was made from this.
    pub(in crate::rewrite) fn condition(&self, key: &guard_cache::Key) -> Option<Arc<Condition>> {
        self.conditions.get(key).map(|kept| kept.condition)
    }

    /// Keeps a condition that was made from these decisions.
    pub(in crate::rewrite) fn keep_condition(
        &self,
        key: guard_cache::Key,
        condition: &Arc<Condition>,
        seen: Option<&Arc<RelationDecision>>,
        changed: &Arc<WriteDecision>,
    ) {
        let kept = guard_cache::Kept {
            condition: Arc::clone(condition),
            _seen: seen.map(Arc::downgrade),
            _changed: Arc::downgrade(changed),
        };
        self.conditions.insert(key, kept);
    }
}

/// What stands in the place of a relation in this statement.
#[derive(Debug)]
pub(in crate::rewrite) enum Form {
    /// A tree: with parameters.
    Tree(Box<Query>),
    /// A text, for which a name stands in the tree.
    Text(Arc<Ready>),
}

/// The forms of a statement, by relation.
pub(in crate::rewrite) type Forms = Vec<(RelationId, Form)>;

/// How the second resolution knows each of `forms`.
pub(in crate::rewrite) fn known(forms: &Forms) -> Vec<(RelationId, SourceForm<'_>)> {
    forms
        .iter()
        .map(|(id, form)| match form {
            Form::Tree(query) => (*id, SourceForm::Tree(query)),
            Form::Text(_) => (*id, SourceForm::Named),
        })
        .collect()
}

/// The text of each of `forms`, for the operator.
pub(in crate::rewrite) fn texts(forms: &Forms) -> impl Iterator<Item = (RelationId, Arc<str>)> {
    forms.iter().map(|(id, form)| match form {
        Form::Tree(query) => (*id, query.to_string().into()),
        Form::Text(ready) => (*id, Arc::clone(&ready.text)),
    })
}

/// The name, as a table, that stands for the form at `index`.
pub(in crate::rewrite) fn place(
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

/// `text`, printed from a tree in which names stand for `forms`, with the forms in their places.
///
/// # Errors
/// `internal` if something else is left of a name.
pub(in crate::rewrite) fn filled(
    text: String,
    forms: &Forms,
    dialect: Dialect,
) -> Result<String, Rejection> {
    if !text.contains('\0') {
        return Ok(text);
    }
    let texts = forms.iter().map(|(_, form)| match form {
        Form::Tree(_) => 0,
        Form::Text(ready) => ready.text.len(),
    });
    let mut out = String::with_capacity(text.len() + texts.sum::<usize>());
    let mut rest = text.as_str();
    while let Some((before, index, after)) = form_place(rest, dialect)
        && let Some((_, Form::Text(ready))) = forms.get(index)
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
pub(in crate::rewrite) fn stand_in(
    query: &mut Query,
    forms: &Forms,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(), Rejection> {
    let mut filling = Filling {
        forms,
        dialect,
        limits,
        failed: None,
    };
    let _ = VisitMut::visit(query, &mut filling);
    filling.failed.map_or(Ok(()), Err)
}

/// Whether `text` reads back as `query` with the `forms` and `conditions` in it.
///
/// # Errors
/// `syntax.not-stable` if it does not.
pub(in crate::rewrite) fn is_whole(
    query: &Query,
    text: &str,
    forms: &Forms,
    conditions: &Conditions,
    dialect: Dialect,
    limits: &Limits,
) -> Result<bool, Rejection> {
    let mut query = query.clone();
    stand_in(&mut query, forms, dialect, limits)?;
    conditions.stand_in(&mut query, dialect);
    Ok(syntax::print_stable(&query, dialect, limits)?.0 == text)
}

/// Puts the trees of forms where their names stand.
struct Filling<'f> {
    forms: &'f Forms,
    dialect: Dialect,
    limits: &'f Limits,
    failed: Option<Rejection>,
}

impl VisitorMut for Filling<'_> {
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
        for (index, (_, form)) in self.forms.iter().enumerate() {
            let Form::Text(ready) = form else { continue };
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

    fn form(text: &str) -> (RelationId, Form) {
        let ready = Ready {
            text: text.into(),
            functions: BTreeSet::new(),
            reads: Arc::default(),
        };
        (RelationId(0), Form::Text(Arc::new(ready)))
    }

    #[test]
    fn forms_stand_where_their_names_stood() {
        for dialect in Dialect::ALL {
            let forms: Forms = (0..11).map(|n| form(&format!("SELECT {n}"))).collect();
            let [one, ten] = [1, 10].map(|index| form_name(index, dialect));
            let text = format!("SELECT * FROM {one} AS a, {ten} AS b, {one}");
            let filled = filled(text, &forms, dialect).unwrap();
            assert_eq!(
                filled,
                "SELECT * FROM (SELECT 1) AS a, (SELECT 10) AS b, (SELECT 1)"
            );
        }
    }

    #[test]
    fn a_name_without_a_form_does_not_run() {
        let forms: Forms = vec![form("SELECT 1")];
        for index in [1, 10] {
            let text = format!("SELECT * FROM {}", form_name(index, Dialect::Sqlite));
            assert!(filled(text, &forms, Dialect::Sqlite).is_err());
        }
    }
}
