//! What the columns of an answer are: whether a mask stands before them, and of which type they come.

use std::sync::Arc;

use crate::rewrite::{output::value_type::value_type, relation_source::mask};
use crate::{
    answer::{OutputColumn, Replacement},
    catalog::{Catalog, ColumnId, without_labels},
    dialect::Dialect,
    lineage::TokenLineage,
    policy::obligation::{ColumnDecision, ColumnLevel},
    rejection::Rejection,
    resolve::{Output, Reference, ResolvedStatement, Visible},
    token::{TOKEN_TYPE, TokenKeys},
};

/// The columns of a statement that gives `outputs`.
pub(in crate::rewrite) fn columns(
    outputs: &[Output],
    references: &[Reference],
    catalog: &Catalog,
    visible: &dyn Visible,
) -> Result<Vec<OutputColumn>, Rejection> {
    outputs
        .iter()
        .map(|output| {
            let declared = || {
                let column = output.lineage.identity.and_then(|id| catalog.column(id));
                column.map(|column| Arc::clone(&column.type_name))
            };
            let given = replaced_type(output, references, catalog, visible)?;
            let masked = has_masked_source(output, references, visible)?;
            let type_name = given.or_else(declared).unwrap_or_default();
            Ok(OutputColumn {
                name: Arc::clone(&output.name),
                type_name: if masked {
                    without_labels(&type_name)
                } else {
                    type_name
                },
                masked,
            })
        })
        .collect()
}

/// What is below a column of a view.
pub(crate) struct ViewBelow {
    /// Whether a mask stands before anything that it is made from.
    pub(crate) masked: bool,
    /// The type that tokens or a mask give it, where that is not the declared one.
    pub(crate) type_name: Option<Arc<str>>,
    /// The type of its values, where the engine declares none of what is computed and the expression tells.
    pub(crate) value_type: Option<&'static str>,
}

/// What is below each column of the view whose query is `resolved`.
///
/// # Errors
/// `policy.evaluation-failed`.
pub(crate) fn columns_below(
    resolved: &ResolvedStatement,
    catalog: &Catalog,
    visible: &dyn Visible,
) -> Result<Vec<ViewBelow>, Rejection> {
    let references = &resolved.references;
    let declared = |name: &str| {
        let key = catalog.dialect().fold(name);
        let mut found = references.iter().filter_map(|reference| {
            let relation = catalog.relation(reference.relation)?;
            let column = relation.position(&key).and_then(|at| relation.column(at))?;
            Some(&*column.type_name)
        });
        // Of two it is not known here which is meant.
        found.next().filter(|_| found.next().is_none())
    };
    let outputs = resolved.outputs.iter().enumerate();
    outputs
        .map(|(index, output)| {
            Ok(ViewBelow {
                value_type: match catalog.dialect() {
                    Dialect::Sqlite => value_type(&resolved.query, index, &declared),
                    Dialect::Postgres | Dialect::Mysql => None,
                },
                masked: has_masked_source(output, references, visible)?,
                type_name: replaced_type(output, references, catalog, visible)?,
            })
        })
        .collect()
}

/// The keys of the tokens that an output is, or that are among its values.
pub(in crate::rewrite) fn token(output: &Output) -> Option<&Arc<TokenKeys>> {
    output.lineage.tokens.as_ref().and_then(TokenLineage::keys)
}

fn has_masked_source(
    output: &Output,
    references: &[Reference],
    visible: &dyn Visible,
) -> Result<bool, Rejection> {
    Ok(replacement_below(output, references, visible)?.is_some())
}

/// What stands before any of the columns that `output` is made from: a mask, if one of them has one.
fn replacement_below(
    output: &Output,
    references: &[Reference],
    visible: &dyn Visible,
) -> Result<Option<Replacement>, Rejection> {
    let mut found = None;
    for column in &output.lineage.columns {
        found = found.max(replacement_of(*column, references, visible)?);
    }
    Ok(found)
}

/// What stands before `column`, or before what a view's column is made from.
///
/// # Errors
/// `policy.evaluation-failed`.
pub(in crate::rewrite) fn replacement_of(
    column: ColumnId,
    references: &[Reference],
    visible: &dyn Visible,
) -> Result<Option<Replacement>, Rejection> {
    let level = |columns: &[ColumnDecision], is_open: bool| {
        columns
            .get(usize::from(column.index))
            .map_or(Some(Replacement::Mask), |column| match &column.level {
                ColumnLevel::Plain => None,
                ColumnLevel::Masked(mask) => Some(match mask.smallest_group() {
                    Some(smallest) if is_open => Replacement::Groups(smallest),
                    Some(smallest) => Replacement::NullBesideGroups(smallest),
                    None if mask.token().is_some() => Replacement::Tokens,
                    None => Replacement::Mask,
                }),
                ColumnLevel::Hidden => Some(Replacement::Mask),
            })
    };
    let own = match references.iter().find(|r| r.relation == column.relation) {
        Some(reference) => level(&reference.decision.columns, reference.opens(column.index)),
        None => level(&visible.relation(column.relation)?.columns, false),
    };
    match (own, view_sources(column, references)) {
        (Some(own), _) => Ok(Some(own)),
        (None, Some((output, below))) => replacement_below(output, below, visible),
        (None, None) => Ok(None),
    }
}

/// The type of an output where tokens or a mask give it another than the declared one.
fn replaced_type(
    output: &Output,
    references: &[Reference],
    catalog: &Catalog,
    visible: &dyn Visible,
) -> Result<Option<Arc<str>>, Rejection> {
    if token(output).is_some() {
        return Ok(Some(TOKEN_TYPE.into()));
    }
    let Some(id) = output.lineage.identity else {
        return Ok(None);
    };
    let decided = |level: Option<&ColumnLevel>| match (level, catalog.column(id)) {
        (Some(ColumnLevel::Masked(mask)), Some(column)) => {
            mask::type_name(mask, column, catalog.dialect())
        }
        (Some(ColumnLevel::Masked(_) | ColumnLevel::Plain | ColumnLevel::Hidden) | None, _) => None,
    };
    let level =
        |columns: &[ColumnDecision]| decided(columns.get(usize::from(id.index)).map(|c| &c.level));
    let own = match references.iter().find(|r| r.relation == id.relation) {
        Some(reference) => level(&reference.decision.columns),
        None => level(&visible.relation(id.relation)?.columns),
    };
    match (own, view_sources(id, references)) {
        (Some(own), _) => Ok(Some(own)),
        (None, Some((output, below))) => replaced_type(output, below, catalog, visible),
        (None, None) => Ok(None),
    }
}

/// What a view's column is made from, and what its query reads.
fn view_sources(column: ColumnId, references: &[Reference]) -> Option<(&Output, &[Reference])> {
    let body = references
        .iter()
        .filter(|reference| reference.relation == column.relation)
        .find_map(|reference| reference.body.as_ref())?;
    let output = body.resolved.outputs.get(usize::from(column.index))?;
    Some((output, &body.resolved.references))
}
