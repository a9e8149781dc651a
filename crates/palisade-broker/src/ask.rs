//! A connection to a broker, from its other side.

use std::{
    fs::File,
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    handshake::{Ask, Hello, VERSION, Welcome, exchange},
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
pub(crate) fn connect(run: &Path, user: u32) -> Result<UnixStream, AskError> {
    let path = Layout::socket_in(run);
    let stream = match open_socket(&path) {
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

/// Connects to a socket. Where more wait for its listener than may, this one waits for its turn.
#[cfg(target_os = "linux")]
fn open_socket(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    };

    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The system has those that wait come in one after the other, so that a flood keeps none out.
    set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIME))?;
    rustix::net::connect(&socket, &address)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

/// Connects to a socket.
#[cfg(not(target_os = "linux"))]
fn open_socket(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// The user of the process at the other end.
#[cfg(target_os = "linux")]
fn find_user(stream: &UnixStream) -> io::Result<u32> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

    // Its process can have no number here.
    Ok(getsockopt(stream, PeerCredentials)?.uid())
}

/// The user of the process at the other end.
#[cfg(not(target_os = "linux"))]
fn find_user(stream: &UnixStream) -> io::Result<u32> {
    let (user, _) = nix::unistd::getpeereid(stream)?;
    Ok(user.as_raw())
}

/// Refuses a listener of another user than `wanted`.
pub(crate) fn check_listener(stream: &UnixStream, wanted: u32) -> Result<(), AskError> {
    let found = find_user(stream)?;
    if found == NOBODY || found != wanted {
        return Err(AskError::Listener { found, wanted });
    }
    Ok(())
}

/// Says the first line with the secret of a folder, and reads the answer.
pub(crate) fn greet(stream: &UnixStream, secret: &Path, ask: Ask) -> Result<Welcome, AskError> {
    let path = Layout::token_in(secret);
    let file = File::open(&path).map_err(crate::private::at(&path))?;
    let token = read_bounded(&file, SECRET_BYTES, &path)?;
    let hello = Hello {
        palisade: VERSION,
        token: token.trim_end().to_owned(),
        ask,
    };
    match exchange(stream, &hello, ANSWER_TIME)? {
        Welcome::Refused { code, message } => Err(AskError::Refused { code, message }),
        welcome @ (Welcome::Serve { .. } | Welcome::Status(_) | Welcome::Ended(_)) => Ok(welcome),
    }
}

/// Asks the broker of `layout`, as the operator does. It blocks, for seconds at most.
///
/// # Errors
/// If none listens, or it refuses.
pub fn ask_broker(layout: &Layout, ask: Ask) -> Result<Welcome, AskError> {
    let own = rustix::process::geteuid().as_raw();
    let stream = connect(&layout.run(), own)?;
    greet(&stream, &layout.admin(), ask)
}
