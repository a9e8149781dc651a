//! Calls that go on without their request: tasks of the protocol's extension `io.modelcontextprotocol/tasks` (SEP-2663).
//!
//! A call of a client that declares the extension is answered as ever while it is short. A call that takes longer, or waits for a
//! person, goes on as a task: the client is given an id, and asks for what became of it.
//!
//! Tasks live in the memory of one server. Each is of who began it, has an end, and has its share of number and bytes. Where there is no
//! room for one more, the call is answered as if there were no tasks.

mod owner;
mod run;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use palisade::guard::Cancel;
use rmcp::{
    ErrorData,
    model::{
        DetailedTask, InputRequest, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
    },
    task_manager::current_timestamp,
};
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

#[cfg(feature = "conformance")]
pub use self::run::OpenTask;
pub use owner::Caller;
pub(crate) use owner::{Lease, Owner};
pub(crate) use run::TaskHandle;

/// How long a call is waited for before it goes on as a task, unless an embedder says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a task is kept at least: longer than any statement may run.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 60);

/// How long a task is kept once its client was told how it ended.
const KEPT_ONCE_TOLD: Duration = Duration::from_secs(60);

/// How often a client should ask.
const POLL: Duration = Duration::from_secs(1);

/// Tasks at a time, in all and of one account.
const MAX_TASKS: usize = 1_024;
const MAX_OF_ACCOUNT: usize = 32;

/// Bytes of calls and answers that are kept, in all and of one account.
const MAX_BYTES: usize = 128 << 20;
const MAX_BYTES_OF_ACCOUNT: usize = 16 << 20;

/// Random bytes of an id.
const ID_BYTES: usize = 32;

/// What a client reads of a task.
const WORKS: &str = "The statement runs or waits for its turn.";

/// The tasks of a server.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<All>);

#[derive(Default)]
struct All {
    by_id: HashMap<String, Entry>,
    is_ending: bool,
}

/// One task.
struct Entry {
    owner: Owner,
    account: String,
    lease: Lease,
    created: String,
    updated: String,
    message: String,
    began: Instant,
    ends: Instant,
    state: State,
    /// What the client is asked.
    inputs: BTreeMap<String, (InputRequest, oneshot::Sender<Value>)>,
    /// What is kept for it at most; once it has ended, what is kept.
    bytes: usize,
    cancel: Cancel,
}

/// How far it is.
enum State {
    Works,
    /// The result, as it is written.
    Completed(Vec<u8>),
    Failed(ErrorData),
    Cancelled,
}

/// What a call that goes on leaves.
pub(crate) struct Opening {
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    /// Bytes of the call, and of the largest answer.
    pub(crate) bytes: usize,
    pub(crate) cancel: Cancel,
}

impl All {
    /// Forgets what is over.
    fn sweep(&mut self, now: Instant) {
        self.by_id.retain(|_, entry| {
            let is_kept = now < entry.ends;
            if !is_kept {
                // No client could be told how it ends.
                entry.cancel.set();
            }
            is_kept
        });
    }

    fn has_room(&self, account: &str, bytes: usize) -> bool {
        let (mut count, mut kept, mut kept_in_all) = (0_usize, bytes, bytes);
        for entry in self.by_id.values() {
            kept_in_all = kept_in_all.saturating_add(entry.bytes);
            if entry.account == account {
                count += 1;
                kept = kept.saturating_add(entry.bytes);
            }
        }
        !self.is_ending
            && count < MAX_OF_ACCOUNT
            && self.by_id.len() < MAX_TASKS
            && kept <= MAX_BYTES_OF_ACCOUNT
            && kept_in_all <= MAX_BYTES
    }
}

impl Entry {
    fn touch(&mut self) {
        self.updated = current_timestamp();
    }

    fn status(&self) -> TaskStatus {
        match &self.state {
            State::Works if self.inputs.is_empty() => TaskStatus::Working,
            State::Works => TaskStatus::InputRequired,
            State::Completed(_) => TaskStatus::Completed,
            State::Failed(_) => TaskStatus::Failed,
            State::Cancelled => TaskStatus::Cancelled,
        }
    }

    fn describe(&self, id: &str) -> Task {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let times = (self.created.clone(), self.updated.clone());
        let task = Task::new(id, self.status(), times.0, times.1)
            .with_ttl_ms(milliseconds(
                self.ends.saturating_duration_since(self.began),
            ))
            .with_poll_interval_ms(milliseconds(POLL));
        match self.message.as_str() {
            "" => task,
            message => task.with_status_message(message),
        }
    }

    /// As `tasks/get` tells it. A task of which that is the end is not kept for long after.
    fn tell(&mut self, id: &str, now: Instant) -> DetailedTask {
        let payload = match &self.state {
            State::Works if self.inputs.is_empty() => TaskPayload::Working,
            State::Works => {
                let asked = self.inputs.iter();
                TaskPayload::InputRequired {
                    input_requests: asked
                        .map(|(key, (request, _))| (key.clone(), request.clone()))
                        .collect(),
                }
            }
            State::Completed(result) => match serde_json::from_slice(result) {
                Ok(result) => TaskPayload::Completed { result },
                Err(_) => TaskPayload::Failed {
                    error: to_object(&internal("the result cannot be read")),
                },
            },
            State::Failed(error) => TaskPayload::Failed {
                error: to_object(error),
            },
            State::Cancelled => TaskPayload::Cancelled,
        };
        if payload.status().is_terminal() {
            self.ends = self.ends.min(now + KEPT_ONCE_TOLD);
        }
        DetailedTask::new(self.describe(id), payload)
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new task, which is kept for `kept`. None where there is no room, or where it is not known whose it would be.
    fn open(&self, opening: &Opening, kept: Duration) -> Option<String> {
        let id = make_id()?;
        let Opening {
            owner,
            lease,
            bytes,
            cancel,
        } = opening;
        let account = owner.account();
        let now = Instant::now();
        let mut all = self.lock();
        all.sweep(now);
        if !owner.is_somebody() || !all.has_room(&account, *bytes) {
            return None;
        }
        let created = current_timestamp();
        let entry = Entry {
            owner: owner.clone(),
            account,
            lease: lease.clone(),
            updated: created.clone(),
            created,
            message: WORKS.to_owned(),
            began: now,
            ends: now + kept,
            state: State::Works,
            inputs: BTreeMap::new(),
            bytes: *bytes,
            cancel: cancel.clone(),
        };
        all.by_id.insert(id.clone(), entry);
        Some(id)
    }

    /// Does something with a task, if it is there.
    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.lock().by_id.get_mut(id).map(act)
    }

    /// The same with a task of who asks now. Whoever asks has a credential that is good, and so the task goes on as long as that.
    fn with_own<T>(
        &self,
        id: &str,
        (owner, lease): &(Owner, Lease),
        act: impl FnOnce(&mut Entry, Instant) -> T,
    ) -> Result<T, ErrorData> {
        let now = Instant::now();
        let mut all = self.lock();
        all.sweep(now);
        let entry = all.by_id.get_mut(id);
        let entry = entry.filter(|entry| entry.owner.is(owner));
        let entry = entry.ok_or_else(no_such_task)?;
        entry.lease.clone_from(lease);
        Ok(act(entry, now))
    }

    /// `tasks/get`.
    pub(crate) fn get(&self, id: &str, who: &(Owner, Lease)) -> Result<DetailedTask, ErrorData> {
        self.with_own(id, who, |entry, now| entry.tell(id, now))
    }

    /// `tasks/update`. What was not asked, or is answered already, counts for nothing.
    pub(crate) fn update(
        &self,
        id: &str,
        who: &(Owner, Lease),
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        self.with_own(id, who, |entry, _| {
            for (key, response) in responses {
                if let Some((_, tell)) = entry.inputs.remove(&key) {
                    // Whoever asked may have given up.
                    let _ = tell.send(response);
                    entry.touch();
                }
            }
        })
    }

    /// `tasks/cancel`. It is told by `tasks/get` how the task ended: what was done already cannot be cancelled.
    pub(crate) fn cancel(&self, id: &str, who: &(Owner, Lease)) -> Result<(), ErrorData> {
        self.with_own(id, who, |entry, _| entry.cancel.set())
    }

    /// Takes no more of them.
    pub(crate) fn close(&self) {
        self.lock().is_ending = true;
    }

    /// Cancels those that `is_meant`.
    pub(crate) fn end(&self, is_meant: impl Fn(&Owner) -> bool) {
        for entry in self.lock().by_id.values() {
            if is_meant(&entry.owner) {
                entry.cancel.set();
            }
        }
    }
}

/// What a client is told of a task that there is not, or that is not its own. Both read alike.
fn no_such_task() -> ErrorData {
    ErrorData::invalid_params(
        "there is no such task: its id is wrong, or it is over",
        None,
    )
}

pub(crate) fn internal(why: &'static str) -> ErrorData {
    ErrorData::internal_error(why, None)
}

fn to_object(error: &ErrorData) -> JsonObject {
    match serde_json::to_value(error) {
        Ok(Value::Object(error)) => error,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

/// A new id, which cannot be guessed. None where the machine has no random bytes.
fn make_id() -> Option<String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    let mut id = String::with_capacity(2 * ID_BYTES);
    for byte in bytes {
        write!(id, "{byte:02x}").ok()?;
    }
    Some(id)
}
