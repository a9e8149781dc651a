//! What goes out beside the work of a server: a thread of its own hands it over, so that no call waits for that.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

/// A queue with the thread that empties it.
#[derive(Debug)]
pub struct Outbox<T> {
    /// None once it has finished.
    open: Mutex<Option<Open<T>>>,
    patience: Duration,
}

/// What ends the thread, if it is dropped.
#[derive(Debug)]
struct Open<T> {
    queue: SyncSender<T>,
    /// Dropped, nothing is tried again.
    again: mpsc::Sender<()>,
    ended: Receiver<()>,
}

/// What the thread looks at before it tries something again.
#[derive(Debug)]
pub struct Closing(Receiver<()>);

impl Closing {
    /// Waits for `pause`; false at once when the outbox closes, so that nothing is tried again.
    #[must_use]
    pub fn wait(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
    }
}

impl<T: Send + 'static> Outbox<T> {
    /// Starts a thread called `name` that does `work` on what is put in, until the queue ends. `room` items wait at most.
    /// [`Outbox::finish`] waits `patience` at most.
    ///
    /// # Errors
    /// If the system has no thread.
    pub fn start(
        name: &str,
        room: usize,
        patience: Duration,
        work: impl FnOnce(&Receiver<T>, &Closing) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, items) = mpsc::sync_channel(room);
        let (again, closing) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let run = move || {
            work(&items, &Closing(closing));
            drop(end);
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self {
            open: Mutex::new(Some(Open {
                queue,
                again,
                ended,
            })),
            patience,
        })
    }

    /// Puts `item` in. It does not block.
    ///
    /// # Errors
    /// With the item, if there is no room for it, or the outbox has finished.
    pub fn put(&self, item: T) -> Result<(), TrySendError<T>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.as_ref() {
            Some(open) => open.queue.try_send(item),
            None => Err(TrySendError::Disconnected(item)),
        }
    }

    /// Hands over what waits, each once, and then nothing more. It blocks, though not for ever.
    pub fn finish(&self) {
        let open = (self.open.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Open {
            queue,
            again,
            ended,
        }) = open
        {
            drop((queue, again));
            // Nothing is ever sent there.
            let _ = ended.recv_timeout(self.patience);
        }
    }
}
