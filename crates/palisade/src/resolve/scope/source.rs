//! Sources of columns: tables, views, subqueries, functions.

use std::sync::Arc;

use crate::resolve::{ViewBody, scope::Found, steps::MASK};
use crate::{
    catalog::{ColumnId, Relation, RelationKind},
    lineage::{Lineage, TokenLineage},
    policy::obligation::{ColumnLevel, RelationDecision},
};

/// A column of a query's result.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The name the engine gives it.
    pub(crate) name: Arc<str>,
    /// The key it is looked up by from outside.
    pub(crate) key: Arc<str>,
    /// Where it comes from.
    pub(crate) lineage: Lineage,
}

/// A table expression in FROM.
pub(in crate::resolve) struct Source<'a> {
    /// The folded name that qualifies its columns; none for a join in parentheses without alias.
    pub(in crate::resolve) qualifier: Option<Arc<str>>,
    /// The folded schema that may stand before the qualifier: of a relation without alias.
    pub(in crate::resolve) schema: Option<Arc<str>>,
    pub(in crate::resolve) columns: Columns<'a>,
}

/// The columns of a source.
pub(in crate::resolve) enum Columns<'a> {
    /// Those of a relation that the principal sees.
    Relation {
        relation: &'a Relation,
        decision: Arc<RelationDecision>,
        /// Below a view hidden columns exist (as NULL).
        hidden_exist: bool,
        /// It stands as it is, whatever is decided: the target of a change. Its whole rows hold hidden
        /// columns too.
        bare: bool,
        /// For a view that stands as its query: that.
        body: Option<Arc<ViewBody>>,
    },
    /// Those of a subquery, CTE or table function.
    Derived(Vec<Output>),
}

/// Where a column that was found comes from: most come from a relation, and need no list.
pub(in crate::resolve) enum Origin<'f> {
    /// It is this column, given as these tokens if it is, and with so many steps in the expression that stands for it.
    Base(ColumnId, Option<TokenLineage>, u64),
    /// It is a column of a query.
    Derived(&'f Lineage),
    /// Several columns were merged into it.
    Merged(Lineage),
}

impl Origin<'_> {
    /// The column it is, unchanged, if it is one.
    pub(in crate::resolve) fn identity(&self) -> Option<ColumnId> {
        match self {
            Self::Base(id, _, _) => Some(*id),
            Self::Derived(lineage) => lineage.identity,
            Self::Merged(lineage) => lineage.identity,
        }
    }

    /// Every column it is made from.
    pub(in crate::resolve) fn columns(&self) -> &[ColumnId] {
        match self {
            Self::Base(id, _, _) => std::slice::from_ref(id),
            Self::Derived(lineage) => &lineage.columns,
            Self::Merged(lineage) => &lineage.columns,
        }
    }

    /// Which tokens it is.
    pub(in crate::resolve) fn tokens(&self) -> Option<TokenLineage> {
        match self {
            Self::Base(_, tokens, _) => tokens.clone(),
            Self::Derived(lineage) => lineage.tokens.clone(),
            Self::Merged(lineage) => lineage.tokens.clone(),
        }
    }

    /// Steps of the expression that an engine may put in its place.
    pub(in crate::resolve) fn size(&self) -> u64 {
        match self {
            Self::Base(_, _, size) => *size,
            Self::Derived(lineage) => lineage.size,
            Self::Merged(lineage) => lineage.size,
        }
    }

    pub(in crate::resolve) fn into_lineage(self) -> Lineage {
        match self {
            Self::Base(id, tokens, size) => {
                Lineage::from_column(id).with_tokens(tokens).with_size(size)
            }
            Self::Derived(lineage) => lineage.clone(),
            Self::Merged(lineage) => lineage,
        }
    }
}

impl<'a> Columns<'a> {
    /// The relation of the catalog that they are of.
    pub(in crate::resolve) fn relation(&self) -> Option<&'a Relation> {
        match self {
            Self::Relation {
                relation,
                decision: _,
                hidden_exist: _,
                bare: _,
                body: _,
            } => Some(relation),
            Self::Derived(_) => None,
        }
    }

    /// Whether they are of the target of a change, which stands in the text with all of its columns.
    pub(in crate::resolve) fn is_target(&self) -> bool {
        match self {
            Self::Relation {
                relation: _,
                decision: _,
                hidden_exist: _,
                bare,
                body: _,
            } => *bare,
            Self::Derived(_) => false,
        }
    }

    /// How many columns there are, hidden ones included.
    pub(in crate::resolve) fn len(&self) -> usize {
        match self {
            Self::Derived(columns) => columns.len(),
            Self::Relation {
                relation,
                decision: _,
                hidden_exist: _,
                bare: _,
                body: _,
            } => relation.columns.len(),
        }
    }

    /// The visible columns: key, name, lineage.
    pub(in crate::resolve) fn list(&self) -> Vec<Output> {
        let mut outputs = Vec::with_capacity(self.len());
        self.list_into(&mut outputs);
        outputs
    }

    /// Adds the visible columns to `outputs`.
    pub(in crate::resolve) fn list_into(&self, outputs: &mut Vec<Output>) {
        match self {
            Self::Derived(columns) => outputs.extend_from_slice(columns),
            Self::Relation {
                relation,
                decision,
                hidden_exist,
                bare: _,
                body,
            } => {
                for ((id, column), decided) in relation.column_ids().zip(&decision.columns) {
                    if !*hidden_exist && decided.level == ColumnLevel::Hidden {
                        continue;
                    }
                    let tokens = tokens_of(decision, body.as_deref(), id.index);
                    outputs.push(Output {
                        name: Arc::clone(&column.name),
                        key: Arc::clone(&column.key),
                        lineage: Lineage::from_column(id)
                            .with_tokens(tokens)
                            .with_size(size_of(decision, body.as_deref(), id.index)),
                    });
                }
            }
        }
    }

    /// The columns of a whole row.
    pub(in crate::resolve) fn whole_row_columns(&self) -> Vec<ColumnId> {
        match self {
            Self::Relation {
                relation,
                decision: _,
                hidden_exist: _,
                bare: true,
                body: _,
            } => relation.column_ids().map(|(id, _)| id).collect(),
            Self::Relation {
                relation: _,
                decision: _,
                hidden_exist: _,
                bare: false,
                body: _,
            }
            | Self::Derived(_) => self
                .list()
                .into_iter()
                .flat_map(|output| output.lineage.columns)
                .collect(),
        }
    }

    /// Whether what stands in the relation's place is not the relation itself.
    pub(in crate::resolve) fn has_obligation(&self) -> bool {
        match self {
            Self::Derived(_) => true,
            Self::Relation {
                relation: _,
                decision,
                hidden_exist: _,
                bare: _,
                body: _,
            } => decision.has_obligation(),
        }
    }

    /// The column called `key`.
    pub(in crate::resolve) fn find(&self, key: &str) -> Option<(Origin<'_>, &Arc<str>)> {
        match self {
            Self::Derived(columns) => columns
                .iter()
                .find(|c| *c.key == *key)
                .map(|c| (Origin::Derived(&c.lineage), &c.name)),
            Self::Relation {
                relation,
                decision,
                hidden_exist,
                bare: _,
                body,
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
                let tokens = tokens_of(decision, body.as_deref(), index);
                let size = size_of(decision, body.as_deref(), index);
                let origin = Origin::Base(id, tokens, size);
                Some((origin, &column.name))
            }
        }
    }

    /// Whether there is a column called `key`.
    pub(in crate::resolve) fn has(&self, key: &str) -> bool {
        match self {
            Self::Derived(columns) => columns.iter().any(|c| *c.key == *key),
            Self::Relation {
                relation,
                decision,
                hidden_exist,
                bare: _,
                body: _,
            } => relation
                .position(key)
                .and_then(|index| decision.columns.get(usize::from(index)))
                .is_some_and(|decided| *hidden_exist || decided.level != ColumnLevel::Hidden),
        }
    }

    /// What `rowid` means in this source, where no column is called so.
    pub(in crate::resolve) fn rowid<'f>(&'f self, qualifier: Option<&'f str>) -> Option<Found<'f>> {
        match self {
            Self::Derived(_) => None,
            Self::Relation {
                relation,
                decision,
                hidden_exist: _,
                bare: _,
                body: _,
            } => match relation.rowid_alias {
                Some(index) => {
                    let key = &relation.column(index)?.key;
                    self.find(key).map(|(origin, name)| Found::RowIdAlias {
                        origin,
                        qualifier,
                        name,
                    })
                }
                None => (relation.has_rowid && !decision.has_obligation()).then_some(Found::RowId),
            },
        }
    }

    /// A system column: of a table that stands as it is, not of what stands in its place.
    pub(in crate::resolve) fn system(&self) -> Option<Found<'_>> {
        match self {
            Self::Derived(_) => None,
            Self::Relation {
                relation,
                decision,
                hidden_exist: _,
                bare: _,
                body: _,
            } => (relation.kind == RelationKind::Table && !decision.has_obligation())
                .then_some(Found::RowId),
        }
    }
}

/// The tokens that a column is given as: those that stand for it, or that the query of its view gives.
fn tokens_of(
    decision: &RelationDecision,
    body: Option<&ViewBody>,
    index: u16,
) -> Option<TokenLineage> {
    if !decision.is_plain(index) {
        return decision.token(index).cloned().map(TokenLineage::Of);
    }
    let output = body?.resolved.outputs.get(usize::from(index))?;
    let tokens = output.lineage.tokens.clone();
    tokens.filter(|tokens| tokens.keys().is_some())
}

/// Steps of the expression that stands for a column: that of its view, and its mask.
fn size_of(decision: &RelationDecision, body: Option<&ViewBody>, index: u16) -> u64 {
    let output = body.and_then(|body| body.resolved.outputs.get(usize::from(index)));
    let size = output.map_or(0, |output| output.lineage.size);
    let is_plain = decision.is_plain(index);
    size.saturating_add(if is_plain { 0 } else { MASK })
}

/// PostgreSQL's system columns (<https://www.postgresql.org/docs/current/ddl-system-columns.html>).
pub(in crate::resolve) fn is_system_column(key: &str) -> bool {
    matches!(key, "ctid" | "xmin" | "xmax" | "cmin" | "cmax" | "tableoid")
}
