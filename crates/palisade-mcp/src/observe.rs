//! What became of each call, for whoever measures: traces and metrics.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use palisade::{answer::Envelope, code::Code, guard::StageTime, session::Principal};
use tracing::{Span, field};

/// Is told of every call when it has ended. What it is told holds no statement, no literal, no parameter and no value.
pub trait CallObserver: Send + Sync {
    /// Takes what became of a call. It must not block: the answer waits for it.
    fn observe(&self, call: &ObservedCall);
}

/// A call that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObservedCall {
    /// The tool; nothing where there is no tool of the name that the client wrote.
    pub tool: Option<&'static str>,
    /// The operator's name of the database; none where the call reached none.
    pub connection: Option<String>,
    /// Who asked.
    pub principal: Option<String>,
    /// The server's id of the client's session.
    pub session: Option<String>,
    /// The W3C `traceparent` that the client claims, as it was written.
    pub traceparent: Option<String>,
    /// When it came.
    pub started: SystemTime,
    /// Until it was answered.
    pub duration: Duration,
    /// What became of it.
    pub outcome: CallOutcome,
    /// Rows of the answer.
    pub rows: u64,
    /// Cells of the answer.
    pub cells: u64,
    /// The stages that it went through, in order. Two of them do not overlap.
    pub stages: Vec<ObservedStage>,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// It was answered.
    Answered,
    /// It was refused.
    Refused(Code),
    /// The client has to ask its person first.
    Asked,
    /// Its client gave it up.
    Cancelled,
}

impl CallOutcome {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused(_) => "refused",
            Self::Asked => "asked",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A part of a call's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedStage {
    /// `wait` for a place, or what the gate does: see [`GateStage`](palisade::guard::GateStage).
    pub name: &'static str,
    /// Since the call came.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}

/// The stage before a call has a place.
pub(crate) const WAIT: &str = "wait";

/// Who is told of calls, if anybody is.
pub(crate) type Observer = Option<Arc<dyn CallObserver>>;

/// What is noted of a call while it runs, for an observer, and for a subscriber of `tracing`. Clones are one.
#[derive(Clone)]
pub(crate) struct CallNotes {
    noted: Option<Arc<Noted>>,
    /// The span `call`, in whose fields is what an observer is told, and nothing else.
    span: Span,
}

impl Default for CallNotes {
    /// Of nothing.
    fn default() -> Self {
        Self {
            noted: None,
            span: Span::none(),
        }
    }
}

struct Noted {
    observer: Arc<dyn CallObserver>,
    began: Instant,
    call: Mutex<ObservedCall>,
}

impl CallNotes {
    /// Of a call that comes now, for `observer` if there is one.
    pub(crate) fn begin(
        observer: &Observer,
        tool: Option<&'static str>,
        (session, traceparent): (Option<&str>, Option<&str>),
    ) -> Self {
        let span = tracing::debug_span!(
            target: "palisade",
            "call",
            tool = tool.unwrap_or("unknown"),
            session,
            connection = field::Empty,
            principal = field::Empty,
            outcome = field::Empty,
            code = field::Empty,
            rows = field::Empty,
        );
        let noted = observer.as_ref().map(|observer| {
            Arc::new(Noted {
                observer: Arc::clone(observer),
                began: Instant::now(),
                call: Mutex::new(ObservedCall {
                    tool,
                    connection: None,
                    principal: None,
                    session: session.map(str::to_owned),
                    traceparent: traceparent.map(str::to_owned),
                    started: SystemTime::now(),
                    duration: Duration::ZERO,
                    // Until it has ended otherwise.
                    outcome: CallOutcome::Cancelled,
                    rows: 0,
                    cells: 0,
                    stages: Vec::new(),
                }),
            })
        });
        Self { noted, span }
    }

    /// The span of the call, in which everything of it happens.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Notes which connection it reached, and for whom.
    pub(crate) fn note_reach(&self, connection: &str, principal: &Principal) {
        self.span.record("connection", connection);
        self.span.record("principal", field::display(principal));
        if let Some(noted) = &self.noted {
            let mut call = noted.call();
            call.connection = Some(connection.to_owned());
            call.principal = Some(principal.to_string());
        }
    }

    /// Notes how many rows and cells it gives.
    pub(crate) fn note_answer(&self, envelope: &Envelope) {
        let answer = envelope.answer();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let rows = count(answer.row_count());
        let cells = rows.saturating_mul(count(answer.columns().len()));
        self.span.record("rows", rows);
        if let Some(noted) = &self.noted {
            let mut call = noted.call();
            (call.rows, call.cells) = (rows, cells);
        }
    }

    /// Notes what it becomes.
    pub(crate) fn note_outcome(&self, outcome: CallOutcome) {
        self.span.record("outcome", outcome.word());
        if let CallOutcome::Refused(code) = outcome {
            self.span.record("code", code.slug());
        }
        if let Some(noted) = &self.noted {
            noted.call().outcome = outcome;
        }
    }

    /// The time since it came, if anybody wants to know.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        self.noted.as_ref().map(|noted| noted.began.elapsed())
    }

    /// Notes a stage that began at `start` and ends now.
    pub(crate) fn note_stage(&self, name: &'static str, start: Option<Duration>) {
        if let (Some(noted), Some(start)) = (&self.noted, start) {
            let time = noted.began.elapsed().saturating_sub(start);
            noted
                .call()
                .stages
                .push(ObservedStage { name, start, time });
        }
    }

    /// Notes the stages of a request to the gate, which began at `start`.
    pub(crate) fn note_stages(&self, start: Option<Duration>, stages: &[StageTime]) {
        if let (Some(noted), Some(start)) = (&self.noted, start) {
            let stages = stages.iter().map(|stage| ObservedStage {
                name: stage.stage.name(),
                start: start.saturating_add(stage.start),
                time: stage.time,
            });
            noted.call().stages.extend(stages);
        }
    }
}

impl Noted {
    fn call(&self) -> MutexGuard<'_, ObservedCall> {
        // A poisoned lock guards finished values.
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the observer when a call has ended, by whatever way.
pub(crate) struct TellOnDrop(pub(crate) CallNotes);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        if let Some(noted) = &self.0.noted {
            let mut call = noted.call();
            call.duration = noted.began.elapsed();
            // A statement that is given up may still note what it does.
            let stages = mem::take(&mut call.stages);
            let told = ObservedCall {
                stages,
                ..call.clone()
            };
            drop(call);
            noted.observer.observe(&told);
        }
    }
}
