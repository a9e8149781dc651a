//! `palisade relay`: an MCP client's lines to the broker, and back.

use std::{
    io::{self, Read, Write},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use palisade_broker::{AskError, Reach, RelayError, RelayOptions, run_relay};
use rustix::event::{PollFd, PollFlags, poll};

use crate::{
    args::broker::RelayArguments,
    exit::{Exit, Failure},
};

/// Runs the command until the client goes away. It stays small: no runtime, no log.
pub(crate) fn run(arguments: &RelayArguments) -> Result<Exit, Failure> {
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
        // If standard error is closed, none is there to be told.
        warn: |text| drop(writeln!(io::stderr(), "palisade relay: {text}")),
    };
    let output = take_output().map_err(|error| {
        Failure::Internal(format!(
            "standard output cannot be taken for the protocol: {error}"
        ))
    })?;
    let result = run_relay(options, Input, Output(output));
    match result {
        Ok(()) => Ok(Exit::Permitted),
        Err(RelayError::Ask(error @ AskError::Secret(_))) => {
            Err(Failure::Configuration(format!("error: {error}")))
        }
        Err(RelayError::Ask(error)) => Err(Failure::Unavailable(error.to_string())),
        Err(error) => Err(Failure::Internal(error.to_string())),
    }
}

/// Standard output, taken away from whatever else may print.
fn take_output() -> io::Result<OwnedFd> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(output)
}

/// Standard input. Whoever shares it may have made reads that find nothing fail.
struct Input;

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let input = rustix::stdio::stdin();
        loop {
            match rustix::io::read(input, &mut *to) {
                Err(rustix::io::Errno::AGAIN) => wait_for(input, PollFlags::IN)?,
                read => return Ok(read?),
            }
        }
    }
}

/// What was standard output; writes may fail as well.
struct Output(OwnedFd);

impl Write for Output {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, from) {
                Err(rustix::io::Errno::AGAIN) => wait_for(self.0.as_fd(), PollFlags::OUT)?,
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wait_for(stream: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(stream, flags)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
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
