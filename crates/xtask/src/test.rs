//! Everything that must pass.

use crate::{
    clients, docs, licences,
    run::{Result, cargo, root},
    second_opinion, servers,
};

/// Formatting, lints, licences, the manual, real clients, tests, documentation tests, tests over second versions
/// of the servers.
pub(crate) fn all() -> Result {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ])?;
    licences::check()?;
    docs::build(&[])?;
    servers::install_needed()?;
    // The binary is built first: tests and clients start it.
    cargo(&["build", "--workspace", "--bins"])?;
    clients::check(&root().join("target/debug/palisade"))?;
    cargo(&["test", "--workspace"])?;
    // Last, so that what was not run is the last thing said.
    let notes = servers::test_optional()?;
    for note in notes.into_iter().chain(second_opinion::where_possible()?) {
        println!("\n{note}");
    }
    Ok(())
}
