//! The relay: copies MCP lines between two streams and the broker's socket. It knows no secret of a database, and decides nothing.

use std::{
    cell::RefCell,
    future::pending,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::UnixStream,
    sync::{Notify, mpsc},
    time::sleep,
};

use crate::{
    ask::{AskError, check_listener, connect, greet},
    hand_in::{Reach, take_connection},
    handshake::{Ask, Welcome},
    in_flight::{Beginning, InFlight, WAITING, answer_absent, answer_too_long},
    lines::{LINE_BYTES, Line, LineReader},
    private::{read_file, write_file},
};

/// The time that the broker is given to answer what waits once the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// The time between attempts to reach a broker that went away.
const RETRY: Duration = Duration::from_millis(200);

/// Connections that are tried at the start, where some may have been made for others.
const ATTEMPTS: u32 = 4;

/// What a relay needs.
#[derive(Debug)]
pub struct RelayOptions {
    /// How it comes to connections.
    pub reach: Reach,
    /// The folder of the secret.
    pub secret: PathBuf,
    /// The file in which the session's secret outlives the relay.
    pub resume: Option<PathBuf>,
}

/// Why a relay ends that should not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The broker is not reached.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// One of the two streams broke.
    #[error("the client's streams: {0}")]
    Streams(#[from] io::Error),
}

/// Why lines are copied no more.
enum End {
    Client,
    Broker,
}

/// Copies lines until the client closes its end. When the broker goes away, requests that wait are answered with an error, and the
/// session is resumed once it is back. It must be polled on a Tokio runtime with IO and time enabled.
///
/// # Errors
/// If no broker is there at the start, or it refuses.
pub async fn run_relay<R, W>(options: RelayOptions, read: R, write: W) -> Result<(), RelayError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let RelayOptions {
        reach,
        secret,
        resume,
    } = options;
    let (way, first) = match reach {
        Reach::Folder { run, user } => (Way::Folder { run, user }, None),
        Reach::Connected { stream, user } => (Way::None, Some(adopt(stream, user)?)),
        Reach::Parent(channel) => {
            channel.set_nonblocking(true)?;
            (Way::Parent(UnixStream::from_std(channel)?), None)
        }
    };
    let mut relay = Relay {
        resume: read_resume(resume.as_deref())?,
        file: resume,
        way,
        secret,
        client: LineReader::new(read, LINE_BYTES),
        write,
        flight: RefCell::default(),
    };
    let mut link = match first {
        Some(mut link) => {
            relay.greet(&mut link).await?;
            link
        }
        None => relay.begin().await?,
    };
    loop {
        match relay.pump(link).await? {
            End::Client => return Ok(()),
            End::Broker => {}
        }
        let answers = relay.flight.get_mut().give_up();
        for answer in answers {
            relay.write.write_all(&answer).await?;
        }
        relay.write.flush().await?;
        if matches!(relay.way, Way::None) {
            return Err(AskError::Broken(io::ErrorKind::UnexpectedEof.into()).into());
        }
        match relay.reconnect().await? {
            Some(again) => link = again,
            None => return Ok(()),
        }
    }
}

fn adopt(stream: std::os::unix::net::UnixStream, user: u32) -> Result<UnixStream, AskError> {
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    check_listener(&stream, user)?;
    Ok(stream)
}

fn read_resume(path: Option<&Path>) -> Result<Option<String>, AskError> {
    let Some(path) = path else { return Ok(None) };
    let text = read_file(path, 256, None)?;
    Ok(text.map(|text| text.trim_end().to_owned()))
}

/// Where the next connection comes from.
enum Way {
    Folder { run: PathBuf, user: u32 },
    Parent(UnixStream),
    None,
}

impl Way {
    async fn connect(&self) -> Result<UnixStream, AskError> {
        match self {
            Self::Folder { run, user } => connect(run, *user).await,
            Self::Parent(channel) => take_connection(channel).await,
            Self::None => Err(AskError::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

struct Relay<R, W> {
    way: Way,
    secret: PathBuf,
    /// The secret of the session.
    resume: Option<String>,
    file: Option<PathBuf>,
    client: LineReader<R>,
    write: W,
    flight: RefCell<InFlight>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Relay<R, W> {
    /// The first connection.
    async fn begin(&mut self) -> Result<UnixStream, AskError> {
        let mut attempt = 1;
        loop {
            let mut link = self.way.connect().await?;
            match self.greet(&mut link).await {
                Ok(()) => return Ok(link),
                Err(error) if attempt < ATTEMPTS && self.may_be_stale(&error) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the connection may have been made for a relay that ended before it took it. The broker gave it up by then.
    fn may_be_stale(&self, error: &AskError) -> bool {
        let is_given_up = match error {
            AskError::Broken(_) => true,
            AskError::Refused { code, message: _ } => code == "broker.slow",
            AskError::Absent(_)
            | AskError::AbsentOutside
            | AskError::Forbidden { .. }
            | AskError::Sandboxed(_)
            | AskError::ParentGone
            | AskError::NotHandedIn
            | AskError::Listener { .. }
            | AskError::Secret(_) => false,
        };
        is_given_up && matches!(self.way, Way::Parent(_))
    }

    /// Says the first line, and keeps the session's next secret.
    async fn greet(&mut self, link: &mut UnixStream) -> Result<(), AskError> {
        let ask = Ask::Serve {
            resume: self.resume.clone(),
        };
        match greet(link, &self.secret, ask).await? {
            Welcome::Serve {
                session,
                resume,
                resumed,
            } => {
                if let Some(path) = &self.file {
                    write_file(path, resume.as_bytes(), None)?;
                }
                if self.resume.is_some() && !resumed {
                    tracing::warn!(session, "the session of before has ended; this is another");
                }
                self.resume = Some(resume);
                Ok(())
            }
            Welcome::Status(_) | Welcome::Ended(_) | Welcome::Refused { .. } => {
                Err(AskError::Broken(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// Copies lines both ways at once, so that neither waits for the other.
    async fn pump(&mut self, link: UnixStream) -> io::Result<End> {
        let Self {
            client,
            write,
            flight,
            ..
        } = self;
        let (read, mut to_broker) = link.into_split();
        let mut from_broker = LineReader::new(read, usize::MAX);
        let (refuse, mut refused) = mpsc::channel::<Vec<u8>>(16);
        let (answered, closed) = (Notify::new(), Notify::new());
        let up = async {
            loop {
                while flight.borrow().len() >= WAITING {
                    answered.notified().await;
                }
                match client.next().await? {
                    Some(Line::Whole(line)) => {
                        flight.borrow_mut().see_request(&line);
                        if to_broker.write_all(&line).await.is_err() {
                            // Whatever the broker has still said is read first.
                            return pending().await;
                        }
                    }
                    Some(Line::TooLong) => {
                        let _ = refuse.send(answer_too_long(LINE_BYTES)).await;
                    }
                    None => {
                        let _ = to_broker.shutdown().await;
                        closed.notify_one();
                        return pending::<io::Result<End>>().await;
                    }
                }
            }
        };
        let is_closing = RefCell::new(false);
        let down = async {
            loop {
                let line = tokio::select! {
                    Some(line) = refused.recv() => line,
                    line = from_broker.next() => match line {
                        Ok(Some(Line::Whole(line))) => {
                            flight.borrow_mut().see_answer(&line);
                            answered.notify_one();
                            line
                        }
                        Ok(Some(Line::TooLong)) => continue,
                        Ok(None) | Err(_) => break,
                    },
                };
                if write.write_all(&line).await.is_err() || write.flush().await.is_err() {
                    // No client reads any more.
                    return Ok(End::Client);
                }
            }
            Ok(if *is_closing.borrow() {
                End::Client
            } else {
                End::Broker
            })
        };
        let last = async {
            closed.notified().await;
            is_closing.replace(true);
            sleep(LAST_ANSWERS).await;
            Ok(End::Client)
        };
        tokio::select! {
            ended = up => ended,
            ended = down => ended,
            ended = last => ended,
        }
    }

    /// Waits for a broker, and begins where the one before ended; none if the client is gone first.
    async fn reconnect(&mut self) -> Result<Option<UnixStream>, RelayError> {
        loop {
            match self.try_again().await {
                Ok(link) => return Ok(Some(link)),
                Err(error @ AskError::ParentGone) => return Err(error.into()),
                Err(error @ (AskError::Listener { .. } | AskError::Secret(_))) => {
                    tracing::warn!("{error}");
                }
                Err(
                    AskError::Absent(_)
                    | AskError::AbsentOutside
                    | AskError::Sandboxed(_)
                    | AskError::NotHandedIn
                    | AskError::Forbidden { .. }
                    | AskError::Refused { .. }
                    | AskError::Broken(_),
                ) => {}
            }
            let line = tokio::select! {
                line = self.client.next() => line?,
                () = sleep(RETRY) => continue,
            };
            let answer = match line {
                Some(Line::Whole(line)) => answer_absent(&line),
                Some(Line::TooLong) => Some(answer_too_long(LINE_BYTES)),
                None => return Ok(None),
            };
            if let Some(answer) = answer {
                self.write.write_all(&answer).await?;
                self.write.flush().await?;
            }
        }
    }

    async fn try_again(&mut self) -> Result<UnixStream, AskError> {
        let mut link = self.way.connect().await?;
        self.greet(&mut link).await?;
        let beginning = self.flight.borrow().begin();
        let Some(Beginning {
            line,
            id,
            initialized,
        }) = beginning
        else {
            return Ok(link);
        };
        link.write_all(&line).await?;
        let mut seen = InFlight::default();
        loop {
            let line = read_one_line(&mut link).await?;
            if seen.see_answer(&line).as_deref() == Some(id.as_str()) {
                break;
            }
        }
        if let Some(initialized) = initialized {
            link.write_all(&initialized).await?;
        }
        Ok(link)
    }
}

/// Reads a line and nothing behind it, byte by byte: what follows belongs to whoever reads on.
async fn read_one_line(link: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        if line.len() >= LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        line.push(link.read_u8().await?);
    }
    Ok(line)
}
