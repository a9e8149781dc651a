//! A connection to a broker, from its other side.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{net::UnixStream, time::timeout};

use crate::{
    handshake::{Ask, Hello, VERSION, Welcome, read_welcome, write_line},
    layout::{Layout, SECRET_BYTES},
    peer::NOBODY,
    private::{PrivateError, read_bounded},
};

/// The time that a broker is given to answer the first line.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Why a broker is not reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// None listens.
    #[error("no broker listens at `{0}`\n  help: start it: `palisade broker --config FILE`")]
    Absent(PathBuf),
    /// A sandbox around this process forbids sockets (EPERM).
    #[error(
        "`{0}` cannot be connected to: a sandbox around this process forbids Unix sockets (EPERM)\n  help: start the agent by `palisade sandbox --hand-in -- AGENT`, and this relay with `--parent 3` in the place of `--run`. Or have the sandbox allow them: Claude Code by `sandbox.network.allowAllUnixSockets` (on macOS `allowUnixSockets`), Codex by `network_access = true` under `[sandbox_workspace_write]` or `enabled = true` under `[permissions.NAME.network]`"
    )]
    Sandboxed(PathBuf),
    /// The process outside that hands connections in has ended.
    #[error(
        "the process that hands connections in has ended\n  help: start the agent anew by `palisade sandbox --hand-in -- AGENT`"
    )]
    ParentGone,
    /// None listens, says the process outside that hands connections in.
    #[error(
        "no broker listens outside of the sandbox\n  help: start it there: `palisade broker --config FILE`"
    )]
    AbsentOutside,
    /// The process outside has no connection to hand in.
    #[error("no connection is handed in; the log of `palisade sandbox` says why")]
    NotHandedIn,
    /// The system forbids it.
    #[error(
        "`{path}` cannot be connected to: {error}\n  help: a folder that is another user's has to be shared by `group` under `[broker]`"
    )]
    Forbidden {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another user listens.
    #[error(
        "the process that listens is the user {found}'s, and not {wanted}'s\n  help: `--broker-user {found}`, if this is the broker's user"
    )]
    Listener {
        /// Whose it is.
        found: u32,
        /// Whose it should be.
        wanted: u32,
    },
    /// The secret cannot be read.
    #[error(transparent)]
    Secret(#[from] PrivateError),
    /// The broker refuses.
    #[error("the broker refuses ({code}): {message}")]
    Refused {
        /// Its code.
        code: String,
        /// What to do.
        message: String,
    },
    /// The connection broke, or what listens is no broker.
    #[error("the broker did not answer: {0}")]
    Broken(#[from] io::Error),
}

/// Connects to the broker whose socket is in `run`; it has to be the process of `user`.
pub(crate) async fn connect(run: &Path, user: u32) -> Result<UnixStream, AskError> {
    let path = Layout::socket_in(run);
    let stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) => {
            return Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    AskError::Absent(path)
                }
                // A file's mode is another error (EACCES).
                _ if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => {
                    AskError::Sandboxed(path)
                }
                io::ErrorKind::PermissionDenied => AskError::Forbidden { path, error },
                _ => AskError::Broken(error),
            });
        }
    };
    check_listener(&stream, user)?;
    Ok(stream)
}

/// Refuses a listener of another user than `wanted`.
pub(crate) fn check_listener(stream: &UnixStream, wanted: u32) -> Result<(), AskError> {
    let found = stream.peer_cred()?.uid();
    if found == NOBODY || found != wanted {
        return Err(AskError::Listener { found, wanted });
    }
    Ok(())
}

/// Says the first line with the secret of a folder, and reads the answer.
pub(crate) async fn greet(
    stream: &mut UnixStream,
    secret: &Path,
    ask: Ask,
) -> Result<Welcome, AskError> {
    let path = Layout::token_in(secret);
    let file = File::open(&path).map_err(crate::private::at(&path))?;
    let token = read_bounded(&file, SECRET_BYTES, &path)?;
    let hello = Hello {
        palisade: VERSION,
        token: token.trim_end().to_owned(),
        ask,
    };
    // A refusal that came before the line was written is still there to be read.
    let written = write_line(stream, &hello).await;
    let answer = timeout(ANSWER_TIME, read_welcome(stream)).await;
    match answer {
        Ok(Ok(Welcome::Refused { code, message })) => Err(AskError::Refused { code, message }),
        Ok(Ok(welcome @ (Welcome::Serve { .. } | Welcome::Status(_) | Welcome::Ended(_)))) => {
            Ok(welcome)
        }
        Ok(Err(error)) => Err(AskError::Broken(written.err().unwrap_or(error))),
        Err(_) => Err(AskError::Broken(io::ErrorKind::TimedOut.into())),
    }
}

/// Asks the broker of `layout`, as the operator does.
///
/// # Errors
/// If none listens, or it refuses.
pub async fn ask_broker(layout: &Layout, ask: Ask) -> Result<Welcome, AskError> {
    let own = rustix::process::geteuid().as_raw();
    let mut stream = connect(&layout.run(), own).await?;
    greet(&mut stream, &layout.admin(), ask).await
}
