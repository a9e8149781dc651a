//! A server's process: started in a group of its own, and gone when its owner is gone.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::error::ServerError;

/// How often something that will soon be true is looked at.
const STEP: Duration = Duration::from_millis(5);

/// How a server is told to end at once, without writing back what it holds in memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    /// SIGQUIT: PostgreSQL's immediate shutdown. Its backends are in sessions of their own, so that
    /// killing the group would reach only the first process; this one ends the backends, too, and
    /// gives its shared memory back.
    Quit,
    /// SIGKILL: the server is a single process.
    Kill,
}

impl Stop {
    fn signal(self) -> Signal {
        match self {
            Self::Quit => Signal::QUIT,
            Self::Kill => Signal::KILL,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
        }
    }
}

/// A server and the shell that ends it should this process die without running destructors: a
/// static is never dropped, and neither is anything after an abort or a SIGKILL.
///
/// Not PR_SET_PDEATHSIG: that fires when the *thread* that started the server ends.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    watchdog: Child,
    stop: Stop,
}

impl Process {
    /// Starts `command`; `folder` is what the watchdog removes.
    pub(super) fn start(
        mut command: Command,
        stop: Stop,
        folder: &Path,
    ) -> Result<Self, ServerError> {
        let mut watchdog = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "palisade-watchdog"])
            .arg(stop.name())
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends the tests' process group; the watchdog is to see it, not to share it.
            .process_group(0)
            .spawn()
            .map_err(|why| ServerError::system("start", Path::new("sh"), &why))?;
        let program = command.get_program().to_owned();
        let child = match command.stdin(Stdio::null()).process_group(0).spawn() {
            Ok(child) => child,
            Err(why) => {
                release(&mut watchdog);
                return Err(ServerError::system("start", Path::new(&program), &why));
            }
        };
        let mut process = Self {
            child,
            watchdog,
            stop,
        };
        let group = process.child.id();
        process
            .tell(&group.to_string())
            .map_err(|why| ServerError::system("write to", Path::new("watchdog"), &why))?;
        Ok(process)
    }

    /// The server's process id, which is that of its group.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended. Until it is waited for, it is a process without memory.
    pub(super) fn has_ended(&self) -> bool {
        let memory = std::fs::read_to_string(format!("/proc/{}/statm", self.id()));
        memory.map_or(true, |text| text.starts_with("0 "))
    }

    /// Waits until `ready`, until the server has ended, or until the time is over.
    pub(super) fn wait_until(&mut self, within: Duration, mut ready: impl FnMut() -> bool) -> Wait {
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Wait::Ended(status);
            }
            if ready() {
                return Wait::Ready;
            }
            if start.elapsed() > within {
                return Wait::Late;
            }
            thread::sleep(STEP);
        }
    }

    fn tell(&mut self, line: &str) -> std::io::Result<()> {
        match &mut self.watchdog.stdin {
            Some(input) => writeln!(input, "{line}"),
            None => Ok(()),
        }
    }
}

/// What [`Process::wait_until`] saw first.
#[derive(Debug)]
pub(super) enum Wait {
    /// The condition holds.
    Ready,
    /// The server has ended.
    Ended(ExitStatus),
    /// Neither in time.
    Late,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Each of these may find that the server has already ended: that is what is wanted.
            if matches!(self.child.try_wait(), Ok(None)) {
                let _ = kill_process(pid, self.stop.signal());
                self.wait_until(Duration::from_secs(10), || false);
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
        let _ = self.tell("stopped");
        release(&mut self.watchdog);
    }
}

/// Closes the watchdog's input and takes it from the table of processes.
fn release(watchdog: &mut Child) {
    drop(watchdog.stdin.take());
    let _ = watchdog.wait();
}
