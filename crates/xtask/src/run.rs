//! Running programs: what is run is said, and a failure stops everything.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// What a task gives back: a text for the person who ran it.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// The top folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Has cargo build the binary with every engine.
pub(crate) const FULL: [&str; 2] = ["--features", "palisade-cli/full"];

/// Runs cargo in the top folder.
pub(crate) fn cargo(args: &[&str]) -> Result {
    run(cargo_command().args(args))
}

/// Cargo, as it runs this program.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Runs `command` in its folder or the top folder, its output passed through.
pub(crate) fn run(command: &mut Command) -> Result {
    let shown = show(command);
    println!("\n==> {shown}");
    if command.get_current_dir().is_none() {
        command.current_dir(root());
    }
    let start = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("`{shown}` cannot be started: {error}"))?;
    println!("    {:.0} s", start.elapsed().as_secs_f64());
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed: {status}"))
    }
}

/// Whether a program answers to `--version`.
pub(crate) fn exists(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn show(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
