//! The arguments of `palisade config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{args::Format, file_schemas::SchemaOf};

/// `palisade config`
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a configuration and say what is wrong with it
    #[command(after_help = CHECK_HELP)]
    Check(ConfigCheckArguments),
    /// Print the JSON schema of configurations, or of a file of a policy folder, for editors
    #[command(after_help = SCHEMA_HELP)]
    Schema(ConfigSchemaArguments),
}

const CHECK_HELP: &str = "\
Examples:
  palisade config check
  palisade config check desk/palisade.toml --format json

Nothing is opened: no database, no secret. Policy folders are read. The files
of SQLite databases and the folder of the state file have to be there.
Exit code 3: something is wrong.";

const SCHEMA_HELP: &str = "\
Examples:
  palisade config schema > palisade.schema.json
  palisade config schema tests > tests.schema.json

Then, as the first line of palisade.toml:
  #:schema ./palisade.schema.json

`palisade init` writes all of them, and says to editors with Taplo which file has which.";

/// `palisade config schema`
#[derive(Debug, Args)]
pub(crate) struct ConfigSchemaArguments {
    /// The file whose keys the schema has
    #[arg(value_name = "FILE", value_enum, default_value = "palisade")]
    pub(crate) of: SchemaOf,
}

/// `palisade config check`
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArguments {
    /// The configuration
    #[arg(value_name = "FILE", default_value = "palisade.toml")]
    pub(crate) file: PathBuf,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}
