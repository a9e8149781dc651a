//! `cargo xtask eval DIR`: how often the firewall is right about statements and texts that others
//! wrote. A package of its own, so that the other tasks of xtask do not wait for the core and the drivers.

mod answer;
mod args;
mod benign;
mod bypass;
mod data;
mod decide;
mod derive;
mod engine;
mod fault;
mod goals;
mod mysql;
mod parallel;
mod peer;
mod policies;
mod postgres;
mod print;
mod record;
mod scan;
mod sqlite;

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::{Arguments, Format, Part},
    engine::Engines,
    fault::Fault,
};

/// Bytes of stack for whatever parses: statements come from fuzzers and regression suites.
pub(crate) const STACK: usize = 64 * 1024 * 1024;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || run(&arguments));
    let result = match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        // The panic has been reported by its hook.
        Ok(Err(_)) => return ExitCode::FAILURE,
        Err(error) => Err(Fault::Thread(error)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            // If standard error is closed too, the exit code has to do.
            let _ = writeln!(std::io::stderr(), "eval: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Fault> {
    let engines = Engines::new()?;
    let mut records = Vec::new();
    for part in Part::ALL {
        if arguments.only.is_none_or(|only| only == part) {
            records.extend(match part {
                Part::Benign => benign::evaluate(arguments, &engines)?,
                Part::Bypass => bypass::evaluate(arguments, &engines)?,
                Part::Peer => peer::evaluate(arguments)?,
                Part::Injection => scan::injections(arguments)?,
                Part::Texts => scan::benign(arguments)?,
            });
        }
    }
    let text = match arguments.format {
        Format::Text => print::text(&records, arguments.failures_only),
        Format::Json => print::json(&records, arguments.failures_only)?,
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(Fault::Output)
}
