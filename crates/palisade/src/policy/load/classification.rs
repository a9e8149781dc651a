//! Classification: which tags columns and tables carry, by exact name or by pattern, and how tags
//! follow the data into views, generated columns, parents and children.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use toml::Spanned;

use crate::policy::{
    inheritance::Same,
    load::diagnostic::{PolicyProblem, Source, probably},
};
use crate::{
    catalog::{Catalog, ColumnId, Relation, RelationId},
    dialect::Dialect,
};

/// What views and generated columns are made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnFlow {
    /// For view columns and generated columns, the columns they are computed from. Tags follow it,
    /// through any number of steps.
    pub columns: BTreeMap<ColumnId, BTreeSet<ColumnId>>,
    /// Ids of the functions that a view calls, those of views below it included.
    pub calls: BTreeMap<RelationId, BTreeSet<String>>,
    /// Of each view that is not understood, why.
    pub unread: BTreeMap<RelationId, String>,
}

/// The flow of these columns, without calls.
#[cfg(test)]
impl From<BTreeMap<ColumnId, BTreeSet<ColumnId>>> for ColumnFlow {
    fn from(columns: BTreeMap<ColumnId, BTreeSet<ColumnId>>) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }
}

/// The tags of a catalog.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Tags {
    relations: BTreeMap<RelationId, BTreeSet<String>>,
    columns: BTreeMap<ColumnId, BTreeSet<String>>,
    /// Every tag that the classification gives, whether this catalog has such a column or not.
    given: BTreeSet<String>,
    /// By column: the names and patterns that chose it.
    choices: BTreeMap<ColumnId, BTreeSet<String>>,
    /// Computed columns that the classification gives a tag which nothing that they are computed from has.
    own: BTreeSet<ColumnId>,
    to_be: TagsToBe,
}

/// By what the classification would tag tables and columns that are not there yet.
#[derive(Debug, Clone, Default)]
struct TagsToBe {
    tables: Vec<TagsByPattern>,
    columns: Vec<TagsByPattern>,
    /// Of tables in other databases than the connection's own.
    elsewhere: BTreeSet<String>,
    unclassified: BTreeSet<String>,
}

/// The patterns of an entry, and its tags.
#[derive(Debug, Clone)]
struct TagsByPattern {
    of: Vec<Pattern>,
    except: Vec<Pattern>,
    /// Whether columns by which rows are joined are among them.
    with_keys: bool,
    tags: BTreeSet<String>,
}

impl TagsByPattern {
    /// Of an entry with patterns. What is wrong with it is told where it is applied.
    fn read(source: &Source<'_>, entry: &Spanned<Entry>, parts: usize) -> Option<Self> {
        match selector(source, entry, "", parts, &mut Vec::new())? {
            Selector::Name(_) => None,
            Selector::Patterns { of, except } => {
                let fields = entry.get_ref();
                Some(Self {
                    of,
                    except,
                    with_keys: fields.keys.as_ref().is_none_or(|keys| *keys.get_ref()),
                    tags: fields.tags.clone(),
                })
            }
        }
    }

    fn matches(&self, name: &[&str]) -> bool {
        let matches = |pattern: &Pattern| pattern.find_match(name).is_some();
        self.of.iter().any(matches) && !self.except.iter().any(matches)
    }
}

impl Tags {
    /// Every tag that the classification gives.
    pub(in crate::policy) fn all(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(String::as_str)
    }

    /// The names and patterns of the classification that chose the column itself.
    pub(in crate::policy) fn choices(&self, id: ColumnId) -> impl Iterator<Item = &str> {
        let choices = self.choices.get(&id).into_iter().flatten();
        choices.map(String::as_str)
    }

    /// Whether the classification gives a computed column a tag which nothing that it is computed from has.
    pub(in crate::policy) fn has_own(&self, id: ColumnId) -> bool {
        self.own.contains(&id)
    }

    /// The tags of a relation.
    pub(in crate::policy) fn of_relation(&self, id: RelationId) -> impl Iterator<Item = &str> {
        self.relations
            .get(&id)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// The tags of a table that is to be, with this schema and name as policies know them.
    pub(in crate::policy) fn of_new_relation(
        &self,
        catalog: &Catalog,
        (schema, table): (&str, &str),
    ) -> BTreeSet<&str> {
        let own = catalog.default_schema();
        let is_elsewhere = catalog.dialect() == Dialect::Mysql && !own.is_empty() && schema != own;
        let elsewhere = self.to_be.elsewhere.iter().filter(|_| is_elsewhere);
        let name = [&*schema.to_lowercase(), &*table.to_lowercase()];
        let patterns = self.to_be.tables.iter();
        let patterns = patterns.filter(|patterns| patterns.matches(&name));
        let tags = patterns.flat_map(|patterns| &patterns.tags);
        tags.chain(elsewhere).map(String::as_str).collect()
    }

    /// The tags of a column that is to be, with this schema, table and name, and made from these columns: whether it joins rows or not,
    /// which is not known yet.
    pub(in crate::policy) fn of_new_column(
        &self,
        name: [&str; 3],
        from: &BTreeSet<ColumnId>,
    ) -> [BTreeSet<&str>; 2] {
        let name = name.map(str::to_lowercase);
        let name: Vec<&str> = name.iter().map(String::as_str).collect();
        [false, true].map(|is_key| {
            let patterns = self.to_be.columns.iter();
            let mut patterns = patterns
                .filter(|patterns| (patterns.with_keys || !is_key) && patterns.matches(&name))
                .peekable();
            let is_unclassified = patterns.peek().is_none() && from.is_empty();
            let unclassified = self.to_be.unclassified.iter();
            let tags = patterns
                .flat_map(|patterns| &patterns.tags)
                .chain(unclassified.filter(|_| is_unclassified))
                .map(String::as_str);
            let inherited = from.iter().flat_map(|id| self.of_column(*id));
            tags.chain(inherited).collect()
        })
    }

    /// The tags of a column, those of what it is computed from included.
    pub(in crate::policy) fn of_column(&self, id: ColumnId) -> impl Iterator<Item = &str> {
        self.columns
            .get(&id)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

/// Reads a classification and applies it to `catalog`. A `pattern` that matches nothing there is warned of; of several
/// `patterns` any may be for other databases.
pub(in crate::policy) fn classify(
    source: Option<Source<'_>>,
    catalog: &Catalog,
    flow: &ColumnFlow,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) -> Tags {
    let document = source.and_then(|source| {
        source
            .toml::<Document>()
            .map_err(|problem| problems.push(problem))
            .ok()
            .map(|document| (source, document))
    });
    let mut tags = Tags::default();
    let mut unclassified = BTreeSet::new();
    let mut matched = BTreeSet::new();
    if let Some((source, document)) = document {
        let names = Names::new(catalog, flow);
        for entry in document.table {
            match entry.get_ref().elsewhere.is_some() {
                true => tags
                    .to_be
                    .elsewhere
                    .extend(entry.get_ref().tags.iter().cloned()),
                false => tags
                    .to_be
                    .tables
                    .extend(TagsByPattern::read(&source, &entry, 2)),
            }
            tags.given.extend(entry.get_ref().tags.iter().cloned());
            let found = names.relations(&source, &entry, problems);
            if found.is_empty() {
                warnings.extend(report_unmatched(&source, &entry, "table"));
            }
            for id in found {
                tags.relations
                    .entry(id)
                    .or_default()
                    .extend(entry.get_ref().tags.iter().cloned());
            }
        }
        for entry in document.column {
            tags.to_be
                .columns
                .extend(TagsByPattern::read(&source, &entry, 3));
            tags.given.extend(entry.get_ref().tags.iter().cloned());
            let found = names.columns(&source, &entry, problems);
            if found.is_empty() {
                warnings.extend(report_unmatched(&source, &entry, "column"));
            }
            for (id, choice) in found {
                matched.insert(id);
                tags.columns
                    .entry(id)
                    .or_default()
                    .extend(entry.get_ref().tags.iter().cloned());
                tags.choices.entry(id).or_default().insert(choice);
            }
        }
        unclassified = document.unclassified.map(|u| u.tags).unwrap_or_default();
        tags.given.extend(unclassified.iter().cloned());
        tags.to_be.unclassified.clone_from(&unclassified);
    }
    let same = Same::new(catalog);
    let matched: BTreeSet<ColumnId> = matched.into_iter().map(|id| same.group(id)).collect();
    for relation in catalog.relations() {
        for (id, _) in relation.column_ids() {
            // What is computed from other columns is classified by them.
            let computed = flow.columns.get(&id).is_some_and(|from| !from.is_empty());
            if !matched.contains(&same.group(id)) && !computed && !unclassified.is_empty() {
                tags.columns
                    .entry(id)
                    .or_default()
                    .extend(unclassified.iter().cloned());
            }
        }
    }
    let given = std::mem::take(&mut tags.columns);
    tags.columns = follow_flow(catalog, &given, flow, &same);
    let has_own = |id: &ColumnId, from: &BTreeSet<ColumnId>| {
        let mut given = given.get(id).into_iter().flatten();
        !given.all(|tag| {
            from.iter()
                .any(|base| tags.of_column(*base).any(|of| of == tag))
        })
    };
    let own = flow.columns.iter().filter(|(id, from)| has_own(id, from));
    tags.own = own.map(|(id, _)| *id).collect();
    tags
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// Columns, and what tags they have.
    #[serde(default)]
    column: Vec<Spanned<Entry>>,
    /// Tables, and what tags they have.
    #[serde(default)]
    table: Vec<Spanned<Entry>>,
    /// The tags of columns that nothing else gives one.
    unclassified: Option<Unclassified>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The column `schema.table.column`, or the table.
    name: Option<Spanned<String>>,
    /// A pattern of names: `*` stands for any characters within a part, and `|` between alternatives.
    pattern: Option<Spanned<String>>,
    /// Several patterns, each a spelling that a database may have.
    patterns: Option<Vec<Spanned<String>>>,
    /// Patterns of what is left out.
    #[serde(default)]
    except: Vec<Spanned<String>>,
    /// Every table that is in another database than the connection's own.
    elsewhere: Option<Spanned<bool>>,
    /// Whether columns of declared primary and foreign keys are chosen too.
    keys: Option<Spanned<bool>>,
    /// The tags, as policies name them.
    tags: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unclassified {
    /// The tags, as policies name them.
    tags: BTreeSet<String>,
}

/// The catalog by names.
struct Names<'a> {
    dialect: Dialect,
    /// The schema in which names without one are looked for first.
    own: &'a str,
    relations: Vec<(&'a Relation, [String; 2])>,
    by_uid: HashMap<&'a str, RelationId>,
    columns_by_uid: HashMap<&'a str, ColumnId>,
    /// By a column's name in lower case: where columns of that name are. Large catalogs have few names.
    columns: BTreeMap<String, Vec<(usize, ColumnId)>>,
    keys: BTreeSet<ColumnId>,
}

impl<'a> Names<'a> {
    fn new(catalog: &'a Catalog, flow: &ColumnFlow) -> Self {
        let dialect = catalog.dialect();
        let lower = |name: &str| dialect.fold(name).to_lowercase();
        let relations: Vec<_> = catalog
            .relations()
            .iter()
            .map(|relation| {
                let schema = lower(&relation.policy_schema);
                (relation, [schema, lower(&relation.name)])
            })
            .collect();
        let mut columns: BTreeMap<String, Vec<(usize, ColumnId)>> = BTreeMap::new();
        for (at, (relation, _)) in relations.iter().enumerate() {
            for (id, column) in relation.column_ids() {
                let name = column.key.to_lowercase();
                columns.entry(name).or_default().push((at, id));
            }
        }
        let all = || catalog.relations().iter();
        let uids = all().flat_map(Relation::column_ids);
        Self {
            dialect,
            own: catalog.default_schema(),
            relations,
            by_uid: all().map(|r| (r.uid.as_str(), r.id)).collect(),
            columns_by_uid: uids.map(|(id, c)| (c.uid.as_str(), id)).collect(),
            columns,
            keys: key_columns(catalog, flow),
        }
    }

    fn relations(
        &self,
        source: &Source<'_>,
        entry: &Spanned<Entry>,
        problems: &mut Vec<PolicyProblem>,
    ) -> Vec<RelationId> {
        if let Some(keys) = &entry.get_ref().keys {
            problems.push(source.at(keys.span(), "`keys` belongs to entries of columns"));
        }
        if let Some(elsewhere) = &entry.get_ref().elsewhere {
            return self.relations_elsewhere(source, entry, elsewhere, problems);
        }
        match selector(source, entry, "schema.table", 2, problems) {
            None => Vec::new(),
            Some(Selector::Name(name)) => {
                let found = self.find(&self.by_uid, name.get_ref());
                if found.is_empty() {
                    let known = self
                        .relations
                        .iter()
                        .map(|(relation, _)| relation.uid.as_str());
                    problems.push(report_unknown(source, "table", name, known));
                }
                found
            }
            Some(Selector::Patterns { of, except }) => self
                .relations
                .iter()
                .filter(|(_, [schema, table])| {
                    let name = [schema.as_str(), table];
                    let matches = |pattern: &Pattern| pattern.find_match(&name).is_some();
                    of.iter().any(matches) && !except.iter().any(matches)
                })
                .map(|(relation, _)| relation.id)
                .collect(),
        }
    }

    /// The tables of other databases than the connection's own. On MySQL and MariaDB alone a catalog holds such.
    fn relations_elsewhere(
        &self,
        source: &Source<'_>,
        entry: &Spanned<Entry>,
        elsewhere: &Spanned<bool>,
        problems: &mut Vec<PolicyProblem>,
    ) -> Vec<RelationId> {
        let fields = entry.get_ref();
        let is_alone = fields.name.is_none()
            && fields.pattern.is_none()
            && fields.patterns.is_none()
            && fields.except.is_empty();
        if !*elsewhere.get_ref() || !is_alone {
            let message = "`elsewhere = true` stands alone, without names and patterns";
            problems.push(source.at(elsewhere.span(), message));
            return Vec::new();
        }
        match (self.dialect, self.own) {
            (Dialect::Mysql, own) if !own.is_empty() => {
                let relations = self.relations.iter().map(|(relation, _)| *relation);
                let others = relations.filter(|relation| relation.schema != own);
                others.map(|relation| relation.id).collect()
            }
            (Dialect::Mysql | Dialect::Postgres | Dialect::Sqlite, _) => Vec::new(),
        }
    }

    /// The columns of an entry, each with the name or pattern that chose it.
    fn columns(
        &self,
        source: &Source<'_>,
        entry: &Spanned<Entry>,
        problems: &mut Vec<PolicyProblem>,
    ) -> Vec<(ColumnId, String)> {
        if let Some(elsewhere) = &entry.get_ref().elsewhere {
            let message = "`elsewhere` belongs to entries of tables";
            problems.push(source.at(elsewhere.span(), message));
            return Vec::new();
        }
        match selector(source, entry, "schema.table.column", 3, problems) {
            None => Vec::new(),
            Some(Selector::Name(name)) => {
                let found = self.find(&self.columns_by_uid, name.get_ref());
                if found.is_empty() {
                    let known = self.columns_by_uid.keys().copied();
                    problems.push(report_unknown(source, "column", name, known));
                }
                let chosen = |id| (id, name.get_ref().clone());
                found.into_iter().map(chosen).collect()
            }
            Some(Selector::Patterns { of, except }) => {
                let with_keys = entry.get_ref().keys.as_ref().is_none_or(|k| *k.get_ref());
                let mut out = Vec::new();
                for (column, places) in &self.columns {
                    let of: Vec<_> = of.iter().filter(|p| p.may_end_in(column)).collect();
                    if of.is_empty() {
                        continue;
                    }
                    for (at, id) in places {
                        let Some((_, [schema, table])) = self.relations.get(*at) else {
                            continue;
                        };
                        let name = [schema.as_str(), table, column];
                        let Some(choice) = of.iter().find_map(|p| p.find_match(&name)) else {
                            continue;
                        };
                        let is_left_out = except.iter().any(|p| p.find_match(&name).is_some())
                            || !with_keys && self.keys.contains(id);
                        if !is_left_out {
                            out.push((*id, choice));
                        }
                    }
                }
                out
            }
        }
    }

    /// What the operator's spelling means, as it is and folded. A quoted part folds like any other.
    fn find<T: Copy>(&self, known: &HashMap<&str, T>, written: &str) -> Vec<T> {
        let folded = self.dialect.fold(written);
        let as_folded = (folded != written).then_some(folded.as_str());
        let spellings = std::iter::once(written).chain(as_folded);
        spellings
            .filter_map(|uid| known.get(uid).copied())
            .collect()
    }
}

/// The columns by which rows are joined: those of declared primary and foreign keys, what foreign keys refer to, and
/// columns of views that show nothing else.
fn key_columns(catalog: &Catalog, flow: &ColumnFlow) -> BTreeSet<ColumnId> {
    let mut out = BTreeSet::new();
    let at = |relation: &Relation, index: u16| ColumnId {
        relation: relation.id,
        index,
    };
    for relation in catalog.relations() {
        out.extend(
            relation
                .primary_key
                .iter()
                .map(|index| at(relation, *index)),
        );
        for key in &relation.foreign_keys {
            let own = key
                .columns
                .iter()
                .filter_map(|name| relation.position(name));
            out.extend(own.map(|index| at(relation, index)));
            if let Some(other) = catalog.find(&key.schema, &key.table) {
                let named = key
                    .references
                    .iter()
                    .filter_map(|name| other.position(name));
                out.extend(named.map(|index| at(other, index)));
            }
        }
    }
    // Views stand on views, so that each round may find more.
    loop {
        let shows_keys = |from: &BTreeSet<ColumnId>| !from.is_empty() && from.is_subset(&out);
        let more: Vec<ColumnId> = flow
            .columns
            .iter()
            .filter(|(id, from)| !out.contains(id) && shows_keys(from))
            .map(|(id, _)| *id)
            .collect();
        if more.is_empty() {
            return out;
        }
        out.extend(more);
    }
}

enum Selector<'a> {
    Name(&'a Spanned<String>),
    Patterns {
        of: Vec<Pattern>,
        except: Vec<Pattern>,
    },
}

fn selector<'a>(
    source: &Source<'_>,
    entry: &'a Spanned<Entry>,
    form: &str,
    parts: usize,
    problems: &mut Vec<PolicyProblem>,
) -> Option<Selector<'a>> {
    let fields = entry.get_ref();
    if fields.tags.iter().any(|tag| tag.trim().is_empty()) {
        problems.push(source.at(entry.span(), "a tag is a word, not empty"));
    }
    let written = match (&fields.name, &fields.pattern, &fields.patterns) {
        (Some(name), None, None) => {
            if fields.except.is_empty() && fields.keys.is_none() {
                return Some(Selector::Name(name));
            }
            let message = "`except` and `keys` belong to patterns, and this entry has a `name`";
            problems.push(source.at(entry.span(), message));
            return None;
        }
        (None, Some(pattern), None) => std::slice::from_ref(pattern),
        (None, None, Some(patterns)) if !patterns.is_empty() => patterns,
        (None, None, Some(_)) => {
            problems.push(source.at(entry.span(), "`patterns` holds at least one pattern"));
            return None;
        }
        (Some(_), Some(_), _)
        | (Some(_), None, Some(_))
        | (None, Some(_), Some(_))
        | (None, None, None) => {
            let message = "an entry has one of `name`, `pattern` and `patterns`";
            problems.push(source.at(entry.span(), message));
            return None;
        }
    };
    let mut read = |written: &[Spanned<String>]| {
        let read = written.iter().map(|written| {
            let pattern = Pattern::read(written.get_ref(), parts);
            if pattern.is_none() {
                let message = format!("`{}` is not a pattern of the form `{form}`", written.get_ref());
                let help = "`*` stands for any characters within one part, and `|` stands between alternatives";
                problems.push(source.at(written.span(), message).with_help(Some(help)));
            }
            pattern
        });
        // All are read, so that each mistake is reported.
        let read: Vec<_> = read.collect();
        read.into_iter().collect::<Option<Vec<_>>>()
    };
    let (of, except) = (read(written), read(&fields.except));
    Some(Selector::Patterns {
        of: of?,
        except: except?,
    })
}

/// For each part of a name the alternatives, globs in lower case.
#[derive(Debug, Clone)]
struct Pattern(Vec<Vec<String>>);

impl Pattern {
    fn read(written: &str, parts: usize) -> Option<Self> {
        let alternatives = |part: &str| part.split('|').map(str::to_lowercase).collect();
        let read: Vec<Vec<String>> = written.split('.').map(alternatives).collect();
        let is_whole = read.len() == parts && !read.iter().flatten().any(String::is_empty);
        is_whole.then_some(Self(read))
    }

    /// Whether the last part matches.
    fn may_end_in(&self, name: &str) -> bool {
        self.0
            .last()
            .is_some_and(|part| any_glob(part, name).is_some())
    }

    /// The alternatives that match `name`, as a pattern.
    fn find_match(&self, name: &[&str]) -> Option<String> {
        let parts = self.0.iter().zip(name);
        let matched: Option<Vec<&str>> = parts.map(|(part, text)| any_glob(part, text)).collect();
        matched.map(|parts| parts.join("."))
    }
}

/// The first of several globs that matches.
fn any_glob<'p>(part: &'p [String], text: &str) -> Option<&'p str> {
    let mut globs = part.iter().map(String::as_str);
    globs.find(|pattern| glob(pattern, text))
}

/// That the one pattern of an entry matches nothing.
fn report_unmatched(
    source: &Source<'_>,
    entry: &Spanned<Entry>,
    what: &str,
) -> Option<PolicyProblem> {
    let pattern = entry.get_ref().pattern.as_ref()?;
    let message = format!("`{}` matches no {what} of this database", pattern.get_ref());
    let help = "correct it, or write `patterns = [\"…\"]` for spellings that a database may lack";
    Some(source.at(pattern.span(), message).with_help(Some(help)))
}

fn report_unknown<'a>(
    source: &Source<'_>,
    what: &str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'a str>,
) -> PolicyProblem {
    let written = name.get_ref();
    source
        .at(
            name.span(),
            format!("there is no {what} `{written}` in the catalog"),
        )
        .with_help(probably(written, known).map(|close| format!("did you mean `{close}`?")))
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, mut others)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    while let Some((piece, after)) = others.split_once('*') {
        let Some((_, found)) = rest.split_once(piece) else {
            return false;
        };
        (rest, others) = (found, after);
    }
    rest.ends_with(others)
}

/// Each column's tags with those of everything it is computed from, and of the columns that hold the
/// same data in parents and children.
fn follow_flow(
    catalog: &Catalog,
    own: &BTreeMap<ColumnId, BTreeSet<String>>,
    flow: &ColumnFlow,
    same: &Same,
) -> BTreeMap<ColumnId, BTreeSet<String>> {
    // Between groups of columns with the same data, so that a thousand partitions are as one table.
    let mut own_tags: BTreeMap<ColumnId, BTreeSet<&String>> = BTreeMap::new();
    for (id, tags) in own {
        own_tags.entry(same.group(*id)).or_default().extend(tags);
    }
    let mut steps: BTreeMap<ColumnId, BTreeSet<ColumnId>> = BTreeMap::new();
    for (id, from) in &flow.columns {
        let from = from.iter().map(|id| same.group(*id));
        steps.entry(same.group(*id)).or_default().extend(from);
    }
    let mut known: HashMap<ColumnId, BTreeSet<String>> = HashMap::new();
    let mut out = BTreeMap::new();
    for (id, _) in catalog.relations().iter().flat_map(Relation::column_ids) {
        let tags = known.entry(same.group(id)).or_insert_with_key(|group| {
            let mut seen = BTreeSet::from([*group]);
            let mut pending = vec![*group];
            let mut tags = BTreeSet::new();
            while let Some(group) = pending.pop() {
                let own = own_tags.get(&group).into_iter().flatten();
                tags.extend(own.map(|tag| (*tag).clone()));
                let from = steps.get(&group).into_iter().flatten().copied();
                pending.extend(from.filter(|next| seen.insert(*next)));
            }
            tags
        });
        if !tags.is_empty() {
            out.insert(id, tags.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use super::*;
    use crate::policy::tests::fixture;

    fn run(text: &str, flow: &ColumnFlow) -> (Tags, Vec<PolicyProblem>) {
        let mut problems = Vec::new();
        let source = Source {
            name: "classification.toml",
            text,
        };
        let tags = classify(
            Some(source),
            &fixture::catalog(),
            flow,
            &mut problems,
            &mut Vec::new(),
        );
        (tags, problems)
    }

    fn tags_of(tags: &Tags, uid: &str) -> Vec<String> {
        let id = fixture::column_id(&fixture::catalog(), uid);
        tags.of_column(id).map(str::to_owned).collect()
    }

    #[test]
    fn globs_match_within_a_part() {
        for (pattern, text, expect) in [
            ("*", "", true),
            ("*password*", "user_password_hash", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("ab", "abc", false),
            ("*b", "ab", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(glob(pattern, text), expect, "{pattern} {text}");
        }
    }

    #[test]
    fn names_and_patterns_tag_columns() {
        let text = "[[column]]\nname = \"main.customers.email\"\ntags = [\"pii\"]\n\
                    [[column]]\npattern = \"*.*.*MAIL*\"\ntags = [\"contact\"]\n\
                    [[table]]\npattern = \"main.t*\"\ntags = [\"support\"]\n\
                    [unclassified]\ntags = [\"new\"]\n";
        let (tags, problems) = run(text, &ColumnFlow::default());
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(tags_of(&tags, "main.customers.email"), ["contact", "pii"]);
        assert_eq!(tags_of(&tags, "main.customers.id"), ["new"]);
        let tickets = fixture::catalog().find("main", "tickets").unwrap().id;
        assert_eq!(tags.of_relation(tickets).collect::<Vec<_>>(), ["support"]);
    }

    #[test]
    fn an_entry_has_several_patterns_and_leaves_out_others() {
        let text = "[[column]]\npatterns = [\"*.*.email|addr*\", \"main.tickets.t*\"]\n\
                    except = [\"*.*.*_id\"]\ntags = [\"pii\"]\n\
                    [[column]]\npattern = \"*.tickets.id|tenant_id\"\nkeys = false\ntags = [\"key\"]\n";
        let (tags, problems) = run(text, &ColumnFlow::default());
        assert!(problems.is_empty(), "{problems:?}");
        for (uid, expect) in [
            ("main.customers.email", vec!["pii"]),
            ("main.contacts.address", vec!["pii"]),
            ("main.tickets.title", vec!["pii"]),
            ("main.tickets.tenant_id", vec!["key"]),
        ] {
            assert_eq!(tags_of(&tags, uid), expect, "{uid}");
        }
        let email = fixture::column_id(&fixture::catalog(), "main.customers.email");
        let choices: Vec<&str> = tags.choices(email).collect();
        assert_eq!(choices, ["*.*.email"]);
        assert_eq!(tags.all().collect::<Vec<_>>(), ["key", "pii"]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_warned_of() {
        for (entry, expected) in [
            (
                "[[column]]\npattern = \"*.*.emial\"",
                Some("`*.*.emial` matches no column of this database"),
            ),
            (
                "[[table]]\npattern = \"main.tikets*\"",
                Some("`main.tikets*` matches no table of this database"),
            ),
            (
                "[[column]]\npattern = \"*.*.email\"\nexcept = [\"*.customers.*\"]",
                Some("matches no column"),
            ),
            ("[[column]]\npattern = \"*.*.email\"", None),
            ("[[column]]\npatterns = [\"*.*.emial\", \"*.*.ssn2\"]", None),
            ("[[table]]\npattern = \"main.t*\"", None),
        ] {
            let classification = format!("{entry}\ntags = [\"x\"]\n");
            let told = fixture::lint_classified(&classification);
            let told: Vec<_> = told
                .iter()
                .filter(|told| told.contains("matches no"))
                .collect();
            assert_eq!(
                told.len(),
                usize::from(expected.is_some()),
                "{entry}: {told:?}"
            );
            if let (Some(told), Some(expected)) = (told.first(), expected) {
                assert!(told.contains(expected) && told.contains(":2:"), "{told}");
            }
        }
    }

    #[test]
    fn entries_that_contradict_themselves_are_refused() {
        for (entry, message) in [
            (
                "[[column]]\nname = \"main.customers.email\"\nkeys = false",
                "`except` and `keys` belong to patterns",
            ),
            (
                "[[column]]\npattern = \"*.*.a\"\npatterns = [\"*.*.b\"]",
                "one of `name`, `pattern` and `patterns`",
            ),
            ("[[column]]\npatterns = []", "at least one pattern"),
            (
                "[[column]]\npatterns = [\"*.*.a|\"]",
                "`*.*.a|` is not a pattern of the form",
            ),
            (
                "[[column]]\npattern = \"*.*.a\"\nexcept = [\"a\"]",
                "`a` is not a pattern of the form",
            ),
            (
                "[[table]]\npattern = \"*.a\"\nkeys = false",
                "`keys` belongs to entries of columns",
            ),
        ] {
            let (_, problems) = run(
                &format!("{entry}\ntags = [\"x\"]\n"),
                &ColumnFlow::default(),
            );
            let told = problems
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(told.contains(message), "{entry}: {told}");
        }
    }

    #[test]
    fn tags_flow_through_every_step() {
        let catalog = fixture::catalog();
        let id = |uid| fixture::column_id(&catalog, uid);
        let flow = ColumnFlow::from(BTreeMap::from([
            (
                id("main.contacts.address"),
                BTreeSet::from([id("main.tickets.title")]),
            ),
            // A cycle must not hang.
            (
                id("main.tickets.title"),
                BTreeSet::from([id("main.customers.email"), id("main.contacts.address")]),
            ),
        ]));
        let text = "[[column]]\nname = \"main.customers.email\"\ntags = [\"pii\"]\n[unclassified]\ntags = [\"new\"]";
        let (tags, _) = run(text, &flow);
        assert_eq!(tags_of(&tags, "main.contacts.address"), ["pii"]);
    }

    #[test]
    fn mistakes_point_at_their_line() {
        for (text, line, message, help) in [
            (
                "[[column]]\nname = \"main.customers.emial\"\ntags = []",
                2,
                "no column `main.customers.emial`",
                Some("did you mean `main.customers.email`?"),
            ),
            (
                "[[table]]\nname = \"main.tickts\"\ntags = []",
                2,
                "no table `main.tickts`",
                Some("did you mean `main.tickets`?"),
            ),
            (
                "[[column]]\nname = \"main.customers.email\"\ntag = []",
                3,
                "unknown field `tag`",
                None,
            ),
            (
                "\n[[colum]]\nname = \"x\"",
                2,
                "unknown field `colum`",
                None,
            ),
            (
                "[[column]]\ntags = []",
                1,
                "one of `name`, `pattern` and `patterns`",
                None,
            ),
            (
                "[[column]]\npattern = \"*password*\"\ntags = []",
                2,
                "not a pattern",
                Some(
                    "`*` stands for any characters within one part, and `|` stands between alternatives",
                ),
            ),
        ] {
            let (_, problems) = run(text, &ColumnFlow::default());
            assert_eq!(problems.len(), 1, "{text}: {problems:?}");
            assert_eq!(problems[0].line, Some(line), "{problems:?}");
            assert!(problems[0].message.contains(message), "{problems:?}");
            assert_eq!(problems[0].help.as_deref(), help);
        }
    }
}
