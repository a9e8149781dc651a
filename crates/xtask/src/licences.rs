//! Licences of everything that is linked in, by `cargo deny` and `deny.toml`.

use std::process::Command;

use crate::run::{Result, cargo, exists, root, run};

/// Checks licences and sources; installs `cargo-deny` under `target/` where it is missing.
pub(crate) fn check() -> Result {
    let tools = root().join("target/tools");
    let own = tools.join("bin/cargo-deny");
    if !exists("cargo-deny", &["--version"]) && !own.exists() {
        println!(
            "\ncargo-deny is missing and is installed under target/tools (some minutes, once)"
        );
        let tools = tools.to_string_lossy().into_owned();
        cargo(&[
            "install",
            "cargo-deny",
            "--locked",
            "--debug",
            "--root",
            &tools,
        ])?;
    }
    let program = if own.exists() {
        own
    } else {
        "cargo-deny".into()
    };
    run(Command::new(program).args(["check", "licenses", "bans", "sources"]))
}
