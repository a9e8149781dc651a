//! The machine around an embedded Palisade. The core has no clock, no randomness and no files; this crate lends them.
//!
//! | type | is |
//! |---|---|
//! | [`Machine`] | the [`Host`](palisade::host::Host) of this machine: its clock and its random bytes |
//! | [`PolicyFolder`] | policies, read from a folder as the command line reads them |
//! | [`PolicyBundle`] | policies, read from a signed bundle, which [`pack_bundle`] makes of a folder |
//! | [`AuditFile`] | an [`AuditSink`](palisade::audit::AuditSink): one JSON line a call in a file of mode 0600, chained under an [`AuditKey`] |
//! | [`verify_audit`] | whether such a file is what was written |
//! | [`SigningKey`] | a key that signs, Ed25519, in a file of its own; [`VerifyingKey`] is its public half |
//! | [`Outbox`] | a queue with a thread, for what goes out beside the work of a server |

mod audit;
mod bundle;
mod machine;
mod outbox;
mod policy_folder;
mod signing_key;

pub use audit::{
    Anchor, AnchorCommand, AnchorSyntaxError, AnchorsSent, AuditFault, AuditFile, AuditFileError,
    AuditKey, AuditOptions, AuditSync, AuditVerdict, ChainPlace, audit_log_of, list_audit_files,
    verify_audit,
};
pub use bundle::{
    BUNDLE_LIMIT, BundleError, BundleFile, BundleKey, BundleKeyError, BundleName, BundleNameError,
    BundlePublicKey, PolicyBundle, pack_bundle,
};
pub use machine::Machine;
pub use outbox::{Closing, Outbox};
pub use policy_folder::{PolicyFolder, PolicyFolderError, add_policy_file, list_policy_files};
pub use signing_key::{SigningKey, VerifyingKey};
