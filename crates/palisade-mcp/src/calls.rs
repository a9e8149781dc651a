//! A call on its connection: it waits for a place, runs where blocking is fine, and is recorded.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::{
    code::Code,
    guard::{Cancel, Refusal, UnreachedCall, record_unreached},
    session::Session,
};
use rmcp::model::CallToolResult;
use tokio::{
    runtime::Handle,
    task::{spawn, spawn_blocking},
    time::Instant,
};
use tracing::{Instrument as _, Span};

use crate::{
    answer::Templates,
    arguments::Call,
    connections::{Connection, Recorder},
    observe::{CallNotes, WAIT},
    options::AnswerSize,
    queue::{Ask, Caller, Kind, TRIAL},
    refusals::{cancelled_call, internal, refusal, too_busy},
    running::Running,
    tool_calls::Allotted,
    tool_set::ToolSet,
    turn::Turns,
};

/// How long a call may wait at least, where statements get less time than that.
const PATIENCE: Duration = Duration::from_secs(2);

/// In what steps the time that a statement waited is taken off.
const STEP: Duration = Duration::from_millis(250);

/// Who asks, and what of the connection may be changed by this principal.
pub(crate) struct CallContext {
    pub(crate) session: Session,
    pub(crate) is_changeable: bool,
    /// Whether it could approve what others propose.
    pub(crate) may_approve: bool,
    /// Which pair of streams it came through.
    pub(crate) door: u64,
    /// How large the answer may be.
    pub(crate) size: AnswerSize,
    /// Where it runs.
    pub(crate) work: WorkPlace,
    /// Which tools whoever asks can use, for what a refusal names.
    pub(crate) tools: Arc<ToolSet>,
    /// Whether there are tools for templates.
    pub(crate) templates: Templates,
    /// The calls of its client.
    pub(crate) running: Running,
    /// Whether anybody waits for it.
    pub(crate) cancel: Cancel,
    /// What is noted of it.
    pub(crate) notes: CallNotes,
    /// Whether its trial counted as a failure, which the next attempt takes back.
    pub(crate) has_counted_trial: AtomicBool,
}

/// Records a call that reached no connection, with what lends its records. Without a principal there is no record.
pub(crate) async fn record_unbound(
    recorder: Option<(Recorder, Session)>,
    connection: Option<String>,
    result: Result<CallToolResult, Refusal>,
    began: Instant,
) -> Result<CallToolResult, Refusal> {
    let Some((recorder, session)) = recorder else {
        return result;
    };
    // Records are files.
    let job = spawn_blocking(move || {
        let told = result.as_ref().map(|_| ());
        let (connection, took) = (connection.as_deref(), began.elapsed());
        let recorded = match recorder {
            Recorder::Gate(guard) => guard.record_call_of(connection, &session, told, took),
            Recorder::Sink(audit) => {
                let at = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                let call = UnreachedCall {
                    at,
                    connection,
                    session: &session,
                    result: told,
                    took,
                };
                record_unreached(&*audit, call)
            }
        };
        recorded.and(result)
    });
    job.await
        .map_err(|_| refusal(internal("a record panicked")))?
}

/// Records a call that ran no statement. What cannot be recorded is not answered.
pub(crate) async fn record(
    connection: &Arc<Connection>,
    context: &Arc<CallContext>,
    result: Result<CallToolResult, Refusal>,
    began: Instant,
) -> Result<CallToolResult, Refusal> {
    let (connection, context) = (Arc::clone(connection), Arc::clone(context));
    // Records are files.
    let job = spawn_blocking(move || {
        let told = result.as_ref().map(|_| ());
        let session = &context.session;
        match connection.guard.record_call(session, told, began.elapsed()) {
            Ok(()) => result,
            Err(refusal) => Err(refusal),
        }
    });
    job.await
        .map_err(|_| refusal(internal("a record panicked")))?
}

/// Where calls run.
#[derive(Clone, Debug)]
pub(crate) enum WorkPlace {
    /// On a blocking thread: deciding takes the processor, and what is kept in files blocks.
    Aside,
    /// Small queries on the thread that reads and answers messages, which spares handing each of their steps from thread to
    /// thread; the rest aside.
    Here,
    /// The same one at a time, while none takes long: others wait for the thread.
    InTurn(Turns),
}

/// Bytes of a statement and its values that are decided where messages are read: deciding more could keep others waiting.
const SMALL: usize = 4 * 1024;

/// Runs `call`, where a panic ends its work and nothing else. How many run at once, and so how many are decided, is the queue's to
/// say.
pub(crate) async fn run_on(
    connection: &Arc<Connection>,
    call: &Arc<Call>,
    context: &Arc<CallContext>,
) -> Result<CallToolResult, Refusal> {
    let session = &context.session;
    let began = Instant::now();
    let timeout = connection.guard.firewall().limits().statement_timeout();
    let deadline = began + timeout.max(PATIENCE);
    let mut ask = Ask {
        caller: Caller {
            principal: session.principal().to_string(),
            client: session.client().map(str::to_owned),
            door: context.door,
        },
        may_be_tried: call.may_be_tried(),
        bytes: call.bytes(),
    };
    loop {
        let waits = context.notes.elapsed();
        let place = connection.queue.place(ask.clone(), deadline);
        let place = place.instrument(tracing::debug_span!(target: "palisade", "wait"));
        let place = tokio::select! {
            place = place => place,
            () = context.cancel.wait() => {
                let refused = Err(refusal(cancelled_call()));
                // Whoever asked records the others.
                return match call.is_reading() || call.is_statement() {
                    true => record(connection, context, refused, began).await,
                    false => refused,
                };
            }
        };
        context.notes.note_stage(WAIT, waits);
        let place = match place {
            Ok(place) => place,
            Err(busy) => {
                let refused = Err(refusal(too_busy(busy)));
                // It has not come as far as the gate.
                return match call.is_reading() {
                    true => record(connection, context, refused, began).await,
                    false => refused,
                };
            }
        };
        let kind = place.kind();
        let time = match kind {
            Kind::Full => left(timeout, began.elapsed(), deadline),
            Kind::Trial => TRIAL,
        };
        let is_trial = kind == Kind::Trial && TRIAL < timeout;
        let (theirs, call, context) = (
            Arc::clone(connection),
            Arc::clone(call),
            Arc::clone(context),
        );
        let running = context.running.begin();
        let work_place = match theirs.may_run_here(&call, &context) {
            true => context.work.clone(),
            false => WorkPlace::Aside,
        };
        let work = async move {
            let allotted = Allotted { time, is_trial };
            let result = theirs.call(&call, &context, allotted).await;
            drop((place, running));
            result
        };
        let work = work.instrument(Span::current());
        let aside = |work| {
            let handle = Handle::current();
            spawn_blocking(move || handle.block_on(work))
        };
        let job = match work_place {
            WorkPlace::Aside => aside(work),
            WorkPlace::Here => spawn(work),
            WorkPlace::InTurn(turns) => match turns.take() {
                Some(turn) => spawn(turn.run(work)),
                None => aside(work),
            },
        };
        let result = job
            .await
            .map_err(|_| refusal(internal("a tool panicked")))?;
        match &result {
            Err(refusal) if is_trial && ran_out(refusal.rejection.code()) => {
                ask.may_be_tried = false;
            }
            Ok(_) | Err(_) => return result,
        }
    }
}

/// Whether a statement that was tried has to wait for all its time.
fn ran_out(code: Code) -> bool {
    code == Code::LimitTime || code == Code::LimitBusy
}

/// What a statement may take that waited: what is left to the deadline. In steps, since limits are part of what decisions are remembered
/// by.
fn left(timeout: Duration, waited: Duration, deadline: Instant) -> Duration {
    if waited < STEP {
        return timeout;
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let steps = left.as_millis().div_ceil(STEP.as_millis());
    timeout.min(STEP * u32::try_from(steps.max(1)).unwrap_or(u32::MAX))
}

impl Connection {
    /// Whether `call` may run where messages are read: it is small, and nothing of it blocks.
    fn may_run_here(&self, call: &Call, context: &CallContext) -> bool {
        call.reads_now()
            && call.bytes() <= SMALL
            && self.guard.records_at_once()
            && !self.guard.firewall().reads_may_wait(&context.session)
    }
}
