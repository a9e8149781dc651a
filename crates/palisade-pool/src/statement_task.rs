//! What both servers take from a rewritten statement, and how they finish a change.

use std::{collections::BTreeSet, future::Future, ops::ControlFlow, time::Duration};

use palisade::{
    catalog::Change,
    guard::{BackendError, BackendErrorKind, Cancel, Checks, Completion, OpenTicket},
    limits::Limits,
    rewrite::{ChangeFacts, Effect, TextFacts},
    session::Principal,
    value::Value,
};
use tokio::time::timeout;

/// How long the server may take to say that a change is kept.
const COMMIT_TIME: Duration = Duration::from_secs(10);

/// The part of a statement that a database needs: the text, its values, and everything that it may touch.
#[derive(Debug)]
pub struct Task<'a> {
    /// The way to its text.
    pub checks: Checks<'a>,
    /// Values of its placeholders.
    pub params: &'a [Value],
    /// Relations and columns that its results may come from.
    pub reads: &'a BTreeSet<(String, String)>,
    /// The relations it names, by their ids.
    pub relations: &'a [String],
    /// The functions it calls.
    pub functions: &'a BTreeSet<String>,
    /// Time, rows and bytes.
    pub limits: &'a Limits,
    /// Who asks.
    pub principal: &'a Principal,
    /// Whether all rows are worked on for one.
    pub gathers: bool,
    /// What the text is made of, where that is known.
    pub text_facts: Option<&'a TextFacts>,
    /// Whether it reads tables as they were.
    pub reads_past: bool,
    /// Whether anybody waits for it.
    pub cancel: &'a Cancel,
    /// What it does.
    pub work: Work<'a>,
}

impl<'a> Task<'a> {
    /// What there is to run of a statement; none if it does nothing.
    ///
    /// # Errors
    /// If it changes something and the backend is not writable.
    pub fn admit(ticket: &'a OpenTicket, is_writable: bool) -> Result<Option<Self>, BackendError> {
        if !is_writable {
            BackendError::unless_reading(ticket.statement())?;
        }
        Ok((ticket.statement().effect() != Effect::Nothing).then(|| Self::from(ticket)))
    }

    /// The statements of a change, each of which has to do something.
    ///
    /// # Errors
    /// As [`Task::admit`], or if one of them does nothing.
    pub fn admit_change(
        tickets: &'a [OpenTicket],
        is_writable: bool,
    ) -> Result<Vec<Self>, BackendError> {
        let tasks = tickets.iter().map(|ticket| {
            let task = Self::admit(ticket, is_writable)?;
            task.ok_or_else(|| BackendError::not_previewable("one of its statements does nothing"))
        });
        tasks.collect()
    }
}

impl<'a> From<&'a OpenTicket> for Task<'a> {
    fn from(ticket: &'a OpenTicket) -> Self {
        let statement = ticket.statement();
        Self {
            checks: ticket.checks(),
            params: statement.params(),
            reads: statement.engine_reads(),
            relations: statement.relations(),
            functions: statement.engine_functions(),
            limits: statement.limits(),
            principal: statement.principal(),
            gathers: statement.gathers(),
            text_facts: statement.text_facts(),
            reads_past: statement.past().is_some(),
            cancel: ticket.cancel(),
            work: Work::from(ticket),
        }
    }
}

impl<'a> Task<'a> {
    /// The tables whose rows it changes, by their uids.
    pub fn written_tables(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let writes = match self.work {
            Work::Read | Work::Explain | Work::Define => None,
            Work::Change(changes) => Some(changes.writes),
        };
        let writes = writes.into_iter().flatten();
        writes.map(|(_, table, _)| table.as_str())
    }

    /// Whether only the primary will do: a standby changes nothing, and may not have been told of a moment of the past.
    #[must_use]
    pub fn needs_primary(&self) -> bool {
        self.reads_past || self.work.is_committed()
    }
}

/// What a statement does, as far as running it differs.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// It reads rows.
    Read,
    /// It asks for a plan.
    Explain,
    /// It changes rows.
    Change(Changes<'a>),
    /// It changes the schema, or empties a table.
    Define,
}

impl Work<'_> {
    /// Whether there is anything to commit.
    #[must_use]
    pub fn is_committed(self) -> bool {
        match self {
            Self::Read | Self::Explain => false,
            Self::Change(_) | Self::Define => true,
        }
    }
}

impl<'a> From<&'a OpenTicket> for Work<'a> {
    fn from(ticket: &'a OpenTicket) -> Self {
        let statement = ticket.statement();
        match statement.effect() {
            Effect::Read => Self::Read,
            Effect::Explain => Self::Explain,
            Effect::Write => Self::Change(Changes {
                facts: statement.change_facts(),
                writes: statement.engine_writes(),
                triggers: statement.engine_triggers(),
                max_affected: statement.max_affected(),
                body: statement.body_after_changes(),
            }),
            // Nothing is run of a statement that does nothing.
            Effect::Define | Effect::Nothing => Self::Define,
        }
    }
}

/// What a statement may change.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    /// What each change in the text does.
    pub facts: &'a [ChangeFacts],
    /// Each change, by relation and column.
    pub writes: &'a BTreeSet<(Change, String, String)>,
    /// Triggers and rules that it may set off.
    pub triggers: &'a BTreeSet<String>,
    /// The most rows, those that the server changes by itself among them.
    pub max_affected: u64,
    /// Where the body begins, if rows are changed in the WITH before it.
    pub body: Option<usize>,
}

impl Changes<'_> {
    /// Ends a change of `all` rows, of which `affected` are reported. It is not committed yet.
    ///
    /// # Errors
    /// If the rows are too many, or the sink did not take the answer.
    pub fn complete(
        &self,
        all: u64,
        affected: Option<u64>,
        taken: ControlFlow<()>,
    ) -> Result<Completion, BackendError> {
        if all > self.max_affected {
            return Err(BackendError::new(
                BackendErrorKind::AffectedRows,
                format!("{all} rows, and at most {}", self.max_affected),
            ));
        }
        match taken {
            ControlFlow::Continue(()) => Ok(Completion { affected }),
            ControlFlow::Break(()) => Err(BackendError::not_taken()),
        }
    }
}

/// Waits for a commit, by a clock of its own.
///
/// # Errors
/// What `explain` makes of the server's error, if that says that everything was rolled back. Otherwise the outcome is
/// unknown: to try again could do it twice, and somebody has to look.
pub async fn commit<E>(
    commit: impl Future<Output = Result<(), E>>,
    explain: impl FnOnce(&E) -> Option<BackendError>,
) -> Result<(), BackendError> {
    match timeout(COMMIT_TIME, commit).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(explain(&error).unwrap_or_else(BackendError::outcome_unknown)),
        Err(_) => Err(BackendError::outcome_unknown()),
    }
}
