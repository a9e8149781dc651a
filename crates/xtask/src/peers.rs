//! Other MCP servers of databases, to measure beside `palisade serve`.

use std::{path::PathBuf, process::Command};

use crate::run::{FULL, Result, cargo, root, run};

/// What is measured beside us: packages of npm, with their versions.
const PACKAGES: [&str; 2] = ["@toolbox-sdk/server@1.12.0", "@bytebase/dbhub@0.21.2"];

/// Builds the release binary, installs the peers under `target/peers`, and runs the bench of the named engines.
pub(crate) fn bench(engines: &[String]) -> Result {
    run_beside_peers("peers", engines)
}

/// Builds and installs the same, and runs the bench over HTTP.
pub(crate) fn load(arguments: &[String]) -> Result {
    run_beside_peers("load", arguments)
}

fn run_beside_peers(name: &str, arguments: &[String]) -> Result {
    let release = ["build", "--release", "--package", "palisade-cli"];
    cargo(&[&release[..], &FULL].concat())?;
    let modules = install()?;
    let toolbox = modules.join("@toolbox-sdk/server-linux-x64/bin/toolbox");
    let mut bench = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    bench
        .args([
            "bench",
            "--package",
            "palisade-benches",
            "--bench",
            name,
            "--",
        ])
        .args(arguments)
        .env("BENCH_PALISADE", root().join("target/release/palisade"))
        .env("BENCH_TOOLBOX", toolbox)
        .env("BENCH_NODE", "node")
        .env("BENCH_DBHUB", modules.join("@bytebase/dbhub/dist/index.js"));
    run(&mut bench)
}

/// The folder of the peers, installed where they are not yet.
fn install() -> Result<PathBuf> {
    let folder = root().join("target/peers");
    let stamp = folder.join("installed");
    let wanted = PACKAGES.join(" ");
    if std::fs::read_to_string(&stamp).unwrap_or_default() != wanted {
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("package.json"), "{\"private\": true}"))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund"]);
        run(install.args(PACKAGES).current_dir(&folder))?;
        std::fs::write(&stamp, &wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    }
    Ok(folder.join("node_modules"))
}
