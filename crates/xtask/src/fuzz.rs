//! Fuzzing, for as long as is wished.

use std::process::Command;

use crate::run::{Result, cargo, exists, run};

/// Every fuzz target for `seconds`.
pub(crate) fn run_targets(seconds: &str) -> Result {
    if !exists("cargo", &["fuzz", "--version"]) {
        cargo(&["install", "cargo-fuzz", "--locked"])?;
    }
    for target in [
        "parse_total",
        "print_roundtrip",
        "check_total",
        "scan_total",
    ] {
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
