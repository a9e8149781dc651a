//! Runs test programs without a change, to learn which tests reach which switches, and then with each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use super::build::Binary;
use crate::run::Result;

/// The environment variable that names the wanted change; also in `switches::SWITCH`.
const CHANGE: &str = "PALISADE_CHANGE";
/// That of the file that is told which switches are reached.
const REACHED: &str = "PALISADE_REACHED";

/// Most memory of a test program, in KiB of addresses: a change may make a loop that allocates.
const MOST_MEMORY_KIB: &str = "12000000";

/// What the tests of a program do without a change.
pub(super) struct Baseline<'a> {
    pub(super) binary: &'a Binary,
    time: Duration,
    /// The longest time in which no test ended.
    pause: Duration,
    /// Those that fail without a change say nothing.
    pub(super) failing: BTreeSet<String>,
    /// By change, which tests reach it. A thread without the name of a test is an empty name.
    reached: BTreeMap<u32, BTreeSet<String>>,
}

impl<'a> Baseline<'a> {
    /// Runs all tests of `binary` once.
    pub(super) fn run(binary: &'a Binary, folder: &Path) -> Result<Self> {
        let file = folder.join("reached");
        let _ = fs::remove_file(&file);
        let mut command = command(binary);
        command.env(REACHED, &file);
        let run = Run::watch(command, None, false)?;
        let mut reached: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for line in fs::read_to_string(&file).unwrap_or_default().lines() {
            let Some((number, thread)) = line.split_once('\t') else {
                continue;
            };
            let Ok(number) = number.parse() else {
                continue;
            };
            let known = run.passed.contains(thread) || run.failed.contains(thread);
            let name = if known { thread } else { "" };
            reached.entry(number).or_default().insert(name.to_owned());
        }
        Ok(Self {
            binary,
            time: run.time,
            pause: run.pause,
            failing: run.failed,
            reached,
        })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }

    pub(super) fn reaches(&self, number: u32) -> bool {
        self.reached.contains_key(&number)
    }

    /// The first test that notices change `number`.
    pub(super) fn notice(&self, number: u32) -> Result<Option<String>> {
        let Some(tests) = self.reached.get(&number) else {
            return Ok(None);
        };
        let named = |name: &&String| !name.is_empty() && !self.failing.contains(*name);
        let names: Vec<&String> = tests.iter().filter(named).collect();
        if !names.is_empty() {
            let mut command = command(self.binary);
            command.arg("--exact").args(&names);
            if let Some(why) = self.run_changed(command, number)? {
                return Ok(Some(why));
            }
        }
        if !tests.contains("") {
            return Ok(None);
        }
        // Threads that tests start have no names: any of the other tests may be the one.
        let mut command = command(self.binary);
        command.arg("--exact");
        let skipped = names.into_iter().chain(&self.failing);
        command.args(skipped.flat_map(|name| ["--skip", name]));
        self.run_changed(command, number)
    }

    fn run_changed(&self, mut command: Command, number: u32) -> Result<Option<String>> {
        command.env(CHANGE, number.to_string());
        let most = Limits {
            time: self.time * 4 + Duration::from_secs(30),
            pause: self.pause * 4 + Duration::from_secs(20),
        };
        let run = Run::watch(command, Some(most), true)?;
        Ok(match run.end {
            End::Passed => None,
            End::Failed => Some(run.failed.first().cloned().unwrap_or("a crash".to_owned())),
            End::Late => Some("too slow".to_owned()),
        })
    }
}

fn command(binary: &Binary) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v \"$0\"; exec \"$@\"", MOST_MEMORY_KIB])
        .arg(&binary.program)
        .args(["--test-threads", "2"])
        .current_dir(&binary.folder)
        .env("CARGO_MANIFEST_DIR", &binary.folder)
        .env("RUST_BACKTRACE", "0")
        .env_remove(CHANGE)
        .env_remove(REACHED)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

#[derive(Clone, Copy)]
struct Limits {
    time: Duration,
    pause: Duration,
}

enum End {
    Passed,
    Failed,
    Late,
}

/// How the run of a test program ended.
struct Run {
    end: End,
    time: Duration,
    pause: Duration,
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Run {
    /// Runs it to its end; to its first failure, if `stops`; no longer than `most`.
    fn watch(mut command: Command, most: Option<Limits>, stops: bool) -> Result<Self> {
        let start = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| format!("a test program cannot be started: {error}"))?;
        let (sender, lines) = mpsc::channel();
        let output = child.stdout.take();
        let reader = std::thread::spawn(move || {
            for line in output
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines())
            {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut run = Self {
            end: End::Passed,
            time: Duration::ZERO,
            pause: Duration::ZERO,
            passed: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        let mut last = start;
        let mut late = false;
        loop {
            let wait = most.map_or(Duration::from_secs(3600), |most| {
                let pause = most.pause.saturating_sub(last.elapsed());
                pause.min(most.time.saturating_sub(start.elapsed()))
            });
            match lines.recv_timeout(wait) {
                Ok(line) => {
                    if let Some((name, passed)) = read_result(&line) {
                        run.pause = run.pause.max(last.elapsed());
                        last = Instant::now();
                        let list = if passed {
                            &mut run.passed
                        } else {
                            &mut run.failed
                        };
                        list.insert(name.to_owned());
                        if !passed && stops {
                            break;
                        }
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    late = true;
                    break;
                }
            }
        }
        run.time = start.elapsed();
        run.pause = run.pause.max(last.elapsed());
        let ended_early = late || (stops && !run.failed.is_empty());
        if ended_early {
            // Servers end when their owner is gone.
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        // What it started may keep its output open.
        drop(lines);
        if !ended_early {
            let _ = reader.join();
        }
        run.end = if late {
            End::Late
        } else if ended_early || !status.success() {
            End::Failed
        } else {
            End::Passed
        };
        Ok(run)
    }
}

/// The test that a line of output tells of, and whether it passed.
fn read_result(line: &str) -> Option<(&str, bool)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    match result {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::read_result;

    #[test]
    fn lines_of_output_tell_how_tests_ended() {
        for (line, expected) in [
            ("test a::b ... ok", Some(("a::b", true))),
            ("test a::b ... FAILED", Some(("a::b", false))),
            ("test a - should panic ... ok", Some(("a", true))),
            ("test a ... ignored", None),
            ("test a has been running for over 60 seconds", None),
            ("test result: FAILED. 1 passed; 1 failed", None),
            ("running 2 tests", None),
        ] {
            assert_eq!(read_result(line), expected, "{line}");
        }
    }
}
