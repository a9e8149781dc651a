//! The arguments of `palisade probe`.

use clap::Args;

pub(crate) const PROBE_HELP: &str = "\
It asks once and prints nothing where the server is well. Container engines run
it, so that an image needs no shell. Exit code 1: not well, or not there.

At an address of this machine any certificate is taken: nothing secret is sent.

Examples:
  palisade probe http://127.0.0.1:8080/healthz
  palisade probe https://127.0.0.1:8443/readyz --seconds 2";

/// `palisade probe`
#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// The address of `/healthz`, or of `/readyz`, which asks the databases too
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// How long the answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
}
