//! PostgreSQL's own parser beside ours, over the corpus. Its crate stands outside of the workspace: it is built with libclang, and
//! what it depends on would change the features of what we do.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    apt,
    run::{self, FULL, Result, exists, root},
};

/// What the crate of the bindings needs to be generated.
const PACKAGE: &str = "libclang1-14";

/// Decides about the corpus, and compares.
pub(crate) fn run() -> Result {
    let target = root().join("target/second-opinion");
    fs::create_dir_all(&target).map_err(|why| format!("{}: {why}", target.display()))?;
    let decided = target.join("decided.jsonl");
    // With the tests and the whole workspace, as the tests are built: alone, the crate would have other features of its
    // dependencies, and all of them would be compiled once more.
    let build = ["build", "--workspace", "--tests", "--example", "decided"];
    cargo(
        &[&build[..], &FULL].concat(),
        &[],
        Stdio::null(),
        Stdio::inherit(),
    )?;
    run::run(Command::new(root().join("target/debug/examples/decided")).stdout(create(&decided)?))?;
    let libclang = libclang()?;
    let mut environment = vec![("LIBCLANG_PATH", libclang.display().to_string())];
    // A libclang that was only unpacked does not know where the compiler's own headers are.
    let gcc = Command::new("gcc").arg("-print-file-name=include").output();
    if let Ok(output) = gcc {
        let include = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        environment.push(("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{include}")));
    }
    let decided = File::open(&decided).map_err(|why| format!("{}: {why}", decided.display()))?;
    cargo(
        &[
            "run",
            "--manifest-path",
            "second-opinion/Cargo.toml",
            "--target-dir",
            "target/second-opinion",
        ],
        &environment,
        decided.into(),
        Stdio::inherit(),
    )
}

/// As [`run`], where libclang can be had; else what was not run.
pub(crate) fn where_possible() -> Result<Option<String>> {
    match libclang() {
        Ok(_) => run().map(|()| None),
        Err(why) => Ok(Some(format!(
            "NOT RUN: PostgreSQL's own parser beside ours: {why}"
        ))),
    }
}

fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn cargo(args: &[&str], environment: &[(&str, String)], input: Stdio, output: Stdio) -> Result {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    println!("\n==> cargo {}", args.join(" "));
    let status = Command::new(cargo)
        .args(args)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(root())
        .stdin(input)
        .stdout(output)
        .status()
        .map_err(|why| format!("cargo cannot be started: {why}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`cargo {}` failed: {status}", args.join(" ")))
    }
}

/// The folder of a libclang: as the environment says, the machine's own, or a copy that is unpacked under
/// `target/tools`.
fn libclang() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("LIBCLANG_PATH") {
        return Ok(folder.into());
    }
    let own = [
        "/usr/lib/llvm-19/lib",
        "/usr/lib/llvm-16/lib",
        "/usr/lib/llvm-14/lib",
    ];
    let unpacked = root().join("target/tools/clang");
    let folders = || {
        let ours = unpacked.join("usr/lib/llvm-14/lib");
        own.iter().map(PathBuf::from).chain([ours])
    };
    let has_one = |folder: &PathBuf| folder.join("libclang.so.1").exists();
    if let Some(folder) = folders().find(has_one) {
        return Ok(folder);
    }
    if !apt::is_here() || !exists("gcc", &["--version"]) {
        return Err("there is neither libclang nor apt to fetch it; set LIBCLANG_PATH".to_owned());
    }
    apt::unpack(apt::Source::Machine, &[PACKAGE], &unpacked)?;
    folders()
        .find(has_one)
        .ok_or_else(|| format!("`{PACKAGE}` holds no libclang"))
}
