//! Runs the test of a fleet's endurance for as long as somebody says.

use crate::{
    run::{FULL, Result, cargo_command, run},
    servers,
};

/// How long, where nothing is said: an hour.
const MINUTES: &str = "60";

/// Runs it for the minutes that the arguments say.
pub(crate) fn run_fleet(arguments: &[String]) -> Result {
    let minutes = match arguments {
        [] => MINUTES,
        [flag, minutes] if flag == "--minutes" => minutes,
        [..] => return Err("`endure` takes `--minutes N`, and nothing else".to_owned()),
    };
    servers::install_needed()?;
    let mut command = cargo_command();
    command
        .env("PALISADE_ENDURE_MINUTES", minutes)
        .args(["test", "--package", "palisade-cli", "--test", "cli"])
        .args(FULL)
        .args(["endurance::", "--", "--nocapture"]);
    run(&mut command)
}
