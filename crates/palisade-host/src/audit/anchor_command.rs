//! A program that takes anchors away from this machine: each is written to its standard input. A thread of its own runs it, so that no
//! call waits for it.

use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    audit::{
        anchor::Anchor,
        file::now_ms,
        files::{open_to_replace, with_ending},
    },
    outbox::{Closing, Outbox},
};

/// Anchors that wait for the command; a further one is given up, as those after it name more.
const QUEUE: usize = 100;

/// How often an anchor is handed over at most.
const ATTEMPTS: u32 = 3;

/// How long it waits before that is tried again; the second time twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Variables of the environment that the command gets. Others can hold secrets.
const ENVIRONMENT: [&str; 2] = ["PATH", "HOME"];

/// A program that takes anchors. It is run without a shell, once for each anchor, which is a line on its standard input.
#[derive(Clone)]
pub struct AnchorCommand {
    /// The program: a path, or a name that `PATH` leads to.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// After how long it is killed.
    pub timeout: Duration,
    /// Is told why an anchor was not taken, for the operator's log. It must not block.
    pub on_failure: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for AnchorCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnchorCommand")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// What became of the anchors of a log that a command takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorsSent {
    /// The record that the last anchor names which the command took.
    pub seq: Option<u64>,
    /// Why the last anchor was not taken; none if it was.
    pub failure: Option<String>,
    /// When that was, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
}

impl AnchorsSent {
    /// What stands beside the log at `log`; none if no command ever took an anchor of it, or failed to.
    #[must_use]
    pub fn read(log: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(name_file(log)).ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        Some(Self {
            seq: json.get("seq").and_then(Value::as_u64),
            failure: (json.get("failure").and_then(Value::as_str)).map(str::to_owned),
            time_ms: json.get("time_ms").and_then(Value::as_u64)?,
        })
    }

    /// Writes it beside the log, whole or not at all.
    fn write(&self, log: &Path) -> io::Result<()> {
        let Self {
            seq,
            failure,
            time_ms,
        } = self;
        let line = json!({"time_ms": time_ms, "seq": seq, "failure": failure});
        let path = name_file(log);
        let draft = with_ending(&path, &format!(".{}", std::process::id()));
        open_to_replace(&draft)?.write_all(format!("{line}\n").as_bytes())?;
        std::fs::rename(draft, path)
    }
}

/// The file beside a log that says what became of its anchors.
fn name_file(log: &Path) -> PathBuf {
    with_ending(log, ".sent")
}

/// Hands anchors over.
#[derive(Debug)]
pub(in crate::audit) struct AnchorSender(Outbox<Anchor>);

impl AnchorSender {
    /// For the log at `log`.
    pub(in crate::audit) fn start(command: &AnchorCommand, log: &Path) -> io::Result<Self> {
        let runner = Runner {
            command: command.clone(),
            log: log.to_owned(),
        };
        // One that is running, and the last.
        let patience = command.timeout.saturating_mul(2).saturating_add(PAUSE);
        let work = move |anchors: &_, closing: &_| runner.take_all(anchors, closing);
        Outbox::start("anchor-command", QUEUE, patience, work).map(Self)
    }

    /// Hands `anchor` over soon. It does not block. What finds no place is named by the anchors after it.
    pub(in crate::audit) fn send(&self, anchor: Anchor) {
        let _ = self.0.put(anchor);
    }

    /// Hands over what waits, and then nothing more. It blocks, though not for ever. Nothing runs any more afterwards.
    pub(in crate::audit) fn finish(&self) {
        self.0.finish();
    }
}

/// What the thread has.
struct Runner {
    command: AnchorCommand,
    log: PathBuf,
}

impl Runner {
    fn take_all(&self, anchors: &Receiver<Anchor>, closing: &Closing) {
        let mut next = None;
        while let Some(mut anchor) = next.take().or_else(|| anchors.recv().ok()) {
            // Of several that have waited, the last names the most.
            while let Ok(later) = anchors.try_recv() {
                if later.chain != anchor.chain {
                    next = Some(later);
                    break;
                }
                anchor = later;
            }
            let before = AnchorsSent::read(&self.log).and_then(|sent| sent.seq);
            let failure = self.take(&anchor, closing).err();
            let sent = AnchorsSent {
                seq: match failure {
                    None => Some(anchor.place.seq),
                    Some(_) => before,
                },
                failure,
                time_ms: now_ms(),
            };
            if let Some(why) = &sent.failure {
                (self.command.on_failure)(why);
            }
            if let Err(error) = sent.write(&self.log) {
                (self.command.on_failure)(&format!("what became of it cannot be kept: {error}"));
            }
        }
    }

    /// Hands one over, more than once if need be.
    fn take(&self, anchor: &Anchor, closing: &Closing) -> Result<(), String> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let Err(why) = self.run(anchor) else {
                return Ok(());
            };
            if attempt == ATTEMPTS || !closing.wait(pause) {
                return Err(why);
            }
            attempt += 1;
            pause = pause.saturating_mul(2);
        }
    }

    fn run(&self, anchor: &Anchor) -> Result<(), String> {
        let AnchorCommand {
            program,
            arguments,
            timeout,
            on_failure: _,
        } = &self.command;
        let environment = ENVIRONMENT
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            // The server's own can belong to a protocol.
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("`{}` cannot be run: {error}", program.display()))?;
        if let Some(mut input) = child.stdin.take() {
            // It fits into a pipe. Whoever does not read it says so by the exit code, if it matters.
            let _ = writeln!(input, "{anchor}");
        }
        let ended = wait(&mut child, *timeout);
        let status = ended.map_err(|error| format!("`{}`: {error}", program.display()))?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("`{}` ended with {status}", program.display())),
            None => Err(format!(
                "`{}` did not end within {} s, and was killed",
                program.display(),
                timeout.as_secs()
            )),
        }
    }
}

/// Waits until `child` has ended, or kills it after `timeout`; then there is no status.
fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}
