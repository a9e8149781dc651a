//! The broker: credentials and decisions in one process, out of agents' reach.

mod door;
mod hand_in;
mod landlock;
mod load;
mod own_paths;
mod plist;
mod relay;
mod sandbox;
mod service;
mod stores;
mod terminal;

pub(crate) use door::{BrokerDoor, principal_source};
pub(crate) use load::run as load;
pub(crate) use relay::run as relay;
pub(crate) use sandbox::run as sandbox;

use palisade_broker::{
    Ask, Layout, Welcome, ask_broker, close_inherited, hide_memory, lock_memory,
};
use palisade_host::Machine;
use serde_json::Value;

use crate::{
    args::{
        Format,
        broker::{BrokerArguments, BrokerCommand, EndArguments, StatusArguments},
    },
    config::{ConfigFile, broker::BrokerSetup},
    exit::{Exit, Failure},
    serve, stdout,
};

/// `palisade broker`
pub(crate) fn run(arguments: &BrokerArguments) -> Result<Exit, Failure> {
    let BrokerArguments { config, command } = arguments;
    match command {
        None => {
            // Before any file is opened, and before any secret is read.
            close_inherited()
                .and_then(|()| hide_memory())
                .map_err(|error| {
                    Failure::Internal(format!("this process cannot hide its memory: {error}"))
                })?;
            let door = BrokerDoor::open(&ConfigFile::read(config)?, lock_memory())?;
            serve::run_broker(config, door)
        }
        Some(BrokerCommand::Status(arguments)) => {
            status(ConfigFile::read(config)?.broker(), arguments)
        }
        Some(BrokerCommand::End(arguments)) => end(ConfigFile::read(config)?.broker(), arguments),
        Some(BrokerCommand::InstallService(arguments)) => {
            let file = ConfigFile::read(config)?;
            service::install(config, &file, arguments)
        }
    }
}

/// The folders of a broker.
fn layout(setup: &BrokerSetup) -> Layout {
    Layout::new(&setup.directory, setup.group)
}

/// Asks the broker that runs.
fn ask(setup: &BrokerSetup, ask: Ask) -> Result<Welcome, Failure> {
    ask_broker(&layout(setup), ask).map_err(|error| Failure::Unavailable(error.to_string()))
}

fn status(setup: &BrokerSetup, arguments: &StatusArguments) -> Result<Exit, Failure> {
    let told = match ask(setup, Ask::Status {})? {
        Welcome::Status(told) => told,
        Welcome::Serve { .. } | Welcome::Ended(_) | Welcome::Refused { .. } => {
            return Err(report_unexpected());
        }
    };
    match arguments.format {
        Format::Json => stdout::text(&format!("{told}\n"))?,
        Format::Text => stdout::text(&print_status(&told))?,
    }
    Ok(Exit::Permitted)
}

fn end(setup: &BrokerSetup, arguments: &EndArguments) -> Result<Exit, Failure> {
    let session = arguments.session.clone();
    match ask(setup, Ask::End { session })? {
        Welcome::Ended(true) => {
            stdout::text("The session has ended, and its connection.\n")?;
            Ok(Exit::Permitted)
        }
        Welcome::Ended(false) => Err(Failure::Usage(
            "there is no such session\n  help: `palisade broker status` lists them".to_owned(),
        )),
        Welcome::Serve { .. } | Welcome::Status(_) | Welcome::Refused { .. } => {
            Err(report_unexpected())
        }
    }
}

fn report_unexpected() -> Failure {
    Failure::Internal("the broker answered something else than it was asked".to_owned())
}

/// What `status` tells, for a person.
fn print_status(told: &Value) -> String {
    use std::fmt::Write as _;

    use palisade::host::Host as _;

    let now = Machine::new().unix_time().as_secs();
    let list = |key: &str| {
        told.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_u64).unwrap_or_default();
    let word = |of: &Value, key: &str| {
        let word = of.get(key).and_then(Value::as_str);
        word.unwrap_or("-").to_owned()
    };
    let is_locked = told.get("memory_locked").and_then(Value::as_bool) == Some(true);
    let mut out = format!(
        "{}\n{}\n\n{} of {} connections\n",
        word(told, "posture"),
        if is_locked {
            "memory is locked"
        } else {
            "memory can be written to the swap: give the process `LimitMEMLOCK=infinity` or `ulimit -l unlimited`"
        },
        number(told, "connections"),
        number(told, "most_connections")
    );
    // Writing to a string does not fail.
    for one in list("databases") {
        let is_reached = one.get("reached").and_then(Value::as_bool) == Some(true);
        let _ = match is_reached {
            true => writeln!(
                out,
                "database {}  {}  {} running  {} waiting",
                word(&one, "name"),
                word(&one, "engine"),
                number(&one, "running"),
                number(&one, "waiting"),
            ),
            false => writeln!(out, "database {}  not reached yet", word(&one, "name")),
        };
    }
    for one in list("sessions") {
        let minutes = now.saturating_sub(number(&one, "created")) / 60;
        let is_connected = one.get("connected").and_then(Value::as_bool);
        let _ = writeln!(
            out,
            "session {}  principal {}  enrolment {}  user {}  {minutes} min old  {}",
            word(&one, "id"),
            word(&one, "principal"),
            word(&one, "enrolment"),
            number(&one, "user"),
            if is_connected == Some(true) {
                "connected"
            } else {
                "away"
            },
        );
    }
    let _ = writeln!(out, "{} refused", number(told, "refused"));
    for one in list("last_refusals") {
        let _ = writeln!(
            out,
            "refused {}  user {}  process {}  {} s ago",
            word(&one, "code"),
            number(&one, "user"),
            number(&one, "process"),
            now.saturating_sub(number(&one, "time")),
        );
    }
    out
}
