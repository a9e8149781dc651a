//! The first line of each side of a connection.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The version of the handshake.
pub(crate) const VERSION: u32 = 1;

/// Bytes of a first line.
pub(crate) const HELLO_BYTES: usize = 512;

/// Bytes of an answer to it, which tells of sessions to the operator.
const WELCOME_BYTES: usize = 1024 * 1024;

/// The time within which a peer has to have said its first line.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(2);

/// What a peer says first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The version of the handshake.
    pub palisade: u32,
    /// The secret of `secret/`, of an enrolment, or of `admin/`.
    pub token: String,
    /// What is wanted.
    pub ask: Ask,
}

/// What a peer wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// MCP, in the session that the secret stands for, or in a new one.
    Serve {
        /// The secret of a session.
        resume: Option<String>,
    },
    /// What there is, for the operator.
    Status {},
    /// The end of a session, for the operator.
    End {
        /// Its id.
        session: String,
    },
}

/// What the broker answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Welcome {
    /// MCP lines follow.
    Serve {
        /// The session's id.
        session: String,
        /// The secret by which it is resumed, once.
        resume: String,
        /// Whether it is the session that was asked for.
        resumed: bool,
    },
    /// What there is.
    Status(serde_json::Value),
    /// Whether there was such a session.
    Ended(bool),
    /// A refusal.
    Refused {
        /// Its code.
        code: String,
        /// What to do.
        message: String,
    },
}

/// Reads one line of at most `most` bytes, and nothing behind it.
async fn read_line<R: AsyncRead + Unpin>(read: &mut R, most: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut piece = [0_u8; HELLO_BYTES];
    loop {
        let count = read.read(&mut piece).await?;
        let Some(part) = piece.get(..count).filter(|part| !part.is_empty()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if line.len().saturating_add(count) > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        line.extend_from_slice(part);
        match part.iter().position(|byte| *byte == b'\n') {
            // The other side waits for the answer before it says more.
            Some(at) if at.saturating_add(1) == count => return Ok(line),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
    }
}

/// Reads what a peer says first.
pub(crate) async fn read_hello<R: AsyncRead + Unpin>(read: &mut R) -> io::Result<Hello> {
    let line = read_line(read, HELLO_BYTES).await?;
    let hello: Hello = serde_json::from_slice(&line)?;
    if hello.palisade != VERSION {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(hello)
}

/// Says `hello`, and reads what the broker answers within `time`.
pub(crate) fn exchange(link: &UnixStream, hello: &Hello, time: Duration) -> io::Result<Welcome> {
    let deadline = Instant::now() + time;
    let mut first = serde_json::to_vec(hello)?;
    first.push(b'\n');
    link.set_write_timeout(Some(time))?;
    // A refusal that came before the line was written is still there to be read.
    let written = (&mut &*link).write_all(&first);
    let read = read_until(link, deadline);
    link.set_write_timeout(None)?;
    link.set_read_timeout(None)?;
    let line = read.map_err(|error| written.err().unwrap_or(error))?;
    Ok(serde_json::from_slice(&line)?)
}

/// Reads one line, and nothing behind it: the other side says no more before it is asked.
fn read_until(link: &UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut piece = [0_u8; HELLO_BYTES];
    while line.last() != Some(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        link.set_read_timeout(Some(left))?;
        let count = match (&mut &*link).read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let Some(part) = piece.get(..count).filter(|part| !part.is_empty()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if line.len().saturating_add(count) > WELCOME_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        line.extend_from_slice(part);
        let end = line.iter().position(|byte| *byte == b'\n');
        if end.is_some_and(|at| at.saturating_add(1) < line.len()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(line)
}

/// Writes a line.
pub(crate) async fn write_line<W: AsyncWrite + Unpin>(
    write: &mut W,
    what: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    write.flush().await
}
