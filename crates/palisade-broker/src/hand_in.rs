//! Connections that a process outside of a sandbox makes, and hands to relays inside: a sandbox can refuse to make sockets and let
//! those be used that are there.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt as _, Interest};

use crate::ask::{ANSWER_TIME, AskError, connect};

/// An end that is gone is told by an error alone, as in every program of Rust; and descriptors are not for what is started later.
#[cfg(target_os = "linux")]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const QUIETLY: SendFlags = SendFlags::empty();
#[cfg(target_os = "linux")]
const FOR_THIS_PROCESS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FOR_THIS_PROCESS: RecvFlags = RecvFlags::empty();

/// What a relay asks.
const ASK: u8 = b'?';

/// The answers: with a connection, without one because no broker listens, or for another reason.
const HANDED: u8 = b'+';
const ABSENT: u8 = b'-';
const FAILED: u8 = b'!';

/// Hands connections in: one for each that is asked for by `channel`, to the broker whose socket is in `run`. It has to be the
/// process of `user`. What the connections are used for is not looked at. Ends when no process holds the channel's other end. It must
/// be polled on a Tokio runtime with IO and time enabled.
///
/// # Errors
/// If the channel breaks.
pub async fn hand_connections_in(run: &Path, user: u32, channel: UnixStream) -> io::Result<()> {
    channel.set_nonblocking(true)?;
    let mut channel = tokio::net::UnixStream::from_std(channel)?;
    loop {
        let mut asked = [0_u8; 1];
        if channel.read(&mut asked).await? == 0 {
            return Ok(());
        }
        let run = run.to_owned();
        // It waits where others flood the broker.
        let connected = tokio::task::spawn_blocking(move || connect(&run, user)).await;
        let (answer, connection) = match connected {
            Ok(Ok(connection)) => (HANDED, Some(connection)),
            Ok(Err(AskError::Absent(_))) => (ABSENT, None),
            Ok(Err(error)) => {
                tracing::warn!("no connection is handed in: {error}");
                (FAILED, None)
            }
            Err(error) => {
                tracing::warn!("no connection is handed in: {error}");
                (FAILED, None)
            }
        };
        channel
            .async_io(Interest::WRITABLE, || {
                send(&channel, answer, connection.as_ref())
            })
            .await?;
    }
}

fn send(
    channel: &tokio::net::UnixStream,
    answer: u8,
    connection: Option<&UnixStream>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    let descriptor = connection.map(|one| [one.as_fd()]);
    if let Some(descriptor) = &descriptor
        && !with.push(SendAncillaryMessage::ScmRights(descriptor))
    {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(channel, &[IoSlice::new(&[answer])], &mut with, QUIETLY)?;
    Ok(())
}

/// Asks for a connection. Which relay of a sandbox gets which one does not matter: all are alike until a relay says its first line.
pub(crate) fn take_connection(channel: &UnixStream) -> Result<UnixStream, AskError> {
    channel.set_read_timeout(Some(ANSWER_TIME))?;
    channel.set_write_timeout(Some(ANSWER_TIME))?;
    let asked = rustix::io::write(channel, &[ASK]).map_err(io::Error::from);
    match asked.and_then(|_| receive(channel)) {
        Ok((HANDED, Some(connection))) => {
            let connection = UnixStream::from(connection);
            connection.set_nonblocking(false)?;
            Ok(connection)
        }
        Ok((ABSENT, None)) => Err(AskError::AbsentOutside),
        Ok((_, Some(_) | None)) => Err(AskError::NotHandedIn),
        Err(error) if is_gone(&error) => Err(AskError::ParentGone),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(AskError::Broken(io::ErrorKind::TimedOut.into()))
        }
        Err(error) => Err(AskError::Broken(error)),
    }
}

fn is_gone(error: &io::Error) -> bool {
    [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
    ]
    .contains(&error.kind())
}

/// One answer, which ends where its descriptor does.
fn receive(channel: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut answer = [0_u8; 1];
    let received = recvmsg(
        channel,
        &mut [IoSliceMut::new(&mut answer)],
        &mut with,
        FOR_THIS_PROCESS,
    )?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut connection = None;
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            connection = descriptors.last();
        }
    }
    #[cfg(not(target_os = "linux"))]
    if let Some(connection) = &connection {
        rustix::io::fcntl_setfd(connection, rustix::io::FdFlags::CLOEXEC)?;
    }
    let [answer] = answer;
    Ok((answer, connection))
}

/// How a relay comes to connections.
#[derive(Debug)]
pub enum Reach {
    /// By the socket in a folder; the broker has to be the process of a user.
    Folder {
        /// The folder.
        run: PathBuf,
        /// The user's id.
        user: u32,
    },
    /// By a descriptor that is connected already, to a broker that has to be the process of a user. There is no other attempt when
    /// it breaks.
    Connected {
        /// The connection.
        stream: UnixStream,
        /// The user's id.
        user: u32,
    },
    /// By a process outside that [hands them in](hand_connections_in). It has looked at who listens.
    Parent(UnixStream),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

    use super::*;
    use crate::layout::Layout;

    /// Hands in on a thread with a runtime of its own, until the channel's other end is gone or `stop` is.
    fn hand_in(
        run: &Path,
        user: u32,
        outside: UnixStream,
        stop: tokio::sync::oneshot::Receiver<()>,
    ) -> thread::JoinHandle<()> {
        let run = run.to_owned();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::select! {
                    ended = hand_connections_in(&run, user, outside) => ended.unwrap(),
                    _ = stop => {}
                }
            });
        })
    }

    #[test]
    fn connections_come_while_a_broker_listens_and_the_parent_lives() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let (outside, inside) = UnixStream::pair().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let parent = hand_in(dir.path(), own, outside, stopped);
        let absent = take_connection(&inside).unwrap_err();
        assert!(matches!(absent, AskError::AbsentOutside), "{absent}");
        let listener = UnixListener::bind(Layout::socket_in(dir.path())).unwrap();
        for text in ["one", "two"] {
            let mut got = take_connection(&inside).unwrap();
            let (mut came, _) = listener.accept().unwrap();
            got.write_all(text.as_bytes()).unwrap();
            let mut read = [0; 3];
            came.read_exact(&mut read).unwrap();
            assert_eq!(read, text.as_bytes());
        }
        drop(stop);
        parent.join().unwrap();
        let gone = take_connection(&inside).unwrap_err();
        assert!(matches!(gone, AskError::ParentGone), "{gone}");
    }

    #[test]
    fn a_listener_of_another_user_is_not_handed_in() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(Layout::socket_in(dir.path())).unwrap();
        let (outside, inside) = UnixStream::pair().unwrap();
        let other = rustix::process::geteuid().as_raw() + 1;
        let (_stop, stopped) = tokio::sync::oneshot::channel();
        let parent = hand_in(dir.path(), other, outside, stopped);
        let failed = take_connection(&inside).unwrap_err();
        assert!(matches!(failed, AskError::NotHandedIn), "{failed}");
        drop(inside);
        parent.join().unwrap();
    }
}
