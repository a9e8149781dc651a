//! The command line of access tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::Format;

pub(crate) const TOKEN_HELP: &str = "\
Whoever has an access token asks as its principal, at `palisade serve --http`.
It is shown once; its hash is kept.

Examples:
  palisade token create laptop --as 'Agent::\"bot\"' --config palisade.toml
  palisade token list --config palisade.toml
  palisade token revoke laptop --config palisade.toml";

/// `palisade token`
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make one, and print it
    Create(CreateArguments),
    /// List names, principals and ends
    List(ListArguments),
    /// Take one back: the next request with it is refused
    Revoke(RevokeArguments),
}

/// Where access tokens are kept.
#[derive(Debug, Args)]
pub(crate) struct TokenFileArguments {
    /// The configuration that the server has
    #[arg(long, value_name = "FILE", required_unless_present = "tokens")]
    pub(crate) config: Option<PathBuf>,
    /// The file of access tokens itself
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) tokens: Option<PathBuf>,
}

/// `palisade token create`
#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// What it is called in lists, records and logs: letters, digits, `-`, `_`, `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Who asks with it, for example 'Agent::"support-bot"'
    #[arg(long = "as", value_name = "PRINCIPAL")]
    pub(crate) principal: String,
    /// How long it lasts: `1h` to `365d`, or `never`
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub(crate) expires: String,
    #[command(flatten)]
    pub(crate) file: TokenFileArguments,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade token list`
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    pub(crate) file: TokenFileArguments,
    /// How to print them
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade token revoke`
#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) file: TokenFileArguments,
}
