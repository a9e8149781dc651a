//! Everything that must pass.

use std::process::Command;

use crate::{
    clients, docs, licences,
    run::{FULL, Result, cargo, exists, root, run},
    second_opinion, servers,
};

/// Formatting, lints, licences, the manual, real clients, tests, documentation tests, tests over second versions
/// of the servers.
pub(crate) fn all() -> Result {
    cargo(&["fmt", "--all", "--check"])?;
    lint(&["--workspace", FULL[0], FULL[1]])?;
    lint_engines()?;
    licences::check()?;
    docs::build(&[])?;
    servers::install_needed()?;
    // The binary is built first: tests and clients start it.
    cargo(&["build", "--workspace", "--bins", FULL[0], FULL[1]])?;
    clients::check(&root().join("target/debug/palisade"))?;
    cargo(&["test", "--workspace", FULL[0], FULL[1]])?;
    // The binary as it is built where nothing is said of features.
    cargo(&["test", "--workspace", "--test", "engines"])?;
    // Last, so that what was not run is the last thing said.
    let notes = servers::test_optional()?;
    for note in notes.into_iter().chain(second_opinion::where_possible()?) {
        println!("\n{note}");
    }
    Ok(())
}

fn lint(what: &[&str]) -> Result {
    let mut args = vec!["clippy", "--all-targets"];
    args.extend(what);
    args.extend(["--", "--deny", "warnings"]);
    cargo(&args)
}

/// Lints the binary with each engine alone, and with none.
fn lint_engines() -> Result {
    let package = ["--package", "palisade-cli", "--no-default-features"];
    lint(&package)?;
    for engine in ["sqlite", "postgres", "mysql"] {
        lint(&[&package[..], &["--features", engine]].concat())?;
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
