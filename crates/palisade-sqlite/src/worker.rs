//! Threads that run statements, so that none blocks the thread of whoever waits for one. Rows cross in batches.

use std::{
    any::Any,
    mem,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use async_channel::{Receiver, Sender};
use palisade::{
    guard::{BackendError, BackendErrorKind, RowSink},
    value::Value,
};

/// Bytes of a thread's stack: for whatever nesting the limits admit, which the engine follows by recursion.
const STACK: usize = 16 * 1024 * 1024;

/// How long a thread waits for more work.
const IDLE: Duration = Duration::from_secs(10);

/// Rows that cross to the caller at once.
const BATCH: usize = 256;

/// Bytes of rows that cross at once, or one row.
const BATCH_BYTES: usize = 256 * 1024;

/// Threads that there are at most. A statement beyond them is told that it may be sent again.
const THREADS: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that there are, those that wait among them.
static PLACES: Places = Places::new(THREADS);

/// How many threads there are, and how many there may be.
struct Places {
    taken: AtomicUsize,
    most: usize,
}

impl Places {
    const fn new(most: usize) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            most,
        }
    }

    fn take(&'static self) -> Option<Place> {
        let more = |taken: usize| (taken < self.most).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then_some(Place(self))
    }
}

/// A thread's place, given back when the thread ends.
struct Place(&'static Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads that wait for work. A thread that ended meanwhile refuses it.
static WAITING: Mutex<Vec<mpsc::Sender<Job>>> = Mutex::new(Vec::new());

/// Set when no caller waits any more for what a worker does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the work is to end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Stops the work when the future that waits for it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What a worker tells.
enum Message<T> {
    Rows(Batch),
    /// With what is left of the rows. What the sink says of them changes nothing any more.
    Done(Batch, T),
    Panicked(Box<dyn Any + Send>),
}

/// Names of columns, if they come now, and the rows after them.
#[derive(Default)]
struct Batch {
    names: Option<Vec<String>>,
    rows: Vec<Vec<Value>>,
}

/// When rows cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// Many at once: that the sink breaks is known some rows later.
    Batches,
    /// Each by itself: what the sink says of it is known before the next.
    Rows,
}

/// Runs `work` on another thread.
///
/// # Errors
/// `Busy` if there are as many threads as may be, or the system starts none.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BackendError> {
    feed(None, Crossing::Batches, move |_| work()).await
}

/// Runs `work` on another thread, whose rows go to `sink`.
///
/// # Errors
/// `Busy` if there are as many threads as may be, or the system starts none.
pub(crate) async fn feed<T: Send + 'static>(
    sink: Option<&mut (dyn RowSink + Send)>,
    crossing: Crossing,
    work: impl FnOnce(&mut RowSender<T>) -> T + Send + 'static,
) -> Result<T, BackendError> {
    let (messages, inbox) = async_channel::bounded(1);
    let (answers, verdicts) = mpsc::sync_channel(1);
    let stop = StopOnDrop(Stop::default());
    let mut rows = RowSender {
        batch: Batch::default(),
        bytes: 0,
        crossing,
        messages,
        verdicts,
        stop: stop.0.clone(),
    };
    start(Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut rows)));
        let message = match result {
            Ok(result) => Message::Done(mem::take(&mut rows.batch), result),
            Err(payload) => Message::Panicked(payload),
        };
        // A caller that waits no more is not told.
        let _ = rows.messages.send_blocking(message);
    }));
    receive(&inbox, sink, &answers).await
}

async fn receive<T>(
    inbox: &Receiver<Message<T>>,
    mut sink: Option<&mut (dyn RowSink + Send)>,
    answers: &mpsc::SyncSender<ControlFlow<()>>,
) -> Result<T, BackendError> {
    loop {
        match inbox.recv().await {
            Ok(Message::Rows(batch)) => {
                let verdict = match &mut sink {
                    Some(sink) => take(batch, *sink),
                    None => ControlFlow::Break(()),
                };
                // Room for one, and each is taken before the next batch.
                let _ = answers.try_send(verdict);
            }
            Ok(Message::Done(batch, result)) => {
                if let Some(sink) = &mut sink {
                    let _ = take(batch, *sink);
                }
                return Ok(result);
            }
            Ok(Message::Panicked(payload)) => resume_unwind(payload),
            Err(_) => {
                return Err(BackendError::new(
                    BackendErrorKind::Busy,
                    "no thread is free, and none could be started",
                ));
            }
        }
    }
}

fn take(batch: Batch, sink: &mut (dyn RowSink + Send)) -> ControlFlow<()> {
    if let Some(names) = batch.names {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        sink.columns(&names)?;
    }
    batch.rows.into_iter().try_for_each(|row| sink.row(row))
}

/// Hands `job` to a thread that waits, or to a new one.
fn start(mut job: Job) {
    while let Some(thread) = lock().pop() {
        match thread.send(job) {
            Ok(()) => return,
            Err(mpsc::SendError(back)) => job = back,
        }
    }
    // Without a place, or a thread, the job is dropped, and with it what its caller listens to.
    let Some(place) = PLACES.take() else {
        return;
    };
    let work = move || {
        let _place = place;
        let mut job = job;
        loop {
            job();
            let (sender, jobs) = mpsc::channel();
            lock().push(sender);
            match jobs.recv_timeout(IDLE) {
                Ok(next) => job = next,
                Err(_) => return,
            }
        }
    };
    let _ = thread::Builder::new()
        .name("palisade-sqlite".to_owned())
        .stack_size(STACK)
        .spawn(work);
}

fn lock() -> std::sync::MutexGuard<'static, Vec<mpsc::Sender<Job>>> {
    // A poisoned lock guards a list of finished values.
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sink on the worker's side.
pub(crate) struct RowSender<T> {
    batch: Batch,
    bytes: usize,
    crossing: Crossing,
    messages: Sender<Message<T>>,
    verdicts: mpsc::Receiver<ControlFlow<()>>,
    stop: Stop,
}

impl<T> RowSender<T> {
    /// Set when no caller waits any more.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Sends what there is, and waits for what the sink says of it.
    fn send(&mut self) -> ControlFlow<()> {
        let batch = mem::take(&mut self.batch);
        self.bytes = 0;
        match self.messages.send_blocking(Message::Rows(batch)) {
            Ok(()) => self.verdicts.recv().unwrap_or(ControlFlow::Break(())),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl<T> RowSink for RowSender<T> {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        self.batch.names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        match self.crossing {
            Crossing::Batches => ControlFlow::Continue(()),
            Crossing::Rows => self.send(),
        }
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        self.bytes += cells.iter().map(size).sum::<usize>();
        self.batch.rows.push(cells);
        match self.crossing {
            Crossing::Batches if self.batch.rows.len() < BATCH && self.bytes < BATCH_BYTES => {
                ControlFlow::Continue(())
            }
            Crossing::Batches | Crossing::Rows => self.send(),
        }
    }
}

/// Bytes of a cell, about.
fn size(value: &Value) -> usize {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Real(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_threads_and_no_more() {
        static TWO: Places = Places::new(2);
        let one = TWO.take();
        let other = TWO.take();
        assert!(one.is_some() && other.is_some() && TWO.take().is_none());
        drop(one);
        assert!(TWO.take().is_some());
    }
}
