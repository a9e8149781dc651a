//! `palisade config`: whether a configuration is sound, and the schema of configurations for editors.

use serde_json::{Value, json};

use crate::{
    args::{
        Format,
        config::{ConfigCheckArguments, ConfigCommand},
    },
    bundle,
    config::{ConfigFile, bundle::PolicySetup},
    exit::{Exit, Failure},
    policies::Policies,
    stdout,
};

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Schema(arguments) => {
            stdout::text(arguments.of.text())?;
            Ok(Exit::Permitted)
        }
        ConfigCommand::Check(arguments) => check(arguments),
    }
}

fn check(arguments: &ConfigCheckArguments) -> Result<Exit, Failure> {
    let checked = read(arguments);
    match arguments.format {
        Format::Text => {
            let names = checked?;
            let told = match names.as_slice() {
                [] => "no connections".to_owned(),
                [one] => format!("one connection, `{one}`"),
                several => format!("{} connections, `{}`", several.len(), several.join("`, `")),
            };
            stdout::text(&format!(
                "`{}` is sound: {told}\n",
                arguments.file.display()
            ))?;
            Ok(Exit::Permitted)
        }
        Format::Json => {
            let (body, exit) = match checked {
                Ok(names) => (
                    json!({"valid": true, "connections": names}),
                    Exit::Permitted,
                ),
                Err(failure) => (describe(&failure), failure.exit()),
            };
            stdout::text(&format!("{body}\n"))?;
            Ok(exit)
        }
    }
}

/// What is wrong, in the fields of a problem; those that say nothing of it are null.
fn describe(failure: &Failure) -> Value {
    match failure {
        Failure::ConfigurationAt(fault) => fault.json(),
        Failure::Usage(_)
        | Failure::Configuration(_)
        | Failure::Unavailable(_)
        | Failure::Internal(_)
        | Failure::OutputClosed => json!({
            "valid": false, "file": null, "line": null, "column": null, "message": failure.to_string(), "help": null,
        }),
    }
}

/// The names of the connections, if all of it can be read.
fn read(arguments: &ConfigCheckArguments) -> Result<Vec<String>, Failure> {
    let file = ConfigFile::read(&arguments.file)?;
    file.look_for_files()?;
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    for place in file.policies() {
        match place {
            PolicySetup::Folder(folder) => drop(Policies::read(&folder)?),
            PolicySetup::Bundle(setup) => bundle::check_offline(&setup)?,
        }
    }
    Ok(names)
}
