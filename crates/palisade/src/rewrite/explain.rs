//! EXPLAIN: the reads of which no query plan is shown.

use crate::rewrite::relation_source::replace::has_obligations;
use crate::{
    access::AccessSet, catalog::Catalog, code::Code, rejection::Rejection, resolve::Reference,
};

/// A read of which no query plan is shown: the plan would show estimates, conditions and keys of hidden rows and columns.
pub(in crate::rewrite) enum UnplannableRead<'r> {
    /// A relation with masks or row filters.
    Reference(&'r Reference),
    /// One of the engine's own.
    System,
}

/// The first such read of a statement.
pub(in crate::rewrite) fn unplannable_read<'r>(
    references: &'r [Reference],
    access: &AccessSet,
    catalog: &Catalog,
) -> Option<UnplannableRead<'r>> {
    if let Some(reference) = references.iter().find(|r| has_obligations(r)) {
        return Some(UnplannableRead::Reference(reference));
    }
    let mut read = access.relations().filter_map(|id| catalog.relation(id));
    let is_system = access.system_relations().next().is_some()
        || read.any(|relation| relation.system.is_some());
    is_system.then_some(UnplannableRead::System)
}

impl UnplannableRead<'_> {
    /// The refusal of EXPLAIN over it.
    pub(in crate::rewrite) fn refusal(&self, catalog: &Catalog) -> Rejection {
        let message = match self {
            Self::System => {
                "the plan of a statement over system relations is not shown; run the statement itself"
                    .to_owned()
            }
            Self::Reference(reference) => {
                let name = catalog
                    .relation(reference.relation)
                    .map_or("", |relation| relation.name.as_str());
                format!(
                    "the plan of a statement over `{name}` would show what masks and filters hide; run the statement itself"
                )
            }
        };
        Rejection::new(Code::ObligationInapplicable, message)
    }
}
