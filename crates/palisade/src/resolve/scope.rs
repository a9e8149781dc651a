//! What a name can mean at one place of a statement.

use std::sync::Arc;

use super::cartesian::Links;
use crate::{
    catalog::{ColumnId, Relation},
    lineage::Lineage,
    policy::obligation::{ColumnLevel, RelationDecision},
};

/// A column of a query's result.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The name the engine gives it.
    pub(crate) name: String,
    /// The key it is looked up by from outside.
    pub(crate) key: String,
    /// Where it comes from.
    pub(crate) lineage: Lineage,
}

/// A table expression in FROM.
pub(super) struct Source<'a> {
    /// The folded name that qualifies its columns; none for a join in parentheses without alias.
    pub(super) qualifier: Option<String>,
    pub(super) columns: Columns<'a>,
}

/// The columns of a source.
pub(super) enum Columns<'a> {
    /// Those of a relation that the principal sees.
    Relation {
        relation: &'a Relation,
        decision: Arc<RelationDecision>,
        /// Below a view hidden columns exist (as NULL).
        hidden_exist: bool,
    },
    /// Those of a subquery, CTE or table function.
    Derived(Vec<Output>),
}

/// Where a name was found.
pub(super) enum Found {
    /// A column of a source.
    Column(Lineage, String),
    /// The row id of a relation with an INTEGER PRIMARY KEY: this column.
    RowIdAlias {
        lineage: Lineage,
        /// The source's qualifier: the column's bare name may be another's too.
        qualifier: Option<String>,
        name: String,
    },
    /// The row id of a relation without.
    RowId,
    /// An output of the same SELECT, by its alias.
    Alias(Lineage),
    /// More than one.
    Ambiguous,
    /// None.
    Nothing,
}

/// The sources of one SELECT, inside those of the SELECTs around it.
pub(super) struct Scope<'a, 's> {
    pub(super) sources: Vec<Source<'a>>,
    /// Columns that a USING or NATURAL join has merged into one further left: (source, key).
    pub(super) merged: Vec<(usize, String)>,
    /// Whether a join in parentheses stands among the sources, and not first.
    pub(super) nested: bool,
    /// Which sources conditions tie to each other.
    pub(super) links: Links,
    /// Outputs that may be named here.
    pub(super) aliases: &'s [Output],
    pub(super) parent: Option<&'s Scope<'a, 's>>,
}

impl<'a> Columns<'a> {
    /// The visible columns: key, name, lineage.
    pub(super) fn list(&self) -> Vec<Output> {
        match self {
            Self::Derived(columns) => columns.clone(),
            Self::Relation {
                relation,
                decision,
                hidden_exist,
            } => relation
                .column_ids()
                .zip(&decision.columns)
                .filter(|(_, column)| *hidden_exist || column.level != ColumnLevel::Hidden)
                .map(|((id, column), _)| Output {
                    name: column.name.clone(),
                    key: column.key.clone(),
                    lineage: Lineage::of(id),
                })
                .collect(),
        }
    }

    /// The column called `key`.
    pub(super) fn find(&self, key: &str) -> Option<(Lineage, &str)> {
        match self {
            Self::Derived(columns) => columns
                .iter()
                .find(|c| c.key == key)
                .map(|c| (c.lineage.clone(), c.name.as_str())),
            Self::Relation {
                relation,
                decision,
                hidden_exist,
            } => {
                let index = relation.position(key)?;
                let column = relation.column(index)?;
                let decided = decision.columns.get(usize::from(index))?;
                if !hidden_exist && decided.level == ColumnLevel::Hidden {
                    return None;
                }
                let id = ColumnId {
                    relation: relation.id,
                    index,
                };
                Some((Lineage::of(id), column.name.as_str()))
            }
        }
    }

    /// What `rowid` means in this source, where no column is called so.
    fn rowid(&self, qualifier: Option<&str>) -> Option<Found> {
        match self {
            Self::Derived(_) => None,
            Self::Relation {
                relation,
                decision,
                hidden_exist: _,
            } => match relation.rowid_alias {
                Some(index) => {
                    let key = &relation.column(index)?.key;
                    self.find(key).map(|(lineage, name)| Found::RowIdAlias {
                        lineage,
                        qualifier: qualifier.map(str::to_owned),
                        name: name.to_owned(),
                    })
                }
                None => (relation.has_rowid && !decision.has_obligation()).then_some(Found::RowId),
            },
        }
    }
}

impl<'a, 's> Scope<'a, 's> {
    /// A scope without sources.
    pub(super) fn inside(parent: Option<&'s Scope<'a, 's>>) -> Self {
        Self {
            sources: Vec::new(),
            merged: Vec::new(),
            nested: false,
            links: Links::default(),
            aliases: &[],
            parent,
        }
    }

    /// Looks `key` up here and then outwards, as SQLite does: columns, then aliases, then the row id.
    pub(super) fn find(&self, qualifier: Option<&str>, key: &str) -> Found {
        match self.find_here(qualifier, key) {
            Found::Nothing => match self.parent {
                Some(parent) => parent.find(qualifier, key),
                None => Found::Nothing,
            },
            found @ (Found::Column(..)
            | Found::RowIdAlias {
                lineage: _,
                qualifier: _,
                name: _,
            }
            | Found::RowId
            | Found::Alias(_)
            | Found::Ambiguous) => found,
        }
    }

    fn find_here(&self, qualifier: Option<&str>, key: &str) -> Found {
        let mut found = Found::Nothing;
        for (index, source) in self.sources.iter().enumerate() {
            if qualifier.is_some() && source.qualifier.as_deref() != qualifier {
                continue;
            }
            if qualifier.is_none() && self.merged.iter().any(|(i, k)| *i == index && k == key) {
                continue;
            }
            if let Some((lineage, name)) = source.columns.find(key) {
                found = match found {
                    Found::Nothing => Found::Column(lineage, name.to_owned()),
                    _ => return Found::Ambiguous,
                };
            }
        }
        if !matches!(found, Found::Nothing) {
            return found;
        }
        if qualifier.is_none()
            && let Some(output) = self.aliases.iter().find(|o| o.key == key)
        {
            return Found::Alias(output.lineage.clone());
        }
        if matches!(key, "rowid" | "oid" | "_rowid_") {
            let mut rowids = self
                .sources
                .iter()
                .filter(|s| qualifier.is_none() || s.qualifier.as_deref() == qualifier)
                .filter_map(|s| s.columns.rowid(s.qualifier.as_deref()));
            return match (rowids.next(), rowids.next()) {
                (Some(found), None) => found,
                (Some(_), Some(_)) => Found::Ambiguous,
                (None, _) => Found::Nothing,
            };
        }
        Found::Nothing
    }

    /// The positions of the sources that a column's name can mean.
    pub(super) fn positions(&self, qualifier: Option<&str>, key: &str) -> Vec<usize> {
        self.sources
            .iter()
            .enumerate()
            .filter(|(_, s)| qualifier.is_none() || s.qualifier.as_deref() == qualifier)
            .filter(|(_, s)| s.columns.find(key).is_some() || key == "rowid")
            .map(|(index, _)| index)
            .collect()
    }

    /// Names that can be meant here, for "did you mean".
    pub(super) fn visible_names(&self, qualifier: Option<&str>) -> Vec<String> {
        self.sources
            .iter()
            .filter(|s| qualifier.is_none() || s.qualifier.as_deref() == qualifier)
            .flat_map(|s| s.columns.list())
            .map(|o| o.name)
            .collect()
    }

    /// The outputs of `*`, or of `qualifier.*`.
    pub(super) fn star(&self, qualifier: Option<&str>) -> Option<Vec<Output>> {
        let mut outputs = Vec::new();
        let mut any = false;
        for (index, source) in self.sources.iter().enumerate() {
            if qualifier.is_some() && source.qualifier.as_deref() != qualifier {
                continue;
            }
            any = true;
            outputs.extend(source.columns.list().into_iter().filter(|output| {
                qualifier.is_some()
                    || !self
                        .merged
                        .iter()
                        .any(|(i, key)| *i == index && *key == output.key)
            }));
        }
        any.then_some(outputs)
    }
}
