//! What a name can mean at one place of a statement.

pub(in crate::resolve) mod source;

use std::{cell::RefCell, sync::Arc};

use sqlparser::ast::Ident;

use crate::resolve::{query::cartesian::Links, scope::source::is_system_column};
use crate::{
    catalog::{ColumnId, Relation},
    dialect::Dialect,
    lineage::{Lineage, TokenLineage},
};

pub(crate) use source::Output;
pub(in crate::resolve) use source::{Columns, Origin, Source};

/// What both engines call the row that an upsert could not insert.
pub(crate) const EXCLUDED: &str = "excluded";

/// Where a name was found.
pub(in crate::resolve) enum Found<'f> {
    /// A column of a source, by its name.
    Column(Origin<'f>, &'f Arc<str>),
    /// The row id of a relation with an INTEGER PRIMARY KEY: this column.
    RowIdAlias {
        origin: Origin<'f>,
        /// The source's qualifier: the column's bare name may be another's too.
        qualifier: Option<&'f str>,
        name: &'f Arc<str>,
    },
    /// The row id of a relation without, or a system column.
    RowId,
    /// A whole row of a source, which a row type stands for (PostgreSQL).
    WholeRow(Lineage),
    /// An output of the same SELECT, by its alias.
    Alias(&'f Lineage),
    /// More than one.
    Ambiguous,
    /// None.
    Nothing,
}

/// The sources of one SELECT, inside those of the SELECTs around it.
pub(in crate::resolve) struct Scope<'a, 's> {
    pub(in crate::resolve) dialect: Dialect,
    pub(in crate::resolve) sources: Vec<Source<'a>>,
    /// Columns that a USING or NATURAL join has merged into one further left.
    pub(in crate::resolve) merged: Vec<Merged>,
    /// Whether a join in parentheses stands among the sources, and not first.
    pub(in crate::resolve) nested: bool,
    /// As often as a query over these sources is read: once for each arm of a set operation among them.
    pub(in crate::resolve) readings: u64,
    /// Whether one row of a source may become several rows, by something beside the FROM list.
    pub(in crate::resolve) repeats: bool,
    /// Which sources conditions tie to each other.
    pub(in crate::resolve) links: Links,
    /// Outputs that may be named here.
    pub(in crate::resolve) aliases: &'s [Output],
    /// Columns of these sources that subqueries have named.
    pub(in crate::resolve) reached: RefCell<Vec<ColumnId>>,
    pub(in crate::resolve) parent: Option<&'s Scope<'a, 's>>,
    /// The name of the conflicting row around an upsert's condition. In subqueries its columns are spelled
    /// with that.
    pub(in crate::resolve) conflicting_row: Option<Ident>,
}

/// What a name in a subquery of an upsert's condition means, where that is looked for beforehand.
pub(in crate::resolve) enum Around<'s> {
    /// It is the subquery's own, or says itself of which row around it it is.
    Told,
    /// A column of the conflicting row, by this name of the row.
    ConflictingRow(&'s Ident),
    /// It cannot say which it is.
    Untold,
}

/// A column that USING or NATURAL has made one of two.
pub(in crate::resolve) struct Merged {
    /// The source whose column is not listed any more.
    pub(in crate::resolve) source: usize,
    /// The first source to the left that has it.
    pub(in crate::resolve) into: usize,
    /// The sources that the join puts together: its columns come before the rest of theirs.
    pub(in crate::resolve) over: std::ops::Range<usize>,
    /// The first of these sources that stands to the right of the join.
    pub(in crate::resolve) middle: usize,
    /// Whether what stands to the right is listed before what stands to the left.
    pub(in crate::resolve) right_first: bool,
    pub(in crate::resolve) key: Arc<str>,
}

impl<'a, 's> Scope<'a, 's> {
    /// A scope without sources.
    pub(in crate::resolve) fn new(dialect: Dialect, parent: Option<&'s Scope<'a, 's>>) -> Self {
        Self {
            dialect,
            sources: Vec::new(),
            merged: Vec::new(),
            nested: false,
            readings: 1,
            repeats: false,
            links: Links::default(),
            aliases: &[],
            reached: RefCell::default(),
            parent,
            conflicting_row: None,
        }
    }

    /// What a name means here, as far as the rows around an upsert's condition go.
    pub(in crate::resolve) fn find_around(&self, qualifier: Option<&str>, key: &str) -> Around<'_> {
        let scopes = || std::iter::successors(Some(self), |scope| scope.parent);
        let Some((outer, name)) =
            scopes().find_map(|scope| Some(scope).zip(scope.conflicting_row.as_ref()))
        else {
            return Around::Told;
        };
        let inner = || scopes().take_while(|scope| scope.conflicting_row.is_none());
        if self.conflicting_row.is_some() {
            return Around::Told;
        }
        let has_source = |qualifier: Option<&str>| {
            let mut sources = inner().flat_map(|scope| &scope.sources);
            sources.any(|source| source.qualifier.as_deref() == qualifier)
        };
        let own = outer.sources.first().and_then(|s| s.qualifier.as_deref());
        let takes = |name: Option<&str>| name == own || name == Some(EXCLUDED);
        if qualifier.is_some() && !takes(qualifier) {
            return Around::Told;
        }
        let is_inside =
            inner().any(|scope| !matches!(scope.find_here(qualifier, key), Found::Nothing));
        match (is_inside, qualifier) {
            (true, Some(EXCLUDED)) => Around::Untold,
            (true, _) => Around::Told,
            (false, Some(_)) if has_source(own) || has_source(Some(EXCLUDED)) => Around::Untold,
            (false, Some(_)) => Around::Told,
            (false, None) => match outer.find_here(None, key) {
                // To PostgreSQL it is ambiguous.
                Found::Column(_, _) if self.dialect == Dialect::Sqlite && !has_source(own) => {
                    Around::ConflictingRow(name)
                }
                // A whole row of the subquery's own.
                Found::Nothing if has_source(Some(key)) => Around::Told,
                Found::Column(_, _)
                | Found::RowIdAlias {
                    origin: _,
                    qualifier: _,
                    name: _,
                }
                | Found::RowId
                | Found::WholeRow(_)
                | Found::Alias(_)
                | Found::Ambiguous
                | Found::Nothing => Around::Untold,
            },
        }
    }

    /// Looks `key` up here and then outwards, as the engine does: columns, then aliases, then row ids;
    /// on PostgreSQL whole rows after every column.
    pub(in crate::resolve) fn find(&self, qualifier: Option<&str>, key: &str) -> Found<'_> {
        match self.find_column(qualifier, key) {
            Found::Nothing if self.dialect == Dialect::Postgres && qualifier.is_none() => {
                self.whole_row(key).map_or(Found::Nothing, Found::WholeRow)
            }
            found => found,
        }
    }

    fn find_column(&self, qualifier: Option<&str>, key: &str) -> Found<'_> {
        match self.find_here(qualifier, key) {
            Found::Nothing => match self.parent {
                Some(parent) => parent.find_from_inside(qualifier, key),
                None => Found::Nothing,
            },
            found => found,
        }
    }

    /// As [`find_column`](Self::find_column), for a subquery.
    fn find_from_inside(&self, qualifier: Option<&str>, key: &str) -> Found<'_> {
        let found = self.find_column(qualifier, key);
        if let Found::Column(origin, _)
        | Found::RowIdAlias {
            origin,
            qualifier: _,
            name: _,
        } = &found
        {
            self.reached
                .borrow_mut()
                .extend_from_slice(origin.columns());
        }
        found
    }

    /// The rows of the nearest source called `qualifier`.
    pub(in crate::resolve) fn whole_row(&self, qualifier: &str) -> Option<Lineage> {
        let here = self
            .sources
            .iter()
            .find(|s| s.qualifier.as_deref() == Some(qualifier));
        match here {
            Some(source) => Some(Lineage::from_columns(source.columns.whole_row_columns())),
            None => self.parent?.whole_row(qualifier),
        }
    }

    /// The columns of the whole row of `qualifier`, each with the column of a relation that it is. None where it may be no row: a
    /// function's one value has the name of a row.
    pub(in crate::resolve) fn row_columns(
        &self,
        qualifier: &str,
    ) -> Option<Vec<(Arc<str>, Option<ColumnId>)>> {
        let here = self
            .sources
            .iter()
            .find(|s| s.qualifier.as_deref() == Some(qualifier));
        let Some(source) = here else {
            return self.parent?.row_columns(qualifier);
        };
        let columns = source.columns.list();
        let is_row = columns.len() > 1 || source.columns.relation().is_some();
        let named = columns.into_iter();
        let named = named.map(|output| (output.name, output.lineage.identity));
        is_row.then(|| named.collect())
    }

    /// The relation whose rows the nearest source called `qualifier` has.
    pub(in crate::resolve) fn row_relation(&self, qualifier: &str) -> Option<&'a Relation> {
        let here = self
            .sources
            .iter()
            .find(|s| s.qualifier.as_deref() == Some(qualifier));
        match here {
            Some(source) => source.columns.relation(),
            None => self.parent?.row_relation(qualifier),
        }
    }

    /// How many sources of the nearest query that has one are called `qualifier`.
    pub(in crate::resolve) fn count_of_qualifier(&self, qualifier: &str) -> usize {
        let named = |scope: &Self| {
            let sources = scope.sources.iter();
            sources
                .filter(|source| source.qualifier.as_deref() == Some(qualifier))
                .count()
        };
        match (named(self), self.parent) {
            (0, Some(parent)) => parent.count_of_qualifier(qualifier),
            (count, _) => count,
        }
    }

    /// Whether the nearest source called `qualifier` is the only one, and of this schema.
    pub(in crate::resolve) fn is_of_schema(&self, qualifier: &str, schema: &str) -> bool {
        let mut named = self
            .sources
            .iter()
            .filter(|s| s.qualifier.as_deref() == Some(qualifier));
        match (named.next(), named.next()) {
            (Some(source), None) => source.schema.as_deref() == Some(schema),
            (Some(_), Some(_)) => false,
            (None, _) => self
                .parent
                .is_some_and(|parent| parent.is_of_schema(qualifier, schema)),
        }
    }

    /// Whether a name is a column of this query's own sources, without a look at those around it.
    pub(in crate::resolve) fn has_column(&self, qualifier: Option<&str>, key: &str) -> bool {
        match self.find_here(qualifier, key) {
            Found::Column(_, _)
            | Found::RowIdAlias {
                origin: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId => true,
            // The rows of a source are looked for after the columns of every query around it.
            Found::WholeRow(_) | Found::Alias(_) | Found::Ambiguous | Found::Nothing => false,
        }
    }

    /// Whether a name without a qualifier is a column of this query's own sources, or could be of several.
    pub(in crate::resolve) fn names_column(&self, key: &str) -> bool {
        match self.find_here(None, key) {
            Found::Column(_, _)
            | Found::RowIdAlias {
                origin: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId
            | Found::Ambiguous => true,
            Found::WholeRow(_) | Found::Alias(_) | Found::Nothing => false,
        }
    }

    /// The columns of the outputs that a name may mean beside a column: in HAVING MariaDB and MySQL prefer outputs, and so do
    /// subqueries there (`resolve_ref_in_select_and_group` in their sources).
    pub(in crate::resolve) fn columns_of_outputs_beside(&self, key: &str) -> Vec<ColumnId> {
        if self.dialect != Dialect::Mysql {
            return Vec::new();
        }
        let scopes = std::iter::successors(Some(self), |scope| scope.parent);
        let mut columns = Vec::new();
        for scope in scopes {
            let named = scope.aliases.iter().filter(|output| *output.key == *key);
            columns.extend(named.flat_map(|output| output.lineage.columns.iter().copied()));
            if scope.names_column(key) {
                break;
            }
        }
        columns
    }

    fn find_here(&self, qualifier: Option<&str>, key: &str) -> Found<'_> {
        let mut found = Found::Nothing;
        for (index, source) in self.sources.iter().enumerate() {
            if qualifier.is_some() && source.qualifier.as_deref() != qualifier {
                continue;
            }
            if qualifier.is_none() && self.is_merged(index, key) {
                continue;
            }
            if let Some((origin, name)) = source.columns.find(key) {
                let origin = match qualifier {
                    None => self.with_merged(index, key, origin),
                    Some(_) => origin,
                };
                found = match found {
                    Found::Nothing => Found::Column(origin, name),
                    _ => return Found::Ambiguous,
                };
            }
        }
        if !matches!(found, Found::Nothing) {
            return found;
        }
        if qualifier.is_none()
            && let Some(output) = self.aliases.iter().find(|o| *o.key == *key)
        {
            return Found::Alias(&output.lineage);
        }
        let is_special = match self.dialect {
            Dialect::Sqlite => matches!(key, "rowid" | "oid" | "_rowid_"),
            Dialect::Postgres => is_system_column(key),
            Dialect::Mysql => false,
        };
        if !is_special {
            return Found::Nothing;
        }
        let mut specials = self
            .sources
            .iter()
            .filter(|s| qualifier.is_none() || s.qualifier.as_deref() == qualifier)
            .filter_map(|source| match self.dialect {
                Dialect::Sqlite => source.columns.rowid(source.qualifier.as_deref()),
                Dialect::Postgres => source.columns.system(),
                Dialect::Mysql => None,
            });
        match (specials.next(), specials.next()) {
            (Some(found), None) => found,
            (Some(_), Some(_)) => Found::Ambiguous,
            (None, _) => Found::Nothing,
        }
    }

    /// The position of the only source here that a name can be a column of, as it is there.
    pub(in crate::resolve) fn source_of(
        &self,
        qualifier: Option<&str>,
        key: &str,
    ) -> Option<usize> {
        let takes_part = |m: &Merged, source: usize| {
            qualifier.is_none() && *m.key == *key && (m.source == source || m.into == source)
        };
        let mut named = self.sources.iter().enumerate().filter(|(_, source)| {
            (qualifier.is_none() || source.qualifier.as_deref() == qualifier)
                && source.columns.has(key)
        });
        let (index, _) = named.next()?;
        let is_joined = self.merged.iter().any(|m| takes_part(m, index));
        (named.next().is_none() && !is_joined).then_some(index)
    }

    /// Whether the target of a change is among these sources, or among those around them. It stands in the text with columns
    /// that the principal does not see.
    pub(in crate::resolve) fn has_target(&self) -> bool {
        self.sources.iter().any(|source| source.columns.is_target())
            || self.parent.is_some_and(Self::has_target)
    }

    /// The qualifier of the source that a column without one is of, where the target of a change stands beside it.
    pub(in crate::resolve) fn source_beside_target(&self, key: &str) -> Option<&Arc<str>> {
        if let Found::Nothing = self.find_here(None, key) {
            return self.parent?.source_beside_target(key);
        }
        let found = self.source_of(None, key)?;
        let mut others = (0..).zip(&self.sources).filter(|(at, _)| *at != found);
        let is_beside = others.any(|(_, source)| source.columns.is_target());
        self.sources
            .get(found)?
            .qualifier
            .as_ref()
            .filter(|_| is_beside)
    }

    fn is_merged(&self, source: usize, key: &str) -> bool {
        self.merged
            .iter()
            .any(|m| m.source == source && *m.key == *key)
    }

    /// The lineage of a column with those that were merged into it: an outer join may show either.
    fn with_merged<'f>(&'f self, source: usize, key: &str, origin: Origin<'f>) -> Origin<'f> {
        let mut others = self
            .merged
            .iter()
            .filter(|m| m.into == source && *m.key == *key)
            .filter_map(|m| self.sources.get(m.source)?.columns.find(key))
            .peekable();
        if others.peek().is_none() {
            return origin;
        }
        let mut all = origin.into_lineage();
        let own = all.columns.len();
        for (other, _) in others {
            all.columns.extend_from_slice(other.columns());
            all.size = all.size.saturating_add(other.size());
            all.tokens = TokenLineage::either(all.tokens, other.tokens());
        }
        if all.columns.len() > own && self.dialect != Dialect::Sqlite {
            all.identity = None;
        }
        Origin::Merged(all)
    }

    /// The positions of the sources that a column's name can mean.
    pub(in crate::resolve) fn positions(
        &self,
        qualifier: Option<&str>,
        key: &str,
    ) -> impl Iterator<Item = usize> {
        self.sources
            .iter()
            .enumerate()
            .filter(move |(_, s)| qualifier.is_none() || s.qualifier.as_deref() == qualifier)
            .filter(move |(_, s)| {
                s.columns.has(key) || key == "rowid" || s.qualifier.as_deref() == Some(key)
            })
            .map(|(index, _)| index)
    }

    /// Names that can be meant here, for "did you mean": of the nearest query that has a source called `qualifier`.
    pub(in crate::resolve) fn visible_names(&self, qualifier: Option<&str>) -> Vec<String> {
        let is_named = |s: &&Source<'a>| qualifier.is_none() || s.qualifier.as_deref() == qualifier;
        let named = self.sources.iter().filter(is_named);
        if let Some(parent) = self.parent
            && named.clone().next().is_none()
        {
            return parent.visible_names(qualifier);
        }
        let columns = named.flat_map(|s| s.columns.list());
        columns.map(|o| o.name.to_string()).collect()
    }

    /// The nearest source that has a column called `key`, here and in the queries around this one, for "did you mean": its
    /// qualifier, and the column's name.
    pub(in crate::resolve) fn qualified_column(&self, key: &str) -> Option<(&str, &str)> {
        let mut scopes = std::iter::successors(Some(self), |scope| scope.parent);
        scopes.find_map(|scope| {
            scope.sources.iter().find_map(|source| {
                let (_, name) = source.columns.find(key)?;
                Some((source.qualifier.as_deref()?, &**name))
            })
        })
    }

    /// What the nearest source that reads the relation called `relation` is called instead.
    pub(in crate::resolve) fn alias_of(&self, relation: &str) -> Option<&str> {
        let mut scopes = std::iter::successors(Some(self), |scope| scope.parent);
        scopes.find_map(|scope| {
            let mut sources = scope.sources.iter();
            let read =
                sources.find(|s| s.columns.relation().is_some_and(|r| *r.key == *relation))?;
            read.qualifier.as_deref()
        })
    }

    /// What sources are called, here and in the queries around this one.
    pub(in crate::resolve) fn qualifiers(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self), |scope| scope.parent)
            .flat_map(|scope| &scope.sources)
            .filter_map(|source| source.qualifier.as_deref())
    }

    /// Adds the outputs of `qualifier.*`; whether there is such a source.
    pub(in crate::resolve) fn star_of(&self, qualifier: &str, outputs: &mut Vec<Output>) -> bool {
        let sources = self.sources.iter();
        let mut named = sources
            .filter(|s| s.qualifier.as_deref() == Some(qualifier))
            .peekable();
        let is_there = named.peek().is_some();
        named.for_each(|s| s.columns.list_into(outputs));
        is_there || self.outer_star_of(qualifier, outputs)
    }

    /// The same of a source of a query around this one, as PostgreSQL reads it. The target of a change has columns in the text that
    /// the principal does not see, so that its `*` is none.
    fn outer_star_of(&self, qualifier: &str, outputs: &mut Vec<Output>) -> bool {
        let outer = match self.dialect {
            Dialect::Postgres => std::iter::successors(self.parent, |scope| scope.parent),
            Dialect::Sqlite | Dialect::Mysql => return false,
        };
        for scope in outer {
            let mut named = scope.sources.iter();
            let Some(source) = named.find(|s| s.qualifier.as_deref() == Some(qualifier)) else {
                continue;
            };
            if source.columns.is_target() {
                return false;
            }
            let before = outputs.len();
            source.columns.list_into(outputs);
            let given = outputs.iter().skip(before);
            let columns = given.flat_map(|output| output.lineage.columns.iter().copied());
            scope.reached.borrow_mut().extend(columns);
            return true;
        }
        false
    }

    /// The outputs of `*`.
    ///
    /// PostgreSQL and MySQL list what USING and NATURAL merge before the other columns of a join
    /// (<https://dev.mysql.com/doc/refman/8.4/en/join.html>). MySQL reads a RIGHT JOIN as a LEFT JOIN with its sides swapped. SQLite
    /// leaves merged columns in their place.
    pub(in crate::resolve) fn star(&self) -> Option<Vec<Output>> {
        if self.sources.is_empty() {
            return None;
        }
        let mut outputs: Vec<(usize, Output)> = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            for output in source.columns.list() {
                if !self.is_merged(index, &output.key) {
                    let origin = Origin::Derived(&output.lineage);
                    if let Origin::Merged(lineage) = self.with_merged(index, &output.key, origin) {
                        outputs.push((index, Output { lineage, ..output }));
                    } else {
                        outputs.push((index, output));
                    }
                }
            }
        }
        match self.dialect {
            Dialect::Sqlite => {}
            Dialect::Postgres | Dialect::Mysql => self.merged_first(&mut outputs),
        }
        Some(outputs.into_iter().map(|(_, output)| output).collect())
    }

    /// The merged columns of a join as they are listed: PostgreSQL in the order of USING, MySQL in that of the side
    /// that it lists first.
    fn merged_keys(&self, join: &Merged, part: &[(usize, Output)]) -> Vec<Arc<str>> {
        let named: Vec<&Arc<str>> = self
            .merged
            .iter()
            .filter(|merged| merged.over == join.over)
            .map(|merged| &merged.key)
            .collect();
        let listed: Vec<Arc<str>> = match (self.dialect, join.right_first) {
            (Dialect::Sqlite | Dialect::Postgres, _) => named.iter().copied().cloned().collect(),
            (Dialect::Mysql, false) => part.iter().map(|(_, output)| output.key.clone()).collect(),
            (Dialect::Mysql, true) => self
                .sources
                .get(join.middle..join.over.end)
                .unwrap_or_default()
                .iter()
                .flat_map(|source| source.columns.list())
                .map(|output| output.key)
                .collect(),
        };
        listed
            .into_iter()
            .filter(|key| named.contains(&key))
            .collect()
    }

    /// Moves the merged columns of each join, innermost first, before the rest of what it joins.
    fn merged_first(&self, outputs: &mut [(usize, Output)]) {
        let mut joins: Vec<&Merged> = Vec::new();
        for merged in &self.merged {
            if joins.last().is_none_or(|last| last.over != merged.over) {
                joins.push(merged);
            }
        }
        for join in joins {
            let over = &join.over;
            let Some(start) = outputs.iter().position(|(source, _)| over.contains(source)) else {
                continue;
            };
            let count = outputs
                .iter()
                .filter(|(source, _)| over.contains(source))
                .count();
            let Some(part) = outputs.get_mut(start..start + count) else {
                continue;
            };
            let keys = self.merged_keys(join, part);
            // Stable: what is not merged keeps its order.
            part.sort_by_key(|(source, output)| {
                match keys.iter().position(|key| *key == output.key) {
                    Some(position) => (position, false),
                    None => (keys.len(), join.right_first && *source < join.middle),
                }
            });
        }
    }
}
