//! DELETE: the rows that it finds, and those that hang on them.

use std::collections::BTreeSet;

use crate::rewrite::change::{ChangeRewriter, RewrittenChange};
use crate::{
    catalog::{Change, ColumnId, Relation},
    policy::{WriteDecision, obligation::RowFilter},
    rejection::Rejection,
};

impl ChangeRewriter<'_> {
    /// What a DELETE needs around it.
    pub(in crate::rewrite) fn rewrite_delete(
        &self,
        relation: &Relation,
        write: &WriteDecision,
        seen: &RowFilter,
        functions: &mut BTreeSet<String>,
    ) -> Result<RewrittenChange, Rejection> {
        let mut rewritten = RewrittenChange::default();
        let joined = self.target.joined;
        let filters = [seen, &write.change];
        let reads = &mut rewritten.reads;
        rewritten.obligations.write_filter =
            self.build_write_filter(&filters, relation, joined, reads, functions)?;
        self.keep_dependents(&mut rewritten, relation, Change::Delete, &[], functions)?;
        Ok(rewritten)
    }

    /// Keeps `change` from rows on which others hang that foreign keys would change, and policy hides.
    pub(in crate::rewrite) fn keep_dependents(
        &self,
        rewritten: &mut RewrittenChange,
        relation: &Relation,
        change: Change,
        updated: &[ColumnId],
        functions: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        let looked = &mut rewritten.looked;
        let untouched =
            self.no_filtered_dependents(relation, change, updated, looked, functions)?;
        if let Some(untouched) = untouched {
            let violation = self.filter_dependents(
                &mut rewritten.obligations.write_filter,
                untouched,
                relation,
                &rewritten.reads,
                looked,
            )?;
            rewritten.violations.push(violation);
        }
        Ok(())
    }
}
