//! The command line of changes in steps.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{
    args::{Format, PolicyArguments, SecretArguments},
    config::audit::AuditArguments,
    database::Database,
    database_name::Source,
    exit::Failure,
    setup::Setup,
};

const LIST_HELP: &str = "\
Lists the changes that the principal proposed or may approve, newest first, and
what can be done with each.

Examples:
  palisade changes list connection:desk --config palisade.toml
  palisade changes list connection:desk --config palisade.toml \\
    --as 'User::\"ann\"' --format json";

const SHOW_HELP: &str = "\
A change that was validated is run and taken back: each cell that would be
different is shown, under the masks and filters of the principal.

Examples:
  palisade changes show connection:desk k7m2p9x4qd --config palisade.toml
  palisade changes show connection:desk k7m2p9x4qd --config palisade.toml \\
    --as 'User::\"ann\"'";

const PROPOSE_HELP: &str = "\
Several statements are one change: in order, in one transaction. With --batch
they come from a file of JSON lines {\"sql\", \"params\"?}. With --validate the change
is run and taken back at once, and what it does is shown. The state file keeps
the change until it is committed, rejected or expired.

Examples:
  palisade changes propose connection:desk \\
    \"UPDATE tickets SET status = 'closed' WHERE id = 1\" \\
    --reason 'the customer has answered' --validate --config palisade.toml
  palisade changes propose connection:desk --batch changes.jsonl \\
    --config palisade.toml";

const VALIDATE_HELP: &str = "\
Runs the change, shows each cell that is different, and takes it back. What it
does is what an approval and a commit are about. Only its proposer validates it.

Examples:
  palisade changes validate connection:desk k7m2p9x4qd --config palisade.toml";

const APPROVE_HELP: &str = "\
Approves what `changes show` showed, as another principal than the proposer, who
is permitted `approve`. Where policy demands an operator, `palisade approve ID`
does it.

Examples:
  palisade changes approve connection:desk k7m2p9x4qd --preview p3n8w2c6vt \\
    --as 'User::\"ann\"' --config palisade.toml";

const REJECT_HELP: &str = "\
Examples:
  palisade changes reject connection:desk k7m2p9x4qd --config palisade.toml";

const COMMIT_HELP: &str = "\
Keeps the change, if it does what was validated and, where that is demanded,
approved. Otherwise nothing is changed, and what it does by now is shown.

Examples:
  palisade changes commit connection:desk k7m2p9x4qd --config palisade.toml";

const COMPENSATE_HELP: &str = "\
Proposes a change that undoes a committed one. It is validated and committed as
any other.

Examples:
  palisade changes compensate connection:desk k7m2p9x4qd \\
    --reason 'the wrong tickets' --validate --config palisade.toml";

const REVERT_HELP: &str = "\
Proposes a change that sets a table of which history is kept back to how it was.
It is validated, approved and committed as any other.

Examples:
  palisade changes revert connection:desk tickets --to before-cleanup --validate \\
    --config palisade.toml
  palisade changes revert connection:desk tickets --to 2026-03-01T12:00:00Z \\
    --reason 'the import was wrong' --config palisade.toml";

/// The commands of changes.
#[derive(Debug, Subcommand)]
pub(crate) enum ChangesCommand {
    /// List the changes that wait, and those that are over
    #[command(after_help = LIST_HELP)]
    List(PlaceArguments),
    /// Show what a change does, row by row
    #[command(after_help = SHOW_HELP)]
    Show(ChangeArguments),
    /// Propose statements as one change; nothing is run
    #[command(after_help = PROPOSE_HELP)]
    Propose(ProposeArguments),
    /// Run a change, show what it does, and take it back
    #[command(after_help = VALIDATE_HELP)]
    Validate(ChangeArguments),
    /// Approve what was looked at, as another principal
    #[command(after_help = APPROVE_HELP)]
    Approve(ApproveChangeArguments),
    /// Reject a change for good, or withdraw one's own
    #[command(after_help = REJECT_HELP)]
    Reject(ChangeArguments),
    /// Run a change and keep it
    #[command(after_help = COMMIT_HELP)]
    Commit(ChangeArguments),
    /// Propose what undoes a committed change
    #[command(after_help = COMPENSATE_HELP)]
    Compensate(CompensateArguments),
    /// Propose what sets a table back to how it was
    #[command(after_help = REVERT_HELP)]
    Revert(RevertArguments),
}

/// The database of changes and receipts, and who asks.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// sqlite:FILE, or connection:NAME of the configuration
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    #[command(flatten)]
    pub(crate) audit: AuditArguments,
    /// How to print the answer
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

impl PlaceArguments {
    /// What the operator has decided, and the database.
    pub(crate) fn setup(&self) -> Result<(Setup, Database), Failure> {
        Setup::over(
            Source::argument(&self.source)?,
            &self.secret,
            &self.policies,
            Some(&self.audit),
        )
    }
}

/// `palisade changes show`, `validate`, `reject` and `commit`
#[derive(Debug, Args)]
pub(crate) struct ChangeArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The change's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// `palisade changes propose`
#[derive(Debug, Args)]
pub(crate) struct ProposeArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The statements, in order; `-` reads one from standard input
    #[arg(
        value_name = "SQL",
        required_unless_present = "batch",
        conflicts_with = "batch"
    )]
    pub(crate) sql: Vec<String>,
    /// The parameters of a single statement, a JSON array or object
    #[arg(long, value_name = "JSON", conflicts_with = "batch")]
    pub(crate) params: Option<String>,
    /// Read the statements as JSON lines {"sql", "params"?} from a file, or from
    /// standard input (`-`)
    #[arg(long, value_name = "FILE")]
    pub(crate) batch: Option<PathBuf>,
    /// Why, for whoever approves it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Refuse a statement that would change more rows; it can only lower the limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_affected_rows: Option<u64>,
    /// Validate it at once
    #[arg(long)]
    pub(crate) validate: bool,
}

/// `palisade changes approve`
#[derive(Debug, Args)]
pub(crate) struct ApproveChangeArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The change's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What was looked at, by the id that `palisade changes show` tells
    #[arg(long, value_name = "ID")]
    pub(crate) preview: String,
}

/// What is said beside a change that the firewall writes.
#[derive(Debug, Args)]
pub(crate) struct ProposalArguments {
    /// Why, for whoever approves it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Validate it at once
    #[arg(long)]
    pub(crate) validate: bool,
}

/// `palisade changes compensate`
#[derive(Debug, Args)]
pub(crate) struct CompensateArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The id of the change that is undone
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) beside: ProposalArguments,
}

/// `palisade changes revert`
#[derive(Debug, Args)]
pub(crate) struct RevertArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The table, with or without its schema
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// The moment: a snapshot's name, or a time as 2026-03-01T12:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) beside: ProposalArguments,
}
