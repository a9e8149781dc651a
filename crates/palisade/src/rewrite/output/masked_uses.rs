//! Which masked columns a statement used, and for what, and whether it read what has no rows for who asks: it follows from the
//! statement and from policy alone.

use crate::rewrite::{output::columns::replacement_of, relation_source::if_empty};
use crate::{
    access::{AccessSet, Usage},
    answer::{EmptyReason, MaskedUse, Replacement, is_told},
    catalog::{Catalog, ColumnId, RelationId, RelationKind},
    rejection::Rejection,
    resolve::{Reference, Visible},
};

/// Usages inside of a view that decide which rows it gives.
const CHOOSES_ROWS: [Usage; 3] = [Usage::Filter, Usage::Join, Usage::Group];

/// The masked columns of `references` that are read, the views of which masks choose the rows, and whether policy shows no row
/// of what is read.
///
/// # Errors
/// `policy.evaluation-failed`.
pub(in crate::rewrite) fn masked_uses(
    access: &AccessSet,
    references: &[Reference],
    catalog: &Catalog,
    visible: &dyn Visible,
) -> Result<Vec<MaskedUse>, Rejection> {
    let mut found = Vec::new();
    for (column, usages) in access.columns() {
        let is_named = references.iter().any(|r| r.relation == column.relation);
        if !is_named || !is_told(usages) {
            continue;
        }
        let Some(replacement) = replacement_of(column, references, visible)? else {
            continue;
        };
        let replacement = match replacement {
            Replacement::NullBesideGroups(_) if is_view(column.relation, catalog) => {
                Replacement::NullThroughView
            }
            other => other,
        };
        if let Some(name) = column_name(column, catalog) {
            found.push(MaskedUse::Column {
                name,
                replacement,
                usages,
            });
        }
    }
    let mut seen = Vec::new();
    for reference in references {
        let Some(body) = &reference.body else {
            continue;
        };
        if seen.contains(&reference.relation) {
            continue;
        }
        seen.push(reference.relation);
        let resolved = &body.resolved;
        for (column, usages) in resolved.access.columns() {
            let chooses = CHOOSES_ROWS.iter().any(|usage| usages.contains(*usage));
            if chooses
                && replacement_of(column, &resolved.references, visible)?
                    .is_some_and(Replacement::hides_values)
            {
                let view = catalog.relation(reference.relation);
                found.extend(view.map(|view| MaskedUse::View {
                    name: view.name.clone(),
                }));
                break;
            }
        }
    }
    let is_reading = access.changes().next().is_none();
    if is_reading && if_empty(references) == EmptyReason::NoRowsPermitted {
        found.push(MaskedUse::NoRows);
    }
    Ok(found)
}

fn is_view(relation: RelationId, catalog: &Catalog) -> bool {
    let kind = catalog.relation(relation).map(|relation| relation.kind);
    matches!(kind, Some(RelationKind::View | RelationKind::Materialized))
}

/// `customers.email`, as declared; none of the engine's own relations, whose columns a principal may not know.
fn column_name(column: ColumnId, catalog: &Catalog) -> Option<String> {
    let relation = catalog.relation(column.relation)?;
    match relation.kind {
        RelationKind::System | RelationKind::Virtual => None,
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => {
            let column = relation.columns.get(usize::from(column.index))?;
            Some(format!("{}.{}", relation.name, column.name))
        }
    }
}
