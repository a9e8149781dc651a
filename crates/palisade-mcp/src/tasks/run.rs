//! A call from its request to its end, with a task between them where it takes long.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use palisade::{code::Code, guard::Cancel};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, CallToolResult, CreateTaskResult, InputRequest, ProgressToken,
        ProtocolVersion, Task,
    },
    service::{Peer, RequestContext},
};
use serde_json::Value;
use tokio::{
    spawn,
    sync::{Notify, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{Instrument as _, Span};

use super::{KEPT, KEPT_ONCE_TOLD, Opening, State, Tasks, WORKS, internal};
use crate::{
    running::tell_progress,
    server::{PalisadeServer, given_up},
};

/// How long the end of a statement is waited for that was cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// How often it is looked whether a task may go on.
const LOOK: Duration = Duration::from_secs(1);

/// Bytes of an answer beside its copies of what was found.
const MARGIN: usize = 64 * 1024;

/// What a call becomes.
pub(crate) type Response = Result<CallToolResponse, ErrorData>;

/// A call that could become a task. Clones are one.
#[derive(Clone)]
pub(crate) struct TaskHandle(Arc<Shared>);

struct Shared {
    tasks: Arc<Tasks>,
    opening: Opening,
    phase: Mutex<Phase>,
    opened: Notify,
}

/// Where it is.
enum Phase {
    /// Its request waits for it.
    Held,
    /// It goes on as a task of this id.
    Open(String),
    /// It has ended for its request.
    Answered,
}

impl TaskHandle {
    pub(crate) fn new(tasks: &Arc<Tasks>, opening: Opening) -> Self {
        Self(Arc::new(Shared {
            tasks: Arc::clone(tasks),
            opening,
            phase: Mutex::new(Phase::Held),
            opened: Notify::new(),
        }))
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What cancels it.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.0.opening.cancel
    }

    /// Has it go on as a task that is kept for `kept` at least. Whether it does.
    pub(crate) fn go_on(&self, kept: Duration) -> bool {
        let mut phase = self.phase();
        match &*phase {
            Phase::Held => match self.0.tasks.open(&self.0.opening, kept) {
                Some(id) => {
                    *phase = Phase::Open(id);
                    self.0.opened.notify_waiters();
                    true
                }
                None => false,
            },
            Phase::Open(id) => {
                let ends = Instant::now() + kept;
                let kept = (self.0.tasks).with(id, |entry| entry.ends = entry.ends.max(ends));
                kept.is_some()
            }
            Phase::Answered => false,
        }
    }

    /// The id, once it is a task.
    fn id(&self) -> Option<String> {
        match &*self.phase() {
            Phase::Open(id) => Some(id.clone()),
            Phase::Held | Phase::Answered => None,
        }
    }

    /// Waits until it is a task, as it is told to its client.
    async fn opened(&self) -> Task {
        loop {
            // It hears of what becomes of it from here on.
            let opened = self.0.opened.notified();
            let described =
                (self.id()).and_then(|id| self.0.tasks.with(&id, |entry| entry.describe(&id)));
            if let Some(task) = described {
                return task;
            }
            opened.await;
        }
    }

    /// Says what a client reads of it.
    pub(crate) fn say(&self, message: impl Into<String>) {
        if let Some(id) = self.id() {
            self.0.tasks.with(&id, |entry| {
                entry.message = message.into();
                entry.touch();
            });
        }
    }

    /// Says again that it runs.
    pub(crate) fn say_that_it_runs(&self) {
        self.say(WORKS);
    }

    /// Asks its client something. None where it is no task.
    pub(crate) fn ask(&self, key: &str, request: InputRequest) -> Option<oneshot::Receiver<Value>> {
        let (tell, told) = oneshot::channel();
        self.0.tasks.with(&self.id()?, |entry| {
            entry.inputs.insert(key.to_owned(), (request, tell));
            entry.touch();
        })?;
        Some(told)
    }

    /// Asks its client nothing more.
    pub(crate) fn withdraw(&self) {
        if let Some(id) = self.id() {
            self.0.tasks.with(&id, |entry| entry.inputs.clear());
        }
    }

    /// Waits until it is over, or the credential of its client is.
    async fn over(&self) {
        loop {
            sleep(LOOK).await;
            let Some(id) = self.id() else {
                continue;
            };
            let now = Instant::now();
            let looked = (self.0.tasks).with(&id, |entry| (now < entry.ends, entry.lease.clone()));
            let Some((true, lease)) = looked else {
                return;
            };
            if lease.is_some_and(|is_over| is_over()) {
                return;
            }
        }
    }

    /// Takes what became of it. Given back where its request waits for it still.
    fn settle(&self, response: Option<Response>) -> Option<Response> {
        let mut phase = self.phase();
        match &*phase {
            Phase::Held => {
                *phase = Phase::Answered;
                Some(response.unwrap_or_else(|| Err(given_up())))
            }
            Phase::Open(id) => {
                let is_cancelled = self.cancel().is_set();
                self.0.tasks.with(id, |entry| {
                    let (state, message) = read_end(response, is_cancelled, entry.bytes);
                    entry.bytes = match &state {
                        State::Completed(result) => result.len(),
                        State::Works | State::Failed(_) | State::Cancelled => 0,
                    };
                    entry.state = state;
                    entry.inputs.clear();
                    entry.message = message.unwrap_or_default();
                    entry.touch();
                });
                None
            }
            Phase::Answered => None,
        }
    }

    /// Runs `work` to its end, and keeps what became of it as long as a task is kept.
    async fn drive(
        self,
        work: impl Future<Output = Response> + Send + 'static,
        tell: oneshot::Sender<Response>,
    ) {
        let mut job = spawn(work.instrument(Span::current()));
        let fallen = |_| Err(internal("a tool panicked"));
        let ended = tokio::select! {
            ended = &mut job => Some(ended.unwrap_or_else(fallen)),
            () = self.cancel().wait() => None,
            () = self.over() => None,
        };
        let ended = match ended {
            Some(ended) => Some(ended),
            None => {
                self.cancel().set();
                match timeout(CANCEL_TIME, &mut job).await {
                    Ok(ended) => Some(ended.unwrap_or_else(fallen)),
                    Err(_) => {
                        job.abort();
                        None
                    }
                }
            }
        };
        if let Some(response) = self.settle(ended) {
            // Its request may have been given up.
            let _ = tell.send(response);
            return;
        }
        let Some(id) = self.id() else {
            return;
        };
        // When it ends can become sooner.
        while let Some(ends) = self.0.tasks.with(&id, |entry| entry.ends) {
            sleep_until(ends.min(Instant::now() + KEPT_ONCE_TOLD)).await;
            self.0.tasks.lock().sweep(Instant::now());
        }
    }
}

/// What a task becomes by a response, and what is said of it.
fn read_end(
    response: Option<Response>,
    is_cancelled: bool,
    most: usize,
) -> (State, Option<String>) {
    let result = match response {
        None => {
            let message = "It was cancelled. Whether a change was made is not known: look before it is made again.";
            return (State::Cancelled, Some(message.to_owned()));
        }
        Some(Ok(CallToolResponse::Complete(result))) => result,
        // There was no room to ask within the task.
        Some(Ok(CallToolResponse::InputRequired(_) | CallToolResponse::Task(_))) => {
            let error = internal("the call could not be gone on with; send it again");
            return (State::Failed(error), None);
        }
        Some(Ok(_)) => {
            let error = internal("the call ended in a way that no task can");
            return (State::Failed(error), None);
        }
        Some(Err(_)) if is_cancelled => return (State::Cancelled, None),
        Some(Err(error)) => return (State::Failed(error), None),
    };
    if is_cancelled && let Some(message) = read_cancelled(&result) {
        return (State::Cancelled, Some(message));
    }
    match serde_json::to_vec(&result) {
        Ok(result) if result.len() <= most => (State::Completed(result), None),
        Ok(_) => (
            State::Failed(internal("the answer is too large to be kept")),
            None,
        ),
        Err(_) => (
            State::Failed(internal("the answer cannot be written")),
            None,
        ),
    }
}

/// What the refusal of a statement that was cancelled says.
fn read_cancelled(result: &CallToolResult) -> Option<String> {
    let body = result.structured_content.as_ref()?;
    let is_cancelled = result.is_error == Some(true)
        && body.get("code").and_then(Value::as_str) == Some(Code::LimitCancelled.slug());
    let message = body.get("message").and_then(Value::as_str);
    is_cancelled.then(|| message.unwrap_or_default().to_owned())
}

/// Cancels a call whose request is given up while it waits for it.
struct HeldRequest(TaskHandle);

impl Drop for HeldRequest {
    fn drop(&mut self) {
        if matches!(&*self.0.phase(), Phase::Held) {
            self.0.cancel().set();
        }
    }
}

/// Cancels the tasks of a client that goes away.
pub(crate) struct EndOfDoor {
    tasks: Arc<Tasks>,
    door: u64,
}

impl Drop for EndOfDoor {
    fn drop(&mut self) {
        self.tasks.end(|owner| owner.door == self.door);
    }
}

impl PalisadeServer {
    /// The same without tasks: where requests of one client come to several servers, which do not know each other's.
    #[must_use]
    pub fn without_tasks(mut self) -> Self {
        self.has_tasks = false;
        self
    }

    /// The same, where a call of a client that knows tasks is waited for this long before it goes on as one, in place of 2 seconds.
    #[must_use]
    pub fn with_task_patience(mut self, patience: Duration) -> Self {
        self.task_patience = patience;
        self
    }

    /// Begins no more tasks: the server ends.
    pub fn close_tasks(&self) {
        self.shared.tasks.close();
    }

    /// Cancels every task on its database.
    pub fn end_tasks(&self) {
        self.shared.tasks.end(|_| true);
    }

    /// What ends the tasks of this client when it goes away.
    pub(crate) fn end_of_door(&self) -> EndOfDoor {
        EndOfDoor {
            tasks: Arc::clone(&self.shared.tasks),
            door: self.door(),
        }
    }

    /// What could have a call of `bytes` bytes go on as a task; none where its client does not know them.
    pub(crate) fn prospective_task(
        &self,
        context: &RequestContext<RoleServer>,
        bytes: usize,
        cancel: &Cancel,
    ) -> Option<TaskHandle> {
        let declared = context.client_capabilities();
        let version = context.protocol_version();
        let is_known = declared.is_some_and(|declared| declared.supports_tasks())
            && version
                .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        (self.has_tasks && is_known).then(|| {
            let (owner, lease) = self.owner(&context.extensions);
            // Two copies of what was found, of characters that take four bytes at most.
            let answer = self.answer_size().max_chars().saturating_mul(8);
            let opening = Opening {
                owner,
                lease,
                bytes: bytes.saturating_add(answer).saturating_add(MARGIN),
                cancel: cancel.clone(),
            };
            TaskHandle::new(&self.shared.tasks, opening)
        })
    }

    /// Runs `work`, and answers with what became of it or, if that takes long, with the task as which it goes on.
    pub(crate) async fn answer_or_go_on(
        &self,
        handle: TaskHandle,
        (peer, progress): (Peer<RoleServer>, Option<ProgressToken>),
        is_given_up: impl Future<Output = ()>,
        work: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let (tell, mut told) = oneshot::channel();
        let held = HeldRequest(handle.clone());
        spawn(handle.clone().drive(work, tell).instrument(Span::current()));
        let waits = async {
            sleep(self.task_patience).await;
            // Without room for one more the request is held as ever.
            let _ = handle.go_on(KEPT);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            ended = &mut told => ended.unwrap_or_else(|_| Err(given_up())),
            () = is_given_up => {
                held.0.cancel().set();
                Err(given_up())
            }
            task = handle.opened() => {
                Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
            }
            () = waits => Err(given_up()),
            () = tell_progress(peer, progress, self.progress_interval()) => Err(given_up()),
        }
    }
}

/// A task of a handler around the server, for a test suite.
#[cfg(feature = "conformance")]
#[derive(Clone)]
pub struct OpenTask(TaskHandle);

#[cfg(feature = "conformance")]
impl OpenTask {
    /// Asks the client, and waits for its answer; none if the task is cancelled.
    pub async fn ask(&self, key: &str, request: InputRequest) -> Option<Value> {
        let told = self.0.ask(key, request)?;
        tokio::select! {
            told = told => told.ok(),
            () = self.0.cancel().wait() => None,
        }
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        self.0.cancel().wait().await;
    }
}

#[cfg(feature = "conformance")]
impl PalisadeServer {
    /// Begins a task of a handler around the server, for a test suite. What it does goes through no gate.
    ///
    /// # Errors
    /// Where the client does not know tasks, or there is no room for one more.
    #[doc(hidden)]
    pub fn begin_task<F>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(OpenTask) -> F,
    ) -> Result<CallToolResponse, ErrorData>
    where
        F: Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    {
        use rmcp::model::ClientCapabilities;
        let cancel = Cancel::default();
        let Some(handle) = self.prospective_task(context, 0, &cancel) else {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        };
        if !handle.go_on(KEPT) {
            return Err(internal("there is no room for one more task"));
        }
        let work = work(OpenTask(handle.clone()));
        let work = async move { work.await.map(CallToolResponse::Complete) };
        let described = handle
            .id()
            .and_then(|id| self.shared.tasks.with(&id, |entry| entry.describe(&id)));
        let (tell, _) = oneshot::channel();
        spawn(handle.drive(work, tell));
        let task = described.ok_or_else(|| internal("the task is gone"))?;
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }
}
