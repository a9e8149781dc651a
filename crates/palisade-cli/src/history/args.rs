//! The command line of histories and snapshots.

use clap::{Args, Subcommand};

use crate::changes::args::PlaceArguments;

const ENABLE_HELP: &str = "\
Prints SQL for the database's owner to run; nothing is changed by this command.
From then on every state of the tables' rows is kept, whoever writes them, and
`palisade query --as-of` reads them as they were. A table needs a primary key.
Run it again after columns were added or dropped: history begins anew then.

Examples:
  palisade history enable sqlite:app.db tickets customers | sqlite3 app.db
  palisade history enable connection:desk public.tickets \\
    --account palisade_reader --config palisade.toml";

const DISABLE_HELP: &str = "\
Prints SQL for the database's owner to run. What was kept is deleted.

Examples:
  palisade history disable sqlite:app.db tickets | sqlite3 app.db";

const REBASE_HELP: &str = "\
Prints SQL for the database's owner to run, after the database was restored from a
dump or a backup, cloned, or upgraded by a dump: moments from before are refused
there (`history.foreign`). Histories begin anew with it, and what they kept from
before is dropped. Without a table it is for all that have a history.

Examples:
  palisade history rebase sqlite:app.db | sqlite3 app.db
  palisade history rebase connection:desk public.tickets \\
    --account palisade_reader --config palisade.toml";

const PRUNE_HELP: &str = "\
Prints SQL for the database's owner to run. It deletes what had ended at a moment;
nothing can be read as of an earlier one then.

Examples:
  palisade history prune sqlite:app.db tickets --before 2026-01-01T00:00:00Z \\
    | sqlite3 app.db
  palisade history prune connection:desk public.tickets --before migration \\
    --config palisade.toml";

const DIFF_HELP: &str = "\
A line for each cell that is different, under the masks and filters of the
principal.

Examples:
  palisade history diff sqlite:app.db tickets --from before-cleanup
  palisade history diff connection:desk tickets --from 2026-03-01T12:00:00Z \\
    --to 2026-03-02T12:00:00Z --config palisade.toml";

const LIST_HELP: &str = "\
A line for each cell that became different, newest first, under the masks and
filters of the principal. Beside it stands the first moment that was noted after
the write. It goes back over the last ten thousand writes of the table, or of
the row, within the time and the rows of one statement.

Examples:
  palisade history list sqlite:app.db tickets --key '{\"id\": 1}'
  palisade history list connection:desk tickets --from before-cleanup \\
    --config palisade.toml";

const TABLES_HELP: &str = "\
Examples:
  palisade history tables sqlite:app.db";

const CREATE_HELP: &str = "\
From then on `palisade query --as-of NAME` reads tables that have a history as they
were at this moment.

Examples:
  palisade snapshots create sqlite:app.db before-cleanup";

const SNAPSHOTS_HELP: &str = "\
Examples:
  palisade snapshots list sqlite:app.db";

const DELETE_HELP: &str = "\
Deletes the name. The moment can still be asked for by its time.

Examples:
  palisade snapshots delete sqlite:app.db before-cleanup";

/// The commands of histories.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Print the SQL that keeps every state of a table's rows
    #[command(after_help = ENABLE_HELP)]
    Enable(EnableArguments),
    /// Print the SQL that ends the history of a table
    #[command(after_help = DISABLE_HELP)]
    Disable(HistoryArguments),
    /// Print the SQL that begins histories anew in a database that was restored
    #[command(after_help = REBASE_HELP)]
    Rebase(RebaseArguments),
    /// Print the SQL that deletes the history of a table before a moment
    #[command(after_help = PRUNE_HELP)]
    Prune(PruneArguments),
    /// List the tables that have a history
    #[command(after_help = TABLES_HELP)]
    Tables(PlaceArguments),
    /// List what became of a table's rows, or of one of them, newest first
    #[command(after_help = LIST_HELP)]
    List(ListHistoryArguments),
    /// Show what is different of a table between two moments, or since one
    #[command(after_help = DIFF_HELP)]
    Diff(DiffTableArguments),
}

/// The commands of snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotsCommand {
    /// Give this moment a name
    #[command(after_help = CREATE_HELP)]
    Create(SnapshotArguments),
    /// List the moments that have a name
    #[command(after_help = SNAPSHOTS_HELP)]
    List(PlaceArguments),
    /// Delete the name of a moment
    #[command(after_help = DELETE_HELP)]
    Delete(SnapshotArguments),
}

/// `palisade history disable`
#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The tables, with or without the schema
    #[arg(value_name = "TABLE", required = true)]
    pub(crate) tables: Vec<String>,
}

/// `palisade history enable`
#[derive(Debug, Args)]
pub(crate) struct EnableArguments {
    #[command(flatten)]
    pub(crate) tables: HistoryArguments,
    /// The account by which the firewall reads, which gets the grants that it needs; NAME@HOST on MariaDB and MySQL
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
}

/// `palisade history rebase`
#[derive(Debug, Args)]
pub(crate) struct RebaseArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The tables, with or without the schema; all that have a history if left out
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    /// The account by which the firewall reads, which gets the grants that it needs; NAME@HOST on MariaDB and MySQL
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<String>,
}

/// `palisade history prune`
#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    #[command(flatten)]
    pub(crate) tables: HistoryArguments,
    /// The moment: a snapshot's name, or a time as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) before: String,
}

/// `palisade history diff`
#[derive(Debug, Args)]
pub(crate) struct DiffTableArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The table, with or without its schema
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// Since when: a snapshot's name, or a time as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) from: String,
    /// Until when; now if left out
    #[arg(long, value_name = "MOMENT")]
    pub(crate) to: Option<String>,
}

/// `palisade history list`
#[derive(Debug, Args)]
pub(crate) struct ListHistoryArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The table, with or without its schema
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// A row's primary key, a JSON object; all rows if left out
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Since when: a snapshot's name, or a time as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) from: Option<String>,
}

/// `palisade snapshots create` and `delete`
#[derive(Debug, Args)]
pub(crate) struct SnapshotArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// Its name: letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
