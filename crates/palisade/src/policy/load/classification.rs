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

/// For view columns and generated columns, the columns they are computed from. Tags follow it,
/// through any number of steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnFlow(pub BTreeMap<ColumnId, BTreeSet<ColumnId>>);

/// The tags of a catalog.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Tags {
    relations: BTreeMap<RelationId, BTreeSet<String>>,
    columns: BTreeMap<ColumnId, BTreeSet<String>>,
}

impl Tags {
    /// Every tag that anything has.
    pub(in crate::policy) fn all(&self) -> impl Iterator<Item = &str> {
        let all = self.relations.values().chain(self.columns.values());
        all.flatten().map(String::as_str)
    }

    /// The tags of a relation.
    pub(in crate::policy) fn of_relation(&self, id: RelationId) -> impl Iterator<Item = &str> {
        self.relations
            .get(&id)
            .into_iter()
            .flatten()
            .map(String::as_str)
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

/// Reads a classification and applies it to `catalog`.
pub(in crate::policy) fn classify(
    source: Option<Source<'_>>,
    catalog: &Catalog,
    flow: &ColumnFlow,
    problems: &mut Vec<PolicyProblem>,
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
        let names = Names::new(catalog);
        for entry in document.table {
            for id in names.relations(&source, &entry, problems) {
                tags.relations
                    .entry(id)
                    .or_default()
                    .extend(entry.get_ref().tags.iter().cloned());
            }
        }
        for entry in document.column {
            for id in names.columns(&source, &entry, problems) {
                matched.insert(id);
                tags.columns
                    .entry(id)
                    .or_default()
                    .extend(entry.get_ref().tags.iter().cloned());
            }
        }
        unclassified = document.unclassified.map(|u| u.tags).unwrap_or_default();
    }
    let same = Same::new(catalog);
    let matched: BTreeSet<ColumnId> = matched.into_iter().map(|id| same.group(id)).collect();
    for relation in catalog.relations() {
        for (id, _) in relation.column_ids() {
            // What is computed from other columns is classified by them.
            let computed = flow.0.get(&id).is_some_and(|from| !from.is_empty());
            if !matched.contains(&same.group(id)) && !computed && !unclassified.is_empty() {
                tags.columns
                    .entry(id)
                    .or_default()
                    .extend(unclassified.iter().cloned());
            }
        }
    }
    tags.columns = follow_flow(catalog, &tags.columns, flow, &same);
    tags
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    column: Vec<Spanned<Entry>>,
    #[serde(default)]
    table: Vec<Spanned<Entry>>,
    unclassified: Option<Unclassified>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<Spanned<String>>,
    pattern: Option<Spanned<String>>,
    tags: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unclassified {
    tags: BTreeSet<String>,
}

/// The catalog by names.
struct Names<'a> {
    dialect: Dialect,
    relations: Vec<(&'a Relation, [String; 2])>,
    by_uid: HashMap<&'a str, RelationId>,
    columns_by_uid: HashMap<&'a str, ColumnId>,
}

impl<'a> Names<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        let dialect = catalog.dialect();
        let lower = |name: &str| dialect.fold(name).to_lowercase();
        let relations = catalog
            .relations()
            .iter()
            .map(|relation| (relation, [lower(&relation.schema), lower(&relation.name)]))
            .collect();
        let all = || catalog.relations().iter();
        let columns = all().flat_map(Relation::column_ids);
        Self {
            dialect,
            relations,
            by_uid: all().map(|r| (r.uid.as_str(), r.id)).collect(),
            columns_by_uid: columns.map(|(id, c)| (c.uid.as_str(), id)).collect(),
        }
    }

    fn relations(
        &self,
        source: &Source<'_>,
        entry: &Spanned<Entry>,
        problems: &mut Vec<PolicyProblem>,
    ) -> Vec<RelationId> {
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
            Some(Selector::Pattern(parts)) => self
                .relations
                .iter()
                .filter(|(_, name)| parts.iter().zip(name).all(|(part, text)| glob(part, text)))
                .map(|(relation, _)| relation.id)
                .collect(),
        }
    }

    fn columns(
        &self,
        source: &Source<'_>,
        entry: &Spanned<Entry>,
        problems: &mut Vec<PolicyProblem>,
    ) -> Vec<ColumnId> {
        let columns = || {
            self.relations
                .iter()
                .flat_map(|(relation, _)| relation.column_ids())
        };
        match selector(source, entry, "schema.table.column", 3, problems) {
            None => Vec::new(),
            Some(Selector::Name(name)) => {
                let found = self.find(&self.columns_by_uid, name.get_ref());
                if found.is_empty() {
                    let known = columns().map(|(_, column)| column.uid.as_str());
                    problems.push(report_unknown(source, "column", name, known));
                }
                found
            }
            Some(Selector::Pattern(parts)) => {
                let mut out = Vec::new();
                for (relation, [schema, table]) in &self.relations {
                    for (id, column) in relation.column_ids() {
                        let name = [schema.as_str(), table, &column.key.to_lowercase()];
                        if parts.iter().zip(name).all(|(part, text)| glob(part, text)) {
                            out.push(id);
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

enum Selector<'a> {
    Name(&'a Spanned<String>),
    /// One lower-case glob for each part of the name.
    Pattern(Vec<String>),
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
    match (&fields.name, &fields.pattern) {
        (Some(name), None) => Some(Selector::Name(name)),
        (None, Some(pattern)) => {
            let split: Vec<String> = pattern
                .get_ref()
                .split('.')
                .map(str::to_lowercase)
                .collect();
            if split.len() != parts || split.iter().any(String::is_empty) {
                let message = format!(
                    "`{}` is not a pattern of the form `{form}`",
                    pattern.get_ref()
                );
                problems.push(
                    source
                        .at(pattern.span(), message)
                        .with_help(Some("`*` stands for any characters within one part")),
                );
                return None;
            }
            Some(Selector::Pattern(split))
        }
        (Some(_), Some(_)) | (None, None) => {
            problems.push(source.at(entry.span(), "an entry has either `name` or `pattern`"));
            None
        }
    }
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
    let mut pieces = pattern.split('*');
    let Some(first) = pieces.next() else {
        return text.is_empty();
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
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
    for (id, from) in &flow.0 {
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
        let tags = classify(Some(source), &fixture::catalog(), flow, &mut problems);
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
    fn tags_flow_through_every_step() {
        let catalog = fixture::catalog();
        let id = |uid| fixture::column_id(&catalog, uid);
        let flow = ColumnFlow(BTreeMap::from([
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
                "either `name` or `pattern`",
                None,
            ),
            (
                "[[column]]\npattern = \"*password*\"\ntags = []",
                2,
                "not a pattern",
                Some("`*` stands for any characters within one part"),
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
