//! MERGE (PostgreSQL): refused over a target with row policies, and otherwise left as it is.

use crate::rewrite::change::ChangeRewriter;
use crate::{
    catalog::Relation,
    code::Code,
    policy::{WriteDecision, obligation::RowFilter},
    rejection::Rejection,
};

impl ChangeRewriter<'_> {
    /// Checks that policy lets every row of `relation` be seen, changed and added.
    ///
    /// # Errors
    /// `obligation.inapplicable` where a row policy would have to hold in each clause.
    pub(in crate::rewrite) fn require_unfiltered_merge(
        &self,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
    ) -> Result<(), Rejection> {
        let filters = [seen, &write.change, &write.add];
        if filters
            .into_iter()
            .all(|rows| *rows == RowFilter::Everything)
        {
            return Ok(());
        }
        Err(Rejection::new(
            Code::ObligationInapplicable,
            format!(
                "row policies of `{}` cannot hold in MERGE: write UPDATE ... FROM, DELETE ... USING, or INSERT ... ON CONFLICT",
                relation.name
            ),
        ))
    }
}
