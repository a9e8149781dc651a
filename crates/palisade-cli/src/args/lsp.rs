//! The command line of the language server.

use std::path::PathBuf;

use clap::Args;
use palisade::dialect::Dialect;

use crate::args::{SecretArguments, dialect};

pub(crate) const LSP_HELP: &str = "\
An editor starts it. In policies it shows what `palisade policy check` finds,
what the lint mends, who sees a column, and what each policy decides alone.

Paths are from the workspace's folder. A `palisade.toml` there names policies
and database, where nothing else does. Without a schema, the tables are those of
the folder's `tests`.

Examples (after `palisade demo`):
  palisade lsp --policies demo-policies < /dev/null
  palisade lsp --catalog sqlite:demo.db --policies demo-policies < /dev/null

Exit code 1: the editor ended it without `shutdown`.";

/// `palisade lsp`
#[derive(Debug, Args)]
pub(crate) struct LspArguments {
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The schema: a database, or a file of CREATE statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: Option<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// The policy folder; the workspace or its `policies` if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// A configuration file; what the command line says goes before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}
