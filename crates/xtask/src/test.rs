//! Everything that must pass.

use std::process::Command;

use crate::{
    clients, docs, licences,
    run::{Result, cargo, exists, root, run},
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

/// Every fuzz target for `seconds`.
pub(crate) fn fuzz(seconds: &str) -> Result {
    if !exists("cargo", &["fuzz", "--version"]) {
        cargo(&["install", "cargo-fuzz", "--locked"])?;
    }
    for target in ["parse_total", "print_roundtrip", "check_total"] {
        run(Command::new("cargo").args([
            "+nightly",
            "fuzz",
            "run",
            // The core forbids unsafe code, and a sanitiser's frames would not fit the stacks.
            "--sanitizer",
            "none",
            target,
            "--",
            &format!("-max_total_time={seconds}"),
            "-rss_limit_mb=4096",
        ]))?;
    }
    Ok(())
}
