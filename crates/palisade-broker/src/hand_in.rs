//! Connections that a process outside of a sandbox makes, and hands to relays inside: a sandbox can refuse to make sockets and let
//! those be used that are there.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::{
    io::{AsyncReadExt as _, Interest},
    net::UnixStream,
    time::timeout,
};

use crate::ask::{ANSWER_TIME, AskError, connect};

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
pub async fn hand_connections_in(
    run: &Path,
    user: u32,
    channel: std::os::unix::net::UnixStream,
) -> io::Result<()> {
    channel.set_nonblocking(true)?;
    let mut channel = UnixStream::from_std(channel)?;
    loop {
        let mut asked = [0_u8; 1];
        if channel.read(&mut asked).await? == 0 {
            return Ok(());
        }
        let (answer, connection) = match connect(run, user).await {
            Ok(connection) => (HANDED, Some(connection)),
            Err(AskError::Absent(_)) => (ABSENT, None),
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

fn send(channel: &UnixStream, answer: u8, connection: Option<&UnixStream>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    let descriptor = connection.map(|one| [one.as_fd()]);
    if let Some(descriptor) = &descriptor
        && !with.push(SendAncillaryMessage::ScmRights(descriptor))
    {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(
        channel,
        &[IoSlice::new(&[answer])],
        &mut with,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Asks for a connection. Which relay of a sandbox gets which one does not matter: all are alike until a relay says its first line.
pub(crate) async fn take_connection(channel: &UnixStream) -> Result<UnixStream, AskError> {
    let exchange = async {
        let ask = || Ok(rustix::io::write(channel, &[ASK])?);
        channel.async_io(Interest::WRITABLE, ask).await?;
        channel
            .async_io(Interest::READABLE, || receive(channel))
            .await
    };
    let answer = timeout(ANSWER_TIME, exchange)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    match answer {
        Ok((HANDED, Some(connection))) => {
            let connection = std::os::unix::net::UnixStream::from(connection);
            connection.set_nonblocking(true)?;
            Ok(UnixStream::from_std(connection)?)
        }
        Ok((ABSENT, None)) => Err(AskError::AbsentOutside),
        Ok((_, Some(_) | None)) => Err(AskError::NotHandedIn),
        Err(error) if is_gone(&error) => Err(AskError::ParentGone),
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
        RecvFlags::CMSG_CLOEXEC,
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
        stream: std::os::unix::net::UnixStream,
        /// The user's id.
        user: u32,
    },
    /// By a process outside that [hands them in](hand_connections_in). It has looked at who listens.
    Parent(std::os::unix::net::UnixStream),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn connections_come_while_a_broker_listens_and_the_parent_lives() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().to_owned();
        let own = rustix::process::geteuid().as_raw();
        let (outside, inside) = std::os::unix::net::UnixStream::pair().unwrap();
        inside.set_nonblocking(true).unwrap();
        let inside = UnixStream::from_std(inside).unwrap();
        let parent = tokio::spawn({
            let run = run.clone();
            async move { hand_connections_in(&run, own, outside).await }
        });
        let absent = take_connection(&inside).await.unwrap_err();
        assert!(matches!(absent, AskError::AbsentOutside), "{absent}");
        let listener =
            tokio::net::UnixListener::bind(crate::layout::Layout::socket_in(&run)).unwrap();
        for text in ["one", "two"] {
            let mut got = take_connection(&inside).await.unwrap();
            let (mut came, _) = listener.accept().await.unwrap();
            got.write_all(text.as_bytes()).await.unwrap();
            let mut read = [0; 3];
            came.read_exact(&mut read).await.unwrap();
            assert_eq!(read, text.as_bytes());
        }
        parent.abort();
        let gone = timeout(Duration::from_secs(5), async {
            loop {
                match take_connection(&inside).await {
                    Err(AskError::ParentGone) => return,
                    other => drop(other),
                }
            }
        });
        gone.await.unwrap();
    }

    #[tokio::test]
    async fn a_listener_of_another_user_is_not_handed_in() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().to_owned();
        let _listener =
            tokio::net::UnixListener::bind(crate::layout::Layout::socket_in(&run)).unwrap();
        let (outside, inside) = std::os::unix::net::UnixStream::pair().unwrap();
        inside.set_nonblocking(true).unwrap();
        let inside = UnixStream::from_std(inside).unwrap();
        let other = rustix::process::geteuid().as_raw() + 1;
        let task = tokio::spawn({
            let run = run.clone();
            async move { hand_connections_in(&run, other, outside).await }
        });
        let failed = take_connection(&inside).await.unwrap_err();
        assert!(matches!(failed, AskError::NotHandedIn), "{failed}");
        drop(inside);
        task.await.unwrap().unwrap();
    }
}
