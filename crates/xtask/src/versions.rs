//! The ranges of the manifests: the workspace builds with the lowest versions that they admit, and with the newest.

use std::{fs, path::PathBuf};

use crate::run::{Result, cargo, root, run};

/// Checks both, and puts `Cargo.lock` back.
pub(crate) fn check() -> Result {
    let lock = Lock::keep()?;
    let lowest = check_with(&["+nightly", "update", "-Zdirect-minimal-versions"]);
    lock.restore()?;
    lowest?;
    let newest = check_with(&["update"]);
    lock.restore()?;
    newest
}

fn check_with(update: &[&str]) -> Result {
    // Through the proxy of rustup, which knows of toolchains.
    run(std::process::Command::new("cargo").args(update))?;
    cargo(&[
        "check",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--target-dir",
        "target/versions",
    ])
}

/// `Cargo.lock` as it was.
struct Lock {
    file: PathBuf,
    text: Vec<u8>,
}

impl Lock {
    fn keep() -> Result<Self> {
        let file = root().join("Cargo.lock");
        let text = fs::read(&file).map_err(|error| format!("Cargo.lock: {error}"))?;
        Ok(Self { file, text })
    }

    fn restore(&self) -> Result {
        fs::write(&self.file, &self.text).map_err(|error| format!("Cargo.lock: {error}"))
    }
}
