//! What can go wrong with a server of the tests.

use std::{path::Path, time::Duration};

/// Why a server could not be started or asked. A test that meets one must fail, not skip.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServerError {
    /// The programs are not on this machine.
    #[error(
        "{name} is not installed; `{command}` installs it, and so does `cargo xtask test` (as an \
         ordinary user under target/tools)"
    )]
    Missing {
        /// Product and lowest version.
        name: &'static str,
        /// What installs it.
        command: &'static str,
    },
    /// The operating system refused something.
    #[error("{what}: {why}")]
    System {
        /// What was attempted, on what.
        what: String,
        /// The system's answer.
        why: String,
    },
    /// A program of the server or its client ended badly.
    #[error("`{program}` failed ({status}):\n{output}")]
    Program {
        /// The program and the start of what it was asked.
        program: String,
        /// Its exit status.
        status: String,
        /// What it wrote to standard error, or its log.
        output: String,
    },
    /// The server runs and does not answer.
    #[error("{name} did not answer within {seconds} s:\n{log}", seconds = .after.as_secs())]
    Silent {
        /// Product and version.
        name: String,
        /// How long it was waited for.
        after: Duration,
        /// The server's log.
        log: String,
    },
    /// A script was loaded and some of its statements failed.
    #[error("statements failed while loading:\n{}", .0.join("\n"))]
    Load(Vec<String>),
}

impl ServerError {
    pub(super) fn system(what: &str, path: &Path, why: &std::io::Error) -> Self {
        Self::System {
            what: format!("{what} `{}`", path.display()),
            why: why.to_string(),
        }
    }
}
