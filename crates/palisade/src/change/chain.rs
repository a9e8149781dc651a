//! Receipts in the order in which they were made, each bound to the one before it.

use serde::{Deserialize, Serialize};

use crate::change::receipt::Receipt;

/// What a place in the chain holds. A store seals it, and its digest is what the next place names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainedReceiptBody {
    /// Of this form.
    pub version: u32,
    /// Its place; the first is 1.
    pub number: u64,
    /// The digest of the place before it; empty at the first.
    pub previous: String,
    /// Of which change.
    pub change: String,
    /// The operator's name of the database.
    pub connection: Option<String>,
    /// Who proposed the change.
    pub proposed_by: String,
    /// Why, in the words of who proposed it.
    pub reason: Option<String>,
    /// The tables and views that its statements read or change, as the database calls them.
    pub tables: Vec<String>,
    /// Whether the database has the receipt too.
    pub in_database: bool,
    /// How many rows can be traced by it.
    pub rows: u64,
    /// A digest of the marks of these rows.
    pub marks: String,
    /// The receipt.
    pub receipt: Receipt,
}

/// A receipt in its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedReceipt {
    /// What it holds.
    pub body: ChainedReceiptBody,
    /// Its digest under the store's key.
    pub digest: String,
}

/// What is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// A receipt is not what was written: it was edited, or stands in another's place.
    #[error("receipt {0} was edited, or stands in the place of another one")]
    Altered(u64),
    /// A receipt is gone.
    #[error("receipt {0} is missing")]
    Missing(u64),
    /// Which rows a receipt is about is not what was written.
    #[error("the rows of receipt {0} are others than were written")]
    OtherRows(u64),
    /// The note of the last receipt is not what was written.
    #[error("the note of the last receipt was edited or is missing")]
    NoHead,
}
