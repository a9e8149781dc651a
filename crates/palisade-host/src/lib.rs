//! The machine around an embedded Palisade. The core has no clock, no randomness and no files; this crate lends them.
//!
//! | type | is |
//! |---|---|
//! | [`Machine`] | the [`Host`](palisade::host::Host) of this machine: its clock and its random bytes |
//! | [`PolicyFolder`] | policies, read from a folder as the command line reads them |
//! | [`AuditFile`] | an [`AuditSink`](palisade::audit::AuditSink): one JSON line a statement, in a file of mode 0600 |

mod audit_file;
mod machine;
mod policy_folder;

pub use audit_file::AuditFile;
pub use machine::Machine;
pub use policy_folder::{PolicyFolder, PolicyFolderError, add_policy_file};
