//! The command line of approvals.

use std::path::PathBuf;

use clap::Args;

use crate::args::Format;

pub(crate) const APPROVALS_HELP: &str = "\
Requests wait in the file of `state` under `[approvals]` or, without that line,
in palisade.state.db beside the audit log. Without options, it is looked for in
the current folder.

Examples:
  palisade approvals --config palisade.toml
  palisade approvals --audit audit.jsonl
  palisade approvals --config palisade.toml --watch --format json
  palisade approvals --new-key operator.key";

pub(crate) const APPROVE_HELP: &str = "\
An approval lets one run of one statement through: of that principal, with those
parameters, under the policies and the schema of the request. Of a change, it
also says that the change does what its validation showed; `palisade changes
show` shows it.

Examples:
  palisade approve k7m2p9x4qd --config palisade.toml
  palisade approve k7m2p9x4qd --config palisade.toml --key-file operator.key
  palisade approve k7m2p9x4qd --config palisade.toml --reject";

/// Where requests wait; if nothing says it, in palisade.state.db of the current
/// folder.
#[derive(Debug, Args)]
pub(crate) struct StateArguments {
    /// The configuration that the server has
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The state file itself
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) state: Option<PathBuf>,
    /// The audit log that the server has: palisade.state.db is beside it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "state"])]
    pub(crate) audit: Option<PathBuf>,
}

/// `palisade approvals`
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArguments {
    #[command(flatten)]
    pub(crate) state: StateArguments,
    /// Go on, and print each new request as it comes
    #[arg(long)]
    pub(crate) watch: bool,
    /// Write a new operator's key into this file, and print its public half for
    /// the configuration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "state", "audit", "watch"])]
    pub(crate) new_key: Option<PathBuf>,
    /// How to print requests
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade approve`
#[derive(Debug, Args)]
pub(crate) struct ApproveArguments {
    /// The request's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) state: StateArguments,
    /// The operator's key, where policy demands an operator
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Reject it instead
    #[arg(long)]
    pub(crate) reject: bool,
    /// How to print what was approved
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}
