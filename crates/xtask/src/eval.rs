//! The evaluation is a package of its own: it needs the core and every driver, and whoever runs
//! another task should not wait for those.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::run::{Result, root};

/// `palisade-eval` with `args`, in the folder of the caller, so that DIR means what it says there.
/// Nothing is printed but its own output, which may be JSON.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--manifest-path"])
        .arg(root().join(Path::new("crates/palisade-eval/Cargo.toml")))
        .arg("--")
        .args(args)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("`cargo run` cannot be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the evaluation failed: {status}"))
    }
}
