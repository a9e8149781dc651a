//! Training is a package of its own, for its dependencies and because it is built for speed.

use std::{path::Path, process::Command};

use crate::run::{Result, root};

/// `palisade-train` with `args`, in the folder of the caller, so that DIR means what it says there.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--manifest-path"])
        .arg(root().join(Path::new("crates/palisade-train/Cargo.toml")))
        .arg("--")
        .args(args)
        .status()
        .map_err(|error| format!("`cargo run` cannot be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the training failed: {status}"))
    }
}
