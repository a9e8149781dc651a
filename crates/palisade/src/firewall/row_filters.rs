//! The conditions of rows that a session is given: for whoever makes rows that satisfy and violate them.

use crate::firewall::{Firewall, access_table::is_enumerated};
use crate::{
    catalog::RelationId,
    policy::obligation::{RowFilter, Visibility},
    rejection::Rejection,
    session::Session,
};

/// Which rows of a table a session sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRows {
    /// The table or view.
    pub relation: RelationId,
    /// Those that it sees.
    pub rows: RowFilter,
}

impl Firewall {
    /// Which rows `session` sees of each table and view that it may select. It is the operator's: conditions stand in it.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn seen_rows(&self, session: &Session) -> Result<Vec<SeenRows>, Rejection> {
        let view = self.policies.session(session);
        let mut out = Vec::new();
        for relation in self.catalog.relations() {
            if !is_enumerated(relation) {
                continue;
            }
            let decision = view.relation(relation.id)?;
            if decision.visibility == Visibility::Selectable {
                out.push(SeenRows {
                    relation: relation.id,
                    rows: decision.rows.clone(),
                });
            }
        }
        Ok(out)
    }
}
