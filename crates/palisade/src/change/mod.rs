//! Changes that are proposed, looked at and approved before they are kept: their life, what they do row by row, and where they wait.
//!
//! A gate runs them, by the same decisions, checks and tickets as [`execute`](crate::guard::Guard::execute).

mod chain;
mod difference;
mod generated;
mod inverse;
mod lifecycle;
mod receipt;
mod referring;
mod row_image;
mod store;
mod written;

pub use chain::{ChainFault, ChainedReceipt, ChainedReceiptBody};
pub(crate) use difference::spell;
pub use difference::{Difference, GeneratedColumns, RowDifference, TableDifference, pair_rows};
pub(crate) use inverse::write_key;
pub use inverse::{Inverse, InverseFault, OtherRow};
pub use lifecycle::{ChangeEvent, ChangeState, TRANSITIONS, WrongState, apply};
pub use receipt::{LEDGER, LedgerEntry, Receipt, TableCount, row_text};
pub(crate) use referring::Referring;
pub(crate) use row_image::images_text;
pub use row_image::{IMAGES, ImageCells, ImageFault, RowImage, read_images, write_images};
pub use store::{
    ChangeBeginning, ChangeBody, ChangeRecord, ChangeStatement, ChangeStore, PreviewMark, Step,
    Stepped, TableRevert,
};
pub use written::ChangeWrite;
