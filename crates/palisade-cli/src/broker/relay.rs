//! `palisade relay`: an MCP client's lines to the broker, and back.

use palisade_broker::{AskError, RelayError, RelayOptions, run_relay};

use crate::{
    broker_args::RelayArguments,
    exit::{Exit, Failure},
    host, serve,
};

/// Runs the command until the client goes away.
pub(crate) fn run(arguments: &RelayArguments) -> Result<Exit, Failure> {
    serve::log();
    let RelayArguments {
        run,
        secret,
        broker_user,
        resume,
        fd,
    } = arguments;
    let options = RelayOptions {
        run: run.clone(),
        secret: secret.clone(),
        user: broker_user.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        resume: resume.clone(),
        connected: fd.map(take_descriptor).transpose()?,
    };
    let runtime = host::runtime()?;
    let result = runtime.block_on(run_relay(options, tokio::io::stdin(), tokio::io::stdout()));
    // A thread of it may still wait for standard input.
    runtime.shutdown_background();
    match result {
        Ok(()) => Ok(Exit::Permitted),
        Err(RelayError::Ask(error @ AskError::Secret(_))) => {
            Err(Failure::Configuration(format!("error: {error}")))
        }
        Err(RelayError::Ask(error)) => Err(Failure::Unavailable(error.to_string())),
        Err(error) => Err(Failure::Internal(error.to_string())),
    }
}

/// A socket that this process was started with.
#[cfg(target_os = "linux")]
fn take_descriptor(number: i32) -> Result<std::os::unix::net::UnixStream, Failure> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    let copied = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()));
    copied.map(Into::into).map_err(|error| {
        Failure::Usage(format!(
            "the descriptor {number} cannot be used: {error}\n  help: hand in a connected socket, for example with `{number}<>` or from the parent process"
        ))
    })
}

/// A socket that this process was started with.
#[cfg(not(target_os = "linux"))]
fn take_descriptor(_: i32) -> Result<std::os::unix::net::UnixStream, Failure> {
    Err(Failure::Usage(
        "`--fd` is for Linux\n  help: name the folder of the socket by `--run`".to_owned(),
    ))
}
