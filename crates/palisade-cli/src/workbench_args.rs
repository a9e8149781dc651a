//! The command line of the policy workbench.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(crate) const TEST_HELP: &str = "\
The folder's `tests` hold cases and matrices in `*.toml`, and tables in `*.sql`,
SQLite's if no `NAME.postgres.sql` or `NAME.mysql.sql` says otherwise. Nothing
but these files is needed, and no database is changed.

Examples (after `palisade demo`):
  palisade policy test demo-policies
  palisade policy test demo-policies --filter tickets --verbose
  palisade policy test demo-policies --format junit > junit.xml
  palisade policy test demo-policies --update

Exit code 1: a case does not hold. 2: a file of tests is wrong.";

/// `palisade policy test`
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// The policy folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Run only cases whose name contains this; `tests/FILE: NAME` is whole
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: TestFormat,
    /// Print every case, and those that fail whole
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Write what came out into the files of tests, and print what that changes
    #[arg(long, conflicts_with = "watch")]
    pub(crate) update: bool,
    /// With --update: print what it would change, and write nothing
    #[arg(long, requires = "update")]
    pub(crate) dry_run: bool,
    /// Run again whenever a file of the folder changes
    #[arg(long)]
    pub(crate) watch: bool,
}

/// How the outcome of tests is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestFormat {
    /// For people: what failed, and why.
    Text,
    /// One JSON object.
    Json,
    /// JUnit's XML.
    Junit,
    /// The Test Anything Protocol.
    Tap,
}
