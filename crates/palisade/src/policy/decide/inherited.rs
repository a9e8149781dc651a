//! Columns of views that policies mask for what they are computed from, and for nothing else.
//!
//! A view's query reads its tables under their masks and filters. What it computes of masked values needs no second mask: of
//! hashes it would make other hashes, and NULL of a count. Only where somebody says something of the view itself, or where a
//! mask changes the type that the view's query computes with, the column keeps a mask of its own.

use cedar_policy::{Effect, PolicyId};

use crate::policy::{
    cedar::{failure::Failure, schema, schema::PolicyAction},
    decide::columns::is_computed,
    obligation::{ColumnDecision, ColumnLevel, Mask, RelationDecision},
    set::Loaded,
};
use crate::{
    catalog::{Column, ColumnId, Relation, RelationKind, TypeClass},
    dialect::Dialect,
    syntax::mask_expr::ValueKind,
};

/// What is decided about a relation.
pub(in crate::policy) type Decide<'d> = &'d dyn Fn(&Relation) -> Result<RelationDecision, Failure>;

/// Takes the second mask from the columns of a view. `decide` says what of the relations that the view reads is shown.
pub(in crate::policy) fn settle_view(
    loaded: &Loaded,
    decide: Decide<'_>,
    view: &Relation,
    columns: &mut [ColumnDecision],
) -> Result<(), Failure> {
    match view.kind {
        RelationKind::View => {}
        // What a materialised view holds was computed before any mask.
        RelationKind::Materialized
        | RelationKind::Table
        | RelationKind::Virtual
        | RelationKind::System => return Ok(()),
    }
    for ((id, column), decided) in view.column_ids().zip(columns) {
        let demanded = match &decided.level {
            ColumnLevel::Masked(mask) => match mask {
                // The values of these are compared, or put together, by what the view's column has.
                Mask::Token(_) | Mask::AggregateOnly(_) => None,
                Mask::Date(_)
                | Mask::Bucket(_)
                | Mask::First(_)
                | Mask::Last(_)
                | Mask::Email
                | Mask::Hash(_)
                | Mask::Fixed(_)
                | Mask::Expr(_)
                | Mask::Paths(_)
                | Mask::Inherited(_)
                // Of another type too: NULL stands for masks that do not fit.
                | Mask::Null => Some(mask.clone()),
            },
            ColumnLevel::Plain | ColumnLevel::Hidden => None,
        };
        if let Some(demanded) = demanded
            && is_computed(loaded, id, &column.uid)
            // What the classification says of the column itself, its bases lack.
            && !loaded.tags.has_own(id)
            && is_masked_below(loaded, decide, (id, decided))?
        {
            decided.level = ColumnLevel::Masked(Mask::Inherited(Box::new(demanded)));
        }
    }
    Ok(())
}

/// Whether what masks the column masks what it is computed from, by values of the same type.
fn is_masked_below(
    loaded: &Loaded,
    decide: Decide<'_>,
    (id, decided): (ColumnId, &ColumnDecision),
) -> Result<bool, Failure> {
    let mut reasons = mask_reasons(loaded, decided);
    if reasons.is_empty() {
        return Ok(false);
    }
    for base in loaded.flow.columns.get(&id).into_iter().flatten() {
        let of = loaded.catalog.relation(base.relation);
        let Some(of) = of.filter(|of| schema::has_entity(of) && of.id != id.relation) else {
            return Ok(false);
        };
        // Of a view below a view too, which no view stands on twice: the catalog's views are no circle.
        let decision = decide(of)?;
        let at = usize::from(base.index);
        let (Some(below), Some(column)) = (decision.columns.get(at), of.columns.get(at)) else {
            return Ok(false);
        };
        match &below.level {
            ColumnLevel::Plain => {}
            ColumnLevel::Hidden => return Ok(false),
            ColumnLevel::Masked(mask) => {
                if !keeps_class(mask, column, loaded.catalog.dialect()) {
                    return Ok(false);
                }
                let known = mask_reasons(loaded, below);
                reasons.retain(|reason| !known.contains(reason));
            }
        }
    }
    Ok(reasons.is_empty())
}

/// The policies for which a column is masked so: forbids of the plain value, and whatever demands a mask.
fn mask_reasons<'d>(loaded: &Loaded, decided: &'d ColumnDecision) -> Vec<&'d str> {
    let plain = loaded.policies.for_action(PolicyAction::ReadPlain);
    let is_reason = |id: &&str| {
        let policy = plain.and_then(|policies| policies.policy(&PolicyId::new(id)));
        let demands = loaded
            .annotations
            .get(*id)
            .is_some_and(|a| a.mask.is_some());
        demands || policy.is_some_and(|policy| policy.effect() == Effect::Forbid)
    };
    let policies = decided.policies.iter().map(String::as_str);
    policies.filter(is_reason).collect()
}

/// Whether what a mask gives are values of the class of types that the column has, so that a view's query computes with them.
fn keeps_class(mask: &Mask, column: &Column, dialect: Dialect) -> bool {
    match mask {
        Mask::Date(_) | Mask::Bucket(_) | Mask::Paths(_) | Mask::Inherited(_) => true,
        Mask::First(_) | Mask::Last(_) | Mask::Email | Mask::Hash(_) | Mask::Fixed(_) => {
            column.class == TypeClass::Text
        }
        Mask::Expr(mask) => {
            let value = ValueKind::from_class(column.class, dialect);
            value.is_some() && mask.formula.kind(value).ok() == value
        }
        // Of no value nothing is computed that tells anything: NULL says it, where a count would be 0.
        Mask::Null => false,
        Mask::Token(_) | Mask::AggregateOnly(_) => false,
    }
}
