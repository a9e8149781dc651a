//! The command line of receipts.

use clap::{Args, Subcommand};

use crate::changes::args::PlaceArguments;

const LIST_HELP: &str = "\
Shows what the principal may know of: the receipts of its own changes, of those
that it may approve, and of tables of which it sees every row.

Examples:
  palisade ledger list connection:desk --config palisade.toml
  palisade ledger list connection:desk --config palisade.toml \\
    --as 'User::\"ann\"' --format json";

const SHOW_HELP: &str = "\
Examples:
  palisade ledger show connection:desk k7m2p9x4qd --config palisade.toml";

const TRACE_HELP: &str = "\
Tells whoever sees every row of the table and every column plain; for others no
row was ever changed. What triggers and foreign keys did is found as well.

Examples:
  palisade ledger trace connection:desk tickets '{\"id\": 1}' \\
    --config palisade.toml";

const WHY_HELP: &str = "\
Tells the operator which policies permitted a change and what they permitted to
write, who approved it, and whether policies are still the same. For principals
nothing of it is shown.

Examples:
  palisade ledger why connection:desk k7m2p9x4qd --config palisade.toml";

const VERIFY_HELP: &str = "\
Finds receipts that were edited, are missing or stand in another order, in the
state file and, where the database has a table of receipts, there too. Exit code
1 says that something is wrong.

Examples:
  palisade ledger verify connection:desk --config palisade.toml";

const PRUNE_HELP: &str = "\
Deletes images of rows from the table palisade_images, which hold values of rows.
Changes that were kept before cannot be undone any more; their receipts stay.

Examples:
  palisade ledger prune connection:desk --older-than 90d --config palisade.toml";

/// The commands of receipts.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// List the newest receipts
    #[command(after_help = LIST_HELP)]
    List(PlaceArguments),
    /// Show one receipt
    #[command(after_help = SHOW_HELP)]
    Show(LedgerShowArguments),
    /// List the receipts of all changes of one row
    #[command(after_help = TRACE_HELP)]
    Trace(LedgerTraceArguments),
    /// Tell which policies and columns let a change happen
    #[command(after_help = WHY_HELP)]
    Why(LedgerShowArguments),
    /// Tell whether the receipts are what was written
    #[command(after_help = VERIFY_HELP)]
    Verify(PlaceArguments),
    /// Delete images of rows by which old changes can be undone
    #[command(after_help = PRUNE_HELP)]
    Prune(LedgerPruneArguments),
}

/// `palisade ledger show`
#[derive(Debug, Args)]
pub(crate) struct LedgerShowArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The receipt's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// `palisade ledger trace`
#[derive(Debug, Args)]
pub(crate) struct LedgerTraceArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The row's table, with or without the schema
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// The row's primary key, a JSON object
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

/// `palisade ledger prune`
#[derive(Debug, Args)]
pub(crate) struct LedgerPruneArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// Of changes that were kept longer ago: a number with `h` or `d`
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: String,
}
