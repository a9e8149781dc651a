//! What a session sees of each column: for an operator who wants to know what policies make of a database.

use serde::Serialize;

use crate::firewall::{Firewall, trace::describe_level};
use crate::{
    catalog::RelationKind,
    policy::obligation::{ColumnLevel, Visibility},
    rejection::Rejection,
    session::Session,
};

/// What a session sees of a column, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownColumn {
    /// The table or view, as policies name it.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// Its declared type, empty if none.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its tags, those of what it is computed from included.
    pub tags: Vec<String>,
    /// The names and patterns of the classification that chose the column itself.
    pub chosen_by: Vec<String>,
    /// `plain`, `mask` with the mask, or `hidden`.
    pub level: String,
    /// Ids of the policies that determined it.
    pub policies: Vec<String>,
}

impl Firewall {
    /// What `session` sees of each column of each table and view, in the catalog's order. Relations of the engine's own are
    /// left out. It is the operator's: columns stand in it that do not exist for the session.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub fn shown_columns(&self, session: &Session) -> Result<Vec<ShownColumn>, Rejection> {
        let session_view = self.policies.session(session);
        let mut out = Vec::new();
        for relation in self.catalog.relations() {
            match relation.kind {
                RelationKind::Table | RelationKind::View | RelationKind::Materialized => {}
                RelationKind::Virtual | RelationKind::System => continue,
            }
            let decision = session_view.relation(relation.id)?;
            let is_read = decision.visibility == Visibility::Selectable;
            for ((id, column), decided) in relation.column_ids().zip(&decision.columns) {
                let level = if is_read {
                    &decided.level
                } else {
                    &ColumnLevel::Hidden
                };
                out.push(ShownColumn {
                    table: relation.uid.clone(),
                    column: column.name.to_string(),
                    type_name: column.type_name.to_string(),
                    tags: self.policies.tags(id),
                    chosen_by: self.policies.choices(id),
                    level: describe_level(level),
                    policies: decided.policies.clone(),
                });
            }
        }
        Ok(out)
    }
}
