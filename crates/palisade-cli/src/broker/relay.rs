//! `palisade relay`: an MCP client's lines to the broker, and back.

use palisade_broker::{AskError, Reach, RelayError, RelayOptions, run_relay};
use palisade_mcp::ProtocolStreams;

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
        parent,
    } = arguments;
    let user = broker_user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let reach = match (parent, fd, run) {
        (Some(parent), _, _) => Reach::Parent(take_descriptor(*parent)?),
        (None, Some(fd), _) => Reach::Connected {
            stream: take_descriptor(*fd)?,
            user,
        },
        (None, None, Some(run)) => Reach::Folder {
            run: run.clone(),
            user,
        },
        (None, None, None) => {
            return Err(Failure::Usage(
                "there is no way to the broker\n  help: name the folder of its socket by `--run`"
                    .to_owned(),
            ));
        }
    };
    let options = RelayOptions {
        reach,
        secret: secret.clone(),
        resume: resume.clone(),
    };
    let streams = ProtocolStreams::take().map_err(|error| {
        Failure::Internal(format!(
            "standard output cannot be taken for the protocol: {error}"
        ))
    })?;
    let runtime = host::runtime()?;
    let result = runtime.block_on(async {
        // Pipes need no thread each.
        let (read, write) = streams.into_parts();
        run_relay(options, read, write).await
    });
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
            "the descriptor {number} cannot be used: {error}\n  help: `palisade sandbox --hand-in -- COMMAND` hands it in, and what starts the relay has to leave it open"
        ))
    })
}

/// A socket that this process was started with.
#[cfg(not(target_os = "linux"))]
fn take_descriptor(_: i32) -> Result<std::os::unix::net::UnixStream, Failure> {
    Err(Failure::Usage(
        "`--fd` and `--parent` are for Linux\n  help: name the folder of the socket by `--run`"
            .to_owned(),
    ))
}
