//! The sink that appends to the chain in a file.

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade::audit::{AuditRecord, AuditSink};
use serde_json::json;

use crate::audit::{
    anchor::Anchor,
    anchor_command::{AnchorCommand, AnchorSender},
    chain::{AuditKey, ChainPlace, hex, write_line},
    files::{is_same, list_older, older_name, open_to_append},
    tail::{Head, Standing, Tail, Torn, read_standing},
};

/// How long a line waits for another process's.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the lock is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// When lines are forced to the disk. Whatever is chosen, they are before an anchor is written and before a file is renamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditSync {
    /// Then alone. The system's crash can take lines that no anchor names; the program's cannot.
    #[default]
    Anchor,
    /// Each, before its call is answered.
    Record,
}

/// What an operator decides about an audit log.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The key of the chain. Without it, lines are not chained.
    pub key: Option<AuditKey>,
    /// The file to which anchors are appended; without it, none are.
    pub anchors: Option<PathBuf>,
    /// What takes anchors away from this machine; without it, nothing does.
    pub anchor_command: Option<AnchorCommand>,
    /// After how many lines there is an anchor at the latest.
    pub anchor_every: u64,
    /// After how long.
    pub anchor_after: Duration,
    /// When lines are forced to the disk.
    pub sync: AuditSync,
    /// Bytes at which a file is full. Then it is renamed, and the chain goes on in the next one.
    pub max_file_bytes: Option<u64>,
    /// Age at which a file is renamed likewise, by its first line and at its next one.
    pub max_file_age: Option<Duration>,
    /// How many older files are kept; without it, all. Only files whose end an anchor names are removed.
    pub max_files: Option<u64>,
}

impl AuditOptions {
    /// One file that grows, without anchors.
    #[must_use]
    pub fn new(key: Option<AuditKey>) -> Self {
        Self {
            key,
            anchors: None,
            anchor_command: None,
            anchor_every: 1000,
            anchor_after: Duration::from_secs(600),
            sync: AuditSync::default(),
            max_file_bytes: None,
            max_file_age: None,
            max_files: None,
        }
    }
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AuditFileError {
    /// The system does not let it be read or written.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It was begun under another key.
    #[error("it is chained under another key; name the key it was begun with, or another file")]
    Key,
    /// Anchors would stand in the log itself.
    #[error("its anchors cannot stand in the same file; name another one")]
    Anchors,
    /// What is no file can be given lines, and nothing that needs to read them again.
    #[error(
        "it is no file, so that its lines are not chained; leave out the key, anchors and the limits of files"
    )]
    NoFile,
}

/// Appends records to a file, as a chain. Several processes may append to one file: each line is written under a lock.
///
/// A pipe or a device gets the records alone: nothing can be read back from there.
#[derive(Debug)]
pub struct AuditFile {
    sink: Sink,
    /// Ends the thread that writes anchors.
    _timer: Option<mpsc::Sender<()>>,
}

#[derive(Debug)]
enum Sink {
    Chain(Arc<Chain>),
    Plain(Mutex<File>),
}

#[derive(Debug)]
struct Chain {
    path: PathBuf,
    key: AuditKey,
    options: AuditOptions,
    sender: Option<AnchorSender>,
    state: Mutex<State>,
}

/// What this process knows of the chain.
#[derive(Debug)]
struct State {
    /// The file that is locked; none after a failure.
    file: Option<File>,
    known: Option<Known>,
    /// Lines since the last anchor.
    unanchored: u64,
    /// When it was written.
    anchored: Instant,
}

/// The chain as it was after this process's last line.
#[derive(Debug, Clone)]
struct Known {
    len: u64,
    head: Head,
    tail: Tail,
}

impl AuditFile {
    /// Opens the log at `path`; new files get mode 0600. The chain begins with the first record.
    ///
    /// # Errors
    /// If the system does not let it be written, or it holds something else, or is chained under another key.
    pub fn open(path: &Path, options: AuditOptions) -> Result<Self, AuditFileError> {
        let file = open_to_append(path)?;
        let is_file = file.metadata()?.is_file();
        let Some(key) = options.key.clone().filter(|_| is_file) else {
            let AuditOptions {
                key: _,
                anchors,
                anchor_command,
                anchor_every: _,
                anchor_after: _,
                sync: _,
                max_file_bytes,
                max_file_age,
                max_files,
            } = &options;
            let is_more = anchors.is_some()
                || anchor_command.is_some()
                || max_file_bytes.is_some()
                || max_file_age.is_some()
                || max_files.is_some();
            return match is_more {
                true => Err(AuditFileError::NoFile),
                false => Ok(Self {
                    sink: Sink::Plain(Mutex::new(file)),
                    _timer: None,
                }),
            };
        };
        if let Some(anchors) = &options.anchors
            && is_same(&file, anchors)?
        {
            return Err(AuditFileError::Anchors);
        }
        let command = options.anchor_command.as_ref();
        let sender = command.map(|command| AnchorSender::start(command, path));
        let chain = Arc::new(Chain {
            path: path.to_owned(),
            key,
            sender: sender.transpose()?,
            state: Mutex::new(State {
                file: Some(file),
                known: None,
                unanchored: 0,
                anchored: Instant::now(),
            }),
            options,
        });
        chain.check_key()?;
        let timer = (chain.has_anchors()).then(|| begin_timer(&chain));
        Ok(Self {
            sink: Sink::Chain(chain),
            _timer: timer.transpose()?,
        })
    }

    /// As [`keep_anchor`](Self::keep_anchor), and waits until the command has taken it, though not for ever.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self) -> io::Result<()> {
        let kept = self.keep_anchor();
        if let Sink::Chain(chain) = &self.sink
            && let Some(sender) = &chain.sender
        {
            sender.finish();
        }
        kept
    }

    /// Writes an anchor for what has none yet, as is due when the process ends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_anchor(&self) -> io::Result<()> {
        match &self.sink {
            Sink::Chain(chain) => chain.keep_anchor(&mut chain.state()),
            Sink::Plain(_) => Ok(()),
        }
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        // Whoever has to know asks before.
        let _ = self.finish();
    }
}

impl AuditSink for AuditFile {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        let line = serde_json::to_string(record).map_err(|error| error.to_string())?;
        match &self.sink {
            Sink::Chain(chain) => chain.append(&line).map_err(|error| {
                format!(
                    "cannot write the audit log `{}`: {error}",
                    chain.path.display()
                )
            }),
            Sink::Plain(file) => file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(format!("{line}\n").as_bytes())
                .map_err(|error| format!("cannot write the audit log: {error}")),
        }
    }

    fn records_at_once(&self) -> bool {
        match &self.sink {
            Sink::Chain(chain) => match chain.options.sync {
                AuditSync::Record => false,
                // Before an anchor is written, the disk confirms what it names.
                AuditSync::Anchor => !chain.has_anchors(),
            },
            Sink::Plain(_) => true,
        }
    }
}

/// Starts a thread that writes anchors while no line does.
fn begin_timer(chain: &Arc<Chain>) -> io::Result<mpsc::Sender<()>> {
    let (sender, receiver) = mpsc::channel();
    let (chain, after): (Weak<Chain>, _) = (Arc::downgrade(chain), chain.options.anchor_after);
    let run = move || {
        while receiver.recv_timeout(after) == Err(mpsc::RecvTimeoutError::Timeout) {
            let Some(chain) = chain.upgrade() else { return };
            // If it fails, the next line meets it.
            let _ = chain.keep_anchor(&mut chain.state());
        }
    };
    thread::Builder::new()
        .name("audit-anchors".to_owned())
        .spawn(run)?;
    Ok(sender)
}

impl Chain {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a log that was begun under another key, before anything is recorded.
    fn check_key(&self) -> Result<(), AuditFileError> {
        let mut state = self.state();
        let mut file = self.lock(&mut state)?;
        let len = file.metadata()?.len();
        let standing = match len {
            0 => None,
            len => Some(read_standing(&mut file, len)?),
        };
        file.unlock()?;
        state.file = Some(file);
        match standing.and_then(|standing| standing.begun) {
            Some((head, _)) if head.key != self.key.id() => Err(AuditFileError::Key),
            Some(_) | None => Ok(()),
        }
    }

    /// Appends a line that holds `record`, a JSON object.
    fn append(&self, record: &str) -> io::Result<()> {
        let mut state = self.state();
        let mut file = self.lock(&mut state)?;
        let written = self.append_to(&mut file, &mut state, record);
        file.unlock()?;
        // After a failure the file is looked at anew.
        written?;
        state.file = Some(file);
        let is_due = state.unanchored >= self.options.anchor_every
            || state.anchored.elapsed() >= self.options.anchor_after;
        if is_due {
            self.keep_anchor(&mut state)?;
        }
        Ok(())
    }

    fn append_to(&self, file: &mut File, state: &mut State, record: &str) -> io::Result<()> {
        let mut known = self.look(file, state)?;
        if self.is_full(&known) {
            self.rotate(file, state, &known)?;
            known = self.look(file, state)?;
        }
        known = self.write(file, known, record)?;
        state.unanchored = state.unanchored.saturating_add(1);
        if self.options.sync == AuditSync::Record {
            file.sync_data()?;
        }
        state.known = Some(known);
        Ok(())
    }

    /// The file at the path, locked: another process may have renamed what was open.
    fn lock(&self, state: &mut State) -> io::Result<File> {
        let began = Instant::now();
        loop {
            let file = match state.file.take() {
                Some(file) => file,
                None => {
                    // Perhaps another one than before.
                    if let Some(known) = &mut state.known {
                        known.len = u64::MAX;
                    }
                    open_to_append(&self.path)?
                }
            };
            match file.try_lock() {
                Ok(()) if is_same(&file, &self.path)? => return Ok(file),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => {
                    state.file = Some(file);
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "another process holds its lock; end that one",
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// The chain as it stands in the file, with its first line written.
    fn look(&self, file: &mut File, state: &State) -> io::Result<Known> {
        let len = file.metadata()?.len();
        match &state.known {
            // As this process left it.
            Some(known) if known.len == len => Ok(known.clone()),
            known => self.look_again(file, len, known.as_ref()),
        }
    }

    /// The file as others have left it, after what this process knew.
    fn look_again(&self, file: &mut File, len: u64, before: Option<&Known>) -> io::Result<Known> {
        let Standing {
            begun,
            is_open,
            torn,
        } = match len {
            0 => Standing {
                begun: None,
                is_open: false,
                torn: None,
            },
            len => read_standing(file, len)?,
        };
        let mut known = match (begun, before) {
            (Some((head, _)), _) if head.key != self.key.id() => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    AuditFileError::Key.to_string(),
                ));
            }
            // Lines were cut off, or it was replaced: the chain goes on from what is known, so that the gap shows.
            (Some((head, tail)), Some(before))
                if head.chain != before.head.chain || tail.seq < before.tail.seq =>
            {
                Known {
                    len,
                    head: before.head.clone(),
                    tail: before.tail.clone(),
                }
            }
            (Some((head, tail)), _) => Known { len, head, tail },
            (None, before) => self.begin(len, before)?,
        };
        if is_open {
            // Its end alone was missing.
            self.put(file, &mut known.len, b"\n")?;
        }
        let is_new = len == 0 || known.head.time_ms == 0;
        if let Some(Torn {
            is_ended: false, ..
        }) = &torn
        {
            self.put(file, &mut known.len, b"\n")?;
        }
        if is_new {
            known = self.write_head(file, known)?;
        }
        if let Some(Torn { bytes, sha256, .. }) = torn {
            let line =
                json!({"kind": "torn", "time_ms": now_ms(), "bytes": bytes, "sha256": sha256});
            known = self.write(file, known, &line.to_string())?;
        }
        if is_new {
            known = self.remove_old(file, known)?;
        }
        Ok(known)
    }

    /// Where the chain goes on in a file that has no line of it.
    fn begin(&self, len: u64, before: Option<&Known>) -> io::Result<Known> {
        let (chain, tail) = match (before, self.read_last_older()?) {
            // Another process may have gone on before it renamed its file.
            (Some(before), Some((head, tail)))
                if head.chain == before.head.chain && tail.seq > before.tail.seq =>
            {
                (head.chain, tail)
            }
            (Some(before), _) => (before.head.chain.clone(), before.tail.clone()),
            (None, Some((head, tail))) if head.key == self.key.id() => (head.chain, tail),
            (None, _) => (new_chain()?, Tail::NONE),
        };
        let head = Head {
            time_ms: 0,
            chain,
            key: self.key.id(),
            before: tail.tag,
        };
        Ok(Known { len, head, tail })
    }

    /// Writes the first line of a file.
    fn write_head(&self, file: &mut File, known: Known) -> io::Result<Known> {
        let time_ms = now_ms();
        let Head { chain, key, .. } = &known.head;
        let line = json!({
            "kind": "begin", "time_ms": time_ms, "chain": chain, "key": key, "before": hex(&known.head.before)
        });
        let mut known = self.write(file, known, &line.to_string())?;
        known.head.time_ms = time_ms;
        Ok(known)
    }

    /// Appends a line, whole or not at all.
    fn write(&self, file: &mut File, mut known: Known, record: &str) -> io::Result<Known> {
        let seq = known.tail.seq.saturating_add(1);
        let (line, tag) = write_line(&self.key, &known.tail.tag, seq, record);
        self.put(file, &mut known.len, &line)?;
        known.tail = Tail { seq, tag };
        Ok(known)
    }

    fn put(&self, file: &mut File, len: &mut u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = file.write_all(bytes) {
            // What a full disk took of it; if that stays, the next line tells of it.
            let _ = file.set_len(*len);
            return Err(error);
        }
        *len += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn is_full(&self, known: &Known) -> bool {
        let age = Duration::from_millis(now_ms().saturating_sub(known.head.time_ms));
        (self.options.max_file_bytes).is_some_and(|most| known.len >= most)
            || (self.options.max_file_age).is_some_and(|most| age >= most)
    }

    /// Renames the file, and opens the next one, locked.
    fn rotate(&self, file: &mut File, state: &mut State, known: &Known) -> io::Result<()> {
        file.sync_data()?;
        self.write_anchor(known)?;
        (state.unanchored, state.anchored) = (0, Instant::now());
        let last = (list_older(&self.path)?.last()).map_or(0, |(number, _)| *number);
        std::fs::rename(&self.path, older_name(&self.path, last.saturating_add(1)))?;
        state.known = Some(known.clone());
        file.unlock()?;
        *file = self.lock(state)?;
        Ok(())
    }

    /// Removes the oldest files where there are more than may be. The chain says so first.
    fn remove_old(&self, file: &mut File, known: Known) -> io::Result<Known> {
        let Some(most) = self.options.max_files else {
            return Ok(known);
        };
        let older = list_older(&self.path)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let old = older
            .get(..older.len().saturating_sub(most))
            .unwrap_or_default();
        let Some((_, last)) = old.last() else {
            return Ok(known);
        };
        // Without an anchor nothing would show what they were.
        let (Some((_, tail)), Some(_)) = (read_end(last)?, &self.options.anchors) else {
            return Ok(known);
        };
        let line = json!({
            "kind": "removed", "time_ms": now_ms(), "files": old.len(), "through": tail.seq, "last": tail.mac()
        });
        let known = self.write(file, known, &line.to_string())?;
        file.sync_data()?;
        for (_, path) in old {
            std::fs::remove_file(path)?;
        }
        Ok(known)
    }

    /// Where the last older file ends, if there is one.
    fn read_last_older(&self) -> io::Result<Option<(Head, Tail)>> {
        match list_older(&self.path)?.last() {
            Some((_, path)) => read_end(path),
            None => Ok(None),
        }
    }

    fn keep_anchor(&self, state: &mut State) -> io::Result<()> {
        if let (1.., Some(known)) = (state.unanchored, &state.known) {
            if let (Some(file), true) = (&state.file, self.has_anchors()) {
                file.sync_data()?;
            }
            self.write_anchor(known)?;
            state.unanchored = 0;
        }
        state.anchored = Instant::now();
        Ok(())
    }

    /// Whether anything is done with anchors.
    fn has_anchors(&self) -> bool {
        self.options.anchors.is_some() || self.sender.is_some()
    }

    fn write_anchor(&self, known: &Known) -> io::Result<()> {
        if !self.has_anchors() {
            return Ok(());
        }
        let name = self.path.file_name().unwrap_or_default();
        let anchor = Anchor {
            time_ms: now_ms(),
            log: name.to_string_lossy().into_owned(),
            chain: known.head.chain.clone(),
            place: ChainPlace {
                seq: known.tail.seq,
                mac: known.tail.mac(),
            },
        };
        if let Some(path) = &self.options.anchors {
            anchor.append(path).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("its anchors, `{}`: {error}", path.display()),
                )
            })?;
        }
        if let Some(sender) = &self.sender {
            sender.send(anchor);
        }
        Ok(())
    }
}

fn read_end(path: &Path) -> io::Result<Option<(Head, Tail)>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok(match len {
        0 => None,
        len => read_standing(&mut file, len)?.begun,
    })
}

fn new_chain() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

pub(in crate::audit) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
