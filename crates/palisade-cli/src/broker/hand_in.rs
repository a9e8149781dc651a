//! A command in a sandbox that gets its connections to the broker from this process, which stays outside.

use std::{
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    path::Path,
    process::{Command, ExitStatus},
};

use palisade_broker::{close_inherited, hand_connections_in};
use rustix::{
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    process::{Pid, Signal, kill_process},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    exit::{Exit, Failure},
    host, serve,
};

/// The descriptor that the command finds its end at: the first that programs leave to others.
const NUMBER: i32 = 3;

/// Where this process has its own end, out of the way.
const AWAY: i32 = 10;

/// What shells add to a signal's number for an exit code.
const SIGNALLED: i32 = 128;

/// A pair of sockets: one end for this process, one for the command.
pub(super) struct Channel {
    outside: UnixStream,
    inside: OwnedFd,
}

impl Channel {
    /// Closes what this process was started with, so that the command's end has its number and nothing else is handed on.
    pub(super) fn open() -> Result<Self, Failure> {
        let fail = |error: std::io::Error| {
            Failure::Internal(format!("connections cannot be handed in: {error}"))
        };
        close_inherited().map_err(fail)?;
        let (outside, inside) = UnixStream::pair().map_err(fail)?;
        let move_to = |end: UnixStream, least: i32| {
            fcntl_dupfd_cloexec(&end, least).map_err(|error| fail(error.into()))
        };
        let outside = move_to(outside, AWAY)?;
        let inside = if inside.as_raw_fd() == NUMBER {
            inside.into()
        } else {
            move_to(inside, NUMBER)?
        };
        if inside.as_raw_fd() != NUMBER {
            return Err(Failure::Internal(format!(
                "the descriptor {NUMBER} is in use"
            )));
        }
        // What is started from here on has it.
        fcntl_setfd(&inside, FdFlags::empty()).map_err(|error| fail(error.into()))?;
        Ok(Self {
            outside: outside.into(),
            inside,
        })
    }

    /// Runs `program`, and hands it connections to the broker at `run` until it ends. Its exit code is this process's.
    pub(super) fn run(self, mut program: Command, run: &Path) -> Result<Exit, Failure> {
        serve::log();
        let Self { outside, inside } = self;
        let name = program.get_program().to_string_lossy().into_owned();
        let status = host::runtime()?.block_on(async move {
            let mut signals = Signals::listen()?;
            let mut child = program.spawn()?;
            let id = child.id();
            // The command alone has it now, so that its end is seen here.
            drop(inside);
            let own = rustix::process::geteuid().as_raw();
            let mut handing = std::pin::pin!(hand_connections_in(run, own, outside));
            let mut is_handing = true;
            let mut waiting = tokio::task::spawn_blocking(move || child.wait());
            loop {
                tokio::select! {
                    status = &mut waiting => return status.map_err(std::io::Error::from)?,
                    ended = &mut handing, if is_handing => {
                        is_handing = false;
                        if let Err(error) = ended {
                            tracing::error!("no connection is handed in any more: {error}");
                        }
                    }
                    signal = signals.next() => pass_on(id, signal),
                }
            }
        });
        let status: ExitStatus = status.map_err(|error| {
            Failure::Unavailable(format!(
                "`{name}` does not start: {error}\n  help: install it; bubblewrap is in Debian and Ubuntu: `apt-get install bubblewrap`"
            ))
        })?;
        let code = status.code();
        let code = code.or_else(|| status.signal().map(|signal| SIGNALLED + signal));
        std::process::exit(code.unwrap_or(SIGNALLED))
    }
}

/// Gives the command a signal that this process got.
fn pass_on(child: u32, signal: Signal) {
    if let Some(child) = Pid::from_raw(child.cast_signed()) {
        // It has ended if this fails.
        let _ = kill_process(child, signal);
    }
}

/// Signals that are the command's.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }
}
