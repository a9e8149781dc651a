//! The command line of signed bundles of policies.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use palisade::dialect::Dialect;
use palisade_host::{BundleName, BundlePublicKey};

use crate::args::{Format, SecretArguments, dialect};

pub(crate) const BUNDLE_HELP: &str = "\
Servers pull the bundle that `[policies]` of their configuration names, and use
it only if a key of theirs signed it and all of it is whole.

Examples (after `palisade demo`):
  palisade policy bundle keygen bundle.key
  palisade policy bundle pack demo-policies --name demo --key bundle.key \\
    --out demo.palisade";

/// `palisade policy bundle`
#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    /// Make a key that signs bundles, and print its public half for configurations
    Keygen(KeygenArguments),
    /// Pack a policy folder into a signed bundle
    Pack(PackArguments),
    /// Verify a bundle, and say what is in it and who signed it
    Verify(VerifyArguments),
}

/// `palisade policy bundle keygen`
#[derive(Debug, Args)]
pub(crate) struct KeygenArguments {
    /// The new file of the key, which only its owner may read
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How to print the public half
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade policy bundle pack`
#[derive(Debug, Args)]
pub(crate) struct PackArguments {
    /// The policy folder
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// What the bundle is called; servers take no other name in its place
    #[arg(long, value_name = "NAME")]
    pub(crate) name: BundleName,
    /// The file of the key that signs it; several while keys change
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) key: Vec<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Its serial number, greater than those before  [default: seconds since 1970]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) serial: Option<u64>,
    /// How to print what is in it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade policy bundle verify`
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A public key that may have signed it, `ed25519:…`
    #[arg(long, value_name = "KEY", required = true)]
    pub(crate) key: Vec<BundlePublicKey>,
    /// Load it over this schema too: a database, or a file of CREATE statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: Option<String>,
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect, requires = "catalog")]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// A configuration file that names the connection
    #[arg(long, value_name = "FILE", requires = "catalog")]
    pub(crate) config: Option<PathBuf>,
    /// Write its files into this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) unpack: Option<PathBuf>,
    /// How to print what is in it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}
