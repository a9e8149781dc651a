//! Landlock: what this process, and all that it starts, may still open, connect to and signal.

use std::path::PathBuf;

/// What stays open. All else of the file system is closed, and the network.
#[derive(Debug, Default)]
pub(super) struct OpenPaths {
    /// Files and folders that can be read, and programs in them run.
    pub(super) readable: Vec<PathBuf>,
    /// Files and folders that can be changed, too.
    pub(super) writable: Vec<PathBuf>,
    /// Folders whose sockets can be connected to, and whose files can be read.
    pub(super) sockets: Vec<PathBuf>,
}

/// What a kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enforced {
    /// Files, the network, abstract sockets and signals.
    All,
    /// What an older kernel knows, by the number of its interface.
    Part(i32),
    /// Nothing.
    Nothing,
}

/// Closes all but `open` to this process and what it starts, for good. A kernel with an older interface enforces what it knows.
///
/// # Errors
/// If the kernel refuses rules that it knows.
#[cfg(target_os = "linux")]
pub(super) fn confine(open: &OpenPaths) -> Result<Enforced, String> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };

    let OpenPaths {
        readable,
        writable,
        sockets,
    } = open;
    // The newest interface that these rules were written for.
    let abi = ABI::V10;
    let read = AccessFs::from_read(abi);
    let enforce = || -> Result<_, RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .add_rules(path_beneath_rules(readable, read))?
            .add_rules(path_beneath_rules(writable, AccessFs::from_all(abi)))?
            .add_rules(path_beneath_rules(sockets, read | AccessFs::ResolveUnix))?
            .restrict_self()
    };
    let status = enforce().map_err(|error| error.to_string())?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Enforced::All,
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. }) => {
            Enforced::Part(effective_abi as i32)
        }
        (RulesetStatus::NotEnforced | RulesetStatus::PartiallyEnforced, _) => Enforced::Nothing,
    })
}

/// Closes nothing: Landlock is of Linux.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &OpenPaths) -> Result<Enforced, String> {
    Ok(Enforced::Nothing)
}

impl Enforced {
    /// What stays open where this is all there is.
    pub(super) fn describe_gaps(self) -> &'static str {
        match self {
            Self::All => "other processes and their names stay visible",
            Self::Part(9..) => "UDP stays open, and other processes and their names stay visible",
            Self::Part(6..=8) => {
                "UDP and sockets of other programs that have a path stay open, and other processes and their names stay visible"
            }
            Self::Part(4 | 5) => {
                "UDP and sockets of other programs stay open, and other processes can be seen and signalled"
            }
            Self::Part(_) => {
                "the network and sockets of other programs stay open, and other processes can be seen and signalled"
            }
            Self::Nothing => "all stays open",
        }
    }
}
