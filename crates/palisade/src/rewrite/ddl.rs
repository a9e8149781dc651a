//! Definitions: nothing in them is rewritten. A definition over masks or row filters is refused, since neither would hold in
//! the object that stays in the database.

use std::sync::Arc;

use crate::rewrite::{
    authorized::AuthorizedDefinition,
    change::precheck::foreign_keys,
    draft::{Context, PrintedDefinition},
    relation_source::replace::has_obligations,
    statement::{Prepared, RewrittenStatement},
};
use crate::{code::Code, rejection::Rejection, resolve::ResolvedDdl, syntax, value::Params};

/// The statement of a definition and its permit.
///
/// # Errors
/// `obligation.inapplicable` where something in it is masked, hidden or filtered; `syntax.not-stable`;
/// `internal` if the printed text is not what was decided.
pub(crate) fn rewrite_definition(
    authorized: AuthorizedDefinition,
    context: Context<'_>,
) -> Result<RewrittenStatement, Rejection> {
    let (resolved, permit) = authorized.into_parts();
    if let Some(reserved) = permit.reserved() {
        // No engine estimates a definition.
        reserved.recheck_with_estimates(None, None)?;
    }
    if let Some((_, change)) = permit.filtered_cascades().iter().next() {
        return Err(foreign_keys::unreachable_change(
            *change,
            "a definition looks for no rows",
        ));
    }
    let ResolvedDdl {
        statement,
        references,
        access,
        does_nothing,
    } = resolved;
    let catalog = context.catalog;
    if let Some(reference) = references.iter().find(|r| has_obligations(r)) {
        let name = catalog
            .relation(reference.relation)
            .map_or("", |relation| relation.name.as_str());
        return Err(Rejection::new(
            Code::ObligationInapplicable,
            format!("`{name}` has masks or filters, which would not hold in a definition"),
        ));
    }
    let text = match does_nothing {
        true => None,
        false => Some(syntax::print_definition(
            &statement,
            catalog.dialect(),
            context.limits,
        )?),
    };
    let printed = PrintedDefinition {
        text,
        access,
        permit,
    };
    let prepared = Prepared::verify_definition(printed, context)?;
    Prepared::bind(&Arc::new(prepared), &Params::None)
}
