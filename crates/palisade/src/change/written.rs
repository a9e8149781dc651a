//! What a change may write.

use serde::{Deserialize, Serialize};

use crate::catalog::Change;

/// Something that a change may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeWrite {
    /// What is done.
    pub change: Change,
    /// To rows of this table, as the database calls it.
    pub table: String,
    /// In this column; empty where rows are new or gone.
    pub column: String,
}
