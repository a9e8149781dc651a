//! Common table expressions: WITH, and the names of its queries.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::ast::{Cte, Ident, TableAlias, Visit};

use crate::resolve::{
    Resolver,
    query::{
        Then,
        recursive_cte::{may_end, recursive_seed},
    },
    refuse_unsupported,
    scope::{Output, Scope},
    state::Position,
};
use crate::{code::Code, dialect::Dialect, rejection::Rejection, syntax::each_relation};

/// The common table expressions in force, innermost first.
#[derive(Clone, Copy)]
pub(in crate::resolve) struct Ctes<'c> {
    pub(in crate::resolve) entry: Option<&'c CteEntry<'c>>,
}

pub(in crate::resolve) struct CteEntry<'c> {
    pub(in crate::resolve) key: String,
    /// Its name as the statement spells it, folded as names of tables are.
    pub(in crate::resolve) written: String,
    /// The name it has in our text.
    pub(in crate::resolve) name: Ident,
    /// Its columns; none while its own non-recursive query is being read, and none of a change that gives
    /// no rows.
    pub(in crate::resolve) columns: Option<Vec<Output>>,
    /// The arms of set operations that it is made from.
    pub(in crate::resolve) arms: u64,
    /// Whether it changes rows.
    pub(in crate::resolve) changes: bool,
    pub(in crate::resolve) outer: Ctes<'c>,
}

impl<'c> Ctes<'c> {
    pub(in crate::resolve) const NONE: Self = Self { entry: None };

    pub(in crate::resolve) fn find(self, key: &str) -> Option<&'c CteEntry<'c>> {
        let mut next = self.entry;
        while let Some(entry) = next {
            if entry.key == key {
                return Some(entry);
            }
            next = entry.outer.entry;
        }
        None
    }

    /// Their names as the statement spells them, innermost first.
    pub(in crate::resolve) fn names(self) -> impl Iterator<Item = &'c str> {
        std::iter::successors(self.entry, |entry| entry.outer.entry)
            .map(|entry| entry.written.as_str())
    }
}

impl<'a> Resolver<'a> {
    /// Reads the common table expressions one inside the other, then what follows them.
    pub(in crate::resolve) fn common_tables(
        &mut self,
        tables: &mut [Cte],
        recursive: bool,
        position: Position,
        parent: Option<&Scope<'a, '_>>,
        ctes: Ctes<'_>,
        then: &mut Then<'_, 'a>,
    ) -> Result<Vec<Output>, Rejection> {
        let Some((first, rest)) = tables.split_first_mut() else {
            return then(self, ctes);
        };
        let Cte {
            alias,
            query,
            from,
            materialized: _,
            closing_paren_token: _,
        } = first;
        if from.is_some() {
            return Err(refuse_unsupported("FROM after a common table expression"));
        }
        let TableAlias {
            explicit: _,
            name,
            columns,
            at,
        } = alias;
        if at.is_some() {
            return Err(refuse_unsupported("AT in an alias"));
        }
        // Without RECURSIVE the name of a CTE means something else inside it.
        let sees_itself = recursive || self.catalog.dialect() == Dialect::Sqlite;
        let key = self.key(name).into_owned();
        let written = self.table_key(name).into_owned();
        let named = relations_named(query, self);
        self.spend_on(rest.len())?;
        for later in rest.iter() {
            let later = self.key(&later.alias.name);
            if later == key {
                return Err(Rejection::new(
                    Code::NameAmbiguous,
                    format!("two common table expressions are called `{key}`"),
                ));
            }
            // SQLite lets a CTE read one that is defined after it; standard SQL does so after RECURSIVE.
            if sees_itself && named.contains(&*later) {
                return Err(refuse_unsupported(
                    "a common table expression read before it is defined",
                ));
            }
        }
        self.rename(name, &key);
        self.engine_names.ctes.insert(self.key(name).into_owned());
        let mut names = Vec::with_capacity(columns.len());
        for column in columns.iter_mut() {
            if column.data_type.is_some() {
                return Err(refuse_unsupported("a type in a column alias list"));
            }
            names.push((
                self.key(&column.name).into_owned(),
                self.spelling(&column.name),
            ));
            self.normalise(&mut column.name);
        }
        if sees_itself
            && self.catalog.dialect() == Dialect::Mysql
            && named.contains(&key)
            && !may_end(query, &key, self)
        {
            return Err(Rejection::new(
                Code::LimitCost,
                format!("the common table expression `{key}` has no condition that ends it"),
            ));
        }
        let reads_itself = named.contains(&key);
        let mut entry = CteEntry {
            key,
            written,
            name: name.clone(),
            columns: None,
            arms: 1,
            changes: false,
            outer: ctes,
        };
        let changes = self.changes.targets.len();
        self.changes.position = match (position, self.catalog.dialect()) {
            (Position::Outermost, Dialect::Postgres) => Position::With,
            (Position::Outermost, Dialect::Sqlite | Dialect::Mysql)
            | (Position::With | Position::Inside, _) => Position::Inside,
        };
        let outputs = if !sees_itself {
            self.is_derived = true;
            self.query(query, parent, ctes, true)?
        } else if let Some(seed) = recursive_seed(query).filter(|_| reads_itself) {
            if relations_named(&seed, self).contains(&entry.key) {
                return Err(refuse_unsupported(
                    "a common table expression that reads itself in its first arm",
                ));
            }
            self.recursive(query, seed, &mut entry, &names, parent)?
        } else {
            self.is_derived = !reads_itself;
            self.query(
                query,
                parent,
                Ctes {
                    entry: Some(&entry),
                },
                true,
            )?
        };
        entry.changes = self.changes.targets.len() > changes;
        entry.arms = self.work.arms;
        if !(entry.changes && outputs.is_empty()) {
            entry.columns = Some(rename_outputs(outputs, &names, self.catalog.dialect())?);
        }
        self.common_tables(
            rest,
            recursive,
            position,
            parent,
            Ctes {
                entry: Some(&entry),
            },
            then,
        )
    }

    /// A CTE that has a relation's name gets another: if the engine and we ever disagree about what
    /// is in scope, the engine finds nothing instead of the relation. So does a CTE that has such another name, since it would stand
    /// before the renamed one. And so does a name whose letters MariaDB may compare in another way.
    fn rename(&mut self, name: &mut Ident, key: &str) {
        let is_compared_alike = self.catalog.dialect() != Dialect::Mysql || key.is_ascii();
        let is_free = |name: &str| {
            !self.catalog.has_relation_like(name)
                && !self.is_reserved(name)
                && !self.fresh_ctes.contains(name)
        };
        if is_compared_alike && is_free(key) {
            self.normalise(name);
            return;
        }
        // PostgreSQL cuts names at 63 bytes. What begins as a name of the engine's own is one.
        let stem: String = match is_compared_alike && !self.is_reserved(key) {
            true => key.chars().take(12).collect(),
            false => "named".to_owned(),
        };
        let fresh = (self.fresh_ctes.len() + 1..)
            .map(|n| format!("{stem}_cte{n}"))
            .find(|fresh| is_free(fresh) && !self.engine_names.ctes.contains(fresh))
            .unwrap_or_default();
        *name = self.encode(&fresh);
        self.fresh_ctes.insert(fresh);
    }
}

/// The names of relations without a schema that stand anywhere in a part of a statement. A query among whose names its own is not
/// cannot read itself.
pub(in crate::resolve) fn relations_named(
    part: &impl Visit,
    resolver: &Resolver<'_>,
) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let _ = each_relation(part, &mut |name| {
        if let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
        {
            named.insert(resolver.key(ident).into_owned());
        }
        ControlFlow::Continue(())
    });
    named
}

/// The outputs under the names of a column alias list.
pub(in crate::resolve) fn rename_outputs(
    outputs: Vec<Output>,
    names: &[(String, String)],
    dialect: Dialect,
) -> Result<Vec<Output>, Rejection> {
    if names.is_empty() {
        return Ok(outputs);
    }
    // PostgreSQL takes a list that is shorter than the columns.
    let fits = match dialect {
        Dialect::Sqlite | Dialect::Mysql => names.len() == outputs.len(),
        Dialect::Postgres => names.len() <= outputs.len(),
    };
    if !fits {
        return Err(Rejection::new(
            Code::SyntaxInvalid,
            format!("{} columns are given {} names", outputs.len(), names.len()),
        ));
    }
    Ok(outputs
        .into_iter()
        .enumerate()
        .map(|(index, output)| match names.get(index) {
            Some((key, name)) => Output {
                key: key.as_str().into(),
                name: name.as_str().into(),
                ..output
            },
            None => output,
        })
        .collect())
}

pub(in crate::resolve) fn uneven() -> Rejection {
    Rejection::new(
        Code::SyntaxInvalid,
        "the rows of VALUES have different lengths",
    )
}
