//! A folder to run the binary in.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// The agent of the demonstration.
pub(crate) const BOT: &str = "Agent::\"support-bot\"";

/// A folder with the demonstration in it.
pub(crate) struct Desk {
    dir: TempDir,
}

/// How a command ended.
pub(crate) struct Answer {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let desk = Self::empty();
        desk.run(&["demo"]).expect_exit(0);
        desk
    }

    pub(crate) fn empty() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A policy folder with one file.
    pub(crate) fn policy(&self, text: &str) {
        self.write("p/base.cedar", text);
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_remove("NO_COLOR")
            // No test reaches the keyring of whoever runs it.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with(arguments, b"")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Answer {
        let mut command = self.command(env!("CARGO_BIN_EXE_palisade"));
        Answer::from_command(command.args(arguments), input)
    }

    /// Runs in a shell, where `palisade` is the binary; with `stack` KiB of stack if that is not 0.
    pub(crate) fn shell(&self, script: &str, stack: u32, input: &[u8]) -> Answer {
        let limit = if stack == 0 {
            String::new()
        } else {
            format!("ulimit -s {stack}; ")
        };
        let folder = Path::new(env!("CARGO_BIN_EXE_palisade")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut command = self.command("sh");
        Answer::from_command(
            command
                .env("PATH", path)
                .args(["-c", &format!("{limit}{script}")]),
            input,
        )
    }

    /// The records of an audit log, without what its chain says of itself.
    pub(crate) fn records(&self, log: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(log)).unwrap();
        (text.lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|record| record["principal"].is_string())
            .collect()
    }

    pub(crate) fn query(&self, sql: &str) -> Value {
        self.run(&[
            "query",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--as",
            BOT,
            "--format",
            "json",
            sql,
        ])
        .json()
    }
}

impl Answer {
    pub(crate) fn from_command(command: &mut Command, input: &[u8]) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A program that has seen enough closes its input.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            exit: status.code().unwrap_or_else(|| panic!("killed: {status}")),
            out: text(stdout),
            err: text(stderr),
        }
    }

    #[track_caller]
    pub(crate) fn expect_exit(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "{}\n{}", self.out, self.err);
        self
    }

    /// Fails with this exit code, and says each of `told` on standard error.
    #[track_caller]
    pub(crate) fn fails(self, exit: i32, told: &[&str]) {
        assert_eq!(self.exit, exit, "{}\n{}", self.out, self.err);
        assert_eq!(self.out, "");
        for text in told {
            assert!(self.err.contains(text), "`{text}` is not in\n{}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "{}\n{}", self.out, self.err);
        lines[0].clone()
    }

    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        self.out.lines().map(line).collect()
    }
}

/// Columns that a line takes.
pub(crate) fn width(line: &str) -> usize {
    line.chars().count()
}
