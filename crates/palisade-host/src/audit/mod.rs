//! The audit log: one JSON line a call, each chained to the one before under a key.
//!
//! | file | holds |
//! |---|---|
//! | `AUDIT` | the newest lines; only its owner reads it |
//! | `AUDIT.000001` … | older ones, renamed when the file was full or old |
//!
//! Beside records, a chain has lines that say what became of the log itself: `begin` is the first of a file, `torn` tells
//! of half a line that a crash left, and `removed` of old files that were removed.

mod anchor;
mod anchor_command;
mod chain;
mod file;
mod files;
mod tail;
mod verify;

pub use anchor::{Anchor, AnchorSyntaxError};
pub use anchor_command::{AnchorCommand, AnchorsSent};
pub use chain::{AuditKey, ChainPlace};
pub(crate) use chain::{hex, sha256_hex};
pub use file::{AuditFile, AuditFileError, AuditOptions, AuditSync};
pub use files::{audit_log_of, list_audit_files};
pub use verify::{AuditFault, AuditVerdict, verify_audit};
