//! What a statement would do, as a set of (action, resource, usage): the question put to policy.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::catalog::{Change, ColumnId, RelationId};

/// How a column is used. One column may be used in several ways by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Usage {
    /// Its values reach the answer.
    Output,
    /// It decides which rows do (`WHERE`, `HAVING`, `FILTER`, `LIMIT`).
    Filter,
    /// It decides which rows meet (`ON`, `USING`, `NATURAL`).
    Join,
    /// It decides groups, partitions or distinctness.
    Group,
    /// It decides order.
    Order,
    /// An aggregate or a window function is computed from it.
    Aggregate,
    /// It is read inside a view that the statement names.
    View,
    /// It is assigned. Alone, it is not read.
    Write,
}

impl Usage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Output,
        Self::Filter,
        Self::Join,
        Self::Group,
        Self::Order,
        Self::Aggregate,
        Self::View,
        Self::Write,
    ];

    fn bit(self) -> u16 {
        match self {
            Self::Output => 1,
            Self::Filter => 1 << 1,
            Self::Join => 1 << 2,
            Self::Group => 1 << 3,
            Self::Order => 1 << 4,
            Self::Aggregate => 1 << 5,
            Self::View => 1 << 6,
            Self::Write => 1 << 7,
        }
    }

    /// The word for traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Filter => "filter",
            Self::Join => "join",
            Self::Group => "group",
            Self::Order => "order",
            Self::Aggregate => "aggregate",
            Self::View => "view",
            Self::Write => "write",
        }
    }
}

/// Where in a text something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct TextPlace {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
    /// The first byte, from 0.
    pub offset: usize,
    /// How many bytes it takes.
    pub length: usize,
}

/// What a place of a statement touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touched {
    /// A relation, by its name.
    Relation(RelationId),
    /// A column, and how it is used there.
    Column(ColumnId, Usage),
}

/// The ways in which a statement uses one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usages(u16);

impl Usages {
    /// A star takes it along in a query whose columns are used by others, if they are.
    const TAKEN_ALONG: u16 = 1 << 8;

    /// The ways, in the order of [`Usage`].
    pub fn iter(self) -> impl Iterator<Item = Usage> {
        Usage::ALL
            .into_iter()
            .filter(move |usage| self.contains(*usage))
    }

    /// Whether the column is used so.
    #[must_use]
    pub fn contains(self, usage: Usage) -> bool {
        self.0 & usage.bit() != 0
    }

    /// Whether its values matter: it is not only assigned.
    #[must_use]
    pub fn is_read(self) -> bool {
        self.0 & !Usage::Write.bit() != 0
    }

    /// Whether it is used at all.
    fn is_any(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn insert(&mut self, usage: Usage) {
        self.0 |= usage.bit();
    }
}

/// The columns that a statement uses: for each relation, the uses of each of its columns, by position.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ColumnUses(BTreeMap<RelationId, Vec<Usages>>);

impl ColumnUses {
    /// That `column` is used so.
    pub(crate) fn insert(&mut self, column: ColumnId, usage: Usage) {
        self.update(column, |usages| usages.insert(usage));
    }

    fn update(&mut self, column: ColumnId, change: impl FnOnce(&mut Usages)) {
        let uses = self.0.entry(column.relation).or_default();
        let index = usize::from(column.index);
        if uses.len() <= index {
            uses.resize(index + 1, Usages::default());
        }
        if let Some(usages) = uses.get_mut(index) {
            change(usages);
        }
    }

    /// That a star takes `column` along in a query whose columns are used by others, if they are.
    pub(crate) fn take_along(&mut self, column: ColumnId) {
        self.update(column, |usages| usages.0 |= Usages::TAKEN_ALONG);
    }

    /// That what is taken along of `column` is among what is given.
    pub(crate) fn give(&mut self, column: ColumnId) {
        self.update(column, |usages| {
            if usages.0 & Usages::TAKEN_ALONG != 0 {
                usages.insert(Usage::Output);
            }
        });
    }

    /// Settles what is taken along: it is among what is given, unless nothing else uses it and it `may_stay` unused.
    pub(crate) fn settle(&mut self, may_stay: impl Fn(ColumnId) -> bool) {
        for (relation, uses) in &mut self.0 {
            for (index, usages) in (0u16..).zip(uses) {
                if usages.0 & Usages::TAKEN_ALONG == 0 {
                    continue;
                }
                usages.0 &= !Usages::TAKEN_ALONG;
                let relation = *relation;
                if usages.is_read() || !may_stay(ColumnId { relation, index }) {
                    usages.insert(Usage::Output);
                }
            }
        }
    }

    /// How `column` is used; in no way if it is not.
    pub(crate) fn usages(&self, column: ColumnId) -> Usages {
        let uses = self.0.get(&column.relation);
        let usages = uses.and_then(|uses| uses.get(usize::from(column.index)));
        usages.copied().unwrap_or_default()
    }

    /// The relations of those whose values matter.
    fn relations_read(&self) -> impl Iterator<Item = RelationId> {
        let read = |uses: &Vec<Usages>| uses.iter().any(|usages| usages.is_read());
        let relations = self.0.iter().filter(move |(_, uses)| read(uses));
        relations.map(|(relation, _)| *relation)
    }

    /// Those that are used, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ColumnId, Usages)> {
        self.0.iter().flat_map(|(relation, uses)| {
            let uses = (0u16..).zip(uses).filter(|(_, usages)| usages.is_any());
            uses.map(|(index, usages)| {
                let relation = *relation;
                (ColumnId { relation, index }, *usages)
            })
        })
    }
}

/// A change of a relation's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeAccess {
    /// The relation.
    pub relation: RelationId,
    /// How it is changed.
    pub change: Change,
    /// Whether the engine makes the change by itself, for another that the statement makes: a foreign
    /// key's `CASCADE`. The rows it reaches cannot be filtered.
    pub cascaded: bool,
    /// Whether a condition over the relation's columns chooses the rows, and does not hold for every row.
    pub conditioned: bool,
}

/// A change of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Definition {
    /// Something new.
    Create,
    /// Something that is there becomes another.
    Alter,
    /// Something goes.
    Drop,
}

impl Definition {
    /// The SQL word, in small letters; the action's name in policies too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Alter => "alter",
            Self::Drop => "drop",
        }
    }
}

/// What a definition is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinedObject {
    /// A relation of the catalog.
    Relation(RelationId),
    /// A relation that is to be.
    New {
        /// Its schema, folded.
        schema: String,
        /// Its name, folded.
        name: String,
        /// Whether it is a view.
        view: bool,
    },
}

/// A change of the schema, and of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionAccess {
    /// The change.
    pub definition: Definition,
    /// Of what.
    pub object: DefinedObject,
}

/// A column that a definition makes, with values that the definition gives: by a query, an expression, a default or a numbering.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GivenColumn {
    /// The table or view in which it will stand.
    pub object: DefinedObject,
    /// Its name, folded.
    pub name: String,
    /// The columns that a query makes its values from.
    pub from: BTreeSet<ColumnId>,
}

/// What policies can know of a statement as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementFacts {
    /// `select`, `explain`, `insert`, `update`, `delete`, `merge`, `create`, `alter`, `drop` or `truncate`.
    pub kind: &'static str,
    /// How many relations it names beyond the first, each as often as it does; views count once.
    pub joins: usize,
    /// Whether each change of rows that are there has a condition which says something of them; of a query, whether its WHERE
    /// says something of its tables' rows.
    pub has_where: bool,
    /// Its shape.
    pub shape: StatementShape,
}

/// What policies can know of how a statement is built; views are not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementShape {
    /// How many queries stand around its innermost one.
    pub nesting: usize,
    /// The most rows that one OFFSET leaves out; the greatest number where the statement does not say it as a number.
    pub offset: u64,
    /// The most groups of tables that one SELECT combines without a condition between them, the first left out.
    pub unjoined: usize,
    /// Whether a common table expression reads itself.
    pub recursive: bool,
}

impl StatementFacts {
    /// Every kind of statement.
    pub(crate) const KINDS: [&'static str; 10] = [
        "select", "explain", "insert", "update", "delete", "merge", "create", "alter", "drop",
        "truncate",
    ];
}

/// Everything a statement touches, views and what stands below them included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessSet {
    pub(crate) changes: BTreeSet<ChangeAccess>,
    pub(crate) definitions: BTreeSet<DefinitionAccess>,
    pub(crate) given: BTreeSet<GivenColumn>,
    pub(crate) relations: BTreeSet<RelationId>,
    pub(crate) columns: ColumnUses,
    pub(crate) functions: BTreeSet<String>,
    pub(crate) system: BTreeSet<(String, String)>,
    pub(crate) facts: StatementFacts,
}

impl AccessSet {
    /// What it is as a whole.
    #[must_use]
    pub fn facts(&self) -> &StatementFacts {
        &self.facts
    }

    /// The relations read.
    pub fn relations(&self) -> impl Iterator<Item = RelationId> {
        self.relations.iter().copied()
    }

    /// Schema and name of the engine's own relations that are read.
    pub fn system_relations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.system
            .iter()
            .map(|(schema, name)| (schema.as_str(), name.as_str()))
    }

    /// The changes of rows, those the engine makes by itself included.
    pub fn changes(&self) -> impl Iterator<Item = ChangeAccess> {
        self.changes.iter().copied()
    }

    /// The changes of the schema.
    pub fn definitions(&self) -> impl Iterator<Item = &DefinitionAccess> {
        self.definitions.iter()
    }

    /// The columns to whose values definitions give what they say.
    pub(crate) fn given_columns(&self) -> impl Iterator<Item = &GivenColumn> {
        self.given.iter()
    }

    /// The columns read or assigned, each with how.
    pub fn columns(&self) -> impl Iterator<Item = (ColumnId, Usages)> {
        self.columns.iter()
    }

    /// Whether it is read or assigned.
    #[must_use]
    pub fn uses(&self, column: ColumnId) -> bool {
        self.columns.usages(column).is_any()
    }

    /// Ids of the functions called, those behind operators and casts included.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(String::as_str)
    }

    /// The columns whose values matter: all but those that are only assigned.
    pub fn columns_read(&self) -> impl Iterator<Item = ColumnId> {
        self.columns
            .iter()
            .filter(|(_, usages)| usages.is_read())
            .map(|(id, _)| id)
    }

    /// The relations of columns whose values matter, each once.
    pub(crate) fn relations_read(&self) -> impl Iterator<Item = RelationId> {
        self.columns.relations_read()
    }

    /// The columns assigned.
    pub fn columns_written(&self) -> impl Iterator<Item = ColumnId> {
        self.columns
            .iter()
            .filter(|(_, usages)| usages.contains(Usage::Write))
            .map(|(id, _)| id)
    }

    /// Whether everything in `self` is in `other` too, usages aside.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.relations.is_subset(&other.relations)
            && self.functions.is_subset(&other.functions)
            && self.system.is_subset(&other.system)
            && self.changes.iter().all(|change| other.has_change(change))
            && self.definitions.is_subset(&other.definitions)
            && self.given.is_subset(&other.given)
            && self.columns.iter().all(|(column, usages)| {
                let theirs = other.columns.usages(column);
                (!usages.is_read() || theirs.is_read())
                    && (!usages.contains(Usage::Write) || theirs.contains(Usage::Write))
            })
    }

    /// The first function that is called here and not there, for an operator's detail.
    pub(crate) fn first_function_beyond<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let mut beyond = self.functions.difference(&other.functions);
        beyond.next().map(String::as_str)
    }

    /// Whether this change is one of these, with a condition or without: which of both is settled as the statement is written.
    fn has_change(&self, wanted: &ChangeAccess) -> bool {
        let ChangeAccess {
            relation,
            change,
            cascaded,
            conditioned: _,
        } = wanted;
        self.changes.iter().any(|own| {
            own.relation == *relation && own.change == *change && own.cascaded == *cascaded
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELATION: RelationId = RelationId(1);
    const COLUMN: ColumnId = ColumnId {
        relation: RELATION,
        index: 2,
    };

    fn with(fill: impl FnOnce(&mut AccessSet)) -> AccessSet {
        let mut set = AccessSet::default();
        fill(&mut set);
        set
    }

    fn uses(all: &'static [Usage]) -> AccessSet {
        with(|set| {
            for usage in all {
                set.columns.insert(COLUMN, *usage);
            }
        })
    }

    fn changes(change: Change, cascaded: bool, conditioned: bool) -> AccessSet {
        with(|set| {
            set.changes.insert(ChangeAccess {
                relation: RELATION,
                change,
                cascaded,
                conditioned,
            });
        })
    }

    fn drops(name: &str) -> AccessSet {
        with(|set| {
            set.definitions.insert(DefinitionAccess {
                definition: Definition::Drop,
                object: DefinedObject::New {
                    schema: "s".to_owned(),
                    name: name.to_owned(),
                    view: false,
                },
            });
        })
    }

    #[test]
    fn one_set_is_within_another_that_has_all_of_it() {
        let reads = |id| {
            with(|set| {
                set.relations.insert(RelationId(id));
            })
        };
        let calls = |name: &str| {
            with(|set| {
                set.functions.insert(name.to_owned());
            })
        };
        let system = |name: &str| {
            with(|set| {
                let schema = "pg_catalog".to_owned();
                set.system.insert((schema, name.to_owned()));
            })
        };
        let none = AccessSet::default;
        for (small, large, expected) in [
            (none(), none(), true),
            (none(), calls("lower"), true),
            (reads(1), reads(1), true),
            (reads(1), reads(2), false),
            (reads(1), none(), false),
            (calls("lower"), calls("lower"), true),
            (calls("lower"), calls("upper"), false),
            (system("pg_class"), system("pg_class"), true),
            (system("pg_class"), system("pg_authid"), false),
            (drops("a"), drops("a"), true),
            (drops("a"), drops("b"), false),
            (
                changes(Change::Update, false, true),
                changes(Change::Update, false, false),
                true,
            ),
            (
                changes(Change::Update, false, false),
                changes(Change::Delete, false, false),
                false,
            ),
            (
                changes(Change::Update, true, false),
                changes(Change::Update, false, false),
                false,
            ),
            (changes(Change::Update, false, false), none(), false),
            (uses(&[Usage::Output]), uses(&[Usage::Filter]), true),
            (uses(&[Usage::Output]), none(), false),
            (uses(&[Usage::Output]), uses(&[Usage::Write]), false),
            (uses(&[Usage::Write]), uses(&[Usage::Output]), false),
            (uses(&[Usage::Write]), uses(&[Usage::Write]), true),
            (
                uses(&[Usage::Write, Usage::Filter]),
                uses(&[Usage::Write]),
                false,
            ),
            (
                uses(&[Usage::Write, Usage::Filter]),
                uses(&[Usage::Write, Usage::Output]),
                true,
            ),
        ] {
            assert_eq!(small.is_within(&large), expected, "{small:?} {large:?}");
        }
        let other = with(|set| {
            set.changes.insert(ChangeAccess {
                relation: RelationId(9),
                change: Change::Update,
                cascaded: false,
                conditioned: false,
            });
        });
        assert!(!changes(Change::Update, false, false).is_within(&other));
    }

    #[test]
    fn the_first_function_beyond_is_told() {
        let calls = |names: &[&str]| {
            with(|set| set.functions = names.iter().map(|name| (*name).to_owned()).collect())
        };
        let set = calls(&["a", "b", "c"]);
        assert_eq!(set.first_function_beyond(&calls(&["a"])), Some("b"));
        assert_eq!(set.first_function_beyond(&set), None);
    }

    #[test]
    fn a_column_is_read_unless_it_is_only_assigned() {
        for (all, is_read, is_written) in [
            (&[][..], false, false),
            (&[Usage::Write], false, true),
            (&[Usage::Output], true, false),
            (&[Usage::View], true, false),
            (&[Usage::Write, Usage::Order], true, true),
        ] {
            let set = uses(all);
            assert_eq!(set.uses(COLUMN), !all.is_empty(), "{all:?}");
            assert_eq!(set.columns_read().next().is_some(), is_read, "{all:?}");
            assert_eq!(set.relations_read().next().is_some(), is_read, "{all:?}");
            let written = set.columns_written().next().is_some();
            assert_eq!(written, is_written, "{all:?}");
            let found: Vec<Usage> = set.columns.usages(COLUMN).iter().collect();
            let mut sorted = all.to_vec();
            sorted.sort_unstable();
            assert_eq!(found, sorted);
            let known: Vec<ColumnId> = set.columns().map(|(column, _)| column).collect();
            assert_eq!(known.is_empty(), all.is_empty());
        }
    }

    #[test]
    fn every_usage_is_told_from_the_others() {
        for usage in Usage::ALL {
            let mut usages = Usages::default();
            usages.insert(usage);
            let found: Vec<Usage> = usages.iter().collect();
            assert_eq!(found, [usage]);
        }
    }

    #[test]
    fn what_a_star_takes_along_is_settled_by_what_else_uses_it() {
        let taken = |more: Option<Usage>| {
            let mut columns = ColumnUses::default();
            columns.take_along(COLUMN);
            if let Some(usage) = more {
                columns.insert(COLUMN, usage);
            }
            columns
        };
        for (more, may_stay, is_given) in [
            (None, true, false),
            (None, false, true),
            (Some(Usage::Filter), true, true),
            (Some(Usage::Write), true, false),
        ] {
            let mut columns = taken(more);
            columns.settle(|column| column == COLUMN && may_stay);
            let usages = columns.usages(COLUMN);
            assert_eq!(usages.contains(Usage::Output), is_given, "{more:?}");
            assert_eq!(
                usages.iter().count(),
                usize::from(is_given) + usize::from(more.is_some())
            );
            assert_eq!(usages.is_any(), is_given || more.is_some());
        }
        let mut columns = taken(None);
        columns.give(COLUMN);
        assert!(columns.usages(COLUMN).contains(Usage::Output));
        let mut columns = ColumnUses::default();
        columns.insert(COLUMN, Usage::Filter);
        columns.give(COLUMN);
        columns.settle(|_| false);
        assert!(!columns.usages(COLUMN).contains(Usage::Output));
        let beside = ColumnId { index: 0, ..COLUMN };
        assert!(!columns.usages(beside).is_any());
    }
}
