//! What a foreign key may do by a column that the session does not see.

use crate::{access::AccessSet, catalog::ColumnId, code::Code, rejection::Rejection};

/// The refusal of a hidden column by which a foreign key's action reaches rows, while no statement names it. Policies in
/// `determining` hide it. None where the engine changes nothing by itself in its relation.
pub(in crate::policy) fn refuse_hidden_key(
    access: &AccessSet,
    column: ColumnId,
    determining: &[String],
) -> Option<Rejection> {
    let mut changes = access.changes();
    let is_reached = changes.any(|change| change.cascaded && change.relation == column.relation);
    let message = "a foreign key would reach rows by a column that is not shown";
    is_reached.then(|| {
        Rejection::new(Code::ObligationInapplicable, message).with_policies(determining.to_vec())
    })
}
