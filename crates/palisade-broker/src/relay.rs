//! The relay: copies MCP lines between two streams and the broker's socket. It knows no secret of a database, and decides nothing.
//!
//! Two threads do it, one for each direction, and neither waits for the other: the smallest that a process can be.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::{
    ask::{ANSWER_TIME, AskError, check_listener, connect, greet},
    hand_in::{Reach, take_connection},
    handshake::{Ask, Welcome},
    in_flight::{Beginning, InFlight, WAITING, answer_absent, answer_too_long, tell_updated},
    lines::{LINE_BYTES, Line, LineReader},
    private::{read_file, write_file},
};

/// The time that the broker is given to answer what waits once the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// The time between attempts to reach a broker that went away.
const RETRY: Duration = Duration::from_millis(200);

/// Connections that are tried at the start: a broker gives some up while it is flooded, and some may have been made for others.
const ATTEMPTS: u32 = 4;

/// Bytes of stack of the thread that reads from the client.
const STACK: usize = 256 * 1024;

/// What a relay needs.
#[derive(Debug)]
pub struct RelayOptions {
    /// How it comes to connections.
    pub reach: Reach,
    /// The folder of the secret.
    pub secret: PathBuf,
    /// The file in which the session's secret outlives the relay.
    pub resume: Option<PathBuf>,
    /// Tells whoever looks after it what it meets and goes on in spite of.
    pub warn: fn(&str),
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
/// session is resumed once it is back. It blocks. A thread that waits for `read` can outlive it.
///
/// # Errors
/// If no broker is there at the start, or it refuses.
pub fn run_relay<R, W>(options: RelayOptions, read: R, write: W) -> Result<(), RelayError>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let RelayOptions {
        reach,
        secret,
        resume,
        warn,
    } = options;
    let (way, first) = match reach {
        Reach::Folder { run, user } => (Way::Folder { run, user }, None),
        Reach::Connected { stream, user } => (Way::None, Some(adopt(stream, user)?)),
        Reach::Parent(channel) => {
            channel.set_nonblocking(false)?;
            (Way::Parent(channel), None)
        }
    };
    let mut relay = Relay {
        resume: read_resume(resume.as_deref())?,
        file: resume,
        way,
        secret,
        warn,
        copied: Arc::new(Copied {
            state: Mutex::new(State {
                is_trying: true,
                ..State::default()
            }),
            changed: Condvar::new(),
            write: Mutex::new(write),
        }),
    };
    let mut link = match first {
        Some(link) => {
            relay.greet(&link)?;
            link
        }
        None => relay.begin()?,
    };
    let up = Arc::clone(&relay.copied);
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || up.copy_up(read))?;
    loop {
        match relay.copied.copy_down(link)? {
            End::Client => return Ok(()),
            End::Broker => {}
        }
        if matches!(relay.way, Way::None) {
            return Err(AskError::Broken(io::ErrorKind::UnexpectedEof.into()).into());
        }
        match relay.reconnect()? {
            Some(again) => link = again,
            None => return Ok(()),
        }
    }
}

fn adopt(stream: UnixStream, user: u32) -> Result<UnixStream, AskError> {
    stream.set_nonblocking(false)?;
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
    fn connect(&self) -> Result<UnixStream, AskError> {
        match self {
            Self::Folder { run, user } => connect(run, *user),
            Self::Parent(channel) => take_connection(channel),
            Self::None => Err(AskError::Broken(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// What both directions know.
struct Copied<W> {
    state: Mutex<State>,
    /// What one of them waits for is there.
    changed: Condvar,
    write: Mutex<W>,
}

#[derive(Default)]
struct State {
    /// The broker, while one is there.
    link: Option<Arc<UnixStream>>,
    /// Whether it may be there in a moment.
    is_trying: bool,
    flight: InFlight,
    is_client_gone: bool,
    /// Why the client is gone, where its stream broke.
    fault: Option<io::Error>,
}

impl<W: Write> Copied<W> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the client a line.
    fn answer(&self, line: &[u8]) -> io::Result<()> {
        let mut write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        write.write_all(line)?;
        write.flush()
    }

    /// Copies the client's lines until its end. The broker has some time to answer what waits then.
    fn copy_up(&self, read: impl Read) {
        let mut client = LineReader::new(read, LINE_BYTES);
        let fault = loop {
            let copied = match client.next() {
                Ok(Some(Line::Whole(line))) => self.hand_up(&line),
                Ok(Some(Line::TooLong)) => self.answer(&answer_too_long(LINE_BYTES)),
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            if copied.is_err() {
                // No client reads any more.
                break None;
            }
        };
        let mut state = self.lock();
        let time = match fault {
            Some(_) => Duration::ZERO,
            None => LAST_ANSWERS,
        };
        state.is_client_gone = true;
        state.fault = fault;
        if let Some(link) = &state.link {
            let _ = link.shutdown(Shutdown::Write);
        }
        self.changed.notify_all();
        let waited = self
            .changed
            .wait_timeout_while(state, time, |state| state.link.is_some());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = &state.link {
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Gives the broker a line of the client; where there is none, its answer is that.
    fn hand_up(&self, line: &[u8]) -> io::Result<()> {
        let state = self.lock();
        let is_to_wait = |state: &mut State| {
            state.is_trying || (state.link.is_some() && state.flight.len() >= WAITING)
        };
        let waited = self.changed.wait_while(state, is_to_wait);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(link) = state.link.clone() else {
            drop(state);
            return match answer_absent(line) {
                Some(answer) => self.answer(&answer),
                None => Ok(()),
            };
        };
        state.flight.see_request(line);
        drop(state);
        // If the broker is gone, the other direction finds out and answers.
        let _ = (&*link).write_all(line);
        Ok(())
    }

    /// Copies the broker's lines until its end, and then answers what waits.
    fn copy_down(&self, link: UnixStream) -> io::Result<End> {
        let link = Arc::new(link);
        {
            let mut state = self.lock();
            if state.is_client_gone {
                return state.fault.take().map_or(Ok(End::Client), Err);
            }
            state.link = Some(Arc::clone(&link));
            state.is_trying = false;
            self.changed.notify_all();
        }
        let mut broker = LineReader::new(&*link, usize::MAX);
        while let Ok(Some(line)) = broker.next() {
            let Line::Whole(line) = line else { continue };
            {
                let mut state = self.lock();
                let was_full = state.flight.len() >= WAITING;
                state.flight.see_answer(&line);
                if was_full {
                    self.changed.notify_all();
                }
            }
            if self.answer(&line).is_err() {
                // No client reads any more.
                return Ok(End::Client);
            }
        }
        let (answers, is_client_gone, fault) = {
            let mut state = self.lock();
            state.link = None;
            state.is_trying = true;
            self.changed.notify_all();
            let fault = state.fault.take();
            (state.flight.give_up(), state.is_client_gone, fault)
        };
        if let Some(fault) = fault {
            return Err(fault);
        }
        if is_client_gone {
            return Ok(End::Client);
        }
        for answer in answers {
            self.answer(&answer)?;
        }
        Ok(End::Broker)
    }

    /// Waits for the next attempt, and answers meanwhile; whether the client is gone by then.
    fn wait_for_attempt(&self) -> io::Result<bool> {
        let mut state = self.lock();
        state.is_trying = false;
        self.changed.notify_all();
        let waited = self
            .changed
            .wait_timeout_while(state, RETRY, |state| !state.is_client_gone);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_trying = true;
        match state.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(state.is_client_gone),
        }
    }
}

struct Relay<W> {
    way: Way,
    secret: PathBuf,
    /// The secret of the session.
    resume: Option<String>,
    file: Option<PathBuf>,
    warn: fn(&str),
    copied: Arc<Copied<W>>,
}

impl<W: Write> Relay<W> {
    /// The first connection.
    fn begin(&mut self) -> Result<UnixStream, AskError> {
        let mut attempt = 1;
        loop {
            let link = self.way.connect()?;
            match self.greet(&link) {
                Ok(()) => return Ok(link),
                Err(error) if attempt < ATTEMPTS && self.is_given_up(&error) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the broker gave the connection up before it was greeted: in a flood, or where it was made for a relay that ended before
    /// it took it.
    fn is_given_up(&self, error: &AskError) -> bool {
        match error {
            AskError::Broken(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            ),
            AskError::Refused { code, message: _ } => {
                code == "broker.slow" && matches!(self.way, Way::Parent(_))
            }
            AskError::Absent(_)
            | AskError::AbsentOutside
            | AskError::Forbidden { .. }
            | AskError::Sandboxed(_)
            | AskError::ParentGone
            | AskError::NotHandedIn
            | AskError::Listener { .. }
            | AskError::Secret(_) => false,
        }
    }

    /// Says the first line, and keeps the session's next secret.
    fn greet(&mut self, link: &UnixStream) -> Result<(), AskError> {
        let ask = Ask::Serve {
            resume: self.resume.clone(),
        };
        match greet(link, &self.secret, ask)? {
            Welcome::Serve {
                session,
                resume,
                resumed,
            } => {
                if let Some(path) = &self.file {
                    write_file(path, resume.as_bytes(), None)?;
                }
                if self.resume.is_some() && !resumed {
                    (self.warn)(&format!(
                        "the session of before has ended; this is another: {session}"
                    ));
                }
                self.resume = Some(resume);
                Ok(())
            }
            Welcome::Status(_) | Welcome::Ended(_) | Welcome::Refused { .. } => {
                Err(AskError::Broken(io::ErrorKind::InvalidData.into()))
            }
        }
    }

    /// Waits for a broker, and begins where the one before ended; none if the client is gone first.
    fn reconnect(&mut self) -> Result<Option<UnixStream>, RelayError> {
        loop {
            match self.try_again() {
                Ok(link) => return Ok(Some(link)),
                Err(error @ AskError::ParentGone) => return Err(error.into()),
                Err(error @ (AskError::Listener { .. } | AskError::Secret(_))) => {
                    (self.warn)(&error.to_string());
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
            if self.copied.wait_for_attempt()? {
                return Ok(None);
            }
        }
    }

    fn try_again(&mut self) -> Result<UnixStream, AskError> {
        let link = self.way.connect()?;
        self.greet(&link)?;
        let beginning = self.copied.lock().flight.begin();
        let Some(Beginning {
            line,
            id,
            initialized,
            standing,
        }) = beginning
        else {
            return Ok(link);
        };
        link.set_read_timeout(Some(ANSWER_TIME))?;
        ask_and_wait(&link, &line, &id)?;
        if let Some(initialized) = initialized {
            (&link).write_all(&initialized)?;
        }
        for (number, one) in standing.iter().enumerate() {
            let (line, id) = one.ask(number);
            ask_and_wait(&link, &line, &id)?;
            // It may have changed while there was no server to tell.
            if let Some(uri) = &one.uri {
                self.copied.answer(&tell_updated(uri))?;
            }
        }
        link.set_read_timeout(None)?;
        Ok(link)
    }
}

/// Asks what the client has its answer to already.
fn ask_and_wait(mut link: &UnixStream, line: &[u8], id: &str) -> io::Result<()> {
    link.write_all(line)?;
    let mut seen = InFlight::default();
    while seen.see_answer(&read_one_line(link)?).as_deref() != Some(id) {}
    Ok(())
}

/// Reads a line and nothing behind it, byte by byte: what follows belongs to whoever reads on.
fn read_one_line(mut link: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        if line.len() >= LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut byte = [0];
        link.read_exact(&mut byte)?;
        line.extend_from_slice(&byte);
    }
    Ok(line)
}
