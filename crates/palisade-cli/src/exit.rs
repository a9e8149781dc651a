//! How the program ends: exit codes, and the faults that lead to the later ones.

use std::process::ExitCode;

use palisade::code::{Code, Fault};

use crate::config::fault::ConfigFault;

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: what was asked for holds.
    ///
    /// * A statement is permitted.
    /// * Every line of a batch was understood and answered.
    /// * Policies load, and their tests hold.
    Permitted,
    /// 1: what was asked for does not hold.
    ///
    /// * A statement is refused.
    /// * The doctor found something weak, or a fault on the way of clients to a server.
    /// * A server that is probed is not well.
    /// * A test of policies fails, a lock is stale, or a policy is wider than before.
    /// * A property of policies is refuted.
    /// * A check that fails on warnings has some.
    /// * A policy is laid out otherwise than the formatter does.
    /// * An audit log is not what was written.
    Refused,
    /// 2: the command line, or a file it names, is not as the command needs it.
    Usage,
    /// 3: the policies or the configuration do not load, or do not admit the database's account, its host or
    /// the secret that it needs.
    Configuration,
    /// 4: the database cannot be opened or read, or the server that the doctor is to look at not be reached.
    Unavailable,
    /// 5: something went wrong that is not the caller's fault; nothing is known about the statement.
    Internal,
    /// 6: something stays undecided.
    ///
    /// * More statements of an audit log than admitted, since their literals are not in it.
    /// * A property of policies that is neither proved nor refuted.
    Undecided,
}

impl Exit {
    /// The exit code of an answer with this refusal.
    pub(crate) fn of_refusal(code: Code) -> Self {
        match code.fault() {
            Fault::Statement => Self::Refused,
            Fault::Database => Self::Unavailable,
            Fault::Configuration => Self::Configuration,
            Fault::Internal => Self::Internal,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Permitted => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Configuration => 3,
            Self::Unavailable => 4,
            Self::Internal => 5,
            Self::Undecided => 6,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command cannot do its work. The texts are for whoever runs it, and say what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line, or a file it names.
    #[error("error: {0}")]
    Usage(String),
    /// Policies or configuration, rendered with the lines they are wrong in.
    #[error("{0}")]
    Configuration(String),
    /// A place of the configuration.
    #[error("{0}")]
    ConfigurationAt(Box<ConfigFault>),
    /// The database.
    #[error("error: {0}")]
    Unavailable(String),
    /// Ours, or the machine's.
    #[error("error: {0}")]
    Internal(String),
    /// The reader of the output has stopped; a message would reach no reader.
    #[error("the output was closed")]
    OutputClosed,
}

impl Failure {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Configuration(_) | Self::ConfigurationAt(_) => Exit::Configuration,
            Self::Unavailable(_) => Exit::Unavailable,
            Self::Internal(_) | Self::OutputClosed => Exit::Internal,
        }
    }

    /// A failure to write an answer.
    pub(crate) fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Internal(format!("cannot write the answer: {error}"))
        }
    }
}
